"""Whether scores separate the examples: constant scores, scores crowded in one place, and ties that decide the cut.

A selection always has the size that was asked for, also where the scores do not say which examples to take; then the
seeded hash of the ids takes them. These rules notice it, from counts alone, so that a selection in memory and one in
streams say the same. Each is meant to be silent over any continuous score.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Range of constant scores, relative to their size: some hundred roundings of single-precision arithmetic.
CONSTANT = 1e-5
# Scores crowd at zero if three quarters of them are below this share of the 99th percentile. For a log-normal score
# with a standard deviation of 1, 2 and 3 the shares are 19 %, 3.7 % and 0.7 %; for the EL2N of a probe that has learnt
# its training set by heart, 0.01 % and less.
CROWDED = 1e-3
# Scores crowd elsewhere if three quarters of them are closer to the median than this share of the distance that 1 % of
# them have: a Cauchy distribution has 4 %.
CROWDED_BAND = 1e-4
CROWDED_ROWS = 100  # a 99th percentile of fewer is their highest score
# Ties decide if another seed would keep this share of other examples, and not just one or two. Two trainings that
# differ by their seed alone disagree about far more.
TIES_SHARE, TIES_ROWS = 0.01, 3

# A band that is narrow beside the distances of 1 % lies in so many bins, or is near zero beside scores very far away.
_BAND_BINS, _NEAR_ZERO = 5, 0.02
_MAGNITUDE_BITS = 16  # of the exponent and mantissa of a score


@dataclass
class Magnitudes:
    """Counts of scores by magnitude, in bins of 3 % (float64) or 0.4 % (float32): the same in any order of the rows."""

    counts: NDArray[np.int64] = field(default_factory=lambda: np.zeros(2**_MAGNITUDE_BITS, np.int64))
    dtype: np.dtype[Any] = field(default_factory=lambda: np.dtype(np.float64))

    def add(self, values: NDArray[np.floating]) -> None:
        """Count some more scores, of the same type as the others."""
        wide = np.abs(values.astype(np.float32) if values.dtype == np.float16 else values)
        self.dtype = wide.dtype
        bits = wide.view(f"u{wide.itemsize}") >> np.uint8(self._shift)
        self.counts += np.bincount(bits.astype(np.intp), minlength=len(self.counts))

    def merge(self, other: Magnitudes) -> None:
        """Take over the counts of other scores."""
        if other.counts.any():
            self.counts, self.dtype = self.counts + other.counts, other.dtype

    @property
    def _shift(self) -> int:
        return 8 * self.dtype.itemsize - 1 - _MAGNITUDE_BITS  # the sign is gone

    def quantile(self, share: float) -> float:
        """The upper end of the bin that holds this quantile."""
        rank = np.ceil(share * self.counts.sum())
        bin_ = int(np.searchsorted(np.cumsum(self.counts), rank))
        bits = np.array([((bin_ + 1) << self._shift) - 1], f"u{self.dtype.itemsize}")
        return float(bits.view(self.dtype)[0])

    def may_crowd(self) -> bool:
        """Whether three quarters of the scores may be in one narrow band: in few neighbouring bins, or near zero."""
        sums = np.concatenate([[0], np.cumsum(self.counts)])
        together = int((sums[_BAND_BINS:] - sums[:-_BAND_BINS]).max())
        return 4 * together >= 3 * int(sums[-1]) or self.quantile(0.75) <= _NEAR_ZERO * self.quantile(0.99)


@dataclass(frozen=True)
class Tie:
    """Examples at a cut with equals on its other side: how many lie inside, how many outside, and at which score.

    Over several classes the numbers are sums, and there is no score if they are cut at different ones.
    """

    inside: int
    outside: int
    score: float | None

    @classmethod
    def of(cls, inside: NDArray[np.int64], outside: NDArray[np.int64], scores: NDArray[Any]) -> Tie:
        """From the numbers of every class at its own cut; classes without equals on both sides do not count."""
        split = (inside > 0) & (outside > 0)
        at = np.unique(scores[split].astype(np.float64) + 0.0)  # both zeros are one
        score = float(at[0]) if len(at) == 1 and np.isfinite(at[0]) else None
        return cls(int(inside[split].sum()), int(outside[split].sum()), score)

    @property
    def replaceable(self) -> float:
        """How many of those inside another seed would put outside, on average."""
        both = self.inside + self.outside
        return self.inside * self.outside / both if both else 0.0


def constant_warning(lowest: float, highest: float, n: int) -> str | None:
    """A warning if all scores are the same, up to rounding."""
    if n < 2 or highest - lowest > CONSTANT * max(abs(lowest), abs(highest)):
        return None
    return (
        f"all {n:,} scores are {lowest + 0.0:.4g}, up to rounding: they do not rank the examples, and what is kept is "
        "as good as random. Use another metric or encoder, or more examples."
    )


def crowding_warning(magnitudes: Magnitudes, n: int) -> str | None:
    """A warning if most scores are next to nothing beside the largest ones.

    Scores that are mostly zero, such as counts, are left to `tie_warning`: they matter only where the cut divides them.
    """
    if n < CROWDED_ROWS:
        return None
    most, large = magnitudes.quantile(0.75), magnitudes.quantile(0.99)
    if most > CROWDED * large or 4 * magnitudes.counts[0] >= 3 * n:
        return None
    return (
        f"three quarters of the scores are {most:.1g} or less, while 1 % are {large:.2g} or more: they do not "
        "separate most of the examples. A probe trained for too long does this; train it for fewer epochs, or keep "
        "only the few hardest examples."
    )


def band_warning(median: float, most: float, large: float) -> str | None:
    """A warning if most scores lie in a narrow band, such as that of a score that saturates at its highest value.

    `most` and `large` are how far from the median three quarters and 99 % of the scores are at most. Three quarters
    that are one and the same value are left to `tie_warning`.
    """
    if most == 0 or most > CROWDED_BAND * large:
        return None
    return (
        f"three quarters of the scores are within {most:.1g} of {median:.6g}, while 1 % are {large:.2g} or more away "
        "from it: they do not separate most of the examples. A score that saturates does this; use another metric, or "
        "train for fewer epochs."
    )


def band_ranks(n: int) -> tuple[int, int, int]:
    """The places, from 0 on, of the median among n scores, and of `most` and `large` among their distances from it."""
    return n // 2, math.ceil(0.75 * n) - 1, math.ceil(0.99 * n) - 1


def _band_of(values: NDArray[np.floating]) -> tuple[float, float, float]:
    middle, *ranks = band_ranks(len(values))
    wide = values.astype(np.float64)
    median = float(np.partition(wide, middle)[middle])
    most, large = np.partition(np.abs(wide - median), ranks)[ranks].tolist()
    return median, most, large


def score_warnings(values: NDArray[np.floating]) -> list[str]:
    """What is wrong with scores whatever is selected from them."""
    if len(values) == 0:
        return []
    magnitudes = Magnitudes()
    magnitudes.add(values)
    return warnings_of_counts(len(values), (values.min(), values.max()), magnitudes, lambda: _band_of(values))


def warnings_of_counts(
    n: int, ends: tuple[Any, Any], magnitudes: Magnitudes, band: Callable[[], tuple[float, float, float]]
) -> list[str]:
    """`score_warnings` of n scores, given the lowest and highest; `band` is called only where they may crowd."""
    warning = constant_warning(float(ends[0]), float(ends[1]), n) or crowding_warning(magnitudes, n)
    if warning is None and n >= CROWDED_ROWS and magnitudes.may_crowd():
        warning = band_warning(*band())
    return [] if warning is None else [warning]


def tie_warning(tie: Tie, kept: int, *, dropping: bool = False) -> str | None:
    """A warning if ties decide a notable part of what is kept, or of what `window` drops as the hardest."""
    if tie.replaceable < max(TIES_ROWS, TIES_SHARE * kept):
        return None
    at = "the cut" if tie.score is None else f"score {tie.score:.6g}"
    what, others = ("dropped as the hardest", "not") if dropping else ("kept", "dropped")
    return (
        f"{tie.inside:,} of the {kept:,} {what} are tied at {at} with {tie.outside:,} that were {others}: the seed "
        f"chose among them, and another seed would choose about {tie.replaceable:,.0f} others. Use a metric that "
        "separates them, or keep another fraction."
    )
