"""Lloyd's algorithm on rows in memory, flat or in two levels, with k-means++ seeding and repair of empty clusters."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.kernels import nearest
from paredown.progress import Track, silent

__all__ = ["TOLERANCE", "Grouping", "Rows", "group", "group_in_two_levels", "share_out"]

TOLERANCE = 1e-5  # stop when the mean fit gains less than this
_SEEDING_PER_CENTROID = 32  # rows that k-means++ looks at, per centroid: its cost is quadratic in k
_EARLY_SHARE = 4  # of many rows a quarter is grouped first
_PRODUCT_BYTES = 2**21  # of products held at once: stays inside the cache
_NOTHING = 1e-6  # a sum of unit rows shorter than this has no direction

Rows = NDArray[np.float32]


class Grouping(NamedTuple):
    """The group of every row, none of the k groups empty, and the centroids of the groups.

    `fit` is what the iterations maximise: the mean cosine to the nearest centroid, or for plain k-means the mean of
    x.c - |c|^2 / 2, which is half of |x|^2 less the squared distance.
    """

    of_row: NDArray[np.int64]
    centroids: Rows
    fit: float


def group(
    rows: Rows, k: int, rng: np.random.Generator, iterations: int, *, plain: bool = False, track: Track = silent
) -> Grouping:
    """Group unit rows by direction (spherical k-means), or any rows by distance (plain k-means).

    Many rows are first grouped by a quarter of them, which brings the centroids most of the way; the rows must be in
    random order.
    """
    early = len(rows) // _EARLY_SHARE
    if not plain or early < _SEEDING_PER_CENTROID * k:
        return _lloyd(rows, rows[_plus_plus(rows, k, rng)], iterations, plain, track)
    some = rows[:early]
    begun = _lloyd(some, some[_plus_plus(some, k, rng)], iterations, plain, track)
    return _lloyd(rows, begun.centroids, -(-iterations * 3 // 5), plain, track)


def _lloyd(rows: Rows, centroids: Rows, iterations: int, plain: bool, track: Track) -> Grouping:
    """Improve centroids.

    Each iteration maximises the fit over assignments and then over centroids. A centroid that loses all its rows gets
    the row that fits worst.
    """
    k = len(centroids)
    index, fit, before = np.zeros(len(rows), np.int64), -np.inf, -np.inf
    squares = np.vecdot(rows, rows) if plain else np.float32(0)
    for iteration in track(range(iterations), f"k-means, k = {k}", total=iterations):
        if iteration > 1 and fit - before < TOLERANCE:
            continue  # converged: the bar ends full
        index, values = _nearest_plain(rows, centroids) if plain else nearest(rows, centroids)
        before, fit = fit, float(values.mean(dtype=np.float64))
        misfit = squares - 2 * values
        _fill_empty(index, misfit, k)
        centroids = _means(rows, index, misfit, k, plain)
    return Grouping(index, centroids, fit)


def group_in_two_levels(
    rows: Rows, k: int, rng: np.random.Generator, iterations: int, *, plain: bool = False, track: Track = silent
) -> Grouping:
    """Group the rows into about sqrt(k) cells, then each cell into its share of the k groups.

    The cost is n sqrt(k) dim multiplications an iteration instead of n k dim.
    """
    upper = group(rows, max(1, round(math.sqrt(k))), rng, iterations, plain=plain, track=track)
    sizes = np.bincount(upper.of_row)
    shares = share_out(sizes, k)
    members = np.split(np.argsort(upper.of_row, kind="stable"), np.cumsum(sizes)[:-1])
    index, centroids, fit, first = np.empty(len(rows), np.int64), [], 0.0, 0
    for part, share in track(zip(members, shares.tolist(), strict=True), f"cells of k = {k}", total=len(members)):
        lower = group(rows[part], share, rng, iterations, plain=plain)
        index[part] = first + lower.of_row
        centroids.append(lower.centroids)
        fit += lower.fit * len(part) / len(rows)
        first += share
    return Grouping(index, np.concatenate(centroids), fit)


def share_out(sizes: NDArray[np.int64], k: int) -> NDArray[np.int64]:
    """Whole numbers in proportion to the sizes that add up to k: at least 1 each, and at most the size."""
    ideal = sizes * (k / sizes.sum())
    shares = np.clip(np.floor(ideal).astype(np.int64), 1, sizes)
    while missing := k - int(shares.sum()):
        able = np.flatnonzero(shares < sizes) if missing > 0 else np.flatnonzero(shares > 1)
        most_wanted = np.argsort(np.sign(missing) * (shares - ideal)[able], kind="stable")[: abs(missing)]
        shares[able[most_wanted]] += np.sign(missing)
    return shares


def _plus_plus(rows: Rows, k: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """k-means++ seeding on a subsample: rows far from all centroids so far are drawn more often."""
    size = min(len(rows), _SEEDING_PER_CENTROID * k)
    subset = rng.choice(len(rows), size, replace=False) if size < len(rows) else np.arange(size)
    rows = rows[subset]
    squares = np.vecdot(rows, rows)
    chosen = np.empty(k, np.int64)
    chosen[0] = rng.integers(size)
    distance = np.full(size, np.inf, np.float32)
    for i in range(1, k):
        last = rows[chosen[i - 1]]
        np.minimum(distance, squares - 2 * (rows @ last) + last @ last, out=distance)
        weight = np.maximum(distance, 0).astype(np.float64).cumsum()
        # All rows may coincide with a centroid already (duplicates): then any row will do.
        drawn = np.searchsorted(weight, rng.random() * weight[-1], side="right") if weight[-1] > 0 else i
        chosen[i] = min(int(drawn), size - 1)
    return subset[chosen]


def _nearest_plain(rows: Rows, centroids: Rows) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    """The nearest centroid by distance, and x.c - |c|^2 / 2 for it."""
    index, value = np.empty(len(rows), np.int64), np.empty(len(rows), np.float32)
    half, turned = np.vecdot(centroids, centroids) / 2, np.ascontiguousarray(centroids.T)
    step = max(1, _PRODUCT_BYTES // (4 * len(centroids)))
    products = np.empty((step, len(centroids)), np.float32)  # used again: new memory would cost more than the product
    for first in range(0, len(rows), step):
        some = rows[first : first + step]
        near = np.matmul(some, turned, out=products[: len(some)])
        near -= half
        part = near.argmax(axis=1)
        index[first : first + step] = part
        value[first : first + step] = near[np.arange(len(part)), part]
    return index, value


def _fill_empty(index: NDArray[np.int64], misfit: NDArray[np.float32], k: int) -> None:
    """Move the rows that fit worst into the empty groups, unless that would empty another."""
    counts = np.bincount(index, minlength=k)
    empty = np.flatnonzero(counts == 0).tolist()
    if not empty:
        return
    for row in np.argsort(-misfit, kind="stable").tolist():
        if counts[index[row]] > 1:
            counts[index[row]] -= 1
            index[row] = empty.pop()
            counts[index[row]] = 1
        if not empty:
            break


def _means(rows: Rows, index: NDArray[np.int64], misfit: NDArray[np.float32], k: int, plain: bool) -> Rows:
    """The mean of each group or, unless plain, its direction; members that cancel give way to the worst row."""
    from scipy.sparse import csr_array

    n = len(rows)
    members = csr_array((np.ones(n, np.float32), index, np.arange(n + 1)), shape=(n, k))
    sums = np.asarray(members.T @ rows, np.float32)
    if plain:
        return sums / np.bincount(index, minlength=k).astype(np.float32)[:, None]
    lengths = np.sqrt(np.vecdot(sums, sums))
    lost = lengths < _NOTHING
    sums[lost], lengths[lost] = rows[misfit.argmax()], 1
    return sums / lengths[:, None]
