"""What all metrics that train have in common: examples in an order of their own, labels or clusters, and members."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.checkpoint import Arrays, Checkpoint
from paredown.errors import PareError, argument, check_least
from paredown.ids import hash_ids
from paredown.metrics.base import Training
from paredown.metrics.frozen_scores import FrozenScores
from paredown.metrics.prototypes import default_k, fit_prototypes
from paredown.progress import Track, silent
from paredown.scores import Labels
from paredown.sources import Source, VectorSource
from paredown.training import Recipe, find_recipe
from paredown.training.devices import require_torch
from paredown.training.ensembles import MEMBERS_AT_ONCE, Ensemble, train_ensemble, trains_stacked
from paredown.training.examples import TrainingSet, check_form, load_examples


@dataclass(frozen=True)
class Probes:
    """The examples to train on in the order of a seeded hash of their ids, so that the order of files never matters."""

    recipe: Recipe
    examples: TrainingSet
    epochs: int
    hashes: NDArray[np.uint64]  # ascending, one per example
    seed: int
    facts: dict[str, Any]
    threads: int | None  # of torch
    checkpoint: Checkpoint | None
    track: Track

    def train(self, members: range, *, kind: Recipe | None = None, **how: Any) -> Ensemble:
        """The networks of some members, of another kind than the recipe's if given; for `how` see `train_ensemble`."""
        seeds = member_seeds(self.seed, members.start, members.stop)
        how = {"seeds": seeds, "epochs": self.epochs, "track": self.track} | how
        return train_ensemble(kind or self.recipe, self.examples, **how)

    def part(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """The arrays of a part of the work, which a checkpoint keeps."""
        return make() if self.checkpoint is None else self.checkpoint.part(name, make)

    def portions(self, name: str, members: int, make: Callable[[range], Arrays]) -> Iterator[Arrays]:
        """What `make` says of the members that train together; a killed run redoes at most one such portion."""
        size = MEMBERS_AT_ONCE if trains_stacked(self.recipe) else 1
        for first in range(0, members, size):
            yield self.part(f"{name}-{first:04d}", partial(make, range(first, min(first + size, members))))

    def scores(self, metric: str, values: NDArray[np.floating], **facts: Any) -> FrozenScores:
        """A fitted metric from one value per example."""
        bad = np.flatnonzero(~np.isfinite(values))
        if len(bad):
            raise PareError(
                f"metric {metric!r} has no score for {len(bad)} of {len(values)} examples, e.g. id "
                f"{self.examples.ids[bad[0]]}; the training of recipe {self.recipe.name!r} diverged, or was too short."
            )
        return FrozenScores(metric, self.seed, self.hashes, values, facts=self.facts | facts)


def check_probes(
    source: Source,
    recipe: str | Recipe = "mlp",
    *,
    pseudo_labels: bool = False,
    k: int | None = None,
    epochs: int | None = None,
    **_: Any,
) -> Recipe:
    """The recipe, once it and the options that all metrics share which train are known to go with the source."""
    check_least(1, epochs=epochs)
    recipe = find_recipe(recipe)
    if pseudo_labels and recipe.inputs != "features":
        raise PareError(
            f"{argument('pseudo_labels', True)} takes clusters of embeddings for labels, and recipe {recipe.name!r} "
            f"trains on {recipe.inputs}; use a recipe for features such as 'mlp'."
        )
    if k is not None and not pseudo_labels:
        raise PareError(
            f"{argument('k')} is the number of clusters that take the place of labels; it needs "
            f"{argument('pseudo_labels', True)}."
        )
    check_form(source, recipe)
    return recipe


def load_probes(
    source: Source,
    recipe: str | Recipe = "mlp",
    *,
    seed: int,
    epochs: int | None = None,
    pseudo_labels: bool = False,
    k: int | None = None,
    threads: int | None = None,
    checkpoint: Checkpoint | None = None,
    track: Track = silent,
) -> Probes:
    """Read the examples for training; what metrics that train are given beside their own options.

    Args:
        source: the examples, with labels unless `pseudo_labels`.
        recipe: how a network is trained, a name in `paredown.training.RECIPES`, or a recipe.
        seed: decides first weights, row orders and subsets.
        epochs: epochs of training; as the recipe says by default.
        pseudo_labels: train on clusters of the embeddings in place of labels.
        k: number of clusters that take the place of labels.
        threads: threads of torch.
        checkpoint: keeps the answers of every finished portion of networks.
        track: reports progress.
    """
    check_least(1, threads=threads)
    recipe = check_probes(source, recipe, pseudo_labels=pseudo_labels, k=k, epochs=epochs)
    require_torch("a metric that trains probes")
    facts: dict[str, Any] = {"recipe": recipe.name}
    labels = None
    if pseudo_labels:
        labels = _cluster_labels(source, seed=seed, k=k, track=track)
        facts["pseudo_labels"] = len(labels.classes)
    examples = load_examples(source, recipe, labels_from=labels, seed=seed, track=track)
    if len(np.unique(examples.labels)) < 2:
        raise PareError(f"{source.location}: training needs at least two classes, and all examples are of one.")
    hashes = hash_ids(examples.ids, seed=seed)
    order = np.argsort(hashes)
    epochs = epochs or recipe.epochs
    return Probes(recipe, examples.take(order), epochs, hashes[order], seed, facts, threads, checkpoint, track)


def trainings_on_subsets(
    metrics: Sequence[str], n: int, *, recipe: str | Recipe, members: int, subset: float, epochs: int | None, **_: Any
) -> list[Training]:
    """One training of each member on its share of the examples, whatever metrics are read off them."""
    recipe = find_recipe(recipe)
    return [Training(tuple(metrics), recipe, members, epochs or recipe.epochs, round(subset * n))]


def _cluster_labels(source: Source, *, seed: int, k: int | None, track: Track) -> Labels:
    if not isinstance(source, VectorSource):
        raise PareError(f"{source.location}: pseudo_labels are clusters of embeddings; embed the images first.")
    k = max(2, default_k(len(source))) if k is None else k
    model = fit_prototypes(source, seed=seed, k=k, sensitivity=False, track=track)
    found = [model.search(batch.vectors)[0] for batch in track(source.batches(), "clusters", source.n_blocks)]
    return Labels.of(np.concatenate(found))


def member_seeds(seed: int, first: int, last: int) -> list[int]:
    """One seed for each of the members first..last - 1, the same however many there are in all."""
    return [
        int(np.random.SeedSequence([seed, member]).generate_state(1, np.uint32)[0]) for member in range(first, last)
    ]
