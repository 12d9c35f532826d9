"""Metrics: how hard each example is. One file per idea, one line per metric in `METRICS`."""

from __future__ import annotations

from paredown.metrics.base import Metric, one_of
from paredown.metrics.ddd import fit_ddd
from paredown.metrics.density import Density, fit_density
from paredown.metrics.duplicates import fit_duplicates
from paredown.metrics.frozen_scores import FrozenScores
from paredown.metrics.k_center import fit_k_center
from paredown.metrics.prototypes import ClassPrototypes, Prototypes, fit_prototypes, fit_supervised_prototypes
from paredown.metrics.random_scores import fit_random
from paredown.metrics.recorded_metrics import EARLY, watch_training
from paredown.metrics.subset_training import train_on_subsets
from paredown.metrics.typicality import fit_typicality
from paredown.recorder import RECORDED

__all__ = ["DEFAULT_METRIC", "METRICS"]

DEFAULT_METRIC = "prototypes"  # needs no labels and trains nothing

_TRAINED = ("embeddings", "labels", "training")  # images instead of embeddings, or clusters instead of labels, if asked


def _watched(name: str, summary: str, reference: str) -> Metric:
    """A metric read off the training of some probes."""
    epochs = "probe_epochs" if name in EARLY else "epochs"
    cost = f"training the recipe's probe_members (10) networks for its {epochs}, shared by all metrics that do"
    fit = one_of(watch_training, name)
    return Metric(fit, summary, _TRAINED, cost, reference, load=FrozenScores.load, together=watch_training)


def _subsampled(name: str, summary: str) -> Metric:
    """A metric that compares models on random subsets."""
    cost = "training 120 networks on 70 % of the examples, shared by memorization and both influences"
    reference = "section 2.1; Feldman and Zhang 2020"
    fit = one_of(train_on_subsets, name)
    return Metric(fit, summary, _TRAINED, cost, reference, load=FrozenScores.load, together=train_on_subsets)


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
    "el2n": _watched(
        "el2n",
        "mean length of the error vector of probes trained for a short time",
        "section 2.1; Paul et al. 2021",
    ),
    "forgetting": _watched(
        "forgetting", "how often an example is learned and lost again in training", "section 2.1; Toneva et al. 2019"
    ),
    "memorization": _subsampled("memorization", "how much more often models are right that trained on the example"),
    "influence_max": _subsampled("influence_max", "the most that training on the example helps any other one"),
    "influence_sum_abs": _subsampled("influence_sum_abs", "how much training on the example changes others, summed up"),
    "active_learning": _watched(
        "active_learning",
        "an ensemble's uncertainty: entropy of its mean prediction",
        "section 2.1; Chitta et al. 2021",
    ),
    "ddd": Metric(
        fit_ddd,
        summary="how many of a diverse ensemble misclassify the example, none of which trained on it",
        needs=_TRAINED,
        cost="training 10 kinds of network on all but one of 5 folds: 50 networks",
        reference="section 2.1; Meding et al. 2022",
        load=FrozenScores.load,
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
        load=FrozenScores.load,
    ),
    "k_center": Metric(
        fit_k_center,
        summary="the order in which farthest-point picking covers the data: the first picks are kept",
        needs=("embeddings",),
        cost="all rows in memory; n picks dim multiplications, with at most 10,000 picks unless told",
        reference="Sener and Savarese 2018, algorithm 1",
        load=FrozenScores.load,
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
METRICS |= {
    name: _watched(name, entry.summary, entry.reference) for name, entry in RECORDED.items() if name not in METRICS
}
