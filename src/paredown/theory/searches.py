"""A one-dimensional search with a plain float as the answer."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scipy.optimize import brentq


def bracketed_root(function: Callable[[float], float], low: float, high: float) -> float:
    """The root between two points of opposite sign, to rounding."""
    root: Any = brentq(function, low, high, xtol=1e-14)
    return float(root)
