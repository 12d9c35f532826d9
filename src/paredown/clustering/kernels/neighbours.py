"""The largest cosines of rows to a reference, the same to the last bit however they are found.

Rows are compared with the reference part by part, the nearest first, by products that bound the cosines from above:
in all dimensions, in leading ones, or in eight-bit integers. Only what a bound puts above the smallest of the largest
cosines so far is looked at closely, and raises it for the parts to come.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels import SAMPLE_ROWS, nearest, torch_kernels, worth_a_choice
from paredown.clustering.kernels.cosines import Indices, Rows, as_threshold, lowest, pair_cosines
from paredown.clustering.kernels.exact import SETTLING, ExactSearch
from paredown.clustering.kernels.low_precision import Int8Search
from paredown.clustering.kernels.screened import WIDTHS, Screen, leading_basis
from paredown.clustering.kmeans import spherical_kmeans
from paredown.errors import PareError
from paredown.threads import one_blas_thread

BLOCK_ROWS, PART = 512, 2_048  # rows, and rows of the reference, compared at once: the products stay in the cache
_GROUP = 16  # products of which the largest is found first
_GROUPS_EACH = 4  # groups for each cosine wanted, at least
_COUNTED_ROWS = 64  # to count operations on
_MUTUAL_SETTLING = 2.0  # where rows are compared with each other, half of the products are left but most of the pairs
_WORTH_TORCH = 2e11  # multiplications below which importing torch would take longer than it saves
_MOST_CLUSTERS, _SAMPLED_EACH, _COLUMNS = 1_024, 64, 16  # to put the reference in order


Bounds = ExactSearch | Int8Search | Screen  # upper bounds of the cosines of rows to some of the reference at a time


class NeighbourSearch:
    """The `count` largest cosines of rows to the rows of a reference, screened by `bounds`: all dimensions if None.

    It is quickest where rows of the reference that are near each other stand together; `place` says where each of those
    that callers know by number stands now.
    """

    def __init__(
        self, reference: Rows, count: int, bounds: Bounds | None = None, *, place: Indices | None = None
    ) -> None:
        self.reference, self.count, self.place = np.ascontiguousarray(reference), count, place
        self.bounds = ExactSearch(self.reference) if bounds is None else bounds
        starts = np.arange(0, len(reference), max(PART, count + 1))
        self.parts = [slice(*ends) for ends in pairwise([*starts.tolist(), len(reference)])]
        if len(self.parts) > 1 and len(reference) - starts[-1] <= count:
            self.parts[-2:] = [slice(self.parts[-2].start, len(reference))]
        self.middles = np.stack([self.reference[part].mean(axis=0) for part in self.parts])

    def __call__(self, block: Rows, own: Indices) -> NDArray[np.float32]:
        """Cosines (n, count), the largest first; `own` is the row of the reference that is not counted, -1 for none."""
        if self.place is not None:
            own = np.where(own < 0, own, self.place[own])
        found = np.empty((len(block), self.count), np.float32)
        together = np.argsort((block @ self.middles.T).argmax(axis=1))
        for first in range(0, len(block), BLOCK_ROWS):
            some = together[first : first + BLOCK_ROWS]
            found[some], _ = self._search(block[some], own[some])
        return found

    def operations(self, rows: Rows, *, mutual: bool = False) -> float:
        """What a row costs, counted on some rows, in multiplications of a float32 product.

        Where rows of the reference are compared with each other (`mutual`), relative to those that products then save.
        """
        _, pairs = self._search(rows, np.full(len(rows), -1))
        k, dim = self.reference.shape
        settled = (_MUTUAL_SETTLING if mutual else 1.0) * SETTLING * dim * pairs / len(rows)
        if isinstance(self.bounds, Screen):
            return self.bounds.width * (dim + k) + settled
        return self.bounds.cost * dim * k + settled

    def _search(self, rows: Rows, own: Indices) -> tuple[NDArray[np.float32], int]:
        """The cosines, and how many pairs of rows were compared for them."""
        low, slack, unit = self.bounds.look(rows)
        longest = max(part.stop - part.start for part in self.parts)
        space = np.empty(len(low) * longest, np.float32)  # used again for every part: new memory would cost more
        passes = np.empty(len(low) * longest, bool)
        largest, compared = np.full((len(rows), self.count), -np.inf, np.float32), 0
        threshold = np.empty(0)
        higher: list[tuple[Indices, NDArray[np.float32]]] = []  # cosines above `threshold`, and their rows
        for step, number in enumerate(np.argsort(-self.middles @ rows.mean(axis=0)).tolist(), start=1):
            part = self.parts[number]
            size = part.stop - part.start
            products = self.bounds.multiply(low, part, space[: len(low) * size].reshape(len(low), size))[: len(rows)]
            inside = np.flatnonzero((own >= part.start) & (own < part.stop))
            products[inside, own[inside] - part.start] = lowest(products)
            passing = passes[: products.size].reshape(products.shape)
            if step == 1:
                compared = begin(largest, products, rows, self.reference[part], passing, slack, unit)
            else:
                np.greater_equal(products, threshold[:, None], out=passing)
            row, near = np.divmod(np.flatnonzero(passing), size)
            cosine = pair_cosines(rows, row, self.reference, part.start + near)
            compared += len(row)
            above = np.flatnonzero(cosine > largest[row, 0])
            higher.append((row[above], cosine[above]))
            if step & (step - 1) == 0 or step == len(self.parts):  # the first parts raise it most
                row, cosine = (np.concatenate(some) for some in zip(*higher, strict=True))
                order = np.argsort(row, kind="stable")
                largest, higher = add_largest(largest, row[order], cosine[order]), []
                threshold = as_threshold((largest[:, 0] - slack) * unit, products)
        return -np.sort(-largest, axis=1), compared


def begin(
    largest: Rows,
    products: NDArray[Any],
    rows: Rows,
    others: Rows,
    passing: NDArray[np.bool_],
    slack: NDArray[np.float64],
    unit: NDArray[np.float64] | float,
) -> int:
    """Fill `largest` with cosines to the likeliest of the first `others`, and mark in `passing` who else to compare.

    How many pairs were compared.
    """
    likely = _likely(products, largest.shape[1])
    row, near = np.nonzero(np.greater_equal(products, likely[:, None], out=passing))
    add_largest(largest, row, pair_cosines(rows, row, others, near))
    threshold = as_threshold((largest[:, 0] - slack) * unit, products)
    np.greater_equal(products, threshold[:, None], out=passing)
    passing &= products < likely[:, None]
    return len(row)


def add_largest(known: Rows, row: Indices, cosine: NDArray[np.float32]) -> Rows:
    """The largest cosines of each row, of as many known ones, which they replace, and of new ones, in order of rows.

    The smallest stands first.
    """
    count = known.shape[1]
    news = np.bincount(row, minlength=len(known))
    place = np.arange(len(row)) - (np.cumsum(news) - news)[row]
    room = np.where(news > 0, 4 ** np.ceil(np.log2(np.maximum(news, 4)) / 2), 0).astype(np.int64)
    for wide in np.unique(room[room > 0]).tolist():  # rows with many new ones do not slow down those with few
        some, those = np.flatnonzero(room == wide), np.flatnonzero(room[row] == wide)
        every = np.full((len(some), count + wide), -np.inf, np.float32)
        every[:, :count] = known[some]
        every[np.searchsorted(some, row[those]), count + place[those]] = cosine[those]
        known[some] = np.partition(every, wide, axis=1)[:, wide:]
    return known


def _likely(products: NDArray[Any], count: int) -> NDArray[Any]:
    """A number for each row that at least `count` of its products are no less than, and not many more.

    It is found among the largest products of groups, which are few.
    """
    size = products.shape[1]
    groups = size // max(1, min(_GROUP, size // (_GROUPS_EACH * count)))
    peaks = products[:, : size // groups * groups].reshape(len(products), -1, groups).max(axis=1)
    return np.partition(peaks, groups - count, axis=1)[:, groups - count]


def choose_neighbour_search(
    reference: Rows, count: int, *, n: int, place: Indices | None = None, mutual: bool = False
) -> NeighbourSearch:
    """The search with the fewest operations for `n` rows like those of the reference; `mutual` as in `operations`."""
    plain = NeighbourSearch(reference, count, place=place)
    if not worth_a_choice(n, reference.size):
        return plain
    best, fewest = plain, float(reference.size)
    for bounds in _possible_bounds(reference, n * reference.size):
        search = NeighbourSearch(reference, count, bounds, place=place)
        with one_blas_thread():
            operations = search.operations(reference[:_COUNTED_ROWS], mutual=mutual)
        if operations < fewest:
            best, fewest = search, operations
    return best


def _possible_bounds(reference: Rows, work: int) -> Iterator[Bounds]:
    """Every kind of bounds that may be quicker than products in all dimensions, made one at a time."""
    if "int8" in torch_kernels(work, worth=_WORTH_TORCH):
        with suppress(PareError, RuntimeError):  # a private function of torch that is not there, or not exact here
            yield Int8Search(reference)
    widths = [width for width in WIDTHS if 2 * width <= reference.shape[1]]
    if widths:
        basis = leading_basis(reference[:: -(-len(reference) // SAMPLE_ROWS)], widths[-1])
        for width in widths:
            yield Screen(reference, np.ascontiguousarray(basis[:, :width]))


def bring_together(reference: Rows) -> Indices:
    """Put rows of a cluster next to each other, in place, and say where each row now stands."""
    clusters = min(_MOST_CLUSTERS, len(reference) // PART)
    if clusters < 2:
        return np.arange(len(reference))
    sample = reference[:: max(1, len(reference) // (_SAMPLED_EACH * clusters))]
    order = np.argsort(nearest(reference, spherical_kmeans(sample, clusters, seed=0, iterations=5).centroids)[0])
    for first in range(0, reference.shape[1], _COLUMNS):  # a copy of all rows may not fit into memory
        reference[:, first : first + _COLUMNS] = reference[order, first : first + _COLUMNS]
    return np.argsort(order)
