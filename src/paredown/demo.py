"""The main job on real images that ship inside scikit-learn: does pruning the digits beat chance, and where not?

Every repeat draws a new train/test split, scores the training part, prunes it in several ways, trains the same
classifier on each subset and on random subsets of equal size, and measures test accuracy. Differences to random are
taken inside a repeat, so that a hard split does not count as a bad metric.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.progress import Track, silent
from paredown.scores import Scores
from paredown.scoring import score
from paredown.selection import select
from paredown.standard_errors import standard_error

DEMO_FRACTIONS = (0.1, 0.2, 0.4, 0.6, 0.8)


class _Method(NamedTuple):
    metric: str
    strategy: str
    balance: float


DEMO_METHODS: dict[str, _Method] = {
    "prototypes, hard": _Method("prototypes", "hard", 0.0),
    "prototypes, hard, balanced": _Method("prototypes", "hard", 0.5),
    "supervised prototypes, hard": _Method("supervised_prototypes", "hard", 0.0),
    "supervised prototypes, hard, balanced": _Method("supervised_prototypes", "hard", 0.5),
    "prototypes, easy, balanced": _Method("prototypes", "easy", 0.5),
}


class DemoRow(NamedTuple):
    """One method at one keep_fraction: mean test accuracy over the repeats, and the paired difference to random."""

    method: str
    keep_fraction: float
    kept: int
    accuracy: float
    stderr: float
    difference: float  # to random subsets of equal size
    difference_stderr: float


def run_demo(*, repeats: int = 10, random_subsets: int = 5, seed: int = 0, track: Track = silent) -> list[DemoRow]:
    """Accuracies of a support vector machine on pruned digits, by method and fraction; `full` is no pruning."""
    if repeats < 2:
        raise PareError(f"repeats must be at least 2 to have an error bar, got {repeats}.")
    runs = [
        _repeat(np.random.default_rng([seed, repeat]), random_subsets)
        for repeat in track(range(repeats), "training", total=repeats)
    ]
    rows = []
    for key in runs[0]:
        method, fraction, kept = key
        accuracy = np.array([run[key] for run in runs])
        random = np.array([run[("random", fraction, kept)] for run in runs]) if method != "full" else accuracy
        mean, stderr = _mean(accuracy)
        rows.append(DemoRow(method, fraction, kept, mean, stderr, *_mean(accuracy - random)))
    return rows


def _repeat(rng: np.random.Generator, random_subsets: int) -> dict[tuple[str, float, int], float]:
    """Test accuracy of every method at every fraction for one train/test split."""
    images, digits = load_digits()
    order = rng.permutation(len(images))
    train, test = order[: len(order) * 3 // 4], order[len(order) * 3 // 4 :]
    seed = int(rng.integers(2**31))
    scores: dict[str, Scores] = {
        metric: score(images[train], metric=metric, labels=digits[train], seed=seed)
        for metric in {method.metric for method in DEMO_METHODS.values()}
    }

    def accuracy(rows: NDArray[np.int64]) -> float:
        return _accuracy(images[train[rows]], digits[train[rows]], images[test], digits[test])

    n = len(train)
    result = {("full", 1.0, n): accuracy(np.arange(n))}
    for fraction in DEMO_FRACTIONS:
        kept = round(fraction * n)
        subsets = [
            select(np.zeros(n), keep_fraction=fraction, strategy="random", seed=seed + i).indices
            for i in range(random_subsets)
        ]
        result["random", fraction, kept] = float(np.mean([accuracy(rows) for rows in subsets]))
        for name, method in DEMO_METHODS.items():
            chosen = select(
                scores[method.metric],
                keep_fraction=fraction,
                strategy=method.strategy,
                balance=method.balance,
                seed=seed,
            )
            result[name, fraction, kept] = accuracy(chosen.indices)
    return result


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
