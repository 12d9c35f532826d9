"""Standard errors: of a mean of single values, and of a share of successes."""

from __future__ import annotations

import math
from typing import Any, overload

import numpy as np
from numpy.typing import ArrayLike, NDArray

Floats = NDArray[np.float64]


def standard_error(values: ArrayLike) -> Any:
    """Of the mean over the first axis: sample standard deviation over the square root of the number of values.

    NaN for fewer than two values, and exactly 0 for equal ones, whose mean may be rounded. A number for one axis, else
    an array of the further axes.
    """
    runs = np.asarray(values, dtype=np.float64)
    if len(runs) < 2:
        found = np.full(runs.shape[1:], np.nan)
    else:
        found = np.where(np.all(runs == runs[:1], axis=0), 0.0, runs.std(axis=0, ddof=1) / math.sqrt(len(runs)))
    return found if found.ndim else float(found)


@overload
def share_error(share: float, count: float) -> float: ...
@overload
def share_error(share: Floats, count: float) -> Floats: ...
def share_error(share: Any, count: float) -> Any:
    """Of a share of `count` independent trials, such as an accuracy (binomial); NaN without trials."""
    if not count:
        return np.full(np.shape(share), np.nan) if np.ndim(share) else math.nan
    found = np.sqrt(share * (1 - share) / count)
    return found if np.ndim(found) else float(found)
