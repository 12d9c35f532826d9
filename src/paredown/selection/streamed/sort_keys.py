"""One sortable key per row: a strategy as an order of whole numbers, lowest first.

The key of a row is the bits of its score (negated if the hardest come first), turned so that they sort as the scores
do. Rows with equal keys are in the order of their ties, the seeded hashes of their ids.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from operator import attrgetter
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from paredown.class_codes import ClassCodes
from paredown.errors import PareError
from paredown.ids import hash_ids
from paredown.progress import Track, silent
from paredown.score_table import Block, ScoreTable
from paredown.selection.strategies import distances


@dataclass(frozen=True)
class Limits:
    """What bounds the memory of a streamed selection."""

    rows: int = 131_072  # of a block
    candidates: int = 2_000_000  # collected at once: some 100 MiB with what is needed to sort them
    cells: int = 2**21  # of the histogram, over all classes


class Rows:
    """A block of rows with their scores and classes; hashes and keys are made when asked for."""

    def __init__(self, table: ScoreTable, block: Block, codes: NDArray[np.intp]) -> None:
        self.table, self.block, self.codes = table, block, codes
        self.scores = table.scores(block)
        self.keys: dict[Ranking, NDArray[Any]] = {}  # made already

    def hashes(self, seed: int, chosen: NDArray[np.int64] | None = None) -> NDArray[np.uint64]:
        """Hashes of the ids of all rows or of some; looked up in the table if the pass did not read ids."""
        if "id" in self.block.columns.schema.names:
            return hash_ids(self.table.ids(self.block, chosen), seed=seed)
        assert chosen is not None
        return hash_ids(self.table.ids_at(self.block.first + chosen), seed=seed)

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


_CLASSES = attrgetter("codes")


@dataclass(frozen=True, eq=False)
class Ranking:
    """An order of rows, in groups that are cut one by one; rows of group -1 have no part in it."""

    by: Literal["hard", "easy", "distance", "hash", "hash reversed"]
    seed: int
    median: Any = None  # of the scores, for distances from it
    groups: Callable[[Rows], NDArray[np.intp]] = _CLASSES

    @property
    def of_classes(self) -> bool:
        return self.groups is _CLASSES

    @property
    def by_hash(self) -> bool:
        return self.by.startswith("hash")

    def ties(self, groups: Callable[[Rows], NDArray[np.intp]] | None = None) -> Ranking:
        """The order of rows with equal keys. Of the easiest first it is reversed, as their whole order is."""
        return Ranking("hash reversed" if self.by == "easy" else "hash", self.seed, groups=groups or self.groups)

    def keys(self, rows: Rows, chosen: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """The keys of all rows of a block, or of some."""
        if self.by_hash:
            return self.hash_keys(rows.hashes(self.seed, chosen))
        if self not in rows.keys:
            rows.keys[self] = self.score_keys(rows.scores)
        return rows.keys[self] if chosen is None else rows.keys[self][chosen]

    def hash_keys(self, hashes: NDArray[np.uint64]) -> NDArray[np.uint64]:
        return ~hashes if self.by == "hash reversed" else hashes

    def score_keys(self, scores: NDArray[np.floating]) -> NDArray[Any]:
        """Unsigned whole numbers as wide as the scores (32 bits at least), both zeros being one."""
        values = distances(scores, self.median) if self.by == "distance" else scores
        values = values.astype(np.float32) if values.dtype == np.float16 else values
        zero = values.dtype.type(0)
        bits = (zero - values if self.by == "hard" else values + zero).view(f"i{values.itemsize}")
        turned = bits >> (8 * bits.itemsize - 1)  # a negative number has all its bits turned, another one its sign
        turned |= np.iinfo(bits.dtype).min
        turned ^= bits
        return turned.view(f"u{bits.itemsize}")

    def values_at(self, keys: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[np.floating]:
        """What has these keys, growing with them: scores (negated if the hardest come first) or distances."""
        kind = self.score_keys(np.zeros(1, dtype)).dtype
        keys, top = keys.astype(kind), kind.type(1 << (8 * kind.itemsize - 1))
        return np.where(keys & top, keys ^ top, ~keys).view(f"f{kind.itemsize}")

    def scores_at(self, keys: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[np.floating]:
        """The scores that have these keys, or NaN where a key does not tell it."""
        if self.by not in ("hard", "easy"):
            return np.full(len(keys), np.nan)
        values = self.values_at(keys, dtype)
        return (-values if self.by == "hard" else values).astype(dtype)
