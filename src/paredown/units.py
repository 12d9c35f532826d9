"""Amounts of memory and time as people write them."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from numbers import Real
from typing import Any

from paredown.errors import PareError

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")
_POWERS = {"": 0, "b": 0, "k": 1, "kib": 1, "m": 2, "mib": 2, "g": 3, "gib": 3, "t": 4, "tib": 4}
_DECIMAL = {"kb": 1, "mb": 2, "gb": 3, "tb": 4}


def parse_size(size: str | float) -> int:
    """Bytes from a number or a text such as `512MiB`, `1.5GiB` or `2G` (powers of 1024), or `2GB` (of 1000)."""
    number, unit = 0.0, ""
    if isinstance(size, str):
        if match := re.fullmatch(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*([a-zA-Z]*)\s*", size):
            number, unit = float(match[1]), match[2].lower() or "no unit"
    elif isinstance(size, Real) and not isinstance(size, bool):
        number = float(size)
    bytes_ = number * (1000 ** _DECIMAL[unit] if unit in _DECIMAL else 1024 ** _POWERS.get(unit, -1))
    if not 1 <= bytes_ < math.inf:
        raise PareError(f"a size is a number with a unit, such as 512MiB or 1GiB; got {size!r}.")
    return round(bytes_)


def with_bytes(options: Mapping[str, Any]) -> dict[str, Any]:
    """Options among which `memory`, if it is given, is in bytes."""
    return {name: parse_size(value) if name == "memory" else value for name, value in options.items()}


def format_size(size: float) -> str:
    """A size with the unit that suits it: `3.5 MiB`."""
    for unit in _UNITS[:-1]:
        if size < 1024:
            return f"{size:.0f} {unit}" if unit in ("B", "KiB") else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} {_UNITS[-1]}"


def format_duration(seconds: float) -> str:
    """A time in the unit that suits it: `12 s`, `5 min`, `1.5 h`."""
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
