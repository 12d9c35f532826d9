"""The files that standard data sets are given out as, read into arrays: idx, CIFAR's two forms, and SVHN's .mat.

Each reader names the file that is damaged. CIFAR's Python form is a pickle, of which nothing is ever run (`pickles`).
"""

from __future__ import annotations

import gzip
import math
import struct
from io import BufferedIOBase
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.reading import MEMORY, check_memory, read_bytes, reading
from paredown.sources.matlab import matrices
from paredown.sources.pickles import plain_pickle

_SIDE = 32  # of CIFAR's images
_REMEDY = "Fetch it again."


class Pixels(NamedTuple):
    """Images as uint8, (n, height, width) if grey or (n, height, width, 3), and their class codes."""

    images: NDArray[np.uint8]
    codes: NDArray[np.int64]


def read_idx(images: Path, labels: Path, *, memory: int | None = MEMORY) -> Pixels:
    """MNIST's form: a magic number, the sizes, then bytes; plain or compressed by gzip."""
    pixels, codes = _idx(images, dimensions=3, memory=memory), _idx(labels, dimensions=1, memory=memory)
    if 0 in pixels.shape:
        raise PareError(f"{images}: it holds no images, by its shape {pixels.shape}. {_REMEDY}")
    if len(pixels) != len(codes):
        raise PareError(f"{labels}: it has {len(codes)} labels for the {len(pixels)} images of {images.name}.")
    return Pixels(pixels, codes.astype(np.int64))


def _idx(file: Path, *, dimensions: int, memory: int | None) -> NDArray[np.uint8]:
    with reading(file, "idx file", remedy=_REMEDY), (gzip.open if file.suffix == ".gz" else open)(file, "rb") as stream:
        header = stream.read(4 + 4 * dimensions)
        if len(header) < 4 + 4 * dimensions or header[:4] != bytes([0, 0, 8, dimensions]):
            raise PareError(f"{file}: not an idx file of bytes with {dimensions} dimensions, by its first four bytes.")
        shape = struct.unpack(f">{dimensions}I", header[4:])
        check_memory(file, math.prod(shape), memory)
        data = _read_up_to(stream, math.prod(shape) + 1)
    if len(data) != math.prod(shape):
        what = "truncated" if len(data) < math.prod(shape) else "too long"
        raise PareError(f"{file}: {what}; shape {shape} needs {math.prod(shape)} bytes after the header. {_REMEDY}")
    return np.frombuffer(data, np.uint8).reshape(shape)


def _read_up_to(stream: BufferedIOBase, size: int) -> bytes:
    """At most `size` bytes, without making room for more than there are."""
    parts: list[bytes] = []
    while size and (part := stream.read(min(size, 2**20))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def read_cifar_binary(file: Path, *, label_bytes: int, memory: int | None = MEMORY) -> Pixels:
    """CIFAR's binary form: records of label bytes, the last of which counts, and three planes of 32 x 32 bytes."""
    data = np.frombuffer(read_bytes(file, "CIFAR file", memory=memory, remedy=_REMEDY), np.uint8)
    record = label_bytes + 3 * _SIDE * _SIDE
    if not len(data) or len(data) % record:
        expected = max(1, round(len(data) / record)) * record
        what = "truncated" if len(data) < expected else "too long"
        raise PareError(f"{file}: {what}; {expected} bytes expected, {len(data)} found. {_REMEDY}")
    records = data.reshape(-1, record)
    return Pixels(_planes(records[:, label_bytes:]), records[:, label_bytes - 1].astype(np.int64))


def read_cifar_pickle(file: Path, *, label_key: str, memory: int | None = MEMORY) -> Pixels:
    """CIFAR's Python form: a pickled dictionary with `data`, (n, 3072), and a list of labels."""
    content = plain_pickle(file, memory=memory)
    data, labels = pickled_item(content, "data"), pickled_item(content, label_key)
    width = 3 * _SIDE * _SIDE
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != width:
        raise PareError(f"{file}: not a batch of CIFAR images; it has no array 'data' of {width} bytes a row.")
    if not isinstance(labels, list) or not all(isinstance(label, int) and 0 <= label < 256 for label in labels):
        raise PareError(f"{file}: not a batch of CIFAR images; it has no list of class numbers {label_key!r}.")
    if len(labels) != len(data):
        raise PareError(f"{file}: it has {len(labels)} labels for {len(data)} images.")
    return Pixels(_planes(data), np.array(labels, np.int64))


def pickled_item(content: Any, key: str) -> Any:
    """An item of a pickled dictionary, whose keys are bytes where Python 2 wrote it; None if there is no such."""
    return content.get(key.encode(), content.get(key)) if isinstance(content, dict) else None


def _planes(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(rows.reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1))


def read_mat(file: Path, *, memory: int | None = MEMORY) -> Pixels:
    """SVHN's cropped digits: `X`, (32, 32, 3, n), and `y` from 1 to 10, where 10 is the digit 0."""
    with reading(file, ".mat file with X and y", remedy=_REMEDY):
        arrays = matrices(file, memory=memory)
        images, labels = arrays["X"], arrays["y"].ravel()
        if images.dtype != np.uint8 or images.ndim != 4 or images.shape[2:] != (3, len(labels)) or 0 in images.shape:
            raise PareError(
                f"{file}: X should be (height, width, 3, {len(labels)}) of uint8, and is {images.shape} of "
                f"{images.dtype}. {_REMEDY}"
            )
        if not np.all((labels >= 0) & (labels <= 10)):
            raise PareError(f"{file}: y should hold the digits 1 to 10. {_REMEDY}")
        return Pixels(np.ascontiguousarray(images.transpose(3, 0, 1, 2)), labels.astype(np.int64) % 10)
