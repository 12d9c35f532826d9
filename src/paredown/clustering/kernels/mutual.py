"""The largest cosines of rows to each other: every product serves both of its rows, so that half of them are enough.

Pairs of parts are compared nearest first, and a pair of rows is looked at closely if a bound puts its cosine above the
smallest of the largest so far of either row. What is found does not depend on the order of parts, or on how many pairs
are kept before they are merged: the cosine of two rows is the same either way round.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels.cosines import Indices, Rows, as_threshold, lowest, pair_cosines
from paredown.clustering.kernels.neighbours import BLOCK_ROWS, NeighbourSearch, add_largest, begin
from paredown.progress import Track, silent

Marks = NDArray[np.bool_]

_MOST_GROUPS = 512  # of parts, whose order is looked at
_FIRST_MERGE, _MERGE_GROWTH = 0.25, 1.5  # in pairs of parts for each part: the first ones raise the thresholds most
_MERGED_ROWS = 2**14  # at once
_PAIR_BYTES, _FEWEST_PAIRS, _MOST_PAIRS = 64, 2**14, 2**20  # kept before they are merged
_STATE = 4.0  # times the bytes of the cosines sought, with their thresholds, the pairs being merged and copies


def mutual_bytes(n: int, count: int) -> int:
    """Bytes that `MutualSearch` takes for its state, beside the rows and its blocks."""
    return int(_STATE * 4 * n * (count + 2))


class MutualSearch:
    """The `search.count` largest cosines of each row of the reference of `search` to the others."""

    def __init__(self, search: NeighbourSearch, *, memory: int = 2**30) -> None:
        self.search, self.reference = search, search.reference
        self._largest = np.full((len(self.reference), search.count), -np.inf, np.float32)  # the smallest first
        self._space, self._passes = np.empty(0, np.float32), np.empty((2, 0), bool)
        self._row: list[Indices] = []  # of pairs that are not merged yet
        self._cosine: list[NDArray[np.float32]] = []
        self._most_pairs = min(_MOST_PAIRS, max(_FEWEST_PAIRS, memory // 8 // _PAIR_BYTES))

    def distances(self, *, track: Track = silent) -> NDArray[np.float32]:
        """The mean of 1 - cosine of each row to its neighbours, in the order of the reference."""
        search, parts = self.search, self.search.parts
        for part in parts:
            for block in _blocks(part):
                self._compare_inside(block, part)
        merge_at = _FIRST_MERGE * len(parts)
        total = len(parts) * (len(parts) - 1) // 2
        pairs = track(_near_first(search.middles), "neighbours", total=total)
        for done, (left, right) in enumerate(pairs, start=1):
            for block in _blocks(parts[left]):
                self._compare(block, parts[right])
            if done >= merge_at:
                self._merge()
                merge_at *= _MERGE_GROWTH
        self._merge()
        means = np.empty(len(self.reference), np.float32)
        for first in range(0, len(means), _MERGED_ROWS):
            part = slice(first, first + _MERGED_ROWS)
            means[part] = mean_distance(-np.sort(-self._largest[part], axis=1))
        return means

    def _compare_inside(self, rows: slice, part: slice) -> None:
        """A block of rows with the part that it is in, from both sides."""
        size = part.stop - part.start
        low, slack, unit = self.search.bounds.look_at(rows)
        products, passing, _ = self._multiply(low, rows, part)
        products[np.arange(len(products)), np.arange(rows.start, rows.stop) - part.start] = lowest(products)
        own, others, largest = self.reference[rows], self.reference[part], self._largest[rows]
        begin(largest, products, own, others, passing, slack, unit)
        row, near = np.divmod(np.flatnonzero(passing), size)
        cosine = pair_cosines(own, row, others, near)
        above = cosine > largest[row, 0]
        add_largest(largest, row[above], cosine[above])

    def _compare(self, rows: slice, part: slice) -> None:
        """A block of rows with another part, each pair for both of its rows."""
        low, slack, unit = self.search.bounds.look_at(rows)
        products, passing, other = self._multiply(low, rows, part)
        below = slack.max()  # that of a product, from whichever side
        threshold = as_threshold((self._largest[rows, 0] - below) * unit, products)
        np.greater_equal(products, threshold[:, None], out=passing)
        threshold = as_threshold((self._largest[part, 0] - below) * unit, products)
        passing |= np.greater_equal(products, threshold, out=other)
        row, near = np.divmod(np.flatnonzero(passing), part.stop - part.start)
        row += rows.start
        near += part.start
        cosine = pair_cosines(self.reference, row, self.reference, near)
        for side in (row, near):
            above = cosine > self._largest[side, 0]
            self._row.append(side[above])
            self._cosine.append(cosine[above])
        if sum(map(len, self._row)) > self._most_pairs:
            self._merge()

    def _multiply(self, low: Any, rows: slice, part: slice) -> tuple[NDArray[Any], Marks, Marks]:
        """Products, and twice as much room for what passes; used again, as new memory would cost more."""
        size = part.stop - part.start
        if len(low) * size > len(self._space):
            self._space, self._passes = np.empty(len(low) * size, np.float32), np.empty((2, len(low) * size), bool)
        space = self._space[: len(low) * size].reshape(len(low), size)
        products = self.search.bounds.multiply(low, part, space)[: rows.stop - rows.start]
        passing, other = (each[: products.size].reshape(products.shape) for each in self._passes)
        return products, passing, other

    def _merge(self) -> None:
        """Put the pairs kept among the largest of their rows, which raises the thresholds."""
        row, cosine = np.concatenate([*self._row, _NO_ROWS]), np.concatenate([*self._cosine, _NO_COSINES])
        self._row, self._cosine = [], []
        order = np.argsort(row, kind="stable")
        row, cosine = row[order], cosine[order]
        starts = np.arange(0, len(self._largest), _MERGED_ROWS)
        ends = np.searchsorted(row, np.append(starts, len(self._largest)))
        for start, first, last in zip(starts.tolist(), ends[:-1].tolist(), ends[1:].tolist(), strict=True):
            add_largest(self._largest[start : start + _MERGED_ROWS], row[first:last] - start, cosine[first:last])


_NO_ROWS, _NO_COSINES = np.empty(0, np.int64), np.empty(0, np.float32)


def mean_distance(cosine: Rows) -> NDArray[np.float32]:
    """1 - cosine on average over each row, whose cosines stand in descending order."""
    return (1 - cosine.mean(axis=1, dtype=np.float64)).astype(np.float32)


def _blocks(part: slice) -> Iterator[slice]:
    """As many rows as are compared at once."""
    for first in range(part.start, part.stop, BLOCK_ROWS):
        yield slice(first, min(first + BLOCK_ROWS, part.stop))


def _near_first(middles: Rows) -> Iterator[tuple[int, int]]:
    """Pairs of parts, early those that are among the nearest of either; where parts are many, in groups."""
    groups = np.array_split(np.arange(len(middles)), min(len(middles), _MOST_GROUPS))
    means = np.stack([middles[group].mean(axis=0) for group in groups])
    rank = np.argsort(np.argsort(-(means @ means.T), axis=1, kind="stable"), axis=1, kind="stable")
    np.fill_diagonal(rank, 0)
    left, right = np.triu_indices(len(groups))
    order = np.argsort(np.minimum(rank, rank.T)[left, right], kind="stable")
    for one, other in zip(left[order].tolist(), right[order].tolist(), strict=True):
        if one == other:
            yield from combinations(groups[one].tolist(), 2)
        else:
            yield from product(groups[one].tolist(), groups[other].tolist())
