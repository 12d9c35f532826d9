"""Embeddings in `.npy` files by ranges of rows, for sources whose ids are too many to be held in one place.

A range is a plain value that any process can open by itself; its rows have the ids and labels that `NpySource` would
give them. Ranges hold a fixed number of rows, so that they are the same however the rows are split into files.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError, argument
from paredown.ids import id_array, join_ids, natural_order
from paredown.places import absolute, as_place, nothing_at
from paredown.reading import read_array, read_npy_header, reading, stream_size
from paredown.scores import Labels, join_labels
from paredown.sources.arrays import common_dim, made_of, read_blocks, read_companion, read_header, read_record
from paredown.sources.base import BLOCK_BYTES, CHUNK_BLOCKS, VectorSource, files_fingerprint, files_modified
from paredown.sources.image_files import is_image
from paredown.sources.source_formats import FORMATS, find_format
from paredown.text import quoted

_MANY, _LARGE = 512, 8  # of more ranges than this, so many are put together where each becomes a file


class Piece(NamedTuple):
    """Some consecutive rows of a file."""

    file: str
    first: int
    rows: int


class RowRange(NamedTuple):
    """Some consecutive rows of a source."""

    number: int  # of this range
    start: int  # its first row in the source
    pieces: tuple[Piece, ...]

    @property
    def name(self) -> str:
        """For messages."""
        first, last = self.pieces[0], self.pieces[-1]
        begin = f"range {self.number}: {os.path.basename(first.file)} from row {first.first} on"
        return begin if first.file == last.file else f"{begin} to {os.path.basename(last.file)}"


def rows_per_range(dim: int, *, rows: int = 0) -> int:
    """Rows of a range of so many dimensions; more of them where each becomes a file and there are this many `rows`."""
    size = CHUNK_BLOCKS * max(1, BLOCK_BYTES // (4 * dim))
    return size * (_LARGE if rows > _MANY * size else 1)


def refuse_images(path: Path) -> None:
    """Raise if a source is one of images: what is read by ranges of rows are their embeddings."""
    try:
        found = find_format(path)
    except PareError:  # which whoever opens it tells
        return
    if found not in (FORMATS["images"], FORMATS["webdataset"], FORMATS["csv"]):
        return
    if found is FORMATS["images"] and not any(is_image(file.name) for file in path.rglob("*")):
        return
    raise PareError(
        f"{path}: these are images ({found.summary}), which are embedded before they are scored on a cluster or in "
        f"shares; run `paredown embed {quoted(path)} -o EMBEDDINGS {argument('engine', 'ray')}`, or with "
        f"{argument('shard', ...)} in place of it, and give EMBEDDINGS instead."
    )


class RangedSource:
    """An `.npy` file, or a folder of them as `NpySource` takes it, known by the headers of its files alone."""

    kind = "npy"

    def __init__(self, path: str | Path) -> None:
        path = absolute(path)  # workers may run in another folder
        self.location = str(path)
        if not path.exists():
            raise nothing_at(path)
        refuse_images(path)
        if not path.is_dir() and path.suffix != ".npy":
            raise PareError(
                f"{path}: only .npy files, folders of them and what `paredown embed` wrote can be read by ranges; use "
                f"{argument('engine', 'local')}, or save the embeddings as .npy."
            )
        self._record = read_record(path) if path.is_dir() else {}
        self.warnings = tuple(self._record.get("warnings", ()))
        files = [path]
        if path.is_dir():
            files = [file for file in path.glob("*.npy") if file.name not in ("ids.npy", "labels.npy")]
        self._shards = [shard for shard in map(read_header, sorted(files, key=natural_order)) if shard.rows]
        if not self._shards:
            raise PareError(
                f"{path}: there are no embeddings in it, as .npy files; embed images with `paredown embed`."
            )
        self.dim, self.item_bytes = common_dim(path, self._shards), self._shards[0].dtype.itemsize
        self._total = sum(shard.rows for shard in self._shards)
        self.columns = self._find_columns(path)
        self.known_classes: tuple[str, ...] = tuple(map(str, self._record.get("classes", ())))

    def _find_columns(self, path: Path) -> dict[str, str | bool]:
        """Where ids and labels are: in an array of all rows, in a table beside each file, or nowhere."""
        found: dict[str, str | bool] = {"folder": path.is_dir()}
        if not path.is_dir():
            return found
        for name in ("ids", "labels"):
            file = path / f"{name}.npy"
            if file.exists():
                with reading(file, ".npy file"), file.open("rb") as stream:
                    header = read_npy_header(stream, stream_size(stream), where=str(file))
                if header.shape != (self._total,):
                    raise PareError(f"{file}: its shape is {header.shape}, and there are {self._total} embeddings.")
                found[name] = str(file)
        if any(path.glob("*.parquet")):
            found["beside"] = True
        return found

    def __len__(self) -> int:
        return self._total

    block_rows = VectorSource.block_rows
    n_blocks = VectorSource.n_blocks

    def ranges(self, *, large: bool = False) -> list[RowRange]:
        """All rows, a fixed number at a time; if `large`, in fewer ranges where there would be thousands."""
        size = rows_per_range(self.dim, rows=self._total if large else 0)
        ranges: list[RowRange] = []
        pieces: list[Piece] = []
        start, room = 0, size
        for shard in self._shards:
            first = 0
            while first < shard.rows:
                rows = min(shard.rows - first, room)
                pieces.append(Piece(str(shard.path), first, rows))
                first, room = first + rows, room - rows
                if room == 0:
                    ranges.append(RowRange(len(ranges), start, tuple(pieces)))
                    pieces, start, room = [], start + size, size
        return ranges + ([RowRange(len(ranges), start, tuple(pieces))] if pieces else [])

    def first_row(self) -> RangeRows:
        """One row, for what its id and label are like."""
        return self.open(RowRange(0, 0, (Piece(str(self._shards[0].path), 0, 1),)))

    def open(self, rows: RowRange) -> RangeRows:
        """The embeddings of a range."""
        return RangeRows(self.location, rows, self.columns)

    def disk_files(self) -> Iterable[Path]:
        """The files that hold the embeddings."""
        return (shard.path for shard in self._shards)

    def fingerprint(self) -> str:
        """As that of the opened source."""
        return files_fingerprint(self.disk_files())

    def state(self) -> dict[str, str]:
        """When files were modified, those of ids and labels among them."""
        beside = [as_place(self.location).glob("*.parquet")] if self.columns.get("beside") else []
        given = [as_place(str(self.columns[name])) for name in ("ids", "labels") if name in self.columns]
        return {"modified": files_modified([*self.disk_files(), *given, *(file for some in beside for file in some)])}

    def provenance(self, *, fingerprint: str | None = None) -> dict[str, Any]:
        """What a result should remember of where it came from; the `fingerprint` is not made if it is known."""
        return {
            "location": self.location,
            "opened_with": {},
            "kind": self.kind,
            "examples": len(self),
            "fingerprint": fingerprint or self.fingerprint(),
            "skipped": 0,
        } | made_of(self._record)


class RangeRows(VectorSource):
    """The rows of a range, as a source of their own."""

    def __init__(self, location: str, rows: RowRange, columns: dict[str, str | bool]) -> None:
        self.range, self._files = rows, {}
        for piece in rows.pieces:
            shard = self._files[piece.file] = read_header(as_place(piece.file))
            if piece.first + piece.rows > shard.rows:
                raise PareError(f"{piece.file}: it has fewer rows than when the run began; was it changed?")
        self.dim = next(iter(self._files.values())).dim
        ids, labels = self._columns(columns)
        self._describe(location, "npy", ids=ids, labels=labels)

    def _columns(self, columns: dict[str, str | bool]) -> tuple[NDArray[Any], Labels | None]:
        rows, pieces = self.range, self.range.pieces
        here = slice(rows.start, rows.start + sum(piece.rows for piece in pieces))
        ids: NDArray[Any] | None = None
        labels: Labels | None = None
        if columns.get("beside"):
            tables = {file: read_companion(shard, None) for file, shard in self._files.items()}
            parts = [slice(piece.first, piece.first + piece.rows) for piece in pieces]
            ids = join_ids([tables[piece.file][0][part] for piece, part in zip(pieces, parts, strict=True)])
            own = [tables[piece.file][1] for piece in pieces]
            if all(each is not None for each in own):
                labels = join_labels([each[part] for each, part in zip(own, parts, strict=True) if each is not None])
        if "ids" in columns:
            ids = id_array(_slice(str(columns["ids"]), here))
        if "labels" in columns:
            labels = Labels.of(_slice(str(columns["labels"]), here))
        if ids is None and columns["folder"]:
            stems = [(as_place(piece.file).stem, piece) for piece in pieces]
            ids = id_array([f"{stem}:{row}" for stem, p in stems for row in range(p.first, p.first + p.rows)])
        return np.arange(here.start, here.stop) if ids is None else ids, labels

    def blocks(self, rows: int) -> Iterator[NDArray[Any]]:
        """As `NpySource` does: blocks reach across files."""
        return read_blocks([(self._files[file], first, number) for file, first, number in self.range.pieces], rows)

    def disk_files(self) -> Iterable[Path]:
        return (shard.path for shard in self._files.values())


def _slice(file: str, rows: slice) -> NDArray[Any]:
    """Some values of an `.npy` file of one column."""
    path = as_place(file)
    with reading(path, ".npy file"), path.open("rb") as stream:
        header = read_npy_header(stream, stream_size(stream), where=file)
        if len(header.shape) == 1:
            size = header.dtype.itemsize
            stream.seek(header.offset + rows.start * size)
            read = stream.read((rows.stop - rows.start) * size)
            return np.frombuffer(read, header.dtype).copy()
    return read_array(path, "column of ids or labels")[rows]
