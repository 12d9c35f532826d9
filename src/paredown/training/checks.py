"""What is asked of a training run, checked before it begins."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError
from paredown.ids import name_rows
from paredown.training.examples import TrainingSet
from paredown.training.recipes import Recipe


def checked_rows(examples: TrainingSet, rows: ArrayLike | None) -> NDArray[np.int64]:
    """The rows to train on as numbers; all if none are given."""
    chosen = np.arange(len(examples)) if rows is None else np.asarray(rows)
    if chosen.dtype == bool:
        chosen = np.flatnonzero(chosen)
    if chosen.ndim != 1 or (len(chosen) and chosen.dtype.kind not in "iu"):
        raise PareError(f"rows must be a list of row numbers, got shape {chosen.shape} of {chosen.dtype}.")
    if not len(chosen):
        raise PareError("there is nothing to train on: the subset has no examples.")
    outside = chosen[(chosen < 0) | (chosen >= len(examples))]
    if len(outside):
        raise PareError(f"rows must be in 0 ... {len(examples) - 1}, got {outside[0]}.")
    return chosen.astype(np.int64)


def check_labels(examples: TrainingSet, rows: NDArray[np.int64], test: TrainingSet | None) -> None:
    """Raise unless every label is a class, and the test set has the same classes."""
    if examples.labels.dtype.kind not in "iu":
        raise PareError(f"labels of examples are class codes, whole numbers; got {examples.labels.dtype}.")
    labels = examples.labels[rows]
    bad = rows[(labels < 0) | (labels >= len(examples.classes))]
    if len(bad):
        raise PareError(
            f"labels must be in 0 ... {len(examples.classes) - 1} for {len(examples.classes)} classes, got "
            f"{examples.labels[bad[0]]} at {name_rows(bad)}."
        )
    if test is not None and test.classes != examples.classes:
        raise PareError(
            f"the test set has other classes than the training set: {', '.join(test.classes[:5])}, ... against "
            f"{', '.join(examples.classes[:5])}, ...; load it with like=, to number classes alike."
        )


def checked_steps(recipe: Recipe, per_epoch: int, epochs: int | None, steps: int | None) -> int:
    """The number of steps that epochs or steps ask for."""
    if epochs is not None and steps is not None:
        raise PareError(f"give epochs or steps, not both; got {epochs} and {steps}.")
    for name, number in (("epochs", epochs), ("steps", steps)):
        if number is not None and number < 1:
            raise PareError(f"{name} must be at least 1, got {number}.")
    return steps if steps is not None else per_epoch * (recipe.epochs if epochs is None else epochs)


def missing_classes(examples: TrainingSet, rows: NDArray[np.int64]) -> tuple[str, ...]:
    """A warning for classes that a subset has lost; the network still has an output for them."""
    counts = np.bincount(examples.labels[rows], minlength=len(examples.classes))
    missing = [examples.classes[code] for code in np.flatnonzero(counts == 0)]
    if not missing:
        return ()
    shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
    return (f"{len(missing)} of {len(counts)} classes have no example in the subset and cannot be learnt: {shown}.",)
