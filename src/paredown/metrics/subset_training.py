"""Memorization and influence: models trained on random subsets, compared by who was in them (section 2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.checkpoint import Arrays, Checkpoint
from paredown.errors import PareError, check_known
from paredown.metrics.frozen_scores import FrozenScores
from paredown.metrics.probe_training import Probes, load_probes
from paredown.metrics.reliability import reliability_facts
from paredown.metrics.subset_estimates import balanced_masks, estimate_influence, estimate_memorization
from paredown.progress import Track, silent
from paredown.sources import Source, open_source
from paredown.training import Recipe
from paredown.training.devices import torch_threads
from paredown.training.examples import TrainingSet, load_examples

SUBSAMPLED = ("memorization", "influence_max", "influence_sum_abs")
DEFAULT_MEMBERS = 120  # memorization on 5,000 images is then reliable to 0.9; influence is not


def train_on_subsets(
    source: Source,
    *,
    metrics: Sequence[str],
    seed: int,
    recipe: str | Recipe = "mlp",
    members: int = DEFAULT_MEMBERS,
    epochs: int | None = None,
    subset: float = 0.7,
    test: str | Path | Source | None = None,
    pseudo_labels: bool = False,
    k: int | None = None,
    threads: int | None = None,
    checkpoint: Checkpoint | None = None,
    track: Track = silent,
) -> dict[str, FrozenScores]:
    """Train models on random subsets and compare those with and those without each example (Feldman and Zhang 2020).

    Args:
        source: the examples, with labels unless `pseudo_labels`.
        metrics: of `memorization`, `influence_max` and `influence_sum_abs`; all come from the same models.
        seed: decides subsets, first weights and row orders.
        recipe: how a network is trained, a name in `paredown.training.RECIPES`, or a recipe.
        members: number of networks. The report says how reliable scores from so many are, and warns where they are not.
        epochs: epochs of training; as the recipe says by default.
        subset: the share of the examples that a network trains on.
        test: labelled examples on which influence is measured; the training examples that a model did not train on
            unless given.
        pseudo_labels: train on clusters of the embeddings in place of labels.
        k: number of clusters that take the place of labels.
        threads: threads of torch.
        checkpoint: keeps the answers of every finished portion of models.
        track: reports progress.
    """
    for metric in metrics:
        check_known("metric of models on subsets", metric, SUBSAMPLED)
    if test is not None and set(metrics) == {"memorization"}:
        raise PareError(
            "test is an option of the influence metrics; memorization is measured on the examples themselves."
        )
    common = {"pseudo_labels": pseudo_labels, "k": k, "epochs": epochs, "checkpoint": checkpoint, "track": track}
    probes = load_probes(source, recipe, seed=seed, **common)
    tests = None if test is None else _load_test(test, probes, pseudo_labels)
    masks = balanced_masks(members, len(probes.examples), share=subset, seed=seed)
    with torch_threads(threads):
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
    measured_on = {"measured_on": "examples left out" if tests is None else f"{len(tests)} test examples"}
    fitted = {}
    for metric in metrics:
        facts = known | ({} if metric == "memorization" else measured_on)
        whole, *halves = estimates[metric]
        fitted[metric] = probes.scores(metric, whole, **facts, **reliability_facts(metric, halves, members))
    return fitted


def _load_test(test: str | Path | Source, probes: Probes, pseudo_labels: bool) -> TrainingSet:
    if pseudo_labels:
        raise PareError("a test set has labels, and pseudo_labels have no meaning for it; give one or the other.")
    return load_examples(open_source(test), probes.recipe, like=probes.examples, track=probes.track)


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
