"""What an ensemble's predictions say of an example: its uncertainty, and how many members are wrong. numpy only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from paredown.errors import unknown_name
from paredown.metrics.prediction_arrays import Values
from paredown.metrics.uncertainty import plain_entropy, vote_variation

UNCERTAINTIES = ("entropy", "mutual_information", "variation_ratio")


@dataclass
class Votes:
    """Sums over the members of an ensemble, so that members can come in any number of portions.

    `probabilities` and `votes` (for the likeliest class) are (n, classes), `entropies` of the members' own (n,).
    """

    FIELDS: ClassVar = ("probabilities", "votes", "entropies", "members")

    probabilities: Values
    votes: Values
    entropies: Values
    members: int = 0

    @classmethod
    def empty(cls, n: int, classes: int) -> Votes:
        """Of no member yet."""
        return cls(np.zeros((n, classes)), np.zeros((n, classes)), np.zeros(n))

    @classmethod
    def loaded(cls, arrays: dict[str, NDArray[Any]]) -> Votes:
        """From its `FIELDS` as arrays."""
        return cls(arrays["probabilities"], arrays["votes"], arrays["entropies"], int(arrays["members"]))

    def add(self, rows: slice, logits: NDArray[np.floating]) -> None:
        """Count the logits (members, rows, classes) of some rows; `members` is for the caller to raise."""
        p = softmax(logits.astype(np.float64), axis=-1)
        self.probabilities[rows] += p.sum(axis=0)
        self.votes[rows] += np.eye(p.shape[2])[p.argmax(axis=2)].sum(axis=0)
        self.entropies[rows] += plain_entropy(p).sum(axis=0)

    def merge(self, other: Votes) -> None:
        """Count another ensemble's members too."""
        self.probabilities = self.probabilities + other.probabilities
        self.votes = self.votes + other.votes
        self.entropies = self.entropies + other.entropies
        self.members += other.members

    def uncertainty(self, kind: str = "entropy") -> Values:
        """The uncertainty of the ensemble about every example, higher for harder.

        With p_m(c) the members' probabilities and p(c) their mean:

        - `entropy`: -sum_c p(c) log p(c), all uncertainty;
        - `mutual_information`: that less the mean of the members' own entropies, what the members disagree about;
        - `variation_ratio`: the share of members that do not vote for the class with the most votes.
        """
        mean = self.probabilities / self.members
        if kind == "entropy":
            return plain_entropy(mean)
        if kind == "mutual_information":
            return np.maximum(plain_entropy(mean) - self.entropies / self.members, 0)
        if kind == "variation_ratio":
            return vote_variation(self.votes, self.members)
        raise unknown_name("uncertainty", kind, UNCERTAINTIES)


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
