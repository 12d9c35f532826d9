"""The exact cut over scores that do not fit in memory, with floors for classes.

A strategy orders the examples, best first. With a floor, class g keeps its first `floors[g]`, and the rest of the
places go to the first ones left over all classes; so what is kept of a class is always a first part of it, and a
selection is one threshold per class. They are found from counts alone:

1. One pass counts the scores of every class in bins that follow the order. Counts say in which bin each class is cut.
2. One more pass collects the examples in those bins, the only ones still open, and decides them exactly.

If the bins to collect hold too many (crowded or equal scores), a further pass divides them into finer bins, of the
bits of the score and then of the hash that breaks ties, until they hold few enough. Memory thus stays the same
whatever the number of rows and their scores.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.data import hash_ids
from paredown.errors import PareError
from paredown.progress import Track, silent
from paredown.scale.tables import Block, ClassCodes, ScoreTable
from paredown.selection import best_of_each, first_allowed

__all__ = ["Counted", "Cut", "Limits", "Order", "Scan", "count_scores", "find_cut"]

_ALL = np.uint64(2**64 - 1)
_LAST = np.iinfo(np.int64).max
_FEW_IDS = 1_000  # looked up one by one, each for the price of a row group


@dataclass(frozen=True)
class Limits:
    """What bounds the memory of a streamed selection."""

    rows: int = 131_072  # of a block
    candidates: int = 2_000_000  # collected at once: some 100 MiB with what is needed to sort them
    cells: int = 2**21  # of the histogram, over all classes


# --- the order -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Order:
    """A strategy as three numbers per example, compared one after the other, highest first.

    `merit` is the score, its negative, or (at random) the hash; `tie` the hash, so that the lower one comes first;
    `place` the row, for ids that occur twice. The reverse order turns all three round.
    """

    strategy: str  # hard, easy or random; window is hard with its first ones left out
    seed: int

    @property
    def by_hash(self) -> bool:
        """Whether the hash alone decides."""
        return self.strategy == "random"

    def ties(self, ids: NDArray[Any]) -> NDArray[np.uint64]:
        hashes = hash_ids(ids, seed=self.seed)
        return hashes if self.strategy == "easy" else ~hashes

    def places(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows if self.strategy == "easy" else -rows

    def merits(self, scores: NDArray[np.floating]) -> NDArray[Any]:
        wide = scores.astype(np.float32) if scores.dtype == np.float16 else scores
        return -wide if self.strategy == "easy" else wide


class Rows(NamedTuple):
    """A block in the terms of the order."""

    block: Block
    scores: NDArray[np.floating]
    merits: NDArray[Any]
    codes: NDArray[np.intp]


@dataclass(frozen=True)
class Scan:
    """A table read in an order: passes over it, and how they are reported."""

    table: ScoreTable
    order: Order
    codes: ClassCodes
    limits: Limits
    track: Track = silent

    def passes(self, label: str, *, with_ids: bool = False, also: tuple[str, ...] = ()) -> Iterator[Rows]:
        """One pass over the rows, with the columns that the order needs and those asked for."""
        table = self.table
        wanted = [name for name in (table.column, self.codes.column) if name is not None]
        wanted += ["id"] if with_ids or self.order.by_hash else []
        wanted += [name for name in also if name not in wanted]
        total = sum(-(-rows // self.limits.rows) for rows in table.rows)
        for block in self.track(table.blocks(wanted, self.limits.rows), label, total=total):
            scores = table.scores(block)
            merits = self.order.ties(table.ids(block)) if self.order.by_hash else self.order.merits(scores)
            yield Rows(block, scores, merits, self.codes(block))

    def ties(self, rows: Rows, chosen: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The tie-breakers of some rows of a block; their ids are read if the pass did not."""
        if self.order.by_hash:
            return rows.merits[chosen]
        if "id" in rows.block.columns.schema.names:
            return self.order.ties(self.table.ids(rows.block, chosen))
        return self.order.ties(self.table.ids_at(rows.block.first + chosen))


def _keys(merits: NDArray[Any]) -> NDArray[np.uint64]:
    """Merits as whole numbers in the same order; both zeros are one."""
    if merits.dtype.kind == "u":
        return merits
    bits = (merits + merits.dtype.type(0)).view(f"i{merits.dtype.itemsize}")
    sign = np.iinfo(bits.dtype)
    return (bits ^ ((bits >> (sign.bits - 1)) | sign.min)).view(f"u{merits.dtype.itemsize}").astype(np.uint64)


def _merits_of(keys: NDArray[np.uint64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The inverse of `_keys`."""
    if dtype.kind == "u":
        return keys
    narrow = keys.astype(f"u{dtype.itemsize}")
    top = narrow.dtype.type(1 << (8 * dtype.itemsize - 1))
    return np.where(narrow & top, narrow ^ top, ~narrow).view(dtype)


# --- first pass: counts --------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Counted:
    """What the first pass leaves: counts of every class, its range of scores, and in which bins they lie."""

    counts: NDArray[np.int64]
    lowest: NDArray[np.floating]  # score of each class
    highest: NDArray[np.floating]
    before: NDArray[np.int64]  # (classes, bins + 1): how many of a class come before each bin, best first
    bins: _Bins
    keys: tuple[int, int]  # lowest and highest of the merits


@dataclass(frozen=True)
class _Bins:
    """Bins of equal width below `top`, best first; what lies beyond either end is in the end bin.

    Differences, products and truncation round but never change the order, so bins follow it exactly.
    """

    top: float
    scale: float
    number: int
    merged: int = 1  # neighbouring bins that count as one

    def __call__(self, merits: NDArray[Any]) -> NDArray[np.int32]:
        if not self.scale:
            return np.zeros(len(merits), np.int32)
        kind = merits.dtype.type if merits.dtype.kind == "f" else np.float64
        with np.errstate(over="ignore"):
            below = np.subtract(kind(self.top), merits, dtype=kind)
            below *= kind(self.scale)
        np.clip(below, 0, self.number * self.merged - 1, out=below)
        bins = below.astype(np.int32)
        return bins if self.merged == 1 else bins // self.merged

    def halved(self) -> _Bins:
        return _Bins(self.top, self.scale, self.number // 2, 2 * self.merged)

    def keys(self, bins: NDArray[np.int64], span: tuple[int, int], dtype: np.dtype[Any]) -> tuple[Any, Any]:
        """The lowest and highest key in each of some bins, found by bisection over the keys that occur."""

        def highest(at_least: NDArray[np.int64]) -> NDArray[np.uint64]:
            """The highest key whose bin is at least so far down, or the one below the lowest of all."""
            low = np.full(len(at_least), span[0], np.uint64)
            high = np.full(len(at_least), span[1], np.uint64)
            one = np.uint64(1)
            while np.any(low < high):
                middle = high - (high - low) // np.uint64(2)  # rounded up
                far = self(_merits_of(middle, dtype)) >= at_least
                open_ = low < high
                low = np.where(far & open_, middle, low)
                high = np.where(~far & open_, middle - one, high)
            found = self(_merits_of(low, dtype)) >= at_least
            return np.where(found, low, low - one)

        return highest(bins + 1) + np.uint64(1), highest(bins)


def _choose_bins(table: ScoreTable, order: Order, number: int) -> _Bins:
    """Bins over the bulk of the scores, from a quick look at some: a few outliers must not make all bins useless."""
    if order.by_hash:
        return _Bins(2.0**64, number / 2.0**64, number)
    seen = order.merits(table.look())
    if len(seen) == 0:
        return _Bins(0.0, 0.0, number)
    merits = seen.astype(np.float64)
    with np.errstate(over="ignore", invalid="ignore", divide="ignore"):
        low, high = np.quantile(merits, [0.001, 0.999])
        margin = 0.5 * (high - low)
        low, high = max(low - margin, merits.min()), min(high + margin, merits.max())
        scale = seen.dtype.type(number / (high - low)) if high > low else 0.0
    return _Bins(float(high), float(scale) if np.isfinite(scale) else 0.0, number)


def count_scores(scan: Scan) -> Counted:
    """Count the scores of every class in bins; checks every score, and settles how classes are numbered."""
    table, codes = scan.table, scan.codes
    number = 2 ** max(1, (scan.limits.cells // max(1, codes.number)).bit_length() - 1)
    bins = _choose_bins(table, scan.order, min(number, 2**16))
    cell = np.uint32 if len(table) < 2**32 else np.int64
    histogram = np.zeros((codes.number, bins.number), cell)
    lowest, highest = np.full(codes.number, np.inf, table.dtype), np.full(codes.number, -np.inf, table.dtype)
    keys = (2**64, -1)
    for rows in scan.passes("counting scores"):
        _check_finite(rows)
        if codes.number > len(histogram):  # classes not seen before: more of them need room, or larger bins
            room = 2 * codes.number
            while bins.number > 2 and room * bins.number > scan.limits.cells:
                bins = bins.halved()
                histogram = histogram.reshape(len(histogram), bins.number, 2).sum(axis=2, dtype=cell)
            histogram = _grown(histogram, room, 0)
            lowest, highest = _grown(lowest, room, np.inf), _grown(highest, room, -np.inf)
        cells = rows.codes * bins.number
        cells += bins(rows.merits)
        np.add.at(histogram.reshape(-1), cells, cell(1))
        np.minimum.at(lowest, rows.codes, rows.scores)
        np.maximum.at(highest, rows.codes, rows.scores)
        ends = _keys(np.array([rows.merits.min(), rows.merits.max()]))
        keys = (min(keys[0], int(ends[0])), max(keys[1], int(ends[1])))
    chosen = codes.settle(histogram[: codes.number].sum(axis=1, dtype=np.int64))
    before = np.zeros((len(chosen), bins.number + 1), np.int64)
    np.cumsum(histogram[chosen], axis=1, out=before[:, 1:])
    return Counted(before[:, -1].copy(), lowest[chosen], highest[chosen], before, bins, keys)


def _grown(array: NDArray[Any], length: int, fill: float) -> NDArray[Any]:
    grown = np.full((length, *array.shape[1:]), fill, array.dtype)
    grown[: len(array)] = array
    return grown


def _check_finite(rows: Rows) -> None:
    scores = rows.scores
    if not (np.isfinite(scores.min()) and np.isfinite(scores.max())):
        bad = np.flatnonzero(~np.isfinite(scores))
        raise PareError(f"{rows.block.where(bad)}: scores must be finite; mend or drop such rows.")


# --- the cut -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Cut:
    """The last example of every class that is in: those that come no later in the order are."""

    merit: NDArray[Any]
    tie: NDArray[np.uint64]
    place: NDArray[np.int64]
    split: NDArray[np.bool_]  # whether only some of the examples with this merit are in
    kept: NDArray[np.int64]  # how many of each class are in
    many_ties: bool = False  # so many equals that ids are better read along than looked up

    def keep(self, rows: Rows, scan: Scan) -> NDArray[np.bool_]:
        """Which rows of a block are in."""
        merit = self.merit[rows.codes]
        keep = rows.merits >= merit
        equal = np.flatnonzero(rows.merits == merit)
        equal = equal[self.split[rows.codes[equal]]]
        if len(equal):
            codes, ties = rows.codes[equal], scan.ties(rows, equal)
            places = scan.order.places(rows.block.first + equal)
            same = (ties == self.tie[codes]) & (places >= self.place[codes])
            keep[equal] = (ties > self.tie[codes]) | same
        return keep


@dataclass
class _Search:
    """Where the cut of each class still may lie: keys `low..high`, and if these are one, ties `tie_low..tie_high`.

    A class is `shared` while it is cut by the order over all classes; once its own floor reaches further than that,
    it is cut by itself. It is `settled` when all or none of what is inside is kept.
    """

    floors: NDArray[np.int64]
    total: int
    before: NDArray[np.int64]  # examples of the class that come before what is inside
    inside: NDArray[np.int64]
    low: NDArray[np.uint64]
    high: NDArray[np.uint64]
    tie_low: NDArray[np.uint64]
    tie_high: NDArray[np.uint64]
    shared: NDArray[np.bool_]
    settled: NDArray[np.bool_]
    takes_all: NDArray[np.bool_]  # of the settled

    @classmethod
    def over(cls, counts: NDArray[np.int64], floors: NDArray[np.int64], total: int, keys: tuple[int, int]) -> _Search:
        n = len(counts)
        return cls(
            floors=floors,
            total=total,
            before=np.zeros(n, np.int64),
            inside=counts.copy(),
            low=np.full(n, keys[0], np.uint64),
            high=np.full(n, keys[1], np.uint64),
            tie_low=np.zeros(n, np.uint64),
            tie_high=np.full(n, _ALL),
            shared=np.ones(n, bool),
            settled=np.zeros(n, bool),
            takes_all=np.zeros(n, bool),
        )

    def taken(self) -> NDArray[np.int64]:
        """How many each class keeps if the order over all classes takes nothing from inside."""
        of_settled = self.before + np.where(self.takes_all, self.inside, 0)
        return np.where(self.settled, of_settled, np.maximum(self.floors, self.before))

    def narrow(self, before: NDArray[np.int64]) -> NDArray[np.int64]:
        """Find the bin where each class is cut, given (classes, bins + 1) counts of what comes before each bin.

        `before` counts from the beginning of the order, not of the interval. Updates all but the intervals.
        """
        n_bins = before.shape[1] - 1
        shared = self.shared & ~self.settled
        constant = int(self.taken()[~shared].sum())
        floors, columns = self.floors[shared], before[shared]
        first, last = 0, n_bins  # the last edge up to which the shared classes do not take too many
        while first < last:
            middle = (first + last + 1) // 2
            fits = constant + int(np.maximum(floors, columns[:, middle]).sum()) <= self.total
            first, last = (middle, last) if fits else (first, middle - 1)
        own = np.minimum((before[:, 1:] < self.floors[:, None]).sum(axis=1), n_bins - 1)
        common = min(first, n_bins - 1)
        self.shared &= own <= common
        bins = np.where(self.shared, common, own)
        each = np.arange(len(bins))
        active = ~self.settled
        self.before = np.where(active, before[each, bins], self.before)
        self.inside = np.where(active, before[each, bins + 1] - before[each, bins], self.inside)
        self._settle(all_fit=first == n_bins)
        return bins

    def _settle(self, *, all_fit: bool) -> None:
        """Settle the classes of which all or nothing inside is kept, whatever the order inside."""
        rest = self.total - int(self.taken().sum())
        needed = np.maximum(self.floors - self.before, 0)
        alone = ~self.shared | (rest == 0)  # the order over all classes takes nothing more from them
        every = (self.shared & all_fit) | (alone & (needed == self.inside) & (self.inside > 0))
        none = alone & (needed == 0) & ~every
        self.takes_all |= ~self.settled & every
        self.settled |= every | none

    @property
    def open(self) -> NDArray[np.bool_]:
        return ~self.settled

    def divide(self, cells: int) -> tuple[int, NDArray[np.bool_], NDArray[np.uint64]]:
        """How finer bins are made: their number, which classes by ties, and by which shift of the bits."""
        bits = max(1, (cells // len(self.floors)).bit_length() - 1)
        by_tie = self.low == self.high
        span = np.where(by_tie, self.tie_high - self.tie_low, self.high - self.low)
        width = np.zeros(len(span), np.int64)  # of the span in bits
        for power in (32, 16, 8, 4, 2, 1):
            more = span >= np.uint64(1) << np.uint64(power)
            width[more] += power
            span = np.where(more, span >> np.uint64(power), span)
        width += span > 0
        return 2**bits, by_tie, np.maximum(width - bits, 0).astype(np.uint64)

    def enter(
        self,
        bins: NDArray[np.int64],
        which: NDArray[np.bool_],
        by_tie: NDArray[np.bool_],
        shift: NDArray[np.uint64],
    ) -> None:
        """Shrink the interval of some classes to one of its bins."""
        one = np.uint64(1)
        width = (one << shift) - one
        for low, high, these in (
            (self.low, self.high, which & ~by_tie),
            (self.tie_low, self.tie_high, which & by_tie),
        ):
            last = (high - low) >> shift  # the bins beyond it are empty
            high[these] -= (np.minimum(bins.astype(np.uint64), last) << shift)[these]
            low[these] = (high - np.minimum(high - low, width))[these]


def find_cut(scan: Scan, counted: Counted, floors: NDArray[np.int64], total: int) -> Cut:
    """The cut that keeps `floors[g]` of each class g at least and `total` in all, best first."""
    dtype = np.dtype(np.uint64) if scan.order.by_hash else scan.order.merits(np.empty(0, scan.table.dtype)).dtype
    search = _Search.over(counted.counts, floors, total, counted.keys)
    bins = search.narrow(counted.before)
    low, high = counted.bins.keys(bins, counted.keys, dtype)
    search.low, search.high = low, high
    while int(search.inside[search.open].sum()) > scan.limits.candidates:
        n_bins, by_tie, shift = search.divide(scan.limits.cells)
        if np.all((by_tie & (search.tie_low == search.tie_high))[search.open]):
            most = int(search.inside[search.open].max())
            raise PareError(f"{scan.table.path}: {most:,} rows have the same id and score; ids must be unique.")
        before = _count_inside(scan, search, dtype, n_bins, by_tie, shift)
        which = search.open
        search.enter(search.narrow(before), which, by_tie, shift)
    return _decide(scan, search, _collect(scan, search, dtype), dtype)


class _Inside(NamedTuple):
    """The rows of a block that are still open, with their ties where these are needed."""

    rows: Rows
    chosen: NDArray[np.int64]
    codes: NDArray[np.intp]
    ties: NDArray[np.uint64]


def _inside(
    scan: Scan, search: _Search, dtype: np.dtype[Any], by_tie: NDArray[np.bool_], label: str
) -> Iterator[_Inside]:
    """Pass over the rows inside the intervals of open classes, looking at the ties of the classes `by_tie`."""
    by_tie = by_tie & search.open
    low = _merits_of(np.where(search.open, search.low, np.uint64(1)), dtype)  # nothing lies inside a settled class
    high = _merits_of(np.where(search.open, search.high, np.uint64(0)), dtype)
    for rows in scan.passes(label, with_ids=bool(by_tie.any())):
        chosen = np.flatnonzero((rows.merits >= low[rows.codes]) & (rows.merits <= high[rows.codes]))
        codes = rows.codes[chosen]
        ties = np.zeros(len(chosen), np.uint64)
        looked_at = by_tie[codes]
        if looked_at.any():
            ties[looked_at] = scan.ties(rows, chosen[looked_at])
            within = ~looked_at | ((ties >= search.tie_low[codes]) & (ties <= search.tie_high[codes]))
            chosen, codes, ties = chosen[within], codes[within], ties[within]
        yield _Inside(rows, chosen, codes, ties)


def _count_inside(
    scan: Scan,
    search: _Search,
    dtype: np.dtype[Any],
    n_bins: int,
    by_tie: NDArray[np.bool_],
    shift: NDArray[np.uint64],
) -> NDArray[np.int64]:
    """How many of each class come before each of the finer bins, counted from the beginning of the order."""
    before = np.zeros((len(by_tie), n_bins + 1), np.int64)
    for rows, chosen, codes, ties in _inside(scan, search, dtype, by_tie, "dividing crowded scores"):
        keys = _keys(rows.merits[chosen])
        offset = np.where(by_tie[codes], search.tie_high[codes] - ties, search.high[codes] - keys)
        np.add.at(before, (codes, 1 + (offset >> shift[codes]).astype(np.int64)), 1)
    np.cumsum(before, axis=1, out=before)
    before += search.before[:, None]
    return before


class _Candidates(NamedTuple):
    codes: NDArray[np.intp]
    merits: NDArray[Any]
    rows: NDArray[np.int64]
    ties: NDArray[np.uint64]
    with_tie: NDArray[np.bool_]  # whether the tie was looked at


def _collect(scan: Scan, search: _Search, dtype: np.dtype[Any]) -> _Candidates:
    """The rows that are still open; without a pass if there are none."""
    by_tie = (search.tie_low > 0) | (search.tie_high < _ALL)
    parts = [(np.empty(0, np.intp), np.empty(0, dtype), np.empty(0, np.int64), np.empty(0, np.uint64))]
    if search.open.any():
        for rows, chosen, codes, ties in _inside(scan, search, dtype, by_tie, "collecting candidates"):
            parts.append((codes, rows.merits[chosen], rows.block.first + chosen, ties))
    codes, merits, numbers, ties = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _Candidates(codes, merits, numbers, ties, by_tie[codes])


def _decide(scan: Scan, search: _Search, found: _Candidates, dtype: np.dtype[Any]) -> Cut:
    """Choose among the candidates as `select` would, and read the cut of every class off them."""
    needed = np.where(search.open, np.maximum(search.floors - search.before, 0), 0)
    rest = search.total - int(search.taken().sum())
    shared = search.shared[found.codes]
    keys = _keys(found.merits)

    def choose(ties: NDArray[np.uint64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        order = np.lexsort((-scan.order.places(found.rows), ~ties, ~keys))
        chosen = np.zeros(len(order), bool)
        chosen[best_of_each(order, found.codes, needed)] = True
        chosen[first_allowed(order, shared & ~chosen, rest)] = True
        return order, chosen

    # Ids are read only where a hash decides: among equal merits of which some are chosen and some are not.
    order, chosen = choose(found.ties)
    domain = np.where(shared, len(needed), found.codes)
    ties = found.ties
    unknown = np.flatnonzero(_mixed(domain, keys, chosen) & ~found.with_tie)
    if len(unknown):
        unknown = unknown[np.argsort(found.rows[unknown])]
        ties = ties.copy()
        ties[unknown] = scan.order.ties(scan.table.ids_at(found.rows[unknown]))
        order, chosen = choose(ties)

    cut = _outer_cut(search, dtype)
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    worst = np.full(len(needed), -1)
    np.maximum.at(worst, found.codes[chosen], rank[chosen])
    some = np.flatnonzero(worst >= 0)
    last = order[worst[some]]
    cut.merit[some], cut.tie[some] = found.merits[last], ties[last]
    cut.place[some] = scan.order.places(found.rows[last])
    beyond = np.flatnonzero(~chosen)
    cut.split[some] = found.with_tie[last]
    cut.split[found.codes[beyond[found.merits[beyond] == cut.merit[found.codes[beyond]]]]] = True
    kept = np.where(search.settled, search.taken(), search.before)
    return replace(
        cut,
        kept=kept + np.bincount(found.codes[chosen], minlength=len(kept)),
        many_ties=len(unknown) > _FEW_IDS or bool(np.any((search.tie_low > 0) | (search.tie_high < _ALL))),
    )


def _mixed(domain: NDArray[Any], keys: NDArray[np.uint64], chosen: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which candidates have equals in their domain, some of them chosen and some not."""
    mixed = np.zeros(len(keys), bool)
    if len(keys):
        order = np.lexsort((keys, domain))
        new = (np.diff(keys[order], prepend=keys[order[:1]]) != 0) | (np.diff(domain[order], prepend=-1) != 0)
        group = np.cumsum(new) - 1
        starts = np.flatnonzero(new)
        both = np.logical_or.reduceat(chosen[order], starts) & ~np.logical_and.reduceat(chosen[order], starts)
        mixed[order] = both[group]
    return mixed


def _outer_cut(search: _Search, dtype: np.dtype[Any]) -> Cut:
    """The cut of classes of which all or nothing inside is in (a class that is still open takes nothing)."""
    by_tie = (search.tie_low > 0) | (search.tie_high < _ALL)
    by_tie |= ~search.takes_all & (search.high == _ALL)  # no key is above the highest
    above = np.where(by_tie, search.high, search.high + np.uint64(1))
    return Cut(
        merit=_merits_of(np.where(search.takes_all, search.low, above), dtype),
        tie=np.where(search.takes_all, search.tie_low, search.tie_high),
        place=np.where(search.takes_all, -_LAST, _LAST),
        split=by_tie,
        kept=np.zeros(len(by_tie), np.int64),
    )
