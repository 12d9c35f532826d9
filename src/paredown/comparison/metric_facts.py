"""What each of the compared metrics needs and costs, and how reliable its scores are, as far as is known."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from paredown.metrics.registry import METRICS
from paredown.scores import Scores
from paredown.scoring.costs import plan_trainings


@dataclass(frozen=True)
class MetricFacts:
    """One of the compared metrics. What is not known is None.

    Attributes:
        name: what it is called in the comparison.
        metric: its name in `METRICS`, if it is there.
        needs: of "embeddings", "labels", "training".
        cost: what it takes, in words, with the metric's own defaults.
        networks: how many were trained for these scores, by their provenance.
        usual_networks: how many the metric trains by default; 0 if none.
        reliability: of these scores, by their provenance: the correlation of two halves of the networks, stepped up to
            all of them by the Spearman-Brown formula.
        largest_tie: how many examples have the score that most of them have.
    """

    name: str
    metric: str | None
    needs: tuple[str, ...] | None
    cost: str | None
    networks: int | None
    usual_networks: int | None
    reliability: float | None
    largest_tie: int


def metric_facts(name: str, scores: Scores, *, largest_tie: int) -> MetricFacts:
    """What the registry and the provenance of some scores say."""
    metric = str(scores.provenance.get("metric", scores.metric))
    entry = METRICS.get(metric)
    report = scores.provenance.get("report")
    report = report if isinstance(report, dict) else {}
    models, folds, reliability = (_number(report.get(key)) for key in ("models", "folds", "reliability"))
    usual = None
    if entry is not None:
        trained = plan_trainings([metric], len(scores)) if entry.trains is not None else ()
        usual = sum(training.models for training in trained)
    return MetricFacts(
        name,
        metric if entry is not None else None,
        None if entry is None else entry.needs,
        None if entry is None else entry.cost,
        None if models is None else round(models * (folds or 1)),  # each of the models is trained without each fold
        usual,
        reliability,
        largest_tie,
    )


def _number(value: Any) -> float | None:
    """A number of a record, which anyone may have written."""
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    return float(value) if number else None
