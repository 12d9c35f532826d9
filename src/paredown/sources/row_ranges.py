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
from paredown.reading import read_array, read_npy_header, reading
from paredown.scores import Labels, join_labels
from paredown.sources.arrays import _read_companion, _read_header, _read_into, _Shard, read_record
from paredown.sources.base import CHUNK_BLOCKS, VectorSource, files_fingerprint, files_modified

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


class RangedSource:
    """An `.npy` file, or a folder of them as `NpySource` takes it, known by the headers of its files alone."""

    kind = "npy"

    def __init__(self, path: str | Path) -> None:
        path = Path(os.path.abspath(path))  # workers may run in another folder
        self.location = str(path)
        if not path.is_dir() and path.suffix != ".npy":
            raise PareError(
                f"{path}: only .npy files, folders of them and what `paredown embed` wrote can be read by ranges; use "
                f"{argument('engine', 'local')}, or save the embeddings as .npy."
            )
        if not path.exists():
            raise PareError(f"{path}: there is no such file or folder.")
        self._record = read_record(path) if path.is_dir() else {}
        self.warnings = tuple(self._record.get("warnings", ()))
        files = [path]
        if path.is_dir():
            files = [file for file in path.glob("*.npy") if file.name not in ("ids.npy", "labels.npy")]
        self._shards = [shard for shard in map(_read_header, sorted(files, key=natural_order)) if shard.rows]
        if not self._shards:
            raise PareError(f"{path}: the source is empty; no rows of embeddings could be read from it.")
        self.dim = self._shards[0].dim
        for shard in self._shards:
            if shard.dim != self.dim:
                raise PareError(
                    f"{path}: embeddings differ in dimension: {self._shards[0].path.name} has {self.dim}, "
                    f"{shard.path.name} has {shard.dim}; all shards must come from the same encoder."
                )
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
                    header = read_npy_header(stream, os.fstat(stream.fileno()).st_size, where=str(file))
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
        size: int = CHUNK_BLOCKS * self.block_rows  # type: ignore[operator]  # a property that is borrowed
        size *= _LARGE if large and self._total > _MANY * size else 1
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
        beside = [Path(self.location).glob("*.parquet")] if self.columns.get("beside") else []
        given = [Path(str(self.columns[name])) for name in ("ids", "labels") if name in self.columns]
        return {"modified": files_modified([*self.disk_files(), *given, *(file for some in beside for file in some)])}

    def provenance(self) -> dict[str, Any]:
        """What a result should remember of where it came from."""
        known = {key: self._record[key] for key in ("encoder", "images") if key in self._record}
        return {
            "location": os.path.abspath(self.location),
            "opened_with": {},
            "kind": self.kind,
            "examples": len(self),
            "fingerprint": self.fingerprint(),
            "skipped": 0,
        } | known


class RangeRows(VectorSource):
    """The rows of a range, as a source of their own."""

    def __init__(self, location: str, rows: RowRange, columns: dict[str, str | bool]) -> None:
        self.range, self._files = rows, {}
        for piece in rows.pieces:
            shard = self._files[piece.file] = _read_header(Path(piece.file))
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
            tables = {file: _read_companion(shard, None) for file, shard in self._files.items()}
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
            stems = [(Path(piece.file).stem, piece) for piece in pieces]
            ids = id_array([f"{stem}:{row}" for stem, p in stems for row in range(p.first, p.first + p.rows)])
        return np.arange(here.start, here.stop) if ids is None else ids, labels

    def blocks(self, rows: int) -> Iterator[NDArray[Any]]:
        """As `NpySource` does: blocks reach across files."""
        kinds = {shard.dtype for shard in self._files.values()}
        buffer = np.empty((min(rows, len(self.ids)), self.dim), np.result_type(*kinds))
        filled = 0
        for piece in self.range.pieces:
            shard: _Shard = self._files[piece.file]
            with reading(shard.path, ".npy file"), shard.path.open("rb", buffering=0) as stream:
                stream.seek(shard.offset + piece.first * self.dim * shard.dtype.itemsize)
                left = piece.rows
                while left:
                    part = buffer[filled : filled + min(left, len(buffer) - filled)]
                    stored = part if shard.dtype == buffer.dtype else np.empty(part.shape, shard.dtype)
                    _read_into(stream, stored, shard.path)
                    part[:] = stored
                    filled, left = filled + len(part), left - len(part)
                    if filled == len(buffer):
                        yield buffer
                        filled = 0
        if filled:
            yield buffer[:filled]

    def disk_files(self) -> Iterable[Path]:
        return (shard.path for shard in self._files.values())


def _slice(file: str, rows: slice) -> NDArray[Any]:
    """Some values of an `.npy` file of one column."""
    with reading(Path(file), ".npy file"):
        mapped = np.load(file, mmap_mode="r", allow_pickle=False)
    return np.array(mapped[rows]) if mapped.ndim == 1 else read_array(Path(file), "column of ids or labels")[rows]
