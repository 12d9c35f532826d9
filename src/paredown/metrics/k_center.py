"""k-center greedy: rows that cover all others, the farthest from what is covered first (Sener and Savarese 2018)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError, argument
from paredown.ids import hash_ids
from paredown.metrics.base import Work
from paredown.metrics.frozen_scores import FrozenScores
from paredown.progress import Track, silent
from paredown.sources import VectorSource
from paredown.units import format_size

_TIMED_PICKS = 32  # to see how long it takes


def fit_k_center(
    source: VectorSource, *, seed: int, most: int = 10_000, memory: int = 2**30, track: Track = silent
) -> FrozenScores:
    """Rank all rows by farthest-point picking (the greedy algorithm 1 of the paper), the first pick the highest.

    score = 1 - (number of rows ranked before) / n, so that keeping the hardest at any fraction keeps the greedy set of
    that size. The first pick is the row nearest to the mean direction; each further one is the row with the largest
    cosine distance to its nearest pick, the first in the order of a seeded hash among equals. After `most` picks the
    rest is ranked by distance to the picks. The paper refines the greedy set by an integer program, which is left out.

    The cost is n picks dim multiplications, and all rows are in memory at once.

    Args:
        source: the embeddings.
        seed: decides between equals.
        most: number of picks; the rows left are ranked by distance to them.
        memory: bytes that all rows must fit into.
        track: reports progress.
    """
    n = len(source)
    if most < 1:
        raise PareError(f"most must be at least 1, got {most}.")
    if 4 * n * source.dim > memory:
        raise PareError(
            f"metric 'k_center' holds all embeddings in memory: {n:,} rows of {source.dim} dimensions are "
            f"{format_size(4 * n * source.dim)}, and {format_size(memory)} may be used; raise {argument('memory')}, or "
            "prune first by a metric that reads in blocks, such as 'prototypes'."
        )
    hashes = hash_ids(source.ids, seed=seed)
    by_hash = np.argsort(hashes)
    order, radius = greedy_order(source.gather(by_hash), min(most, n), track=track)
    values = np.empty(n)
    values[order] = 1 - np.arange(n) / n
    facts = {"picks": min(most, n), "covering_distance": radius}
    return FrozenScores("k_center", seed, hashes[by_hash], values, facts=facts)


def k_center_work(source: VectorSource, *, most: int = 10_000, **_: Any) -> Work:
    """Every row against each pick, one pick at a time."""
    n = len(source)

    def piece(rows: NDArray[np.float32]) -> float:
        picks = min(_TIMED_PICKS, len(rows))
        greedy_order(rows, picks)
        return picks * len(rows) / (min(most, n) * n)

    return Work(passes=2, memory=4 * source.dim * n, piece=piece)


def greedy_order(rows: NDArray[np.float32], picks: int, *, track: Track = silent) -> tuple[NDArray[np.int64], float]:
    """All unit rows, the picked ones first, and the largest cosine distance of any row to its nearest pick."""
    order = np.empty(len(rows), np.int64)
    nearest = np.full(len(rows), -np.inf, np.float32)  # cosine to the nearest pick
    pick = int(np.argmax(np.vecdot(rows, rows.mean(axis=0, dtype=np.float64).astype(np.float32))))
    for i in track(range(picks), "k-center", total=picks):
        order[i] = pick
        np.maximum(nearest, np.vecdot(rows, rows[pick]), out=nearest)
        nearest[pick] = np.inf  # never again, even where all rows left are copies of a pick
        pick = int(np.argmin(nearest))
    rest = np.flatnonzero(nearest < np.inf)
    order[picks:] = rest[np.argsort(nearest[rest], kind="stable")]
    return order, float(max(0, 1 - nearest.min()))
