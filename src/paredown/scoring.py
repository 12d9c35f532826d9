"""The arrow from a source to scores: fit a metric, then score every batch."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from itertools import chain, islice
from pathlib import Path
from shutil import rmtree
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from paredown import __version__
from paredown.checkpoint import Checkpoint
from paredown.data import Batch, Labels, Scored, Scores, hash_ids
from paredown.embedding import SHARD_TO_SCORE, embed_to_score
from paredown.encoders import Encoder, encode
from paredown.errors import PareError, unknown_name
from paredown.metrics import METRICS, Model
from paredown.progress import Track, silent
from paredown.sources import ImageSource, OnError, Source, VectorSource, open_source

__all__ = ["score"]

_PART_BATCHES = 32  # batches of 16 MiB between two checkpoints


def score(
    source: str | Path | ArrayLike | Source | Sequence[str | Path | Source],
    *,
    metric: str = "prototypes",
    labels: ArrayLike | Labels | None = None,
    ids: ArrayLike | None = None,
    seed: int = 0,
    encoder: str | Encoder | Callable[..., Any] = "auto",
    on_error: OnError = "raise",
    track: Track = silent,
    checkpoint: str | Path | None = None,
    keep_checkpoint: bool = False,
    embeddings: str | Path | None = None,
    **options: Any,
) -> Scores:
    """One score per example; higher is harder.

    Args:
        source: an array of embeddings, a path, or an opened source. Several paths or sources of the same examples are
            an ensemble, whose score is the mean over its members (appendix on ensembles of prototypes).
        metric: a name in `METRICS`.
        labels, ids: one per example, in place of the source's own.
        seed: decides samples and ties.
        encoder: how images become embeddings: a name in `paredown.encoders.ENCODERS`, or a function from a list of
            images to an array.
        on_error: `raise` at the first unreadable example, or `skip` it.
        track: reports progress.
        checkpoint: a folder for the finished parts of long work, such as the embeddings of many images: a run that was
            killed is finished from there by the same call. It is gone when the scores are complete.
        keep_checkpoint: leave that folder to the caller, who removes it when the scores are safe.
        embeddings: a folder for the embeddings of images, to stay: a store as `embed` makes it. One that is there
            already is used, and finished if need be; without it images are embedded in memory or in `checkpoint`.
        **options: the metric's own, such as `k`; see `METRICS[metric].options`.
    """
    if metric not in METRICS:
        raise unknown_name("metric", metric, METRICS)
    METRICS[metric].check_options(metric, options)
    if seed < 0:
        raise PareError(f"seed must not be negative, got {seed}.")
    if isinstance(source, Sequence) and source and all(isinstance(member, str | Path | Source) for member in source):
        members = list(source) if not isinstance(source, str) else [source]
    else:
        members = [source]
    scored: list[Scores] = []
    for member in members:
        opened = open_source(member, labels=labels, ids=ids, on_error=on_error)  # type: ignore[arg-type]
        if isinstance(member, Source) and labels is not None:
            opened = copy(opened)  # the caller's source keeps its own labels
            opened.labels = Labels.of(labels, length=len(opened))
        parts = None if checkpoint is None else Path(checkpoint) / str(len(scored))
        _check_labels(opened, metric)
        if embeddings is not None:
            _check_kept(opened, metric, len(members))
        if "embeddings" in METRICS[metric].needs and isinstance(opened, ImageSource):
            opened = _embedded(opened, embeddings, parts, encoder=encoder, seed=seed, on_error=on_error, track=track)
        scored.append(_score_one(opened, metric, seed, track, parts, options))
    if checkpoint is not None and not keep_checkpoint:
        rmtree(checkpoint, ignore_errors=True)
    return scored[0] if len(scored) == 1 else _ensemble(scored)


def _check_labels(source: Source, metric: str) -> None:
    if "labels" in METRICS[metric].needs and source.labels is None:
        raise PareError(
            f"metric {metric!r} needs labels, and {source.location} has none; give them, or use metric 'prototypes'."
        )


def _check_kept(source: Source, metric: str, members: int) -> None:
    """Raise where a folder for the embeddings of images has no sense."""
    if "embeddings" not in METRICS[metric].needs:
        raise PareError(f"metric {metric!r} does not look at embeddings; leave out the folder for them (--embeddings).")
    if not isinstance(source, ImageSource):
        raise PareError(
            f"{source.location}: these are embeddings already ({source.kind}); --embeddings is for those of images."
        )
    if members > 1:
        raise PareError(
            f"one folder holds the embeddings of one source, and {members} sources are given; embed each by itself."
        )


def _embedded(
    images: ImageSource, kept: str | Path | None, parts: Path | None, *, encoder: Any, **options: Any
) -> VectorSource:
    """The embeddings of images: in a store to stay, in one among the finished parts if they are many, or in memory."""
    if kept is not None:
        return embed_to_score(images, out=Path(kept), encoder=encoder, **options)
    if parts is not None and len(images) > SHARD_TO_SCORE:
        return embed_to_score(images, out=parts / "embeddings", encoder=encoder, **options)
    return encode(images, encoder=encoder, **options)


def _score_one(
    source: Source, metric: str, seed: int, track: Track, parts: Path | None, options: dict[str, Any]
) -> Scores:
    needs = METRICS[metric].needs
    settings = {
        "paredown": __version__,
        "metric": metric,
        "options": options,
        "seed": seed,
        "source": source.provenance(),
    }
    long = isinstance(source, VectorSource) and source.n_blocks > _PART_BATCHES
    checkpoint = Checkpoint(parts, settings) if long and parts is not None else None
    model = _fit(source, metric, seed, track, options, checkpoint)
    scored = _score_parts(model, source, needs, track, checkpoint)
    return Scores(
        values=np.concatenate([part.values for part in scored]),
        ids=source.ids,
        metric=metric,
        labels=source.labels,
        clusters=_clusters(scored),
        provenance={
            **settings,
            "report": model.report(),
            "warnings": list(source.warnings),
            "skipped": [list(item) for item in source.skipped],
        },
    )


def _fit(
    source: Source, metric: str, seed: int, track: Track, options: dict[str, Any], checkpoint: Checkpoint | None
) -> Model:
    """Fit the metric, or load the fit of an earlier run; metrics that cannot be loaded are fitted again."""
    entry = METRICS[metric]
    if checkpoint is None or entry.load is None:
        return entry.fit(source, seed=seed, track=track, **options)
    saved = checkpoint.load("model")
    if saved is not None:
        return entry.load(saved, json.loads(str(saved["report"])))
    model: Any = entry.fit(source, seed=seed, track=track, **options)
    checkpoint.save("model", {**model.arrays(), "report": np.array(json.dumps(model.report()))})
    return model


def _score_parts(
    model: Model, source: Source, needs: tuple[str, ...], track: Track, checkpoint: Checkpoint | None
) -> list[Scored]:
    """Score batch by batch; with a checkpoint, a finished part is some batches that are not scored again."""
    batches, total = _batches(source, needs)
    steady = track(batches, "scoring", total=total)
    if checkpoint is None:
        return [model.score(batch) for batch in steady]
    parts: list[Scored] = []
    while (first := next(steady, None)) is not None:
        some = chain([first], islice(steady, _PART_BATCHES - 1))
        name = f"{len(parts):06d}"
        saved: dict[str, Any] | None = checkpoint.load(name)
        if saved is None:
            scored = [model.score(batch) for batch in some]
            clusters = _clusters(scored)
            saved = {"values": np.concatenate([part.values for part in scored])}
            saved |= {} if clusters is None else {"clusters": clusters}
            checkpoint.save(name, saved)
        else:
            deque(some, maxlen=0)  # read past them
        parts.append(Scored(saved["values"], saved.get("clusters")))
    return parts


def _batches(source: Source, needs: tuple[str, ...]) -> tuple[Iterator[Batch], int]:
    """Batches of embeddings, or one batch of ids alone for a metric that does not look at the data."""
    if "embeddings" in needs and isinstance(source, VectorSource):
        return source.batches(), source.n_blocks
    nothing = np.empty((len(source), 0), np.float32)
    return iter([Batch(source.ids, nothing, None if source.labels is None else source.labels.codes)]), 1


def _clusters(scored: list[Scored]) -> Any:
    parts = [s.clusters for s in scored if s.clusters is not None]
    return np.concatenate(parts) if parts else None


def _ensemble(members: list[Scores]) -> Scores:
    """The mean of the members' scores, matched by id; clusters and labels are those of the first member."""
    first = members[0]
    order = np.argsort(hash_ids(first.ids, seed=0))
    total = first.values.astype(np.float64)
    for member in members[1:]:
        other = np.argsort(hash_ids(member.ids, seed=0))
        if len(other) != len(order) or np.any(member.ids[other] != first.ids[order]):
            raise PareError(
                f"an ensemble needs the same examples in every source; {first.provenance['source']['location']} has "
                f"{len(first)} and {member.provenance['source']['location']} has {len(member)}, or other ids."
            )
        total[order] += member.values[other]
    provenance = first.provenance | {"ensemble": [member.provenance["source"] for member in members]}
    return Scores(total / len(members), first.ids, first.metric, first.labels, first.clusters, provenance)
