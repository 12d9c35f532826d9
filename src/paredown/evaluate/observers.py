"""Do two observers, a model and a human or two humans, err on the same images? The measures of model-vs-human.

Appendix on out-of-distribution performance; definitions by Geirhos, Meding and Wichmann (2020), *Beyond accuracy*, and
averages by Geirhos et al. (2021), *Partial success in closing the gap between human and machine vision*: over the
conditions of a data set, then over pairs of observers, then over data sets.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError

if TYPE_CHECKING:
    import pyarrow as pa

# The condition of each of model-vs-human's data sets in which the images are left as they are.
CONTROLS: dict[str, str] = {
    "colour": "cr",
    "contrast": "c100",
    "high-pass": "inf",
    "low-pass": "0",
    "phase-scrambling": "0",
    "power-equalisation": "0",
    "false-colour": "True",
    "rotation": "0",
    "eidolonI": "1-10-10",
    "eidolonII": "1-3-10",
    "eidolonIII": "1-0-10",
    "uniform-noise": "0.0",
}
# Of humans; up to it almost every answer is a guess, and consistency means nothing. model-vs-human says "below 0.2",
# but its list leaves out low-pass 15, where humans are right in exactly 0.2 of the trials.
LEAST_ACCURACY = 0.2


class Agreement(NamedTuple):
    """Two observers on the same images."""

    accuracies: tuple[float, float]
    accuracy_difference: float  # squared
    observed_consistency: float  # share of images on which both are right or both are wrong
    expected_consistency: float  # the same for independent observers of these accuracies
    error_consistency: float  # Cohen's kappa of being right


@dataclass(frozen=True)
class Trials:
    """One row per answer. Every observer of a data set's condition answers the same images, each once."""

    observer: NDArray[Any]
    dataset: NDArray[Any]
    condition: NDArray[Any]
    image: NDArray[Any]  # what tells images of a condition apart
    category: NDArray[Any]  # the right answer
    response: NDArray[Any]

    def __post_init__(self) -> None:
        lengths = {entry.name: len(getattr(self, entry.name)) for entry in fields(self)}
        if len(set(lengths.values())) > 1:
            raise PareError(f"trials need columns of equal length, got {lengths}.")

    @classmethod
    def of(cls, columns: Mapping[str, ArrayLike]) -> Trials:
        """Trials from named columns; a single text, such as the observer's name, stands for a whole column."""
        names = [entry.name for entry in fields(cls)]
        lacking = [name for name in names if name not in columns]
        if lacking:
            raise PareError(f"trials lack {', '.join(lacking)}; they need the columns {', '.join(names)}.")
        arrays = [np.asarray(columns[name]).astype(str) for name in names]
        rows = max((len(array) for array in arrays if array.ndim), default=1)
        return cls(*(array if array.ndim else np.full(rows, array) for array in arrays))

    def __len__(self) -> int:
        return len(self.observer)

    def take(self, rows: NDArray[Any]) -> Trials:
        """Some of the rows."""
        return Trials(*(getattr(self, entry.name)[rows] for entry in fields(self)))

    @property
    def correct(self) -> NDArray[np.bool_]:
        """Which answers are right."""
        return self.response == self.category


@dataclass(frozen=True)
class ObserverComparison:
    """Measures of an observer compared with humans (or of humans with each other), one row per pair and condition."""

    pairs: tuple[tuple[str, str, str, str], ...]  # data set, condition, observer, human
    agreements: tuple[Agreement, ...]
    by_dataset: dict[str, dict[str, float]]  # accuracy, accuracy_difference, observed and error_consistency
    overall: dict[str, float]  # means over data sets

    def table(self) -> pa.Table:
        """One row per pair and condition, to print or to write."""
        import pyarrow as pa

        columns: dict[str, list[Any]] = {
            name: [pair[place] for pair in self.pairs]
            for place, name in enumerate(("dataset", "condition", "observer", "human"))
        }
        for place, name in enumerate(("accuracy_observer", "accuracy_human")):
            columns[name] = [agreement.accuracies[place] for agreement in self.agreements]
        for name in Agreement._fields[1:]:
            columns[name] = [getattr(agreement, name) for agreement in self.agreements]
        return pa.table(columns)


def join_trials(*trials: Trials) -> Trials:
    """All trials in one value, for example those of humans and those of a model."""
    return Trials(*(np.concatenate([getattr(part, entry.name) for part in trials]) for entry in fields(Trials)))


def measure_agreement(correct_1: ArrayLike, correct_2: ArrayLike) -> Agreement:
    """Observed and error consistency of two observers, from which of the same images each got right.

    kappa = (observed - expected) / (1 - expected), where two independent observers of accuracies p and q are expected
    to agree on p q + (1 - p)(1 - q) of the images; 1 where they agree on every image, whatever is expected.
    """
    first, second = np.asarray(correct_1), np.asarray(correct_2)
    if first.shape != second.shape or first.ndim != 1 or not len(first):
        raise PareError(f"both observers must answer the same images, got shapes {first.shape} and {second.shape}.")
    for given in (first, second):
        if given.dtype != bool and not np.isin(given, (0, 1)).all():
            raise PareError("give correct answers as true or false; compare responses with categories first.")
    p, q = float(first.mean()), float(second.mean())
    observed = float((first == second).mean())
    expected = p * q + (1 - p) * (1 - q)
    kappa = 1.0 if observed == 1 else (observed - expected) / (1 - expected)
    return Agreement((p, q), (p - q) ** 2, observed, expected, kappa)


def leave_out_conditions(
    trials: Trials,
    *,
    humans: Sequence[str] | None = None,
    controls: Mapping[str, str] = CONTROLS,
    least_accuracy: float = LEAST_ACCURACY,
) -> Trials:
    """Trials without the conditions that model-vs-human leaves out.

    These are the conditions in which images are unchanged, which are not out of distribution, and those too hard for
    humans (`humans`; every observer, if not given): accuracy of at most `least_accuracy`.
    """
    human = np.ones(len(trials), bool) if humans is None else np.isin(trials.observer, list(humans))
    keep = np.ones(len(trials), bool)
    for dataset, condition, rows in _groups(trials):
        answers = trials.correct[rows][human[rows]]
        if condition == controls.get(dataset) or (len(answers) and answers.mean() <= least_accuracy):
            keep[rows] = False
    return trials.take(np.flatnonzero(keep))


def compare_observers(
    trials: Trials, observer: str | None = None, *, humans: Sequence[str] | None = None
) -> ObserverComparison:
    """Compare one observer with every human, or, without an observer, every human with every other.

    Observers that bear the same name in different data sets may be different people: nothing is compared across data
    sets. `accuracy` pools the trials of a data set, of the observer or of all humans.

    Args:
        humans: names of the human observers; all but `observer`, if not given.
    """
    known = set(np.unique(trials.observer).tolist())
    if observer is not None and observer not in known:
        raise PareError(f"observer {observer!r} has no trials; observers with trials: {', '.join(sorted(known))}.")
    people = (known if humans is None else set(humans)) - {observer}
    pairs: list[tuple[str, str, str, str]] = []
    agreements: list[Agreement] = []
    for dataset, condition, rows in _groups(trials):
        answers = _answers(trials, rows, f"data set {dataset!r}, condition {condition!r}")
        here = sorted(people & answers.keys())
        partners = combinations(here, 2) if observer is None else [(observer, human) for human in here]
        for first, second in partners:
            if first in answers:
                pairs.append((dataset, condition, first, second))
                agreements.append(measure_agreement(answers[first], answers[second]))
    if not pairs:
        raise PareError("no two of the observers answered images of the same data set and condition.")
    shown = np.isin(trials.observer, [observer] if observer is not None else sorted(people))
    by_dataset = {}
    for dataset in dict.fromkeys(pair[0] for pair in pairs):
        by_dataset[dataset] = {"accuracy": float(trials.correct[shown & (trials.dataset == dataset)].mean())}
        for name in ("accuracy_difference", "observed_consistency", "error_consistency"):
            of_pair: dict[tuple[str, str], list[float]] = {}
            for pair, agreement in zip(pairs, agreements, strict=True):
                if pair[0] == dataset:
                    of_pair.setdefault(pair[2:], []).append(getattr(agreement, name))
            by_dataset[dataset][name] = float(np.mean([np.mean(values) for values in of_pair.values()]))
    names = next(iter(by_dataset.values()))
    overall = {name: float(np.mean([values[name] for values in by_dataset.values()])) for name in names}
    return ObserverComparison(tuple(pairs), tuple(agreements), by_dataset, overall)


def _groups(trials: Trials) -> list[tuple[str, str, NDArray[np.int64]]]:
    """Data set, condition and rows of every condition, in order of first appearance."""
    found: dict[tuple[str, str], list[int]] = {}
    for row, key in enumerate(zip(trials.dataset.tolist(), trials.condition.tolist(), strict=True)):
        found.setdefault(key, []).append(row)
    return [(*key, np.array(rows)) for key, rows in found.items()]


def _answers(trials: Trials, rows: NDArray[np.int64], where: str) -> dict[str, NDArray[np.bool_]]:
    """Of each observer which images are right, the images in one order."""
    answers, seen = {}, None
    for name in np.unique(trials.observer[rows]).tolist():
        own = rows[trials.observer[rows] == name]
        own = own[np.argsort(trials.image[own], kind="stable")]
        images = trials.image[own]
        if (images[1:] == images[:-1]).any():
            twice = str(images[1:][images[1:] == images[:-1]][0])
            raise PareError(f"{where}: observer {name!r} answered image {twice!r} more than once; keep one answer.")
        if seen is not None and not np.array_equal(seen, images):
            odd = sorted(set(seen.tolist()) ^ set(images.tolist()))[0]
            raise PareError(
                f"{where}: observer {name!r} did not answer the same images as the one before, e.g. {odd!r}; "
                "give every observer's answers to the same images."
            )
        seen = images
        answers[name] = trials.correct[own]
    return answers
