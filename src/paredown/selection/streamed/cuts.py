"""The exact cut of every group of rows, from counts of keys alone.

Group g (a class, mostly) keeps its first `floors[g]` rows in an order, and the rest of the places go to the first ones
left over all groups. So what is kept of a group is a first part of it, and a selection is one cut per group: the key of
the last row kept. One loop finds them all, pass by pass:

1. Every group has an interval of keys in which it is cut: at first all keys, or a bin of a histogram.
2. While the intervals hold more rows than may be collected, they are divided: the counts of finer bins say in which of
   these a group is cut.
3. Then the rows inside are collected and sorted, which leaves one key.

Where only some of the rows with that key are kept, the same loop finds the cut among them by the hashes of their ids.
Memory thus stays the same whatever the number of rows and their scores.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.ids import hash_ids, name_rows
from paredown.selection.floors import best_of_each, first_allowed
from paredown.selection.streamed.histogram import Histogram
from paredown.selection.streamed.sort_keys import Ranking, Rows, Scan

_FEW_IDS = 1_000  # looked up one by one, each for the price of a row group
_HIGHEST = np.uint64(2**64 - 1)
_ONE = np.uint64(1)
_NO_KEY = np.uint64(0)  # of no finite score, and of one id in 2^64


class Search:
    """Where each group may still be cut: keys `low..high`, with `before` of its rows before them and `inside` in them.

    A group is `shared` while it may be cut by the order over all groups; the interval of all shared ones is the same.
    Once its own floor reaches further than that, a group is cut by itself.
    """

    def __init__(
        self, ranking: Ranking, counts: NDArray[np.int64] | Histogram, floors: NDArray[np.int64], total: int
    ) -> None:
        self.ranking, self.floors, self.total = ranking, floors, total
        self.shared = np.ones(len(floors), bool)
        # Rows with the key of a cut that divides them, and their groups, as far as they were collected:
        self.rows, self.groups = np.empty(0, np.int64), np.empty(0, np.intp)
        if isinstance(counts, Histogram):
            bins = self.narrow(counts.before)
            self.low, self.high = counts.first[bins], counts.last[bins]
        else:
            self.before, self.inside = np.zeros_like(counts), counts
            self.low, self.high = np.zeros(len(floors), np.uint64), np.full(len(floors), _HIGHEST)

    @property
    def needed(self) -> NDArray[np.int64]:
        """How many of the rows inside each group's own floor still takes."""
        return np.maximum(self.floors - self.before, 0)

    @property
    def rest(self) -> int:
        """How many of the rows inside the order over all groups takes after the floors."""
        return self.total - int(np.maximum(self.floors, self.before).sum())

    @property
    def open(self) -> NDArray[np.bool_]:
        """Groups of which any row inside is taken, or may be."""
        return (self.needed > 0) | (self.shared & (self.rest > 0))

    @property
    def wide(self) -> NDArray[np.bool_]:
        """Groups whose last key is not known yet."""
        return self.open & (self.low < self.high)

    @property
    def divided(self) -> NDArray[np.bool_]:
        """Groups of whose rows inside some are taken and some are not, or may not be."""
        spare, rest = self.inside - self.needed, self.rest
        all_shared = rest > 0 and rest == int(spare[self.shared].sum())
        return self.open & (spare > 0) & ~(self.shared & all_shared)

    @property
    def kept(self) -> NDArray[np.int64]:
        """How many are kept of each group that is not divided."""
        return self.before + np.where(self.shared & (self.rest > 0), self.inside, self.needed)

    def rows_inside(
        self, rows: Rows, which: NDArray[np.bool_]
    ) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[Any]]:
        """The rows of a block inside the intervals of some groups, with their groups and keys."""
        groups = self.ranking.groups(rows)
        ranked = None if self.ranking.of_classes else np.flatnonzero(groups >= 0)
        groups, keys = groups if ranked is None else groups[ranked], self.ranking.keys(rows, ranked)
        low = np.where(which, self.low, _HIGHEST).astype(keys.dtype)
        width = np.where(which, self.high - self.low, 0).astype(keys.dtype)
        inside = np.flatnonzero(keys - low.take(groups) <= width.take(groups))  # below `low` it wraps around
        return inside if ranked is None else ranked[inside], groups[inside], keys[inside]

    def narrow(self, before: NDArray[np.int64]) -> NDArray[np.intp]:
        """The bin where each group is cut, given (groups, bins + 1) numbers of rows before each bin."""
        own = (before[:, 1:] < self.floors[:, None]).sum(axis=1)
        floors, left = self.floors[self.shared], self.total - int(self.floors[~self.shared].sum())

        def taken(edge: int) -> int:
            return int(np.maximum(before[self.shared, edge], floors).sum())

        common = bisect_left(range(1, before.shape[1] - 1), left, key=taken)  # the first bin that brings enough
        self.shared = self.shared & (own <= common)
        bins = np.where(self.shared, common, own)
        each = np.arange(len(bins))
        self.before, self.inside = before[each, bins], before[each, bins + 1] - before[each, bins]
        return bins

    def settle(self, rows: NDArray[np.int64], groups: NDArray[np.intp], keys: NDArray[Any]) -> None:
        """Find the key of the last row taken of every wide group, given all the rows inside them."""
        keys = keys.astype(np.uint64)
        order = np.argsort(keys)
        floored = best_of_each(order, groups, self.needed)
        free = self.shared[groups]
        free[floored] = False
        others = first_allowed(order, free, self.rest)
        own, wide = self.low.copy(), self.wide
        np.maximum.at(own, groups[floored], keys[floored])
        common = np.full(len(own), keys[others[-1]]) if len(others) else self.low
        self.shared = self.shared & (own <= common)
        last = np.where(self.shared, common, own)
        earlier, equal = keys < last[groups], keys == last[groups]
        self.before = self.before + np.bincount(groups[earlier], minlength=len(own))
        self.inside = np.where(wide, np.bincount(groups[equal], minlength=len(own)), self.inside)
        self.low, self.high = np.where(wide, last, self.low), np.where(wide, last, self.high)
        cut_off = equal & self.divided[groups]
        self.rows, self.groups = rows[cut_off], groups[cut_off]


class _Division:
    """A pass that counts the rows inside in finer bins."""

    def __init__(self, search: Search, cells: int) -> None:
        self.search, self.open = search, search.open
        self.bins = 2 ** max(2, (cells // len(search.low)).bit_length() - 1)
        width = np.frexp((search.high - search.low).astype(np.float64))[1]  # in bits, or one more where it rounds up
        self.shift = np.clip(width - (self.bins.bit_length() - 1), 0, 63).astype(np.uint64)
        self.counts = np.zeros((len(search.low), self.bins + 1), np.int64)

    def add(self, rows: Rows) -> None:
        _, groups, keys = self.search.rows_inside(rows, self.open)
        bins = (keys - self.search.low[groups]) >> self.shift[groups]
        np.add.at(self.counts.reshape(-1), groups * (self.bins + 1) + 1 + bins.astype(np.intp), 1)

    def finish(self) -> None:
        search = self.search
        before = np.cumsum(self.counts, axis=1, out=self.counts)
        before += search.before[:, None]
        low = search.low + (search.narrow(before).astype(np.uint64) << self.shift)
        search.low, search.high = low, low + np.minimum(search.high - low, (_ONE << self.shift) - _ONE)


class _Collection:
    """A pass that collects the rows inside."""

    def __init__(self, search: Search) -> None:
        self.search, self.wide = search, search.wide
        self.parts = [(np.empty(0, np.int64), np.empty(0, np.intp), np.empty(0, np.uint64))]

    def add(self, rows: Rows) -> None:
        chosen, groups, keys = self.search.rows_inside(rows, self.wide)
        self.parts.append((rows.block.first + chosen, groups, keys))

    def finish(self) -> None:
        rows, groups, keys = (np.concatenate(column) for column in zip(*self.parts, strict=True))
        self.search.settle(rows, groups, keys)


def find_keys(scan: Scan, *searches: Search) -> None:
    """Narrow searches down to one key per group, all of them in the same passes."""
    while wide := [search for search in searches if search.wide.any()]:
        looks: list[_Division | _Collection] = []
        for search in wide:
            most = max(scan.limits.candidates // len(wide), len(search.low))  # a row of each group at least
            few = int(search.inside[search.wide].sum()) <= most
            looks.append(_Collection(search) if few else _Division(search, scan.limits.cells // len(wide)))
        for rows in scan.rows("narrowing the cuts", ids=any(search.ranking.by_hash for search in wide)):
            for look in looks:
                look.add(rows)
        for look in looks:
            look.finish()


def keys_at(
    scan: Scan, ranking: Ranking, histogram: Histogram, places: Sequence[int], *others: Search
) -> NDArray[np.uint64]:
    """The keys at some places of an order, from 0 on; other searches are taken along."""
    nothing = np.zeros_like(histogram.counts)
    searches = [Search(ranking, histogram, nothing, place + 1) for place in places]
    find_keys(scan, *searches, *others)
    return np.array([search.low[0] for search in searches])


@dataclass(frozen=True)
class Cut:
    """The key of the last row kept of every group: the rows that come no later are kept."""

    ranking: Ranking
    key: NDArray[np.uint64]
    tie: NDArray[np.uint64]
    split: NDArray[np.bool_]  # whether only some of the rows with this key are kept, so that their hashes decide
    kept: NDArray[np.int64]  # how many of each group,
    equal_kept: NDArray[np.int64]  # how many rows with this key among them,
    equal_left: NDArray[np.int64]  # and how many more there are

    @property
    def ids(self) -> bool:
        """Whether so many hashes are needed that ids are better read along than looked up."""
        return self.ranking.by_hash or int((self.equal_kept + self.equal_left)[self.split].sum()) > _FEW_IDS

    def keeps(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows of a block come no later than the cut."""
        groups, keys = self.ranking.groups(rows), self.ranking.keys(rows)
        last = np.append(self.key, _NO_KEY).astype(keys.dtype).take(groups)
        keep = keys <= last
        if self.split.any():
            equal = np.flatnonzero(keys == last)
            equal = equal[self.split[groups[equal]]]
            if len(equal):
                keep[equal] = self.ranking.ties().keys(rows, equal) <= self.tie[groups[equal]]
        return keep


def find_cut(scan: Scan, search: Search, *others: Search) -> Cut:
    """The cut that keeps `floors[g]` of each group g at least and `total` in all; other searches are taken along."""
    find_keys(scan, search, *others)
    kept, tie, split = search.kept, search.low, search.divided
    if split.any():
        ties = search if search.ranking.by_hash else _among_equals(scan, search)
        if ties.divided.any():
            what = "id" if ties is search else "id and score"
            which = f"{name_rows(ties.rows[:2])} of the table" if len(ties.rows) else f"{ties.inside.max():,} rows"
            raise PareError(f"{scan.table.path}: {which} have the same {what}; ids must be unique.")
        kept, tie = ties.kept, ties.low
    # A group of which nothing inside is taken is cut just before its interval.
    key = np.where(search.open, search.low, np.maximum(search.low, _ONE) - _ONE)
    equal_kept = kept - search.before
    equal_left = np.where(search.open, search.inside - equal_kept, 0)
    return Cut(search.ranking, key, tie, split, kept, equal_kept, equal_left)


def _among_equals(scan: Scan, search: Search) -> Search:
    """The search by hash among the rows with the keys at which their groups are cut, where only some are taken."""
    split, ranking = search.divided, search.ranking
    last = np.append(np.where(split, search.low, _NO_KEY), _NO_KEY)

    def equal(rows: Rows) -> NDArray[np.intp]:
        groups, keys = ranking.groups(rows), ranking.keys(rows)
        return np.where(keys == last.astype(keys.dtype)[groups], groups, -1)

    inside, floors = np.where(split, search.inside, 0), np.where(split, search.floors, search.kept)
    ties = Search(ranking.ties(equal), inside, floors, search.total)
    ties.shared, ties.before = search.shared & split, np.where(split, search.before, search.kept)
    if len(search.rows) == inside.sum():  # all of them were collected
        hashes = hash_ids(scan.table.ids_at(search.rows), seed=ranking.seed)
        ties.settle(search.rows, search.groups, ties.ranking.hash_keys(hashes))
    find_keys(scan, ties)
    return ties
