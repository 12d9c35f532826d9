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
from paredown.encoders import Encoder, encode
from paredown.errors import PareError, unknown_name
from paredown.metrics import METRICS, Model
from paredown.progress import Track, silent
from paredown.sources import ImageSource, OnError, Source, VectorSource, open_source
from paredown.train.recipes import Recipe

__all__ = ["score", "score_all"]

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
        checkpoint: a folder for the finished parts of long work: a run that was killed is finished from there by the
            same call. It is gone when the scores are complete.
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
    scored = []
    for member in members:
        opened = _relabelled(open_source(member, labels=labels, ids=ids, on_error=on_error), member, labels)  # type: ignore[arg-type]
        parts = None if checkpoint is None else Path(checkpoint) / str(len(scored))
        scored += _score_together(opened, [metric], seed, encoder, on_error, track, parts, options)
    if checkpoint is not None:
        rmtree(checkpoint, ignore_errors=True)
    return scored[0] if len(scored) == 1 else _ensemble(scored)


def score_all(
    source: str | Path | ArrayLike | Source,
    *,
    metrics: Sequence[str],
    labels: ArrayLike | Labels | None = None,
    ids: ArrayLike | None = None,
    seed: int = 0,
    encoder: str | Encoder | Callable[..., Any] = "auto",
    on_error: OnError = "raise",
    track: Track = silent,
    checkpoint: str | Path | None = None,
    **options: Any,
) -> dict[str, Scores]:
    """Several metrics of the same examples by name; those that are read off the same training share it.

    The arguments are those of `score`; every metric takes those of the options that it has.
    """
    for metric in metrics:
        if metric not in METRICS:
            raise unknown_name("metric", metric, METRICS)
    for option in options:
        if not any(option in METRICS[metric].options for metric in metrics):
            raise PareError(f"none of the metrics {', '.join(metrics)} has an option {option!r}.")
    opened = _relabelled(open_source(source, labels=labels, ids=ids, on_error=on_error), source, labels)  # type: ignore[arg-type]
    if isinstance(opened, ImageSource) and all("embeddings" in METRICS[name].needs_with(options) for name in metrics):
        opened = encode(opened, encoder=encoder, seed=seed, on_error=on_error, track=track)
    groups: dict[Any, list[str]] = {}
    for metric in dict.fromkeys(metrics):
        groups.setdefault(METRICS[metric].together or metric, []).append(metric)
    found: dict[str, Scores] = {}
    for names in groups.values():
        parts = None if checkpoint is None else Path(checkpoint) / "-".join(names)
        own = {name: value for name, value in options.items() if name in METRICS[names[0]].options}
        scored = _score_together(opened, names, seed, encoder, on_error, track, parts, own)
        found |= dict(zip(names, scored, strict=True))
    if checkpoint is not None:
        rmtree(checkpoint, ignore_errors=True)
    return {metric: found[metric] for metric in metrics}


def _relabelled(opened: Source, given: Any, labels: ArrayLike | Labels | None) -> Source:
    """A source with other labels; the caller's own source keeps its own."""
    if not isinstance(given, Source) or labels is None:
        return opened
    opened = copy(opened)
    opened.labels = Labels.of(labels, length=len(opened))
    return opened


def _score_together(
    source: Source,
    metrics: list[str],
    seed: int,
    encoder: Any,
    on_error: OnError,
    track: Track,
    parts: Path | None,
    options: dict[str, Any],
) -> list[Scores]:
    """One metric, or several that are fitted together."""
    needs = METRICS[metrics[0]].needs_with(options)
    if "labels" in needs and source.labels is None:
        instead = ", or let clusters take their place with pseudo_labels" if "training" in needs else ""
        raise PareError(
            f"metric {metrics[0]!r} needs labels, and {source.location} has none; give them{instead}, "
            f"or use metric 'prototypes'."
        )
    if "embeddings" in needs and isinstance(source, ImageSource):
        source = encode(source, encoder=encoder, seed=seed, on_error=on_error, track=track)
    settings = {
        "paredown": __version__,
        "metric": ", ".join(metrics),
        "options": {name: _plain(value) for name, value in options.items()},
        "seed": seed,
        "source": source.provenance(),
    }
    long = "training" in needs or (isinstance(source, VectorSource) and source.n_blocks > _PART_BATCHES)
    checkpoint = Checkpoint(parts, settings) if long and parts is not None else None
    models = _fit(source, metrics, seed, track, options, checkpoint)
    scores = []
    for metric, model in models.items():
        scored = _score_parts(model, source, needs, track, checkpoint if len(models) == 1 else None)
        record = {
            **settings,
            "metric": metric,
            "report": model.report(),
            "warnings": [*source.warnings, *model.report().get("warnings", ())],
            "skipped": [list(item) for item in source.skipped],
        }
        values = np.concatenate([part.values for part in scored])
        scores.append(Scores(values, source.ids, metric, source.labels, _clusters(scored), record))
    return scores


def _fit(
    source: Source, metrics: list[str], seed: int, track: Track, options: dict[str, Any], checkpoint: Checkpoint | None
) -> dict[str, Model]:
    """Fit the metrics, or load the fit of an earlier run; metrics that cannot be loaded are fitted again."""
    name, entry = metrics[0], METRICS[metrics[0]]
    if "training" in entry.needs:  # keeps finished networks by itself
        options = options | {"checkpoint": checkpoint}
    if len(metrics) > 1:
        assert entry.together is not None
        return entry.together(source, metrics=metrics, seed=seed, track=track, **options)
    if checkpoint is None or entry.load is None:
        return {name: entry.fit(source, seed=seed, track=track, **options)}
    saved = checkpoint.load("model")
    if saved is not None:
        return {name: entry.load(saved, json.loads(str(saved["report"])))}
    model: Any = entry.fit(source, seed=seed, track=track, **options)
    checkpoint.save("model", {**model.arrays(), "report": np.array(json.dumps(model.report()))})
    return {name: model}


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
    """Batches of embeddings, or one batch of ids alone for a metric that does not look at the data any more."""
    if "embeddings" in needs and "training" not in needs and isinstance(source, VectorSource):
        return source.batches(), source.n_blocks
    nothing = np.empty((len(source), 0), np.float32)
    return iter([Batch(source.ids, nothing, None if source.labels is None else source.labels.codes)]), 1


def _plain(option: Any) -> Any:
    """An option as a record can hold it."""
    if isinstance(option, Source):
        return option.provenance()
    if isinstance(option, Recipe):
        return option.settings()
    return str(option) if isinstance(option, Path) else option


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
