"""Outputs that are damaged: cut off or emptied, so that nobody's work is lost when paredown replaces its own.

A file that was changed may hold someone's work. One that begins as its format does, or is empty, but cannot be read
holds nobody's.
"""

from __future__ import annotations

from pathlib import Path
from zipfile import ZipFile

_MAGIC = {".parquet": b"PAR1", ".npy": b"\x93NUMPY", ".npz": b"PK\3\4"}
_RECORD = '"format": "paredown'.encode("utf-32-le")  # how numpy writes the record of models and recordings
_SEARCHED = 2**20  # bytes at the beginning of a file in which the record must begin


def is_damaged(path: Path) -> bool:
    """Whether a file begins as one of its name does, or is empty, but cannot be read; known of some formats only."""
    magic = _MAGIC.get(path.suffix)
    if magic is None or path.is_symlink() or not path.is_file():
        return False
    start = _start(path, len(magic))
    if start not in (magic, bytes(len(start))):
        return False
    try:
        _check(path)
    except Exception:  # whatever a library says of a file that it cannot read
        return True
    return False


def holds_record(path: Path) -> bool:
    """Whether what is left of a model or recording still says that paredown wrote it."""
    return path.suffix == ".npz" and _RECORD in _start(path, _SEARCHED)


def _start(path: Path, size: int) -> bytes:
    with path.open("rb") as stream:
        return stream.read(size)


def _check(path: Path) -> None:
    """Raise if the structure of a file is broken; its values are not looked at."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        pq.read_metadata(path)
    elif path.suffix == ".npy":
        import numpy as np

        np.load(path, mmap_mode="r", allow_pickle=False)
    else:
        with ZipFile(path) as archive:
            archive.infolist()
