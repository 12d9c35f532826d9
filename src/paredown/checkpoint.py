"""Long work that can be killed: finished parts on disk, found again by a second run under the same settings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.io import new_output, write_json

__all__ = ["Checkpoint"]


class Checkpoint:
    """A folder of finished parts and the settings they were made under.

    A part's file is its completion mark: it appears whole or not at all. Opening the folder under other settings is
    refused, naming what differs.
    """

    def __init__(self, folder: Path, settings: dict[str, Any]) -> None:
        self.folder = folder
        settings = json.loads(json.dumps(settings))  # as it will be read back
        if not (folder / "settings.json").exists():
            with new_output(folder / "settings.json") as part:
                write_json(settings, part)
            return
        before = json.loads((folder / "settings.json").read_text(encoding="utf-8"))
        for name in sorted({*before, *settings}):
            if before.get(name) != settings.get(name):
                raise PareError(
                    f"{folder} holds an unfinished run with another {name}: {_short(before.get(name))}, now "
                    f"{_short(settings.get(name))}. Run it again as it was to finish it, or remove that folder."
                )

    def load(self, name: str) -> dict[str, NDArray[Any]] | None:
        """The arrays of a finished part, or None."""
        file = self.folder / f"{name}.npz"
        if not file.exists():
            return None
        with np.load(file, allow_pickle=False) as arrays:
            return {key: arrays[key] for key in arrays.files}

    def save(self, name: str, arrays: dict[str, NDArray[Any]]) -> None:
        """Write a finished part."""
        with new_output(self.folder / f"{name}.npz", overwrite=True) as part, part.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays)


def _short(value: Any) -> str:
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."
