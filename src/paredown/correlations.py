"""Correlations of two columns: Pearson's, and Spearman's of their ranks."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike


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
