"""Memorization and influence from models trained on random subsets (Feldman and Zhang 2020), as plain numpy.

Everything is estimated from two tables: which example was in the training set of which model (`masks`), and which
model classifies which example correctly (`correct`), both (models, n).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError
from paredown.ids import name_rows
from paredown.metrics.prediction_arrays import Mask, Values, pair_blocks, read_bools


class Influence(NamedTuple):
    """Two scores per example, higher is harder."""

    max: Values
    sum_abs: Values


def memorization(correct: ArrayLike, trained_on: ArrayLike) -> Values:
    """How much more often an example is classified rightly by models that trained on it; higher is harder.

    mem(i) = P[right about i | i in the training set] - P[right about i | i not in it], between -1 and 1, estimated from
    models on random subsets: Feldman and Zhang 2020, "What neural networks memorize and why", section 2; section 2.1 of
    the pruning paper.

    >>> memorization(correct=[[1, 1], [1, 0], [0, 1], [0, 1]], trained_on=[[1, 0], [1, 1], [0, 1], [0, 0]]).tolist()
    [1.0, -0.5]

    Args:
        correct: whether each model classifies each example rightly, (models, examples).
        trained_on: whether each model trained on each example, (models, examples).
    """
    return estimate_memorization(*_read_tables(correct, trained_on))[0]


def influence(correct: ArrayLike, trained_on: ArrayLike, *, test_correct: ArrayLike | None = None) -> Influence:
    """What training on an example does for others: its largest influence, and the sum of the absolute ones.

    infl(i, j) = P[right about j | i in the training set] - P[right about j | i not in it], for `max` the largest and
    for `sum_abs` sum_j |infl(i, j)|; higher is harder. Feldman and Zhang 2020, section 2; section 2.1 of the pruning
    paper. j runs over a test set where `test_correct` is given. Otherwise over the other training examples, from only
    those models that did not train on j: for the others j is no test. Pairs that no models tell apart are left out, and
    the sum is scaled up by their share.

    >>> trained_on = [[1, 0], [1, 1], [0, 1], [0, 0]]
    >>> found = influence([[1, 1], [1, 0], [0, 1], [0, 1]], trained_on, test_correct=[[1], [1], [0], [1]])
    >>> found.max.tolist(), found.sum_abs.tolist()
    ([0.5, -0.5], [0.5, 0.5])

    Args:
        correct: whether each model classifies each example rightly, (models, examples).
        trained_on: whether each model trained on each example, (models, examples).
        test_correct: whether each model classifies each test example rightly, (models, tests).
    """
    masks, right = _read_tables(correct, trained_on)
    tests = None if test_correct is None else read_bools(test_correct, "test_correct", "models", "tests")
    if tests is not None and len(tests) != len(masks):
        raise PareError(f"test_correct must have a row for each of the {len(masks)} models, got {len(tests)}.")
    top, total = estimate_influence(masks, right, test_correct=tests)
    return Influence(top[0], total[0])


def _read_tables(correct: ArrayLike, trained_on: ArrayLike) -> tuple[Mask, Mask]:
    axes = ("models", "examples")
    return read_bools(trained_on, "trained_on", *axes), read_bools(correct, "correct", *axes)


def balanced_masks(models: int, n: int, *, share: float, seed: int) -> Mask:
    """Random subsets of the same size, with every example in the same number of them, give or take one.

    The subsets are cut one after another from a stream of random permutations of the examples. Where a subset goes on
    into the next permutation, that one begins with examples which the subset does not have yet, in random order.
    Independent subsets would leave some examples with few models on one side, and all the noise with them.
    """
    size = check_subset_size(models, n, share=share)
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


def check_subset_size(models: int, n: int, *, share: float) -> int:
    """How many of n examples a subset has; raise unless every example will be in, and out of, at least two of them."""
    size = round(share * n)
    if not 0 < size < n or models * min(size, n - size) < 2 * n:
        raise PareError(
            f"{models} models on subsets of {share:g} of {n} examples leave examples in, or out of, fewer than two of "
            "them; train more models, on a subset between 0 and 1."
        )
    return size


def estimate_memorization(masks: Mask, correct: Mask) -> Values:
    """`memorization` from all models, and from the two halves of them, (3, n)."""
    _check(masks, correct)
    scores = []
    for models in (slice(None), *_halves(len(masks))):
        inside, right = masks[models], correct[models]
        with_ = inside.sum(axis=0)
        right_with = (inside & right).sum(axis=0)
        scores.append(_difference(right_with, with_, right.sum(axis=0) - right_with, len(inside) - with_))
    return np.stack(scores)


def estimate_influence(masks: Mask, correct: Mask, *, test_correct: Mask | None = None) -> tuple[Values, Values]:
    """Both of `influence` from all models, and from the two halves of them, (3, n) each.

    Pairs are visited in blocks, one matrix product per block and half of the models, so memory does not grow with n
    squared.
    """
    _check(masks, correct)
    n, halves = masks.shape[1], _halves(len(masks))
    tested, apart = (correct, ~masks) if test_correct is None else (test_correct, None)
    tops, sums = np.full((3, n), -np.inf), np.zeros((3, n))
    pairs = np.zeros((3, n))
    for i in pair_blocks(n):
        inside = [masks[half, i].astype(np.float32) for half in halves]
        for j in pair_blocks(tested.shape[1]):
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
    return tops, sums


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


def _halves(models: int) -> tuple[slice, slice]:
    """The first and the second half of the models, each of which is balanced where `balanced_masks` made them.

    Halves drawn from balanced subsets are not: an example that is in many subsets of one half is in few of the other,
    and scores whose noise depends on that number would correlate below zero.
    """
    return slice(0, models // 2), slice(models // 2, models)


def _check(masks: Mask, correct: Mask) -> None:
    if masks.shape != correct.shape or masks.ndim != 2:
        raise PareError(
            f"trained_on and correct must both be (models, examples), got {masks.shape} and {correct.shape}."
        )
    inside = masks.sum(axis=0)
    for rows, where in ((np.flatnonzero(inside == len(masks)), "all"), (np.flatnonzero(inside == 0), "none")):
        if len(rows):
            raise PareError(
                f"{name_rows(rows)} was in {where} of the {len(masks)} training subsets: there is nothing to compare; "
                f"train models with and without every example."
            )
