"""The paper's own metrics: cosine distance to a prototype (section 6, self-supervised and supervised)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.checkpoint import Checkpoint
from paredown.clustering.kernels import (
    KERNELS,
    SAMPLE_ROWS,
    CentroidSearch,
    choose_search,
    load_search,
    nearest,
    search_arrays,
)
from paredown.clustering.kernels.grouped import (
    PROBES,
    GroupedSearch,
    SearchAgreement,
    measure_agreement,
    search_work,
)
from paredown.clustering.kmeans import KMeans, SourceClustering, spherical_kmeans
from paredown.clustering.lloyd import grouped_search, two_level_products
from paredown.clustering.ranged_rows import RangedEmbeddings, open_range
from paredown.correlations import rank_correlation
from paredown.engines.base import combined
from paredown.errors import PareError, check_known
from paredown.metrics.base import Work
from paredown.metrics.prediction_arrays import read_labels, read_numbers
from paredown.progress import Track, silent
from paredown.scores import Batch, Scored, unit_rows
from paredown.sources import Source, VectorSource
from paredown.sources.base import CHUNK_BLOCKS
from paredown.sources.row_ranges import RowRange

SENSITIVITY_ROWS = 5_000  # sample on which the ranking at k is compared with k/3 and 3k
AGREEMENT_ROWS = 4_096  # on which an approximate search is compared with the exact one
_ITERATIONS = 30  # of k-means with its seeding and the sensitivity to k, roughly
_SENSITIVITY_K = 10_000  # from which on that would take longer than the clustering


def prototype_distance(embeddings: ArrayLike, centroids: ArrayLike, labels: ArrayLike | None = None) -> NDArray[Any]:
    """The cosine distance of each embedding to its nearest prototype, 1 - max_k cos(x, c_k); higher is harder.

    With `labels`, to the prototype of its own class, 1 - cos(x, c_y). Sorscher et al. 2022, "Beyond neural scaling
    laws", section 6: the centroids are those of spherical k-means, or the mean embedding of each class.

    >>> prototype_distance([[2.0, 0.0], [1.0, 1.0]], centroids=[[1.0, 0.0], [0.0, -3.0]]).round(3)
    array([0.   , 0.293], dtype=float32)

    Args:
        embeddings: (examples, dimensions), of any length but zero.
        centroids: (prototypes, dimensions), likewise.
        labels: the prototype of each example, (examples,); the nearest unless given.
    """
    x, c = _unit(embeddings, "embeddings", "examples"), _unit(centroids, "centroids", "prototypes")
    if x.shape[1] != c.shape[1]:
        raise PareError(f"embeddings have {x.shape[1]} dimensions and centroids {c.shape[1]}; they must agree.")
    if labels is None:
        return 1 - nearest(x, c)[1]
    return _own_distance(x, c, read_labels(labels, len(x), len(c)))


def _unit(vectors: ArrayLike, name: str, rows: str) -> NDArray[np.float32]:
    array = read_numbers(vectors, name, rows, "dimensions")
    return unit_rows(array, ids=np.arange(len(array)), first=0, where=name)


def _own_distance(x: NDArray[np.float32], centroids: NDArray[np.float32], own: NDArray[np.int64]) -> NDArray[Any]:
    return 1 - np.vecdot(x, centroids[own])


@dataclass(frozen=True)
class Prototypes:
    """Centroids of spherical k-means; a row's score is its cosine distance to the nearest one."""

    centroids: NDArray[np.float32]
    search: CentroidSearch
    facts: dict[str, Any] = field(default_factory=dict)

    def score(self, batch: Batch) -> Scored:
        index, cosine = self.search(batch.vectors)
        return Scored(1 - cosine, index)

    def report(self) -> dict[str, Any]:
        return self.facts

    @property
    def approximation(self) -> dict[str, Any]:
        """Of the report, what concerns an approximate search."""
        return {name: self.facts[name] for name in ("agreement", "warnings") if name in self.facts}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"centroids": self.centroids, **search_arrays(self.search)}

    @classmethod
    def load(cls, arrays: dict[str, NDArray[Any]], report: dict[str, Any]) -> Prototypes:
        """The same prototypes with the same search."""
        search = load_search(report["kernel"], arrays["centroids"], arrays)
        report = report | {"kernel": search.name}
        if "agreement" in report and not isinstance(search, GroupedSearch):  # every prototype is looked at now
            agreement, warnings = SearchAgreement(**report.pop("agreement")), report.pop("warnings", [])
            report["warnings"] = warnings if agreement.warning is None else warnings[:-1]  # that of the search is last
        return cls(arrays["centroids"], search, report)


def fit_prototypes(
    source: VectorSource | RangedEmbeddings,
    *,
    seed: int,
    k: int | None = None,
    method: str = "auto",
    sample_per_centroid: int = 256,
    iterations: int = 25,
    passes: int | None = None,
    restarts: int = 1,
    sensitivity: bool = True,
    kernel: str = "auto",
    probes: int | None = None,
    memory: int = 2**30,
    start: NDArray[np.float32] | None = None,
    checkpoint: Checkpoint | None = None,
    track: Track = silent,
) -> Prototypes:
    """Cluster the embeddings by spherical k-means (section 6 and the appendix on k).

    All kernels give the same scores and differ in speed only. For more than 10,000 prototypes the kernel `auto` is
    approximate: each row is compared with the prototypes of the nearest `probes` groups, and the report says how well
    that agrees with the exact search on some rows. Half of `memory` holds rows; where the sample does not fit, passes
    read the source again.

    Args:
        source: the embeddings.
        seed: decides the sample and the first centroids.
        k: number of prototypes; if not given, the number of classes, or half the root of n without labels.
        method: which rows are clustered and how, a name in `clustering.kmeans.METHODS`.
        sample_per_centroid: rows of the sample for each prototype.
        iterations: rounds of k-means on the sample.
        passes: rounds over all rows after those on the sample; as many as the method needs by default.
        restarts: how often the sample is clustered; the best clustering is used.
        sensitivity: measure how much the scores depend on k, for k below 10,000.
        kernel: how rows are compared with centroids, a name in `clustering.kernels.KERNELS`.
        probes: groups of prototypes that a row is compared with; as many as agree well on a sample, and all prototypes
            for k up to 10,000, by default.
        memory: bytes to work in.
        start: centroids to begin with.
        checkpoint: keeps finished passes.
        track: reports progress.
    """
    n = len(source)
    if k is None:
        k = choose_k(source) if start is None else len(start)
    plan = KMeans(
        k,
        seed=seed,
        method=method,
        iterations=iterations,
        restarts=restarts,
        passes=passes,
        sample_per_centroid=sample_per_centroid,
        start=start,
        kernel=kernel,
        probes=probes,
        memory=memory,
        checkpoint=checkpoint,
    )
    sensitivity = sensitivity and n > 2 and k < _SENSITIVITY_K
    wanted = max(SENSITIVITY_ROWS, 6 * k) if sensitivity else SAMPLE_ROWS
    found = plan.cluster(source, head_rows=wanted, track=track)
    warnings, agreement = list(found.warnings), None
    if plan.is_grouped:
        search, agreement = _approximate_search(source, found, plan)
        warnings += [] if agreement.warning is None else [agreement.warning]
    else:
        search = choose_search(found.centroids, found.head, n=n, kernel=kernel)
    facts: dict[str, Any] = {
        "k": k,
        "method": plan.method,
        "rows_clustered": found.rows_clustered,
        "mean_cosine": found.mean_cosine,
        "kernel": search.name,
    }
    if agreement is not None:
        facts["agreement"] = agreement.to_dict()
    if warnings:
        facts["warnings"] = warnings
    if sensitivity:
        facts["k_sensitivity"] = _k_sensitivity(found.head, k, seed, track)
    return Prototypes(search.centroids, search, facts)


def _approximate_search(
    source: VectorSource | RangedEmbeddings, found: SourceClustering, plan: KMeans
) -> tuple[CentroidSearch, SearchAgreement]:
    """The search among groups of centroids, and how it agrees with the exact one on rows by another hash."""
    search = grouped_search(found.centroids, plan.probes or PROBES)
    rows = source.sample(AGREEMENT_ROWS, seed=(plan.seed + 1) % 2**64)
    agreement = measure_agreement(search, rows, plan.probes)
    return GroupedSearch(search.centroids, search.starts, search.middles, agreement.probes), agreement


def check_clustering(metrics: Sequence[str], source: Source, *, k: int | None = None, **options: Any) -> None:
    """Raise at options of k-means that make no sense for a source; images have as many dimensions as they get."""
    check_known("kernel", options["kernel"], KERNELS)
    given = {entry.name: options[entry.name] for entry in fields(KMeans) if entry.name in options}
    KMeans(k or 1, seed=0, **given).check(len(source), source.dim if isinstance(source, VectorSource) else 1)


def prototypes_work(
    source: VectorSource,
    *,
    k: int | None = None,
    kernel: str = "auto",
    probes: int | None = None,
    memory: int = 2**30,
    **_: Any,
) -> Work:
    """k-means on a sample, and one comparison of every row with the centroids, or with some groups of them."""
    n = len(source)
    k = min(choose_k(source) if k is None else max(k, 1), n)
    sample = min(n, 256 * k)
    held = min(4 * source.dim * (sample + k), memory // 2)
    plan = KMeans(k, seed=0, kernel=kernel, probes=probes)
    if plan.is_grouped:
        others = round(search_work(k, plan.probes or PROBES))
        cells = round(sum(two_level_products(sample, k, plan.iterations, staged=True)) / sample)
        return Work(passes=3, products=((n + 2 * sample, others), (sample, cells)), memory=held, k=k)
    return Work(passes=2, products=((n + _ITERATIONS * sample, k),), memory=held, k=k)


def default_k(n: int) -> int:
    """Half the square root of the number of examples, at least 2.

    The paper finds k within a factor of ten of the number of classes equally good (appendix on the number of clusters);
    half the root of n is within that factor for data sets as different as digits (21 for 10 classes), CIFAR-100 (112
    for 100) and ImageNet (566 for 1000).
    """
    return min(n, max(2, round(math.sqrt(n) / 2)))


def choose_k(source: VectorSource | RangedEmbeddings) -> int:
    """The number of classes where there are labels, otherwise `default_k`."""
    if source.labels is not None and len(source.labels.classes) > 1:
        return min(len(source.labels.classes), len(source))
    return default_k(len(source))


def _k_sensitivity(sample: NDArray[np.float32], k: int, seed: int, track: Track) -> dict[str, float]:
    """Spearman correlation of the scores at k with those at k/3 and 3k, all fitted to the same sample.

    High values say that the choice of k hardly matters for which examples are kept.
    """
    sizes = [max(1, round(k / 3)), k, min(3 * k, max(1, len(sample) // 2))]
    distances = [
        1 - nearest(sample, spherical_kmeans(sample, size, seed=seed, iterations=8).centroids)[1]
        for size in track(sizes, "sensitivity to k", total=len(sizes))
    ]
    return {  # a constant ranking says nothing
        str(size): rank_correlation(distances[1], other, constant=0.0)
        for size, other in zip(sizes, distances, strict=True)
        if size != k
    }


@dataclass(frozen=True)
class ClassPrototypes:
    """One unit prototype per class; a row's score is its cosine distance to that of its own class."""

    centroids: NDArray[np.float32]

    def score(self, batch: Batch) -> Scored:
        assert batch.labels is not None
        return Scored(_own_distance(batch.vectors, self.centroids, batch.labels))

    def report(self) -> dict[str, Any]:
        return {"classes": len(self.centroids)}

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"centroids": self.centroids}

    @classmethod
    def load(cls, arrays: dict[str, NDArray[Any]], report: dict[str, Any]) -> ClassPrototypes:
        """The same prototypes again."""
        return cls(arrays["centroids"])


def fit_supervised_prototypes(
    source: VectorSource | RangedEmbeddings, *, seed: int, track: Track = silent
) -> ClassPrototypes:
    """Average the embeddings of each class (section 6, the supervised baseline).

    Embeddings are scaled to unit length before averaging, so that a few long ones do not decide the direction.
    """
    assert source.labels is not None
    classes = source.labels.classes
    if isinstance(source, RangedEmbeddings):
        how = {"classes": classes, "value_bytes": 8 * len(classes) * source.dim}
        sums = source.fold(f"{__name__}:class_sums", "paredown.clustering.ranged_rows:add", track, "class means", **how)
    else:
        batches = track(source.batches(), "class means", total=source.n_blocks)
        chunks = (chain([first], islice(batches, CHUNK_BLOCKS - 1)) for first in batches)
        sums = combined(np.add, (_class_sums(chunk, len(classes), source.dim) for chunk in chunks))
    lengths = np.sqrt(np.square(sums).sum(axis=1))[:, None]
    # A class that cancels to nothing has no direction: every member is equally far from it.
    return ClassPrototypes(np.divide(sums, lengths, out=np.zeros_like(sums), where=lengths > 1e-9).astype(np.float32))


def class_sums(common: dict[str, Any], rows: RowRange) -> NDArray[np.float64]:
    """What a worker does: the sum of the unit rows of each class in a range."""
    source = open_range(common, rows)
    assert source.labels is not None
    source.labels = source.labels.numbered_like(common["classes"])
    return _class_sums(source.batches(), len(common["classes"]), source.dim)


def _class_sums(batches: Iterable[Batch], classes: int, dim: int) -> NDArray[np.float64]:
    sums = np.zeros((classes, dim))
    for batch in batches:
        assert batch.labels is not None
        order = np.argsort(batch.labels, kind="stable")
        present, starts = np.unique(batch.labels[order], return_index=True)
        sums[present] += np.add.reduceat(batch.vectors[order], starts, axis=0, dtype=np.float64)
    return sums
