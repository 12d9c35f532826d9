"""What all metrics that train have in common: examples in an order of their own, labels or clusters."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.checkpoint import Checkpoint
from paredown.errors import PareError
from paredown.ids import hash_ids
from paredown.metrics.frozen_scores import FrozenScores
from paredown.metrics.prototypes import default_k, fit_prototypes
from paredown.progress import Track, silent
from paredown.scores import Labels
from paredown.sources import Source, VectorSource
from paredown.training import Recipe, find_recipe
from paredown.training.devices import require_torch
from paredown.training.ensembles import MEMBERS_AT_ONCE, trains_stacked
from paredown.training.examples import TrainingSet, load_examples


@dataclass(frozen=True)
class Probes:
    """The examples to train on in the order of a seeded hash of their ids, so that the order of files never matters."""

    recipe: Recipe
    examples: TrainingSet
    hashes: NDArray[np.uint64]  # ascending, one per example
    seed: int
    facts: dict[str, Any]

    def scores(self, metric: str, values: NDArray[np.floating], **facts: Any) -> FrozenScores:
        """A fitted metric from one value per example."""
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            raise PareError(
                f"metric {metric!r} has no score for {len(bad)} of {len(values)} examples, e.g. id "
                f"{self.examples.ids[bad[0]]}; the training of recipe {self.recipe.name!r} diverged, or was too short."
            )
        return FrozenScores(metric, self.seed, self.hashes, values, facts=self.facts | facts)


def load_probes(
    source: Source, recipe: str | Recipe, *, seed: int, pseudo_labels: bool, k: int | None, track: Track = silent
) -> Probes:
    """Read the examples for training; with `pseudo_labels`, clusters of their embeddings take the place of labels."""
    require_torch("a metric that trains probes")
    recipe = find_recipe(recipe)
    facts: dict[str, Any] = {"recipe": recipe.name}
    labels = None
    if pseudo_labels:
        labels = _cluster_labels(source, recipe, seed=seed, k=k, track=track)
        facts["pseudo_labels"] = len(labels.classes)
    elif k is not None:
        raise PareError("k is the number of clusters that take the place of labels; it needs pseudo_labels=True.")
    examples = load_examples(source, recipe, labels_from=labels, seed=seed, track=track)
    if len(np.unique(examples.labels)) < 2:
        raise PareError(f"{source.location}: training needs at least two classes, and all examples are of one.")
    hashes = hash_ids(examples.ids, seed=seed)
    order = np.argsort(hashes)
    return Probes(recipe, examples.take(order), hashes[order], seed, facts)


def _cluster_labels(source: Source, recipe: Recipe, *, seed: int, k: int | None, track: Track) -> Labels:
    if not isinstance(source, VectorSource) or recipe.inputs != "features":
        raise PareError(
            f"{source.location}: pseudo_labels are clusters of embeddings, and recipe {recipe.name!r} trains on "
            f"{recipe.inputs}; embed the images first, and use a recipe for features such as 'mlp'."
        )
    k = max(2, default_k(len(source))) if k is None else k
    model = fit_prototypes(source, seed=seed, k=k, sensitivity=False, track=track)
    found = [model.search(batch.vectors)[0] for batch in track(source.batches(), "clusters", source.n_blocks)]
    return Labels.of(np.concatenate(found))


def member_seeds(seed: int, first: int, last: int) -> list[int]:
    """One seed for each of the members first..last - 1, the same however many there are in all."""
    return [
        int(np.random.SeedSequence([seed, member]).generate_state(1, np.uint32)[0]) for member in range(first, last)
    ]


def portions(recipe: Recipe, members: int) -> list[range]:
    """Members that are trained together, and of which a killed run redoes at most one portion."""
    size = MEMBERS_AT_ONCE if trains_stacked(recipe) else 1
    return [range(first, min(first + size, members)) for first in range(0, members, size)]


def remembered(checkpoint: Checkpoint | None, name: str) -> dict[str, NDArray[Any]] | None:
    """The arrays of a portion that an earlier run finished, if there was one."""
    return None if checkpoint is None else checkpoint.load(name)
