"""Numeric arrays in MATLAB's files of version 5, such as SVHN's; scipy's reader crashes over damaged ones.

A file is a header and a row of elements, each a type, a length and data. A compressed element holds another one. A
matrix holds flags, dimensions, a name and its numbers, column by column.
"""

from __future__ import annotations

import math
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.reading import MEMORY, check_memory, read_bytes

_HEADER = 128  # bytes
_MATRIX, _COMPRESSED = 14, 15
_NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 9: "f8", 12: "i8", 13: "u8"}
_CLASSES = {6: "f8", 7: "f4", 8: "i1", 9: "u1", 10: "i2", 11: "u2", 12: "i4", 13: "u4", 14: "i8", 15: "u8"}
_COMPLEX = 0x0800  # a flag


class _Element(NamedTuple):
    kind: int
    data: memoryview


def matrices(file: Path, *, memory: int | None = MEMORY) -> dict[str, NDArray[Any]]:
    """The numeric arrays in a file by name; others are left out."""
    data = memoryview(read_bytes(file, ".mat file", memory=memory))
    order = {b"IM": "<", b"MI": ">"}.get(bytes(data[126:128]))
    if order is None:
        raise PareError(f"{file}: not a readable .mat file (it is not of MATLAB's version 5). Fetch it again.")
    found: dict[str, NDArray[Any]] = {}
    for element in _elements(data[_HEADER:], order, padded=False):
        if element.kind == _COMPRESSED:
            (element,) = _elements(_unpacked(file, element.data, order, memory), order, padded=False)
        named = _matrix(element, order) if element.kind == _MATRIX else None
        if named is not None:
            found[named[0]] = named[1]
    return found


def _elements(data: memoryview, order: str, *, padded: bool) -> Iterator[_Element]:
    """The elements one after the other; inside a matrix each is padded to a multiple of eight bytes."""
    place = 0
    while place < len(data):
        kind, length = np.frombuffer(data[place : place + 8], f"{order}u4").tolist()
        if kind >> 16:  # up to four bytes, packed into the tag
            kind, length, start, end = kind & 0xFFFF, kind >> 16, place + 4, place + 8
        else:
            start, end = place + 8, place + 8 + length + (-length % 8 if padded else 0)
        if start + length > len(data):
            raise EOFError
        yield _Element(kind, data[start : start + length])
        place = end


def _unpacked(file: Path, data: memoryview, order: str, memory: int | None) -> memoryview:
    """What is compressed, whose length its first eight bytes tell; never more than that."""
    stream = zlib.decompressobj()
    tag = stream.decompress(data, 8)
    length = int(np.frombuffer(tag, f"{order}u4")[1])
    check_memory(file, length, memory)
    return memoryview(tag + stream.decompress(stream.unconsumed_tail, max(1, length)))


def _matrix(element: _Element, order: str) -> tuple[str, NDArray[Any]] | None:
    flags, dimensions, name, *numbers = _elements(element.data, order, padded=True)
    kind = int(np.frombuffer(flags.data, f"{order}u4")[0])
    if kind & 0xFF not in _CLASSES or kind & _COMPLEX or not numbers:  # text, cells and the like
        return None
    shape = np.frombuffer(dimensions.data, f"{order}i4").tolist()
    values = np.frombuffer(numbers[0].data, order + _NUMBERS[numbers[0].kind])
    if min(shape) < 0 or math.prod(shape) != len(values):
        raise ValueError(f"an array of shape {tuple(shape)} has {len(values)} numbers")
    array = values.reshape(shape, order="F").astype(_CLASSES[kind & 0xFF], copy=False)
    return bytes(name.data).decode("latin1"), array
