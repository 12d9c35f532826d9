"""Typicality: how near an example's nearest neighbours are (Hacohen, Dekel and Weinshall 2022)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels.neighbours import NeighbourSearch, choose_neighbour_search
from paredown.errors import PareError
from paredown.ids import hash_ids
from paredown.metrics.base import Work
from paredown.progress import Track, silent
from paredown.scores import Batch, Scored
from paredown.sources import VectorSource

_TIMED_ROWS = 256  # whose neighbours are sought to see how long it takes


@dataclass(frozen=True)
class Typicality:
    """Reference rows in the order of their hashes; a row's score is its mean cosine distance to the nearest of them."""

    search: NeighbourSearch
    hashes: NDArray[np.uint64]  # of the ids of the reference rows, ascending
    seed: int

    def score(self, batch: Batch) -> Scored:
        cosine = self.search(batch.vectors, self._own_slots(batch.ids))
        return Scored((1 - cosine.mean(axis=1, dtype=np.float64)).astype(np.float32))

    def report(self) -> dict[str, Any]:
        return {"neighbours": self.search.count, "reference_rows": len(self.search.reference)}

    def _own_slots(self, ids: NDArray[Any]) -> NDArray[np.int64]:
        """Where each row itself stands in the reference, -1 if it does not: a copy of it is a neighbour, it is not."""
        hashes = hash_ids(ids, seed=self.seed)
        slots = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        return np.where(self.hashes[slots] == hashes, slots, -1)


def fit_typicality(
    source: VectorSource, *, seed: int, neighbours: int = 20, memory: int = 2**30, track: Track = silent
) -> Typicality:
    """Keep the rows among which neighbours are sought.

    The paper's typicality of x is (1/K sum_i |x - x_i|)^-1 over its K nearest neighbours, K = 20. The score here is
    1/K sum_i (1 - cos(x, x_i)): its inverse in cosine distance, so that the least typical row is the hardest. Unlike in
    the paper neighbours are sought among all rows and not inside a cluster.

    The rows sought among are all of them if they fit into half of `memory` bytes, and otherwise a uniform sample that
    does, among which neighbours are farther but ranked alike. `neighbours` is clipped to the number of other rows in
    the reference. The cost is at most n r dim multiplications for r reference rows: a smaller `memory` is also quicker.

    Args:
        source: the embeddings.
        seed: decides the sample.
        neighbours: nearest rows whose distance is averaged.
        memory: bytes to work in; half of them hold the rows sought among.
        track: reports progress.
    """
    if neighbours < 1:
        raise PareError(f"neighbours must be at least 1, got {neighbours}.")
    if len(source) < 2:
        raise PareError(f"metric 'typicality' needs at least 2 examples, and {source.location} has {len(source)}.")
    size = min(len(source), max(2, memory // (2 * 4 * source.dim)))
    hashes = np.sort(hash_ids(source.ids, seed=seed))[:size]
    reference = source.sample(size, seed=seed)
    search = choose_neighbour_search(reference, min(neighbours, size - 1), n=len(source))
    return Typicality(search, hashes, seed)


def typicality_work(source: VectorSource, *, neighbours: int = 20, memory: int = 2**30, **_: Any) -> Work:
    """Every row against the reference rows."""
    n, size = len(source), min(len(source), max(2, memory // (2 * 4 * source.dim)))

    def piece(rows: NDArray[np.float32]) -> float:
        few, others = rows[:_TIMED_ROWS], rows[: 16 * _TIMED_ROWS]
        NeighbourSearch(others, min(neighbours, len(others) - 1))(few, np.arange(len(few)))
        return len(few) * len(others) / (n * size)

    return Work(passes=2, memory=4 * source.dim * size, piece=piece if n > 1 else None)
