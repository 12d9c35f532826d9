"""Nearest centroid by screening: compare in a few leading dimensions, look closely only where that leaves doubt.

Embeddings vary mostly within a small subspace. Inside it a comparison costs `dims` instead of `dim` multiplications;
what it leaves out of a cosine is small and its size is measured on sample rows. The best centroid in the subspace is
taken unless a rival comes within that margin, and then the rivals are compared exactly. The cosine that is returned is
always the exact one of the chosen centroid.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from paredown.kernels.exact import ExactSearch, pair_cosines, rows_at_once

__all__ = ["ScreenedSearch", "fit_screen", "leading_basis", "screens"]

_WIDTHS = (48, 64, 96, 128, 192)
_SAFETY = 1.25  # the margin is this much wider than what 99.9 % of the sample rows needed
_MOST_RIVALS = 16  # candidates per row above which comparing with all centroids is as quick
_OVERSAMPLING, _POWER_STEPS = 16, 3  # of the randomised subspace iteration


class ScreenedSearch:
    """A search through `dims` leading dimensions with exact comparison of close rivals."""

    def __init__(self, centroids: NDArray[np.float32], basis: NDArray[np.float32], margin: float) -> None:
        self.name = f"screened in {basis.shape[1]} dimensions"
        self.centroids, self.basis, self.margin = centroids, basis, np.float32(margin)
        self._low = np.ascontiguousarray((centroids @ basis).T)
        self._exact = ExactSearch(centroids)

    def __call__(self, block: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        """For unit rows, the index of the nearest centroid (almost always) and the exact cosine to it."""
        index, cosine = np.empty(len(block), np.int64), np.empty(len(block), np.float32)
        rows = rows_at_once(len(self.centroids))
        for first in range(0, len(block), rows):
            part = slice(first, first + rows)
            index[part], cosine[part] = self._search(block[part])
        return index, cosine

    def _search(self, rows: NDArray[np.float32]) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
        similar = (rows @ self.basis) @ self._low
        threshold = similar.max(axis=1) - self.margin
        pairs = np.flatnonzero(similar >= threshold[:, None])  # row by row: the best and its rivals
        row, rival = np.divmod(pairs, len(self.centroids))
        if len(pairs) > _MOST_RIVALS * len(rows):
            return self._exact(rows)
        exact = pair_cosines(rows, row, self.centroids, rival)
        starts = np.searchsorted(row, np.arange(len(rows)))
        cosine = np.maximum.reduceat(exact, starts)
        winner = np.flatnonzero(exact == cosine[row])[::-1]
        index = np.empty(len(rows), np.int64)
        index[row[winner]] = rival[winner]  # the first of equals, as argmax would have it
        return index, cosine


def screens(
    centroids: NDArray[np.float32], rows: NDArray[np.float32], truth: NDArray[np.int64]
) -> Iterator[ScreenedSearch]:
    """Screens of growing width for sample rows whose nearest centroids are known."""
    widths = [dims for dims in _WIDTHS if 2 * dims <= min(rows.shape)]
    if widths:
        basis = leading_basis(rows, widths[-1])
        for dims in widths:
            yield fit_screen(centroids, rows, truth, np.ascontiguousarray(basis[:, :dims]))


def fit_screen(
    centroids: NDArray[np.float32], rows: NDArray[np.float32], truth: NDArray[np.int64], basis: NDArray[np.float32]
) -> ScreenedSearch:
    """A screened search whose margin is measured on sample rows with known nearest centroids."""
    similar = (rows @ basis) @ (centroids @ basis).T
    shortfall = similar.max(axis=1) - similar[np.arange(len(rows)), truth]
    return ScreenedSearch(centroids, basis, _SAFETY * float(np.quantile(shortfall, 0.999)))


def leading_basis(rows: NDArray[np.float32], dims: int) -> NDArray[np.float32]:
    """Orthonormal directions that hold most of the rows' squared length, by randomised subspace iteration."""
    rng = np.random.default_rng(0)
    width = min(dims + _OVERSAMPLING, *rows.shape)
    basis = rng.standard_normal((rows.shape[1], width), np.float32)
    for _ in range(_POWER_STEPS):
        basis = np.linalg.qr(rows.T @ (rows @ basis))[0]
    _, _, turn = np.linalg.svd(rows @ basis, full_matrices=False)
    return np.ascontiguousarray((basis @ turn.T)[:, :dims])
