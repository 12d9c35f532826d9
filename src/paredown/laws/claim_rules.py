"""Rules that judge a claim from a few seeds, able to say yes, no and neither.

Every rule is the same idea: a claim says that a number lies in a region (below zero, within a margin, above a level),
and the seeds give an interval for that number, by Student's t. The claim is held if the interval lies inside the
region, contradicted if it lies outside, and otherwise the data cannot tell. Each end of the interval is wrong with a
chance of 5 %, so a false claim is held, and a true one contradicted, in at most 5 % of all cases. A test that is not
significant is never read as "no difference": that takes a margin, and an interval inside it (two one-sided tests).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import nct, t

from paredown.errors import PareError
from paredown.standard_errors import standard_error

FALSE_ALARM = 0.05  # chance of each wrong answer, at most
FEWEST_SEEDS = 3  # that decide anything; two always lie on one side of their mean each, whatever they measure


class ClaimVerdict(Enum):
    """What data say about a claim."""

    HELD = "held"
    CONTRADICTED = "contradicted"
    CANNOT_TELL = "cannot tell"  # the data are too few or too noisy
    NOT_TESTABLE = "not testable here"  # needs data or hardware that this size does not use


@dataclass(frozen=True)
class Region:
    """Where a number lies if a claim is true, ends included."""

    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise PareError(f"a region goes from low to high, got {self.low:g} and {self.high:g}.")


@dataclass(frozen=True)
class Finding:
    """A verdict with the numbers behind it."""

    verdict: ClaimVerdict
    value: float  # mean over the seeds
    low: float  # limits of the interval that decided, each wrong with a chance of 5 % at most
    high: float
    stderr: float
    seeds: int
    region: Region

    def power(self, value: float) -> float:
        """How likely this rule says "held" if the true number is `value`, with as many seeds and as much noise."""
        return power(self.region, value, self.stderr * math.sqrt(self.seeds), self.seeds)


def judge(
    values: ArrayLike, region: Region, *, points: int = 1, all_must_hold: bool = True, level: float = FALSE_ALARM
) -> Finding:
    """Whether the mean of one number per seed lies in a region.

    Args:
        values: one number per seed.
        region: where the claim says it lies.
        points: of a claim on several points, how many; the level is corrected for them (Bonferroni).
        all_must_hold: whether such a claim is true if it is true everywhere, so that one contradiction among many
            must be beyond chance; if not, it is true if it is true somewhere, and one success must be.
        level: chance of each wrong answer if the numbers are independent and Gaussian.
    """
    given = np.asarray(values, dtype=float).ravel()
    given = given[~np.isnan(given)]
    seeds = len(given)
    mean = float(given.mean()) if seeds else math.nan
    error = float(standard_error(given))
    if seeds < FEWEST_SEEDS or not error > 0:  # seeds without any spread say nothing about the noise
        return Finding(ClaimVerdict.CANNOT_TELL, mean, math.nan, math.nan, error, seeds, region)
    single = float(t.isf(level, seeds - 1)) * error
    several = float(t.isf(level / points, seeds - 1)) * error
    to_hold, to_contradict = (single, several) if all_must_hold else (several, single)
    if region.low <= mean - to_hold and mean + to_hold <= region.high:
        return Finding(ClaimVerdict.HELD, mean, mean - to_hold, mean + to_hold, error, seeds, region)
    outside = mean + to_contradict < region.low or mean - to_contradict > region.high
    verdict = ClaimVerdict.CONTRADICTED if outside else ClaimVerdict.CANNOT_TELL
    return Finding(verdict, mean, mean - to_contradict, mean + to_contradict, error, seeds, region)


def power(region: Region, value: float, spread: float, seeds: int) -> float:
    """How likely `judge` says "held" if the numbers are Gaussian around `value` with standard deviation `spread`.

    Exact for a region with one end, by the noncentral t distribution. For a margin on both sides it is the chance that
    both ends are met, at least (Bonferroni).
    """
    if seeds < FEWEST_SEEDS:
        return 0.0
    limit, scale = t.isf(FALSE_ALARM, seeds - 1), math.sqrt(seeds) / spread
    missed = 0.0
    for room in (value - region.low, region.high - value):
        if math.isfinite(room):
            missed += float(nct.cdf(limit, seeds - 1, room * scale))
    return max(0.0, 1 - missed)


def seeds_needed(region: Region, value: float, spread: float, *, wanted: float = 0.8, most: int = 10_000) -> int | None:
    """The fewest seeds with which `judge` says "held" with the wanted power; None if `most` are too few."""
    return next((n for n in range(FEWEST_SEEDS, most + 1) if power(region, value, spread, n) >= wanted), None)


# --- the kinds of claims -------------------------------------------------------------------------------------------


def better_than(differences: ArrayLike, *, least: float = 0.0, points: int = 1, all_must_hold: bool = True) -> Finding:
    """Whether an error is lower than another: `differences` per seed, own minus other, are below `-least`."""
    return judge(differences, Region(high=-least), points=points, all_must_hold=all_must_hold)


def no_worse_than(differences: ArrayLike, margin: float, *, points: int = 1) -> Finding:
    """Whether an error is at most `margin` above another ("costs nothing", "does not hurt")."""
    return judge(differences, Region(high=_positive(margin)), points=points)


def equivalent_to(differences: ArrayLike, margin: float, *, points: int = 1) -> Finding:
    """Whether two numbers are equal up to a margin ("matches", "neither better nor worse"): two one-sided tests."""
    return judge(differences, Region(-_positive(margin), margin), points=points)


def correlated_above(correlations: ArrayLike, least: float, *, points: int = 1) -> Finding:
    """Whether a correlation, measured once per seed or scoring, is above a level; judged as Fisher's arctanh."""
    values = np.arctanh(np.clip(np.asarray(correlations, dtype=float), -1 + 1e-12, 1 - 1e-12))
    found = judge(values, Region(low=math.atanh(least)), points=points)
    value, low, high = (math.tanh(each) for each in (found.value, found.low, found.high))
    return Finding(found.verdict, value, low, high, found.stderr, found.seeds, Region(low=least))


def every(findings: Sequence[Finding]) -> ClaimVerdict:
    """The verdict on a claim on every one of several points, each judged with `points` and `all_must_hold`."""
    return _joint(findings, ClaimVerdict.CONTRADICTED, ClaimVerdict.HELD)


def some(findings: Sequence[Finding]) -> ClaimVerdict:
    """The verdict on a claim that holds at one point or more, each judged with `points` and not `all_must_hold`."""
    return _joint(findings, ClaimVerdict.HELD, ClaimVerdict.CONTRADICTED)


def _joint(findings: Sequence[Finding], one_is_enough: ClaimVerdict, all_are_needed: ClaimVerdict) -> ClaimVerdict:
    verdicts = [found.verdict for found in findings]
    if not verdicts:
        return ClaimVerdict.NOT_TESTABLE
    if one_is_enough in verdicts:
        return one_is_enough
    return all_are_needed if all(each is all_are_needed for each in verdicts) else ClaimVerdict.CANNOT_TELL


def _positive(margin: float) -> float:
    if not margin > 0:
        raise PareError(f"margin must be above 0, got {margin:g}: nothing is equal to the last digit.")
    return margin
