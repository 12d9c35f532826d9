"""Memorization and influence from models trained on random subsets (Feldman and Zhang 2020), as plain numpy.

Everything is estimated from two tables: which example was in the training set of which model (`masks`), and which
model classifies which example correctly (`correct`), both (models, n).
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.correlations import rank_correlation
from paredown.errors import PareError
from paredown.ids import name_rows

__all__ = ["Estimate", "balanced_masks", "influence", "memorization", "models_needed", "reliability_facts"]

_BLOCK = 2_048  # examples on each side of a block of pairs: some 200 MB of temporaries
_STEADY = 0.7  # the reliability below which the result carries a warning
_NOISE = 0.3  # and that below which the warning says noise

Mask = NDArray[np.bool_]
Values = NDArray[np.float64]


class Estimate(NamedTuple):
    """Scores from all models, and the same from two halves of the models, which tell how far to trust them."""

    values: Values
    halves: tuple[Values, Values]

    @property
    def split_half(self) -> float:
        """Spearman's correlation of the two halves over the examples that both could score."""
        first, second = self.halves
        both = np.isfinite(first) & np.isfinite(second)
        return rank_correlation(first[both], second[both], constant=0.0) if both.sum() > 2 else 0.0


def balanced_masks(models: int, n: int, *, share: float, seed: int) -> Mask:
    """Random subsets of the same size, with every example in the same number of them, give or take one.

    The subsets are cut one after another from a stream of random permutations of the examples. Where a subset goes on
    into the next permutation, that one begins with examples which the subset does not have yet, in random order.
    Independent subsets would leave some examples with few models on one side, and all the noise with them.
    """
    size = round(share * n)
    if not 0 < size < n or models * min(size, n - size) < 2 * n:
        raise PareError(
            f"{models} models on subsets of {share:g} of {n} examples leave examples in, or out of, fewer than two of "
            "them; train more models, on a subset between 0 and 1."
        )
    rng = np.random.default_rng([seed, models, n])
    masks = np.zeros((models, n), bool)
    left = np.empty(0, np.int64)  # what the permutation of the moment still has to give
    for mask in masks:
        taken = left[:size]
        left = left[size:]
        mask[taken] = True
        missing = size - len(taken)
        if missing:
            fresh = rng.permutation(n)
            first = fresh[~mask[fresh]][:missing]
            mask[first] = True
            begun = np.zeros(n, bool)
            begun[first] = True
            left = fresh[~begun[fresh]]
    return masks


def memorization(masks: Mask, correct: Mask) -> Estimate:
    """How much more often an example is classified correctly by models that trained on it (section 2.1).

    mem(i) = P[correct(i) | i in the subset] - P[correct(i) | i not in the subset], between -1 and 1.
    """
    _check(masks, correct)
    halves = _halves(len(masks))
    counts = [_memorization_counts(masks[half], correct[half]) for half in halves]
    whole = tuple(first + second for first, second in zip(*counts, strict=True))
    return Estimate(_difference(*whole), (_difference(*counts[0]), _difference(*counts[1])))


def _memorization_counts(masks: Mask, correct: Mask) -> tuple[Values, Values, Values, Values]:
    inside, right, both = masks.sum(axis=0), correct.sum(axis=0), (masks & correct).sum(axis=0)
    return tuple(x.astype(float) for x in (both, inside, right - both, len(masks) - inside))  # type: ignore[return-value]


def influence(masks: Mask, correct: Mask, *, test_correct: Mask | None = None) -> tuple[Estimate, Estimate]:
    """The largest influence of every example on another one, and the sum of the absolute influences (section 2.1).

    infl(i, j) = P[correct(j) | i in the subset] - P[correct(j) | i not in the subset]

    over all j of a test set where `test_correct` (models, tests) is given. Otherwise over the other training examples,
    from only those models that did not train on j: for the others j is no test. Pairs that no models tell apart are
    left out; the sum is scaled up by their share.

    Returns:
        influence max and influence sum-abs. Pairs are visited in blocks, one matrix product per block and half of the
        models, so memory does not grow with n squared.
    """
    _check(masks, correct)
    n, halves = masks.shape[1], _halves(len(masks))
    tested, apart = (correct, ~masks) if test_correct is None else (test_correct, None)
    tops, sums = np.full((3, n), -np.inf), np.zeros((3, n))
    pairs = np.zeros((3, n))
    for i in _blocks(n):
        inside = [masks[half, i].astype(np.float32) for half in halves]
        for j in _blocks(tested.shape[1]):
            counts = [
                _pair_counts(x, tested[half, j], None if apart is None else apart[half, j])
                for x, half in zip(inside, halves, strict=True)
            ]
            whole = tuple(first + second for first, second in zip(*counts, strict=True))
            for part, some in enumerate((whole, *counts)):
                change = _difference(*some)
                known = ~np.isnan(change)
                pairs[part, i] += known.sum(axis=1)
                change[~known] = 0
                sums[part, i] += np.abs(change).sum(axis=1, dtype=np.float64)
                change[~known] = -np.inf
                tops[part, i] = np.maximum(tops[part, i], change.max(axis=1))
    others = n - 1 if test_correct is None else tested.shape[1]
    alone = np.flatnonzero(pairs[0] == 0)
    if len(alone):
        raise PareError(f"no models tell the influence of {name_rows(alone)} on any other example; train more models.")
    with np.errstate(divide="ignore", invalid="ignore"):
        sums *= others / pairs
    tops[pairs == 0] = np.nan
    return Estimate(tops[0], (tops[1], tops[2])), Estimate(sums[0], (sums[1], sums[2]))


def _pair_counts(inside: NDArray[np.float32], tested: Mask, apart: Mask | None) -> tuple[Any, Any, Any, Any]:
    """For pairs (i, j): right with i, models with i, right without i, models without i. float32 counts are exact."""
    right = (tested if apart is None else tested & apart).astype(np.float32)
    right_with = inside.T @ right
    if apart is None:
        with_ = inside.sum(axis=0)[:, None]
        without = len(inside) - with_
    else:
        judges = apart.astype(np.float32)
        with_ = inside.T @ judges
        without = judges.sum(axis=0) - with_
    return right_with, with_, right.sum(axis=0) - right_with, without


def _difference(right_with: Any, with_: Any, right_without: Any, without: Any) -> Any:
    """The difference of two shares, NaN where one of them is of nothing."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return right_with / with_ - right_without / without


def _blocks(n: int) -> list[slice]:
    return [slice(first, min(first + _BLOCK, n)) for first in range(0, n, _BLOCK)]


def _halves(models: int) -> tuple[slice, slice]:
    """The first and the second half of the models, each of which is balanced where `balanced_masks` made them.

    Halves drawn from balanced subsets are not: an example that is in many subsets of one half is in few of the other,
    and scores whose noise depends on that number would correlate below zero.
    """
    return slice(0, models // 2), slice(models // 2, models)


def _check(masks: Mask, correct: Mask) -> None:
    if masks.shape != correct.shape or masks.ndim != 2:
        raise PareError(f"masks and correct must both be (models, examples), got {masks.shape} and {correct.shape}.")
    inside = masks.sum(axis=0)
    for rows, where in ((np.flatnonzero(inside == len(masks)), "all"), (np.flatnonzero(inside == 0), "none")):
        if len(rows):
            raise PareError(
                f"{name_rows(rows)} was in {where} of the {len(masks)} training subsets: there is nothing to compare; "
                f"train models with and without every example."
            )


# --- how far to trust an estimate ----------------------------------------------------------------------------------


def spearman_brown(split_half: float) -> float:
    """The reliability of the whole from the correlation of its halves."""
    return 2 * split_half / (1 + split_half) if split_half > 0 else 0.0


def models_needed(models: int, reliability: float, target: float = _STEADY) -> int | None:
    """How many models would have the target reliability by the Spearman-Brown formula; None if there is no saying."""
    if reliability <= 0:
        return None
    return math.ceil(models * target * (1 - reliability) / (reliability * (1 - target)))


def reliability_facts(metric: str, estimate: Estimate, models: int) -> dict[str, Any]:
    """What a user should know of an estimate: how many models, how reliable, and a warning where it is not."""
    half = estimate.split_half
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
