"""Where each class is cut, narrowed down from counts alone: the search that `threshold.find_cut` drives."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

__all__ = ["HIGHEST", "Search"]

HIGHEST = np.uint64(2**64 - 1)  # of keys and of ties


@dataclass
class Search:
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
    equal_before: NDArray[np.int64]  # where a class had to be divided by ties: what comes before its equals, or -1
    equal: NDArray[np.int64]  # and how many equals there are

    @classmethod
    def over(cls, counts: NDArray[np.int64], floors: NDArray[np.int64], total: int, keys: tuple[int, int]) -> Search:
        n = len(counts)
        return cls(
            floors=floors,
            total=total,
            before=np.zeros(n, np.int64),
            inside=counts.copy(),
            low=np.full(n, keys[0], np.uint64),
            high=np.full(n, keys[1], np.uint64),
            tie_low=np.zeros(n, np.uint64),
            tie_high=np.full(n, HIGHEST),
            shared=np.ones(n, bool),
            settled=np.zeros(n, bool),
            takes_all=np.zeros(n, bool),
            equal_before=np.full(n, -1),
            equal=np.zeros(n, np.int64),
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

    def count_equals(self, by_tie: NDArray[np.bool_]) -> None:
        """Note how many examples have the one key that is left of a class, before its ties are divided."""
        new = by_tie & self.open & (self.equal_before < 0)
        self.equal_before[new], self.equal[new] = self.before[new], self.inside[new]

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
