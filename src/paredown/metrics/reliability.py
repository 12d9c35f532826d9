"""How far to trust scores from an ensemble: whether two halves of its models rank the examples alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from paredown.correlations import rank_correlation
from paredown.metrics.prediction_arrays import Values

_STEADY = 0.7  # the reliability below which the result carries a warning
_NOISE = 0.3  # and that below which the warning says noise


def split_half(halves: Sequence[Values]) -> float:
    """Spearman's correlation of the scores from two halves of the models, over the examples that both could score."""
    first, second = halves
    both = np.isfinite(first) & np.isfinite(second)
    return rank_correlation(first[both], second[both], constant=0.0) if both.sum() > 2 else 0.0


def spearman_brown(half: float) -> float:
    """The reliability of the whole from the correlation of its halves."""
    return 2 * half / (1 + half) if half > 0 else 0.0


def models_needed(models: int, reliability: float) -> int | None:
    """How many models would have steady scores by the Spearman-Brown formula; None if there is no saying."""
    if reliability <= 0:
        return None
    return math.ceil(models * _STEADY * (1 - reliability) / (reliability * (1 - _STEADY)))


def reliability_facts(metric: str, halves: Sequence[Values] | None, models: int) -> dict[str, Any]:
    """What a user should know of scores: how many models, how reliable, and a warning where it is not.

    `halves` are the scores from either half of the models, if there are any, which tell how far to trust the whole.
    """
    if halves is None:
        return {"models": models}
    half = split_half(halves)
    whole = spearman_brown(half)
    facts: dict[str, Any] = {"models": models, "split_half": half, "reliability": whole}
    if whole < _STEADY:
        needed = models_needed(models, whole)
        what = "noise" if whole < _NOISE else "unsteady"
        how_many = f"about {needed} models would be needed" if needed else "no number of models can be named"
        facts["warnings"] = [
            f"{metric} from {models} models is {what}: reliability {whole:.2f} (two halves of the models correlate by "
            f"{half:.2f}); for {_STEADY} {how_many}, by the Spearman-Brown formula."
        ]
    return facts
