"""Which records a batch touches, and moving them."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from paredown.recorder.batch_checks import ArrayBatch
from paredown.recorder.history import Table


def take_records(table: Table, indices: NDArray[np.int64]) -> Table:
    """A copy of the records of some examples."""
    return _words(table).take(indices, axis=0).view(table.dtype)[:, 0]


def put_records(table: Table, indices: NDArray[np.int64], records: Table) -> None:
    """Write the records of some examples."""
    _words(table)[indices] = _words(records)


def _words(table: Table) -> NDArray[np.int64]:
    """The same records as rows of 8-byte words, which numpy moves eight times as fast as named fields."""
    return table.view(np.int64).reshape(len(table), -1)


def first_looks(batch: ArrayBatch, last_epoch: NDArray[np.int32], epoch: int) -> ArrayBatch:
    """A batch without the examples that were seen in this epoch already."""
    first = next(rounds_without_repeats(batch.indices))
    chosen = first[last_epoch[batch.indices[first]] != epoch]
    return batch.rows(chosen)


def rounds_without_repeats(indices: NDArray[np.int64]) -> Iterator[NDArray[np.int64]]:
    """Rows of a batch split so that no example occurs twice in a part: first all first occurrences, and so on."""
    ordered = np.sort(indices)
    if not (ordered[1:] == ordered[:-1]).any():
        yield np.arange(len(indices))
        return
    order = np.argsort(indices, kind="stable")
    starts = np.flatnonzero(np.r_[True, ordered[1:] != ordered[:-1]])
    occurrence = np.arange(len(indices)) - np.repeat(starts, np.diff(np.r_[starts, len(indices)]))
    for number in range(int(occurrence.max()) + 1):
        yield np.sort(order[occurrence == number])
