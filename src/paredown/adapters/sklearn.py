"""Recording scikit-learn estimators that learn by `partial_fit`."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError
from paredown.recorder import Recorder

_BLOCK = 8192  # rows whose logits are computed at once


def fit_recorded(
    estimator: Any,
    x: Any,
    y: ArrayLike,
    *,
    epochs: int,
    batch_size: int = 128,
    seed: int = 0,
    recorder: Recorder | None = None,
) -> Recorder:
    """Fit a classifier by `partial_fit` over shuffled batches, and record all examples after every epoch.

    The logits are the logarithms of `predict_proba` where there is one, and `decision_function` otherwise. Unlike in a
    network's training loop they belong to the weights at the end of the epoch, the same for every example.

    Args:
        estimator: any classifier with `partial_fit`; it is fitted in place.
        x, y: the training set, rows that can be taken by an array of indices.
        epochs, batch_size, seed: passes over the data, rows of a batch, and what shuffles them.
        recorder: records into this; by default into a new one.
    """
    if not hasattr(estimator, "partial_fit"):
        raise PareError(f"{type(estimator).__name__} has no partial_fit; only estimators that learn by batches can be.")
    if epochs < 1 or batch_size < 1:
        raise PareError(f"epochs and batch_size must be at least 1, got {epochs} and {batch_size}.")
    targets = np.asarray(y)
    classes, codes = np.unique(targets, return_inverse=True)
    if recorder is None:
        recorder = Recorder(len(targets), len(classes))
    rng = np.random.default_rng(seed)
    for epoch in range(epochs):
        order = rng.permutation(len(targets))
        for start in range(0, len(order), batch_size):
            rows = order[start : start + batch_size]
            estimator.partial_fit(x[rows], targets[rows], classes=classes)
        for start in range(0, len(order), _BLOCK):
            rows = np.arange(start, min(start + _BLOCK, len(order)))
            recorder.update(rows, _logits(estimator, x[rows]), codes[rows], epoch)
    return recorder


def _logits(estimator: Any, x: Any) -> NDArray[np.float64]:
    if hasattr(estimator, "predict_proba"):
        p = np.asarray(estimator.predict_proba(x), np.float64)
        return np.log(np.maximum(p, np.finfo(np.float64).tiny))  # a probability of 0 has no logarithm
    decision = np.asarray(estimator.decision_function(x), np.float64)
    return np.stack([np.zeros_like(decision), decision], axis=1) if decision.ndim == 1 else decision
