"""Nearest centroid by screening: compare in a few leading dimensions, look closely only where that leaves doubt.

Embeddings vary mostly within a small subspace. Inside it a comparison costs `width` instead of `dim` multiplications.
What a cosine loses outside is at most the product of the two residual lengths (Cauchy and Schwarz), so

    cosine(row, centroid) <= low(row) . low(centroid) + residual(row) residual(centroid)

and a centroid whose bound lies below the exact cosine of another one cannot be the nearest. The residuals are one more
coordinate, so that a single product of matrices gives the bounds.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels.cosines import (
    LEAST,
    Indices,
    Rows,
    lengths,
    product_error,
    round_down,
    row_cosines,
    rows_at_once,
    settle,
)
from paredown.clustering.kernels.exact import SETTLING, Doubts, ExactSearch, Look
from paredown.threads import one_blas_thread

WIDTHS = (48, 64, 96, 128, 192)
_MOST_RIVALS = 16  # for each row, above which comparing with all centroids is as quick
_PRECISE_ROWS = 4_096  # of the vectors in double precision at once
_OVERSAMPLING, _POWER_STEPS = 16, 3  # of the randomised subspace iteration


class Screen:
    """Vectors seen in leading dimensions, for upper bounds of their cosines with rows.

    `basis` (dim, width) has columns that are orthonormal up to rounding; how far they are not is part of the bound.
    """

    def __init__(self, vectors: Rows, basis: Rows) -> None:
        dim, width = basis.shape
        self.basis, self.width = basis, width
        self._wide = np.concatenate([basis, np.zeros((dim, 1), np.float32)], axis=1)  # room for the residual
        precise, longest = basis.astype(np.float64), float(lengths(vectors).max())
        # |x^T (1 - B B^T) c| <= r(x) r(c) + skew |x| |c| with r(x)^2 = |x|^2 - |B^T x|^2 + skew |x|^2
        self._skew = float(np.linalg.norm(precise.T @ precise - np.eye(width))) + dim * 2.0**-50
        self._shift = product_error(dim) * math.sqrt(width * (1 + self._skew))  # of |B^T x| for unit x, in float32
        self._low = np.empty((width + 1, len(vectors)), np.float32)
        for first in range(0, len(vectors), _PRECISE_ROWS):
            part = vectors[first : first + _PRECISE_ROWS].astype(np.float64)
            low = part @ precise
            squares = np.vecdot(part, part) * (1 + self._skew) - np.vecdot(low, low)
            self._low[:-1, first : first + _PRECISE_ROWS] = low.T
            self._low[-1, first : first + _PRECISE_ROWS] = np.sqrt(np.maximum(squares, 0)) * (1 + 1e-6)
        # What rounding adds for a row of unit length: in the cosine, in B^T x, in B^T c, in the product of the two.
        rounding = product_error(dim) + self._shift + product_error(1) + 2 * product_error(width + 2) + self._skew
        self._slack, self._longest = 1.01 * rounding * longest, longest

    def bounds(self, rows: Rows) -> tuple[Rows, NDArray[np.float64]]:
        """Upper bounds (n, k) of the cosines, and for every row how far above them rounding may put a cosine."""
        low, slack, _ = self.look(rows)
        return low @ self._low, slack

    def look(self, rows: Rows) -> Look:
        """Rows to be multiplied with some of the vectors at a time."""
        length = lengths(rows)
        return Look(self._project(rows, length), self._slack * length + LEAST)

    def look_at(self, part: slice) -> Look:
        """Vectors themselves, to be multiplied with others: in one unit for all, and rounded no worse than rows."""
        low = self._low[:, part].T
        return Look(low, np.full(len(low), self._slack * self._longest + LEAST))

    def multiply(self, low: Rows, part: slice, space: Rows) -> Rows:
        """Upper bounds of the cosines to some of the vectors, in `space`."""
        return np.matmul(low, self._low[:, part], out=space)

    def _project(self, rows: Rows, length: NDArray[np.float64]) -> Rows:
        """The coordinates of rows in the subspace, and the length of what is outside, rounded up."""
        low = rows @ self._wide
        inside = np.vecdot(low, low).astype(np.float64) * (1 - 2 * product_error(low.shape[1]))
        lost = (self._skew + 2 * self._shift * (1 + self._skew + self._shift)) * length**2
        low[:, -1] = np.sqrt(np.maximum(length**2 - inside + lost, 0)) * (1 + 1e-6)
        return low


class ScreenedSearch:
    """A search through leading dimensions, with exact comparison of the centroids that they do not rule out."""

    def __init__(self, centroids: Rows, basis: Rows) -> None:
        self.name = f"screened in {basis.shape[1]} dimensions"
        self.centroids = np.ascontiguousarray(centroids, dtype=np.float32)
        self.basis = basis
        self._screen, self._exact = Screen(self.centroids, basis), ExactSearch(self.centroids)

    def __call__(self, block: Rows) -> tuple[Indices, NDArray[np.float32]]:
        """For unit rows, the index of the centroid with the largest cosine, and that cosine."""
        block = np.ascontiguousarray(block)
        index, cosine = np.empty(len(block), np.int64), np.empty(len(block), np.float32)
        step = rows_at_once(len(self.centroids), self._screen.width)
        for first in range(0, len(block), step):
            part = slice(first, first + step)
            index[part], cosine[part] = self._search(block[part])
        return index, cosine

    def _search(self, rows: Rows) -> tuple[Indices, NDArray[np.float32]]:
        (index, row, rival), cosine = self._doubts(rows)
        if len(row) > _MOST_RIVALS * len(rows):
            return self._exact(rows)
        settle(rows, self.centroids, index, cosine, row, rival)
        return index, cosine

    def _doubts(self, rows: Rows) -> tuple[Doubts, NDArray[np.float32]]:
        """The centroid with the largest bound, the rivals with a bound above its cosine, and that cosine."""
        bound, slack = self._screen.bounds(rows)
        leader = bound.argmax(axis=1)
        cosine = row_cosines(rows, self.centroids, leader)
        bound[np.arange(len(rows)), leader] = -np.inf
        threshold = round_down(cosine - slack)
        row, rival = np.divmod(np.flatnonzero(bound >= threshold[:, None]), len(self.centroids))
        return Doubts(leader, row, rival), cosine

    def operations(self, rows: Rows) -> float:
        """What a row costs for every centroid, counted on some rows, in multiplications of a float32 product."""
        (_, row, _), _ = self._doubts(rows)
        k, dim = self.centroids.shape
        width = self.basis.shape[1]
        return width + (dim / k) * (width + SETTLING * (1 + len(row) / len(rows)))


def screens(centroids: Rows, rows: Rows, widths: tuple[int, ...]) -> list[ScreenedSearch]:
    """Screens of growing width in the leading dimensions of sample rows."""
    if not widths:
        return []
    basis = leading_basis(rows, widths[-1])
    return [ScreenedSearch(centroids, np.ascontiguousarray(basis[:, :width])) for width in widths]


def leading_basis(rows: Rows, width: int) -> Rows:
    """Orthonormal directions that hold most of the rows' squared length, by randomised subspace iteration.

    Clusters are sought in these directions, so their bits must not depend on the number of threads.
    """
    rng = np.random.default_rng(0)
    wider = min(width + _OVERSAMPLING, *rows.shape)
    basis = rng.standard_normal((rows.shape[1], wider), np.float32)
    with one_blas_thread():
        for _ in range(_POWER_STEPS):
            basis = np.linalg.qr(rows.T @ (rows @ basis))[0]
        _, _, turn = np.linalg.svd(rows @ basis, full_matrices=False)
        return np.ascontiguousarray((basis @ turn.T)[:, :width])
