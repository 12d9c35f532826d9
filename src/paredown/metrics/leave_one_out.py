"""Memorization and influence in closed form, for a linear classifier by least squares (Feldman and Zhang 2020).

Networks on random subsets estimate what leaving one example out does to another; from a hundred of them influence is
mostly noise. For ridge regression onto one column of ones and zeros per class, leaving out is a formula: with the
residual e_i of an example and its leverage h_ii, the fit without i has the residual e_i / (1 - h_ii) at i, and at
another input x it falls by g(x, x_i) e_i / (1 - h_ii), where g is the same bilinear form as h (Cook and Weisberg 1982,
"Residuals and influence in regression"). So every example is left out, once, and nothing is estimated.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.metrics.prediction_arrays import Values, pair_blocks
from paredown.threads import one_blas_thread

_RIDGES = np.logspace(-6, 2, 17)  # tried, in units of the mean square of a direction
_FULL = 1 - 1e-9  # leverage from which on the rest of the data says nothing of an example


class LeftOut(NamedTuple):
    """Scores of every example, higher is harder, and what they were made with."""

    memorization: Values
    influence_max: Values
    influence_sum_abs: Values
    ridge: float
    accuracy: float  # on each example, of the classifier that was fitted without it


def leave_one_out(
    embeddings: NDArray[np.floating],
    labels: NDArray[np.int64],
    *,
    test: tuple[NDArray[np.floating], NDArray[np.int64]] | None = None,
) -> LeftOut:
    """How the classifier's output for the true class changes by training on an example: at itself and at others.

    The ridge is the one, of a fixed grid, with the smallest squared error on the examples left out.

    Args:
        embeddings: (n, d).
        labels: class numbers from 0, (n,).
        test: embeddings and labels on which influence is measured. Without it, the other training examples, each of
            them left out as well: training on j is no test of what i does for j.
    """
    with one_blas_thread():  # the bits of the sums must not depend on the number of cores
        middle = embeddings.mean(axis=0, dtype=np.float64)
        x = _with_constant(embeddings, middle)
        targets = np.eye(int(labels.max()) + 1)[labels]
        scales, directions = np.linalg.eigh(x.T @ x)
        turned = x @ directions
        size = float(scales[scales > 0].mean()) if (scales > 0).any() else 1.0
        fits = ((ridge, *_fit(turned, targets, np.maximum(scales, 0) + ridge * size)) for ridge in _RIDGES)
        ridge, leverage, residual = min(fits, key=lambda fit: float(np.square(fit[2] / (1 - fit[1])[:, None]).sum()))
        weights = 1 / np.sqrt(np.maximum(scales, 0) + ridge * size)
        rows = turned * weights
        missed = residual / (1 - leverage)[:, None]  # of the fit that did not see the example
        own = missed[np.arange(len(labels)), labels]
        right = (targets - missed).argmax(axis=1) == labels
        if test is None:
            top, total = _on_each_other(rows, labels, leverage, residual)
        else:
            tests = _with_constant(test[0], middle) @ directions * weights
            top, total = _on_tests(rows, missed, tests, test[1])
    return LeftOut(own * leverage, top, total, float(ridge), float(right.mean()))


def _with_constant(embeddings: NDArray[np.floating], middle: Values) -> Values:
    return np.hstack([embeddings - middle, np.ones((len(embeddings), 1))])


def _fit(turned: Values, targets: Values, spread: Values) -> tuple[Values, Values]:
    """Leverages and residuals of the ridge regression whose regularised scatter has these eigenvalues."""
    leverage = np.minimum(np.square(turned) @ (1 / spread), _FULL)
    return leverage, targets - turned @ ((turned.T @ targets) / spread[:, None])


def _on_tests(rows: Values, missed: Values, tests: Values, labels: NDArray[np.int64]) -> tuple[Values, Values]:
    """Influence on test examples: the largest and the sum of the absolute ones.

    Of one class, the change is largest at the test with the largest or smallest product, by the sign of the residual.
    """
    top, total = np.full(len(rows), -np.inf), np.zeros(len(rows))
    for i in pair_blocks(len(rows)):
        for label in np.unique(labels):
            alike = tests[labels == label]
            for j in pair_blocks(len(alike)):
                change = rows[i] @ alike[j].T * missed[i, label, None]
                top[i] = np.maximum(top[i], change.max(axis=1))
                total[i] += np.abs(change).sum(axis=1)
    return top, total


def _on_each_other(
    rows: Values, labels: NDArray[np.int64], leverage: Values, residual: Values
) -> tuple[Values, Values]:
    """The same on the other training examples: the residual at j without i and j, less the one without j alone."""
    top, total = np.full(len(rows), -np.inf), np.zeros(len(rows))
    own = residual[np.arange(len(rows)), labels]
    without = own / (1 - leverage)
    for i in pair_blocks(len(rows)):
        apart = 1 - leverage[i, None]
        for j in pair_blocks(len(rows)):
            shared = rows[i] @ rows[j].T
            both = np.maximum(apart * (1 - leverage[j]) - shared**2, 1e-12)
            change = (apart * own[j] + shared * residual[i][:, labels[j]]) / both - without[j]
            self_ = np.arange(i.start, i.stop)[:, None] == np.arange(j.start, j.stop)
            total[i] += np.abs(np.where(self_, 0, change)).sum(axis=1)
            top[i] = np.maximum(top[i], np.where(self_, -np.inf, change).max(axis=1))
    return top, total
