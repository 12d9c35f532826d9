"""The margin of an example, and the area under it over a training (Pleiss et al. 2020)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.metrics.prediction_arrays import Values, read_labels, read_numbers


def margin(logits: ArrayLike, labels: ArrayLike) -> Values:
    """Minus the label's logit less the largest other one, -(z_y - max_{c != y} z_c); higher is harder.

    Above zero the network is wrong. Pleiss, Zhang, Elenberg and Weinberger 2020, "Identifying mislabeled data using the
    area under the margin ranking", section 3, of one moment of the training.

    >>> margin([[2.0, 0.0, 1.0], [0.5, 3.0, 0.0]], labels=[0, 0]).tolist()
    [-1.0, 2.5]

    Args:
        logits: (examples, classes), before the softmax.
        labels: the class of each example, (examples,).
    """
    z = read_numbers(logits, "logits", "examples", "classes")
    return -label_margins(z.T, read_labels(labels, *z.shape))


def aum(logits: ArrayLike, labels: ArrayLike) -> Values:
    """Minus the margin averaged over the epochs of a training; higher is harder, and mislabelled ones are hardest.

    -1/T sum_t (z_y(t) - max_{c != y} z_c(t)): Pleiss et al. 2020, section 3, with the sign turned round.

    >>> aum([[[2.0, 0.0]], [[0.0, 1.0]]], labels=[0]).tolist()
    [-0.5]

    Args:
        logits: (epochs, examples, classes), before the softmax.
        labels: the class of each example, (examples,).
    """
    z = read_numbers(logits, "logits", "epochs", "examples", "classes")
    y = read_labels(labels, *z.shape[1:])
    return mean_margin_score(np.sum([label_margins(epoch.T, y) for epoch in z], axis=0), len(z))


def label_margins(z: Values, labels: NDArray[np.int64]) -> Values:
    """The label's logit less the largest other one, of each column of z (classes, examples)."""
    rows = np.arange(len(labels))
    others = np.array(z, order="C")
    own = others[labels, rows]
    others[labels, rows] = -np.inf
    return own - others.max(axis=0)


def mean_margin_score(total: Values, looks: int | NDArray[np.integer]) -> Values:
    """The score of margins added up over so many observations of an example."""
    return -total / looks
