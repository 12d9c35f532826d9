"""Near-duplicates inside clusters of embeddings (Abbas, Tirumala, Simig, Ganguli and Morcos 2023, SemDeDup)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels.cosines import lengths, product_error, row_cosines, rows_at_once
from paredown.clustering.kernels.exact import find_doubts, remove_doubts
from paredown.errors import PareError, argument
from paredown.ids import hash_ids
from paredown.metrics.base import Work
from paredown.metrics.frozen_scores import FrozenScores
from paredown.metrics.prototypes import check_clustering, default_k, fit_prototypes, prototypes_work
from paredown.progress import Track, silent
from paredown.sources import Source, VectorSource

_FARTHEST = 2  # the largest cosine distance there is


def fit_duplicates(
    source: VectorSource,
    *,
    seed: int,
    k: int | None = None,
    threshold: float = 0.05,
    method: str = "auto",
    kernel: str = "auto",
    memory: int = 2**30,
    track: Track = silent,
) -> FrozenScores:
    """Score each row by its cosine distance to the nearest row of its cluster that comes before it.

    score(x) = min over x' < x in the cluster of x of 1 - cos(x, x'), and 2 where nothing comes before, in the order of
    a seeded hash of the id. Of a group of copies exactly one, the first, is not near an earlier one: keeping the
    hardest drops copies first and never the last of a group. SemDeDup orders a cluster by distance to its centroid
    instead, and drops everything nearer than a threshold; here `threshold` only decides what `report` counts.

    The clusters are those of spherical k-means, fitted by `method`, and `default_k` of them unless `k` is given; copies
    on two sides of a border between clusters are not seen. The cost is n^2 / (2k) dim multiplications after the
    k-means, and one pass over the embeddings for each `memory` / 2 bytes of them. Large scores say little: early rows
    have few before them.

    Args:
        source: the embeddings.
        seed: decides the order, the sample and the first centroids.
        k: number of clusters; half the root of n by default.
        threshold: cosine distance up to which the report counts a row as a copy.
        method: which rows are clustered and how, a name in `clustering.kmeans.METHODS`.
        kernel: how rows are compared with centroids, a name in `clustering.kernels.KERNELS`.
        memory: bytes to work in; half of them hold rows.
        track: reports progress.
    """
    n = len(source)
    _check(threshold)
    k = default_k(n) if k is None else k
    prototypes = fit_prototypes(
        source, seed=seed, k=k, method=method, sensitivity=False, kernel=kernel, memory=memory, track=track
    )
    found = [prototypes.search(batch.vectors)[0] for batch in track(source.batches(), "clusters", source.n_blocks)]
    clusters, hashes = np.concatenate(found), hash_ids(source.ids, seed=seed)
    order = np.lexsort((hashes, clusters))
    ends = np.cumsum(np.bincount(clusters, minlength=k))
    values = np.empty(n, np.float32)
    groups = list(_groups(ends, most=max(1, memory // (2 * 4 * source.dim))))
    for group in track(groups, "near-duplicates", total=len(groups)):
        rows = order[group[0] : group[-1]]
        vectors = source.gather(rows)
        for start, end in zip(group[:-1] - group[0], group[1:] - group[0], strict=True):
            values[rows[start:end]] = earlier_distances(vectors[start:end])
    by_hash = np.argsort(hashes)
    facts = {"clusters": k, "threshold": threshold, "near_duplicates": int(np.count_nonzero(values < threshold))}
    facts |= prototypes.approximation
    return FrozenScores("duplicates", seed, hashes[by_hash], values[by_hash], clusters[by_hash], facts)


def check_duplicates(metrics: Sequence[str], source: Source, *, threshold: float, **options: Any) -> None:
    """Raise at options of `fit_duplicates` that make no sense, before anything is read."""
    _check(threshold)
    check_clustering(metrics, source, **options)


def _check(threshold: float) -> None:
    if not 0 <= threshold <= _FARTHEST:
        raise PareError(f"{argument('threshold')} is a cosine distance between 0 and 2, got {threshold}.")


def duplicates_work(source: VectorSource, *, k: int | None = None, memory: int = 2**30, **_: Any) -> Work:
    """Clusters, then every row against half of its cluster, in a pass for each half of memory the rows fill."""
    n, size = len(source), 4 * source.dim * len(source)
    k = min(default_k(n) if k is None else max(k, 1), n)
    work = prototypes_work(source, k=k, memory=memory)

    def piece(rows: NDArray[np.float32]) -> float:
        cluster = rows[: max(1, n // k)]
        earlier_distances(cluster)
        return len(cluster) ** 2 / (n * max(1, n // k))

    passes = 2 + -(-2 * size // memory)
    held = min(size, memory // 2) + 16 * n
    return Work(passes, products=work.products, memory=held, k=k, piece=piece)


def earlier_distances(rows: NDArray[np.float32]) -> NDArray[np.float32]:
    """The cosine distance of every unit row to the nearest one before it; 2 for the first."""
    index = np.zeros(len(rows), np.int64)
    step = rows_at_once(*rows.shape) if len(rows) else 1
    relative = 2 * product_error(rows.shape[1])
    length = lengths(rows)
    for first in range(1, len(rows), step):
        last = min(first + step, len(rows))
        similar = rows[first:last] @ rows[:last].T
        similar[np.arange(first, last)[:, None] <= np.arange(last)] = -np.inf
        doubts = find_doubts(similar, relative * length[first:last] * length.max())
        index[first:last] = remove_doubts(rows[first:last], rows, doubts)
    distance = 1 - row_cosines(rows, rows, index)
    distance[:1] = _FARTHEST
    return distance


def _groups(ends: NDArray[np.int64], most: int) -> Iterator[NDArray[np.int64]]:
    """Borders of consecutive clusters that hold at most `most` rows together."""
    bounds = np.concatenate([[0], ends])
    largest = int(np.diff(bounds).max())
    if largest > most:
        raise PareError(
            f"metric 'duplicates' holds a cluster at a time, and one has {largest} rows where memory allows {most}; "
            f"raise {argument('memory')}, or {argument('k')} for smaller clusters."
        )
    first = 0
    while first < len(ends):
        last = int(np.searchsorted(bounds, bounds[first] + most, side="right")) - 1
        yield bounds[first : last + 1]
        first = last
