"""Whether error falls with the same exponent at a fixed keep fraction as for random subsets.

Section 'Data pruning can beat power law scaling in practice', second prediction. It is about large sizes: where the
curves cross, a pruned one falls much faster, and with a perfect probe it is at twice the size of the crossing that the
exponents come near each other (0.02, 0.34, 0.47 and 0.45 at 8 examples per weight for f = 1/8, 1/4, 1/2 and 1). So only
sizes count at which the pruned curve lies below that of random subsets, and of these the larger half decides.

What is judged is the slope of log(pruned error / random error) against log(kept size), seed by seed, which is the
difference of the exponents. It is "held" inside a margin. Outside of it, "contradicted" also takes a slope that is not
on its way to zero: over the larger half still more than half of what it was over the smaller one, and sizes past the
crossing over a factor of four or more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from paredown.laws.claim_rules import FEWEST_SEEDS, ClaimVerdict, Finding, Region, judge
from paredown.laws.forms import Array
from paredown.laws.steepness import log_slopes, tabulate_log_errors

_FEWEST_SIZES = 3  # past the crossing; to contradict, one more
_LEAST_RANGE = 4.0  # of sizes past the crossing
_LEVEL = 0.02  # of Student's t: which sizes count depends on the same runs


@dataclass(frozen=True)
class ExponentTest:
    """A verdict on whether one keep fraction has the exponent of random subsets, and the data behind it."""

    verdict: ClaimVerdict
    keep_fraction: float
    difference: Finding | None  # of the slopes over the larger half of the sizes that count; None if there are too few
    kept_size: Array  # sizes past the crossing
    log_ratio: Array  # (sizes, seeds), pruned over random


def equal_exponents(
    kept_size: ArrayLike,
    keep_fraction: ArrayLike,
    error: ArrayLike,
    seed: ArrayLike,
    *,
    margin: float,
    asymptote: float = 0.0,
) -> list[ExponentTest]:
    """Judge every fraction below 1; a claim on all of them joins the verdicts.

    Args:
        kept_size: training examples after pruning, one row per run.
        keep_fraction: fraction kept; rows with 1 are random subsets of that size.
        error: test error.
        seed: the run a row belongs to; three or more.
        margin: difference up to which two exponents count as equal.
        asymptote: error that no training set can avoid, which is subtracted from both.
    """
    at, shares, table, complete = tabulate_log_errors(kept_size, keep_fraction, error, seed, asymptote)
    tests = []
    for number, share in enumerate(shares[:-1]):
        both = complete[:, number] & complete[:, -1]
        ratio = table[both, number] - table[both, -1]
        above = np.flatnonzero(ratio.mean(axis=1) >= 0)
        past = slice(above[-1] + 1 if len(above) else 0, None)
        sizes, ratio = at[both][past], ratio[past]
        verdict, found = _judge(sizes, ratio, margin, len(shares) - 1)
        tests.append(ExponentTest(verdict, float(share), found, sizes, ratio))
    return tests


def _judge(sizes: Array, ratio: Array, margin: float, points: int) -> tuple[ClaimVerdict, Finding | None]:
    if len(sizes) < _FEWEST_SIZES or ratio.shape[1] < FEWEST_SEEDS:
        return ClaimVerdict.NOT_TESTABLE, None
    half = max(_FEWEST_SIZES, -(-len(sizes) // 2))
    slope = log_slopes(sizes[-half:], ratio[-half:])
    found = judge(slope, Region(-margin, margin), points=points, level=_LEVEL)
    if found.verdict is not ClaimVerdict.CONTRADICTED:
        return found.verdict, found
    if len(sizes) == _FEWEST_SIZES or sizes[-1] < _LEAST_RANGE * sizes[0]:
        return ClaimVerdict.CANNOT_TELL, found
    first = len(sizes) - half + 1 if len(sizes) > half + 1 else 2
    before = log_slopes(sizes[:first], ratio[:first])
    lasts = judge(np.sign(found.value) * (slope - before / 2), Region(low=0.0), points=points, level=_LEVEL)
    lasting = lasts.verdict is ClaimVerdict.HELD
    return (ClaimVerdict.CONTRADICTED if lasting else ClaimVerdict.CANNOT_TELL), found
