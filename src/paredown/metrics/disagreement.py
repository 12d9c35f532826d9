"""What an ensemble's predictions say of an example: its uncertainty, and how many members are wrong. numpy only."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from paredown.errors import check_known
from paredown.metrics.prediction_arrays import Values
from paredown.metrics.uncertainty import plain_entropy, vote_variation

UNCERTAINTIES = ("entropy", "mutual_information", "variation_ratio")


def sum_predictions(logits: NDArray[np.floating]) -> dict[str, Values]:
    """Sums over members of their logits (members, n, classes), so that members can come in any number of portions.

    `probabilities` and `votes` (for the likeliest class) are (n, classes), `entropies` of the members' own and the
    number of `members` (n,).
    """
    p = softmax(logits.astype(np.float64), axis=-1)
    return {
        "probabilities": p.sum(axis=0),
        "votes": np.eye(p.shape[2])[p.argmax(axis=2)].sum(axis=0),
        "entropies": plain_entropy(p).sum(axis=0),
        "members": np.full(p.shape[1], float(len(p))),
    }


def ensemble_uncertainty(sums: Mapping[str, Values], kind: str = "entropy") -> Values:
    """The uncertainty of an ensemble about every example from sums over its members, higher for harder.

    With p_m(c) the members' probabilities and p(c) their mean:

    - `entropy`: -sum_c p(c) log p(c), all uncertainty;
    - `mutual_information`: that less the mean of the members' own entropies, what the members disagree about;
    - `variation_ratio`: the share of members that do not vote for the class with the most votes.
    """
    check_known("uncertainty", kind, UNCERTAINTIES)
    if kind == "variation_ratio":
        return vote_variation(sums["votes"], sums["members"])
    whole = plain_entropy(sums["probabilities"] / sums["members"][:, None])
    return whole if kind == "entropy" else np.maximum(whole - sums["entropies"] / sums["members"], 0)


def misclassified(logits: NDArray[np.floating], labels: NDArray[np.int64]) -> tuple[NDArray[np.bool_], Values]:
    """Which members (members, n) are wrong, and by how much: the best other class's probability less the true one's.

    A tie between the true class and another counts as wrong, so that a network that says nothing is never right.
    """
    p = softmax(logits.astype(np.float64), axis=-1)
    at = np.arange(len(labels))
    own = p[:, at, labels].copy()
    p[:, at, labels] = -1
    excess = p.max(axis=2) - own
    return excess >= 0, excess
