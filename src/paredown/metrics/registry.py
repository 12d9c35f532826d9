"""The registry of metrics: everything that the command line, the estimates and the tables in the docs know of one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from paredown.errors import PareError, check_known
from paredown.metrics.base import Metric, Work, one_of
from paredown.metrics.ddd import check_ddd, ddd_trainings, fit_ddd
from paredown.metrics.density import Density, check_density, density_work, fit_density
from paredown.metrics.duplicates import check_duplicates, duplicates_work, fit_duplicates
from paredown.metrics.frozen_scores import FrozenScores
from paredown.metrics.held_out_votes import check_voters, fit_variation_ratio
from paredown.metrics.k_center import check_k_center, fit_k_center, k_center_work
from paredown.metrics.probe_training import trainings_on_subsets
from paredown.metrics.prototypes import (
    ClassPrototypes,
    Prototypes,
    check_clustering,
    fit_prototypes,
    fit_supervised_prototypes,
    prototypes_work,
)
from paredown.metrics.random_scores import fit_random
from paredown.metrics.ranged_plans import plan_class_means, plan_prototypes, plan_random
from paredown.metrics.subset_training import check_subsets, subset_trainings, train_on_subsets
from paredown.metrics.typicality import check_typicality, fit_typicality, typicality_work
from paredown.metrics.watched_training import EARLY, check_watched, watch_training, watched_trainings
from paredown.recorder import RECORDED

_TRAINED = ("embeddings", "labels", "training")  # images instead of embeddings, or clusters instead of labels, if asked


def _watched(name: str, summary: str, reference: str) -> Metric:
    """A metric read off the training of some probes."""
    return Metric(
        one_of(watch_training, name),
        summary=summary,
        needs=_TRAINED,
        cost="10 networks, trained for a short time once for all such metrics"
        if name in EARLY
        else "10 networks, trained once for all such metrics",
        reference=reference,
        load=FrozenScores.load,
        together=watch_training,
        trains=watched_trainings,
        check=check_watched,
    )


def _subsampled(name: str, summary: str) -> Metric:
    """A metric that compares models on random subsets."""
    return Metric(
        one_of(train_on_subsets, name),
        summary=summary,
        needs=_TRAINED,
        cost="120 networks on 70 % of the examples, trained once for all such metrics; none with closed_form",
        reference="section 2.1; Feldman and Zhang 2020",
        load=FrozenScores.load,
        together=train_on_subsets,
        trains=subset_trainings,
        check=check_subsets,
    )


METRICS: dict[str, Metric] = {
    "random": Metric(
        fit_random,
        summary="a uniform random number: the baseline to beat",
        needs=(),
        cost="nothing",
        reference="section 3",
        plan=plan_random,
    ),
    "prototypes": Metric(
        fit_prototypes,
        summary="cosine distance to the nearest k-means centroid of the embeddings",
        needs=("embeddings",),
        cost="k-means on a sample, then one pass over the embeddings",
        reference="section 6, appendices on the number of clusters and on ensembles",
        load=Prototypes.load,
        with_labels="supervised_prototypes",
        clusters=True,
        work=prototypes_work,
        check=check_clustering,
        plan=plan_prototypes,
    ),
    "supervised_prototypes": Metric(
        fit_supervised_prototypes,
        summary="cosine distance to the mean embedding of the example's own class",
        needs=("embeddings", "labels"),
        cost="two passes over the embeddings",
        reference="section 6",
        load=ClassPrototypes.load,
        work=lambda source, **_: Work(passes=2),
        plan=plan_class_means,
    ),
    "el2n": _watched(
        "el2n",
        "mean length of the error vector of probes trained for a short time",
        "section 2.1; Paul et al. 2021",
    ),
    "forgetting": _watched(
        "forgetting", "how often an example is learned and lost again in training", "section 2.1; Toneva et al. 2019"
    ),
    "memorization": _subsampled(
        "memorization", "how much more often models that trained on the example classify it correctly"
    ),
    "influence_max": _subsampled("influence_max", "largest (signed) effect of training on this example on any other"),
    "influence_sum_abs": _subsampled(
        "influence_sum_abs", "sum of the absolute effects of training on this example on all others"
    ),
    "active_learning": _watched(
        "active_learning",
        "an ensemble's uncertainty: entropy of its mean prediction",
        "section 2.1; Chitta et al. 2021",
    ),
    "ddd": Metric(
        fit_ddd,
        summary="how many of a diverse ensemble misclassify the example, none of which trained on it",
        needs=_TRAINED,
        cost="10 kinds of network, each trained without one of 5 folds: 50 networks",
        reference="section 2.1; Meding et al. 2022",
        load=FrozenScores.load,
        trains=ddd_trainings,
        check=check_ddd,
    ),
    "variation_ratio": Metric(
        fit_variation_ratio,
        summary="how many networks that did not train on the example disagree with the majority vote",
        needs=_TRAINED,
        cost="40 networks on 70 % of the examples",
        reference="Freeman 1965; Beluch et al. 2018",
        load=FrozenScores.load,
        trains=trainings_on_subsets,
        check=check_voters,
    ),
    "typicality": Metric(
        fit_typicality,
        summary="mean cosine distance to the 20 nearest neighbours: the least typical examples are the hardest",
        needs=("embeddings",),
        cost="every row against all rows that fit into half of `memory`",
        reference="Hacohen, Dekel and Weinshall 2022, typicality",
        work=typicality_work,
        check=check_typicality,
    ),
    "duplicates": Metric(
        fit_duplicates,
        summary="cosine distance to the nearest example before it, in a random order: near-copies are dropped first",
        needs=("embeddings",),
        cost="k-means, then every row against those of its cluster",
        reference="Abbas, Tirumala, Simig, Ganguli and Morcos 2023 (SemDeDup)",
        load=FrozenScores.load,
        work=duplicates_work,
        check=check_duplicates,
    ),
    "k_center": Metric(
        fit_k_center,
        summary="the order in which farthest-point picking covers the data: the first picks are kept",
        needs=("embeddings",),
        cost="all rows in memory, one pass over them for each of up to 10,000 picks",
        reference="Sener and Savarese 2018, algorithm 1",
        load=FrozenScores.load,
        work=k_center_work,
        check=check_k_center,
    ),
    "density": Metric(
        fit_density,
        summary="rank inside a k-means cluster against the cluster's budget: complex clusters keep more",
        needs=("embeddings",),
        cost="that of `prototypes` and one more pass",
        reference="Abbas, Rusak, Tirumala, Brendel, Chaudhuri and Morcos 2024, density-based pruning",
        load=Density.load,
        clusters=True,
        work=density_work,
        check=check_density,
    ),
}
METRICS |= {
    name: _watched(name, entry.summary, entry.reference) for name, entry in RECORDED.items() if name not in METRICS
}


def find_metric(name: str) -> Metric:
    """The entry of a name, or an error that names the nearest."""
    check_known("metric", name, METRICS)
    return METRICS[name]


def check_ranged(name: str) -> Metric:
    """The entry of a name, or an error if that metric needs all examples at once."""
    entry = find_metric(name)
    if not entry.ranged:
        able = ", ".join(name for name, entry in METRICS.items() if entry.ranged)
        raise PareError(f"metric {name!r} needs all examples on one machine; by ranges of rows: {able}.")
    return entry


def check_options(metrics: Sequence[str], options: Mapping[str, Any]) -> None:
    """Raise unless every option is one of some metric's, and of its type where there is only one metric."""
    if len(metrics) == 1:
        find_metric(metrics[0]).check_options(metrics[0], dict(options))
    for option in options:
        if not any(option in find_metric(metric).options for metric in metrics):
            raise PareError(f"none of the metrics {', '.join(metrics)} has an option {option!r}.")


def check_arguments(metrics: Sequence[str], source: Any, options: Mapping[str, Any]) -> None:
    """Raise at options that make no sense together, or for an opened source; nothing is read or trained for that."""
    for names in sharing_a_fit(metrics):
        entry = METRICS[names[0]]
        if entry.check is not None:
            own = options if len(metrics) == 1 else entry.own_options(options)
            entry.check(names, source, **{**entry.options, **own})


def sharing_a_fit(metrics: Sequence[str]) -> list[list[str]]:
    """The metrics, those together that are read off the same training."""
    groups: dict[Any, list[str]] = {}
    for metric in dict.fromkeys(metrics):
        groups.setdefault(METRICS[metric].together or metric, []).append(metric)
    return list(groups.values())


def uses_embeddings(metrics: Sequence[str], options: Mapping[str, Any]) -> bool:
    """Whether any of the metrics looks at embeddings under these options."""
    return any("embeddings" in METRICS[metric].needs_with(dict(options)) for metric in metrics)
