"""Nearest centroid in float32: the reference every other kernel is held against."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["ExactSearch", "pair_cosines", "row_cosines", "rows_at_once"]

_PRODUCT_BYTES = 8 * 2**20  # of similarities held at once: stays inside the last-level cache

_COPY_BYTES = 2**18  # of centroids copied at once to be multiplied with their rows


def rows_at_once(k: int) -> int:
    """How many rows to compare with k centroids in one matrix product."""
    return max(1, _PRODUCT_BYTES // (4 * k))


class ExactSearch:
    """Compare every row with every centroid."""

    name = "float32"

    def __init__(self, centroids: NDArray[np.float32]) -> None:
        self.centroids = centroids

    def __call__(self, block: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """For unit rows, the index of the centroid with the largest cosine, and that cosine.

        The matrix product only chooses the centroid; the cosine is then recomputed row by row, so that a row's score
        does not depend on which rows share its block (matrix products round differently in blocks of another height).
        """
        index = np.empty(len(block), np.int64)
        rows = rows_at_once(len(self.centroids))
        for first in range(0, len(block), rows):
            (block[first : first + rows] @ self.centroids.T).argmax(axis=1, out=index[first : first + rows])
        return index, row_cosines(block, self.centroids, index)


def row_cosines(
    rows: NDArray[np.float32], centroids: NDArray[np.float32], index: NDArray[np.int64]
) -> NDArray[np.float32]:
    """The cosine of every unit row to its own centroid."""
    cosine = np.empty(len(rows), np.float32)
    step = max(1, _COPY_BYTES // (4 * rows.shape[1]))
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        np.vecdot(rows[part], centroids[index[part]], out=cosine[part])
    return cosine


def pair_cosines(
    rows: NDArray[np.float32], row: NDArray[np.int64], centroids: NDArray[np.float32], index: NDArray[np.int64]
) -> NDArray[np.float32]:
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
