"""A strategy as an order of examples, and passes over a table in the terms of that order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.ids import hash_ids
from paredown.progress import Track, silent
from paredown.selection.streamed.score_table import Block, ClassCodes, ScoreTable

__all__ = ["Limits", "Order", "Rows", "Scan", "keys_of", "merits_of"]


@dataclass(frozen=True)
class Limits:
    """What bounds the memory of a streamed selection."""

    rows: int = 131_072  # of a block
    candidates: int = 2_000_000  # collected at once: some 100 MiB with what is needed to sort them
    cells: int = 2**21  # of the histogram, over all classes


@dataclass(frozen=True)
class Order:
    """A strategy as three numbers per example, compared one after the other, highest first.

    `merit` is the score, its negative, or (at random) the hash; `tie` the hash, so that the lower one comes first;
    `place` the row, for ids that occur twice. The reverse order turns all three round.
    """

    strategy: str  # hard, easy or random; window is hard with its first ones left out
    seed: int

    @property
    def by_hash(self) -> bool:
        """Whether the hash alone decides."""
        return self.strategy == "random"

    def ties(self, ids: NDArray[Any]) -> NDArray[np.uint64]:
        hashes = hash_ids(ids, seed=self.seed)
        return hashes if self.strategy == "easy" else ~hashes

    def places(self, rows: NDArray[np.int64]) -> NDArray[np.int64]:
        return rows if self.strategy == "easy" else -rows

    def merits(self, scores: NDArray[np.floating]) -> NDArray[Any]:
        wide = scores.astype(np.float32) if scores.dtype == np.float16 else scores
        return -wide if self.strategy == "easy" else wide


class Rows(NamedTuple):
    """A block in the terms of the order."""

    block: Block
    scores: NDArray[np.floating]
    merits: NDArray[Any]
    codes: NDArray[np.intp]


@dataclass(frozen=True)
class Scan:
    """A table read in an order: passes over it, and how they are reported."""

    table: ScoreTable
    order: Order
    codes: ClassCodes
    limits: Limits
    track: Track = silent

    def passes(self, label: str, *, with_ids: bool = False, also: tuple[str, ...] = ()) -> Iterator[Rows]:
        """One pass over the rows, with the columns that the order needs and those asked for."""
        table = self.table
        wanted = [name for name in (table.column, self.codes.column) if name is not None]
        wanted += ["id"] if with_ids or self.order.by_hash else []
        wanted += [name for name in also if name not in wanted]
        total = sum(-(-rows // self.limits.rows) for rows in table.rows)
        for block in self.track(table.blocks(wanted, self.limits.rows), label, total=total):
            scores = table.scores(block)
            merits = self.order.ties(table.ids(block)) if self.order.by_hash else self.order.merits(scores)
            yield Rows(block, scores, merits, self.codes(block))

    def ties(self, rows: Rows, chosen: NDArray[np.int64]) -> NDArray[np.uint64]:
        """The tie-breakers of some rows of a block; their ids are read if the pass did not."""
        if self.order.by_hash:
            return rows.merits[chosen]
        if "id" in rows.block.columns.schema.names:
            return self.order.ties(self.table.ids(rows.block, chosen))
        return self.order.ties(self.table.ids_at(rows.block.first + chosen))


def keys_of(merits: NDArray[Any]) -> NDArray[np.uint64]:
    """Merits as whole numbers in the same order; both zeros are one."""
    if merits.dtype.kind == "u":
        return merits
    bits = (merits + merits.dtype.type(0)).view(f"i{merits.dtype.itemsize}")
    sign = np.iinfo(bits.dtype)
    return (bits ^ ((bits >> (sign.bits - 1)) | sign.min)).view(f"u{merits.dtype.itemsize}").astype(np.uint64)


def merits_of(keys: NDArray[np.uint64], dtype: np.dtype[Any]) -> NDArray[Any]:
    """The inverse of `keys_of`."""
    if dtype.kind == "u":
        return keys
    narrow = keys.astype(f"u{dtype.itemsize}")
    top = narrow.dtype.type(1 << (8 * dtype.itemsize - 1))
    return np.where(narrow & top, narrow ^ top, ~narrow).view(dtype)
