"""Counts of the rows of every group in bins that follow an order."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.selection.streamed.sort_keys import Order, Scan, sortable, unsortable

_MOST_BINS = 4_096  # one of them then holds some 0.1 % of the rows


class Histogram:
    """Counts of values of every group in bins of equal width over the bulk of them; outliers are in the end bins.

    Differences, products and truncation round but never change the order, so bins follow it exactly.
    """

    def __init__(self, scan: Scan, order: Order) -> None:
        self.cells, self.merged = scan.limits.cells, 1  # neighbouring bins that count as one
        self.bins = 2 ** (min(_MOST_BINS, max(2, self.cells // 16)).bit_length() - 1)
        if order.by_hash:
            self.dtype, self.low, high = np.dtype(np.uint64), 0.0, 2.0**64
        else:
            seen = order.values(scan.table.sample())
            self.dtype, (self.low, high) = seen.dtype, _bulk(seen.astype(np.float64))
        with np.errstate(over="ignore"):
            scale = np.float64(self.bins) / (high - self.low) if high > self.low else 0.0
        self.scale = float(scale) if np.isfinite(scale) else 0.0
        self.counts = np.zeros((0, self.bins), np.uint32 if len(scan.table) < 2**32 else np.int64)
        self.before = np.zeros((0, self.bins + 1), np.int64)  # once settled: how many of a group come before each bin
        self.keys_seen = (2**64, -1)

    def bin_of(self, values: NDArray[Any]) -> NDArray[np.int32]:
        """The bin of each value."""
        if not self.scale:
            return np.zeros(len(values), np.int32)
        kind = values.dtype.type if values.dtype.kind == "f" else np.float64
        with np.errstate(over="ignore"):
            above = np.subtract(values, kind(self.low), dtype=kind)
            above *= kind(min(self.scale, float(np.finfo(kind).max)))
        np.clip(above, 0, self.bins * self.merged - 1, out=above)
        bins = above.astype(np.int32)
        return bins if self.merged == 1 else bins // self.merged

    def add(self, values: NDArray[Any], groups: NDArray[np.intp], n_groups: int) -> None:
        """Count some more rows; `n_groups` is how many groups are known by now."""
        while n_groups > len(self.counts):  # groups not seen before need room, and wider bins if there is no more
            if self.bins > 2 and 2 * len(self.counts) * self.bins > self.cells:
                self.bins, self.merged = self.bins // 2, 2 * self.merged
                self.counts = self.counts.reshape(-1, self.bins, 2).sum(axis=2, dtype=self.counts.dtype)
            more = np.zeros((max(16, 2 * len(self.counts)), self.bins), self.counts.dtype)
            more[: len(self.counts)] = self.counts
            self.counts = more
        if len(values):
            cells = groups * self.bins
            cells += self.bin_of(values)
            np.add.at(self.counts.reshape(-1), cells, self.counts.dtype.type(1))
            low, high = sortable(np.array([values.min(), values.max()])).tolist()
            self.keys_seen = min(self.keys_seen[0], low), max(self.keys_seen[1], high)

    def settle(self, groups: NDArray[np.intp]) -> None:
        """End counting; from now on the groups are these, in this order."""
        self.before = np.zeros((len(groups), self.bins + 1), np.int64)
        np.cumsum(self.counts[groups], axis=1, out=self.before[:, 1:])
        del self.counts

    def keys(self, bins: NDArray[np.intp]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The lowest and the highest key that may be in each of some bins.

        The lowest of all is 1: no finite score has the key 0, and of all ids one in 2^64 has the hash 0.
        """
        lowest, highest = (np.uint64(max(0, key)) for key in self.keys_seen)

        def last_before(bins: NDArray[np.intp]) -> NDArray[np.uint64]:
            """The highest key that is in an earlier bin, found bit by bit."""
            key = np.zeros(len(bins), np.uint64)
            for bit in reversed(range(8 * self.dtype.itemsize)):
                trial = key | np.uint64(1 << bit)
                values = unsortable(np.clip(trial, lowest, highest), self.dtype)
                key = np.where((self.bin_of(values) < bins) & (trial <= highest), trial, key)
            return key

        return last_before(bins) + np.uint64(1), last_before(bins + 1)


def _bulk(values: NDArray[np.float64]) -> tuple[float, float]:
    """A range that holds nearly all values: a few outliers must not make all bins useless."""
    values = values[np.isfinite(values)]
    if len(values) == 0:
        return 0.0, 0.0
    with np.errstate(over="ignore", invalid="ignore"):
        low, high = np.quantile(values, [0.001, 0.999])
        margin = 0.5 * (high - low)
        return float(max(low - margin, values.min())), float(min(high + margin, values.max()))
