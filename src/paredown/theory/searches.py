"""One-dimensional searches with a plain float as the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from scipy.optimize import brentq, minimize_scalar


class Minimum(NamedTuple):
    """Where a function of one variable is smallest, and how small."""

    x: float
    value: float


def bracketed_root(function: Callable[[float], float], low: float, high: float) -> float:
    """The root between two points of opposite sign, to rounding."""
    root: Any = brentq(function, low, high, xtol=1e-14)
    return float(root)


def bounded_minimum(function: Callable[[float], float], low: float, high: float, *, precision: float) -> Minimum:
    """The minimum of a function with a single one between two points."""
    found: Any = minimize_scalar(function, bounds=(low, high), method="bounded", options={"xatol": precision})
    return Minimum(float(found.x), float(found.fun))
