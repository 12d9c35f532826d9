"""What exports are made of: all scored examples, which are kept, and the data behind them."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError, argument
from paredown.places import absolute, is_remote
from paredown.progress import Track
from paredown.reading import check_regular
from paredown.scores import Labels, Scores
from paredown.sources import Source

if TYPE_CHECKING:
    from paredown.sources.image_files import ImageFiles

Link = Literal["copy", "hard", "symbolic"]


class OpenedData(NamedTuple):
    """The data of some examples, in the order of their source."""

    source: Source
    rows: NDArray[np.int64]  # of the source, ascending,
    examples: NDArray[np.int64]  # and which row of the manifest each of them is


@dataclass(frozen=True)
class ExportContent:
    """What is exported, and how.

    Attributes:
        scores, keep: of all examples.
        open: the data, as the entry of the export asks for them.
        link: how files are placed.
        shard_size: examples per tar.
        track: reports progress.
        warn: is told what to know of the result.
    """

    scores: Scores
    keep: NDArray[np.bool_]
    open: Callable[[], OpenedData]
    link: Link
    shard_size: int
    track: Track
    warn: Callable[[str], object]

    @property
    def kept_ids(self) -> NDArray[Any]:
        return self.scores.ids[self.keep]

    def labels_of(self, examples: NDArray[np.int64]) -> Labels | None:
        """The labels of some rows of the manifest, if there are any."""
        return None if self.scores.labels is None else self.scores.labels[examples]

    def image_source(self) -> ImageFiles:
        """The source, if it is one of image files."""
        from paredown.sources.image_files import ImageFiles

        source = self.open().source
        if not isinstance(source, ImageFiles):
            raise PareError(f"{source.location} ({source.kind}) has no image files; export 'ids' or 'indices' instead.")
        return source

    def image_files(self) -> tuple[list[Path], OpenedData]:
        """The absolute path of the image of every row that was opened."""
        source, opened = self.image_source(), self.open()
        for text in source.warnings:
            self.warn(text)
        return [absolute(source.paths[row]) for row in opened.rows.tolist()], opened

    def place(self, file: Path, target: Path) -> None:
        """Copy or link a regular file; one in an object store is fetched."""
        if is_remote(file) and self.link != "copy":
            raise PareError(f"{file}: no link leads to an object store; use {argument('link', 'copy')}.")
        check_regular(file)
        target.parent.mkdir(parents=True, exist_ok=True)
        if is_remote(file):
            target.write_bytes(file.read_bytes())
            return
        _PLACE[self.link](file, target)


_PLACE: dict[Link, Callable[[Path, Path], Any]] = {"copy": shutil.copy2, "hard": os.link, "symbolic": os.symlink}
