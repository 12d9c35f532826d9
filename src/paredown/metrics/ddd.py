"""How many of a diverse ensemble misclassify an example they did not train on (Meding et al. 2022; section 2.1)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.checkpoint import Arrays
from paredown.errors import PareError, argument
from paredown.metrics.base import Training, with_options_of
from paredown.metrics.disagreement import misclassified
from paredown.metrics.frozen_scores import FrozenScores
from paredown.metrics.probe_training import Probes, check_probes, load_probes
from paredown.metrics.reliability import reliability_facts
from paredown.metrics.simple_classifiers import SIMPLE_CLASSIFIERS, judge_folds
from paredown.sources import Source
from paredown.training import Recipe, find_recipe
from paredown.training.devices import torch_threads

DEFAULT_KINDS = 10  # as in the paper

_HIDDEN = ((128, 128), (), (32,), (256,), (64, 64), (128,), (32, 32), (64, 64, 64), (512,), (16,))
_WIDTHS = (16, 8, 24, 12, 32, 20, 10, 28, 14, 40)


@with_options_of(load_probes)
def fit_ddd(
    source: Source,
    *,
    members: int = DEFAULT_KINDS,
    folds: int = 5,
    mixed: bool = False,
    epochs: int | None = None,
    **options: Any,
) -> FrozenScores:
    """Count the members of a diverse ensemble that misclassify each example.

    score(i) = number of members wrong about i + (1 + mean over members of (best other probability - true one)) / 2

    so that the whole part is the count of the paper, and examples with equal counts are ordered by how wrong the
    members are on average. Meding et al. take networks of different makers and judge ImageNet's validation images;
    here the members are networks of different depth and width (`diverse_recipes`), and `folds` copies of each, trained
    on all but one fold of the examples, judge the fold they did not see. Of perceptrons the second is linear. With
    `mixed`, three of the members are of families that no gradient trains (`simple_classifiers`): class means, a linear
    discriminant and nearest neighbours.

    The cost is that of members x folds trainings on (folds - 1) / folds of the examples.

    Args:
        members: number of kinds of network.
        folds: parts of the examples, each judged by networks that did not train on it.
        mixed: let three of the members be no networks but class means, a discriminant and nearest neighbours.
        epochs: epochs of training; as the recipe says by default.
    """
    check_ddd(("ddd",), source, members=members, folds=folds, mixed=mixed, epochs=epochs, **options)
    probes = load_probes(source, epochs=epochs, **options)
    fold = stratified_folds(probes.examples.labels, folds)
    simple = tuple(SIMPLE_CLASSIFIERS) if mixed else ()
    kinds = diverse_recipes(probes.recipe, members - len(simple))
    judged: list[Arrays] = []
    with torch_threads(probes.threads):
        for member, kind in enumerate(kinds):
            judged.append(probes.part(f"ddd-{member:04d}", partial(_judge, probes, kind, member, fold)))
        for name in simple:
            judged.append(probes.part(f"ddd-{name}", partial(_judge_simple, probes, name, fold)))
    wrong, excess = (np.stack([done[key] for done in judged]) for key in ("wrong", "excess"))
    halves = [_count(wrong[half::2], excess[half::2]) for half in range(2)] if members > 1 else None
    facts: dict[str, Any] = {
        "members": [*map(_describe, kinds), *simple],
        "folds": folds,
        "epochs": probes.epochs,
        "accuracy": [float(1 - row.mean()) for row in wrong],
    }
    if halves is not None:
        facts |= reliability_facts("ddd", halves, members)
    return probes.scores("ddd", _count(wrong, excess), **facts)


def check_ddd(
    metrics: Sequence[str],
    source: Source,
    *,
    members: int,
    folds: int,
    mixed: bool = False,
    epochs: int | None = None,
    **options: Any,
) -> None:
    """Raise at arguments of `fit_ddd` that make no sense, before anything is read."""
    if members < 1 or folds < 2 or (epochs is not None and epochs < 1):
        raise PareError(
            f"metric 'ddd' needs at least 1 member, 2 folds and 1 epoch, got {members}, {folds} and {epochs}."
        )
    recipe = check_probes(source, epochs=epochs, **options)
    _check_folds(len(source), folds)
    if mixed and (members <= len(SIMPLE_CLASSIFIERS) or recipe.inputs != "features"):
        raise PareError(
            f"{argument('mixed', True)} gives {len(SIMPLE_CLASSIFIERS)} of the members to classifiers of embeddings: "
            f"it needs more members than that and a recipe for features, got {members} and recipe {recipe.name!r}, "
            f"which trains on {recipe.inputs}."
        )


def ddd_trainings(
    metrics: Sequence[str],
    n: int,
    *,
    recipe: str | Recipe,
    members: int,
    folds: int,
    epochs: int | None,
    mixed: bool = False,
    **_: Any,
) -> list[Training]:
    """A training of each kind of network for each fold."""
    recipe = find_recipe(recipe)
    kinds = diverse_recipes(recipe, members - len(SIMPLE_CLASSIFIERS) * mixed)
    return [Training(tuple(metrics), kind, folds, epochs or recipe.epochs, n - n // folds) for kind in kinds]


def diverse_recipes(recipe: Recipe, members: int) -> list[Recipe]:
    """Recipes that differ in the network: depth and width, the given one first; in the seed alone once these run out.

    Networks other than perceptrons and small convolutional ones are known only as they are: their members differ by
    seed.
    """
    if recipe.network in ("mlp", "linear"):
        own = tuple(recipe.network_options.get("hidden", ()))
        shapes = [own, *(hidden for hidden in _HIDDEN if hidden != own)]
        kinds = [
            recipe.but(network="mlp", network_options={"hidden": hidden})
            if hidden
            else recipe.but(network="linear", network_options={})
            for hidden in shapes
        ]
    elif recipe.network == "tiny_cnn":
        own = recipe.network_options.get("width", _WIDTHS[0])
        widths = [own, *(width for width in _WIDTHS if width != own)]
        kinds = [recipe.but(network_options={"width": width}) for width in widths]
    else:
        kinds = [recipe]
    return [kinds[member % len(kinds)] for member in range(members)]


def stratified_folds(labels: NDArray[np.int64], folds: int) -> NDArray[np.int64]:
    """A fold for every example: each class is dealt out to the folds in turn, in the order of the examples."""
    _check_folds(len(labels), folds)
    fold = np.empty(len(labels), np.int64)
    fold[np.argsort(labels, kind="stable")] = np.arange(len(labels)) % folds
    return fold


def _check_folds(n: int, folds: int) -> None:
    if n < folds:
        raise PareError(f"{folds} folds need at least as many examples, and there are {n}.")


def _judge(probes: Probes, kind: Recipe, member: int, fold: NDArray[np.int64]) -> Arrays:
    """Train a network without each fold in turn; who is wrong, and by how much, about the fold left out."""
    folds = int(fold.max()) + 1
    masks = fold != np.arange(folds)[:, None]
    ensemble = probes.train(range(member * folds, (member + 1) * folds), kind=kind, masks=masks)
    wrong, excess = np.empty(len(fold), bool), np.empty(len(fold))
    for rows, logits in ensemble.blocks(probes.examples):
        own = logits[fold[rows], np.arange(logits.shape[1])]
        bad, by = misclassified(own[None], probes.examples.labels[rows])
        wrong[rows], excess[rows] = bad[0], by[0]
    return {"wrong": wrong, "excess": excess}


def _judge_simple(probes: Probes, name: str, fold: NDArray[np.int64]) -> Arrays:
    """The same of a classifier that is no network."""
    embeddings = np.concatenate(list(probes.examples.batches([np.arange(len(fold))])))
    said = judge_folds(name, embeddings, probes.examples.labels, fold)
    wrong, excess = misclassified(said[None], probes.examples.labels)
    return {"wrong": wrong[0], "excess": excess[0]}


def _count(wrong: NDArray[np.bool_], excess: NDArray[np.float64]) -> NDArray[np.float64]:
    return wrong.sum(axis=0) + np.clip((1 + excess.mean(axis=0)) / 2, 0, 1 - 1e-9)


def _describe(recipe: Recipe) -> str:
    options = ", ".join(f"{name}={value}" for name, value in recipe.network_options.items())
    return f"{recipe.network}({options})"
