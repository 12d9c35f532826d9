"""Counts of the rows of every class by key: the first look at a table."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.selection.streamed.sort_keys import Ranking, Scan

_MOST_BINS = 1_024  # each holds some 0.1 % of the rows; more of them leave the processor's cache
_PLACES = 18  # bits of a key that decide its bin, from the first on that differs


class _Bins:
    """Neighbouring keys together in bins, each with about as many rows, by what a sample of them says."""

    def __init__(self, sample: NDArray[Any], number: int) -> None:
        self.low, self.high = sample.min(), sample.max()  # keys outside are in the end bins
        self.shift = sample.dtype.type(max(0, int(self.high - self.low).bit_length() - _PLACES))
        self.number, self.of_place = number, np.zeros(0, np.int16)
        counts = np.bincount(self._places(sample))
        self.of_place = ((np.cumsum(counts) - counts) * number // len(sample)).astype(np.int16)

    def _places(self, keys: NDArray[Any]) -> NDArray[np.intp]:
        places = np.clip(keys, self.low, self.high)
        places -= self.low
        places >>= self.shift
        return places.astype(np.intp)

    def of(self, keys: NDArray[Any]) -> NDArray[np.int16]:
        return self.of_place.take(self._places(keys))

    def halve(self) -> None:
        """Merge neighbouring bins."""
        self.number, self.of_place = self.number // 2, self.of_place // 2

    def ends(self, lowest: int, highest: int) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The lowest and the highest key that may be in each bin, given those of all."""
        places = np.searchsorted(self.of_place, np.arange(self.number)).astype(np.uint64)
        first = np.uint64(self.low) + (places << np.uint64(self.shift))
        first[0], first[int(self.of_place[-1]) + 1 :] = lowest, highest + 1
        return first, np.append(first[1:] - np.uint64(1), np.uint64(highest))


class Histogram:
    """The numbers of rows of every class `before` each of some bins, and the `first` and `last` key of the bins.

    Making it takes a pass, which checks every score. The first one of a table settles how its classes are numbered.
    """

    def __init__(self, scan: Scan, ranking: Ranking) -> None:
        sample, most = scan.table.sample(), min(_MOST_BINS, max(2, scan.limits.cells // 16))
        bins = _Bins(ranking.score_keys(sample), 2 ** (most.bit_length() - 1))
        counts = np.zeros((0, bins.number), np.uint32 if len(scan.table) < 2**32 else np.int64)
        self.lowest, self.highest = 2**64, 0  # of all keys
        for rows in scan.rows("counting scores"):
            rows.check_finite()
            while scan.codes.number > len(counts):  # new classes need room, and wider bins if there is no more
                if bins.number > 2 and 2 * counts.size > scan.limits.cells:
                    bins.halve()
                    counts = counts.reshape(-1, bins.number, 2).sum(axis=2, dtype=counts.dtype)
                counts = np.concatenate([counts, np.zeros((max(16, len(counts)), bins.number), counts.dtype)])
            keys = ranking.keys(rows)
            cells = rows.codes * bins.number
            cells += bins.of(keys)
            np.add.at(counts.reshape(-1), cells, counts.dtype.type(1))
            self.lowest, self.highest = min(self.lowest, int(keys.min())), max(self.highest, int(keys.max()))
        classes = scan.codes.settle(counts[: scan.codes.number].sum(axis=1, dtype=np.int64))
        self.before = np.zeros((len(classes), bins.number + 1), np.int64)
        np.cumsum(counts[classes], axis=1, out=self.before[:, 1:])
        self.counts = self.before[:, -1].copy()  # how many rows each class has
        self.first, self.last = bins.ends(self.lowest, self.highest)
