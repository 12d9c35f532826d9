"""What every kernel agrees on: cosines computed pair by pair, and how far a product of matrices can be from them.

A product of matrices rounds differently in blocks of another height and on another number of threads. The cosine of one
row and one centroid, `np.vecdot` of two contiguous float32 vectors, does not. By definition the nearest centroid of a
row is the one with the largest such cosine, the lowest index among equals. Kernels only rule out centroids that
certainly have a smaller one, and `settle` compares the rest.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

Rows = NDArray[np.float32]
Indices = NDArray[np.int64]

LEAST = 1e-30  # more than anything that underflows adds up to
_ROUNDING = 2.0**-24  # relative, of one float32 operation
_PRODUCT_BYTES = 8 * 2**20  # of products held at once: stays inside the last-level cache
_LONG_ROW = 128  # numbers from which on multiplying takes so much longer than reading that higher blocks pay
_COPY_BYTES = 2**18  # of centroids copied at once to be multiplied with their rows


def product_error(dim: int) -> float:
    """A bound on the error of a float32 inner product of `dim` terms, relative to the product of the two lengths.

    It holds in whatever order the terms are added, with fused multiplications or without: dim u / (1 - dim u) with
    u = 2^-24 (Higham 2002, "Accuracy and stability of numerical algorithms", section 3.1).
    """
    share = dim * _ROUNDING
    return share / (1 - share) if share < 1 else math.inf


def rows_at_once(k: int, dim: int) -> int:
    """How many rows to compare with k centroids in one matrix product over `dim` dimensions."""
    return max(1, _PRODUCT_BYTES * (2 if dim >= _LONG_ROW else 1) // (4 * k))


def lengths(rows: Rows) -> NDArray[np.float64]:
    """The lengths of rows, rounded up."""
    squares = np.vecdot(rows, rows).astype(np.float64)
    return np.sqrt(squares * (1 + 2 * product_error(rows.shape[1]))) + LEAST


def round_down(values: NDArray[np.float64]) -> NDArray[np.float32]:
    """The float32 numbers just below."""
    return np.nextafter(values.astype(np.float32), np.float32(-np.inf))


def lowest(products: NDArray[Any]) -> float:
    """What no product is below."""
    return -np.inf if products.dtype == np.float32 else np.iinfo(products.dtype).min


def as_threshold(threshold: NDArray[np.float64], like: NDArray[Any]) -> NDArray[Any]:
    """A threshold rounded down to the type of the products."""
    if like.dtype == np.float32:
        return round_down(threshold)
    return np.maximum(np.floor(threshold), np.iinfo(like.dtype).min).astype(like.dtype)


def row_cosines(rows: Rows, centroids: Rows, index: Indices) -> NDArray[np.float32]:
    """The cosine of every unit row to its own centroid."""
    cosine = np.empty(len(rows), np.float32)
    step = max(1, _COPY_BYTES // (4 * rows.shape[1]))
    own = np.empty((min(step, len(rows)), rows.shape[1]), np.float32)
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        count = len(index[part])
        np.take(centroids, index[part], axis=0, out=own[:count], mode="clip")
        np.vecdot(rows[part], own[:count], out=cosine[part])
    return cosine


def pair_cosines(rows: Rows, row: Indices, centroids: Rows, index: Indices) -> NDArray[np.float32]:
    """The cosines of pairs (row, centroid), a few at a time so that the copies stay in the cache."""
    cosine = np.empty(len(row), np.float32)
    step = max(1, _COPY_BYTES // (4 * rows.shape[1]))
    left, right = (np.empty((min(step, len(row)), rows.shape[1]), np.float32) for _ in range(2))
    for first in range(0, len(row), step):
        part = slice(first, first + step)
        count = len(row[part])
        np.take(rows, row[part], axis=0, out=left[:count], mode="clip")
        np.take(centroids, index[part], axis=0, out=right[:count], mode="clip")
        np.vecdot(left[:count], right[:count], out=cosine[part])
    return cosine


def settle(
    rows: Rows, centroids: Rows, index: Indices, cosine: NDArray[np.float32], row: Indices, rival: Indices
) -> None:
    """Compare each row's centroid `index`, of known cosine, with its rivals, and put the nearest in its place.

    `row` and `rival` are pairs in any number and order.
    """
    exact = pair_cosines(rows, row, centroids, rival)
    best = cosine[row]
    better = (exact > best) | ((exact == best) & (rival < index[row]))
    row, rival, exact = row[better], rival[better], exact[better]
    order = np.lexsort((-rival, exact, row))  # the last of a row is the nearest, and of equals that of lowest index
    index[row[order]], cosine[row[order]] = rival[order], exact[order]  # the last assignment stays
