"""Spherical k-means: clusters of directions, as the prototype metric of section 6 needs them.

Most of the work of Lloyd's algorithm is finding the nearest centroid of every row, again and again, while the centroids
still move. Where there is much of it, the first iterations compare rows and centroids in a few leading dimensions only
(the centroids themselves are always full means), and the last ones compare them fully.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.kernels import fit_screen, leading_basis, nearest, worth_a_trial
from paredown.progress import Track, silent

__all__ = ["Clustering", "spherical_kmeans"]

_COARSE_SHARE, _COARSE_LEAST = 16, 64  # leading dimensions: a sixteenth of all, but at least 64
_FINE_ITERATIONS = 3  # at the end, with all dimensions
_BASIS_ROWS = 4_096
_SEEDING_PER_CENTROID = 32  # rows that k-means++ looks at, per centroid: its cost is quadratic in k
_TOLERANCE = 1e-5  # stop when the mean cosine gains less than this

Rows = NDArray[np.float32]
Found = tuple[NDArray[np.int64], NDArray[np.float32]]


class Clustering(NamedTuple):
    """Unit centroids (k, dim), and the mean cosine of the rows to their nearest one before the last small step."""

    centroids: Rows
    mean_cosine: float


def spherical_kmeans(
    vectors: Rows,
    k: int,
    *,
    seed: int,
    iterations: int = 25,
    restarts: int = 1,
    start: Rows | None = None,
    kernel: str = "auto",
    track: Track = silent,
) -> Clustering:
    """Lloyd's algorithm on unit rows with centroids projected back to the sphere; the best of some restarts.

    Each iteration maximises the mean cosine over assignments and then over centroids. A centroid that loses all its
    rows is put on the row that fits worst. `start` are centroids to begin with, instead of k-means++.
    """
    runs = (
        _lloyd(vectors, k, np.random.default_rng([seed, run]), iterations, start, kernel, track)
        for run in range(restarts)
    )
    return max(runs, key=lambda run: run.mean_cosine)


def _lloyd(
    vectors: Rows, k: int, rng: np.random.Generator, iterations: int, start: Rows | None, kernel: str, track: Track
) -> Clustering:
    dims = max(_COARSE_LEAST, vectors.shape[1] // _COARSE_SHARE)
    worth_it = vectors.shape[1] >= 3 * dims and worth_a_trial(iterations * len(vectors), vectors[:k])
    phases: list[tuple[int, Callable[[Rows], Found]]] = [(iterations, lambda c: nearest(vectors, c))]
    seeding = vectors
    if worth_it and kernel != "float32":
        basis = leading_basis(vectors[:_BASIS_ROWS], dims)
        seeding = coarse = vectors @ basis
        fine = min(_FINE_ITERATIONS, iterations)
        phases = [
            (iterations - fine, lambda c: _nearest_coarse(coarse, c @ basis)),
            (fine, lambda c: _nearest_fine(vectors, c, basis)),
        ]
    centroids = vectors[_plus_plus(seeding, k, rng)] if start is None else start
    steps = iter(track(range(iterations), f"k-means, k = {k}", total=iterations))
    mean_cosine = -1.0
    for number, search in phases:
        before = -np.inf
        for _ in range(number):
            next(steps, None)
            index, cosine = search(centroids)
            centroids = _means(vectors, index, cosine, k)
            mean_cosine = float(cosine.mean(dtype=np.float64))
            if mean_cosine - before < _TOLERANCE:
                break
            before = mean_cosine
    for _ in steps:  # converged early: the bar ends full
        pass
    return Clustering(centroids, mean_cosine)


def _nearest_fine(vectors: Rows, centroids: Rows, basis: Rows) -> Found:
    sample = vectors[:_BASIS_ROWS:4]
    return fit_screen(centroids, sample, nearest(sample, centroids)[0], basis)(vectors)


def _nearest_coarse(rows: Rows, centroids: Rows) -> Found:
    """The nearest centroid by inner product in the leading dimensions, and that product for the cosine."""
    index, product = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
    for first in range(0, len(rows), 4096):
        similar = rows[first : first + 4096] @ centroids.T
        part = similar.argmax(axis=1)
        index[first : first + 4096] = part
        product[first : first + 4096] = similar[np.arange(len(part)), part]
    return index, product


def _plus_plus(vectors: Rows, k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """k-means++ seeding on a subsample: rows far from all centroids so far are drawn more often."""
    size = min(len(vectors), _SEEDING_PER_CENTROID * k)
    subset = rng.choice(len(vectors), size, replace=False) if size < len(vectors) else np.arange(size)
    vectors = vectors[subset]
    squares = np.vecdot(vectors, vectors)
    chosen = np.empty(k, np.int64)
    chosen[0] = rng.integers(size)
    distance = np.full(size, np.inf, np.float32)
    for i in range(1, k):
        last = vectors[chosen[i - 1]]
        np.minimum(distance, squares - 2 * (vectors @ last) + last @ last, out=distance)
        weight = np.maximum(distance, 0).astype(np.float64).cumsum()
        # All rows may coincide with a centroid already (duplicates): then any row will do.
        drawn = np.searchsorted(weight, rng.random() * weight[-1], side="right") if weight[-1] > 0 else i
        chosen[i] = min(int(drawn), size - 1)
    return subset[chosen]


def _means(vectors: Rows, index: NDArray[np.int64], cosine: NDArray[np.float32], k: int) -> Rows:
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
