"""Embeddings as arrays: in memory, one `.npy` or `.npz` file, or a folder of `.npy` shards."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import cycle
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError
from paredown.ids import id_array, join_ids, natural_order
from paredown.reading import (
    damaged,
    read_array,
    read_arrays,
    read_json,
    read_npy_header,
    read_parquet,
    read_text,
    reading,
    stream_size,
)
from paredown.records import SEAL, is_intact
from paredown.scores import Labels, join_labels
from paredown.sources.base import Options, VectorSource, read_each
from paredown.text import quoted

RECORD = "embed.json"  # what `paredown embed` notes beside the shards of a store
_REMEDY = "Run `paredown embed` again."


class ArraySource(VectorSource):
    """Embeddings already in memory, (n, dim)."""

    def __init__(
        self,
        vectors: ArrayLike,
        *,
        ids: ArrayLike | None = None,
        labels: ArrayLike | Labels | None = None,
        location: str = "array",
        kind: str = "array",
        files: Sequence[Path] = (),
    ) -> None:
        array = np.asarray(vectors)
        _check_matrix(location, array.shape, array.dtype)
        self._vectors, self._files = array, files
        self.dim = array.shape[1]
        ids = np.arange(len(array)) if ids is None else ids
        check_length(location, ids, len(array))
        self._describe(location, kind, ids=ids, labels=labels)

    def blocks(self, rows: int) -> Iterator[NDArray[Any]]:
        for first in range(0, len(self._vectors), rows):
            yield self._vectors[first : first + rows]

    def disk_files(self) -> Iterable[Path]:
        return self._files

    def fingerprint(self) -> str:
        if self._fingerprint is None and not self._files:
            digest = hashlib.sha256(repr((self._vectors.shape, self._vectors.dtype.str)).encode())
            for block in self.blocks(self.block_rows):
                digest.update(np.ascontiguousarray(block).tobytes())
            self._fingerprint = digest.hexdigest()[:16]
        return super().fingerprint()


class Shard(NamedTuple):
    """One `.npy` file of embeddings."""

    path: Path
    rows: int
    dim: int
    dtype: np.dtype[Any]
    offset: int  # where the data begin


class NpySource(VectorSource):
    """One or several `.npy` files, read in blocks with plain reads (a memory map would be slower when cold).

    Rows of a single file have their row number as id; rows of a folder of shards have `shard:row`, so that ids do not
    depend on how many shards there are or in which order they are listed. In a folder, `ids.npy` and `labels.npy` are
    taken as the ids and labels of all rows, shards in natural order; or a table beside each shard (`00000.parquet`
    beside `00000.npy`) has the ids and labels of its rows, as in the stores that `paredown embed` writes.
    """

    def __init__(self, path: Path, options: Options) -> None:
        self._record = read_record(path) if path.is_dir() else {}
        self.warnings = tuple(self._record.get("warnings", ()))
        ids, labels, files = options.ids, options.labels, [path]
        if path.is_dir():
            columns = {name: path / f"{name}.npy" for name in ("ids", "labels")}
            files = sorted((f for f in path.glob("*.npy") if f not in columns.values()), key=natural_order)
            ids = load_column(columns["ids"]) if ids is None and columns["ids"].exists() else ids
            labels = load_column(columns["labels"]) if labels is None and columns["labels"].exists() else labels
        self._shards, self.skipped = read_each(files, read_header, options.on_error)
        if path.is_dir() and self._shards and any(path.glob("*.parquet")):
            own_ids, own_labels = self._tables(options.memory)
            ids = own_ids if ids is None else ids
            labels = own_labels if labels is None else labels
        total = sum(shard.rows for shard in self._shards)
        if total == 0:
            why = f": {self.skipped[0].why}" if self.skipped else "."
            raise PareError(f"{path}: the source is empty; no rows of embeddings could be read from it{why}")
        self.dim = common_dim(path, self._shards)
        if ids is None and path.is_dir():
            ids = id_array([f"{shard.path.stem}:{row}" for shard in self._shards for row in range(shard.rows)])
        ids = np.arange(total) if ids is None else ids
        check_length(str(path), ids, total)
        self._describe(str(path), "npy", ids=ids, labels=labels)

    def _tables(self, memory: int | None) -> tuple[NDArray[Any], Labels | None]:
        """Ids, and labels if there are any, from the tables beside the shards."""
        tables = [read_companion(shard, memory) for shard in self._shards]
        ids = join_ids([own for own, _ in tables])
        labelled = [own for _, own in tables if own is not None]
        if not labelled:
            return ids, None
        if len(labelled) < len(tables):
            raise PareError(f"{self._shards[0].path.parent}: some shards have a 'label' column and others have none.")
        labels = join_labels(labelled)
        return ids, labels.in_order_of(self._record.get("classes", ()))

    def provenance(self) -> dict[str, Any]:
        """With the encoder and the images, if the store remembers them."""
        return super().provenance() | made_of(self._record)

    def blocks(self, rows: int) -> Iterator[NDArray[Any]]:
        """Blocks reach across shards, so that they are the same however the rows are split into files."""
        return read_blocks([(shard, 0, shard.rows) for shard in self._shards], rows)

    def disk_files(self) -> Iterable[Path]:
        return (shard.path for shard in self._shards)


def made_of(record: Mapping[str, Any]) -> dict[str, Any]:
    """What the record of a store says of its making: the encoder, in words and by its name, and the images."""
    known = {key: record[key] for key in ("encoder", "images") if key in record}
    settings = record.get("settings")
    name = settings.get("encoder") if isinstance(settings, dict) else None
    return known if name is None else known | {"encoder_name": name}


def read_record(folder: Path) -> dict[str, Any]:
    """What `paredown embed` noted of a store that it wrote; nothing for other folders. An unfinished one raises."""
    file = folder / RECORD
    if not file.exists():
        return {}
    record = read_json(file, "record of embeddings", remedy=_REMEDY)
    if is_intact(file.read_bytes()) is False:
        raise PareError(f"{file}: the record was changed or damaged since it was written, by its digest. {_REMEDY}")
    record.pop(SEAL, None)
    for name, kind in (("complete", bool), ("warnings", list), ("classes", list)):
        if not isinstance(record.get(name, kind()), kind) or (name == "complete" and name not in record):
            raise PareError(f"{file}: not a readable record of embeddings (it lacks a proper {name!r}). {_REMEDY}")
    if not record["complete"]:
        raise PareError(
            f"{folder}: these embeddings are incomplete; run the same `paredown embed` command again first, or "
            f"`paredown merge {quoted(folder)}` if they were made in shares."
        )
    return record


def read_companion(shard: Shard, memory: int | None) -> tuple[NDArray[Any], Labels | None]:
    """The ids and labels in the table beside a shard."""
    from paredown.columns import id_column, label_column

    file = shard.path.with_suffix(".parquet")
    table = read_parquet(file, what=f"table of the ids of {shard.path.name}", memory=memory)
    if "id" not in table.column_names:
        raise PareError(
            f"{file}: it has no 'id' column for the rows of {shard.path.name}; it has {table.column_names}."
        )
    if table.num_rows != shard.rows:
        raise PareError(f"{file}: has {table.num_rows} rows for the {shard.rows} embeddings of {shard.path.name}.")
    with damaged(file, "table of ids"):
        labels = label_column(table["label"], file) if "label" in table.column_names else None
        return id_column(table["id"], file), labels


def read_header(file: Path) -> Shard:
    """Shape, type and data offset of an `.npy` file, checked against its size."""
    with reading(file, ".npy file"), file.open("rb") as stream:
        header = read_npy_header(stream, stream_size(stream), where=str(file))
    shape = header.shape
    _check_matrix(str(file), shape, header.dtype)
    if header.fortran and min(shape) > 1:
        raise PareError(f"{file}: stored column by column; save it again with np.ascontiguousarray.")
    return Shard(file, shape[0], shape[1], header.dtype, header.offset)


def common_dim(path: Path, shards: Sequence[Shard]) -> int:
    """The dimension of all shards of a source."""
    for shard in shards:
        if shard.dim != shards[0].dim:
            raise PareError(
                f"{path}: embeddings differ in dimension: {shards[0].path.name} has {shards[0].dim}, "
                f"{shard.path.name} has {shard.dim}; all shards must come from the same encoder."
            )
    return shards[0].dim


def _check_matrix(location: str, shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Raise unless an array can be embeddings."""
    if len(shape) != 2 or dtype.kind not in "fiu":
        raise PareError(
            f"{location}: embeddings must be a (rows, dimensions) array of numbers, got shape {shape} of {dtype}."
        )
    if shape[1] == 0:
        raise PareError(f"{location}: embeddings have no dimensions (shape {shape}).")


def read_blocks(pieces: Sequence[tuple[Shard, int, int]], rows: int) -> Iterator[NDArray[Any]]:
    """Pieces of files (each with its first row and their number) in blocks of `rows` that reach across files.

    A thread reads the next block while one is used, so that computing does not wait for the disk. The memory of a block
    is read into again when the one after the next is asked for.
    """
    total = sum(number for _, _, number in pieces)
    shape = (min(rows, total), pieces[0][0].dim)
    kind = np.result_type(*{shard.dtype for shard, _, _ in pieces})
    if total <= rows:
        yield from _fill(pieces, iter([np.empty(shape, kind)]))
        return
    blocks = _fill(pieces, cycle([np.empty(shape, kind), np.empty(shape, kind)]))
    with ThreadPoolExecutor(1, "paredown-reading") as thread:
        coming = thread.submit(next, blocks, None)
        while (block := coming.result()) is not None:
            coming = thread.submit(next, blocks, None)
            yield block


def _fill(pieces: Sequence[tuple[Shard, int, int]], buffers: Iterator[NDArray[Any]]) -> Iterator[NDArray[Any]]:
    """Pieces of files read into one buffer after the other."""
    buffer, filled = next(buffers), 0
    for shard, first, left in pieces:
        with reading(shard.path, ".npy file"), shard.path.open("rb", buffering=0) as stream:
            stream.seek(shard.offset + first * shard.dim * shard.dtype.itemsize)
            while left:
                if filled == len(buffer):
                    yield buffer
                    buffer, filled = next(buffers), 0
                part = buffer[filled : filled + min(left, len(buffer) - filled)]
                if shard.dtype == buffer.dtype:
                    _read_into(stream, part, shard.path)
                else:
                    stored = np.empty(part.shape, shard.dtype)
                    _read_into(stream, stored, shard.path)
                    part[:] = stored
                filled, left = filled + len(part), left - len(part)
    if filled:
        yield buffer[:filled]


def _read_into(stream: Any, block: NDArray[Any], path: Path) -> None:
    """Fill a block from a file: one read returns at most 2 GiB, and may return less."""
    view = block.reshape(-1).view(np.uint8).data
    while len(view):
        count = stream.readinto(view)
        if not count:
            raise PareError(f"{path}: it ended while it was being read; was it changed in the meantime?")
        view = view[count:]


def open_npz(path: Path, options: Options) -> ArraySource:
    """An `.npz` whose only 2-d array (or the one named `embeddings`) is the embeddings; `ids`, `labels` if present."""
    arrays = read_arrays(path, memory=options.memory, instead="save the embeddings as .npy, which is read in blocks")
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    name = "embeddings" if "embeddings" in matrices else matrices[0] if len(matrices) == 1 else None
    if name is None:
        held = ", ".join(f"{key} {array.shape}" for key, array in arrays.items()) or "nothing"
        raise PareError(f"{path}: needs a 2-d array named 'embeddings'; it holds {held}. Save that array as .npy.")
    return ArraySource(
        arrays[name],
        ids=arrays.get("ids") if options.ids is None else options.ids,
        labels=arrays.get("labels") if options.labels is None else options.labels,
        location=str(path),
        kind="npz",
        files=[path],
    )


def check_length(location: str, ids: ArrayLike, rows: int) -> None:
    """Raise unless there is one id per row."""
    if np.size(ids) != rows:
        raise PareError(f"{location}: there are {np.size(ids)} ids for {rows} embeddings; give one id per row.")


def load_column(path: Path) -> NDArray[Any]:
    """A one-dimensional array of ids or labels from `.npy` or a text file with one value a line."""
    from paredown.columns import as_written

    what = "column of ids or labels"
    if path.suffix == ".npy":
        return read_array(path, what)
    text = read_text(path, what)
    # Not `splitlines`, which also breaks a line at characters that an id may hold.
    return as_written(text.removesuffix("\n").split("\n") if text else [], path, "ids or labels")
