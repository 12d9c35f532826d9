"""Rules that judge a claim from a few seeds, able to say yes, no and neither.

Every rule is the same idea: a claim says that a number lies in a region (below zero, within a margin, above a level),
and the seeds give an interval for that number, by Student's t. The claim is held if the interval lies inside the
region, contradicted if it lies outside, and otherwise the data cannot tell. Each end of the interval is wrong with a
chance of 5 %, so a false claim is held, and a true one contradicted, in at most 5 % of all cases. A test that is not
significant is never read as "no difference": that takes a margin, and an interval inside it (two one-sided tests).

A claim on several points joins their findings: `every`, `some` or `number_of`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import nct, t

from paredown.errors import PareError
from paredown.standard_errors import standard_error

FALSE_ALARM = 0.05  # chance of each wrong answer, at most
_MOST = 1 - 1e-12  # correlation whose arctanh is taken
_FAR = 30.0  # standard errors
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
    """A verdict with the numbers behind it.

    Correlations are judged as their arctanh (`fisher`): then `value`, `low`, `high` and `region` are correlations, and
    `stderr` is that of the arctanh.
    """

    verdict: ClaimVerdict
    value: float  # mean over the seeds
    low: float  # limits of the interval that decided, each wrong with a chance of 5 % at most
    high: float
    stderr: float
    seeds: int
    region: Region
    hold_level: float = FALSE_ALARM  # chance of each end of the interval that must lie in the region to be wrong
    contradict_level: float = FALSE_ALARM  # the same of the interval that must lie outside
    fisher: bool = False

    @property
    def spread(self) -> float:
        """The standard deviation of one seed."""
        return self.stderr * math.sqrt(self.seeds)

    def scaled(self, value: float) -> float:
        """A value on the scale on which the seeds are Gaussian."""
        return math.atanh(min(max(value, -_MOST), _MOST)) if self.fisher else value

    @property
    def scaled_region(self) -> Region:
        """The region on the scale on which the seeds are Gaussian; half-open regions stay so."""
        if not self.fisher:
            return self.region
        low, high = (self.scaled(end) if math.isfinite(end) else end for end in (self.region.low, self.region.high))
        return Region(low, high)

    def inside(self, effect: float) -> float:
        """The scaled value that lies by `effect` inside the region; the centre of a region with two ends."""
        region = self.region
        if math.isfinite(region.low) and math.isfinite(region.high):
            return self.scaled((region.low + region.high) / 2)
        return self.scaled(region.high - effect if math.isfinite(region.high) else region.low + effect)

    def power(self, value: float, *, seeds: int | None = None) -> float:
        """How likely this rule says "held" if the true number is `value`, with as much noise and as many seeds.

        `seeds` asks for another number of seeds.
        """
        number = self.seeds if seeds is None else seeds
        return power(self.scaled_region, self.scaled(value), self.spread, number, level=self.hold_level)


def judge(
    values: ArrayLike,
    region: Region,
    *,
    points: int = 1,
    all_must_hold: bool | None = True,
    level: float = FALSE_ALARM,
) -> Finding:
    """Whether the mean of one number per seed lies in a region.

    Args:
        values: one number per seed.
        region: where the claim says it lies.
        points: of a claim on several points, how many; the level is corrected for them (Bonferroni).
        all_must_hold: whether such a claim is true if it is true everywhere, so that one contradiction among many
            must be beyond chance; if not, it is true if it is true somewhere, and one success must be. None if points
            are counted, so that each must be, either way.
        level: chance of each wrong answer if the numbers are independent and Gaussian.
    """
    given = np.asarray(values, dtype=float).ravel()
    given = given[~np.isnan(given)]
    mean = float(given.mean()) if len(given) else math.nan
    error = float(standard_error(given))
    return judge_mean(mean, error, len(given), region, points=points, all_must_hold=all_must_hold, level=level)


def judge_mean(
    mean: float,
    stderr: float,
    seeds: int,
    region: Region,
    *,
    points: int = 1,
    all_must_hold: bool | None = True,
    level: float = FALSE_ALARM,
) -> Finding:
    """The same from a mean and its standard error, where more than the spread of the seeds is in the latter."""
    to_hold = level / points if all_must_hold is not True else level
    to_contradict = level / points if all_must_hold is not False else level
    levels: dict[str, Any] = {"hold_level": to_hold, "contradict_level": to_contradict}
    if seeds < FEWEST_SEEDS or not stderr > 0:  # seeds without any spread say nothing about the noise
        return Finding(ClaimVerdict.CANNOT_TELL, mean, math.nan, math.nan, stderr, seeds, region, **levels)
    held, contradicted = decide(mean, stderr, seeds, region, **levels)
    verdict = ClaimVerdict.HELD if held else ClaimVerdict.CONTRADICTED if contradicted else ClaimVerdict.CANNOT_TELL
    half = float(t.isf(to_hold if held else to_contradict, seeds - 1)) * stderr
    return Finding(verdict, mean, mean - half, mean + half, stderr, seeds, region, **levels)


def decide(
    mean: ArrayLike, stderr: ArrayLike, seeds: int, region: Region, *, hold_level: float, contradict_level: float
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether means with standard errors are held, and whether they are contradicted; arrays of any shape."""
    value, error = np.asarray(mean, dtype=float), np.asarray(stderr, dtype=float)
    to_hold, to_contradict = (float(t.isf(level, seeds - 1)) * error for level in (hold_level, contradict_level))
    held = (region.low <= value - to_hold) & (value + to_hold <= region.high)
    contradicted = (value + to_contradict < region.low) | (value - to_contradict > region.high)
    return held, contradicted & ~held


def power(region: Region, value: float, spread: float, seeds: int, *, level: float = FALSE_ALARM) -> float:
    """How likely `judge` says "held" if the numbers are Gaussian around `value` with standard deviation `spread`.

    Exact for a region with one end, by the noncentral t distribution. For a margin on both sides it is the chance that
    both ends are met, at least (Bonferroni).
    """
    if seeds < FEWEST_SEEDS or not spread > 0:
        return 0.0
    limit, scale = t.isf(level, seeds - 1), math.sqrt(seeds) / spread
    missed = 0.0
    for room in (value - region.low, region.high - value):
        if math.isfinite(room):
            # Farther out scipy's series may end in NaN, and the chance is 0 or 1 anyway.
            missed += float(nct.cdf(limit, seeds - 1, min(max(room * scale, -3.0), _FAR)))
    return max(0.0, 1 - missed)


def seeds_needed(
    region: Region,
    value: float,
    spread: float,
    *,
    wanted: float = 0.8,
    most: int = 10_000,
    level: float = FALSE_ALARM,
) -> int | None:
    """The fewest seeds with which `judge` says "held" with the wanted power; None if `most` are too few."""
    return fewest(lambda n: power(region, value, spread, n, level=level) >= wanted, most)


def fewest(enough: Callable[[int], bool], most: int) -> int | None:
    """The smallest number of seeds that is enough, if more are always enough too; None if `most` are not."""
    low, high = FEWEST_SEEDS - 1, FEWEST_SEEDS
    while not enough(high):
        if high >= most:
            return None
        low, high = high, min(2 * high, most)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


# --- the kinds of claims -------------------------------------------------------------------------------------------


def better_than(
    differences: ArrayLike, *, least: float = 0.0, points: int = 1, all_must_hold: bool | None = True
) -> Finding:
    """Whether an error is lower than another: `differences` per seed, own minus other, are below `-least`."""
    return judge(differences, Region(high=-least), points=points, all_must_hold=all_must_hold)


def no_worse_than(
    differences: ArrayLike, margin: float, *, points: int = 1, all_must_hold: bool | None = True
) -> Finding:
    """Whether an error is at most `margin` above another ("costs nothing", "does not hurt")."""
    return judge(differences, Region(high=_positive(margin)), points=points, all_must_hold=all_must_hold)


def equivalent_to(
    differences: ArrayLike, margin: float, *, points: int = 1, all_must_hold: bool | None = True
) -> Finding:
    """Whether two numbers are equal up to a margin ("matches", "neither better nor worse"): two one-sided tests."""
    return judge(differences, Region(-_positive(margin), margin), points=points, all_must_hold=all_must_hold)


def above(values: ArrayLike, least: float, *, points: int = 1, all_must_hold: bool | None = True) -> Finding:
    """Whether numbers, one per seed, are above a level on average."""
    return judge(values, Region(low=least), points=points, all_must_hold=all_must_hold)


def below(values: ArrayLike, most: float, *, points: int = 1, all_must_hold: bool | None = True) -> Finding:
    """Whether numbers, one per seed, are below a level on average."""
    return judge(values, Region(high=most), points=points, all_must_hold=all_must_hold)


def correlated_above(
    correlations: ArrayLike, least: float, *, points: int = 1, all_must_hold: bool | None = True
) -> Finding:
    """Whether a correlation, measured once per seed or scoring, is above a level; judged as Fisher's arctanh."""
    return _judge_correlations(correlations, Region(low=least), points=points, all_must_hold=all_must_hold)


def correlated_below(
    correlations: ArrayLike, most: float, *, points: int = 1, all_must_hold: bool | None = True
) -> Finding:
    """Whether a correlation is below a level, like `correlated_above`."""
    return _judge_correlations(correlations, Region(high=most), points=points, all_must_hold=all_must_hold)


def _judge_correlations(correlations: ArrayLike, region: Region, **options: Any) -> Finding:
    values = np.arctanh(np.clip(np.asarray(correlations, dtype=float), -_MOST, _MOST))
    low, high = (math.atanh(end) if math.isfinite(end) else end for end in (region.low, region.high))
    found = judge(values, Region(low, high), **options)
    value, low, high = (math.tanh(each) for each in (found.value, found.low, found.high))
    return replace(found, value=value, low=low, high=high, region=region, fisher=True)


# --- claims on several points --------------------------------------------------------------------------------------


def every(findings: Sequence[Finding]) -> ClaimVerdict:
    """The verdict on a claim on every one of several points, each judged with `points` and `all_must_hold`."""
    return number_of(findings, least=max(1, len(findings)))


def some(findings: Sequence[Finding]) -> ClaimVerdict:
    """The verdict on a claim that holds at one point or more, each judged with `points` and not `all_must_hold`."""
    return number_of(findings, least=1)


def number_of(findings: Sequence[Finding], *, least: int = 0, most: int | None = None) -> ClaimVerdict:
    """The verdict on a claim that holds at `least` to `most` of the points, each judged with `all_must_hold=None`."""
    if not findings:
        return ClaimVerdict.NOT_TESTABLE
    held = sum(found.verdict is ClaimVerdict.HELD for found in findings)
    contradicted = sum(found.verdict is ClaimVerdict.CONTRADICTED for found in findings)
    yes, no = decide_number(held, contradicted, len(findings), least, most)
    return ClaimVerdict.HELD if yes else ClaimVerdict.CONTRADICTED if no else ClaimVerdict.CANNOT_TELL


def decide_number(
    held: Any, contradicted: Any, points: int, least: int, most: int | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Whether counts of decided points hold or contradict that `least` to `most` of all points are true."""
    known, possible = np.asarray(held), points - np.asarray(contradicted)
    top = points if most is None else most
    return (known >= least) & (possible <= top), (possible < least) | (known > top)


def _positive(margin: float) -> float:
    if not margin > 0:
        raise PareError(f"margin must be above 0, got {margin:g}: nothing is equal to the last digit.")
    return margin
