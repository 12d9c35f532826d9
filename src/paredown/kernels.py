"""The one inner loop of prototype metrics: which centroid is nearest in cosine, and how near."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

__all__ = ["nearest"]

_PRODUCT_BYTES = 8 * 2**20  # of similarities held at once: stays inside the last-level cache


def nearest(
    block: NDArray[np.float32], centroids: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """For unit rows, the index of the centroid with the largest cosine, and that cosine.

    The matrix product only chooses the centroid; the cosine is then recomputed row by row, so that a row's score does
    not depend on which rows share its block (matrix products round differently in blocks of another height).
    """
    index = np.empty(len(block), np.int64)
    rows = max(1, _PRODUCT_BYTES // (4 * len(centroids)))
    for first in range(0, len(block), rows):
        (block[first : first + rows] @ centroids.T).argmax(axis=1, out=index[first : first + rows])
    return index, np.vecdot(block, centroids[index])
