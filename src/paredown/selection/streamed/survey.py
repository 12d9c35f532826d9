"""The first pass over a table: how its rows lie in an order, from which cuts start, and what is wrong with scores."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from paredown.score_warnings import Magnitudes, band_ranks, warnings_of_counts
from paredown.selection.strategies import median_of
from paredown.selection.streamed.cuts import Cut, find
from paredown.selection.streamed.sort_keys import ByHash, ByScore
from paredown.table_passes import ALL, Rows, Scan

_MOST_BINS = 1_024  # each holds some 0.1 % of the rows; more of them leave the processor's cache
_PLACES = 18  # bits of a word that decide its bin, from the first on that differs


class Survey:
    """What the first pass tells: how many rows of every class are in which bins of words.

    Args:
        scan: makes the pass.
        order: of the scores.
        hashed: another order that cuts are wanted in.
    """

    def __init__(self, scan: Scan, order: ByScore, hashed: ByHash | None = None) -> None:
        self.scan, self.order = scan, order
        found = _Histogram(scan, order)
        self.bins: dict[ByScore | ByHash, _Histogram] = {order: found}
        if hashed is not None:
            self.bins[hashed] = _Histogram(scan, hashed)
        scan.look("counting scores", list(self.bins.values()), ids=hashed is not None)
        classes = scan.codes.settle(found.counts[: scan.codes.number].sum(axis=1, dtype=np.int64))
        for each in self.bins.values():
            each.counts = each.counts[classes]
        self.rows = found.counts.sum(axis=1, dtype=np.int64)  # of each class
        ends = [self.scores_at(words[classes]) for words in (found.lowest, found.highest)]
        self.class_lowest, self.class_highest = reversed(ends) if order.by == "hard" else ends
        seen = self.rows > 0
        self.lowest, self.highest = self.class_lowest[seen].min(), self.class_highest[seen].max()
        # The median of each class is found along with the first of other cuts.
        middle = self.rows - self.rows // 2 if order.by == "hard" else self.rows // 2 + 1
        self._medians: list[Cut] = []
        if scan.codes.grouped_by and order.by != "distance":
            self._medians = [self.cut(np.minimum(middle, self.rows), ties=False)]

    def cut(
        self, floors: NDArray[np.int64], total: int | None = None, *, order: ByHash | None = None, ties: bool = True
    ) -> Cut:
        """The first rows of every class, and of all where `total` leaves places for more; still to be found."""
        cut = Cut(order or self.order, self.rows, floors, total, ties=ties)
        bins = self.bins[cut.order]
        cut.narrow(bins.counts[cut.open], bins.ends)
        return cut

    def find(self, *cuts: Cut) -> None:
        """Find some cuts."""
        find(self.scan, *cuts, *self._medians)

    def scores_at(self, words: NDArray[np.unsignedinteger]) -> NDArray[np.floating]:
        """The scores that have these words."""
        return self.order.scores_at(words, self.scan.table.dtype)

    def class_scores(self) -> list[NDArray[np.floating]]:
        """The lowest, median and highest score of each class."""
        return [self.class_lowest, *(self.scores_at(cut.low) for cut in self._medians), self.class_highest]

    def words_at(self, places: Sequence[int]) -> NDArray[np.uint64]:
        """The words at some places of the order, from 0 on."""
        cuts = [self.cut(np.zeros_like(self.rows), place + 1, ties=False) for place in places]
        self.find(*cuts)
        return np.array([cut.low[0] for cut in cuts])

    def median(self) -> Any:
        """The median score."""
        n = len(self.scan.table)
        middle = self.scores_at(self.words_at([(n - 1) // 2, n // 2]))
        return median_of(middle[n % 2 :])  # twice the same one might overflow in their sum

    def notes(self) -> list[str]:
        """What is wrong with the scores themselves, in the words of `select`."""
        n, known = len(self.scan.table), self.scan.table.provenance.get("warnings", ())
        found = warnings_of_counts(n, (self.lowest, self.highest), self.bins[self.order].magnitudes, self._band)
        return [text for text in found if text not in known]

    def _band(self) -> tuple[float, float, float]:
        """The median, and how far from it most of the scores are; takes more passes."""
        n = len(self.scan.table)
        middle, *places = band_ranks(n)
        words = self.words_at([middle if self.order.by == "easy" else n - 1 - middle])
        median = self.scores_at(words).astype(np.float64)[0]
        distances = Survey(self.scan, ByScore("distance", self.order.seed, median))
        most, large = distances.order.values_at(distances.words_at(places), np.dtype(np.float64)).tolist()
        return float(median), most, large


class _Histogram:
    """A look that counts rows in bins of neighbouring words with about as many of all rows, by what a sample says.

    A word has a place, which is its leading bits, and `bin_of` has the bin of every place. Where more classes come up
    than there is room for, neighbouring bins are merged.
    """

    def __init__(self, scan: Scan, order: ByScore | ByHash) -> None:
        self.order, self.codes, self.cells = order, scan.codes, scan.limits.cells
        sample = order.sample(scan.table)
        self.low, self.high = sample.min(), sample.max()  # words outside are in the end bins
        self.shift = sample.dtype.type(max(0, int(self.high - self.low).bit_length() - _PLACES))
        bins = 2 ** (min(_MOST_BINS, max(2, self.cells // 16)).bit_length() - 1)
        in_place = np.bincount(self._places(sample))
        self.bin_of = ((np.cumsum(in_place) - in_place) * bins // len(sample)).astype(np.int16)
        self.counts = np.zeros((0, bins), np.uint32 if len(scan.table) < 2**32 else np.int64)
        self.lowest, self.highest = np.zeros((2, 0), sample.dtype)  # words of each class
        self.magnitudes = Magnitudes()

    def _places(self, words: NDArray[np.unsignedinteger]) -> NDArray[np.intp]:
        places = np.clip(words, self.low, self.high)
        places -= self.low
        places >>= self.shift
        return places.astype(np.intp)

    def add(self, rows: Rows) -> None:
        rows.check_finite()
        self._make_room()
        words = self.order.words(rows, ALL)
        cells = rows.codes * self.counts.shape[1]
        cells += self.bin_of.take(self._places(words))
        np.add.at(self.counts.reshape(-1), cells, self.counts.dtype.type(1))
        np.minimum.at(self.lowest, rows.codes, words)
        np.maximum.at(self.highest, rows.codes, words)
        if isinstance(self.order, ByScore) and self.order.by != "distance":
            self.magnitudes.add(rows.scores)

    def merge(self, other: _Histogram) -> None:
        codes = self.codes.join(other.codes)[: len(other.counts)]
        self._make_room()
        for finer, coarser in ((self, other), (other, self)):
            while finer.counts.shape[1] > coarser.counts.shape[1]:
                finer._halve()
        self.counts[codes] += other.counts[: len(codes)]
        np.minimum.at(self.lowest, codes, other.lowest[: len(codes)])
        np.maximum.at(self.highest, codes, other.highest[: len(codes)])
        self.magnitudes.merge(other.magnitudes)

    def _make_room(self) -> None:
        """New classes need room, and wider bins if there is no more."""
        while self.codes.number > len(self.counts):
            if self.counts.shape[1] > 2 and 2 * self.counts.size > self.cells:
                self._halve()
            more = max(16, len(self.counts))
            self.counts = np.pad(self.counts, ((0, more), (0, 0)))
            self.lowest = np.pad(self.lowest, (0, more), constant_values=np.iinfo(self.lowest.dtype).max)
            self.highest = np.pad(self.highest, (0, more))

    def _halve(self) -> None:
        """Merge neighbouring bins."""
        self.bin_of = self.bin_of // 2
        self.counts = self.counts.reshape(len(self.counts), -1, 2).sum(axis=2, dtype=self.counts.dtype)

    def ends(self, bins: NDArray[np.intp]) -> tuple[NDArray[np.uint64], NDArray[np.uint64]]:
        """The lowest and the highest word that may be in bins."""

        def first_place(bins: NDArray[np.intp], side: Literal["left", "right"]) -> NDArray[np.uint64]:
            places = np.searchsorted(self.bin_of, bins, side).astype(np.uint64)
            return np.uint64(self.low) + (places << np.uint64(self.shift))

        first, after = first_place(bins, "left"), first_place(bins, "right")
        first = np.where(bins == 0, np.uint64(self.lowest.min()), first)
        return first, np.where(bins == self.bin_of[-1], np.uint64(self.highest.max()), after - np.uint64(1))
