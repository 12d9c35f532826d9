"""Disagreement of networks that did not train on an example (Freeman 1965; Beluch et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.checkpoint import Checkpoint
from paredown.errors import PareError
from paredown.metrics.base import Training
from paredown.metrics.frozen_scores import FrozenScores
from paredown.metrics.probe_training import Probes, load_probes, member_seeds, portions, remembered
from paredown.metrics.reliability import EnsembleScores, reliability_facts
from paredown.metrics.subset_estimates import balanced_masks
from paredown.metrics.uncertainty import variation_ratio
from paredown.progress import Track, silent
from paredown.sources import Source
from paredown.training import Recipe, find_recipe
from paredown.training.devices import torch_threads
from paredown.training.ensembles import train_ensemble

DEFAULT_VOTERS = 40  # of which 12 did not train on an example


def fit_variation_ratio(
    source: Source,
    *,
    seed: int,
    recipe: str | Recipe = "mlp",
    members: int = DEFAULT_VOTERS,
    subset: float = 0.7,
    epochs: int | None = None,
    pseudo_labels: bool = False,
    k: int | None = None,
    threads: int | None = None,
    checkpoint: Checkpoint | None = None,
    track: Track = silent,
) -> FrozenScores:
    """Train networks on random subsets, and let those vote on each example that did not train on it.

    score(i) = 1 - max_c (votes for class c) / (votes), over the members whose subset does not have i: the variation
    ratio (Freeman 1965, "Elementary applied statistics"). Beluch et al. 2018, "The power of ensembles for active
    learning in image classification", take it over all members, which have not seen an example without a label; here
    every example has one, and a member that was trained on it would only say what it was told. Labels are needed for
    the training, not for the score: an example whose label is wrong is easy if the members agree on another class.

    Args:
        source: the examples, with labels unless `pseudo_labels`.
        seed: decides subsets, first weights and row orders.
        recipe: how a network is trained, a name in `paredown.training.RECIPES`, or a recipe.
        members: number of networks.
        subset: the share of the examples that a network trains on.
        epochs: epochs of training; as the recipe says by default.
        pseudo_labels: train on clusters of the embeddings in place of labels.
        k: number of clusters that take the place of labels.
        threads: threads of torch.
        checkpoint: keeps the votes of every finished portion of networks.
        track: reports progress.
    """
    if epochs is not None and epochs < 1:
        raise PareError(f"epochs must be at least 1, got {epochs}.")
    probes = load_probes(source, recipe, seed=seed, pseudo_labels=pseudo_labels, k=k, track=track)
    masks = balanced_masks(members, len(probes.examples), share=subset, seed=seed)
    with torch_threads(threads):
        votes = _votes(probes, masks, epochs, checkpoint, track)
    values = variation_ratio(votes, trained_on=masks)
    facts: dict[str, Any] = {"epochs": probes.recipe.epochs if epochs is None else epochs, "subset": subset}
    halves = slice(0, members // 2), slice(members // 2, members)
    if all((~masks[half]).any(axis=0).all() for half in halves):
        first, second = (variation_ratio(votes[half], trained_on=masks[half]) for half in halves)
        facts |= reliability_facts("variation_ratio", EnsembleScores(values, (first, second)), members)
    else:
        facts["models"] = members
    return probes.scores("variation_ratio", values, **facts)


def variation_ratio_trainings(
    metrics: Sequence[str],
    n: int,
    *,
    recipe: str | Recipe = "mlp",
    members: int = DEFAULT_VOTERS,
    subset: float = 0.7,
    epochs: int | None = None,
    **_: Any,
) -> list[Training]:
    """One training of each member on its subset."""
    recipe = find_recipe(recipe)
    return [Training(tuple(metrics), recipe, members, recipe.epochs if epochs is None else epochs, round(subset * n))]


def _votes(
    probes: Probes, masks: NDArray[np.bool_], epochs: int | None, checkpoint: Checkpoint | None, track: Track
) -> NDArray[np.int64]:
    """The class that each member predicts for each example, (members, n)."""
    votes = np.empty(masks.shape, np.int64)
    for portion in portions(probes.recipe, len(masks)):
        members = slice(portion.start, portion.stop)
        name = f"votes-{portion.start:04d}"
        done = remembered(checkpoint, name)
        if done is None:
            ensemble = train_ensemble(
                probes.recipe,
                probes.examples,
                seeds=member_seeds(probes.seed, portion.start, portion.stop),
                masks=masks[members],
                epochs=epochs,
                track=track,
            )
            blocks = [logits.argmax(axis=2) for _, logits in ensemble.blocks(probes.examples)]
            done = {"votes": np.concatenate(blocks, axis=1)}
            if checkpoint is not None:
                checkpoint.save(name, done)
        votes[members] = done["votes"]
    return votes
