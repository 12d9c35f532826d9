"""What one look at a batch tells about each of its examples: one softmax, shared by every metric."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Observed", "column_sums", "lengths_with_one", "observe"]


class Observed(NamedTuple):
    """One number per row of a batch."""

    p_true: NDArray[np.float64]  # probability of the label
    el2n: NDArray[np.float64]  # length of softmax - onehot
    margin: NDArray[np.float64]  # the label's logit minus the largest other one
    entropy: NDArray[np.float64]  # of the softmax, in nats
    correct: NDArray[np.bool_]  # whether the label has the largest logit; the first class wins a tie
    grand: NDArray[np.float64]  # length of the last layer's gradient; NaN where no features are given
    p: NDArray[np.float64]  # the softmax, (rows, classes), a transposed view

    def rows(self, chosen: NDArray[np.int64]) -> Observed:
        """The same for some rows of the batch."""
        return Observed._make(part[chosen] for part in self)


def observe(logits: NDArray[np.float64], labels: NDArray[np.int64], feature_lengths: NDArray[np.float64]) -> Observed:
    """The numbers of `Observed` from finite logits (rows, classes).

    Arrays are turned to (classes, rows): sums then run down the columns, class after class, which is quick for few
    classes and gives a row the same bits whatever other rows there are. The gradient of the cross-entropy with respect
    to the weights and biases of a linear last layer on features h is the outer product of softmax - onehot and [h, 1],
    whose length is the product of their lengths (Paul et al. 2021, section 2).
    """
    rows = np.arange(len(labels))
    z = np.array(logits.T, order="C", copy=True)  # written to below
    true_logit = z[labels, rows]
    shifted = z - z.max(axis=0)
    p = np.exp(shifted)
    total = column_sums(p)
    p /= total

    # entropy = -sum p log p = log(total) - sum p shifted, which needs no logarithm of a vanishing p
    np.multiply(p, shifted, out=shifted)
    entropy = np.log(total)
    entropy -= column_sums(shifted)

    z[labels, rows] = -np.inf
    margin = true_logit - z.max(axis=0)

    p_true = p[labels, rows]
    error = p.copy()
    error[labels, rows] -= 1.0
    np.multiply(error, error, out=error)
    el2n = np.sqrt(column_sums(error))
    correct = logits.argmax(axis=1) == labels
    return Observed(p_true, el2n, margin, entropy, correct, el2n * feature_lengths, p.T)


def lengths_with_one(features: NDArray[np.float64]) -> NDArray[np.float64]:
    """The lengths of the rows [h, 1]."""
    return np.sqrt(column_sums(np.square(features.T)) + 1.0)


def column_sums(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """The sum of each column, from top to bottom, to the same bits however many columns there are.

    numpy adds rows to each other in order, but a single column, or columns that lie contiguous in memory, it adds up
    in another order (pairwise).
    """
    if values.shape[1] == 1:
        return np.repeat(values, 2, axis=1).sum(axis=0)[:1]
    return np.ascontiguousarray(values).sum(axis=0)
