"""How far to trust scores from an ensemble: whether two halves of its models rank the examples alike."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

import numpy as np

from paredown.correlations import rank_correlation
from paredown.metrics.prediction_arrays import Values

STEADY = 0.7  # reliability below which scores carry a warning
NOISY = 0.3  # and that below which they are noise, and correlate with nothing


class Trust(StrEnum):
    """What a reliability says of scores."""

    RELIABLE = "reliable"
    UNRELIABLE = "unreliable"
    NOISE = "mostly noise"


@dataclass(frozen=True)
class Reliability:
    """How alike two halves of some models rank the examples, and what follows for the scores of all of them."""

    models: int
    split_half: float  # rank correlation of the halves

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> Reliability | None:
        """As the report of a metric has it; None where it was not measured."""
        models, half = report.get("models"), report.get("split_half")
        return None if models is None or half is None else cls(models, half)

    @property
    def value(self) -> float:
        """The reliability of the whole, 1 at most."""
        return spearman_brown(self.split_half)

    @property
    def trust(self) -> Trust:
        if self.value >= STEADY:
            return Trust.RELIABLE
        return Trust.UNRELIABLE if self.value >= NOISY else Trust.NOISE

    @property
    def models_needed(self) -> int | None:
        """How many models would have steady scores by the Spearman-Brown formula; None if there is no saying."""
        if self.value <= 0:
            return None
        return math.ceil(self.models * STEADY * (1 - self.value) / (self.value * (1 - STEADY)))

    def __str__(self) -> str:
        return f"reliability {self.value:.2f}, half-to-half correlation {self.split_half:.2f}"

    def warning(self, metric: str) -> str | None:
        """What to know and do about scores that are not reliable."""
        if self.trust is Trust.RELIABLE:
            return None
        needed = self.models_needed
        advice = f"about {needed:,} models would reach {STEADY}" if needed else "use another metric"
        return f"scores of {metric} from {self.models} models are {self.trust} ({self}); {advice}."


def split_half(halves: Sequence[Values]) -> float:
    """Spearman's correlation of the scores from two halves of the models, over the examples that both could score."""
    first, second = halves
    both = np.isfinite(first) & np.isfinite(second)
    return rank_correlation(first[both], second[both], constant=0.0) if both.sum() > 2 else 0.0


def spearman_brown(half: float) -> float:
    """The reliability of the whole from the correlation of its halves."""
    return 2 * half / (1 + half) if half > 0 else 0.0


def reliability_facts(metric: str, halves: Sequence[Values] | None, models: int) -> dict[str, Any]:
    """What a user should know of scores: how many models, how reliable, and a warning where it is not.

    `halves` are the scores from either half of the models, if there are any, which tell how far to trust the whole.
    """
    if halves is None:
        return {"models": models}
    found = Reliability(models, split_half(halves))
    warning = found.warning(metric)
    facts: dict[str, Any] = {"models": models, "split_half": found.split_half, "reliability": found.value}
    return facts if warning is None else facts | {"warnings": [warning]}
