"""Strategies: total orders of the examples, best first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

STRATIFIED_BINS = 50


def _by_score(values: NDArray[Any], ties: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Highest first, equal scores by the hash of their ids, and equal hashes by row.

    The same as a lexsort, which takes several times as long: only rows with an equal are sorted by more than the score.
    """
    order = np.argsort(-values)
    ranked = values[order]
    same = ranked[1:] == ranked[:-1]
    if same.any():
        tied = np.flatnonzero(np.append(same, False) | np.append(False, same))
        rows = np.sort(order[tied])
        order[tied] = rows[np.lexsort((ties[rows], -values[rows]))]
    return order


def _hardest_first(values: NDArray[Any], ties: NDArray[np.uint64], dropped: int) -> NDArray[np.int64]:
    return _by_score(values, ties)


def _easiest_first(values: NDArray[Any], ties: NDArray[np.uint64], dropped: int) -> NDArray[np.int64]:
    return _by_score(values, ties)[::-1]


def _shuffled(values: NDArray[Any], ties: NDArray[np.uint64], dropped: int) -> NDArray[np.int64]:
    return np.argsort(ties)


def _window(values: NDArray[Any], ties: NDArray[np.uint64], dropped: int) -> NDArray[np.int64]:
    return np.roll(_by_score(values, ties), -dropped)


def _stratified(values: NDArray[Any], ties: NDArray[np.uint64], dropped: int) -> NDArray[np.int64]:
    """Deal the examples out bin by bin: after any number of rounds every bin has given the same, or all it had.

    The bins have equal width over the range of scores that is left, as in coverage-centric selection.
    """
    hardest = _by_score(values, ties)
    rest = hardest[dropped:]
    bins = score_bins(values[rest], values[rest[-1]], values[rest[0]])
    by_bin = np.lexsort((ties[rest], bins))
    starts = np.searchsorted(bins[by_bin], np.arange(STRATIFIED_BINS))
    turn = np.empty(len(rest), np.int64)
    turn[by_bin] = np.arange(len(rest)) - starts[bins[by_bin]]
    return np.concatenate([rest[np.lexsort((ties[rest], turn))], hardest[:dropped]])


def _moderate(values: NDArray[Any], ties: NDArray[np.uint64], dropped: int) -> NDArray[np.int64]:
    return np.lexsort((ties, distances(values, median_of(values))))


STRATEGIES: dict[str, Callable[[NDArray[Any], NDArray[np.uint64], int], NDArray[np.int64]]] = {
    "hard": _hardest_first,
    "easy": _easiest_first,
    "random": _shuffled,
    "window": _window,
    "stratified": _stratified,
    "moderate": _moderate,
}
DROPPING = ("window", "stratified")  # those that leave out the `drop_hardest` fraction first


# What strategies that can be decided by ties order by, highest first.
MERITS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "hard": lambda values: values,
    "easy": lambda values: -values,
    "window": lambda values: values,
    "moderate": lambda values: -distances(values, median_of(values)),
}


def score_bins(values: NDArray[Any], low: Any, high: Any) -> NDArray[np.int64]:
    """The bin of `stratified` that each score is in, given the lowest and highest of all."""
    with np.errstate(over="ignore", invalid="ignore"):
        if not np.isfinite(high - low):  # wider than the type holds
            values, low, high = values / 2, low / 2, high / 2
        scale = STRATIFIED_BINS / (high - low) if high > low else values.dtype.type(0)
        places = np.nan_to_num((values - low) * scale, nan=0.0)
    return np.clip(places, 0, STRATIFIED_BINS - 1).astype(np.int64)


def median_of(values: NDArray[Any]) -> Any:
    """The median score, infinite where the mean of the two in the middle overflows."""
    with np.errstate(over="ignore"):
        return np.median(values)


def distances(values: NDArray[Any], median: Any) -> NDArray[Any]:
    """How far each score is from the median."""
    with np.errstate(over="ignore"):
        return np.abs(values - median)
