"""What one look at a batch tells about each of its examples: one softmax, shared by every metric."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.metrics.error_norms import error_lengths
from paredown.metrics.margins import label_margins
from paredown.metrics.prediction_arrays import column_sums
from paredown.metrics.uncertainty import entropy_of_softmax


class Observations(NamedTuple):
    """One number per row of a batch."""

    p_true: NDArray[np.float64]  # probability of the label
    el2n: NDArray[np.float64]  # length of softmax - onehot
    margin: NDArray[np.float64]  # the label's logit minus the largest other one
    entropy: NDArray[np.float64]  # of the softmax, in nats
    correct: NDArray[np.bool_]  # whether the label has the largest logit; the first class wins a tie
    grand: NDArray[np.float64]  # length of the last layer's gradient; NaN where no features are given
    p: NDArray[np.float64]  # the softmax, (rows, classes), a transposed view

    def rows(self, chosen: NDArray[np.int64]) -> Observations:
        """The same for some rows of the batch."""
        return Observations._make(part[chosen] for part in self)


def observe(
    logits: NDArray[np.float64], labels: NDArray[np.int64], feature_lengths: NDArray[np.float64]
) -> Observations:
    """The numbers of `Observations` from finite logits (rows, classes).

    Arrays are turned to (classes, rows): sums then run down the columns, class after class, which is quick for few
    classes and gives a row the same bits whatever other rows there are. The formulas are those of `paredown.metrics`.
    """
    z = np.array(logits.T, order="C")
    shifted = z - z.max(axis=0)
    p = np.exp(shifted)
    total = column_sums(p)
    p /= total
    el2n = error_lengths(p, labels)
    return Observations(
        p_true=p[labels, np.arange(len(labels))],
        el2n=el2n,
        margin=label_margins(z, labels),
        entropy=entropy_of_softmax(p, shifted, total),
        correct=logits.argmax(axis=1) == labels,
        grand=el2n * feature_lengths,
        p=p.T,
    )
