"""One sortable key per row: a strategy as an order of whole numbers, lowest first.

The first number of a row's key is the bits of its score (negated if the hardest come first), turned so that they sort
as the scores do; the second is the seeded hash of its id, which breaks ties.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.ids import hash_ids
from paredown.progress import Track, silent
from paredown.selection.strategies import distances
from paredown.selection.streamed.class_codes import ClassCodes
from paredown.selection.streamed.score_table import Block, ScoreTable


@dataclass(frozen=True)
class Limits:
    """What bounds the memory of a streamed selection."""

    rows: int = 131_072  # of a block
    candidates: int = 2_000_000  # collected at once: some 100 MiB with what is needed to sort them
    cells: int = 2**21  # of the histogram, over all classes


def sortable(values: NDArray[Any]) -> NDArray[Any]:
    """Unsigned whole numbers of the same width in the same order, given values without negative zeros."""
    if values.dtype.kind == "u":
        return values
    bits = values.view(f"i{values.itemsize}")
    turned = bits >> (8 * values.itemsize - 1)
    turned |= np.iinfo(bits.dtype).min
    turned ^= bits
    return turned.view(f"u{values.itemsize}")


def unsortable(keys: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The values of some keys: the inverse of `sortable`."""
    if dtype.kind == "u":
        return keys
    keys = keys.astype(f"u{dtype.itemsize}")
    top = keys.dtype.type(1 << (8 * dtype.itemsize - 1))
    return np.where(keys & top, keys ^ top, ~keys).view(dtype)


@dataclass(frozen=True)
class Order:
    """How rows are sorted, lowest first: by a value made of the score or the hash, then by the hash."""

    by: Literal["hard", "easy", "hash", "distance"]
    seed: int
    median: Any = None  # of the scores, for distances from it

    @property
    def by_hash(self) -> bool:
        return self.by == "hash"

    def values(self, scores: NDArray[np.floating]) -> NDArray[np.floating]:
        """What scores are sorted by, both zeros being one."""
        if self.by == "distance":
            scores = distances(scores, self.median)
        wide = scores.astype(np.float32) if scores.dtype == np.float16 else scores
        zero = wide.dtype.type(0)
        return zero - wide if self.by == "hard" else wide + zero

    def scores_at(self, keys: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[np.floating]:
        """The scores of some keys, or NaN where a key does not tell it."""
        if self.by not in ("hard", "easy"):
            return np.full(len(keys), np.nan)
        values = unsortable(keys, self.values(np.empty(0, dtype)).dtype)
        return (-values if self.by == "hard" else values).astype(dtype)

    def ties(self, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return ~hashes if self.by == "easy" else hashes  # the easiest first is the reverse of the hardest first


class Rows:
    """A block in the terms of orders; ids are looked at only where a hash is needed."""

    def __init__(self, table: ScoreTable, block: Block, codes: NDArray[np.intp]) -> None:
        self.table, self.block, self.codes = table, block, codes
        self.scores = table.scores(block)

    def __len__(self) -> int:
        return len(self.block)

    def hashes(self, seed: int, chosen: NDArray[np.int64] | None = None) -> NDArray[np.uint64]:
        """Hashes of the ids of all rows or of some; read from the table if the pass did not read ids."""
        if "id" in self.block.columns.schema.names:
            return hash_ids(self.table.ids(self.block, chosen), seed=seed)
        assert chosen is not None
        return hash_ids(self.table.ids_at(self.block.first + chosen), seed=seed)

    def values(self, order: Order) -> NDArray[Any]:
        return self.hashes(order.seed) if order.by_hash else order.values(self.scores)

    def keys(self, order: Order) -> NDArray[Any]:
        return sortable(self.values(order))

    def ties(self, order: Order, chosen: NDArray[np.int64]) -> NDArray[np.uint64]:
        return order.ties(self.hashes(order.seed, chosen))

    def check_finite(self) -> None:
        if not (np.isfinite(self.scores.min()) and np.isfinite(self.scores.max())):
            bad = np.flatnonzero(~np.isfinite(self.scores))
            raise PareError(f"{self.block.where(bad)}: scores must be finite; fix or drop such rows.")


@dataclass(frozen=True)
class Scan:
    """Passes over a table, and how they are reported."""

    table: ScoreTable
    codes: ClassCodes
    limits: Limits
    track: Track = silent

    def rows(self, label: str, *, ids: bool = False, also: tuple[str, ...] = ()) -> Iterator[Rows]:
        """One pass, with scores and classes, ids if asked for, and further columns."""
        wanted = [self.table.column, *([self.codes.column] if self.codes.column else []), *(["id"] if ids else [])]
        wanted += [name for name in also if name not in wanted]
        total = sum(-(-group.rows // self.limits.rows) for group in self.table.groups)
        for block in self.track(self.table.blocks(wanted, self.limits.rows), label, total=total):
            if len(block):
                yield Rows(self.table, block, self.codes(block))
