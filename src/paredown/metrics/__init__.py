"""Metrics: how hard each example is. One file per idea, one line per metric in `METRICS`."""

from __future__ import annotations

from paredown.metrics.base import Metric, Model
from paredown.metrics.density import Density, fit_density
from paredown.metrics.duplicates import fit_duplicates
from paredown.metrics.k_center import fit_k_center
from paredown.metrics.lookup import LookedUp
from paredown.metrics.prototypes import ClassPrototypes, Prototypes, fit_prototypes, fit_supervised_prototypes
from paredown.metrics.random import fit_random
from paredown.metrics.typicality import fit_typicality

__all__ = ["METRICS", "Metric", "Model"]

METRICS: dict[str, Metric] = {
    "random": Metric(
        fit_random,
        summary="a uniform random number: the baseline to beat",
        needs=(),
        cost="nothing",
        reference="section 3",
    ),
    "prototypes": Metric(
        fit_prototypes,
        summary="cosine distance to the nearest k-means centroid of the embeddings; no labels needed",
        needs=("embeddings",),
        cost="k-means on a sample of 256 k rows (or as `method` says), then one pass of n k dim multiplications",
        reference="section 6, appendices on the number of clusters and on ensembles",
        load=Prototypes.load,
    ),
    "supervised_prototypes": Metric(
        fit_supervised_prototypes,
        summary="cosine distance to the mean embedding of the example's own class",
        needs=("embeddings", "labels"),
        cost="two passes over the embeddings",
        reference="section 6",
        load=ClassPrototypes.load,
    ),
    "typicality": Metric(
        fit_typicality,
        summary="mean cosine distance to the 20 nearest neighbours: the least typical examples are the hardest",
        needs=("embeddings",),
        cost="one pass to keep r reference rows (all that fit half of memory), one of n r dim multiplications",
        reference="Hacohen, Dekel and Weinshall 2022, typicality",
    ),
    "duplicates": Metric(
        fit_duplicates,
        summary="cosine distance to the nearest example before it, in a random order: near-copies are dropped first",
        needs=("embeddings",),
        cost="k-means, then n^2 / (2k) dim multiplications, in one pass for each half of memory the embeddings fill",
        reference="Abbas, Tirumala, Simig, Ganguli and Morcos 2023 (SemDeDup)",
        load=LookedUp.load,
    ),
    "k_center": Metric(
        fit_k_center,
        summary="the order in which farthest-point picking covers the data: the first picks are kept",
        needs=("embeddings",),
        cost="all rows in memory; n picks dim multiplications, with at most 10,000 picks unless told",
        reference="Sener and Savarese 2018, algorithm 1",
        load=LookedUp.load,
    ),
    "density": Metric(
        fit_density,
        summary="rank inside a k-means cluster against the cluster's budget: complex clusters keep more",
        needs=("embeddings",),
        cost="that of prototypes and one more pass of n k dim multiplications",
        reference="Abbas, Rusak, Tirumala, Brendel, Chaudhuri and Morcos 2024, density-based pruning",
        load=Density.load,
    ),
}
