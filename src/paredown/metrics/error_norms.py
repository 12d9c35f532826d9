"""EL2N and GraNd: how long the error vector, or the gradient of the loss, of an example is (Paul et al. 2021)."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError
from paredown.metrics.prediction_arrays import Values, column_sums, read_labels, read_numbers, read_probabilities


def el2n(probabilities: ArrayLike, labels: ArrayLike) -> Values:
    """The length of the error vector, |p - onehot(y)|_2; higher is harder.

    Paul, Ganguli and Dziugaite 2021, "Deep learning on a data diet", section 2; section 2.1 of the pruning paper. The
    authors average over some ten networks early in training.

    >>> el2n([[1.0, 0.0], [0.5, 0.5], [0.4, 0.6]], labels=[0, 0, 0]).round(3).tolist()
    [0.0, 0.707, 0.849]

    Args:
        probabilities: (examples, classes), or (members, examples, classes) to average over the members of an ensemble.
        labels: the class of each example, (examples,).
    """
    members = np.ndim(probabilities) == 3
    p = read_probabilities(probabilities, *(("members",) if members else ()), "examples", "classes")
    y = read_labels(labels, *p.shape[-2:])
    return np.mean([error_lengths(member.T, y) for member in p], axis=0) if members else error_lengths(p.T, y)


def grand(probabilities: ArrayLike, labels: ArrayLike, features: ArrayLike) -> Values:
    """The length of the gradient of the cross-entropy with respect to a linear last layer; higher is harder.

    The gradient is the outer product of p - onehot(y) and (h, 1), with h the features that enter the layer and the 1
    for its bias, so that its length is the product |p - onehot(y)|_2 |(h, 1)|_2. Paul et al. 2021, section 2, take the
    gradient of all layers; that of the last one is what they derive EL2N from.

    >>> grand([[1.0, 0.0], [0.5, 0.5]], labels=[0, 0], features=[[3.0], [1.0]]).round(3).tolist()
    [0.0, 1.0]

    Args:
        probabilities: (examples, classes).
        labels: the class of each example, (examples,).
        features: what enters the last layer, (examples, width).
    """
    p = read_probabilities(probabilities, "examples", "classes")
    h = read_numbers(features, "features", "examples", "width")
    if len(h) != len(p):
        raise PareError(f"there are {len(h)} rows of features for {len(p)} examples; give one each.")
    return error_lengths(p.T, read_labels(labels, *p.shape)) * lengths_with_one(h)


def error_lengths(p: Values, labels: NDArray[np.int64]) -> Values:
    """|p - onehot(y)| of each column of p (classes, examples), to the same bits whatever other columns there are."""
    error = np.array(p, order="C")
    error[labels, np.arange(len(labels))] -= 1.0
    np.multiply(error, error, out=error)
    return np.sqrt(column_sums(error))


def lengths_with_one(features: Values) -> Values:
    """The lengths of the rows (h, 1)."""
    return np.sqrt(column_sums(np.square(features.T)) + 1.0)
