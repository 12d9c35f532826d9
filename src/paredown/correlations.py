"""Correlations of two columns: Pearson's, and Spearman's of their ranks."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

_LARGEST = 2**63 - 1  # of the whole numbers that a product is summed up in


def correlation(a: ArrayLike, b: ArrayLike, *, constant: float = math.nan) -> float:
    """Pearson's, over the rows where both are finite; `constant` where either has one value only."""
    both = np.stack([np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)])
    both = both[:, np.isfinite(both).all(axis=0)]
    if both.shape[1] < 2 or (np.ptp(both, axis=1) == 0).any():
        return constant
    return float(np.corrcoef(*both)[0, 1])


def rank_correlation(a: ArrayLike, b: ArrayLike, *, constant: float = math.nan) -> float:
    """Spearman's, ties given their mean rank; otherwise as `correlation`."""
    from scipy.stats import rankdata

    both = np.stack([np.asarray(a, dtype=np.float64), np.asarray(b, dtype=np.float64)])
    return correlation(*rankdata(both[:, np.isfinite(both).all(axis=0)], axis=1), constant=constant)


def centred_ranks(values: ArrayLike) -> NDArray[np.int64]:
    """Twice the rank of each value less n + 1, ties given their mean rank: whole numbers from 1 - n to n - 1."""
    from scipy.stats import rankdata

    ranks = rankdata(values)
    return (2 * ranks).astype(np.int64) - (len(ranks) + 1)


def rank_correlations(ranks: Sequence[NDArray[np.int64]], *, constant: float = math.nan) -> NDArray[np.float64]:
    """Spearman's correlation of all pairs of columns, given their `centred_ranks`; `constant` for a constant column.

    The sums are whole numbers, so that the order of the rows does not change a bit, and equal columns give exactly 1.
    """
    count = len(ranks)
    products = [[_product(ranks[row], ranks[column]) for column in range(row + 1)] for row in range(count)]
    found = np.full((count, count), constant)
    for row in range(count):
        for column in range(row + 1):
            squares = products[row][row] * products[column][column]
            if squares:
                found[row, column] = found[column, row] = products[row][column] / math.sqrt(squares)
    return found


def _product(a: NDArray[np.int64], b: NDArray[np.int64]) -> int:
    """The sum of the products of two columns of centred ranks, in blocks that do not overflow."""
    block = _LARGEST // max(len(a), 1) ** 2
    return sum(int(np.dot(a[start : start + block], b[start : start + block])) for start in range(0, len(a), block))
