"""Composite Gauss-Legendre rules on many sets of break points at once, and a one-dimensional search."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.optimize import brentq

from paredown.theory.gaussian import Array

# Where a smoothed step Phi(x) or a ramp Psi_n(x) changes character, in units of its own width.
_STEP_BREAKS = np.array([-9.0, -6.0, -3.0, 0.0, 3.0, 6.0, 9.0])


@lru_cache(maxsize=8)
def _legendre(order: int) -> tuple[Array, Array]:
    return np.polynomial.legendre.leggauss(order)


def transition(centre: Array, width: Array) -> Array:
    """Break points that resolve a smoothed step at `centre` of the given `width`; shape (..., 7)."""
    return np.asarray(centre)[..., None] + np.asarray(width)[..., None] * _STEP_BREAKS


def composite_rule(breaks: Array, lower: Array, upper: Array, *, order: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [lower, upper], `order` of them in each panel between `breaks`.

    `breaks` have shape (..., b), in any order, and the interval's ends (...). Nodes and weights have shape
    (..., panels * order) with at most b + 1 panels.
    """
    lower, upper = np.asarray(lower)[..., None], np.asarray(upper)[..., None]
    ends = np.sort(np.clip(breaks, lower, upper), axis=-1)
    starts = np.concatenate([np.broadcast_to(lower, (*ends.shape[:-1], 1)), ends], axis=-1)
    ends = np.concatenate([ends, np.broadcast_to(upper, (*ends.shape[:-1], 1))], axis=-1)
    # Breaks outside the interval leave panels of no width at its ends: drop those that are empty in every row.
    used = (ends > starts).reshape(-1, ends.shape[-1]).any(axis=0)
    starts, ends = starts[..., used], ends[..., used]
    half, middle = 0.5 * (ends - starts)[..., None], 0.5 * (ends + starts)[..., None]
    nodes, weights = _legendre(order)
    shape = (*ends.shape[:-1], ends.shape[-1] * order)
    return (middle + half * nodes).reshape(shape), (half * weights).reshape(shape)


def bracketed_root(function: Callable[[float], float], low: float, high: float) -> float:
    """The root between two points of opposite sign, to rounding."""
    root: Any = brentq(function, low, high, xtol=1e-14)
    return float(root)
