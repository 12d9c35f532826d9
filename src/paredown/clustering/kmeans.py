"""Spherical k-means: clusters of directions, as the prototype metric of section 6 needs them.

Most of the work of Lloyd's algorithm is finding the nearest centroid of every row, again and again, while the centroids
still move. Where there is much of it, the rows are first clustered in a few leading dimensions, which take little
memory; a few passes over the rows themselves, held in memory or read again each time, then finish.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.checkpoint import Checkpoint
from paredown.clustering.kernels import (
    CentroidSearch,
    choose_search,
    fewest_operations,
    leading_basis,
    nearest,
    worth_a_choice,
)
from paredown.clustering.kernels.exact import ExactSearch
from paredown.clustering.kernels.grouped import EXACT_MOST
from paredown.clustering.kernels.screened import ScreenedSearch
from paredown.clustering.lloyd import TOLERANCE, Rows, group, group_in_two_levels, grouped_search
from paredown.clustering.passes import (
    Clustering,
    FittingRows,
    HeldRows,
    StreamedRows,
    lloyd_pass,
    minibatch_pass,
)
from paredown.clustering.ranged_rows import RangedEmbeddings
from paredown.engines import Engine
from paredown.errors import PareError, argument, check_known, check_least
from paredown.progress import Track, silent
from paredown.sources import VectorSource
from paredown.threads import one_blas_thread
from paredown.units import format_size

METHODS = {
    "auto": f"sample up to {EXACT_MOST:,} centroids, hierarchical for more",
    "sample": "Lloyd's algorithm on a uniform sample of `sample_per_centroid` rows for each centroid",
    "full": "the same, then Lloyd's algorithm on all rows until it converges",
    "minibatch": "a small sample to begin with, then one pass over all rows that moves centroids batch by batch",
    "hierarchical": "the sample in two levels, for more than 10,000 centroids",
}

_LEADING_SHARE, _LEADING_LEAST = 32, 64  # leading dimensions: a 32nd of all, but at least 64
_LEADING_ENOUGH = 0.5  # of the variance in them: clusters spread over more dimensions are sought in all of them
_FINE_PASSES = 2  # with all dimensions, after the leading ones
_BASIS_ROWS = 4_096
PASS_PROBES = 32  # groups of centroids that a row is compared with in a pass: one row in a hundred may go astray
_MINIBATCH_SAMPLE = 32  # rows per centroid that mini-batches begin with
_ALWAYS = 64 * 2**20  # bytes that centroids may take however little memory is allowed


class SourceClustering(NamedTuple):
    """Centroids fitted to a source, the mean cosine of rows to the nearest one, and some of the rows."""

    centroids: Rows
    mean_cosine: float
    rows_clustered: int
    head: Rows  # the rows with the smallest hashes, to measure kernels on
    warnings: tuple[str, ...] = ()


def spherical_kmeans(
    vectors: Rows,
    k: int,
    *,
    seed: int,
    iterations: int = 25,
    restarts: int = 1,
    start: Rows | None = None,
) -> Clustering:
    """Lloyd's algorithm on unit rows with centroids projected back to the sphere; the best of some restarts.

    `start` are centroids to begin with, instead of k-means++.
    """
    plan = KMeans(k, seed=seed, iterations=iterations, restarts=restarts, start=start)
    rows = HeldRows(vectors)
    return plan.fit(rows, rows, vectors[:_BASIS_ROWS])


class FitLayout(NamedTuple):
    """How many rows a clustering works with."""

    sampled: int  # to find the first centroids with, if memory allows
    size: int  # in the passes after that
    streamed: bool  # whether those are read again in every pass
    dims: int | None  # leading dimensions in which the first centroids are sought, if not in all
    head_rows: int  # held
    first_rows: int  # of the sample


@dataclass(frozen=True)
class KMeans:
    """How to cluster: see `METHODS`.

    `iterations` are those on the sample; `passes` the further ones with all dimensions, over the rows that are
    clustered (all of them for `full` and `minibatch`). `restarts` are compared before the passes.

    For more than `EXACT_MOST` centroids, or with `probes`, passes compare rows with the nearest groups of centroids
    only, unless a kernel is named.
    """

    k: int
    _: KW_ONLY
    seed: int
    method: str = "auto"
    iterations: int = 25
    restarts: int = 1
    passes: int | None = None
    sample_per_centroid: int = 256
    start: Rows | None = None
    kernel: str = "auto"
    probes: int | None = None
    memory: int = 2**30
    checkpoint: Checkpoint | None = None  # keeps the first centroids, and those of every pass

    def __post_init__(self) -> None:
        if self.method == "auto":
            object.__setattr__(self, "method", "sample" if self.k <= EXACT_MOST else "hierarchical")

    @property
    def is_grouped(self) -> bool:
        """Whether rows are compared with groups of centroids first, which is not exact."""
        return self.probes is not None or (self.k > EXACT_MOST and self.kernel == "auto")

    def cluster(
        self, source: VectorSource | RangedEmbeddings, *, head_rows: int = _BASIS_ROWS, track: Track = silent
    ) -> SourceClustering:
        """Cluster the rows of a source inside `memory`; `head_rows` of them are wanted back, if memory allows."""
        n, dim = len(source), source.dim
        self.check(n, dim)
        layout = self.layout(n, dim, head_rows)
        size, sampled, dims = layout.size, layout.sampled, layout.dims
        head = source.sample(layout.head_rows, seed=self.seed)
        if layout.streamed and dims is not None:
            first: FittingRows = _streamed(source, layout.first_rows, self.seed)
        else:
            first = HeldRows(head[:sampled])
        rows = _streamed(source, size, self.seed) if layout.streamed else HeldRows(head[:size])
        warnings = self._sample_warnings(len(first), sampled, 16 * dims if dims is not None else 8 * dim)
        if self.method == "minibatch":
            if isinstance(source, RangedEmbeddings):
                raise PareError("mini-batches follow one another, on one machine; use method sample or full.")
            return SourceClustering(*self._minibatches(source, first, head, track), n, head[:head_rows], warnings)
        engine = source.engine if isinstance(source, RangedEmbeddings) else None
        return SourceClustering(*self.fit(first, rows, head, track, engine), size, head[:head_rows], warnings)

    def layout(self, n: int, dim: int, head_rows: int = _BASIS_ROWS) -> FitLayout:
        """Which of `n` rows are held, and which are read again in every pass."""
        per_centroid = _MINIBATCH_SAMPLE if self.method == "minibatch" else self.sample_per_centroid
        sampled = min(n, per_centroid * self.k)
        size = n if self.method == "full" else sampled
        most = max(self.k, self.memory // (2 * 4 * dim))  # rows to hold at once
        streamed, dims = size > most, self._leading_dims(sampled, dim)
        if streamed and dims is not None:  # only the leading dimensions of the sample are held
            within = max(self.k, self.memory // (4 * 4 * dims))
            return FitLayout(
                sampled, size, streamed, dims, min(max(head_rows, _BASIS_ROWS), most), min(sampled, within)
            )
        head = min(max(size, head_rows), most)
        return FitLayout(sampled, size, streamed, dims, head, min(sampled, head))

    def _sample_warnings(self, rows: int, wanted: int, row_bytes: int) -> tuple[str, ...]:
        """A warning if the memory holds fewer rows to find the first centroids with than are wanted."""
        if rows >= wanted or self.start is not None:
            return ()
        needed = math.ceil(wanted * row_bytes / 2**20)
        return (
            f"with {format_size(self.memory)} of memory k-means starts from {rows / self.k:.3g} rows per centroid "
            f"instead of {wanted / self.k:.3g}, and the clusters may be worse; {needed} MiB would be enough.",
        )

    def fit(
        self,
        first: FittingRows,
        rows: FittingRows,
        head: Rows,
        track: Track = silent,
        engine: Engine | None = None,
    ) -> Clustering:
        """Find centroids for the rows `first`, then improve them in passes over `rows`."""
        basis = self._basis(first, head)
        passes = self._default_passes(rows, basis) if self.passes is None else self.passes
        prepare = self._preparing(basis, head)
        if self.is_grouped:
            prepare = lambda centroids: grouped_search(centroids, self.probes or PASS_PROBES)
        saved = self._saved()
        if saved is None:
            saved = 0, *self._first_centroids(first, basis, track, engine), -np.inf
        done, centroids, mean_cosine, before = saved
        for number in range(done, passes):
            label = f"pass {number + 1} of {passes} over {len(rows):,} rows"
            centroids, mean_cosine = lloyd_pass(rows, prepare(centroids), track, label)
            converged, before = mean_cosine - before < TOLERANCE, mean_cosine
            self._save(passes if converged else number + 1, centroids, mean_cosine)
            if converged:
                break
        if mean_cosine is None:
            mean_cosine = float(nearest(head[:_BASIS_ROWS], centroids)[1].mean(dtype=np.float64))
        return Clustering(centroids, mean_cosine)

    def _first_centroids(
        self, first: FittingRows, basis: Rows | None, track: Track, engine: Engine | None
    ) -> tuple[Rows, float | None]:
        """What `_begin` finds, unless an earlier run did."""
        if self.checkpoint is None or self.start is not None:
            return self._begin(first, basis, track, engine)

        def found() -> dict[str, NDArray[np.generic]]:
            centroids, mean_cosine = self._begin(first, basis, track, engine)
            return {"centroids": centroids, "mean_cosine": np.array(np.nan if mean_cosine is None else mean_cosine)}

        part = self.checkpoint.part("first_centroids", found)
        mean_cosine = float(part["mean_cosine"])
        return part["centroids"], None if math.isnan(mean_cosine) else mean_cosine

    def _saved(self) -> tuple[int, Rows, float, float] | None:
        """How many passes an earlier run did, and where they led."""
        saved = None if self.checkpoint is None else self.checkpoint.load("passes")
        if saved is None:
            return None
        mean_cosine = float(saved["mean_cosine"])
        return int(saved["passes"]), saved["centroids"], mean_cosine, mean_cosine

    def _save(self, passes: int, centroids: Rows, mean_cosine: float) -> None:
        if self.checkpoint is not None:
            found = {"passes": np.array(passes), "centroids": centroids, "mean_cosine": np.array(mean_cosine)}
            self.checkpoint.save("passes", found)

    def _minibatches(self, source: VectorSource, first: FittingRows, head: Rows, track: Track) -> Clustering:
        basis = self._basis(first, head)
        centroids, mean_cosine = self._begin(first, basis, track)
        prepare = self._preparing(basis, head)
        passes = 1 if self.passes is None else self.passes
        for number in range(passes):
            label = f"mini-batches, pass {number + 1} of {passes}"
            centroids, mean_cosine = minibatch_pass(
                source, centroids, prepare, memory=self.memory, track=track, label=label
            )
        assert mean_cosine is not None
        return Clustering(centroids, mean_cosine)

    def _begin(
        self, first: FittingRows, basis: Rows | None, track: Track, engine: Engine | None = None
    ) -> tuple[Rows, float | None]:
        """The centroids to start from, or those of the best of some runs; and their mean cosine, if it is known."""
        if self.start is not None:
            return self.start, None
        grouping = group_in_two_levels if self.method == "hierarchical" else group
        if basis is None:
            assert isinstance(first, HeldRows)
            features = first.vectors
        else:
            features = first.project(basis, track)
        generators = (np.random.default_rng([self.seed, run]) for run in range(self.restarts))
        staged = basis is not None or self._heavy(len(first), features.shape[1])
        how = {"staged": staged, "track": track, "engine": engine}
        runs = (grouping(features, self.k, rng, self.iterations, **how) for rng in generators)
        best = max(runs, key=lambda run: run.fit)
        if basis is None:
            return best.centroids, best.fit
        return first.group_sums(best.of_row, self.k, len(basis), track).directions(None), None

    def _heavy(self, rows: int, dim: int) -> bool:
        """Whether clustering so many rows is worth shortening."""
        return worth_a_choice(self.iterations * rows, self.k * dim)

    def _leading_dims(self, rows: int, dim: int) -> int | None:
        """How many leading dimensions to cluster in first; None where that is not worth it."""
        dims = max(_LEADING_LEAST, dim // _LEADING_SHARE)
        return dims if self._heavy(rows, dim) and dim >= 3 * dims else None

    def _basis(self, first: FittingRows, head: Rows) -> Rows | None:
        """The leading directions to cluster in first; None for all dimensions."""
        dims = self._leading_dims(len(first), head.shape[1])
        if dims is None:
            return None
        basis = leading_basis(head[:_BASIS_ROWS], dims)
        if isinstance(first, HeldRows) and _share_held(head[:_BASIS_ROWS], basis) < _LEADING_ENOUGH:
            return None
        return basis

    def _preparing(self, basis: Rows | None, sample: Rows) -> Callable[[Rows], CentroidSearch]:
        """How to make a search for centroids that have moved; the choice is made for the first ones."""
        if self.kernel not in ("auto", "screened"):
            return lambda centroids: choose_search(centroids, sample, n=0, kernel=self.kernel)
        if basis is None:
            return ExactSearch
        chosen: list[Callable[[Rows], CentroidSearch]] = []

        def prepare(centroids: Rows) -> CentroidSearch:
            if not chosen:
                possible = [ScreenedSearch(centroids, basis), ExactSearch(centroids)]
                screened = fewest_operations(possible, sample) is possible[0]
                chosen.append((lambda moved: ScreenedSearch(moved, basis)) if screened else ExactSearch)
            return chosen[0](centroids)

        return prepare

    def _default_passes(self, rows: FittingRows, basis: Rows | None) -> int:
        return self._passes(held=isinstance(rows, HeldRows), leading=basis is not None)

    def _passes(self, *, held: bool, leading: bool) -> int:
        if self.method == "full" or (self.start is not None and held):
            return self.iterations
        return 0 if held and not leading and self.method == "sample" else _FINE_PASSES

    def passes_at_most(self, layout: FitLayout) -> int:
        """How many passes follow the first centroids, unless they converge before."""
        if self.passes is not None:
            return self.passes
        return self._passes(held=not layout.streamed, leading=layout.dims is not None)

    def is_staged(self, layout: FitLayout, dim: int) -> bool:
        """Whether the first centroids are found from a part of the sample first."""
        return layout.dims is not None or self._heavy(layout.first_rows, dim)

    def centroid_memory(self, dim: int) -> int:
        """Bytes of centroids, their sums in double precision, and copies while they move."""
        return 8 * 4 * self.k * dim

    def check(self, n: int, dim: int) -> None:
        """Raise at what makes no sense for n rows of so many dimensions."""
        check_known("method of k-means", self.method, METHODS)
        check_k(self.k, n)
        check_least(1, restarts=self.restarts, iterations=self.iterations)
        check_least(1, sample_per_centroid=self.sample_per_centroid, probes=self.probes)
        if self.probes is not None and self.kernel != "auto":
            raise PareError(
                f"{argument('probes')} is for the approximate search, and {argument('kernel', self.kernel)} compares "
                "with all centroids; leave one out."
            )
        least = 1 if self.method == "minibatch" else 0
        if self.passes is not None and self.passes < least:
            raise PareError(
                f"{argument('passes')} must be at least {least} with method {self.method!r}, got {self.passes}."
            )
        if self.start is not None and self.restarts > 1:
            raise PareError(
                f"centroids to start from leave nothing to restart; leave out {argument('restarts')}, or "
                f"{argument('start')}."
            )
        if self.start is not None and self.start.shape != (self.k, dim):
            given = f"{self.start.shape[0]} of {self.start.shape[1]} dimensions"
            raise PareError(
                f"the centroids to start from are {given}, and k = {self.k} of {dim} are wanted; start from another "
                f"model, or leave out {argument('k')}."
            )
        needed = self.centroid_memory(dim)
        if needed > max(self.memory, _ALWAYS):
            raise PareError(
                f"clustering with k = {self.k:,} centroids of {dim} dimensions takes about {format_size(needed)}, and "
                f"memory is {format_size(self.memory)}; raise {argument('memory')}, or lower {argument('k')}."
            )


def check_k(k: int, n: int) -> None:
    """Raise at a number of clusters that n examples cannot have."""
    if not 1 <= k <= n:
        raise PareError(f"{argument('k')} must be between 1 and the number of examples, {n}; got {k}.")


def _streamed(source: VectorSource | RangedEmbeddings, size: int, seed: int) -> FittingRows:
    if isinstance(source, RangedEmbeddings):
        return source.fitting_rows(size, seed=seed)
    return StreamedRows(source, size, seed=seed)


def _share_held(rows: Rows, basis: Rows) -> float:
    """The share of the variance of rows that lies in some directions."""
    apart = rows - rows.mean(axis=0, dtype=np.float64).astype(np.float32)
    with one_blas_thread():
        inside = np.square(apart @ basis).sum(dtype=np.float64)
    return float(inside / max(np.square(apart).sum(dtype=np.float64), 1e-30))
