"""The first pass over a table: the scores of every class counted in bins that follow the order, best first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.selection.streamed.order import Order, Rows, Scan, keys_of, merits_of
from paredown.selection.streamed.score_table import ScoreTable

__all__ = ["Counted", "count_scores"]


@dataclass(frozen=True)
class Counted:
    """What the first pass leaves: counts of every class, its range of scores, and in which bins they lie."""

    counts: NDArray[np.int64]
    lowest: NDArray[np.floating]  # score of each class
    highest: NDArray[np.floating]
    before: NDArray[np.int64]  # (classes, bins + 1): how many of a class come before each bin, best first
    bins: _Bins
    keys: tuple[int, int]  # lowest and highest of the merits

    def may_crowd(self, share: float) -> bool:
        """Whether three quarters of the scores may be below this share of the 99th percentile, in magnitude.

        Never wrong when it says no: every score is taken to be as small, and then as large, as its bin allows.
        """
        seen = self.counts > 0
        ends = float(self.lowest[seen].min()), float(self.highest[seen].max())
        low, high = self.bins.magnitudes(max(map(abs, ends)))
        counts = np.diff(self.before.sum(axis=0))
        return _quantile(low, counts, 0.75) <= share * _quantile(high, counts, 0.99)


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

    def magnitudes(self, largest: float) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The least and the greatest magnitude in each bin, taken a bin wider at either side to allow for rounding."""
        if not self.scale:
            return np.zeros(self.number), np.full(self.number, largest)
        with np.errstate(over="ignore", invalid="ignore"):
            edges = self.top - np.arange(-1, self.number + 2) * (self.merged / self.scale)
        edges = np.clip(np.nan_to_num(edges, nan=0.0), -largest, largest)
        edges[:2], edges[-2:] = largest, -largest  # what lies beyond the ends is in the end bins
        upper, lower = edges[:-3], edges[3:]
        least = np.where((upper >= 0) & (lower <= 0), 0.0, np.minimum(np.abs(upper), np.abs(lower)))
        return least, np.maximum(np.abs(upper), np.abs(lower))

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
                far = self(merits_of(middle, dtype)) >= at_least
                open_ = low < high
                low = np.where(far & open_, middle, low)
                high = np.where(~far & open_, middle - one, high)
            found = self(merits_of(low, dtype)) >= at_least
            return np.where(found, low, low - one)

        return highest(bins + 1) + np.uint64(1), highest(bins)


def _quantile(values: NDArray[np.float64], counts: NDArray[np.int64], share: float) -> float:
    order = np.argsort(values)
    return float(values[order[np.searchsorted(np.cumsum(counts[order]), np.ceil(share * counts.sum()))]])


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
        ends = keys_of(np.array([rows.merits.min(), rows.merits.max()]))
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
