"""The main job on real images that ship inside scikit-learn: does pruning beat random subsets, and where not?

Few digits: every repeat draws a new train/test split, scores the training part, prunes it in several ways, trains the
same classifier on each subset and on random subsets of equal size, and measures test accuracy. Many digits: the
training part is deformed without end; of ever more deformed digits the hardest few are kept. The test digits are then
deformed ones, too, and their originals are never among those of the training part.

Differences to random are taken inside a repeat, so that a hard split does not count as a bad metric.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from contextlib import closing
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.deformed_images import Deformation, DeformedImages
from paredown.errors import PareError, argument
from paredown.laws.multiple_comparisons import holm, student_p_value
from paredown.metrics import el2n
from paredown.progress import Track, silent
from paredown.scoring import score
from paredown.selection import select
from paredown.standard_errors import standard_error
from paredown.workers import available_cores, run_jobs

DEMO_FRACTIONS = (0.1, 0.2, 0.4, 0.6, 0.8)
MANY_KEPT = (500, 1000, 2000)  # of many digits,
MANY_FRACTIONS = (0.5, 0.25, 0.125)  # as the hardest of 2, 4 and 8 times as many
_DEFORMATION = Deformation().times(0.8)
_PROBES = 3
_TRAINING: dict[str, Any] = {"batch_size": 100, "max_iter": 15}  # of a probe
_PROBED, _TESTED = 6000, 2000  # deformed digits that probes learn from, and that all are tested on
_PIXEL = np.float32(16)  # the digits are 0 ... 16, as bytes 0 ... 255


class _Method(NamedTuple):
    metric: str
    strategy: str
    balance: float


DEMO_HARDEST = "EL2N, hard"
DEMO_METHODS: dict[str, _Method] = {
    "prototypes, hard": _Method("prototypes", "hard", 0.0),
    "prototypes, hard, balanced": _Method("prototypes", "hard", 0.5),
    "supervised prototypes, hard": _Method("supervised_prototypes", "hard", 0.0),
    "supervised prototypes, hard, balanced": _Method("supervised_prototypes", "hard", 0.5),
    "prototypes, easy, balanced": _Method("prototypes", "easy", 0.5),
    DEMO_HARDEST: _Method("el2n", "hard", 0.0),
}


class DemoRow(NamedTuple):
    """One method at one keep_fraction: mean test accuracy over the repeats, and the paired difference to random."""

    digits: str  # `few` or `many`
    method: str
    keep_fraction: float  # of the initial set; random sets of many digits are all that there is of theirs
    kept: int
    accuracy: float
    stderr: float
    difference: float  # to random subsets of equal size
    difference_stderr: float
    p_value: float = math.nan  # of the difference, by Student's t over the repeats, corrected for all of the demo


def run_demo(*, repeats: int = 10, random_subsets: int = 5, seed: int = 0, track: Track = silent) -> list[DemoRow]:
    """Accuracies of a support vector machine on pruned digits, few and many, by method and fraction.

    `full` is no pruning; the method `random` of many digits has keep_fraction 1, as any set of them is a random one.
    """
    if repeats < 2:
        raise PareError(f"{argument('repeats')} must be at least 2 to have an error bar, got {repeats}.")
    load_digits()  # says what is missing before workers are started
    common = {"seed": seed, "random_subsets": random_subsets}
    outcomes = run_jobs(f"{__name__}:repeat_demo", range(repeats), workers=available_cores(), common=common)
    found: dict[int, Any] = {}
    with closing(outcomes):
        for outcome in track(outcomes, "training", total=repeats):
            if outcome.error is not None:
                raise PareError(f"the demo failed: {outcome.error}")
            found[outcome.job] = outcome.value
    runs = [{tuple(key): accuracy for key, accuracy in found[repeat]} for repeat in range(repeats)]
    rows = []
    for key in runs[0]:
        digits, method, fraction, kept = key
        accuracy = np.array([run[key] for run in runs])
        by_chance = (digits, "random", fraction if digits == "few" else 1.0, kept)
        random = np.array([run[by_chance] for run in runs]) if method != "full" else accuracy
        mean, stderr = _mean(accuracy)
        rows.append(DemoRow(digits, method, fraction, kept, mean, stderr, *_mean(accuracy - random)))
    return _corrected(rows, repeats)


def planned_comparisons(rows: Sequence[DemoRow], repeats: int) -> tuple[DemoRow, DemoRow]:
    """What the demo is about: the hardest few of few digits, and the hardest quarter of many, by EL2N.

    These two are chosen before it runs, so that their p-values are corrected for being two, not for the whole table.
    """
    hardest = [row for row in rows if row.method == DEMO_HARDEST]
    few = min((row for row in hardest if row.digits == "few"), key=lambda row: row.keep_fraction)
    many = max((row for row in hardest if row.digits == "many" and row.keep_fraction == 0.25), key=lambda row: row.kept)
    first, second = _corrected([few, many], repeats)
    return first, second


def _corrected(rows: Sequence[DemoRow], repeats: int) -> list[DemoRow]:
    """Rows with their p-values, by Student's t over the repeats and Holm's correction for their number."""
    z = [row.difference / row.difference_stderr if row.difference_stderr else math.nan for row in rows]
    single = [student_p_value(each, repeats) for each in z]
    return [row._replace(p_value=step.correct(p)) for row, step, p in zip(rows, holm(single), single, strict=True)]


_Accuracies = dict[tuple[str, str, float, int], float]  # by digits, method, keep_fraction and number kept


def repeat_demo(common: dict[str, int], repeat: int) -> list[Any]:
    """A job: one repeat, its keys and accuracies."""
    return list(_repeat(np.random.default_rng([common["seed"], repeat]), common["random_subsets"]).items())


def _repeat(rng: np.random.Generator, random_subsets: int) -> _Accuracies:
    """Test accuracy of every method at every fraction for one train/test split."""
    images, digits = load_digits()
    order = rng.permutation(len(images))
    train, test = order[: len(order) * 3 // 4], order[len(order) * 3 // 4 :]
    seed = int(rng.integers(2**31))
    few = _few((images[train], digits[train]), (images[test], digits[test]), random_subsets, seed)
    return few | _many((images[train], digits[train]), (images[test], digits[test]), seed)


_Labelled = tuple[NDArray[np.float32], NDArray[np.int64]]


def _few(train: _Labelled, test: _Labelled, random_subsets: int, seed: int) -> _Accuracies:
    """The digits as they are."""
    (images, digits), n = train, len(train[0])
    scores: dict[str, Any] = {
        metric: score(images, metric=metric, labels=digits, seed=seed)
        for metric in {method.metric for method in DEMO_METHODS.values()} - {"el2n"}
    }
    scores["el2n"] = _el2n(train, images, digits)

    def accuracy(rows: NDArray[np.int64]) -> float:
        return _accuracy(images[rows], digits[rows], *test)

    result = {("few", "full", 1.0, n): accuracy(np.arange(n))}
    for fraction in DEMO_FRACTIONS:
        kept = round(fraction * n)
        subsets = [
            select(np.zeros(n), keep_fraction=fraction, strategy="random", seed=seed + i).indices
            for i in range(random_subsets)
        ]
        result["few", "random", fraction, kept] = float(np.mean([accuracy(rows) for rows in subsets]))
        for name, method in DEMO_METHODS.items():
            chosen = select(
                scores[method.metric],
                keep_fraction=fraction,
                strategy=method.strategy,
                balance=method.balance,
                seed=seed,
            )
            result["few", name, fraction, kept] = accuracy(chosen.indices)
    return result


def _many(train: _Labelled, test: _Labelled, seed: int) -> _Accuracies:
    """Digits deformed without end: the hardest of an initial set against a random set of the same size."""
    probed = _deformed(train, seed, _PROBED)
    images, digits = _deformed(train, seed + 1, round(max(MANY_KEPT) / min(MANY_FRACTIONS)))
    tested = _deformed(test, seed + 2, _TESTED)
    hardness = _el2n(probed, images, digits)
    result: _Accuracies = {}
    for kept in MANY_KEPT:  # as deformed digits have no order, the first are a random set, of any size
        result["many", "random", 1.0, kept] = _accuracy(images[:kept], digits[:kept], *tested)
        for fraction in MANY_FRACTIONS:
            rows = select(hardness[: round(kept / fraction)], keep_fraction=fraction).indices
            result["many", DEMO_HARDEST, fraction, kept] = _accuracy(images[rows], digits[rows], *tested)
    return result


def _deformed(originals: _Labelled, seed: int, number: int) -> _Labelled:
    """So many deformed digits, with the labels of their originals."""
    pixels, digits = originals
    grey = np.minimum(pixels.reshape(-1, 8, 8) * _PIXEL, 255).astype(np.uint8)
    endless, numbers = DeformedImages(grey, seed, _DEFORMATION), np.arange(number)
    return endless.images(numbers).reshape(number, -1).astype(np.float32) / _PIXEL, digits[endless.rows(numbers)]


def _el2n(known: _Labelled, images: NDArray[np.float32], digits: NDArray[np.int64]) -> NDArray[Any]:
    """How far a few small networks, trained on what is known, are from the labels; higher is harder."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.neural_network import MLPClassifier

    probabilities = []
    for member in range(_PROBES):
        probe = MLPClassifier((64,), **_TRAINING, random_state=member)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # probes are stopped early
            probe.fit(*known)
        probabilities.append(probe.predict_proba(images))
    return el2n(np.stack(probabilities), digits)


def load_digits() -> tuple[NDArray[np.float32], NDArray[np.int64]]:
    """The 1797 digits of 8 x 8 pixels as vectors, and what they show."""
    try:
        from sklearn import datasets
    except ImportError as error:
        raise PareError("the demo needs scikit-learn and matplotlib: pip install 'paredown[demo]'.") from error
    digits: Any = datasets.load_digits()
    return digits.data.astype(np.float32), digits.target


def _accuracy(x: NDArray[Any], y: NDArray[Any], x_test: NDArray[Any], y_test: NDArray[Any]) -> float:
    from sklearn.svm import SVC

    if len(np.unique(y)) < 2:  # nothing to tell apart: the best guess is the only class there is
        return float(np.mean(y_test == y[0]))
    return float(SVC(C=10.0).fit(x, y).score(x_test, y_test))


def _mean(values: NDArray[np.float64]) -> tuple[float, float]:
    return float(values.mean()), standard_error(values)
