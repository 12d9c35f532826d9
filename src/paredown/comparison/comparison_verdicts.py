"""A comparison in words: which metrics say nearly the same, which one stands apart, and what to be careful about."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from paredown.comparison.aligned_scores import AlignedScores
from paredown.comparison.metric_facts import MetricFacts
from paredown.score_warnings import score_warnings

NEARLY_ALIKE = 0.9  # rank correlation from which two metrics say nearly the same
_APART = 0.2  # how much lower the mean correlation of one metric is than that of any other, if it stands apart
_TIED = 0.1  # share of the examples with one score, from which ties matter


def conclusions(names: Sequence[str], spearman: NDArray[np.float64], groups: Sequence[int]) -> tuple[str, ...]:
    """One or two sentences.

    Args:
        names: of the metrics.
        spearman: their rank correlations.
        groups: a number for each metric, the same for those that are alike.
    """
    known = [place for place in range(len(names)) if np.isfinite(spearman[place, place])]
    pairs = [(float(spearman[a, b]), a, b) for a, b in combinations(known, 2)]
    if not pairs:
        return ("No two metrics can be compared: all but one give every example the same score.",)
    sentences = []
    for group in dict.fromkeys(groups[place] for place in known):
        members = [place for place in known if groups[place] == group]
        if len(members) > 1:
            within = [rho for rho, a, b in pairs if a in members and b in members]
            alike = _joined([names[place] for place in members])
            sentences.append(f"{alike} rank the examples nearly alike (rank correlation {_range(within)}).")
    if not sentences:
        rho, a, b = max(pairs)
        what = f"The rank correlation of {names[a]} and {names[b]} is {two_digits(rho)}"
        sentences.append(
            f"{what}: they rank the examples differently."
            if len(pairs) == 1
            else f"No two metrics rank the examples nearly alike; {names[a]} and {names[b]} come closest (rank "
            f"correlation {two_digits(rho)})."
        )
    apart = _apart(spearman, known)
    if apart is not None:
        mean = _mean_with_others(spearman, known, apart)
        sentences.append(
            f"{names[apart]} stands apart: its mean rank correlation with the other metrics is {two_digits(mean)}."
        )
    return tuple(sentences)


def _apart(spearman: NDArray[np.float64], known: Sequence[int]) -> int | None:
    """The metric that is clearly less like the others than any other is; of two metrics, neither is."""
    if len(known) < 3:
        return None
    (lowest, place), (second, _), *_ = sorted((_mean_with_others(spearman, known, place), place) for place in known)
    return place if second - lowest >= _APART else None


def _mean_with_others(spearman: NDArray[np.float64], known: Sequence[int], place: int) -> float:
    return float(np.mean([spearman[place, other] for other in known if other != place]))


def _joined(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _range(values: Sequence[float]) -> str:
    low, high = two_digits(min(values)), two_digits(max(values))
    return low if low == high else f"{low} to {high}"


def two_digits(value: float) -> str:
    """A correlation as it is shown everywhere; none is `-0.00`."""
    return f"{value:.2f}".replace("-0.00", "0.00")


def comparison_notes(aligned: AlignedScores, facts: Sequence[MetricFacts]) -> tuple[str, ...]:
    """What a reader should know: examples left out, scores that do not separate, and many ties."""
    n, notes = len(aligned.ids), []
    if any(aligned.left_out):
        left = [
            f"{count:,} of {name}" for name, count in zip(aligned.names, aligned.left_out, strict=True) if count > 0
        ]
        notes.append(f"{n:,} examples have a score by every metric and are compared; left out: {', '.join(left)}.")
    for known, values in zip(facts, aligned.values, strict=True):
        if known.largest_tie == n:
            notes.append(f"{known.name} gives every example the same score: its correlations are undefined.")
            continue
        notes += [f"{known.name}: {warning}" for warning in score_warnings(values)]
    tied = [known for known in facts if max(2, _TIED * n) <= known.largest_tie < n]
    if tied:
        listed = ", ".join(f"{known.name} {known.largest_tie:,}" for known in tied)
        notes.append(
            f"Many of the {n:,} examples have one and the same score ({listed}). Which of them are kept is random, so "
            "that a kept set which cuts through them overlaps with others little more than by chance."
        )
    return tuple(notes)
