"""What the formulas of metrics are given: arrays, checked; blocks of pairs, and sums that keep their bits."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError
from paredown.ids import name_rows

Values = NDArray[np.float64]
Mask = NDArray[np.bool_]

_BLOCK = 2_048
_SUMS_TO_ONE = 1e-3  # half-precision probabilities still do


def read_numbers(values: ArrayLike, name: str, *axes: str) -> Values:
    """Finite numbers with these axes, such as `("examples", "classes")`."""
    array = np.asarray(values)
    if array.ndim != len(axes) or array.dtype.kind not in "fiu" or 0 in array.shape:
        raise PareError(f"{name} must be numbers ({', '.join(axes)}), got {array.dtype} of shape {array.shape}.")
    array = array.astype(np.float64)
    rows = np.flatnonzero(~np.isfinite(array).all(axis=tuple(i for i in range(len(axes)) if axes[i] != "examples")))
    if len(rows):
        raise PareError(f"{name} must be finite, not so at {name_rows(rows)}; leave these examples out.")
    return array


def read_probabilities(probabilities: ArrayLike, *axes: str) -> Values:
    """Probabilities whose last axis is the classes."""
    array = read_numbers(probabilities, "probabilities", *axes)
    sums = array.sum(axis=-1)
    fine = (array >= 0).all(axis=-1) & (np.abs(sums - 1) <= _SUMS_TO_ONE)
    rows = np.flatnonzero(~(fine.all(axis=0) if fine.ndim > 1 else fine))
    if len(rows):
        raise PareError(
            f"probabilities must not be negative and must sum to 1 over the classes, not so at {name_rows(rows)}; "
            "of logits take scipy.special.softmax(logits, axis=-1) first."
        )
    return array


def read_labels(labels: ArrayLike, n: int, n_classes: int) -> NDArray[np.int64]:
    """One class number per example."""
    array = np.asarray(labels)
    if array.shape != (n,) or array.dtype.kind not in "iu":
        raise PareError(f"labels must be one class number for each of {n} examples, got {array.dtype} {array.shape}.")
    outside = np.flatnonzero((array < 0) | (array >= n_classes))
    if len(outside):
        raise PareError(
            f"labels must be between 0 and {n_classes - 1}, the last class of the predictions, not so at "
            f"{name_rows(outside)}: {array[outside[0]]}."
        )
    return array.astype(np.int64)


def read_bools(values: ArrayLike, name: str, *axes: str) -> Mask:
    """Yes or no with these axes; 0 and 1 will do."""
    array = np.asarray(values)
    if array.ndim != len(axes) or 0 in array.shape or not (array.dtype == bool or np.isin(array, (0, 1)).all()):
        raise PareError(f"{name} must be true or false ({', '.join(axes)}), got {array.dtype} of shape {array.shape}.")
    return array.astype(bool)


def pair_blocks(n: int) -> list[slice]:
    """The examples on one side of a table of pairs in blocks, so that temporaries take some 200 MB."""
    return [slice(first, min(first + _BLOCK, n)) for first in range(0, n, _BLOCK)]


def column_sums(values: Values) -> Values:
    """The sum of each column, from top to bottom, to the same bits however many columns there are.

    numpy adds rows to each other in order, but a single column, or columns that lie contiguous in memory, it adds up
    in another order (pairwise).
    """
    if values.shape[1] == 1:
        return np.repeat(values, 2, axis=1).sum(axis=0)[:1]
    return np.ascontiguousarray(values).sum(axis=0)
