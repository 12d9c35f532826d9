"""k-center greedy: rows that cover all others, the farthest from what is covered first (Sener and Savarese 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels.cosines import round_down, rows_at_once
from paredown.clustering.kernels.exact import ExactSearch
from paredown.errors import PareError, argument, check_least
from paredown.ids import hash_ids
from paredown.metrics.base import Work
from paredown.metrics.frozen_scores import FrozenScores
from paredown.progress import Track, silent
from paredown.sources import Source, VectorSource
from paredown.units import format_size

_TIMED_PICKS = 32  # to see how long it takes
_FARTHEST_LEAST, _FARTHEST_SHARE = 1_024, 32  # rows that picks come from before the others are looked at again


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
    check_k_center(("k_center",), source, most=most)
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


def check_k_center(metrics: Sequence[str], source: Source, *, most: int, **_: Any) -> None:
    """Raise at options of `fit_k_center` that make no sense, before anything is read."""
    check_least(1, most=most)


def k_center_work(source: VectorSource, *, most: int = 10_000, **_: Any) -> Work:
    """Every row against each pick, one pick at a time."""
    n = len(source)

    def piece(rows: NDArray[np.float32]) -> float:
        picks = min(_TIMED_PICKS, len(rows))
        greedy_order(rows, picks)
        return picks * len(rows) / (min(most, n) * n)

    return Work(passes=2, memory=4 * source.dim * n, piece=piece)


def greedy_order(rows: NDArray[np.float32], picks: int, *, track: Track = silent) -> tuple[NDArray[np.int64], float]:
    """All unit rows, the picked ones first, and the largest cosine distance of any row to its nearest pick.

    Picks come from the rows that are farthest now as long as one of those is as far as the others were: only these few
    are compared with every pick at once, and all others with many picks together.
    """
    order = np.empty(len(rows), np.int64)
    pick = int(np.argmax(np.vecdot(rows, rows.mean(axis=0, dtype=np.float64).astype(np.float32))))
    order[:1] = pick
    nearest = np.vecdot(rows, rows[pick])  # cosine to the nearest pick
    nearest[pick] = np.inf  # never again, even where all rows left are copies of a pick
    done, farthest = 1, max(_FARTHEST_LEAST, len(rows) // _FARTHEST_SHARE)
    for i in track(range(picks), "k-center", total=picks):
        if i < done:
            continue
        limit = np.partition(nearest, min(farthest, len(rows)) - 1)[min(farthest, len(rows)) - 1]
        few = np.flatnonzero(nearest <= limit)
        found = _pick_among(rows[few], nearest[few], limit, picks - done)
        order[done : done + len(found)] = few[found]
        _compare_with(rows, rows[few[found]], nearest)
        nearest[few[found]] = np.inf
        done += len(found)
    rest = np.flatnonzero(nearest < np.inf)
    order[picks:] = rest[np.argsort(nearest[rest], kind="stable")]
    return order, float(max(0, 1 - nearest.min()))


def _pick_among(rows: NDArray[np.float32], nearest: NDArray[np.float32], limit: float, most: int) -> list[int]:
    """The next picks, while one of these rows is no nearer to the picks before than `limit`."""
    found = []
    while len(found) < most:
        pick = int(np.argmin(nearest))
        if not nearest[pick] <= limit or nearest[pick] == np.inf:
            break
        found.append(pick)
        np.maximum(nearest, np.vecdot(rows, rows[pick]), out=nearest)
        nearest[pick] = np.inf
    return found


def _compare_with(rows: NDArray[np.float32], picks: NDArray[np.float32], nearest: NDArray[np.float32]) -> None:
    """Raise `nearest` where a pick is nearer, to the cosine of this one pair."""
    search = ExactSearch(picks)
    step = rows_at_once(*picks.shape)
    space = np.empty((min(step, len(rows)), len(picks)), np.float32)
    for first in range(0, len(rows), step):
        part = slice(first, first + step)
        products, error = search.products(rows[part], space[: len(rows[part])])
        nearer = first + np.flatnonzero(products.max(axis=1) >= round_down(nearest[part] - error))
        if len(nearer):
            nearest[nearer] = np.maximum(nearest[nearer], search(rows[nearer])[1])
