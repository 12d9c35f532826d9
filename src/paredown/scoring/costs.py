"""What metrics that train would cost: how many models for how long, and the time from a few measured steps."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from paredown.errors import PareError
from paredown.ids import id_array
from paredown.metrics.ddd import DEFAULT_KINDS, diverse_recipes
from paredown.metrics.recorded_metrics import WATCHED, epochs_of
from paredown.metrics.subset_training import DEFAULT_MEMBERS, SUBSAMPLED
from paredown.sources import Source, VectorSource
from paredown.training import Examples, Recipe, find_recipe
from paredown.training.devices import require_torch, torch_threads
from paredown.training.ensembles import MEMBERS_AT_ONCE, train_ensemble, trains_stacked
from paredown.units import format_duration

__all__ = ["Cost", "Training", "estimate_cost", "plan_trainings"]

_BATCHES = 3  # per epoch of a timed training


@dataclass(frozen=True)
class Training:
    """Networks of one recipe that are trained for some metrics, each on so many examples per epoch."""

    metrics: tuple[str, ...]
    recipe: Recipe
    models: int
    epochs: int
    examples: int


@dataclass(frozen=True)
class Cost:
    """All trainings behind some metrics, and about how many seconds they take here."""

    trainings: tuple[Training, ...]
    seconds: float

    @property
    def models(self) -> int:
        return sum(training.models for training in self.trainings)

    @property
    def model_epochs(self) -> int:
        """Models times epochs, added up."""
        return sum(training.models * training.epochs for training in self.trainings)

    def __str__(self) -> str:
        lengths = sorted({training.epochs for training in self.trainings})
        networks = "1 network" if self.models == 1 else f"{self.models} networks"
        epochs = "1 epoch" if lengths == [1] else f"{' or '.join(map(str, lengths))} epochs"
        return f"{networks} x {epochs}, about {format_duration(self.seconds)}"


def plan_trainings(
    metrics: Sequence[str],
    n: int,
    *,
    recipe: str | Recipe = "mlp",
    members: int | None = None,
    epochs: int | None = None,
    subset: float = 0.7,
    folds: int = 5,
) -> tuple[Training, ...]:
    """The trainings behind some metrics of `n` examples; those that share one are counted once."""
    recipe = find_recipe(recipe)
    plan: list[Training] = []
    watched = [metric for metric in metrics if metric in WATCHED]
    for length in sorted({epochs_of(metric, recipe, n, epochs) for metric in watched}):
        sharing = tuple(metric for metric in watched if epochs_of(metric, recipe, n, epochs) == length)
        plan.append(Training(sharing, recipe, members or recipe.probe_members, length, n))
    whole = recipe.epochs if epochs is None else epochs
    if sharing := tuple(metric for metric in metrics if metric in SUBSAMPLED):
        plan.append(Training(sharing, recipe, members or DEFAULT_MEMBERS, whole, round(subset * n)))
    if "ddd" in metrics:
        kinds = diverse_recipes(recipe, members or DEFAULT_KINDS)
        plan += [Training(("ddd",), kind, folds, whole, n - n // folds) for kind in kinds]
    known = {*WATCHED, *SUBSAMPLED, "ddd"}
    for metric in metrics:
        if metric not in known:
            raise PareError(f"metric {metric!r} trains nothing, so there is no training to estimate.")
    return tuple(plan)


def estimate_cost(
    metrics: Sequence[str],
    source: Source,
    *,
    recipe: str | Recipe = "mlp",
    members: int | None = None,
    epochs: int | None = None,
    subset: float = 0.7,
    folds: int = 5,
    threads: int | None = None,
) -> Cost:
    """How many networks are trained for how long, and about how much time that takes.

    A few steps of every kind of network are timed on random inputs of the right size; the data are not read. Reading
    and encoding the examples and the recorders' own work come on top.
    """
    require_torch("a metric that trains probes")
    plan = plan_trainings(
        metrics, len(source), recipe=recipe, members=members, epochs=epochs, subset=subset, folds=folds
    )
    classes = 10 if source.labels is None else max(2, len(source.labels.classes))
    dim = source.dim if isinstance(source, VectorSource) else 512
    known: dict[str, float] = {}
    seconds = 0.0
    with torch_threads(threads):
        for training in plan:
            key = repr((training.recipe, min(training.models, MEMBERS_AT_ONCE)))
            if key not in known:
                known[key] = _seconds_per_row(training.recipe, training.models, dim, classes)
            seconds += known[key] * training.models * training.epochs * training.examples
    return Cost(plan, seconds)


def _seconds_per_row(recipe: Recipe, models: int, dim: int, classes: int) -> float:
    """Of one model and one example in one epoch."""
    size = recipe.image_size or 32
    shape = (dim,) if recipe.inputs == "features" else (size, size, 3)
    rows = _BATCHES * recipe.batch_size
    rng = np.random.default_rng(0)
    inputs = rng.standard_normal((rows, *shape)).astype(np.float32)
    if recipe.inputs == "images":
        inputs = (inputs * 64 + 128).clip(0, 255).astype(np.uint8)
    names = tuple(map(str, range(classes)))
    examples = Examples(inputs, np.arange(rows) % classes, names, id_array(np.arange(rows)))
    together = min(models, MEMBERS_AT_ONCE) if trains_stacked(recipe) else 1
    times = []
    for epochs in (1, 1, 6):  # the first also loads libraries; the others differ by what five epochs take
        start = time.perf_counter()
        train_ensemble(recipe, examples, seeds=range(together), epochs=epochs)
        times.append(time.perf_counter() - start)
    return max(times[2] - times[1], 0.1 * times[1]) / (5 * together * rows)
