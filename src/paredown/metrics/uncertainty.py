"""How unsure a prediction is, and how much an ensemble disagrees; no labels needed."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError
from paredown.ids import name_rows
from paredown.metrics.prediction_arrays import Values, column_sums, read_bools, read_probabilities


def entropy(probabilities: ArrayLike) -> Values:
    """The entropy of a prediction in nats, -sum_c p(c) log p(c); higher is harder.

    Of one network: Coleman et al. 2020, "Selection via proxy". Of the mean prediction of an ensemble, which is what
    metric `active_learning` takes: Chitta et al. 2021, "Training data subset search with ensemble active learning".

    >>> entropy([[0.9, 0.1], [0.5, 0.5]]).round(3).tolist()
    [0.325, 0.693]

    Args:
        probabilities: (examples, classes); of an ensemble, their mean over the members.
    """
    return plain_entropy(read_probabilities(probabilities, "examples", "classes"))


def variation_ratio(votes: ArrayLike, *, trained_on: ArrayLike | None = None) -> Values:
    """The share of the members of an ensemble that do not vote for the class with the most votes; higher is harder.

    1 - max_c (number of votes for c) / (number of votes): Freeman 1965, "Elementary applied statistics"; for ensembles
    of networks Beluch et al. 2018, "The power of ensembles for active learning in image classification".

    >>> variation_ratio([[0, 1], [0, 2], [0, 1]]).round(3).tolist()
    [0.0, 0.333]

    Args:
        votes: the class that each member predicts, (members, examples).
        trained_on: which member trained on which example, (members, examples): then only the others vote on it.
    """
    classes = np.asarray(votes)
    if classes.ndim != 2 or classes.dtype.kind not in "iu" or 0 in classes.shape or classes.min() < 0:
        raise PareError(
            f"votes must be class numbers (members, examples), got {classes.dtype} of shape {classes.shape}; of "
            "predictions take probabilities.argmax(axis=-1)."
        )
    voting = np.ones(classes.shape, bool)
    if trained_on is not None:
        voting = ~read_bools(trained_on, "trained_on", "members", "examples")
        if voting.shape != classes.shape:
            raise PareError(f"trained_on must be {classes.shape} like the votes, got {voting.shape}.")
    alone = np.flatnonzero(~voting.any(axis=0))
    if len(alone):
        raise PareError(f"every member trained on {name_rows(alone)}; leave each example out of some training.")
    counts = np.zeros((classes.shape[1], int(classes.max()) + 1))
    for member, counted in zip(classes, voting, strict=True):
        counts[np.flatnonzero(counted), member[counted]] += 1
    return vote_variation(counts, voting.sum(axis=0))


def plain_entropy(p: NDArray[np.floating]) -> Values:
    """-sum p log p over the last axis, where 0 log 0 is 0."""
    return -(p * np.log(np.maximum(p, 1e-300))).sum(axis=-1)


def entropy_of_softmax(p: Values, shifted: Values, total: Values) -> Values:
    """The same from logits (classes, examples) less their largest, whose powers sum to `total`.

    -sum p log p = log(total) - sum p shifted, which needs no logarithm of a vanishing p. `shifted` is written to.
    """
    np.multiply(p, shifted, out=shifted)
    return np.log(total) - column_sums(shifted)


def vote_variation(counts: Values, members: int | NDArray[Any]) -> Values:
    """The same from the number of votes for each class, (examples, classes)."""
    return 1 - counts.max(axis=1) / members
