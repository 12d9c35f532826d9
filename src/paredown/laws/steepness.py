"""Whether the frontier over keep fractions falls faster with size than random subsets of the same sizes.

Section 'Data pruning can beat power law scaling in practice', third prediction. What decides is the slope of
log(error of the frontier / error of random subsets) against log(kept size), seed by seed: it is zero where both fall
with the same exponent, and below zero where the frontier falls faster, whatever law either follows.

The initial set limits the frontier from the size on at which a smaller fraction might be better and is not there: no
claim is about the sizes beyond it. The frontier is too high there, if anything, so the first limited size may count
for a "held" (more of them where there would be fewer than three sizes), and none counts for a "contradicted".
At the other end, sizes do not count at which a fraction above the best one was not measured: there the frontier may be
too high, which would look like a faster fall. Between its own sizes a fraction's curve is a straight line in the logs.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError
from paredown.laws.claim_rules import FEWEST_SEEDS, ClaimVerdict, Finding, Region, judge
from paredown.laws.curves import column, same_length
from paredown.laws.forms import Array

_FEWEST_SIZES = 3  # behind a slope that is judged
# Of Student's t. Which sizes count depends on the same runs: with 0.05, up to 10 % of equal slopes were "held".
_LEVEL = 0.02


@dataclass(frozen=True)
class SteepnessTest:
    """A verdict on whether a frontier is steeper than random subsets, and the data behind it."""

    verdict: ClaimVerdict
    slope: Finding | None  # of the log ratio, over the sizes that count; None if there are too few
    kept_size: Array  # sizes at which random subsets and at least one smaller fraction were measured
    keep_fraction: Array  # the best fraction there
    limited: NDArray[np.bool_]  # whether a smaller fraction than the best is missing there
    open_above: NDArray[np.bool_]  # whether a larger one is
    counted: NDArray[np.bool_]  # whether it counts for the slope
    log_ratio: Array  # (sizes, seeds), cross-fitted: each seed at the fraction that the others find best
    log_error: Array  # (sizes, seeds), of the frontier, cross-fitted alike


def steeper_than_random(
    kept_size: ArrayLike,
    keep_fraction: ArrayLike,
    error: ArrayLike,
    seed: ArrayLike,
    *,
    least: float = 0.0,
    asymptote: float = 0.0,
) -> SteepnessTest:
    """Judge whether the frontier falls with a larger exponent than random subsets.

    Args:
        kept_size: training examples after pruning, one row per run.
        keep_fraction: fraction kept; rows with 1 are random subsets of that size, which every size needs.
        error: test error.
        seed: the run a row belongs to; three or more.
        least: by how much the exponent must be larger.
        asymptote: error that no training set can avoid, such as wrong labels in the test set, which is subtracted from
            both.
    """
    at, shares, table, complete = tabulate_log_errors(kept_size, keep_fraction, error, seed, asymptote)
    table = _interpolated(np.log(at), table, complete)
    complete = np.asarray(np.isfinite(table).all(axis=2))
    usable = complete[:, -1] & complete[:, :-1].any(axis=1)
    at, table, complete = at[usable], table[usable], complete[usable]
    values = np.where(complete[..., None], table, np.inf)
    best = values.mean(axis=2).argmin(axis=1) if len(at) else np.zeros(0, int)
    first = complete.argmax(axis=1) if len(at) else best  # the smallest fraction that was measured at each size
    frontier = _cross_fitted(values)
    above = np.arange(len(shares)) > best[:, None]
    limited, open_above = best == first, np.asarray((above & ~complete).any(axis=1))
    pruned = (shares[best] < 1) & ~open_above
    order = np.cumsum(pruned)  # how manieth pruned size each is
    free = order[pruned & ~limited].max(initial=0)
    counted = pruned & (order <= max(free + 1, _FEWEST_SIZES))
    ratio = frontier - table[:, -1]
    verdict, found = _judge(at, counted, limited, ratio, least)
    return SteepnessTest(verdict, found, at, shares[best], limited, open_above, counted, ratio, frontier)


def unlimited_sizes(test: SteepnessTest) -> NDArray[np.bool_]:
    """The sizes up to the last one at which the initial set does not limit the frontier, of those that count."""
    free = np.flatnonzero(~test.limited)
    return (np.arange(len(test.limited)) <= (free[-1] if len(free) else -1)) & ~test.open_above


def tabulate_log_errors(
    kept_size: ArrayLike, keep_fraction: ArrayLike, error: ArrayLike, seed: ArrayLike, asymptote: float
) -> tuple[Array, Array, Array, NDArray[np.bool_]]:
    """Sizes, fractions, log errors (sizes, fractions, seeds), and which points every seed measured; 1 comes last."""
    sizes, fractions, errors = (
        column(name, values)
        for name, values in (("kept_size", kept_size), ("keep_fraction", keep_fraction), ("error", error))
    )
    names, seeds = np.unique(np.asarray(seed).ravel(), return_inverse=True)
    same_length(kept_size=sizes, keep_fraction=fractions, error=errors, seed=seeds)
    if not 0 <= asymptote < errors.min():
        raise PareError(
            f"asymptote must be at least 0 and below the lowest error, {errors.min():g}, got {asymptote:g}."
        )
    at, row = np.unique(sizes, return_inverse=True)
    shares, place = np.unique(fractions, return_inverse=True)
    table = np.full((len(at), len(shares), len(names)), np.nan)
    table[row, place, seeds] = np.log(errors - asymptote)
    if shares[-1] != 1:
        raise PareError("there are no random subsets to compare with: rows with keep_fraction 1 are needed.")
    return at, shares, table, np.asarray(np.isfinite(table).all(axis=2))


def _interpolated(logs: Array, table: Array, complete: NDArray[np.bool_]) -> Array:
    """Log errors (sizes, fractions, seeds) at every size within the range of a fraction; NaN outside."""
    found = np.full(table.shape, np.nan)
    for fraction, known in enumerate(complete.T):
        if known.any():
            for own in range(table.shape[2]):
                line = np.interp(logs, logs[known], table[known, fraction, own], left=np.nan, right=np.nan)
                found[:, fraction, own] = line
    return found


def _cross_fitted(values: Array) -> Array:
    """Log errors of each seed at the fraction that the others find best, (sizes, seeds)."""
    seeds = values.shape[2]
    found = np.empty((len(values), seeds))
    for own in range(seeds):
        others = np.delete(values, own, axis=2) if seeds > 1 else values
        chosen = others.mean(axis=2).argmin(axis=1)
        found[:, own] = values[np.arange(len(values)), chosen, own]
    return found


def _judge(
    kept_size: Array, counted: NDArray[np.bool_], limited: NDArray[np.bool_], log_ratio: Array, least: float
) -> tuple[ClaimVerdict, Finding | None]:
    if log_ratio.shape[1] < FEWEST_SEEDS or counted.sum() < _FEWEST_SIZES:
        return ClaimVerdict.NOT_TESTABLE, None
    found = judge(log_slopes(kept_size[counted], log_ratio[counted]), Region(high=-least), level=_LEVEL)
    if found.verdict is not ClaimVerdict.CONTRADICTED:
        return found.verdict, found
    unlimited = counted & ~limited
    if unlimited.sum() < _FEWEST_SIZES:
        return ClaimVerdict.CANNOT_TELL, found
    again = judge(log_slopes(kept_size[unlimited], log_ratio[unlimited]), Region(high=-least), level=_LEVEL)
    contradicted = again.verdict is ClaimVerdict.CONTRADICTED
    return (ClaimVerdict.CONTRADICTED if contradicted else ClaimVerdict.CANNOT_TELL), again


def log_slopes(sizes: Array, log_ratio: Array) -> Array:
    """The slope of each seed by least squares, of (sizes, seeds) against log size."""
    logs = np.log(sizes) - np.log(sizes).mean()
    return logs @ log_ratio / (logs @ logs)
