"""Lloyd's algorithm on rows in memory, flat or in two levels, with k-means++ seeding and repair of empty clusters."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels.cosines import row_cosines
from paredown.clustering.kernels.exact import ExactSearch
from paredown.progress import Track, silent

TOLERANCE = 1e-5  # stop when the mean fit gains less than this
_SEEDING_PER_CENTROID = 16  # rows that k-means++ looks at, per centroid: its cost is quadratic in k
_DRAWS = 4  # of which k-means++ takes the best
_EARLY_SHARE, _EARLY_PER_CENTROID = 4, 32  # of many rows a quarter is grouped first, if it has so many per centroid
_NOTHING = 1e-6  # a sum of unit rows shorter than this has no direction

Rows = NDArray[np.float32]


class Grouping(NamedTuple):
    """The group of every row, none of the k groups empty, and the unit centroids of the groups.

    `fit` is what the iterations maximise: the mean of x.c over rows x and their centroids c, which for unit rows is the
    mean cosine.
    """

    of_row: NDArray[np.int64]
    centroids: Rows
    fit: float


def group(
    rows: Rows, k: int, rng: np.random.Generator, iterations: int, *, staged: bool = False, track: Track = silent
) -> Grouping:
    """Group rows by direction (spherical k-means); long rows count for more.

    If `staged`, many rows are first grouped by a quarter of them, which brings the centroids most of the way; the rows
    must be in random order.
    """
    early = len(rows) // _EARLY_SHARE
    if not staged or early < _EARLY_PER_CENTROID * k:
        return _lloyd(rows, _plus_plus(rows, k, rng), iterations, track)
    begun = _lloyd(rows[:early], _plus_plus(rows[:early], k, rng), iterations, track)
    return _lloyd(rows, begun.centroids, -(-iterations * 3 // 5), track)


def _lloyd(rows: Rows, centroids: Rows, iterations: int, track: Track) -> Grouping:
    """Improve centroids.

    Each iteration maximises the fit over assignments and then over centroids. A centroid that loses all its rows gets
    the row that fits worst.
    """
    k = len(centroids)
    index, fit, before = np.zeros(len(rows), np.int64), -np.inf, -np.inf
    for iteration in track(range(iterations), f"k-means, k = {k}", total=iterations):
        if iteration > 1 and fit - before < TOLERANCE:
            continue  # converged: the bar ends full
        index = ExactSearch(centroids).choose(rows)
        sums = _sums(rows, index, k)
        before, fit = fit, float((sums * centroids).sum(dtype=np.float64)) / len(rows)
        if np.bincount(index, minlength=k).min() == 0:
            _fill_empty(index, _misfits(rows, centroids, index), k)
            sums = _sums(rows, index, k)
        lengths = np.sqrt(np.vecdot(sums, sums))
        if lengths.min() < _NOTHING:  # members that cancel give way to the row that fits worst
            lost = lengths < _NOTHING
            worst = _misfits(rows, centroids, index).argmax()
            sums[lost], lengths[lost] = rows[worst], np.linalg.norm(rows[worst])
        centroids = sums / lengths[:, None]
    return Grouping(index, centroids, fit)


def group_in_two_levels(
    rows: Rows, k: int, rng: np.random.Generator, iterations: int, *, staged: bool = False, track: Track = silent
) -> Grouping:
    """Group the rows into about sqrt(k) cells, then each cell into its share of the k groups.

    The cost is n sqrt(k) dim multiplications an iteration instead of n k dim.
    """
    upper = group(rows, max(1, round(math.sqrt(k))), rng, iterations, staged=staged, track=track)
    sizes = np.bincount(upper.of_row)
    shares = share_out(sizes, k)
    members = np.split(np.argsort(upper.of_row, kind="stable"), np.cumsum(sizes)[:-1])
    index, centroids, fit, first = np.empty(len(rows), np.int64), [], 0.0, 0
    for part, share in track(zip(members, shares.tolist(), strict=True), f"cells of k = {k}", total=len(members)):
        lower = group(rows[part], share, rng, iterations, staged=staged)
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


def _plus_plus(rows: Rows, k: int, rng: np.random.Generator) -> Rows:
    """Greedy k-means++ seeding on a subsample: directions of rows.

    Rows far from all seeds so far are drawn more often; of some draws the one stays that leaves the least distance to
    the rest (Arthur and Vassilvitskii 2007, in their conclusion).
    """
    size = min(len(rows), _SEEDING_PER_CENTROID * k)
    if size < len(rows):
        rows = rows[rng.choice(len(rows), size, replace=False)]
    squares = np.vecdot(rows, rows)

    def nearer(seed: int) -> NDArray[np.float32]:
        """Squared distances to the nearest seed with one more."""
        return np.minimum(distance, np.maximum(squares - 2 * np.vecdot(rows, rows[seed]) + squares[seed], 0))

    distance = np.full(size, np.inf, np.float32)
    chosen = np.empty(k, np.int64)
    chosen[0] = rng.integers(size)
    distance = nearer(chosen[0])
    for i in range(1, k):
        weight = distance.cumsum(dtype=np.float64)
        drawn = np.minimum(np.searchsorted(weight, rng.random(_DRAWS) * weight[-1], side="right"), size - 1)
        if weight[-1] == 0:  # all rows coincide with a seed already (duplicates): then any row will do
            drawn = np.array([i])
        offers = [nearer(seed) for seed in drawn]
        best = int(np.argmin([offer.sum(dtype=np.float64) for offer in offers]))
        chosen[i], distance = drawn[best], offers[best]
    return rows[chosen] / np.sqrt(np.maximum(squares[chosen], _NOTHING**2))[:, None]


def _misfits(rows: Rows, centroids: Rows, index: NDArray[np.int64]) -> NDArray[np.float32]:
    """How badly each row fits its centroid: the squared distance between them, less 1."""
    return np.vecdot(rows, rows) - 2 * row_cosines(rows, centroids, index)


def _sums(rows: Rows, index: NDArray[np.int64], k: int) -> Rows:
    """The sum of each group."""
    from scipy.sparse import csr_array

    n = len(rows)
    members = csr_array((np.ones(n, np.float32), index, np.arange(n + 1)), shape=(n, k))
    return np.asarray(members.T @ rows, np.float32)


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
