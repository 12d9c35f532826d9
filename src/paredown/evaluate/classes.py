"""Accuracy class by class of a model trained on a pruned set against one trained on the full set.

The appendix on class-conditional accuracy and fairness plots one point per class and asks whether some classes pay for
the pruning. Here every class also has a standard error and a test, so that real changes can be separated from chance.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.correlations import correlation, rank_correlation
from paredown.errors import PareError, check_known
from paredown.ids import name_rows
from paredown.standard_errors import standard_error

if TYPE_CHECKING:
    import pyarrow as pa

Floats = NDArray[np.float64]
Correction = Literal["fdr", "holm"]


class ClassChange(NamedTuple):
    """One class's change of accuracy: pruned minus full."""

    name: str
    difference: float
    stderr: float


@dataclass(frozen=True)
class ClassComparison:
    """One row per class; classes without a test example have no accuracy (NaN) and are listed in `missing`."""

    classes: tuple[str, ...]
    examples: NDArray[np.int64]  # test examples of the class
    full: Floats  # accuracy of the model trained on everything, mean over seeds
    pruned: Floats
    difference: Floats  # pruned - full
    stderr_seeds: Floats  # of the difference, from the spread over training seeds; NaN with one seed each
    stderr: Floats  # of the difference, from training seeds and test examples together
    p_value: Floats
    adjusted: Floats  # p_value corrected for the number of classes
    seeds: tuple[int, int]  # how many of full, of pruned
    level: float

    @property
    def missing(self) -> tuple[str, ...]:
        """Classes that do not occur in the test set."""
        return self._names(self.examples == 0)

    @property
    def gained(self) -> tuple[str, ...]:
        """Classes that are more accurate after pruning, by more than chance."""
        return self._names((self.adjusted <= self.level) & (self.difference > 0))

    @property
    def lost(self) -> tuple[str, ...]:
        """Classes that are less accurate after pruning, by more than chance."""
        return self._names((self.adjusted <= self.level) & (self.difference < 0))

    @property
    def worst(self) -> ClassChange:
        """The class that lost most. The lowest of many noisy differences is below zero by chance too."""
        row = int(np.nanargmin(self.difference))
        return ClassChange(self.classes[row], float(self.difference[row]), float(self.stderr[row]))

    @property
    def pearson(self) -> float:
        """Correlation over classes of the two accuracies."""
        return correlation(self.full, self.pruned)

    @property
    def spearman(self) -> float:
        """Rank correlation over classes of the two accuracies."""
        return rank_correlation(self.full, self.pruned)

    @property
    def trend(self) -> float:
        """Rank correlation of a class's change with its mean accuracy; positive: harder classes lose more.

        The mean of both models, not the full model's accuracy, says how hard a class is: against the full model's own
        accuracy a noisy change always looks like a gain of the hard classes (regression to the mean).
        """
        return rank_correlation(self.difference, (self.full + self.pruned) / 2)

    def table(self) -> pa.Table:
        """One row per class, to print or to write."""
        import pyarrow as pa

        names = ("examples", "full", "pruned", "difference", "stderr_seeds", "stderr", "p_value", "adjusted")
        return pa.table({"class": list(self.classes)} | {name: getattr(self, name) for name in names})

    def summary(self) -> dict[str, Any]:
        """The figures that describe all classes together."""
        total = self.examples.sum()
        return {
            "accuracy_full": float(np.nansum(self.full * self.examples) / total),
            "accuracy_pruned": float(np.nansum(self.pruned * self.examples) / total),
            "worst": self.worst._asdict(),
            "pearson": self.pearson,
            "spearman": self.spearman,
            "trend": self.trend,
            "gained": list(self.gained),
            "lost": list(self.lost),
            "missing": list(self.missing),
            "seeds": list(self.seeds),
            "level": self.level,
        }

    def _names(self, rows: NDArray[np.bool_]) -> tuple[str, ...]:
        return tuple(self.classes[row] for row in np.flatnonzero(rows))


def compare_classes(
    full: ArrayLike,
    pruned: ArrayLike,
    labels: ArrayLike,
    *,
    classes: Sequence[str] | None = None,
    level: float = 0.05,
    correction: Correction = "fdr",
) -> ClassComparison:
    """Compare predictions of models trained on all examples with those of models trained on a pruned set.

    A class's change has two sources of chance: the seeds of training and the few test examples of the class. Their
    variances are added (their common part is counted twice, which errs on the safe side) and a t test uses the degrees
    of freedom of Welch and Satterthwaite. The variance over examples is that of paired differences with two made-up
    examples that cancel (Agresti and Min), so that a class of three examples cannot be certain of anything.

    Args:
        full, pruned: predicted classes, (examples,) or (seeds, examples); the numbers of seeds may differ.
        labels: true classes, as the predictions are: names, or codes.
        classes: all classes in the order wanted, including those that the test set lacks. With codes for labels,
            code i is the i-th of them. The classes that occur in `labels`, if not given.
        level, correction: `gained` and `lost` hold the false discovery rate (`fdr`, Benjamini and Hochberg) or the
            chance of any false name (`holm`) below `level`.
    """
    check_known("correction", correction, ("fdr", "holm"))
    if not 0 < level < 1:
        raise PareError(f"level must be between 0 and 1, got {level}.")
    truth = np.asarray(labels)
    if truth.ndim != 1 or not len(truth):
        raise PareError(f"labels must be one class per test example, got shape {truth.shape}.")
    names, codes = _encode(truth, classes)
    right = {"full": _correct("full", full, truth), "pruned": _correct("pruned", pruned, truth)}

    count = np.bincount(codes, minlength=len(names))
    with np.errstate(invalid="ignore"):  # 0 / 0 of a class that is missing
        accuracy = {
            key: np.stack([np.bincount(codes, run, len(names)) for run in runs]) / count for key, runs in right.items()
        }
    change = right["pruned"].mean(axis=0) - right["full"].mean(axis=0)
    total, squares = np.bincount(codes, change, len(names)), np.bincount(codes, change**2, len(names))
    shrunk = total / (count + 2)
    variances = [(squares + 1 - total * shrunk) / (count + 2) ** 2]
    freedoms: list[Any] = [count + 1]
    for runs in accuracy.values():
        if len(runs) > 1:
            variances.append(standard_error(runs) ** 2)
            freedoms.append(len(runs) - 1)
    both = np.sum(variances, axis=0)
    p_value = _two_sided(shrunk / np.sqrt(both), variances, freedoms)
    p_value[count == 0] = np.nan
    difference = accuracy["pruned"].mean(axis=0) - accuracy["full"].mean(axis=0)
    return ClassComparison(
        classes=names,
        examples=count,
        full=accuracy["full"].mean(axis=0),
        pruned=accuracy["pruned"].mean(axis=0),
        difference=difference,
        stderr_seeds=np.sqrt(np.sum(variances[1:], axis=0)) if variances[1:] else np.full(len(names), np.nan),
        stderr=np.where(count, np.sqrt(both), np.nan),
        p_value=p_value,
        adjusted=_adjust(p_value, correction),
        seeds=(len(right["full"]), len(right["pruned"])),
        level=level,
    )


def _encode(truth: NDArray[Any], classes: Sequence[str] | None) -> tuple[tuple[str, ...], NDArray[np.int64]]:
    """Names of the classes, and the row of each label among them."""
    if classes is None:
        found, codes = np.unique(truth, return_inverse=True)
        return tuple(str(name) for name in found), codes.astype(np.int64)
    names = tuple(str(name) for name in classes)
    if len(set(names)) < len(names):
        raise PareError("classes must be named once each.")
    if truth.dtype.kind in "iu":
        bad = np.flatnonzero((truth < 0) | (truth >= len(names)))
        codes = truth.astype(np.int64)
    else:
        place = {name: row for row, name in enumerate(names)}
        codes = np.array([place.get(str(name), -1) for name in truth.tolist()], dtype=np.int64)
        bad = np.flatnonzero(codes < 0)
    if len(bad):
        raise PareError(
            f"labels at {name_rows(bad)} are none of the {len(names)} classes, e.g. {truth[bad[0]]!s}; "
            "name every class of the test set in `classes`."
        )
    return names, codes


def _correct(what: str, predictions: ArrayLike, truth: NDArray[Any]) -> NDArray[np.float64]:
    """Which predictions are right, as (seeds, examples)."""
    given = np.atleast_2d(np.asarray(predictions))
    if given.ndim != 2 or given.shape[1] != len(truth) or not len(given):
        raise PareError(
            f"{what} must hold one predicted class for each of the {len(truth)} labels, as (examples,) or "
            f"(seeds, examples); got shape {np.shape(predictions)}."
        )
    numbers = [array.dtype.kind in "iu" for array in (given, truth)]
    if given.dtype.kind == "f" or numbers[0] != numbers[1]:
        raise PareError(
            f"{what} ({given.dtype}) and labels ({truth.dtype}) must both be codes or both be names; "
            "for logits or probabilities, take the argmax first."
        )
    return (given == truth).astype(np.float64)


def _two_sided(t: Floats, variances: list[Any], freedoms: list[Any]) -> Floats:
    from scipy.special import stdtr

    weights = sum(variance**2 / freedom for variance, freedom in zip(variances, freedoms, strict=True))
    return 2 * stdtr(sum(variances) ** 2 / weights, -np.abs(t))


def _adjust(p_value: Floats, correction: Correction) -> Floats:
    """The smallest level at which each class would be named."""
    from scipy.stats import false_discovery_control

    adjusted = np.full(len(p_value), np.nan)
    there = np.flatnonzero(np.isfinite(p_value))
    if correction == "fdr" and len(there):
        adjusted[there] = false_discovery_control(p_value[there])
    elif correction == "holm":
        rows = there[np.argsort(p_value[there])]
        steps = np.maximum.accumulate(p_value[rows] * np.arange(len(rows), 0, -1))
        adjusted[rows] = np.minimum(steps, 1)
    return adjusted
