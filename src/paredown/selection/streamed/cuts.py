"""The exact cut of every group of rows, found from counts and a few rows alone.

Group g (a class, mostly) takes its first `floors[g]` rows in an order, and the rest of the places go to the first ones
left over all groups. So what is taken of a group is a first part of it, which ends with the word of its last row taken.
One loop, `find`, narrows down these words, pass by pass:

1. Every group has an interval of words that has the one sought: at first all of them, or a bin of a histogram.
2. While the intervals hold more rows than may be collected, they are divided: the counts of finer bins say in which of
   these the word is.
3. Then the rows inside are collected, and their intervals divided until each is one word.

Where only some of the rows with that word are taken, another cut by the second words of their keys says which. Memory
thus stays the same whatever the number of rows and their scores.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.ids import name_rows
from paredown.selection.streamed.sort_keys import ByHash, ByScore
from paredown.table_passes import ALL, Among, Chosen, Rows, Scan, Tally, by_class

_FEW_IDS = 1_000  # looked up one by one, each for the price of a row group
_CELLS_PER_ROW = 4  # of a table of counts of collected rows
_HIGHEST, _ZERO, _ONE = np.uint64(2**64 - 1), np.uint64(0), np.uint64(1)


class Cut:
    """The first rows of every group in an order; `find` finds the word of the last one taken of each.

    It is one of `low..high`: `before` of a group's rows have lower words, and `inside` have these. Of those inside, a
    group's own floor takes `needed`, and the order over all groups takes `rest` more. A group is `shared` while it may
    be cut by that order; the interval of all shared ones is the same. Once its own floor reaches further, it is cut by
    itself.

    Args:
        order: of the rows.
        sizes: how many rows each group has.
        floors, total: how many are taken, of each group at least and in all.
        among: finds the rows of a block and their groups.
        ties: whether it matters which rows of the same word are taken.
    """

    def __init__(
        self,
        order: ByScore | ByHash,
        sizes: NDArray[np.int64],
        floors: NDArray[np.int64],
        total: int | None = None,
        *,
        among: Among = by_class,
        ties: bool = True,
    ) -> None:
        self.order, self.sizes, self.among = order, sizes, among
        self.low, self.high = np.zeros(len(sizes), np.uint64), np.full(len(sizes), _HIGHEST)
        self.before, self.inside = np.zeros_like(sizes), sizes.copy()
        self.needed, self.rest = floors.copy(), 0 if total is None else total - int(floors.sum())
        self.shared = np.ones(len(sizes), bool)
        self.key = "id"  # that rows have which nothing tells apart
        self.tie: Cut | None = None  # of the rows where this one is between rows of the same word
        if ties and isinstance(order, ByScore):
            nothing = np.zeros_like(sizes)
            self.tie = Cut(order.ties, nothing.copy(), nothing, among=self._rows_tied)
            self.tie.shared[:] = False
            self.tie.key = "id and score"

    @property
    def reached(self) -> NDArray[np.bool_]:
        """Groups of whose rows inside any are taken, or may be."""
        return (self.needed > 0) | (self.shared & (self.rest > 0))

    @property
    def open(self) -> NDArray[np.bool_]:
        """Groups that are still to be narrowed."""
        return self.reached & (self.low < self.high)

    @property
    def split(self) -> NDArray[np.bool_]:
        """Groups with one word left of whose rows inside some are taken and some are not, or may not be."""
        spare = self.inside - self.needed
        all_shared = self.rest == int(spare[self.shared].sum())
        return self.reached & (self.low == self.high) & (spare > 0) & ~(self.shared & all_shared)

    def n_sought(self) -> int:
        """How many rows are inside the intervals of open groups."""
        return int(self.inside[self.open].sum())

    def within(self, groups: NDArray[np.intp], words: NDArray[Any]) -> NDArray[np.intp]:
        """The places of words inside the intervals of open groups."""
        is_open = self.open
        low = np.where(is_open, self.low, _HIGHEST).astype(words.dtype)
        width = np.where(is_open, self.high - self.low, _ZERO).astype(words.dtype)
        return np.flatnonzero(words - low.take(groups) <= width.take(groups))  # below `low` it wraps around

    def rows_within(self, rows: Rows) -> tuple[NDArray[np.int64], NDArray[np.intp], NDArray[Any]]:
        """The rows of a block inside the intervals of open groups: their numbers, groups and words."""
        chosen, groups = self.among(rows)
        words = self.order.words(rows, chosen)
        within = self.within(groups, words)
        return rows.numbers[chosen][within], groups[within], words[within]

    def narrow(self, counts: NDArray[Any], ends: Callable[[NDArray[np.intp]], Any]) -> None:
        """Go on in one bin of every open group, given how many of its rows inside are in which bin.

        `ends` tells the lowest and highest words of a bin for each of these groups.
        """
        at, each = np.flatnonzero(self.open), np.arange(len(counts))
        needed, shared = self.needed[at], self.shared[at]
        before = np.zeros((counts.shape[0], counts.shape[1] + 1), np.int64)  # rows before each bin, and all
        np.cumsum(counts, axis=1, out=before[:, 1:])
        own = (before[:, 1:] < needed[:, None]).sum(axis=1)

        def taken(edge: int) -> int:
            return int(np.maximum(before[shared, edge], needed[shared]).sum())

        common = bisect_left(range(1, counts.shape[1]), taken(0) + self.rest, key=taken)  # the first to bring as many
        shared &= own <= common
        bins = np.where(shared, common, own)
        ahead = before[each, bins]
        self.rest -= int(np.maximum(ahead - needed, 0).sum())
        self.needed[at], self.shared[at] = np.maximum(needed - ahead, 0), shared
        self.before[at], self.inside[at] = self.before[at] + ahead, before[each, bins + 1] - ahead
        self.low[at], self.high[at] = ends(bins)

    def tighten(self, groups: NDArray[np.intp], words: NDArray[Any]) -> None:
        """Go on in no wider intervals than those of the words inside, given all of them."""
        is_open, words = self.open, words.astype(np.uint64)
        low, high = np.full(len(is_open), _HIGHEST), np.zeros(len(is_open), np.uint64)
        np.minimum.at(low, groups, words)
        np.maximum.at(high, groups, words)
        if (shared := is_open & self.shared).any():
            low[shared], high[shared] = low[shared].min(), high[shared].max()
        self.low[is_open], self.high[is_open] = low[is_open], high[is_open]

    def leave_ties(self) -> None:
        """Leave the rows of split groups, with what is needed of them and the rest, to the cut of ties."""
        tie, split = self.tie, self.split
        if tie is not None and split.any():
            tie.sizes[split] = tie.inside[split] = self.inside[split]
            tie.needed[split], tie.shared[split], self.needed[split] = self.needed[split], self.shared[split], 0
            if tie.shared[split].any():
                tie.rest, self.rest = self.rest, 0

    def _rows_tied(self, rows: Rows) -> tuple[Chosen, NDArray[np.intp]]:
        assert self.tie is not None
        words = self.order.words(rows, ALL)
        tied = np.where(self.tie.sizes > 0, self.low, _ZERO).astype(words.dtype)  # no word is 0
        chosen = np.flatnonzero(words == tied.take(rows.codes))
        return chosen, rows.codes[chosen]

    # --- once it is found ------------------------------------------------------------------------------------------

    @cached_property
    def _taken_inside(self) -> NDArray[np.int64]:
        """How many of the rows inside are taken, but for those left to the cut of ties."""
        return np.where(self.shared & (self.rest > 0), self.inside, self.needed)

    @cached_property
    def taken(self) -> NDArray[np.int64]:
        """How many rows of each group are taken."""
        return self.before + self._taken_inside + (0 if self.tie is None else self.tie.taken)

    @cached_property
    def last(self) -> NDArray[np.uint64]:
        """The highest word of which all rows are taken, of each group."""
        return np.where(self._taken_inside > 0, self.low, np.maximum(self.low, _ONE) - _ONE)

    @property
    def tied(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """How many of the rows left to the cut of ties are taken, of each group, and how many are not."""
        assert self.tie is not None
        return self.tie.taken, self.tie.sizes - self.tie.taken

    @property
    def ids(self) -> bool:
        """Whether so many hashes are needed that ids are better read along than looked up."""
        return self.tie is None or int(self.tie.sizes.sum()) > _FEW_IDS

    def takes(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows of a block are taken."""
        chosen, groups = self.among(rows)
        words = self.order.words(rows, chosen)
        taken = np.zeros(len(rows.codes), bool)
        taken[chosen] = words <= self.last.astype(words.dtype).take(groups)
        if self.tie is not None and self.tie.sizes.any():
            taken |= self.tie.takes(rows)
        return taken


# --- the loop ------------------------------------------------------------------------------------------------------


def find(scan: Scan, *cuts: Cut) -> None:
    """Narrow cuts, and then those of their ties, down to one word per group, all of them in the same passes."""
    every = [each for cut in cuts for each in (cut.tie, cut) if each is not None]
    for cut in cuts:
        cut.leave_ties()
    while left := [cut for cut in every if cut.open.any()]:
        cells = scan.limits.cells // sum(int(cut.open.sum()) for cut in left)
        room, few = scan.limits.candidates, set[Cut]()
        for cut in sorted(left, key=Cut.n_sought):
            if cut.n_sought() <= max(room, len(cut.sizes)):  # a row of each group at least
                room -= cut.n_sought()
                few.add(cut)
        looks = [_Look(cut, cells, collect=cut in few) for cut in left]
        scan.look("narrowing the cuts", looks, ids=any(isinstance(cut.order, ByHash) for cut in left))
        for look in looks:  # those at ties before those that leave more to them
            look.finish(scan)


class _Look:
    """A look at the rows inside the intervals of a cut: counts in finer bins, and the rows if they are collected."""

    def __init__(self, cut: Cut, cells: int, *, collect: bool) -> None:
        """About `cells` bins for each open group."""
        groups = np.flatnonzero(cut.open)
        self.cut, self.cells, self.collect = cut, cells, collect
        self.low, self.high = cut.low[groups], cut.high[groups]
        self.line_of = np.zeros(len(cut.sizes), np.intp)  # of the table of counts, for every group
        self.line_of[groups] = np.arange(len(groups))
        if collect:  # with more bins most would be empty
            cells = min(cells, _CELLS_PER_ROW * cut.n_sought() // len(groups))
        bits = max(2, cells.bit_length() - 1)
        width = np.frexp((self.high - self.low).astype(np.float64))[1]  # in bits, or one more where it rounds up
        self.shift = np.clip(width - bits, 0, 63).astype(np.uint64)  # the bits that a bin leaves open
        self.counts = np.zeros((len(groups), 2**bits), np.int64)
        self.parts = [(np.empty(0, np.int64), np.empty(0, np.intp), np.empty(0, np.uint32))]

    def add(self, rows: Rows) -> None:
        self.see(*self.cut.rows_within(rows))

    def see(self, numbers: NDArray[np.int64], groups: NDArray[np.intp], words: NDArray[Any]) -> None:
        """See some rows inside."""
        self.count(groups, words)
        if self.collect:
            self.parts.append((numbers, groups, words))

    def count(self, groups: NDArray[np.intp], words: NDArray[Any]) -> None:
        """See some rows inside, but do not collect them."""
        lines = self.line_of[groups]
        bins = (words - self.low[lines]) >> self.shift[lines]
        np.add.at(self.counts.reshape(-1), lines * self.counts.shape[1] + bins.astype(np.intp), 1)

    def merge(self, other: _Look) -> None:
        self.counts += other.counts
        self.parts += other.parts

    def _ends(self, bins: NDArray[np.intp]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        first = self.low + (bins.astype(np.uint64) << self.shift)
        return first, first + np.minimum(self.high - first, (_ONE << self.shift) - _ONE)

    def finish(self, scan: Scan) -> None:
        """Narrow the cut as far as counts tell, or with the rows to the end, and that of its ties if they are few."""
        cut, tie = self.cut, self.cut.tie
        cut.narrow(self.counts, self._ends)
        numbers, groups, words = (np.concatenate(column) for column in zip(*self.parts, strict=True))
        if self.collect:
            self._go_on(groups, words)
        if isinstance(cut.order, ByHash) and cut.split.any():
            same = cut.split & (cut.low == cut.low[cut.split][0])
            twice = numbers[same[groups] & (words == cut.low[groups])]
            what = f"{name_rows(twice[:2])} of the table" if len(twice) else f"{cut.inside[same].sum():,} rows"
            raise PareError(f"{scan.table.path}: {what} have the same {cut.key}; ids must be unique.")
        cut.leave_ties()
        if tie is not None:
            tied = np.flatnonzero(tie.open[groups] & (words == cut.low[groups]))
            if 0 < len(tied) <= _FEW_IDS and len(tied) == tie.n_sought():
                look = _Look(tie, self.cells, collect=True)
                look.see(numbers[tied], groups[tied], tie.order.words_of(scan.table.ids_at(numbers[tied])))
                look.finish(scan)

    def _go_on(self, groups: NDArray[np.intp], words: NDArray[Any]) -> None:
        """Narrow the cut to the end with all rows inside at hand: by counts of them, too, but more and more often."""
        cut = self.cut
        while cut.open.any():
            within = cut.within(groups, words)
            groups, words = groups[within], words[within]
            cut.tighten(groups, words)
            if cut.open.any():
                again = _Look(cut, self.cells, collect=True)
                within = cut.within(groups, words)
                again.count(groups[within], words[within])
                cut.narrow(again.counts, again._ends)


# --- what is kept --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Kept:
    """Which rows are kept: those that `upper` takes, but for those that `dropped` does, and those that `more` take."""

    upper: Cut
    dropped: Cut | None = None
    more: tuple[Cut, ...] = ()
    by_class: bool = True  # or by other groups

    def keeps(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows of a block are kept."""
        keep = self.upper.takes(rows)
        if self.dropped is not None:
            keep &= ~self.dropped.takes(rows)
        for cut in self.more:
            keep |= cut.takes(rows)
        return keep

    def kept(self, rows: Rows) -> tuple[Chosen, NDArray[np.intp]]:
        """The rows of a block that are kept, in their classes."""
        chosen = np.flatnonzero(self.keeps(rows))
        return chosen, rows.codes[chosen]

    def left(self, rows: Rows) -> tuple[Chosen, NDArray[np.intp]]:
        """The rows of a block that are not kept, in their classes."""
        chosen = np.flatnonzero(~self.keeps(rows))
        return chosen, rows.codes[chosen]

    @property
    def ids(self) -> bool:
        """Whether ids are to be read along."""
        return any(cut is not None and cut.ids for cut in (self.upper, self.dropped, *self.more))

    def class_kept(self, scan: Scan) -> NDArray[np.int64]:
        """How many of each class are kept; takes a pass if the cuts are not those of classes."""
        if not self.by_class:
            tally = Tally(self.kept, scan.codes.number)
            scan.look("counting classes", [tally], ids=self.ids)
            return tally.counts
        kept = sum((cut.taken for cut in self.more), self.upper.taken)
        return kept if self.dropped is None else kept - self.dropped.taken
