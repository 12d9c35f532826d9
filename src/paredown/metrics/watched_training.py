"""Metrics read off training itself: EL2N, forgetting and what else a recorder sees, and ensemble uncertainty.

Probes are trained on all examples, each watched by a `Recorder`; a metric is the mean of the members' scores. Metrics
that are read off probes trained for the same number of epochs share one training.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from paredown.checkpoint import Arrays
from paredown.errors import PareError, argument, check_known, check_least
from paredown.metrics.base import Training, with_options_of
from paredown.metrics.disagreement import UNCERTAINTIES, ensemble_uncertainty, sum_predictions
from paredown.metrics.frozen_scores import FrozenScores
from paredown.metrics.probe_training import Probes, check_probes, load_probes
from paredown.metrics.reliability import reliability_facts
from paredown.recorder import RECORDED, Recorder
from paredown.sources import Source
from paredown.training import Recipe, find_recipe
from paredown.training.devices import torch_threads
from paredown.training.ensembles import trains_stacked
from paredown.training.schedule import steps_per_epoch

ACTIVE = "active_learning"
WATCHED = (*RECORDED, ACTIVE)
WINDOW = 10  # epochs that dyn_unc and tdds look at together, the recorder's default
# Read off probes trained for `probe_epochs`; the others need a whole training.
EARLY = (*(name for name, entry in RECORDED.items() if entry.early), ACTIVE)
_WINDOWED, _OF_FEATURES = (
    {name for name, entry in RECORDED.items() if getattr(entry, kind)} for kind in ("windowed", "of_features")
)


def epochs_of(metric: str, recipe: Recipe, n: int, epochs: int | None) -> int:
    """For how long the probes of a metric are trained on `n` examples by default.

    A probe that has taken few steps ranks classes rather than examples, so that small sets get more epochs than the
    recipe's `probe_epochs`.
    """
    if epochs is not None:
        return epochs
    if metric not in EARLY:
        return recipe.epochs
    return max(recipe.probe_epochs, -(-recipe.probe_steps // steps_per_epoch(n, recipe.batch_size)))


@with_options_of(load_probes)
def watch_training(
    source: Source,
    *,
    metrics: Sequence[str],
    members: int | None = None,
    epochs: int | None = None,
    uncertainty: str = "entropy",
    **options: Any,
) -> dict[str, FrozenScores]:
    """Train probes on all examples and read several metrics off them (section 2.1).

    EL2N is the length of softmax - onehot (Paul et al. 2021), averaged over the members in the last epoch of short
    trainings; forgetting counts how often an example is learned and lost again over a whole training (Toneva et al.
    2019); `paredown.recorder.RECORDED` has these and the others.

    Active learning is the uncertainty of the ensemble at the end of its training: the entropy of the members' mean
    prediction, -sum_c p(c) log p(c). Chitta et al. 2021, whose scores the paper was given as a yes or no, compare some
    such measures and select in rounds, an ensemble trained on the subset of the moment judging the rest. Here there is
    one round, as the paper defines pruning: probes trained for a short time judge the examples they saw.

    Args:
        metrics: names of `WATCHED`.
        members: number of networks; the recipe's `probe_members` by default. Their scores are averaged.
        epochs: epochs of training; as the recipe says by default. Then EL2N, GraNd and active learning train for its
            `probe_epochs` as the paper does (and at least `probe_steps`), and the others for its `epochs`, as
            forgetting needs a whole training.
        uncertainty: of `active_learning`: `entropy`, `mutual_information` or `variation_ratio`.
    """
    for metric in metrics:
        check_known("metric of a watched training", metric, WATCHED)
    check_watched(metrics, source, members=members, epochs=epochs, uncertainty=uncertainty, **options)
    probes = load_probes(source, epochs=epochs, **options)
    members = members or probes.recipe.probe_members
    lengths = {metric: epochs_of(metric, probes.recipe, len(probes.examples), epochs) for metric in metrics}
    fitted: dict[str, FrozenScores] = {}
    with torch_threads(probes.threads):
        for length in sorted(set(lengths.values())):
            together = [metric for metric in metrics if lengths[metric] == length]
            fitted |= _watch(probes, together, members, length, uncertainty)
    return {metric: fitted[metric] for metric in metrics}


def check_watched(
    metrics: Sequence[str],
    source: Source,
    *,
    members: int | None,
    epochs: int | None,
    uncertainty: str,
    **options: Any,
) -> None:
    """Raise at arguments of `watch_training` that make no sense, before anything is read."""
    check_known("uncertainty", uncertainty, UNCERTAINTIES)
    if uncertainty != UNCERTAINTIES[0] and ACTIVE not in metrics:
        raise PareError(f"{argument('uncertainty')} is an option of metric {ACTIVE!r}, which was not asked for.")
    check_least(1, members=members)
    recipe = check_probes(source, epochs=epochs, **options)
    for metric in metrics:
        if metric in _OF_FEATURES and not trains_stacked(recipe):
            raise PareError(
                f"metric {metric!r} looks at the last layer's inputs, which only the recipes 'mlp' and 'linear' show; "
                f"recipe {recipe.name!r} does not. Use 'el2n', which the same authors found to prune as well."
            )
        length = epochs_of(metric, recipe, len(source), epochs)
        if metric in _WINDOWED and length < WINDOW:
            raise PareError(f"metric {metric!r} looks at windows of {WINDOW} epochs, got {length}; train longer.")


def watched_trainings(
    metrics: Sequence[str], n: int, *, recipe: str | Recipe, members: int | None, epochs: int | None, **_: Any
) -> list[Training]:
    """One training for all metrics that are read off equally long ones."""
    recipe = find_recipe(recipe)
    lengths = {metric: epochs_of(metric, recipe, n, epochs) for metric in metrics}
    return [
        Training(tuple(m for m in metrics if lengths[m] == length), recipe, members or recipe.probe_members, length, n)
        for length in sorted(set(lengths.values()))
    ]


def _watch(probes: Probes, metrics: list[str], members: int, epochs: int, uncertainty: str) -> dict[str, FrozenScores]:
    """All metrics of one training; members of odd and of even number are added up apart, to compare the halves."""
    watch = partial(_watch_portion, probes, metrics, epochs)
    sums: Arrays = {}
    for done in probes.portions(f"watched-{epochs}", members, watch):
        sums = {name: sums[name] + value if sums else value for name, value in done.items()}
    counts = np.array([(members + 1) // 2, members // 2])
    fitted = {}
    for metric in metrics:
        facts: dict[str, Any] = {"members": members, "epochs": epochs}
        if metric == ACTIVE:
            facts["uncertainty"] = uncertainty
            values = ensemble_uncertainty({name: value.sum(axis=0) for name, value in sums.items()}, uncertainty)
            halves = [
                ensemble_uncertainty({name: value[half] for name, value in sums.items()}, uncertainty)
                for half in np.flatnonzero(counts)
            ]
        else:
            values = sums[metric].sum(axis=0) / members
            halves = list(sums[metric] / np.maximum(counts, 1)[:, None])
        facts |= reliability_facts(metric, halves if members > 1 else None, members)
        fitted[metric] = probes.scores(metric, values, **facts)
    return fitted


def _watch_portion(probes: Probes, metrics: list[str], epochs: int, portion: range) -> Arrays:
    """Train some members, and add up their scores and predictions by odd and even number, (2, ...)."""
    examples, n, classes = probes.examples, len(probes.examples), len(probes.examples.classes)
    recorded = [metric for metric in metrics if metric in RECORDED]
    recorders = [Recorder(n, classes, window=WINDOW, tdds="tdds" in recorded) for _ in portion] if recorded else None
    with_features = not _OF_FEATURES.isdisjoint(recorded)
    ensemble = probes.train(portion, epochs=epochs, recorders=recorders, with_features=with_features)
    halves = np.array(portion) % 2
    arrays: Arrays = {metric: np.zeros((2, n)) for metric in recorded}
    for metric in recorded:
        for half, recorder in zip(halves, recorders or (), strict=True):
            arrays[metric][half] += recorder.scores(metric).values
    if ACTIVE in metrics:
        arrays |= {name: np.empty((2, n, classes)) for name in ("probabilities", "votes")}
        arrays |= {name: np.empty((2, n)) for name in ("entropies", "members")}
        for rows, logits in ensemble.blocks(examples):
            for half in range(2):
                for name, total in sum_predictions(logits[halves == half]).items():
                    arrays[name][half, rows] = total
    return arrays
