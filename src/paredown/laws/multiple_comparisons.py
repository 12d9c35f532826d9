"""P-values of differences over few seeds, by Student's t, and Holm's correction for how many of them there are."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from scipy.special import stdtr


class HolmStep(NamedTuple):
    """What makes a p-value one of several."""

    comparisons: int  # that were not decided by smaller p-values
    floor: float  # the corrected p-value of the comparison before it

    def correct(self, p_value: float) -> float:
        """The corrected p-value; NaN of NaN."""
        return min(1.0, max(self.floor, self.comparisons * p_value)) if p_value >= 0 else math.nan


def student_p_value(z: float, seeds: int) -> float:
    """How likely a difference of so many standard errors, or a larger one, is by chance; NaN where it is unknown.

    A Gaussian would call three standard errors of four seeds p = 0.003; it is p = 0.06.
    """
    return float(2 * stdtr(seeds - 1, -abs(z))) if seeds > 1 else math.nan


def holm(p_values: Sequence[float]) -> list[HolmStep]:
    """The smallest p-value counts times their number, the next times one less, and so on; NaN is left out."""
    known = [number for number, p in enumerate(p_values) if p >= 0]
    steps = [HolmStep(1, 0.0)] * len(p_values)
    floor = 0.0
    for done, number in enumerate(sorted(known, key=lambda number: p_values[number])):
        steps[number] = HolmStep(len(known) - done, floor)
        floor = steps[number].correct(p_values[number])
    return steps
