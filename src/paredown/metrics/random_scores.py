"""Random scores: the baseline every comparison needs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from paredown.ids import hash_ids
from paredown.progress import Track, silent
from paredown.scores import Batch, Scored
from paredown.sources import VectorSource


@dataclass(frozen=True)
class RandomScores:
    """A uniform score in [0, 1) that depends on the id and the seed alone, not on the order of rows."""

    seed: int

    def score(self, batch: Batch) -> Scored:
        return Scored((hash_ids(batch.ids, seed=self.seed) >> np.uint64(11)) * 2.0**-53)

    def report(self) -> dict[str, Any]:
        return {}


def fit_random(source: VectorSource, *, seed: int, track: Track = silent) -> RandomScores:
    """Nothing to learn."""
    return RandomScores(seed)
