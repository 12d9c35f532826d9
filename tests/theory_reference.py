"""The table of verified values, as columns."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

_FILE = Path(__file__).parent / "data" / "theory_reference.json"


def columns(table: str) -> dict[str, np.ndarray]:
    """The named columns of a table; numbers as floats, absent values as NaN."""
    stored = json.loads(_FILE.read_text())[table]
    values = zip(*stored["rows"], strict=True)
    return {
        name: np.array(column) if isinstance(column[0], str) else np.array(column, dtype=float)
        for name, column in zip(stored["columns"], values, strict=True)
    }
