"""The largest cosines of rows to a reference, the same to the last bit however they are found."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels import SAMPLE_ROWS, worth_a_choice
from paredown.clustering.kernels.cosines import Indices, Rows, lengths, pair_cosines, product_error, round_down
from paredown.clustering.kernels.exact import SETTLING
from paredown.clustering.kernels.screened import WIDTHS, Screen, leading_basis
from paredown.threads import one_blas_thread

_PRODUCT_BYTES = 32 * 2**20  # of bounds held at once: high blocks, since the reference is read for each of them
_COUNTED_ROWS = 64  # to count operations on


class NeighbourSearch:
    """The `count` largest cosines of rows to the rows of a reference, by products with all of them.

    Products in all dimensions find candidates up to their rounding. A screen first finds as many as are wanted, then
    all whose bound is above the smallest exact cosine among those.
    """

    def __init__(self, reference: Rows, count: int, screen: Screen | None = None) -> None:
        self.reference, self.count, self.screen = np.ascontiguousarray(reference), count, screen
        self._error = 2 * product_error(reference.shape[1]) * float(lengths(self.reference).max())

    def __call__(self, block: Rows, own: Indices) -> NDArray[np.float32]:
        """Cosines (n, count), the largest first; `own` is the row of the reference that is not counted, -1 for none."""
        block = np.ascontiguousarray(block)
        found = np.empty((len(block), self.count), np.float32)
        step = max(1, _PRODUCT_BYTES // (4 * len(self.reference)))
        for first in range(0, len(block), step):
            part = slice(first, first + step)
            found[part], _ = self._search(block[part], own[part])
        return found

    def operations(self, rows: Rows) -> float:
        """What a row costs, counted on some rows, in multiplications of a matrix product."""
        _, pairs = self._search(rows, np.full(len(rows), -1))
        k, dim = self.reference.shape
        products = dim * k if self.screen is None else self.screen.width * (dim + k)
        return products + SETTLING * dim * pairs / len(rows)

    def _search(self, rows: Rows, own: Indices) -> tuple[NDArray[np.float32], int]:
        """The cosines, and how many pairs of rows were compared for them."""
        bound, slack = self._bounds(rows)
        inside = np.flatnonzero(own >= 0)
        bound[inside, own[inside]] = -np.inf
        last = bound.shape[1] - self.count
        likely = np.partition(bound, last, axis=1)[:, last]
        if self.screen is None:  # products are as far from the cosines on either side: nothing lower can be among them
            likely = round_down(likely - 2 * slack)
        row, near = np.nonzero(bound >= likely[:, None])
        cosine = pair_cosines(rows, row, self.reference, near)
        largest = self._largest(row, cosine, len(rows))
        if self.screen is None:
            return largest, len(cosine)
        threshold = round_down(largest[:, -1] - slack)
        more_row, more_near = np.nonzero((bound >= threshold[:, None]) & (bound < likely[:, None]))
        cosine = np.concatenate([cosine, pair_cosines(rows, more_row, self.reference, more_near)])
        return self._largest(np.concatenate([row, more_row]), cosine, len(rows)), len(cosine)

    def _bounds(self, rows: Rows) -> tuple[Rows, NDArray[np.float64]]:
        if self.screen is not None:
            return self.screen.bounds(rows)
        return rows @ self.reference.T, self._error * lengths(rows)

    def _largest(self, row: Indices, cosine: NDArray[np.float32], n: int) -> NDArray[np.float32]:
        """The largest cosines of each of n rows, in descending order."""
        order = np.lexsort((-cosine, row))
        starts = np.searchsorted(row[order], np.arange(n))
        return cosine[order[starts[:, None] + np.arange(self.count)]]


def choose_neighbour_search(reference: Rows, count: int, *, n: int) -> NeighbourSearch:
    """The search with the fewest operations for `n` rows like those of the reference."""
    plain = NeighbourSearch(reference, count)
    widths = [width for width in WIDTHS if 2 * width <= reference.shape[1]]
    if not worth_a_choice(n, reference.size) or not widths:
        return plain
    basis = leading_basis(reference[:SAMPLE_ROWS], widths[-1])
    best, fewest = plain, float(reference.size)
    for width in widths:
        search = NeighbourSearch(reference, count, Screen(reference, np.ascontiguousarray(basis[:, :width])))
        with one_blas_thread():
            operations = search.operations(reference[:_COUNTED_ROWS])
        if operations < fewest:
            best, fewest = search, operations
    return best
