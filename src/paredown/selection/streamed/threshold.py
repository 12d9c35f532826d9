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
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.selection.floors import best_of_each, first_allowed
from paredown.selection.streamed.counting import Counted
from paredown.selection.streamed.cut import Cut, Equals
from paredown.selection.streamed.order import Rows, Scan, keys_of, merits_of
from paredown.selection.streamed.search import HIGHEST, Search

__all__ = ["find_cut"]

_LAST = np.iinfo(np.int64).max
_FEW_IDS = 1_000  # looked up one by one, each for the price of a row group


def find_cut(scan: Scan, counted: Counted, floors: NDArray[np.int64], total: int, *, grouped: bool = True) -> Cut:
    """The cut that keeps `floors[g]` of each class g at least and `total` in all, best first.

    Equals are counted at the cut of each class, or, unless `grouped`, at the one cut over all of them.
    """
    dtype = np.dtype(np.uint64) if scan.order.by_hash else scan.order.merits(np.empty(0, scan.table.dtype)).dtype
    search = Search.over(counted.counts, floors, total, counted.keys)
    bins = search.narrow(counted.before)
    low, high = counted.bins.keys(bins, counted.keys, dtype)
    search.low, search.high = low, high
    while int(search.inside[search.open].sum()) > scan.limits.candidates:
        n_bins, by_tie, shift = search.divide(scan.limits.cells)
        if np.all((by_tie & (search.tie_low == search.tie_high))[search.open]):
            most = int(search.inside[search.open].max())
            raise PareError(f"{scan.table.path}: {most:,} rows have the same id and score; ids must be unique.")
        search.count_equals(by_tie)
        before = _count_inside(scan, search, dtype, n_bins, by_tie, shift)
        which = search.open
        search.enter(search.narrow(before), which, by_tie, shift)
    return _decide(scan, search, _collect(scan, search, dtype), dtype, grouped)


class _Inside(NamedTuple):
    """The rows of a block that are still open, with their ties where these are needed."""

    rows: Rows
    chosen: NDArray[np.int64]
    codes: NDArray[np.intp]
    ties: NDArray[np.uint64]


def _inside(
    scan: Scan, search: Search, dtype: np.dtype[Any], by_tie: NDArray[np.bool_], label: str
) -> Iterator[_Inside]:
    """Pass over the rows inside the intervals of open classes, looking at the ties of the classes `by_tie`."""
    by_tie = by_tie & search.open
    low = merits_of(np.where(search.open, search.low, np.uint64(1)), dtype)  # nothing lies inside a settled class
    high = merits_of(np.where(search.open, search.high, np.uint64(0)), dtype)
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
    search: Search,
    dtype: np.dtype[Any],
    n_bins: int,
    by_tie: NDArray[np.bool_],
    shift: NDArray[np.uint64],
) -> NDArray[np.int64]:
    """How many of each class come before each of the finer bins, counted from the beginning of the order."""
    before = np.zeros((len(by_tie), n_bins + 1), np.int64)
    for rows, chosen, codes, ties in _inside(scan, search, dtype, by_tie, "dividing crowded scores"):
        keys = keys_of(rows.merits[chosen])
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


def _collect(scan: Scan, search: Search, dtype: np.dtype[Any]) -> _Candidates:
    """The rows that are still open; without a pass if there are none."""
    by_tie = (search.tie_low > 0) | (search.tie_high < HIGHEST)
    parts = [(np.empty(0, np.intp), np.empty(0, dtype), np.empty(0, np.int64), np.empty(0, np.uint64))]
    if search.open.any():
        for rows, chosen, codes, ties in _inside(scan, search, dtype, by_tie, "collecting candidates"):
            parts.append((codes, rows.merits[chosen], rows.block.first + chosen, ties))
    codes, merits, numbers, ties = (np.concatenate(column) for column in zip(*parts, strict=True))
    return _Candidates(codes, merits, numbers, ties, by_tie[codes])


def _decide(scan: Scan, search: Search, found: _Candidates, dtype: np.dtype[Any], grouped: bool) -> Cut:
    """Choose among the candidates as `select` would, and read the cut of every class off them."""
    needed = np.where(search.open, np.maximum(search.floors - search.before, 0), 0)
    rest = search.total - int(search.taken().sum())
    shared = search.shared[found.codes]
    keys = keys_of(found.merits)

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
    kept += np.bincount(found.codes[chosen], minlength=len(kept))
    return replace(
        cut,
        kept=kept,
        equals=_equals(search, found, chosen, kept, dtype, grouped),
        many_ties=len(unknown) > _FEW_IDS or bool(np.any((search.tie_low > 0) | (search.tie_high < HIGHEST))),
    )


def _equals(
    search: Search,
    found: _Candidates,
    chosen: NDArray[np.bool_],
    kept: NDArray[np.int64],
    dtype: np.dtype[Any],
    grouped: bool,
) -> Equals:
    """The examples at the cut: among the candidates, or as counted where a class had to be divided by ties.

    A class that was settled before that is cut between two merits and has no equals on the other side.
    """
    n = len(kept)
    worst = np.full(n, np.inf, np.float64).astype(dtype) if dtype.kind == "f" else np.full(n, HIGHEST)
    np.minimum.at(worst, found.codes[chosen], found.merits[chosen])
    if not grouped:
        worst[:] = worst.min()
    equal = found.merits == worst[found.codes]
    inside = np.bincount(found.codes[equal & chosen], minlength=n)
    outside = np.bincount(found.codes[equal & ~chosen], minlength=n)
    divided = search.equal_before >= 0
    inside = np.where(divided, kept - search.equal_before, inside)
    outside = np.where(divided, search.equal - inside, outside)
    return Equals(np.where(divided, merits_of(search.low, dtype), worst), inside, outside)


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


def _outer_cut(search: Search, dtype: np.dtype[Any]) -> Cut:
    """The cut of classes of which all or nothing inside is in (a class that is still open takes nothing)."""
    by_tie = (search.tie_low > 0) | (search.tie_high < HIGHEST)
    by_tie |= ~search.takes_all & (search.high == HIGHEST)  # no key is above the highest
    above = np.where(by_tie, search.high, search.high + np.uint64(1))
    return Cut(
        merit=merits_of(np.where(search.takes_all, search.low, above), dtype),
        tie=np.where(search.takes_all, search.tie_low, search.tie_high),
        place=np.where(search.takes_all, -_LAST, _LAST),
        split=by_tie,
        kept=np.zeros(len(by_tie), np.int64),
        equals=Equals(np.zeros(len(by_tie), dtype), np.zeros(len(by_tie), np.int64), np.zeros(len(by_tie), np.int64)),
    )
