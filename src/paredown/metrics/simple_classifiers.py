"""Classifiers without gradients: what class means, a discriminant and neighbours say of examples they did not see.

Each takes the embeddings and labels it learns from, the embeddings it is asked about and the number of classes, and
returns log probabilities (asked, classes) up to a constant of the row; a class without examples has -inf.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from paredown.metrics.prediction_arrays import Values
from paredown.threads import one_blas_thread

_NEIGHBOURS = 20
_REFERENCES = 20_000  # among which neighbours are looked for at most, as every example is compared with all of them
_BLOCK = 1024


def class_means(known: Values, labels: NDArray[np.int64], asked: Values, classes: int) -> Values:
    """The nearest class mean: classes are balls of one size, -|x - mean_c|^2 / (2 s^2) with their mean variance s^2."""
    counts, means = _class_means(known, labels, classes)
    spread = max(float(np.square(known - means[labels]).mean()), 1e-12)
    return _where_known(counts, -_squared_distances(asked, means) / (2 * spread))


def discriminant(known: Values, labels: NDArray[np.int64], asked: Values, classes: int) -> Values:
    """Linear discriminant analysis (Fisher 1936): classes are Gaussian with one covariance S and their own shares.

    x S^-1 mean_c - mean_c S^-1 mean_c / 2 + log(share of c), S shrunk towards a ball by d / (d + n).
    """
    counts, means = _class_means(known, labels, classes)
    within = known - means[labels]
    n, d = known.shape
    ball = d / (d + n)
    scatter = within.T @ within / n
    scatter = (1 - ball) * scatter + (ball * max(float(np.trace(scatter)) / d, 1e-12)) * np.eye(d)
    weights = np.linalg.solve(scatter, means.T)
    shares = np.log(np.maximum(counts, 1) / n)
    return _where_known(counts, asked @ weights - (means.T * weights).sum(axis=0) / 2 + shares)


def neighbours(known: Values, labels: NDArray[np.int64], asked: Values, classes: int) -> Values:
    """The votes of the 20 nearest, with one vote spread over all classes, so that no share is zero.

    Among the first 20,000 known examples at most.
    """
    known, labels = known[:_REFERENCES], labels[:_REFERENCES]
    nearest = min(_NEIGHBOURS, len(known))
    votes = np.zeros((len(asked), classes))
    for first in range(0, len(asked), _BLOCK):
        rows = slice(first, first + _BLOCK)
        apart = _squared_distances(asked[rows], known)
        found = labels[np.argpartition(apart, nearest - 1, axis=1)[:, :nearest]]
        votes[rows] = (found[:, :, None] == np.arange(classes)).sum(axis=1)
    counts = np.bincount(labels, minlength=classes)
    return _where_known(counts, np.log(votes + 1 / classes))


SIMPLE_CLASSIFIERS = {"class_means": class_means, "discriminant": discriminant, "neighbours": neighbours}


def judge_folds(
    name: str, embeddings: NDArray[np.floating], labels: NDArray[np.int64], fold: NDArray[np.int64]
) -> Values:
    """What a classifier says of every example, (n, classes), having learned from the other folds alone.

    Features are standardised, as networks see them, by the examples it learns from.
    """
    classes = int(labels.max()) + 1
    said = np.empty((len(labels), classes))
    with one_blas_thread():  # the bits of the sums must not depend on the number of cores
        for own in range(int(fold.max()) + 1):
            inside, outside = fold == own, fold != own
            known, asked = (embeddings[rows].astype(np.float64) for rows in (outside, inside))
            middle, deviation = known.mean(axis=0), known.std(axis=0)
            deviation[deviation == 0] = 1
            known, asked = (known - middle) / deviation, (asked - middle) / deviation
            said[inside] = SIMPLE_CLASSIFIERS[name](known, labels[outside], asked, classes)
    return said


def _class_means(known: Values, labels: NDArray[np.int64], classes: int) -> tuple[NDArray[np.int64], Values]:
    counts = np.bincount(labels, minlength=classes)
    sums = np.zeros((classes, known.shape[1]))
    np.add.at(sums, labels, known)
    return counts, sums / np.maximum(counts, 1)[:, None]


def _squared_distances(rows: Values, others: Values) -> Values:
    return np.square(rows).sum(axis=1)[:, None] - 2 * rows @ others.T + np.square(others).sum(axis=1)


def _where_known(counts: NDArray[np.int64], logits: Values) -> Values:
    return np.where(counts > 0, logits, -np.inf)
