"""Columns of data inside a page: deflated, in base64, and read back by `assets/unpacking.js`."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LEVEL = 2  # of zlib: higher ones take three times as long for some per cent


def pack_numbers(values: NDArray[Any], *, delta: bool = False) -> dict[str, Any]:
    """Whole numbers from 0 to 2^32 - 1, in as few bytes each as hold the largest.

    The bytes of all numbers are sorted by significance, which deflate likes. With `delta`, ascending numbers are stored
    as differences.
    """
    numbers = values.astype(np.uint32)
    if delta:
        numbers = np.diff(numbers, prepend=np.uint32(0))
    largest = int(numbers.max(initial=0)) if not delta else int(values.max(initial=0))
    width = 1 if largest < 2**8 else 2 if largest < 2**16 else 4
    planes = numbers.astype(f"<u{width}").view(np.uint8).reshape(-1, width).T
    return {"bytes": width, "length": len(numbers), "delta": delta, "data": _deflated(planes.tobytes())}


def pack_texts(texts: Sequence[str]) -> dict[str, Any]:
    """Any texts."""
    return {"data": _deflated(json.dumps(list(texts), separators=(",", ":")).encode())}


def pack_files(files: Sequence[bytes]) -> tuple[str, list[int]]:
    """Files one after the other, as they are compressed already, and where each begins and the last one ends."""
    return base64.b64encode(b"".join(files)).decode(), [0, *np.cumsum([len(file) for file in files]).tolist()]


def _deflated(content: bytes) -> str:
    packer = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return base64.b64encode(packer.compress(content) + packer.flush()).decode()
