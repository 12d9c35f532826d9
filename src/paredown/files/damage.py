"""Outputs that are damaged: so that nobody's work is lost when paredown replaces its own.

A file that was changed may hold someone's work. One that begins as its format does, or is empty, but cannot be read
holds nobody's: it was cut off, or its own checksums say that bits were flipped.
"""

from __future__ import annotations

import json
from pathlib import Path
from zipfile import BadZipFile, ZipFile

from paredown.places import is_remote

_MAGIC = {".parquet": b"PAR1", ".npy": b"\x93NUMPY", ".npz": b"PK\3\4", ".json": b'{\n  "paredown": '}
_RECORD = '"format": "paredown'.encode("utf-32-le")  # how numpy writes the record of models and recordings
_SEARCHED = 2**20  # bytes at the beginning of a file in which the record must begin


def is_damaged(path: Path, *, contents: bool = False) -> bool:
    """Whether a file begins as one of its name does, or is empty, but cannot be read; known of some formats only.

    With `contents` all of it is read where a format has checksums, and not only its structure.
    """
    magic = _MAGIC.get(path.suffix)
    if magic is None or is_remote(path) or path.is_symlink() or not path.is_file():  # no object is cut off
        return False
    start = _start(path, len(magic))
    if start not in (magic, bytes(len(start))):
        return False
    try:
        _check(path, contents=contents)
    except Exception:  # whatever a library says of a file that it cannot read
        return True
    return False


def holds_record(path: Path) -> bool:
    """Whether what is left of a model or recording still says that paredown wrote it."""
    return path.suffix == ".npz" and _RECORD in _start(path, _SEARCHED)


def _start(path: Path, size: int) -> bytes:
    with path.open("rb") as stream:
        return stream.read(size)


def _check(path: Path, *, contents: bool) -> None:
    """Raise if the structure of a file is broken, or its contents by their checksums."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        with pq.ParquetFile(path, page_checksum_verification=True) as table:
            json.loads((table.schema_arrow.metadata or {}).get(b"paredown", b"{}"))
            for batch in table.iter_batches() if contents else ():
                batch.validate(full=True)
    elif path.suffix == ".json":
        json.loads(path.read_bytes().decode("utf-8"))
    elif path.suffix == ".npy":
        import numpy as np

        np.load(path, mmap_mode="r", allow_pickle=False)
    else:
        with ZipFile(path) as archive:
            if contents and archive.testzip() is not None:
                raise BadZipFile(path)
