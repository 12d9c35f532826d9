"""What one look at a batch tells about each of its examples: one softmax, shared by every metric."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

__all__ = ["Observed", "observe"]


class Observed(NamedTuple):
    """One number per row of a batch."""

    p_true: NDArray[np.float64]  # probability of the label
    el2n: NDArray[np.float64]  # length of softmax - onehot
    margin: NDArray[np.float64]  # the label's logit minus the largest other one
    entropy: NDArray[np.float64]  # of the softmax, in nats
    correct: NDArray[np.bool_]  # whether the label has the largest logit; the first class wins a tie
    grand: NDArray[np.float64] | None  # length of the last layer's gradient, where features are given
    p: NDArray[np.float64]  # the softmax, (rows, classes)

    def rows(self, chosen: NDArray[np.int64]) -> Observed:
        """The same for some rows of the batch."""
        return Observed(*(None if part is None else part[chosen] for part in self))  # type: ignore[arg-type]


def observe(
    logits: NDArray[np.float64], labels: NDArray[np.int64], features: NDArray[np.float64] | None = None
) -> Observed:
    """The numbers of `Observed` from finite logits (rows, classes).

    A row's numbers do not depend on the other rows: all sums run along a row of a C-contiguous array. The gradient of
    the cross-entropy with respect to the weights and biases of a linear last layer on features h is the outer product
    of softmax - onehot and [h, 1], whose length is the product of their lengths (Paul et al. 2021, section 2).
    """
    rows = np.arange(len(labels))
    shifted = logits - logits.max(axis=1)[:, None]
    p = np.exp(shifted)
    total = p.sum(axis=1)
    p /= total[:, None]

    # entropy = -sum p log p = log(total) - sum p shifted, which needs no logarithm of a vanishing p
    entropy = np.log(total)
    entropy -= (p * shifted).sum(axis=1)

    others = logits.copy()
    others[rows, labels] = -np.inf
    margin = logits[rows, labels] - others.max(axis=1)

    error = p.copy()
    error[rows, labels] -= 1.0
    np.square(error, out=error)
    el2n = np.sqrt(error.sum(axis=1))
    grand = None if features is None else el2n * np.sqrt(np.square(features).sum(axis=1) + 1.0)
    correct = logits.argmax(axis=1) == labels
    return Observed(p[rows, labels], el2n, margin, entropy, correct, grand, p)
