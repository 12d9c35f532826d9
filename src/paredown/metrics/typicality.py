"""Typicality: how near an example's nearest neighbours are (Hacohen, Dekel and Weinshall 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels.mutual import MutualSearch, mean_distance, mutual_bytes
from paredown.clustering.kernels.neighbours import NeighbourSearch, bring_together, choose_neighbour_search
from paredown.errors import PareError, check_least
from paredown.ids import hash_ids
from paredown.metrics.base import Work
from paredown.progress import Track, silent
from paredown.scores import Batch, Scored
from paredown.sources import Source, VectorSource

_TIMED_ROWS = 256  # whose neighbours are sought to see how long it takes
_MOST_BYTES = 2**29  # of rows compared with each other in the fit, of which a killed run keeps nothing


@dataclass(frozen=True)
class Typicality:
    """Reference rows, known by the order of their hashes; a row scores its mean cosine distance to the nearest."""

    search: NeighbourSearch
    hashes: NDArray[np.uint64]  # of the ids of the reference rows, ascending
    seed: int
    known: NDArray[np.float32] | None = None  # scores of the reference rows, where they were compared with each other

    def score(self, batch: Batch) -> Scored:
        own = self._own_slots(batch.ids)
        if self.known is None:
            return Scored(mean_distance(self.search(batch.vectors, own)))
        values = self.known[own]
        new = np.flatnonzero(~self._same(batch.vectors, own))
        if len(new):
            values[new] = mean_distance(self.search(batch.vectors[new], own[new]))
        return Scored(values)

    def report(self) -> dict[str, Any]:
        return {"neighbours": self.search.count, "reference_rows": len(self.search.reference)}

    def _same(self, vectors: NDArray[np.float32], own: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Which rows are those of the reference that have their ids."""
        stands = own if self.search.place is None else self.search.place[own]
        return (own >= 0) & (vectors == self.search.reference[stands]).all(axis=1)

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
    the reference. The cost is at most n r dim multiplications for r reference rows, and half of that where all rows, of
    up to 512 MiB, are compared with each other. A small enough `memory` is also quicker.

    Args:
        source: the embeddings.
        seed: decides the sample.
        neighbours: nearest rows whose distance is averaged.
        memory: bytes to work in; half of them hold the rows sought among.
        track: reports progress.
    """
    check_typicality(("typicality",), source, neighbours=neighbours)
    size = min(len(source), max(2, memory // (2 * 4 * source.dim)))
    hashes = np.sort(hash_ids(source.ids, seed=seed))[:size]
    reference = source.sample(size, seed=seed)
    place = bring_together(reference)
    count, mutual = min(neighbours, size - 1), _is_mutual(source, size, neighbours, memory)
    search = choose_neighbour_search(reference, count, n=len(source), place=place, mutual=mutual)
    known = MutualSearch(search, memory=memory).distances(track=track)[place] if mutual else None
    return Typicality(search, hashes, seed, known)


def _is_mutual(source: VectorSource, size: int, neighbours: int, memory: int) -> bool:
    """Whether the reference is all rows, and comparing them with each other takes little enough memory."""
    fits = 4 * source.dim * size <= _MOST_BYTES and mutual_bytes(size, min(neighbours, size - 1)) <= memory // 4
    return fits and size == len(source)


def check_typicality(metrics: Sequence[str], source: Source, *, neighbours: int, **_: Any) -> None:
    """Raise at options of `fit_typicality`, or a source, that make no sense."""
    check_least(1, neighbours=neighbours)
    if len(source) < 2:
        raise PareError(f"metric 'typicality' needs at least 2 examples, and {source.location} has {len(source)}.")


def typicality_work(source: VectorSource, *, neighbours: int = 20, memory: int = 2**30, **_: Any) -> Work:
    """Every row against the reference rows."""
    n, size = len(source), min(len(source), max(2, memory // (2 * 4 * source.dim)))

    def piece(rows: NDArray[np.float32]) -> float:
        few, others = rows[:_TIMED_ROWS], rows[: 16 * _TIMED_ROWS]
        NeighbourSearch(others, min(neighbours, len(others) - 1))(few, np.arange(len(few)))
        return len(few) * len(others) / (n * size / (2 if mutual else 1))

    mutual = _is_mutual(source, size, neighbours, memory)
    memory_used = 4 * source.dim * size + (mutual_bytes(size, min(neighbours, size - 1)) if mutual else 0)
    return Work(passes=2, memory=memory_used, piece=piece if n > 1 else None)
