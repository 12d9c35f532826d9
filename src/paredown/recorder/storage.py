"""A recording on disk: one `.npz` of plain arrays and a JSON header, which appears whole or not at all."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.files import new_output
from paredown.reading import damaged, read_arrays

_FORMAT = "paredown-recording"
_VERSION = 1


def write_recording(path: Path, header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> None:
    """Write a recording; one that is already there is replaced only once the new one is complete."""
    text = json.dumps({"format": _FORMAT, "version": _VERSION} | header)
    with new_output(path, overwrite=True) as part, part.open("wb") as stream:
        np.savez(stream, allow_pickle=False, header=np.array(text), **arrays)


def read_recording(path: Path) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """The header and arrays of a recording, or an error that says why it is none."""
    what, remedy = "recording that Recorder.save wrote", "It is another file, or damaged."
    arrays = read_arrays(path, what, memory=None, remedy=remedy)
    with damaged(path, what, remedy=remedy):
        header = json.loads(str(arrays.pop("header")))
        known = header["format"] == _FORMAT and header["version"] == _VERSION
    if not known:
        raise PareError(
            f"{path}: a recording of format {header['format']} {header.get('version')}, but this paredown reads "
            f"{_FORMAT} {_VERSION}; read it with the paredown that wrote it."
        )
    return header, arrays
