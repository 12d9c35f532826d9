"""The first pass over a table: what is wrong with its scores, and where any place of their order is."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import NDArray

from paredown.score_warnings import (
    CROWDED,
    CROWDED_ROWS,
    Magnitudes,
    band_ranks,
    band_warning,
    constant_warning,
    crowding_warning,
)
from paredown.selection.streamed.cuts import Search, keys_at
from paredown.selection.streamed.histogram import Histogram
from paredown.selection.streamed.sort_keys import Ranking, Scan


class Survey:
    """What the first pass over a table tells: the scores of every class in bins, and how to search them."""

    def __init__(self, scan: Scan, by: Literal["hard", "easy"], seed: int) -> None:
        self.scan, self.ranking = scan, Ranking(by, seed)
        self.histogram = Histogram(scan, self.ranking)
        self.counts = self.histogram.counts
        ends = self.scores_at(np.array([self.histogram.lowest, self.histogram.highest], np.uint64))
        self.lowest, self.highest = ends.min(), ends.max()
        # Each of the lowest, median and highest scores of all classes is a cut, found along with the first of others.
        middle = self.counts - self.counts // 2 if self.ranking.by == "hard" else self.counts // 2 + 1
        numbers = (self.counts, middle, 1) if self.ranking.by == "hard" else (1, middle, self.counts)
        floors = [np.minimum(self.counts, number) for number in numbers]
        self.class_scores = [self.search(each) for each in floors] if scan.codes.grouped_by else []

    def search(self, floors: NDArray[np.int64], total: int | None = None) -> Search:
        """A search for the first of every class, and of all where `total` leaves places for more."""
        return Search(self.ranking, self.histogram, floors, int(floors.sum()) if total is None else total)

    def scores_at_places(self, *places: int) -> NDArray[np.floating]:
        """The scores at some places of the order, from 0 on."""
        return self.scores_at(keys_at(self.scan, self.ranking, self.histogram, places, *self.class_scores))

    def scores_at(self, keys: NDArray[np.uint64]) -> NDArray[np.floating]:
        return self.ranking.scores_at(keys, self.scan.table.dtype)

    def constant(self) -> str | None:
        return constant_warning(float(self.lowest), float(self.highest), len(self.scan.table))

    def notes(self) -> list[str]:
        """What is wrong with the scores themselves, in the words of `select`."""
        warning = self.constant() or self._crowded()
        return [] if warning is None or warning in self.scan.table.provenance.get("warnings", ()) else [warning]

    def _crowded(self) -> str | None:
        """A warning if the scores crowd in one place; takes more passes only where they may.

        Crowded means that three quarters of them are within a share of the largest distance, from zero or from the
        median. So these are no further apart than `width`, where a tenth more allows for rounding.
        """
        n, counted, dtype = len(self.scan.table), self.histogram, self.scan.table.dtype
        width = 2.2 * CROWDED * max(abs(float(self.lowest)), abs(float(self.highest)))
        first, last = (self.ranking.values_at(keys, dtype).astype(np.float64) for keys in (counted.first, counted.last))
        before = counted.before.sum(axis=0)
        most = int((before[np.searchsorted(first, last + width, side="right")] - before[:-1]).max())
        if n < CROWDED_ROWS or 4 * most < 3 * n:
            return None
        magnitudes = Magnitudes()
        for rows in self.scan.rows("looking at crowded scores"):
            magnitudes.add(rows.scores)
        warning = crowding_warning(magnitudes, n)
        if warning is not None or not magnitudes.may_crowd():
            return warning
        middle, *places = band_ranks(n)
        (median,) = self.scores_at_places(middle if self.ranking.by == "easy" else n - 1 - middle).astype(np.float64)
        distance = Ranking("distance", self.ranking.seed, median)
        keys = keys_at(self.scan, distance, Histogram(self.scan, distance), places)
        return band_warning(float(median), *distance.values_at(keys, np.dtype(np.float64)).tolist())
