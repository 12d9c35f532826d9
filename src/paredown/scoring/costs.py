"""What metrics that train would cost: how many models for how long, and the time from a few measured steps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

import numpy as np

from paredown.clustering.kernels import nearest
from paredown.embeddings import SHARD_SIZE
from paredown.embeddings.encoders import Encoder
from paredown.embeddings.encoders.pixel_pca import COMPONENTS, PCA_SAMPLE, thumbnail
from paredown.errors import PareError
from paredown.ids import id_array
from paredown.metrics import METRICS
from paredown.metrics.ddd import DEFAULT_KINDS, diverse_recipes
from paredown.metrics.prototypes import choose_k
from paredown.metrics.recorded_metrics import WATCHED, epochs_of
from paredown.metrics.subset_training import DEFAULT_MEMBERS, SUBSAMPLED
from paredown.sources import ImageSource, Skipped, Source, VectorSource
from paredown.training import Examples, Recipe, find_recipe
from paredown.training.devices import require_torch, torch_threads
from paredown.training.ensembles import MEMBERS_AT_ONCE, train_ensemble, trains_stacked
from paredown.units import format_duration, format_size

__all__ = ["ScoringCost", "Training", "TrainingCost", "estimate_scoring", "estimate_training", "plan_trainings"]

_BATCHES = 3  # per epoch of a timed training
_ITERATIONS = 30  # of k-means with its seeding and the sensitivity to k, roughly


@dataclass(frozen=True)
class Training:
    """Networks of one recipe that are trained for some metrics, each on so many examples per epoch."""

    metrics: tuple[str, ...]
    recipe: Recipe
    models: int
    epochs: int
    examples: int


@dataclass(frozen=True)
class TrainingCost:
    """All trainings behind some metrics, and about how many seconds they take here."""

    trainings: tuple[Training, ...]
    seconds: float

    @property
    def models(self) -> int:
        return sum(training.models for training in self.trainings)

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


def estimate_training(
    metrics: Sequence[str],
    source: Source,
    *,
    recipe: str | Recipe = "mlp",
    members: int | None = None,
    epochs: int | None = None,
    subset: float = 0.7,
    folds: int = 5,
    threads: int | None = None,
) -> TrainingCost:
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
    return TrainingCost(plan, seconds)


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


@dataclass(frozen=True)
class ScoringCost:
    """What scoring will take, measured on a small piece before the long work starts."""

    examples: int
    dim: int | None
    k: int | None
    memory: int  # bytes
    seconds: float | None
    disk: int = 0  # bytes, for embeddings of images until the result is complete

    def __str__(self) -> str:
        size = f"{self.examples:,} examples" + (f" x {self.dim} dimensions" if self.dim else "")
        time_ = "" if self.seconds is None else f", about {format_duration(self.seconds)}"
        disk = f", {format_size(self.disk)} on disk until it is done" if self.disk else ""
        return f"{size}; about {format_size(self.memory)} of memory{disk}{time_}"


def estimate_scoring(
    source: Source, *, metric: str = "prototypes", k: int | None = None, encoder: Encoder | None = None
) -> ScoringCost:
    """Rows, memory and time of scoring a source, from measuring how long a small piece takes.

    Images are taken to be encoded by `pixels` unless a loaded encoder is given.
    """
    n = len(source)
    if "embeddings" not in METRICS[metric].needs:
        return ScoringCost(n, None, None, 64 * n, 0.0)
    if isinstance(source, ImageSource):
        return _scoring_images(source, encoder)
    assert isinstance(source, VectorSource)
    block = next(source.batches())
    reading = 2 * _seconds(lambda: next(source.batches())) * n / len(block.ids)  # one pass to fit, one to score
    memory = 4 * source.dim * 3 * len(block.ids) + 64 * n
    if metric == "supervised_prototypes":
        return ScoringCost(n, source.dim, None, memory, reading)
    if metric != "prototypes":  # compares rows with rows inside 1 GiB; no small piece tells how long that takes
        return ScoringCost(n, source.dim, None, memory + min(4 * source.dim * n, 2**30), None)
    k = min(choose_k(source) if k is None else max(k, 1), n)
    sample = min(n, 256 * k)
    rows = block.vectors[:512]
    products = _seconds(lambda: nearest(rows, np.resize(rows, (k, source.dim)))) / len(rows)
    memory += min(4 * source.dim * (sample + k), 2**29)
    return ScoringCost(n, source.dim, k, memory, reading + products * (n + _ITERATIONS * sample))


def _scoring_images(source: ImageSource, encoder: Encoder | None) -> ScoringCost:
    n = len(source)
    some = [image for image in islice(source.images(), 16) if not isinstance(image, Skipped)]
    if not some:
        return ScoringCost(n, None, None, 64 * n, None)
    reading = _seconds(lambda: list(islice(source.images(), len(some)))) / len(some)
    if encoder is None:  # thumbnails: once to fit, once to encode
        shrinking = _seconds(lambda: [thumbnail(image) for image in some]) / len(some)
        memory = min(n, PCA_SAMPLE) * 3_072 + 64 * n
        return ScoringCost(n, None, None, memory, 2 * n * (reading + shrinking), _disk(n, COMPONENTS))
    some = some[:4]
    vectors = encoder.encode([encoder.prepare(image) for image in some])  # the first time is slower than the rest
    encoding = _seconds(lambda: encoder.encode([encoder.prepare(image) for image in some])) / len(some)
    dim = vectors.shape[1]
    memory = min(4 * dim * n, 2**29) + 64 * n  # to embed them takes less than to fit prototypes to a sample
    return ScoringCost(n, None, None, memory, n * (reading + encoding), _disk(n, dim))


def _disk(n: int, dim: int) -> int:
    """Room for a store of embeddings, which so few images as make one shard do not get."""
    return 4 * dim * n if n > SHARD_SIZE else 0


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
