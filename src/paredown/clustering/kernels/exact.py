"""Nearest centroid by comparing every row with every centroid, in float32 or in anything with a known error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels.cosines import (
    Indices,
    Rows,
    as_threshold,
    lengths,
    lowest,
    product_error,
    row_cosines,
    rows_at_once,
    settle,
)

SETTLING = 16.0  # a multiplication for one pair of vectors takes this many times as long as one of a matrix product


class Doubts(NamedTuple):
    """The leader of every row, and the pairs (row, rival) that may be nearer."""

    leader: Indices
    row: Indices
    rival: Indices


class Look(NamedTuple):
    """Rows as a kernel multiplies them: a product is at least `(cosine - slack) * unit`."""

    low: Any
    slack: NDArray[np.float64]
    unit: NDArray[np.float64] | float = 1.0


class ProductSearch(ABC):
    """A search by one product of matrices whose error is bounded: only rivals within the bound are settled."""

    name: str
    cost, preparation = 1.0, 0.0  # of one multiplication, and of one number of a row, in multiplications of float32

    def __init__(self, centroids: Rows) -> None:
        self.centroids = np.ascontiguousarray(centroids, dtype=np.float32)
        self.longest = float(lengths(self.centroids).max())

    @abstractmethod
    def products(self, rows: Rows, space: Rows | None = None) -> tuple[NDArray[Any], NDArray[np.float64]]:
        """Products (n, k), to be overwritten, and for every row how far they can be from the float32 cosines.

        Both may be in units of their own for every row. `space` (at least n, k) may be used for the products.
        """

    def __call__(self, block: Rows) -> tuple[Indices, NDArray[np.float32]]:
        """For unit rows, the index of the centroid with the largest cosine, and that cosine."""
        block = np.ascontiguousarray(block)
        index = self.choose(block)
        return index, row_cosines(block, self.centroids, index)

    def choose(self, block: Rows) -> Indices:
        """The index of the centroid with the largest inner product, of rows of any length."""
        block = np.ascontiguousarray(block)
        index = np.empty(len(block), np.int64)
        step = rows_at_once(*self.centroids.shape)
        # Used again for every block: new memory would cost more than a small product.
        space = np.empty((min(step, len(block)), len(self.centroids)), np.float32)
        for first in range(0, len(block), step):
            rows = block[first : first + step]
            index[first : first + step] = remove_doubts(rows, self.centroids, self.doubts(rows, space))
        return index

    def doubts(self, rows: Rows, space: Rows | None = None) -> Doubts:
        """Who leads, and which rivals the error of the products leaves in doubt."""
        return find_doubts(*self.products(rows, space))

    def operations(self, rows: Rows) -> float:
        """What a row costs for every centroid, counted on some rows, in multiplications of a float32 product."""
        pairs = len(self.doubts(rows).row) + len(rows)
        k, dim = self.centroids.shape
        return dim * (self.cost + (self.preparation + SETTLING * pairs / len(rows)) / k)


class ExactSearch(ProductSearch):
    """Compare in float32."""

    name = "float32"

    def __init__(self, centroids: Rows) -> None:
        super().__init__(centroids)
        self._error = 2 * product_error(centroids.shape[1]) * self.longest  # of the product and of the cosine

    def products(self, rows: Rows, space: Rows | None = None) -> tuple[Rows, NDArray[np.float64]]:
        products = np.matmul(rows, self.centroids.T, out=None if space is None else space[: len(rows)])
        return products, self._error * lengths(rows)

    def look(self, rows: Rows) -> Look:
        """Rows to be multiplied with some of the centroids at a time."""
        return Look(rows, self._error * lengths(rows))

    def look_at(self, part: slice) -> Look:
        """Centroids themselves, to be multiplied with others: in one unit for all."""
        return self.look(self.centroids[part])

    def multiply(self, low: Rows, part: slice, space: Rows) -> Rows:
        """Upper bounds of the cosines to some of the centroids, in `space`."""
        return np.matmul(low, self.centroids[part].T, out=space)


def find_doubts(products: NDArray[Any], error: NDArray[np.float64]) -> Doubts:
    """Who leads by products that are overwritten, and the rivals no more than twice the error of the row behind."""
    every = np.arange(len(products))
    leader = products.argmax(axis=1)
    threshold = as_threshold(products[every, leader].astype(np.float64) - 2 * error, products)
    products[every, leader] = lowest(products)
    second = products[every, products.argmax(axis=1)]  # finding it is quicker than comparing all with the threshold
    doubtful = np.flatnonzero(second >= threshold)
    row, rival = np.nonzero(products[doubtful] >= threshold[doubtful, None])
    return Doubts(leader, doubtful[row], rival)


def remove_doubts(rows: Rows, centroids: Rows, doubts: Doubts) -> Indices:
    """The nearest centroid of every row, settled where there are rivals."""
    index, row, rival = doubts
    doubtful = np.unique(row)
    if len(doubtful):
        some, leader = rows[doubtful], index[doubtful]
        cosine = row_cosines(some, centroids, leader)
        settle(some, centroids, leader, cosine, np.searchsorted(doubtful, row), rival)
        index[doubtful] = leader
    return index
