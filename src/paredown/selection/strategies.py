"""Strategies: total orders of the examples, best first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["MERITS", "STRATEGIES", "STRATIFIED_BINS"]

STRATIFIED_BINS = 50


def _by_score(values: NDArray[Any], ties: NDArray[np.uint64]) -> NDArray[np.int64]:
    return np.lexsort((ties, -values))


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
    low, high = values[rest[-1]], values[rest[0]]
    scale = STRATIFIED_BINS / (high - low) if high > low else 0.0
    bins = np.minimum(((values[rest] - low) * scale).astype(np.int64), STRATIFIED_BINS - 1)
    by_bin = np.lexsort((ties[rest], bins))
    starts = np.searchsorted(bins[by_bin], np.arange(STRATIFIED_BINS))
    turn = np.empty(len(rest), np.int64)
    turn[by_bin] = np.arange(len(rest)) - starts[bins[by_bin]]
    return np.concatenate([rest[np.lexsort((ties[rest], turn))], hardest[:dropped]])


def _moderate(values: NDArray[Any], ties: NDArray[np.uint64], dropped: int) -> NDArray[np.int64]:
    return np.lexsort((ties, np.abs(values - np.median(values))))


STRATEGIES: dict[str, Callable[[NDArray[Any], NDArray[np.uint64], int], NDArray[np.int64]]] = {
    "hard": _hardest_first,
    "easy": _easiest_first,
    "random": _shuffled,
    "window": _window,
    "stratified": _stratified,
    "moderate": _moderate,
}


# What strategies that can be decided by ties order by, highest first.
MERITS: dict[str, Callable[[NDArray[Any]], NDArray[Any]]] = {
    "hard": lambda values: values,
    "easy": lambda values: -values,
    "window": lambda values: values,
    "moderate": lambda values: -np.abs(values - np.median(values)),
}
