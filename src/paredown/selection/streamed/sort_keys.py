"""One sortable key per row, in two words: unsigned whole numbers, lowest first.

The first word is the bits of the score (negated if the hardest come first), turned so that they sort as the scores do.
The second is the seeded hash of the id, which decides among rows with equal first words, or alone for rows at random.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
from numpy.typing import NDArray

from paredown.ids import hash_ids
from paredown.score_table import ScoreTable
from paredown.selection.strategies import distances
from paredown.table_passes import Chosen, Rows


@dataclass(frozen=True)
class ByHash:
    """The order of the hashes of ids, or that reversed."""

    hashed: ClassVar = True

    seed: int
    reverse: bool = False

    def words(self, rows: Rows, chosen: Chosen) -> NDArray[np.uint64]:
        """The words of some rows of a block."""
        return self.words_of(rows.ids(chosen))

    def words_of(self, ids: NDArray[Any]) -> NDArray[np.uint64]:
        """The words of rows with these ids."""
        hashes = hash_ids(ids, seed=self.seed)
        return ~hashes if self.reverse else hashes

    def sample(self, table: ScoreTable) -> NDArray[np.uint64]:
        """Words as some rows have them: evenly spread."""
        return np.arange(2**12, dtype=np.uint64) << np.uint64(52)


@dataclass(frozen=True)
class ByScore:
    """The order of scores, or of their distances from the median."""

    hashed: ClassVar = False

    by: Literal["hard", "easy", "distance"]
    seed: int
    median: Any = None

    @property
    def ties(self) -> ByHash:
        """The order of equal ones. That of the easiest is that of the hardest reversed, and so is this."""
        return ByHash(self.seed, reverse=self.by == "easy")

    def words(self, rows: Rows, chosen: Chosen) -> NDArray[Any]:
        """The words of some rows of a block; made once for all that look at it."""
        if self not in rows.words:
            rows.words[self] = self.words_of(rows.scores)
        return rows.words[self][chosen]

    def sample(self, table: ScoreTable) -> NDArray[Any]:
        """The words of some rows."""
        return self.words_of(table.sample())

    def words_of(self, scores: NDArray[np.floating]) -> NDArray[Any]:
        """The words of rows with these scores, never 0 or the highest; as wide as these, but 32 bits at least.

        Both zeros have the same.
        """
        values = distances(scores, self.median) if self.by == "distance" else scores
        values = values.astype(np.float32) if values.dtype == np.float16 else values
        zero = values.dtype.type(0)
        bits = (zero - values if self.by == "hard" else values + zero).view(f"i{values.itemsize}")
        turned = bits >> (8 * bits.itemsize - 1)  # a negative number has all its bits turned, another one its sign
        turned |= np.iinfo(bits.dtype).min
        turned ^= bits
        return turned.view(f"u{bits.itemsize}")

    def values_at(self, words: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[np.floating]:
        """What has these words, growing with them: scores (negated if the hardest come first) or distances."""
        kind = self.words_of(np.zeros(1, dtype)).dtype
        words, top = words.astype(kind), kind.type(1 << (8 * kind.itemsize - 1))
        return np.where(words & top, words ^ top, ~words).view(f"f{kind.itemsize}")

    def scores_at(self, words: NDArray[Any], dtype: np.dtype[Any]) -> NDArray[np.floating]:
        """The scores that have these words, or NaN where these do not tell it."""
        if self.by == "distance":
            return np.full(len(words), np.nan)
        values = self.values_at(words, dtype)
        return (-values if self.by == "hard" else values).astype(dtype)
