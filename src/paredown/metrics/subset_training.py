"""Memorization and influence: models trained on random subsets, compared by who was in them (section 2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.checkpoint import Arrays
from paredown.errors import PareError, argument, check_known
from paredown.metrics.base import Training, with_options_of
from paredown.metrics.frozen_scores import FrozenScores
from paredown.metrics.leave_one_out import leave_one_out
from paredown.metrics.probe_training import Probes, check_probes, load_probes, trainings_on_subsets
from paredown.metrics.reliability import reliability_facts
from paredown.metrics.subset_estimates import (
    balanced_masks,
    check_subset_size,
    estimate_influence,
    estimate_memorization,
)
from paredown.sources import Source, VectorSource, open_source
from paredown.training import Recipe
from paredown.training.devices import torch_threads
from paredown.training.examples import TrainingSet, load_examples

SUBSAMPLED = ("memorization", "influence_max", "influence_sum_abs")
_SUBSET = 0.7
DEFAULT_MEMBERS = 120  # memorization on 5,000 images is then reliable to 0.9; influence is not


@with_options_of(load_probes)
def train_on_subsets(
    source: Source,
    *,
    metrics: Sequence[str],
    members: int = DEFAULT_MEMBERS,
    subset: float = _SUBSET,
    test: str | Path | Source | None = None,
    closed_form: bool = False,
    **options: Any,
) -> dict[str, FrozenScores]:
    """Train models on random subsets and compare those with and those without each example (Feldman and Zhang 2020).

    Args:
        metrics: of `memorization`, `influence_max` and `influence_sum_abs`; all come from the same models.
        members: number of networks. The report says how reliable scores from so many are, and warns where they are not.
        subset: the share of the examples that a network trains on.
        test: labelled examples on which influence is measured; the training examples that a model did not train on
            unless given.
        closed_form: in place of training networks, leave every example out of a linear classifier, by a formula:
            exact, and done in seconds, on embeddings.
    """
    for metric in metrics:
        check_known("metric of models on subsets", metric, SUBSAMPLED)
    asked = {"members": members, "subset": subset, "test": test, "closed_form": closed_form}
    check_subsets(metrics, source, **asked, **options)
    if closed_form:
        options["recipe"] = "linear"
    probes = load_probes(source, **options)
    tests = None
    if test is not None:
        tests = load_examples(open_source(test), probes.recipe, like=probes.examples, track=probes.track)
    if closed_form:
        return _leave_out(probes, metrics, tests)
    masks = balanced_masks(members, len(probes.examples), share=subset, seed=probes.seed)
    with torch_threads(probes.threads):
        correct, test_correct = _answers(probes, masks, tests)
    known: dict[str, Any] = {
        "epochs": probes.epochs,
        "subset": subset,
        "accuracy_in": float(correct[masks].mean()),
        "accuracy_out": float(correct[~masks].mean()),
    }
    estimates = {}
    if "memorization" in metrics:
        estimates["memorization"] = estimate_memorization(masks, correct)
    if set(metrics) & {"influence_max", "influence_sum_abs"}:
        both = estimate_influence(masks, correct, test_correct=test_correct)
        estimates |= dict(zip(("influence_max", "influence_sum_abs"), both, strict=True))
    fitted = {}
    for metric in metrics:
        facts = known | _measured_on(metric, tests)
        whole, *halves = estimates[metric]
        fitted[metric] = probes.scores(metric, whole, **facts, **reliability_facts(metric, halves, members))
    return fitted


def check_subsets(
    metrics: Sequence[str],
    source: Source,
    *,
    members: int,
    subset: float,
    test: str | Path | Source | None,
    closed_form: bool,
    recipe: str | Recipe = "mlp",
    epochs: int | None = None,
    pseudo_labels: bool = False,
    k: int | None = None,
    **_: Any,
) -> None:
    """Raise at arguments of `train_on_subsets` that make no sense, before anything is read."""
    if test is not None and set(metrics) == {"memorization"}:
        raise PareError(
            f"{argument('test')} is an option of the influence metrics; memorization is measured on the examples "
            "themselves."
        )
    if test is not None and pseudo_labels:
        raise PareError(
            f"{argument('test')} names examples with labels, and {argument('pseudo_labels', True)} means that there "
            "are none; leave one out."
        )
    if closed_form:
        given = {"recipe": recipe != "mlp", "members": members != DEFAULT_MEMBERS, "epochs": epochs is not None}
        given["subset"] = subset != _SUBSET
        useless = [argument(name) for name, changed in given.items() if changed]
        if useless:
            raise PareError(
                f"{' and '.join(useless)} would have no effect: {argument('closed_form', True)} trains no networks; "
                f"leave {'it' if len(useless) == 1 else 'them'} out."
            )
        recipe = "linear"
    check_probes(source, recipe, pseudo_labels=pseudo_labels, k=k, epochs=epochs)
    if not closed_form:
        check_subset_size(members, len(source), share=subset)
    if test is not None:
        _check_test(open_source(test), source)


def _check_test(test: Source, source: Source) -> None:
    if test.labels is None:
        raise PareError(f"{test.location}: influence is measured on examples with labels, and there are none.")
    if isinstance(test, VectorSource) and isinstance(source, VectorSource) and test.dim != source.dim:
        raise PareError(
            f"{test.location}: the examples that influence is measured on have {test.dim} dimensions, and those of "
            f"{source.location} have {source.dim}."
        )


def _leave_out(probes: Probes, metrics: Sequence[str], tests: TrainingSet | None) -> dict[str, FrozenScores]:
    examples = (probes.examples, *([] if tests is None else [tests]))
    vectors = [np.concatenate(list(part.batches([np.arange(len(part))]))) for part in examples]
    test = None if tests is None else (vectors[1], tests.labels)
    found = leave_one_out(vectors[0], probes.examples.labels, test=test)
    known: dict[str, Any] = {"closed_form": True, "ridge": found.ridge, "accuracy_out": found.accuracy}
    probes = replace(probes, facts=probes.facts | {"recipe": "ridge regression"})
    return {
        metric: probes.scores(metric, getattr(found, metric), **known, **_measured_on(metric, tests))
        for metric in metrics
    }


def _measured_on(metric: str, tests: TrainingSet | None) -> dict[str, Any]:
    if metric == "memorization":
        return {}
    return {"measured_on": "examples left out" if tests is None else f"{len(tests)} test examples"}


def subset_trainings(metrics: Sequence[str], n: int, *, closed_form: bool = False, **options: Any) -> list[Training]:
    """One training of each member, or none where there is a formula."""
    return [] if closed_form else trainings_on_subsets(metrics, n, **options)


def _answers(
    probes: Probes, masks: NDArray[np.bool_], tests: TrainingSet | None
) -> tuple[NDArray[np.bool_], NDArray[np.bool_] | None]:
    """Which model is right about which example, (models, n), and about which test example."""
    asked = {"correct": probes.examples} | ({} if tests is None else {"tests": tests})

    def answer(portion: range) -> Arrays:
        ensemble = probes.train(portion, masks=masks[portion.start : portion.stop])
        return {key: np.packbits(ensemble.correct(examples), axis=1) for key, examples in asked.items()}

    done = list(probes.portions("subsets", len(masks), answer))
    answers = {
        key: np.unpackbits(np.concatenate([part[key] for part in done]), axis=1, count=len(examples)).astype(bool)
        for key, examples in asked.items()
    }
    return answers["correct"], answers.get("tests")
