"""Cluster budgets: spread-out clusters far from others keep more (Abbas et al. 2024, density-based pruning)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels.neighbours import NeighbourSearch
from paredown.errors import PareError, argument
from paredown.metrics.base import Work, with_options_of
from paredown.metrics.prototypes import Prototypes, check_clustering, fit_prototypes, prototypes_work
from paredown.progress import Track, silent
from paredown.scores import Batch, Scored
from paredown.sources import Source, VectorSource

_APART = 4.0  # more than two cosine distances differ by: puts the distances of each cluster into a range of its own


@dataclass(frozen=True)
class Density:
    """Clusters with a share of the budget each, and the distances of their members to rank a row by its own."""

    prototypes: Prototypes
    keys: NDArray[np.float64]  # cluster * 4 + distance to the centroid, ascending
    ends: NDArray[np.int64]  # of each cluster in `keys`
    shares: NDArray[np.float64]
    facts: dict[str, Any] = field(default_factory=dict)

    def score(self, batch: Batch) -> Scored:
        index, cosine = self.prototypes.search(batch.vectors)
        # How many members are at least as far from the centroid, the row among them; a new one may exceed all.
        rank = np.maximum(1, self.ends[index] - np.searchsorted(self.keys, _keys(index, cosine)))
        return Scored(len(self.keys) * self.shares[index] / rank, index)

    def report(self) -> dict[str, Any]:
        return self.facts

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"keys": self.keys, "ends": self.ends, "shares": self.shares, **self.prototypes.arrays()}

    @classmethod
    def load(cls, arrays: dict[str, NDArray[Any]], report: dict[str, Any]) -> Density:
        """The same budgets with the same search."""
        prototypes = Prototypes.load(arrays, report)
        return cls(prototypes, arrays["keys"], arrays["ends"], arrays["shares"], prototypes.report())


@with_options_of(fit_prototypes, "method", "restarts", "kernel", "memory", "start")
def fit_density(
    source: VectorSource,
    *,
    seed: int,
    k: int | None = None,
    neighbours: int = 20,
    temperature: float = 0.1,
    track: Track = silent,
    **options: Any,
) -> Density:
    """Give each cluster a share of what is kept by its complexity, and rank its rows against that share.

    After "Effective pruning of web-scale data based on complexity of concept clusters" (Abbas, Rusak, Tirumala,
    Brendel, Chaudhuri and Morcos 2024).

    The complexity of a cluster is C = d_inter d_intra: the mean cosine distance of its centroid to the `neighbours`
    nearest other centroids, times that of its members to the centroid. Its share is p = softmax(C / temperature), over
    the clusters. With r the number of members of its cluster at least as far from the centroid as a row is,

        score = n p / r,

    so that keeping the hardest m rows keeps min(size, l p) of each cluster with one l for all: budgets proportional to
    p, filled up in proportion where a cluster is too small for its own. As long as none is, the rows kept at fraction f
    are those with score >= 1 / f. This departs from the paper, which mends budgets that exceed their cluster by a
    quadratic program. A floor per cluster (`balance`) would soften the budgets: 0 leaves them as they are.

    Args:
        source: the embeddings.
        seed: decides the sample and the first centroids.
        k: number of clusters; if not given that of the classes, or without labels half the root of n.
        neighbours: nearest other clusters whose distance counts.
        temperature: the lower, the more of the budget goes to complex clusters.
        track: reports progress.
    """
    _check(neighbours, temperature)
    prototypes = fit_prototypes(source, seed=seed, k=k, sensitivity=False, track=track, **options)
    found = [
        _keys(*prototypes.search(batch.vectors))
        for batch in track(source.batches(), "distances in clusters", total=source.n_blocks)
    ]
    keys = np.sort(np.concatenate(found))
    clusters = np.floor((keys + 1) / _APART).astype(np.int64)  # rounding may leave a distance just below 0
    sizes = np.bincount(clusters, minlength=len(prototypes.centroids))
    intra = np.bincount(clusters, keys - _APART * clusters, len(sizes)) / np.maximum(sizes, 1)
    inter = _distance_to_others(prototypes.centroids, neighbours)
    shares = budget_shares(np.where(sizes > 0, intra * inter, -np.inf), temperature)
    facts = {
        "clusters": len(sizes),
        "largest_share": float(shares.max()),
        "smallest_share": float(shares.min()),
        "kernel": prototypes.search.name,
        **prototypes.approximation,
    }
    return Density(prototypes, keys, np.cumsum(sizes), shares, facts)


def check_density(
    metrics: Sequence[str], source: Source, *, neighbours: int, temperature: float, **options: Any
) -> None:
    """Raise at options of `fit_density` that make no sense, before anything is read."""
    _check(neighbours, temperature)
    check_clustering(metrics, source, **options)


def _check(neighbours: int, temperature: float) -> None:
    if neighbours < 1 or not temperature > 0:
        raise PareError(
            f"{argument('neighbours')} must be at least 1 and {argument('temperature')} above 0, got {neighbours} and "
            f"{temperature}."
        )


def density_work(source: VectorSource, **options: Any) -> Work:
    """That of prototypes, and one more pass that compares every row with the centroids."""
    work = prototypes_work(source, **options)
    assert work.k is not None
    again = (len(source), work.k)
    return work._replace(passes=3, products=(*work.products, again), memory=work.memory + 8 * len(source))


def budget_shares(complexity: NDArray[np.float64], temperature: float) -> NDArray[np.float64]:
    """softmax(complexity / temperature), never quite zero so that rows of the poorest cluster still have an order."""
    weights = np.exp((complexity - complexity.max()) / temperature)
    return np.maximum(weights / weights.sum(), 1e-200)


def _keys(index: NDArray[np.int64], cosine: NDArray[np.float32]) -> NDArray[np.float64]:
    """One ascending order for all clusters at once; float64 holds cluster and distance exactly."""
    return _APART * index + (1 - cosine).astype(np.float64)


def _distance_to_others(centroids: NDArray[np.float32], neighbours: int) -> NDArray[np.float64]:
    """The mean cosine distance of each centroid to its nearest others; 1 if there are none."""
    count = min(neighbours, len(centroids) - 1)
    if count == 0:
        return np.ones(len(centroids))
    return 1 - NeighbourSearch(centroids, count)(centroids, np.arange(len(centroids))).mean(axis=1, dtype=np.float64)
