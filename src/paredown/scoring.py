"""The arrow from a source to scores: fit a metric, then score every batch."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
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
from paredown.io import check_output
from paredown.metrics import METRICS, Metric, Model
from paredown.models import FittedModel, can_be_saved, read_model, write_model
from paredown.progress import Track, silent
from paredown.sources import ImageSource, OnError, Source, VectorSource, open_source

__all__ = ["score"]

_PART_BATCHES = 32  # batches of 16 MiB between two checkpoints


def score(
    source: str | Path | ArrayLike | Source | Sequence[str | Path | Source],
    *,
    metric: str | None = None,
    labels: ArrayLike | Labels | None = None,
    ids: ArrayLike | None = None,
    seed: int = 0,
    encoder: str | Encoder | Callable[..., Any] = "auto",
    on_error: OnError = "raise",
    track: Track = silent,
    checkpoint: str | Path | None = None,
    model: str | Path | FittedModel | None = None,
    start: str | Path | FittedModel | None = None,
    save_model: str | Path | None = None,
    overwrite: bool = False,
    **options: Any,
) -> Scores:
    """One score per example; higher is harder.

    Args:
        source: an array of embeddings, a path, or an opened source. Several paths or sources of the same examples are
            an ensemble, whose score is the mean over its members (appendix on ensembles of prototypes).
        metric: a name in `METRICS`; `prototypes` unless a model says otherwise.
        labels, ids: one per example, in place of the source's own.
        seed: decides samples and ties.
        encoder: how images become embeddings: a name in `paredown.encoders.ENCODERS`, or a function from a list of
            images to an array.
        on_error: `raise` at the first unreadable example, or `skip` it.
        track: reports progress.
        checkpoint: a folder for the finished parts of long work: a run that was killed is finished from there by the
            same call. It is gone when the scores are complete.
        model: a model fitted before, or its file: nothing is fitted, and each row is scored as it says.
        start: a model, or its file, whose centroids the clustering begins with.
        save_model: a file to write the fitted model to.
        overwrite: replace an existing `save_model`.
        **options: the metric's own, such as `k`; see `METRICS[metric].options`.
    """
    given, begin = (read_model(m) if isinstance(m, str | Path) else m for m in (model, start))
    metric = _check_models(metric, given, begin, save_model, options, overwrite=overwrite)
    if seed < 0:
        raise PareError(f"seed must not be negative, got {seed}.")
    if isinstance(source, Sequence) and source and all(isinstance(member, str | Path | Source) for member in source):
        members = list(source) if not isinstance(source, str) else [source]
    else:
        members = [source]
    if len(members) > 1 and not given is begin is save_model is None:
        raise PareError("a model belongs to one source; score the members of an ensemble one at a time with models.")
    scored: list[Scores] = []
    for member in members:
        opened = open_source(member, labels=labels, ids=ids, on_error=on_error)  # type: ignore[arg-type]
        if isinstance(member, Source) and labels is not None:
            opened = copy(opened)  # the caller's source keeps its own labels
            opened.labels = Labels.of(labels, length=len(opened))
        parts = None if checkpoint is None else Path(checkpoint) / str(len(scored))
        job = _Job(metric, seed, encoder, on_error, track, parts, options, given, begin)
        scores, fitted = job.run(opened)
        if save_model is not None:
            write_model(fitted, save_model, overwrite=overwrite)
            scores.provenance["saved_model"] = fitted.fingerprint
        scored.append(scores)
    if checkpoint is not None:
        rmtree(checkpoint, ignore_errors=True)
    return scored[0] if len(scored) == 1 else _ensemble(scored)


def _check_models(
    metric: str | None,
    model: FittedModel | None,
    start: FittedModel | None,
    save_model: str | Path | None,
    options: dict[str, Any],
    *,
    overwrite: bool,
) -> str:
    """The metric's name, once it, its options and the models are known to go together."""
    name = metric or (model.metric if model is not None else "prototypes")
    if name not in METRICS:
        raise unknown_name("metric", name, METRICS)
    METRICS[name].check_options(name, options)
    if model is not None:
        if model.metric != name:
            raise PareError(f"the model is of metric {model.metric!r}, and {name!r} was asked; leave the metric out.")
        if start is not None or save_model is not None:
            given = "start (--warm-start)" if start is not None else "save_model (--save-model)"
            raise PareError(f"a given model is not fitted again; leave out {given}, or the model.")
        model.check_options(options)
    if start is not None:
        if not METRICS[name].can_start:
            able = ", ".join(other for other, entry in METRICS.items() if entry.can_start)
            raise PareError(f"metric {name!r} has no centroids to start from a model; those that have: {able}.")
        _ = start.centroids
    if save_model is not None:
        can_be_saved(name)
        check_output(Path(save_model), overwrite=overwrite)
    return name


@dataclass(frozen=True)
class _Job:
    """Scoring one source: everything but the source."""

    metric: str
    seed: int
    encoder: Any
    on_error: OnError
    track: Track
    parts: Path | None
    options: dict[str, Any]
    model: FittedModel | None
    start: FittedModel | None

    def run(self, source: Source) -> tuple[Scores, FittedModel]:
        """The scores, and the model that made them."""
        needs = METRICS[self.metric].needs
        if "labels" in needs and source.labels is None:
            raise PareError(
                f"metric {self.metric!r} needs labels, and {source.location} has none; give them, or use metric "
                f"'prototypes'."
            )
        if "embeddings" in needs and isinstance(source, ImageSource):
            source = encode(source, encoder=self.encoder, seed=self.seed, on_error=self.on_error, track=self.track)
        settings = {
            "paredown": __version__,
            "metric": self.metric,
            "options": self.options,
            "seed": self.seed,
            "source": source.provenance(),
        }
        if self.start is not None:
            settings["start"] = self.start.summary()
        fit_settings = dict(settings)
        if self.model is not None:
            settings["model"] = self.model.summary()
        long = isinstance(source, VectorSource) and source.n_blocks > _PART_BATCHES
        checkpoint = Checkpoint(self.parts, settings) if long and self.parts is not None else None
        fitted = self._given(source) if self.model is not None else self._fitted(source, fit_settings, checkpoint)
        scored = _score_parts(fitted.model, _with_classes_of(fitted, source), needs, self.track, checkpoint)
        scores = Scores(
            values=np.concatenate([part.values for part in scored]),
            ids=source.ids,
            metric=self.metric,
            labels=source.labels,
            clusters=_clusters(scored),
            provenance={
                **settings,
                "report": fitted.model.report(),
                "warnings": [*source.warnings, *_encoder_warning(fitted, source)],
                "skipped": [list(item) for item in source.skipped],
            },
        )
        return scores, fitted

    def _given(self, source: Source) -> FittedModel:
        assert self.model is not None
        if isinstance(source, VectorSource):
            self.model.check_dim(source.dim, source.location)
        return self.model.with_options(self.options)

    def _fitted(self, source: Source, settings: dict[str, Any], checkpoint: Checkpoint | None) -> FittedModel:
        entry, options = METRICS[self.metric], dict(self.options)
        dim = source.dim if isinstance(source, VectorSource) else 0
        if self.start is not None:
            self.start.check_dim(dim, source.location)
            options["start"] = self.start.centroids
        classes = source.labels.classes if "labels" in entry.needs and source.labels is not None else None
        fit = lambda: entry.fit(source, seed=self.seed, track=self.track, **options)
        return FittedModel(self.metric, _fit_once(entry, fit, checkpoint), dim, classes, settings)


def _fit_once(entry: Metric, fit: Callable[[], Any], checkpoint: Checkpoint | None) -> Model:
    """Fit the metric, or load the fit of an earlier run; metrics that cannot be loaded are fitted again."""
    if checkpoint is None or entry.load is None:
        return fit()
    saved = checkpoint.load("model")
    if saved is not None:
        return entry.load(saved, json.loads(str(saved["report"])))
    model = fit()
    checkpoint.save("model", {**model.arrays(), "report": np.array(json.dumps(model.report()))})
    return model


def _with_classes_of(fitted: FittedModel, source: Source) -> Source:
    """The source with its classes numbered as in the model, where the model knows classes."""
    if fitted.classes is None or source.labels is None or source.labels.classes == fitted.classes:
        return source
    renumbered = copy(source)
    renumbered.labels = fitted.labels_for(source.labels, source.location)
    return renumbered


def _encoder_warning(fitted: FittedModel, source: Source) -> list[str]:
    before, now = (p.get("encoder") for p in (fitted.provenance.get("source", {}), source.provenance()))
    if before == now or before is None or now is None:
        return []
    return [f"the model was fitted to embeddings by {before}, and these are by {now}: they may not be comparable"]


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
