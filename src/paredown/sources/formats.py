"""The files that standard data sets are given out as, read into arrays: idx, CIFAR's two forms, and SVHN's .mat.

Each reader names the file that is damaged. CIFAR's Python form is a pickle, which could run anything; it is read by an
unpickler that can make nothing but plain containers, text, bytes, numbers and numpy arrays.
"""

from __future__ import annotations

import gzip
import pickle
import struct
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError

__all__ = ["Pixels", "plain_pickle", "read_cifar_binary", "read_cifar_pickle", "read_idx", "read_mat"]

_SIDE = 32  # of CIFAR's images


class Pixels(NamedTuple):
    """Images as uint8, (n, height, width) if grey or (n, height, width, 3), and their class codes."""

    images: NDArray[np.uint8]
    codes: NDArray[np.int64]


def read_idx(images: Path, labels: Path) -> Pixels:
    """MNIST's form: a magic number, the sizes, then bytes; plain or compressed by gzip."""
    pixels, codes = _idx(images, dimensions=3), _idx(labels, dimensions=1)
    if len(pixels) != len(codes):
        raise PareError(f"{labels}: it has {len(codes)} labels for the {len(pixels)} images of {images.name}.")
    return Pixels(pixels, codes.astype(np.int64))


def _idx(file: Path, *, dimensions: int) -> NDArray[np.uint8]:
    try:
        data = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
    except (OSError, EOFError, zlib.error) as error:
        raise PareError(f"{file}: cannot be read ({error}); it may be truncated. Fetch it again.") from error
    header = 4 + 4 * dimensions
    if len(data) < header or data[:4] != bytes([0, 0, 8, dimensions]):
        raise PareError(f"{file}: not an idx file of bytes with {dimensions} dimensions, by its first four bytes.")
    shape = struct.unpack(f">{dimensions}I", data[4:header])
    if len(data) != header + int(np.prod(shape)):
        raise _wrong_size(file, header + int(np.prod(shape)), len(data))
    return np.frombuffer(data, np.uint8, offset=header).reshape(shape)


def read_cifar_binary(file: Path, *, label_bytes: int) -> Pixels:
    """CIFAR's binary form: records of label bytes, the last of which counts, and three planes of 32 x 32 bytes."""
    data = np.fromfile(file, np.uint8)
    record = label_bytes + 3 * _SIDE * _SIDE
    if not len(data) or len(data) % record:
        raise _wrong_size(file, max(1, round(len(data) / record)) * record, len(data))
    records = data.reshape(-1, record)
    return Pixels(_planes(records[:, label_bytes:]), records[:, label_bytes - 1].astype(np.int64))


def read_cifar_pickle(file: Path, *, label_key: str) -> Pixels:
    """CIFAR's Python form: a pickled dictionary with `data`, (n, 3072), and a list of labels."""
    content = plain_pickle(file)
    content = content if isinstance(content, dict) else {}
    content = {key.decode("latin1") if isinstance(key, bytes) else key: value for key, value in content.items()}
    data, labels = content.get("data"), content.get(label_key)
    width = 3 * _SIDE * _SIDE
    if not isinstance(data, np.ndarray) or data.dtype != np.uint8 or data.ndim != 2 or data.shape[1] != width:
        raise PareError(f"{file}: not a batch of CIFAR images; it has no array 'data' of {width} bytes a row.")
    if not isinstance(labels, list) or not all(isinstance(label, int) for label in labels):
        raise PareError(f"{file}: not a batch of CIFAR images; it has no list of numbers {label_key!r}.")
    if len(labels) != len(data):
        raise PareError(f"{file}: it has {len(labels)} labels for {len(data)} images.")
    return Pixels(_planes(data), np.array(labels, np.int64))


def _planes(rows: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return np.ascontiguousarray(rows.reshape(-1, 3, _SIDE, _SIDE).transpose(0, 2, 3, 1))


def read_mat(file: Path) -> Pixels:
    """SVHN's cropped digits: `X`, (32, 32, 3, n), and `y` from 1 to 10, where 10 is the digit 0."""
    from scipy.io import loadmat

    try:
        content = loadmat(file, variable_names=["X", "y"])
        images, labels = content["X"], content["y"].ravel()
    except Exception as error:  # scipy raises many types for a damaged file
        raise PareError(f"{file}: not a readable .mat file with X and y ({error}); fetch it again.") from error
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[2:] != (3, len(labels)):
        raise PareError(
            f"{file}: X should be (height, width, 3, {len(labels)}) of uint8, and is {images.shape} of {images.dtype}."
        )
    return Pixels(np.ascontiguousarray(images.transpose(3, 0, 1, 2)), labels.astype(np.int64) % 10)


def _wrong_size(file: Path, expected: int, found: int) -> PareError:
    what = "truncated" if found < expected else "too long"
    return PareError(f"{file}: {what}; {expected} bytes expected, {found} found. Fetch it again.")


# --- a pickle that cannot run anything -----------------------------------------------------------------------------


def plain_pickle(file: Path) -> Any:
    """What a pickle holds, if that is plain containers and numpy arrays; anything else is refused."""
    try:
        with file.open("rb") as stream:
            return _PlainUnpickler(stream, encoding="bytes").load()
    except Exception as error:  # a damaged pickle raises many types
        raise PareError(f"{file}: not a readable CIFAR file ({error}); fetch it again.") from error


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        """Only what numpy's arrays are pickled as; never looked up by the name in the file."""
        if (module, name) not in _HARMLESS:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which is refused")
        return _HARMLESS[module, name]


def _empty_array(kind: type, shape: Any, dtype: Any) -> NDArray[Any]:
    """What numpy's `_reconstruct` does, for arrays alone; the contents follow."""
    return np.ndarray.__new__(np.ndarray, (0,), np.int8)


def _latin1(text: str, encoding: str) -> bytes:
    """How Python 3 pickles bytes in Python 2's protocol."""
    if encoding not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError(f"it asks for the codec {encoding!r}, which is refused")
    return text.encode("latin1")


def _plain_dtype(kind: Any, *flags: Any) -> np.dtype[Any]:
    """A dtype of numbers: no objects, and no records."""
    dtype = np.dtype(kind.decode("latin1") if isinstance(kind, bytes) else str(kind))
    if dtype.kind not in "biuf":
        raise pickle.UnpicklingError(f"it has an array of {dtype}, which is refused")
    return dtype


_HARMLESS: dict[tuple[str, str], Callable[..., Any] | type] = {
    ("numpy.core.multiarray", "_reconstruct"): _empty_array,
    ("numpy._core.multiarray", "_reconstruct"): _empty_array,
    ("numpy", "ndarray"): np.ndarray,
    ("numpy", "dtype"): _plain_dtype,
    ("_codecs", "encode"): _latin1,
}
