"""Lloyd's algorithm on rows in memory, flat or in two levels, with k-means++ seeding and repair of empty clusters."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels.cosines import row_cosines
from paredown.clustering.kernels.exact import ExactSearch
from paredown.clustering.kernels.grouped import GroupedSearch, group_count
from paredown.engines import Engine
from paredown.engines.in_process import InProcess
from paredown.errors import PareError
from paredown.progress import Track, silent

TOLERANCE = 1e-5  # stop when the mean fit gains less than this
_SEEDING_PER_CENTROID = 16  # rows that k-means++ looks at, per centroid: its cost is quadratic in k
_DRAWS = 4  # of which k-means++ takes the best
_EARLY_SHARE, _EARLY_PER_CENTROID = 4, 32  # of many rows a quarter is grouped first, if it has so many per centroid
_ROWS_PER_CELL = 256  # of the sample that cells are found with
_JOB_MEMORY = 2**28  # of a cell, beside its rows
_WORTH_SENDING = 512  # centroids with which a row must be compared, for finding them to take longer than sending it
_WORTH_SHARING = 5e9  # multiplications: about a fifth of a second
_PARTS_PER_WORKER, _ROWS_SENT = 2, 4_096  # of rows that workers compare with centroids; rows of a part, at least
_GROUPING = 8  # iterations that groups of centroids are found in
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
    rows: Rows,
    k: int,
    rng: np.random.Generator,
    iterations: int,
    *,
    staged: bool = False,
    track: Track = silent,
    engine: Engine | None = None,
) -> Grouping:
    """Group rows by direction (spherical k-means); long rows count for more.

    If `staged`, many rows are first grouped by a quarter of them, which brings the centroids most of the way; the rows
    must be in random order. The workers of an `engine` compare rows with centroids, where there is much of that; the
    result is the same.
    """
    early = len(rows) // _EARLY_SHARE
    if not staged or early < _EARLY_PER_CENTROID * k:
        return _lloyd(rows, _plus_plus(rows, k, rng), iterations, track, engine)
    begun = _lloyd(rows[:early], _plus_plus(rows[:early], k, rng), iterations, track, engine)
    return _lloyd(rows, begun.centroids, -(-iterations * 3 // 5), track, engine)


def _lloyd(rows: Rows, centroids: Rows, iterations: int, track: Track, engine: Engine | None) -> Grouping:
    """Improve centroids.

    Each iteration maximises the fit over assignments and then over centroids. A centroid that loses all its rows gets
    the row that fits worst.
    """
    k = len(centroids)
    index, fit, before = np.zeros(len(rows), np.int64), -np.inf, -np.inf
    for iteration in track(range(iterations), f"k-means, k = {k}", total=iterations):
        if iteration > 1 and fit - before < TOLERANCE:
            continue  # converged: the bar ends full
        index = _nearest(rows, centroids, engine)
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


def _nearest(rows: Rows, centroids: Rows, engine: Engine | None) -> NDArray[np.int64]:
    """The nearest centroid of every row, which is the same whoever finds it, and among however many other rows."""
    if engine is None or not is_shared(len(rows), rows.shape[1], len(centroids), engine.workers):
        return ExactSearch(centroids).choose(rows)
    step = -(-len(rows) // parts_sent(len(rows), engine.workers))
    starts = range(0, len(rows), step)
    jobs = [{"name": f"rows from {first} on of the sample", "rows": rows[first : first + step]} for first in starts]
    memory = _JOB_MEMORY + centroids.nbytes + 2 * jobs[0]["rows"].nbytes
    index = np.empty(len(rows), np.int64)
    for outcome in engine.run_jobs(f"{__name__}:choose_centroids", jobs, common=centroids, memory=memory):
        if outcome.error is not None:
            raise PareError(outcome.error)
        index[starts[outcome.job] : starts[outcome.job] + step] = outcome.value
    return index


def choose_centroids(centroids: Rows, job: dict[str, Any]) -> NDArray[np.int32]:
    """What a worker does: the nearest centroids of some rows."""
    return ExactSearch(centroids).choose(job["rows"]).astype(np.int32)


def is_shared(rows: int, dim: int, k: int, workers: int) -> bool:
    """Whether workers compare so many rows with k centroids, rather than the driver alone."""
    return workers > 1 and k >= _WORTH_SENDING and rows * dim * k >= _WORTH_SHARING


def parts_sent(rows: int, workers: int) -> int:
    """In how many parts rows are sent to the workers."""
    return min(_PARTS_PER_WORKER * workers, -(-rows // _ROWS_SENT))


def group_in_two_levels(
    rows: Rows,
    k: int,
    rng: np.random.Generator,
    iterations: int,
    *,
    staged: bool = False,
    track: Track = silent,
    engine: Engine | None = None,
) -> Grouping:
    """Group the rows into about sqrt(k) cells, then each cell into its share of the k groups.

    The cost is n sqrt(k) dim multiplications an iteration instead of n k dim. The cells are those of a sample, and each
    is a job of the engine.
    """
    sizes, order = _cells(rows, cell_count(k), rng, iterations)
    cells = _CellJobs(rows, np.split(order, np.cumsum(sizes)[:-1]), share_out(sizes, k), rng)
    common = {"iterations": iterations, "staged": staged}
    memory = _JOB_MEMORY + 16 * rows.shape[1] * int(sizes.max())
    outcomes = (engine or InProcess()).run_jobs(f"{__name__}:group_cell", cells, common=common, memory=memory)
    found: list[Grouping | None] = [None] * len(cells)
    for outcome in track(outcomes, f"cells of k = {k}", total=len(cells)):
        if outcome.error is not None:
            raise PareError(f"cell {outcome.job + 1} of the clusters: {outcome.error}")
        found[outcome.job] = outcome.value
    index, centroids, fit, first = np.empty(len(rows), np.int64), [], 0.0, 0
    for members, lower in zip(cells.members, found, strict=True):
        assert lower is not None
        index[members] = first + lower.of_row
        centroids.append(lower.centroids)
        fit += lower.fit * len(members) / len(rows)
        first += len(lower.centroids)
    return Grouping(index, np.concatenate(centroids), fit)


def _cells(
    rows: Rows, count: int, rng: np.random.Generator, iterations: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """The sizes of cells, none of them empty, and the rows cell by cell."""
    few = min(len(rows), _ROWS_PER_CELL * count)
    sample = rows if few == len(rows) else rows[np.sort(rng.choice(len(rows), few, replace=False))]
    of_row = ExactSearch(group(sample, count, rng, iterations).centroids).choose(rows)
    sizes = np.bincount(of_row, minlength=count)
    return sizes[sizes > 0], np.argsort(of_row, kind="stable")


class _CellJobs(Sequence[dict[str, Any]]):
    """The jobs of all cells, whose rows are copied as each is given out."""

    def __init__(
        self, rows: Rows, members: list[NDArray[np.int64]], shares: NDArray[np.int64], rng: np.random.Generator
    ) -> None:
        self.rows, self.members, self.shares = rows, members, shares
        self.seeds = rng.integers(2**63, size=len(members))

    def __len__(self) -> int:
        return len(self.members)

    def __getitem__(self, number: Any) -> Any:
        if number >= len(self):
            raise IndexError(number)
        rows, share, seed = self.rows[self.members[number]], int(self.shares[number]), int(self.seeds[number])
        return {"name": f"cell {number + 1} of the clusters", "rows": rows, "share": share, "seed": seed}


def group_cell(common: dict[str, Any], cell: dict[str, Any]) -> Grouping:
    """What a worker does: group the rows of a cell."""
    rng = np.random.default_rng(cell["seed"])
    return group(cell["rows"], cell["share"], rng, common["iterations"], staged=common["staged"])


def grouped_search(centroids: Rows, probes: int) -> GroupedSearch:
    """A search among the centroids of the nearest groups; the groups are found here, and order the centroids."""
    grouping = group_in_two_levels(centroids, group_count(len(centroids)), np.random.default_rng(0), _GROUPING)
    sizes = np.bincount(grouping.of_row)
    order = np.argsort(grouping.of_row, kind="stable")
    return GroupedSearch(centroids[order], np.cumsum(sizes) - sizes, grouping.centroids, probes)


def cell_count(k: int) -> int:
    """How many cells k groups are divided among."""
    return max(1, round(math.sqrt(k)))


def grouped_search_products(k: int) -> float:
    """How many times a centroid is multiplied with another vector when a search among groups is prepared."""
    upper, lower = two_level_products(k, group_count(k), _GROUPING, staged=False)
    return upper + lower


def two_level_products(rows: int, k: int, iterations: int, *, staged: bool) -> tuple[float, float]:
    """How many times, at most, a row is multiplied with another one to find the cells, and in all cells together."""
    cells = cell_count(k)
    upper = grouping_products(min(rows, _ROWS_PER_CELL * cells), cells, iterations, staged=False) + rows * cells
    return upper, cells * grouping_products(rows // cells, k // cells, iterations, staged=staged)


def grouping_products(rows: int, k: int, iterations: int, *, staged: bool) -> float:
    """How many times, at most, a row is multiplied with another one when `rows` are grouped."""
    of_stages = sum(some * k * times for some, times in grouping_stages(rows, k, iterations, staged=staged))
    return seeding_products(rows, k) + of_stages


def seeding_products(rows: int, k: int) -> float:
    """Those of k-means++."""
    return _DRAWS * min(rows, _SEEDING_PER_CENTROID * k) * k


def grouping_stages(rows: int, k: int, iterations: int, *, staged: bool) -> list[tuple[int, int]]:
    """How many rows are compared with all centroids, and how many times at most, one stage after the other."""
    early = rows // _EARLY_SHARE
    if not staged or early < _EARLY_PER_CENTROID * k:
        return [(rows, iterations)]
    return [(early, iterations), (rows, -(-iterations * 3 // 5))]


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
