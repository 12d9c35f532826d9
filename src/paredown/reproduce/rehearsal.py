"""A dry run: every setting checked, every network built and shown one batch, and the work counted. Nothing is kept.

At the paper's size a figure is days of GPUs; a mistake should be found before the first of them.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from paredown.errors import PareError, check_known
from paredown.evaluate import count_flops, count_training_flops
from paredown.metrics import METRICS
from paredown.metrics.subset_training import DEFAULT_MEMBERS
from paredown.reproduce.data_folders import DATA, Dataset
from paredown.reproduce.setup import FigurePlan
from paredown.reproduce.trained_networks import as_recipe
from paredown.sweeps import expand, read_settings
from paredown.sweeps.grid import scorings
from paredown.sweeps.settings import Settings
from paredown.sweeps.sweep_duration import student_workload
from paredown.training import Examples, Recipe, find_recipe, train

_ON_SUBSETS = ("memorization", "influence_max", "influence_sum_abs")  # of networks on 70 % of the examples each
_BATCH = 4  # images that are passed through a network to see that it learns from them


@dataclass(frozen=True)
class PlannedTraining:
    """One kind of training that a figure asks for."""

    part: str  # of the figure's plan
    role: str  # `student`, `probe` or `network`
    data: str  # name of the data set
    recipe: str  # name of the recipe
    weights: int  # of the network, in number
    trainings: int  # how many networks are trained
    flops: float | None  # of all, at three forward passes per example and step; None where it is not known before


def rehearse(plan: FigurePlan) -> list[PlannedTraining]:
    """Check a plan: its settings, that its sizes fit its data, and that every network takes a step on a batch."""
    rehearsed: list[PlannedTraining] = []
    for name, config in plan.sweeps.items():
        rehearsed += _sweep(name, read_settings(config), plan.dataset(config["data"]))
    for name, scoring in plan.scorings.items():
        groups: dict[Any, list[str]] = {}  # metrics that are read off the same networks
        for metric in scoring.metrics:
            check_known("metric", metric, METRICS)
            if "training" in METRICS[metric].needs:
                groups.setdefault(METRICS[metric].together or metric, []).append(metric)
        for metrics in groups.values():
            rehearsed.append(_probes(name, ", ".join(metrics), scoring.options, plan.dataset(scoring.data), 1))
    for recipe, dataset in plan.networks:
        weights, _ = network_cost(recipe, dataset)
        rehearsed.append(PlannedTraining(recipe.name, "network", dataset.name, recipe.name, weights, 1, None))
    return rehearsed


def _sweep(name: str, settings: Settings, dataset: Dataset) -> list[PlannedTraining]:
    largest = max(settings.grid.initial_size)
    if largest > dataset.examples:
        raise PareError(f"{name}: initial sets of {largest:,}, and {dataset.title} has {dataset.examples:,} examples.")
    runs = expand(settings.grid)
    recipe = settings.student.resolve()
    weights, flops = network_cost(recipe, dataset)
    _, _, steps = student_workload(recipe, runs, settings.student.steps)
    total = count_training_flops(flops, recipe.batch_size, sum(steps))
    rehearsed = [PlannedTraining(name, "student", dataset.name, recipe.name, weights, len(runs), total)]
    for metric in settings.grid.metric:
        scorer = settings.probe.find(metric)
        sets = sum(scoring.metric == metric for scoring in scorings(runs))
        if sets and scorer.scores is None and scorer.metric and "training" in METRICS[scorer.metric].needs:
            rehearsed.append(_probes(name, metric, scorer.options, dataset, sets))
    return rehearsed


def _probes(name: str, metric: str, options: Mapping[str, Any], dataset: Dataset, initial_sets: int) -> PlannedTraining:
    recipe = find_recipe(options.get("recipe", "mlp"))
    weights, _ = network_cost(recipe, dataset)
    usual = DEFAULT_MEMBERS if metric.split(", ")[0] in _ON_SUBSETS else recipe.probe_members
    members = int(options.get("members", usual))
    return PlannedTraining(name, f"probe ({metric})", dataset.name, recipe.name, weights, members * initial_sets, None)


class NetworkCost(NamedTuple):
    """What a network comes to: its number of weights, and the FLOPs of one forward pass of one example."""

    weights: int
    flops: float


def network_cost(recipe: Recipe, dataset: Dataset) -> NetworkCost:
    """Build the network for the data set's classes and take one step on made-up examples."""
    return _network_cost(json.dumps(recipe.settings()), dataset.inputs)


@lru_cache(maxsize=64)
def _network_cost(settings: str, data: str) -> NetworkCost:
    import torch

    recipe, facts = as_recipe(json.loads(settings)), DATA[data]
    rng = np.random.default_rng(0)
    if recipe.inputs == "images":
        assert recipe.image_size is not None
        shape: tuple[int, ...] = (recipe.image_size, recipe.image_size, facts.shape[-1])
        inputs: Any = rng.integers(0, 256, (_BATCH, *shape), dtype=np.uint8)
    else:
        shape = (int(np.prod(facts.shape)),)
        inputs = rng.standard_normal((_BATCH, *shape)).astype(np.float32)
    classes = tuple(map(str, range(facts.classes)))
    examples = Examples(inputs, np.arange(_BATCH) % len(classes), classes, np.arange(_BATCH))
    # Weights that come from elsewhere are not fetched for this; those of the network's own shape stand in for them.
    small = recipe.but(batch_size=_BATCH, pretrained=None, augment="none")
    trained = train(small, examples, steps=1)
    weights = sum(parameter.numel() for parameter in trained.network.parameters())
    batch = torch.from_numpy(inputs[:1]).float()
    batch = batch.permute(0, 3, 1, 2).contiguous() if batch.ndim == 4 else batch
    return NetworkCost(weights, count_flops(trained.network, batch))
