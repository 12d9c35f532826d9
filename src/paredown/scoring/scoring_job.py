"""One source scored by one metric, or by several that are fitted together: a fit, then every batch.

Long work leaves finished parts in a checkpoint, from which a run that was killed goes on.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np

from paredown.checkpoint import Checkpoint
from paredown.metrics import METRICS, Metric, Model
from paredown.progress import Track
from paredown.score_warnings import score_warnings
from paredown.scores import Batch, Scored, Scores
from paredown.scoring.saved_models import FittedModel
from paredown.sources import Source, VectorSource
from paredown.training.recipes import Recipe
from paredown.version import __version__

_PART_BATCHES = 32  # batches of 16 MiB between two checkpoints


@dataclass(frozen=True)
class Job:
    """Scoring one source: everything but the source, which is in the form that the metrics need.

    Several metrics have the same `together`. A `model` is not fitted again; a fit begins with the centroids of `start`.
    """

    metrics: tuple[str, ...]
    options: dict[str, Any]
    seed: int
    track: Track
    parts: Path | None  # where finished parts of long work are kept
    model: FittedModel | None = None
    start: FittedModel | None = None
    trusted: bool = False  # a source that was copied or touched since an unfinished run began

    def run(self, source: Source) -> list[tuple[Scores, FittedModel]]:
        """The scores by each metric, and the model that made them."""
        needs = METRICS[self.metrics[0]].needs_with(self.options)
        settings = {
            "paredown": __version__,
            "metric": ", ".join(self.metrics),
            "options": recorded_options(self.options),
            "seed": self.seed,
            "source": source.provenance(),
        }
        if self.start is not None:
            settings["start"] = self.start.summary()
        fit_settings = dict(settings)
        if self.model is not None:
            settings["model"] = self.model.summary()
        long = "training" in needs or (isinstance(source, VectorSource) and source.n_blocks > _PART_BATCHES)
        checkpoint = None
        if long and self.parts is not None:
            # Without the name of the encoder, which `encoder` describes, to finish runs begun before it was recorded.
            known = {name: fact for name, fact in settings["source"].items() if name != "encoder_name"}
            decided = settings | {"source": known}
            checkpoint = Checkpoint(self.parts, decided, source=source.state(), trusted=self.trusted)
        if self.model is None:
            models = self._fitted(source, fit_settings, checkpoint)
        else:
            if isinstance(source, VectorSource):
                self.model.check_dim(source.dim, source.location)
            models = [self.model.with_options(self.options)]
        return [
            (self._scores(fitted, source, needs, settings, checkpoint if len(models) == 1 else None), fitted)
            for fitted in models
        ]

    def _scores(
        self,
        fitted: FittedModel,
        source: Source,
        needs: tuple[str, ...],
        settings: dict[str, Any],
        checkpoint: Checkpoint | None,
    ) -> Scores:
        scored = _score_parts(fitted.model, _with_classes_of(fitted, source), needs, self.track, checkpoint)
        report = fitted.model.report()
        values = np.concatenate([part.values for part in scored])
        warnings = [*source.warnings, *report.get("warnings", ()), *_encoder_warning(fitted, source)]
        return Scores(
            values=values,
            ids=source.ids,
            metric=fitted.metric,
            labels=source.labels,
            clusters=_clusters(scored),
            provenance={
                **settings,
                "metric": fitted.metric,
                "report": report,
                "warnings": [*warnings, *score_warnings(values)],
                "skipped": [list(item) for item in source.skipped],
            },
        )

    def _fitted(self, source: Source, settings: dict[str, Any], checkpoint: Checkpoint | None) -> list[FittedModel]:
        entry, options = METRICS[self.metrics[0]], dict(self.options)
        dim = source.dim if isinstance(source, VectorSource) else 0
        if self.start is not None:
            self.start.check_dim(dim, source.location)
            options["start"] = self.start.centroids
        if "training" in entry.needs:  # keeps finished networks by itself
            options["checkpoint"] = checkpoint
        if len(self.metrics) > 1:
            assert entry.together is not None
            models = entry.together(source, metrics=self.metrics, seed=self.seed, track=self.track, **options)
        else:
            fit = lambda: entry.fit(source, seed=self.seed, track=self.track, **options)
            models = dict.fromkeys(self.metrics, _fit_once(entry, fit, checkpoint))  # the only one
        # Only scores that are made anew for every row need the classes of the rows.
        by_class = "labels" in entry.needs and "training" not in entry.needs and source.labels is not None
        classes = source.labels.classes if by_class and source.labels is not None else None
        return [FittedModel(name, models[name], dim, classes, settings | {"metric": name}) for name in self.metrics]


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
    """Batches of embeddings, or one batch of ids alone for a metric that does not look at the data any more."""
    if "embeddings" in needs and "training" not in needs and isinstance(source, VectorSource):
        return source.batches(), source.n_blocks
    nothing = np.empty((len(source), 0), np.float32)
    return iter([Batch(source.ids, nothing, None if source.labels is None else source.labels.codes)]), 1


def _clusters(scored: list[Scored]) -> Any:
    parts = [s.clusters for s in scored if s.clusters is not None]
    return np.concatenate(parts) if parts else None


def recorded_options(options: dict[str, Any]) -> dict[str, Any]:
    """The options of a metric as a record holds them."""
    return {name: _plain(value) for name, value in options.items()}


def _plain(option: Any) -> Any:
    if isinstance(option, Source):
        return option.provenance()
    if isinstance(option, Recipe):
        return option.settings()
    return str(option) if isinstance(option, Path) else option
