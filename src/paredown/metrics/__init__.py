"""Metrics: how hard each example is. One file per idea, one line per metric in `METRICS`."""

from __future__ import annotations

from paredown.metrics.base import Metric, Model
from paredown.metrics.prototypes import ClassPrototypes, Prototypes, fit_prototypes, fit_supervised_prototypes
from paredown.metrics.random import fit_random

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
        cost="k-means on a sample of 256 k rows, then one pass of n k dim multiplications",
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
}
