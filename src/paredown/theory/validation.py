"""Checks at the edge of the theory: every public function validates through these, so that messages are the same."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from paredown.errors import PareError, argument, fraction_hint
from paredown.theory.gaussian import Array

_FRACTION = "must be in (0, 1]"


def positive(name: str, value: ArrayLike) -> Array:
    """Finite numbers above zero."""
    return _checked(name, value, lambda x: x > 0, "must be finite and above 0")


def fraction(name: str, value: ArrayLike) -> Array:
    """Numbers in (0, 1]."""
    return _checked(name, value, lambda x: (x > 0) & (x <= 1), _FRACTION)


def probe_angle(value: ArrayLike) -> Array:
    """Angles in degrees between teacher and probe."""
    return _checked(
        "theta", value, lambda x: (x >= 0) & (x <= 90), "is the angle between probe and teacher in degrees: 0 to 90"
    )


def _checked(name: str, value: ArrayLike, holds: Any, rule: str) -> Array:
    try:
        array = np.asarray(value, dtype=float)
    except (TypeError, ValueError):
        raise PareError(f"{argument(name)} must be a number or an array of numbers, got {value!r}.") from None
    bad = ~(np.isfinite(array) & holds(array))
    if bad.any():
        first = float(array[bad].flat[0])
        hint = fraction_hint(first) if rule == _FRACTION else ""
        raise PareError(f"{argument(name)} {rule}, got {first:g}.{hint}")
    return array


def as_given(values: Array, scalar: bool) -> Any:
    """A Python float if every input was a scalar, else the array."""
    return float(values) if scalar else values
