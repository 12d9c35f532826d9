"""Forgetting: how often an example was learned and lost again (Toneva et al. 2019)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.metrics.prediction_arrays import Mask, Values, read_bools


def forgetting(correct: ArrayLike) -> Values:
    """How often an example went from classified rightly to wrongly; higher is harder.

    sum_t [right at t][wrong at t + 1]: Toneva et al. 2019, "An empirical study of example forgetting during deep neural
    network learning", section 2. An example that was never right has nothing to forget and is the hardest of all: it
    counts as forgotten at every look, which no learned example reaches (the authors rank it so too).

    >>> forgetting([[1, 0, 1], [0, 0, 1], [1, 0, 1], [0, 0, 1]]).tolist()
    [2.0, 4.0, 0.0]

    Args:
        correct: whether each example was classified rightly, (epochs, examples).
    """
    right = read_bools(correct, "correct", "epochs", "examples")
    events = was_forgotten(right[:-1], right[1:]).sum(axis=0)
    return forgetting_score(events, right.sum(axis=0) == 0, len(right))


def was_forgotten(before: NDArray[Any], after: NDArray[Any]) -> Mask:
    """Right before and wrong after."""
    return before > after


def forgetting_score(events: NDArray[np.integer], never_right: Mask, looks: int) -> Values:
    """The score of so many forgetting events, with those never right above all in as many looks as there were."""
    return np.where(never_right, float(looks), events.astype(np.float64))
