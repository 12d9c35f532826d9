"""The exact cut of every group of rows, from counts of keys alone.

Group g (a class, mostly) keeps its first `floors[g]` rows in an order, and the rest of the places go to the first ones
left over all groups. So what is kept of a group is a first part of it, and a selection is one cut per group: the key of
the last row kept. One loop finds them all:

1. Count the values of every group in bins. The counts say in which bin each group is cut.
2. While those bins hold more rows than may be collected, divide each into finer ones: by the bits of the value, and
   among equal values by those of the hash.
3. Collect the rows in those bins, the only ones in question, and sort them.

Memory thus stays the same whatever the number of rows and their scores.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.ids import hash_ids, name_rows
from paredown.selection.floors import best_of_each, first_allowed
from paredown.selection.streamed.histogram import Histogram
from paredown.selection.streamed.sort_keys import Order, Rows, Scan, unsortable

_FEW_IDS = 1_000  # looked up one by one, each for the price of a row group
_HIGHEST = np.uint64(2**64 - 1)
_ONE = np.uint64(1)


@dataclass(frozen=True)
class Question:
    """Which rows come first in an order: of all or of some, in groups with a cut for each."""

    scan: Scan
    order: Order
    groups: Callable[[Rows], NDArray[np.intp]] | None = None  # of the rows, if not their classes
    among: Callable[[Rows], NDArray[np.bool_]] | None = None
    ids: bool = False  # whether `among` needs them
    grouped: bool = True  # whether equals are counted at the cut of each group, or at the last one of all

    def rows(
        self, label: str, *, ids: bool = False
    ) -> Iterator[tuple[Rows, NDArray[np.intp], NDArray[np.bool_] | None]]:
        """A pass: rows with their groups, and which of them are meant if not all."""
        for rows in self.scan.rows(label, ids=ids or self.ids or self.order.by_hash):
            yield rows, self.groups_of(rows), None if self.among is None else self.among(rows)

    def groups_of(self, rows: Rows) -> NDArray[np.intp]:
        return rows.codes if self.groups is None else self.groups(rows)


@dataclass(frozen=True)
class Cut:
    """The key of the last row kept of every group: the rows that come no later are kept."""

    question: Question
    key: NDArray[Any]
    tie: NDArray[np.uint64]
    split: NDArray[np.bool_]  # whether only some of the rows with this value are kept, so that their hashes decide
    kept: NDArray[np.int64]  # how many of each group
    equal_key: NDArray[Any]
    equal_kept: NDArray[np.int64]  # how many rows with this key are kept,
    equal_left: NDArray[np.int64]  # and how many are not
    ids: bool  # whether so many hashes decide that ids are better read along than looked up

    def keeps(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows of a block come no later than the cut."""
        order = self.question.order
        groups, keys = self.question.groups_of(rows), rows.keys(order)
        last = self.key[groups]
        keep = keys <= last
        if self.split.any():
            equal = np.flatnonzero(keys == last)
            equal = equal[self.split[groups[equal]]]
            if len(equal):
                keep[equal] = rows.ties(order, equal) <= self.tie[groups[equal]]
        return keep


class _Candidates(NamedTuple):
    """Rows inside the intervals where cuts may lie, in columns of one length."""

    rows: NDArray[np.int64]
    groups: NDArray[np.intp]
    keys: NDArray[np.uint64]
    ties: NDArray[np.uint64]


@dataclass
class _Search:
    """Where the cut of each group may still lie: keys `low..high`, and if these are one, ties `tie_low..tie_high`.

    A group is `shared` while it may be cut by the order over all groups; the interval of all shared ones is the same.
    Once its own floor reaches further than that, a group is cut by itself.
    """

    floors: NDArray[np.int64]
    total: int
    shared: NDArray[np.bool_]
    before: NDArray[np.int64]  # rows of the group that come before the interval,
    inside: NDArray[np.int64]  # and inside it
    low: NDArray[np.uint64]
    high: NDArray[np.uint64]
    tie_low: NDArray[np.uint64]
    tie_high: NDArray[np.uint64]
    equal_before: NDArray[np.int64]  # where equal values had to be divided: how many rows come before them, or -1,
    equal: NDArray[np.int64]  # and how many there are

    @classmethod
    def over(cls, histogram: Histogram, floors: NDArray[np.int64], total: int) -> _Search:
        """Begin with the bins of a first count."""
        n = len(floors)
        lowest, highest, number = np.zeros(n, np.uint64), np.full(n, _HIGHEST), np.zeros(n, np.int64)
        search = cls(
            floors, total, np.ones(n, bool), number, number, lowest, highest, lowest, highest, number - 1, number
        )
        search.low, search.high = histogram.keys(search.narrow(histogram.before))
        return search

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
        """Groups of which any row inside may be taken."""
        return (self.needed > 0) | (self.shared & (self.rest > 0))

    @property
    def by_tie(self) -> NDArray[np.bool_]:
        """Groups whose equal values were divided."""
        return (self.tie_low > 0) | (self.tie_high < _HIGHEST)

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

    def divide(self, question: Question, dtype: np.dtype[Any]) -> None:
        """Count the rows inside in finer bins, and shrink every interval to one of them."""
        equal = self.low == self.high
        new = equal & self.open & (self.equal_before < 0)
        self.equal_before = np.where(new, self.before, self.equal_before)
        self.equal = np.where(new, self.inside, self.equal)
        start, end = np.where(equal, self.tie_low, self.low), np.where(equal, self.tie_high, self.high)
        bits = max(2, (question.scan.limits.cells // len(start)).bit_length() - 1)
        width = np.frexp((end - start).astype(np.float64))[1]  # in bits, or one more where it rounds up
        shift = np.clip(width - bits, 0, 63).astype(np.uint64)
        before = np.zeros((len(start), 2**bits + 1), np.int64)
        for _, groups, keys, ties in self.candidates(question, dtype, "dividing crowded scores", equal):
            place = (np.where(equal[groups], ties, keys) - start[groups]) >> shift[groups]
            np.add.at(before, (groups, 1 + place.astype(np.intp)), 1)
        np.cumsum(before, axis=1, out=before)
        before += self.before[:, None]
        start = start + (self.narrow(before).astype(np.uint64) << shift)
        end = start + np.minimum(end - start, (_ONE << shift) - _ONE)
        self.low, self.high = np.where(equal, self.low, start), np.where(equal, self.high, end)
        self.tie_low, self.tie_high = np.where(equal, start, self.tie_low), np.where(equal, end, self.tie_high)

    def candidates(
        self, question: Question, dtype: np.dtype[Any], label: str, by_tie: NDArray[np.bool_]
    ) -> Iterator[_Candidates]:
        """A pass over the rows inside the intervals of open groups, with the ties of those in `by_tie`."""
        by_tie = by_tie & self.open
        low = np.where(self.open, self.low, _HIGHEST).astype(dtype)
        high = np.where(self.open, self.high, 0).astype(dtype)
        for rows, groups, among in question.rows(label, ids=bool(by_tie.any())):
            keys = rows.keys(question.order)
            inside = (keys >= low[groups]) & (keys <= high[groups])
            chosen = np.flatnonzero(inside if among is None else inside & among)
            groups, ties = groups[chosen], np.zeros(len(chosen), np.uint64)
            looked_at = np.flatnonzero(by_tie[groups])
            if len(looked_at):
                ties[looked_at] = rows.ties(question.order, chosen[looked_at])
                within = ~by_tie[groups] | ((ties >= self.tie_low[groups]) & (ties <= self.tie_high[groups]))
                chosen, groups, ties = chosen[within], groups[within], ties[within]
            yield _Candidates(rows.block.first + chosen, groups, keys[chosen].astype(np.uint64), ties)


def count_rows(question: Question, n_groups: int) -> Histogram:
    """The first count of the rows in question."""
    histogram = Histogram(question.scan, question.order)
    for rows, groups, among in question.rows("counting rows"):
        values, chosen = rows.values(question.order), slice(None) if among is None else np.flatnonzero(among)
        histogram.add(values[chosen], groups[chosen], n_groups)
    histogram.settle(np.arange(n_groups))
    return histogram


def find_cut(question: Question, histogram: Histogram, floors: NDArray[np.int64], total: int) -> Cut:
    """The cut that keeps `floors[g]` of each group g at least and `total` in all, the first ones in the order."""
    search = _Search.over(histogram, floors, total)
    dtype = np.dtype(f"u{histogram.dtype.itemsize}")
    most = max(question.scan.limits.candidates, len(floors))  # a row of each group at least
    while int(search.inside[search.open].sum()) > most:
        if np.all((search.low == search.high)[search.open] & (search.tie_low == search.tie_high)[search.open]):
            same = int(search.inside[search.open].max())
            raise PareError(
                f"{question.scan.table.path}: {same:,} rows have the same id and score; ids must be unique."
            )
        search.divide(question, dtype)
    return _decide(question, search, _collect(question, search, dtype), dtype)


def value_at(question: Question, histogram: Histogram, place: int) -> Any:
    """What the row at a place of the order, from 0 on, is sorted by."""
    cut = find_cut(replace(question, grouped=False), histogram, np.zeros(len(histogram.before), np.int64), place + 1)
    return unsortable(cut.equal_key[:1], histogram.dtype)[0]


def _collect(question: Question, search: _Search, dtype: np.dtype[Any]) -> _Candidates:
    nothing = np.empty(0, np.uint64)
    parts = [_Candidates(np.empty(0, np.int64), np.empty(0, np.intp), nothing, nothing)]
    if search.inside[search.open].any():
        parts += search.candidates(question, dtype, "collecting candidates", search.by_tie)
    columns: list[Any] = [np.concatenate(column) for column in zip(*parts, strict=True)]
    return _Candidates(*columns)


def _decide(question: Question, search: _Search, found: _Candidates, dtype: np.dtype[Any]) -> Cut:
    """Take the first of the candidates, and read the cut of every group off them."""
    n, (rows, groups, keys, ties) = len(search.floors), found
    shared = search.shared[groups]

    def take() -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        order = np.lexsort((ties, keys))
        taken = np.zeros(len(order), bool)
        taken[best_of_each(order, groups, search.needed)] = True
        taken[first_allowed(order, shared & ~taken, search.rest)] = True
        return order, taken

    # Ids are read only where hashes decide: among equal values at a cut of which some are taken and some are not.
    order, taken = take()
    divided = _divided(np.where(shared, n, groups), keys, taken)
    unknown = divided[~search.by_tie[groups[divided]]]
    if len(unknown) and not question.order.by_hash:
        unknown = unknown[np.argsort(rows[unknown])]
        hashes = hash_ids(question.scan.table.ids_at(rows[unknown]), seed=question.order.seed)
        ties[unknown] = question.order.ties(hashes)
        order, taken = take()
    _check_repeated(question, found, divided)

    # A group of which nothing inside is taken is cut just before its interval.
    before = search.tie_low > 0
    key = np.where(before | (search.low == 0), search.low, search.low - _ONE)
    tie, split = search.tie_low - _ONE, before.copy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    worst = np.full(n, -1)
    np.maximum.at(worst, groups[taken], rank[taken])
    some = np.flatnonzero(worst >= 0)
    last = order[worst[some]]
    key[some], tie[some], split[some] = keys[last], ties[last], search.by_tie[some]
    split[groups[(keys == key[groups]) & ~taken]] = True
    level = key if question.grouped or not len(some) else np.full(n, key[some].max())
    equal = keys == level[groups]
    equal_kept = np.bincount(groups[equal & taken], minlength=n)
    equal_left = np.bincount(groups[equal & ~taken], minlength=n)
    kept = search.before + np.bincount(groups[taken], minlength=n)
    counted = search.equal_before >= 0
    equal_kept = np.where(counted, kept - search.equal_before, equal_kept)
    equal_left = np.where(counted, search.equal - equal_kept, equal_left)
    many = len(unknown) > _FEW_IDS or bool(search.by_tie.any())
    key, level = key.astype(dtype), level.astype(dtype)
    return Cut(question, key, tie, split, kept, level, equal_kept, equal_left, many or question.ids)


def _divided(domain: NDArray[np.intp], keys: NDArray[np.uint64], taken: NDArray[np.bool_]) -> NDArray[np.int64]:
    """The candidates that have equals in their domain, some of them taken and some not."""
    if not len(keys):
        return np.empty(0, np.int64)
    order = np.lexsort((keys, domain))
    new = (np.diff(keys[order], prepend=keys[order[:1]]) != 0) | (np.diff(domain[order], prepend=-1) != 0)
    starts = np.flatnonzero(new)
    mixed = np.logical_or.reduceat(taken[order], starts) & ~np.logical_and.reduceat(taken[order], starts)
    return order[mixed[np.cumsum(new) - 1]]


def _check_repeated(question: Question, found: _Candidates, divided: NDArray[np.int64]) -> None:
    """Raise if two of the rows that hashes decide among have the same hash: no other repeated id is noticed."""
    order = divided[np.lexsort((found.ties[divided], found.keys[divided]))]
    same = np.flatnonzero((np.diff(found.keys[order]) == 0) & (np.diff(found.ties[order]) == 0))
    if len(same):
        rows = np.sort(found.rows[order[same[0] : same[0] + 2]])
        raise PareError(
            f"{question.scan.table.path}: {name_rows(rows)} of the table have the same id and score; ids must be "
            "unique."
        )
