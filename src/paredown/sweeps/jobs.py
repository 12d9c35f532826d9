"""What a worker does for a sweep: score one initial set, or train one student. Each writes one file."""

from __future__ import annotations

import time
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.files import write_whole
from paredown.reading import read_array
from paredown.records import read_record, tuples, write_record
from paredown.scoring import score
from paredown.selection import select
from paredown.sweeps.grid import Run, ScoringJob
from paredown.sweeps.settings import Scorer
from paredown.sweeps.sweep_data import initial_rows, initial_source, open_data
from paredown.training import Recipe
from paredown.training.ensembles import train_ensemble
from paredown.training.loop import train
from paredown.training.schedule import planned_steps

_LONG_STEP = 1.0  # seconds from which a single step is measured well enough
_MEASURED_STEPS = 5


def score_initial_set(common: dict[str, Any], job: dict[str, Any]) -> str | None:
    """Score the examples of one initial set by probes that see nothing else; write one number for each.

    Returns why it cannot be done, if it cannot.
    """
    scoring = ScoringJob(**job["scoring"])
    scorer = Scorer(job["metric"], tuples(job["options"]))
    examples, _ = open_data(Path(common["data"]) / str(scorer.inputs))
    source = initial_source(examples, initial_rows(len(examples), scoring.initial_size, scoring.seed))
    try:
        scores = score(source, metric=scorer.metric, seed=scoring.seed, **scorer.options)
    except PareError as error:
        return str(error)
    with write_whole(Path(job["file"])) as part, part.open("wb") as stream:
        np.save(stream, scores.values, allow_pickle=False)
    return None


def run_student(common: dict[str, Any], job: dict[str, Any]) -> str:
    """Train one student on its subset, test it, and write what came out; a failure is a result too."""
    run = Run(**job["run"])
    recipe = Recipe(**tuples(common["recipe"]))
    start = time.perf_counter()
    outcome: dict[str, Any]
    try:
        outcome = {"status": "done", **_train(run, recipe, common, job)}
    except PareError as error:
        outcome = {"status": "failed", "reason": str(error)}
    write_result(run, Path(job["file"]), **outcome, seconds=time.perf_counter() - start)
    return outcome["status"]


def write_result(run: Run, file: Path, **outcome: Any) -> None:
    """What came of a run, in the file that is its completion mark."""
    write_record(file, {"run": asdict(run), **outcome})


def _train(run: Run, recipe: Recipe, common: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    examples, test = open_data(Path(common["data"]) / recipe.inputs)
    rows = _subset(run, examples.labels, len(examples), job["scores"])
    steps = student_steps(recipe, run, len(rows), common["steps"])
    watched = test if common["test_every_epoch"] else None
    trained = train(recipe, examples, rows=rows, seed=run.seed, steps=steps, test=watched)
    if common["keep_weights"]:
        with write_whole(weights_file(Path(job["file"]))) as part:
            trained.save_weights(part)
    logits = trained.logits(test)
    correct = logits.argmax(axis=1) == test.labels
    n_classes = len(examples.classes)
    seen = np.bincount(test.labels, minlength=n_classes)
    right = np.bincount(test.labels[correct], minlength=n_classes)
    kept = np.bincount(examples.labels[rows], minlength=n_classes)
    return {
        "kept": len(rows),
        "steps": steps,
        "test_error": float(1 - correct.mean()),
        "top5_error": _top5_error(logits, test.labels),
        "test_loss": _cross_entropy(logits, test.labels),
        "class_accuracy": (right / np.maximum(seen, 1)).tolist(),
        "class_kept": kept.tolist(),
        "missing_classes": [name for name, count in zip(examples.classes, kept, strict=True) if not count],
        "epoch_errors": [1 - epoch.test_accuracy for epoch in trained.history if epoch.test_accuracy is not None],
    }


def _subset(run: Run, labels: NDArray[np.int64], n: int, scores: str | None) -> NDArray[np.int64]:
    """The rows of the training set that a run is trained on."""
    initial = initial_rows(n, run.initial_size, run.seed)
    if run.keep_fraction == 1:
        return initial
    values = np.zeros(len(initial)) if scores is None else read_array(scores, memory=None)
    if len(values) == n:  # scores of all examples, made before
        values = values[initial]
    kept = select(
        values,
        ids=initial,
        keep_fraction=run.keep_fraction,
        strategy=run.strategy,
        labels=labels[initial] if run.balance > 0 else None,
        balance=run.balance,
        seed=run.seed,
    )
    return initial[kept.indices]


def student_steps(recipe: Recipe, run: Run, kept: int, steps: int | None) -> int:
    """How many steps a student takes: those given, or by its matched-iterations factor."""
    if steps is not None:
        return steps
    return planned_steps(recipe, kept, whole=run.initial_size, matched_iterations=run.matched_iterations)


def _top5_error(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> float | None:
    """What the paper reports for ImageNet; None where there are no more than five classes to choose from."""
    if logits.shape[1] <= 5:
        return None
    highest = np.argpartition(-logits, 4, axis=1)[:, :5]
    return float(1 - (highest == labels[:, None]).any(axis=1).mean())


def weights_file(result: Path) -> Path:
    """Where the weights of a run are, if they are kept: beside its result."""
    return result.with_suffix(".pt")


def _cross_entropy(logits: NDArray[np.float32], labels: NDArray[np.int64]) -> float:
    shifted = logits.astype(np.float64) - logits.max(axis=1, keepdims=True)
    log_sum = np.log(np.exp(shifted).sum(axis=1))
    return float((log_sum - shifted[np.arange(len(labels)), labels]).mean())


def read_result(file: Path, run: Run) -> dict[str, Any] | None:
    """What came out of a run, or None if it has not ended, or its file is damaged or of another run."""
    result = read_record(file) or {}
    return result if result.get("run") == asdict(run) and result.get("status") in ("done", "failed") else None


def read_scores(file: Path) -> NDArray[Any] | None:
    """The scores of an initial set, or None if they are not there or damaged."""
    try:
        return read_array(file, memory=None)
    except PareError:
        return None


def measure_step(common: dict[str, Any], job: dict[str, Any]) -> float | None:
    """Seconds of one training step of some networks together, on examples of the sweep; None if it fails."""
    recipe = Recipe(**tuples(job["recipe"]))
    examples, _ = open_data(Path(common["data"]) / recipe.inputs)
    batch = np.arange(len(examples)) < recipe.batch_size  # an epoch of one step
    masks = np.tile(batch, (job["together"], 1))

    def seconds(epochs: int) -> float:
        start = time.perf_counter()
        train_ensemble(recipe, examples, seeds=range(job["together"]), masks=masks, epochs=epochs)
        return time.perf_counter() - start

    try:
        seconds(1)  # loads libraries
        one = seconds(1)
        return one if one > _LONG_STEP else max(seconds(1 + _MEASURED_STEPS) - one, 0.0) / _MEASURED_STEPS
    except PareError:  # the run itself will say what is wrong
        return None
