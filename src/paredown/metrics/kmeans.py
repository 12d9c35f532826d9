"""Spherical k-means: clusters of directions, as the prototype metric of section 6 needs them."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.kernels import nearest
from paredown.progress import Track, silent

__all__ = ["Clustering", "spherical_kmeans"]

_SEEDING_PER_CENTROID = 32  # rows that k-means++ looks at, per centroid: its cost is quadratic in k
_TOLERANCE = 1e-5  # stop when the mean cosine gains less than this


class Clustering(NamedTuple):
    """Unit centroids (k, dim), and the mean cosine of the rows to their nearest one."""

    centroids: NDArray[np.float32]
    mean_cosine: float


def spherical_kmeans(
    vectors: NDArray[np.float32],
    k: int,
    *,
    seed: int,
    iterations: int = 25,
    restarts: int = 1,
    track: Track = silent,
) -> Clustering:
    """Lloyd's algorithm on unit rows with centroids projected back to the sphere; the best of some restarts.

    Each iteration maximises the mean cosine over assignments and then over centroids. A centroid that loses all its
    rows is put on the row that fits worst.
    """
    runs = (_lloyd(vectors, k, np.random.default_rng([seed, run]), iterations) for run in range(restarts))
    return max(track(runs, f"k-means, k = {k}", total=restarts), key=lambda run: run.mean_cosine)


def _lloyd(vectors: NDArray[np.float32], k: int, rng: np.random.Generator, iterations: int) -> Clustering:
    centroids = _plus_plus(vectors, k, rng)
    index, cosine = nearest(vectors, centroids)
    for _ in range(iterations):
        before = float(cosine.mean(dtype=np.float64))
        centroids = _means(vectors, index, cosine, k)
        index, cosine = nearest(vectors, centroids)
        if cosine.mean(dtype=np.float64) - before < _TOLERANCE:
            break
    return Clustering(centroids, float(cosine.mean(dtype=np.float64)))


def _plus_plus(vectors: NDArray[np.float32], k: int, rng: np.random.Generator) -> NDArray[np.float32]:
    """k-means++ seeding on a subsample: rows far from all centroids so far are drawn more often."""
    if len(vectors) > _SEEDING_PER_CENTROID * k:
        vectors = vectors[rng.choice(len(vectors), _SEEDING_PER_CENTROID * k, replace=False)]
    chosen = np.empty(k, np.int64)
    chosen[0] = rng.integers(len(vectors))
    distance = 1 - vectors @ vectors[chosen[0]]
    for i in range(1, k):
        weight = np.maximum(distance, 0).astype(np.float64).cumsum()
        # All rows may coincide with a centroid already (duplicates): then any row will do.
        drawn = np.searchsorted(weight, rng.random() * weight[-1], side="right") if weight[-1] > 0 else i
        chosen[i] = min(int(drawn), len(vectors) - 1)
        np.minimum(distance, 1 - vectors @ vectors[chosen[i]], out=distance)
    return vectors[chosen]


def _means(
    vectors: NDArray[np.float32], index: NDArray[np.int64], cosine: NDArray[np.float32], k: int
) -> NDArray[np.float32]:
    """The direction of each cluster's sum; empty clusters move to the rows that fit worst."""
    from scipy.sparse import csr_array

    n = len(vectors)
    members = csr_array((np.ones(n, np.float32), index, np.arange(n + 1)), shape=(n, k))
    centroids = np.asarray(members.T @ vectors, np.float32)
    lengths = np.sqrt(np.vecdot(centroids, centroids))
    lost = np.flatnonzero(lengths < 1e-6)  # empty, or members that cancel
    if len(lost):
        worst = np.argsort(cosine, kind="stable")[: len(lost)]
        centroids[lost], lengths[lost] = vectors[worst], 1
    return centroids / lengths[:, None]
