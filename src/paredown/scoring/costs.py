"""What scoring would cost: memory, networks to train, and the time from measuring a small piece of the work."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import cycle, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels import nearest
from paredown.embeddings import SHARD_SIZE
from paredown.embeddings.encoders import Encoder
from paredown.embeddings.encoders.pipeline import AHEAD
from paredown.embeddings.encoders.pixel_pca import COMPONENTS, PCA_SAMPLE, thumbnail
from paredown.errors import PareError
from paredown.ids import id_array
from paredown.metrics import DEFAULT_METRIC
from paredown.metrics.base import Training
from paredown.metrics.registry import METRICS, check_options, sharing_a_fit
from paredown.sources import ImageSource, Skipped, Source, VectorSource
from paredown.training import Examples, Recipe
from paredown.training.devices import require_torch, torch_threads
from paredown.training.ensembles import MEMBERS_AT_ONCE, train_ensemble, trains_stacked
from paredown.units import format_duration, format_size, with_bytes

try:
    import resource
except ImportError:  # Windows
    resource = None

_BATCHES = 3  # per epoch of a timed training
_FEW, _MORE = 4, 8  # images that are encoded at once: what the second number takes more grows with the batch
_PIECE = 2048, 2048  # rows that are compared with so many others at most, to see how long it takes


@dataclass(frozen=True)
class TrainingCost:
    """All trainings behind some metrics, and about how much time and memory they take here."""

    trainings: tuple[Training, ...]
    seconds: float
    memory: int = 0  # bytes of the process: libraries, networks and their activations as measured, and the examples

    @property
    def models(self) -> int:
        return sum(training.models for training in self.trainings)

    def __str__(self) -> str:
        memory = f"; about {format_size(self.memory)} of memory" if self.memory else ""
        if not self.trainings:
            return f"no networks to train{memory}"
        lengths = sorted({training.epochs for training in self.trainings})
        networks = "1 network" if self.models == 1 else f"{self.models} networks"
        epochs = "1 epoch" if lengths == [1] else f"{' or '.join(map(str, lengths))} epochs"
        return f"{networks} x {epochs}{memory}, about {format_duration(self.seconds)}"


def plan_trainings(metrics: Sequence[str], n: int, **options: Any) -> tuple[Training, ...]:
    """The trainings behind some metrics of `n` examples; those that share one are counted once.

    The options are those of the metrics that decide how much is trained, such as `recipe`, `members` and `epochs`.
    """
    check_options(metrics, options)
    plan: list[Training] = []
    for names in sharing_a_fit(metrics):
        entry = METRICS[names[0]]
        if entry.trains is None:
            raise PareError(f"metric {names[0]!r} trains nothing, so there is no training to estimate.")
        plan += entry.trains(names, n, **entry.options | entry.own_options(options))
    return tuple(plan)


def estimate_training(metrics: Sequence[str], source: Source, **options: Any) -> TrainingCost:
    """How many networks are trained for how long, and about how much time that takes.

    A few steps of every kind of network are timed on random inputs of the right size, and the memory of the process is
    looked at; the data are not read. Reading and encoding the examples and the recorders' own work come on top.
    """
    require_torch("a metric that trains probes")
    plan = plan_trainings(metrics, len(source), **options)
    classes = 10 if source.labels is None else max(2, len(source.labels.classes))
    dim = source.dim if isinstance(source, VectorSource) else 512
    known: dict[str, float] = {}
    seconds = 0.0
    with torch_threads(options.get("threads")):
        for training in plan:
            key = repr((training.recipe, min(training.models, MEMBERS_AT_ONCE)))
            if key not in known:
                known[key] = _seconds_per_row(training.recipe, training.models, dim, classes)
            seconds += known[key] * training.models * training.epochs * training.examples
    held = max((len(source) * _row_bytes(training.recipe, dim) for training in plan), default=4 * dim * len(source))
    return TrainingCost(plan, seconds, peak_memory() + held)


def peak_memory() -> int:
    """The most bytes that this process has taken so far; 0 where the system does not tell."""
    if resource is None:
        return 0
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return most if sys.platform == "darwin" else 1024 * most


def _row_bytes(recipe: Recipe, dim: int) -> int:
    """Of an example that is held for training."""
    return 4 * dim if recipe.inputs == "features" else 3 * (recipe.image_size or 32) ** 2


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
    memory: int  # bytes that depend on the data
    seconds: float | None
    disk: int = 0  # bytes, for embeddings of images until the result is complete
    process: int = 0  # bytes of the process besides: libraries, the network and its activations, as measured

    def __str__(self) -> str:
        size = f"{self.examples:,} examples" + (f" x {self.dim} dimensions" if self.dim else "")
        time_ = "" if self.seconds is None else f", about {format_duration(self.seconds)}"
        disk = f", {format_size(self.disk)} on disk until it is done" if self.disk else ""
        return f"{size}; about {format_size(self.memory + self.process)} of memory{disk}{time_}"


def estimate_scoring(
    source: Source, *, metric: str = DEFAULT_METRIC, encoder: Encoder | None = None, **options: Any
) -> ScoringCost:
    """Rows, memory and time of scoring a source, from measuring how long a small piece takes.

    Images are taken to be encoded by `pixels` unless a loaded encoder is given. The options are those of the metric.
    """
    return replace(_estimate(source, metric, encoder, with_bytes(options)), process=peak_memory())


def _estimate(source: Source, metric: str, encoder: Encoder | None, options: dict[str, Any]) -> ScoringCost:
    n, entry = len(source), METRICS[metric]
    if entry.work is None:
        return ScoringCost(n, None, None, 64 * n, 0.0)
    if isinstance(source, ImageSource):
        return _scoring_images(source, encoder)
    assert isinstance(source, VectorSource)
    work = entry.work(source, **entry.own_options(options))
    block = next(source.batches())
    seconds = work.passes * _seconds(lambda: next(source.batches())) * n / len(block.ids)
    seconds += sum(rows * seconds_of_comparing(block.vectors, others) for rows, others in work.products)
    if work.piece is not None:
        seconds += _seconds_of_all(work.piece, block.vectors)
    memory = 4 * source.dim * 3 * len(block.ids) + 64 * n + work.memory
    return ScoringCost(n, source.dim, work.k, memory, seconds)


def _seconds_of_all(piece: Callable[[NDArray[np.float32]], float], rows: NDArray[np.float32]) -> float:
    """Of work of which a piece is done, which says what part of it that was."""
    return _least_seconds(lambda: piece(rows)) / piece(rows)


def seconds_of_comparing(vectors: NDArray[np.float32], others: int) -> float:
    """Of one row with so many others."""
    rows, most = vectors[: _PIECE[0]], min(others, _PIECE[1])
    # Not rows of the data: with a row among them, or one of them twice, there are ties to settle, which takes longer.
    centroids = np.random.default_rng(0).standard_normal((most, rows.shape[1]), np.float32)
    centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    return _least_seconds(lambda: nearest(rows, centroids)) / len(rows) * others / most


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
    prepared = [encoder.prepare(image) for image in islice(cycle(some), _MORE)]
    preparing = _seconds(lambda: [encoder.prepare(image) for image in some]) / len(some)
    dim = encoder.encode(prepared[:_FEW]).shape[1]  # loads what is loaded with the first images
    before = peak_memory()
    encoder.encode(prepared)
    of_one = max(0, peak_memory() - before) // (_MORE - _FEW)
    encoding = preparing + _seconds(lambda: encoder.encode(prepared)) / _MORE
    waiting = (AHEAD + encoder.batch_size) * getattr(prepared[0], "nbytes", 0)
    memory = max(0, encoder.batch_size - _MORE) * of_one + waiting + min(4 * dim * n, 2**29) + 64 * n
    return ScoringCost(n, None, None, memory, n * (reading + encoding), _disk(n, dim))


def _disk(n: int, dim: int) -> int:
    """Room for a store of embeddings, which so few images as make one shard do not get."""
    return 4 * dim * n if n > SHARD_SIZE else 0


def _least_seconds(work: Callable[[], Any]) -> float:
    """Of three times: the first is slower, and others may share the cores."""
    return min(_seconds(work) for _ in range(3))


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start
