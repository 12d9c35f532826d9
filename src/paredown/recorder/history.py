"""What is kept of each example: a fixed-size record of the sequence of its observations.

Records form a monoid. `append` adds one observation to the end, `join` puts one sequence behind another, and both give
the same bits however a sequence was cut: sums are whole numbers (fixed point), and whatever looks at neighbours in time
(forgetting, sliding windows) keeps the first and last few observations, so that the seam between two sequences is
counted as if it had never been there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.metrics.forgetting_events import was_forgotten
from paredown.metrics.prediction_arrays import column_sums
from paredown.recorder.observations import Observations

Table = NDArray[np.void]  # one record per example

FINE = 2.0**47  # units of the sums of numbers below 2: an int64 holds twice MAX_OBSERVATIONS of them
HALF = 2.0**31  # units of the probability whose exact variance is kept: its square is split into two halves
MAX_OBSERVATIONS = 2**14
TDDS_WINDOWS = 8  # windows in the exponential average of tdds: older ones have weights below 1e-8
_MARGIN_LIMIT = 2.0**40  # larger margins count as this; their whole and broken parts are summed apart

# Columns of `sums`
EL2N, P_TRUE, MARGIN_PART, SPREAD, MARGIN_WHOLE, HALF_P, SQUARE_HIGH, SQUARE_LOW = range(8)
# Columns of `latest`
LAST_EL2N, LAST_MARGIN, LAST_ENTROPY, LAST_GRAND = range(4)


@dataclass(frozen=True)
class Layout:
    """The shape of the records: what must agree between records that are joined."""

    n_classes: int
    window: int  # observations in a window of dyn_unc and tdds
    tdds: bool  # whether softmax vectors are kept for tdds
    el2n_epochs: tuple[int, ...]  # epochs whose EL2N is kept

    @property
    def changes_kept(self) -> int:
        """How many of the latest changes between observations the windows of tdds look at."""
        return self.window - 1 + TDDS_WINDOWS - 1 if self.tdds else 0

    @property
    def dtype(self) -> np.dtype[np.void]:
        """The record of one example; a whole number of 8-byte words, so that rows move fast."""
        return np.dtype(
            [
                ("sums", np.int64, (8,)),
                ("latest", np.float64, (4,)),
                ("el2n_at", np.float64, (len(self.el2n_epochs),)),
                ("head", np.float64, (self.window - 1,)),  # the first p_true, left-aligned
                ("tail", np.float64, (self.window - 1,)),  # the last p_true, right-aligned
                ("changes", np.float64, (self.changes_kept,)),  # the last ones, right-aligned
                ("first_p", np.float32, (2 * ((self.n_classes + 1) // 2) * self.tdds,)),  # padded to whole words
                ("last_p", np.float32, (2 * ((self.n_classes + 1) // 2) * self.tdds,)),
                ("seen", np.int32),  # observations
                ("correct", np.int32),
                ("forgotten", np.int32),
                ("first_epoch", np.int32),
                ("last_epoch", np.int32),
                ("first_correct", np.int32),
                ("last_correct", np.int32),
                ("unused", np.int32),
            ]
        )

    def empty(self, n: int) -> Table:
        """Records of examples never seen."""
        table = np.zeros(n, self.dtype)
        table["latest"] = np.nan
        table["el2n_at"] = np.nan
        table["first_epoch"] = -1
        table["last_epoch"] = -1
        return table

    def append(self, rows: Table, seen: Observations, epoch: int) -> None:
        """Add one observation to the end of each record, in place."""
        fresh = rows["seen"] == 0
        self._append_counts(rows, seen, epoch, fresh)
        spread = self._append_window(rows, seen.p_true)
        if self.tdds:
            self._append_change(rows, seen.p, fresh)
        _add_sums(rows["sums"], seen, spread)
        latest = rows["latest"]
        latest[:, LAST_EL2N] = seen.el2n
        latest[:, LAST_MARGIN] = seen.margin
        latest[:, LAST_ENTROPY] = seen.entropy
        latest[:, LAST_GRAND] = seen.grand
        if epoch in self.el2n_epochs:
            rows["el2n_at"][:, self.el2n_epochs.index(epoch)] = seen.el2n
        rows["seen"] += 1

    def _append_counts(self, rows: Table, seen: Observations, epoch: int, fresh: NDArray[np.bool_]) -> None:
        rows["forgotten"] += was_forgotten(rows["last_correct"], seen.correct)
        rows["last_correct"] = seen.correct
        rows["correct"] += seen.correct
        rows["last_epoch"] = epoch
        if fresh.any():
            rows["first_correct"][fresh] = seen.correct[fresh]
            rows["first_epoch"][fresh] = epoch

    def _append_window(self, rows: Table, p_true: NDArray[np.float64]) -> NDArray[np.float64] | None:
        """Move the window on; the spread of those that are full (0 for others), or None if none is."""
        before = rows["seen"]
        values = np.empty((self.window, len(rows)))
        values[:-1] = rows["tail"].T
        values[-1] = p_true
        rows["tail"] = values[1:].T
        starting = np.flatnonzero(before < self.window - 1)
        if starting.size:
            rows["head"][starting, before[starting]] = p_true[starting]
            if starting.size == len(rows):
                return None
        spread = window_spread(values)
        spread[starting] = 0.0
        return spread

    def _append_change(self, rows: Table, p: NDArray[np.float64], fresh: NDArray[np.bool_]) -> None:
        now = p.astype(np.float32)
        changes = rows["changes"]
        change = divergence(rows["last_p"][:, : self.n_classes], now)
        if fresh.any():
            change[fresh] = 0.0
            rows["first_p"][fresh, : self.n_classes] = now[fresh]
        changes[:, :-1] = changes[:, 1:]
        changes[:, -1] = change
        rows["last_p"][:, : self.n_classes] = now

    def join(self, a: Table, b: Table) -> Table:
        """Records of the observations of `a` followed by those of `b`; every record has at least one of each."""
        both = b.copy()  # what is of the latest observation stays that of b
        for name in ("first_epoch", "first_correct", "first_p"):
            both[name] = a[name]
        for name in ("seen", "correct", "forgotten", "sums"):
            both[name] = a[name] + b[name]
        both["forgotten"] += was_forgotten(a["last_correct"], b["first_correct"])
        both["el2n_at"] = np.where(np.isnan(a["el2n_at"]), b["el2n_at"], a["el2n_at"])

        width = self.window - 1
        n_a, n_b = np.minimum(a["seen"], width), np.minimum(b["seen"], width)
        both["head"] = _first_of(a["head"], n_a, b["head"], n_b)
        both["tail"] = _last_of(a["tail"], n_a, b["tail"], n_b)
        both["sums"][:, SPREAD] += _spread_over_seam(a["tail"], n_a, b["head"], n_b, self.window)
        if self.tdds:
            seam = np.zeros_like(a["changes"])
            seam[:, -1] = divergence(a["last_p"][:, : self.n_classes], b["first_p"][:, : self.n_classes])
            one = np.ones(len(a), np.int64)
            m_a = np.minimum(a["seen"] - 1, self.changes_kept)
            until_seam = _last_of(a["changes"], m_a, seam, one)
            m_b = np.minimum(b["seen"] - 1, self.changes_kept)
            both["changes"] = _last_of(until_seam, np.minimum(m_a + 1, self.changes_kept), b["changes"], m_b)
        return both


def window_spread(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The standard deviation (n - 1) of each column of (window, rows)."""
    off = values - column_sums(values) / len(values)
    np.multiply(off, off, out=off)
    return np.sqrt(column_sums(off) / (len(values) - 1))


def divergence(before: NDArray[np.float32], after: NDArray[np.float32]) -> NDArray[np.float64]:
    """The change between two softmax vectors: sum of |p' log(p' / p)| over the classes, as in TDDS's program."""
    old = np.ascontiguousarray(before.T, dtype=np.float64)
    new = np.ascontiguousarray(after.T, dtype=np.float64)
    terms = np.log((new + 1e-8) / (old + 1e-8))
    terms *= new
    return column_sums(np.abs(terms, out=terms))


def _add_sums(sums: NDArray[np.int64], seen: Observations, spread: NDArray[np.float64] | None) -> None:
    margin = np.minimum(np.maximum(seen.margin, -_MARGIN_LIMIT), _MARGIN_LIMIT)
    whole = np.rint(margin)
    fine = np.empty((4, len(margin)))
    fine[EL2N] = seen.el2n
    fine[P_TRUE] = seen.p_true
    fine[MARGIN_PART] = margin - whole
    fine[SPREAD] = 0.0 if spread is None else spread
    half = np.rint(seen.p_true * HALF).astype(np.int64)
    square = half * half
    new = np.empty((8, len(margin)), np.int64)
    new[:4] = _fixed(fine)
    new[MARGIN_WHOLE] = whole
    new[HALF_P] = half
    new[SQUARE_HIGH] = square >> 31
    new[SQUARE_LOW] = square & (2**31 - 1)
    sums += new.T


def _fixed(values: NDArray[np.float64]) -> NDArray[np.int64]:
    return np.rint(values * FINE).astype(np.int64)


def _first_of(x: NDArray[Any], n_x: NDArray[Any], y: NDArray[Any], n_y: NDArray[Any]) -> NDArray[Any]:
    """The first values of each row of `x` followed by `y`, left-aligned, where rows hold n_x and n_y values."""
    width = x.shape[1]
    column = np.arange(width)[None, :]
    in_y = column - n_x[:, None]
    values = np.take_along_axis(np.concatenate([x, y], axis=1), np.where(in_y < 0, column, width + in_y), axis=1)
    return np.where(in_y < n_y[:, None], values, 0.0)


def _last_of(x: NDArray[Any], n_x: NDArray[Any], y: NDArray[Any], n_y: NDArray[Any]) -> NDArray[Any]:
    """The last values of each row of `x` followed by `y`, right-aligned."""
    return _first_of(y[:, ::-1], n_y, x[:, ::-1], n_x)[:, ::-1]


def _spread_over_seam(
    tail: NDArray[Any], n_tail: NDArray[Any], head: NDArray[Any], n_head: NDArray[Any], window: int
) -> NDArray[np.int64]:
    """The sum of the spreads of the windows that begin in `tail` and end in `head`, in fixed point."""
    total = np.zeros(len(tail), np.int64)
    values = np.concatenate([tail, head], axis=1)
    for start in range(window - 1):
        full = (start >= window - 1 - n_tail) & (start < n_head)
        total[full] += _fixed(window_spread(values[full, start : start + window].T))
    return total
