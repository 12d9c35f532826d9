"""Tables: Parquet with a list column of embeddings, and CSV or Parquet manifests of image paths."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import NDArray

from paredown.columns import as_written, id_column, label_column
from paredown.errors import PareError, argument
from paredown.ids import join_ids, name_rows, natural_order
from paredown.places import StorageError, arrow_input, is_remote
from paredown.reading import check_memory, check_rows, damaged, read_parquet, reading
from paredown.scores import join_labels
from paredown.sources.base import Options, Skipped, VectorSource, read_each
from paredown.sources.image_files import ImageFiles
from paredown.text import quoted

# Names tried in turn when the user names no column.
EMBEDDING_COLUMNS = ("embedding", "embeddings", "vector", "features")
ID_COLUMNS = ("id", "uid", "key")
LABEL_COLUMNS = ("label", "labels", "class")
PATH_COLUMNS = ("path", "image_path", "file_name", "filename", "image", "file")


def open_parquet(path: Path, options: Options) -> ParquetSource | ImageFiles:
    """Embeddings if there is a list column of numbers, otherwise a manifest of image paths."""
    files = sorted(path.glob("*.parquet"), key=natural_order) if path.is_dir() else [path]
    found, skipped = read_each(files, lambda file: (file, _schema(file)), options.on_error)
    readable = [file for file, _ in found]
    if not readable:
        raise PareError(f"{path}: the source is empty; no readable Parquet file is in it.")
    if options.columns.get("embedding") or any(_is_vector(field.type) for field in found[0][1]):
        return ParquetSource(path, readable, options, skipped)
    tables = [read_parquet(file, memory=options.memory) for file in readable]
    with damaged(path, "table of images", remedy="The files have different columns; all must have the same."):
        table = pa.concat_tables(tables, promote_options="default")
    return _image_manifest(path, table, options, read_ids=id_column, read_labels=label_column)


def _schema(file: Path) -> pa.Schema:
    with reading(file, "Parquet file", remedy=f"Replace it, or leave it out with {argument('on_error', 'skip')}."):
        return pq.read_schema(arrow_input(file))


def holds_embeddings(file: Path) -> bool:
    """Whether a Parquet file has a list column of numbers; False for one that cannot be read."""
    try:
        return any(_is_vector(field.type) for field in _schema(file))
    except StorageError:
        raise
    except PareError:
        return False


class ParquetSource(VectorSource):
    """Embeddings in a list column of one or several Parquet files, with an id column and perhaps labels.

    Blocks go from Arrow buffers to one float32 array without a Python object per row.
    """

    def __init__(self, path: Path, files: Sequence[Path], options: Options, skipped: list[Skipped]) -> None:
        self._files, self.skipped = list(files), skipped
        schema = _schema(files[0])
        ids, labels, columns = options.ids, options.labels, options.columns
        vectors = [field.name for field in schema if _is_vector(field.type)]
        self._column = pick_column(path, "embedding", columns, schema.names, EMBEDDING_COLUMNS, only=vectors)
        dims = {file.name: _first_dim(file, self._column) for file in files}
        self.dim = next((dim for dim in dims.values() if dim), 0)
        for name, dim in dims.items():
            if dim and dim != self.dim:
                raise PareError(
                    f"{path}: embeddings differ in dimension: {files[0].name} has {self.dim}, {name} has {dim}; "
                    "all files must come from the same encoder."
                )
        if not self.dim and any(_rows(file) for file in files):
            raise PareError(f"{path}: the first embedding in {self._column!r} is empty or null; fix or drop such rows.")
        if ids is None:
            if set(schema.names) == set(vectors):
                raise PareError(f"{path}: it has no column of ids; add one, or give them with {argument('ids', ...)}.")
            name = pick_column(path, "id", columns, schema.names, ID_COLUMNS)
            ids = join_ids([_read_column(file, name, id_column, options.memory) for file in files])
        if labels is None:
            name = pick_column(path, "label", columns, schema.names, LABEL_COLUMNS, required=False)
            read = None if name is None else [_read_column(f, name, label_column, options.memory) for f in files]
            labels = None if read is None else join_labels(read)
        self._describe(str(path), "parquet", ids=ids, labels=labels)

    def blocks(self, rows: int) -> Iterator[NDArray[Any]]:
        for file in self._files:
            first = 0
            for column in _column_batches(file, self._column, rows):
                with damaged(file, "Parquet file"):
                    block = self._matrix(column, file, first)
                yield block
                first += len(column)

    def _matrix(self, column: Any, file: Path, first: int) -> NDArray[Any]:
        lengths = column.value_lengths().to_numpy(zero_copy_only=False)
        bad = np.flatnonzero(~(lengths == self.dim))  # a null row has length NaN
        if len(bad):
            raise PareError(
                f"{file}: embeddings differ in dimension: expected {self.dim}, but {name_rows(bad + first)} "
                f"{'has' if len(bad) == 1 else 'have'} another length or none."
            )
        return column.flatten().to_numpy(zero_copy_only=False).reshape(len(column), self.dim)

    def disk_files(self) -> Iterable[Path]:
        return self._files


def open_manifest(path: Path, options: Options) -> ImageFiles:
    """A CSV file whose rows are images: a path column, and perhaps an id and a label column."""
    with reading(path, "CSV file"):
        check_memory(path, path.stat().st_size, options.memory)
        with pyarrow.csv.open_csv(arrow_input(path)) as opened:
            names = opened.schema.names
        # Everything is read as it is written: 007 is not 7.
        as_text = pyarrow.csv.ConvertOptions(column_types=dict.fromkeys(names, pa.string()))
        table = pyarrow.csv.read_csv(arrow_input(path), convert_options=as_text)
    return _image_manifest(path, table, options, read_ids=as_written, read_labels=as_written)


def _image_manifest(
    path: Path, table: pa.Table, options: Options, *, read_ids: Callable[..., Any], read_labels: Callable[..., Any]
) -> ImageFiles:
    """The images of a table's path column; ids and labels are read by functions of (column, path, name)."""
    columns, present = options.columns, table.column_names
    if "path" not in columns and not set(PATH_COLUMNS) & set(present):
        raise PareError(
            f"{path}: it has neither embeddings nor image paths, but {', '.join(present)}. Name the column of paths "
            f"with {argument('columns', {'path': 'NAME'})}; {_advice_on_scores(path, present)}."
        )
    with damaged(path, "table of images"):
        name = pick_column(path, "path", columns, present, PATH_COLUMNS)
        paths = read_ids(table[name], path, name)
    ids, labels = options.ids, options.labels
    if ids is None:
        name = pick_column(path, "id", columns, present, ID_COLUMNS, required=False)
        ids = paths if name is None else read_ids(table[name], path, name)
    if labels is None:
        name = pick_column(path, "label", columns, present, LABEL_COLUMNS, required=False)
        labels = None if name is None else read_labels(table[name], path, name)
    root = path if path.is_dir() else path.parent
    names = [str(name) for name in paths.tolist()]
    return ImageFiles(
        str(path),
        "image manifest",
        _in_store(path, root, names) if is_remote(root) else [root / name for name in names],
        ids=ids,
        labels=labels,
        warnings=() if is_remote(root) else _outside(root, names),
    )


def _in_store(path: Path, root: Any, names: Sequence[str]) -> list[Path]:
    """The images of a list in an object store, with what one listing of the folder they have in common says of them."""
    bad = next((name for name in names if name.startswith("/") or "://" in name or not _is_plain(name)), None)
    if bad is not None:
        raise PareError(
            f"{path}: it names the image {bad!r}; a list in an object store names images by their places below its own "
            f"folder, {root}, such as photos/1.png."
        )
    folder = os.path.commonpath([os.path.dirname(name) for name in names]) if names else ""
    start = f"{folder}/" if folder else ""
    found = {f"{start}{name}": place for name, place in (root / folder).below() if place.is_file()}
    return [found.get(name, root / name) for name in names]


def _is_plain(name: str) -> bool:
    return all(part not in ("", ".", "..") for part in name.split("/"))


def _advice_on_scores(path: Path, present: Sequence[str]) -> str:
    if path.suffix != ".csv" and not set(ID_COLUMNS) & set(present):
        return f"scores need a column {ID_COLUMNS[0]!r} beside them"
    return f"scores are imported with `paredown score --from {quoted(path)}`"


def _outside(root: Path, names: Sequence[str]) -> tuple[str, ...]:
    """What to say of images that a list names outside its own folder: allowed, but nobody should be surprised."""
    inside = os.path.join(os.path.abspath(root), "")
    outside = [
        name
        for name in names
        if (name.startswith("/") or ".." in name) and not os.path.abspath(root / name).startswith(inside)
    ]
    if not outside:
        return ()
    lie = "1 image lies" if len(outside) == 1 else f"{len(outside):,} images lie"
    return (f"{lie} outside the folder of the list, {root}, e.g. {outside[0]}.",)


def pick_column(
    path: Path,
    role: str,
    columns: Mapping[str, str],
    present: Sequence[str],
    usual: Sequence[str],
    *,
    only: Sequence[str] = (),
    required: bool = True,
) -> Any:
    """The column for a role: the one the user named, one with a usual name, or the only candidate."""
    named = columns.get(role)
    if named is not None:
        if named not in present:
            raise PareError(f"{path}: there is no column {named!r}; it has {', '.join(present)}.")
        return named
    candidates = [name for name in usual if name in (only or present)]
    if candidates:
        return candidates[0]
    if len(only) == 1:
        return only[0]
    if not required:
        return None
    raise PareError(
        f"{path}: which column holds the {role}? It has {', '.join(present)}; "
        f"name it with {argument('columns', {role: 'NAME'})}, or rename it to {usual[0]!r}."
    )


def _is_vector(kind: pa.DataType) -> bool:
    is_list = pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind)
    return is_list and (pa.types.is_floating(kind.value_type) or pa.types.is_integer(kind.value_type))


def _first_dim(file: Path, column: str) -> int:
    """The length of the first embedding of a file; 0 where the file has no rows."""
    if column not in _schema(file).names:
        raise PareError(f"{file}: there is no column {column!r}, which the other files have.")
    for values in _column_batches(file, column, 1):
        return len(values[0].as_py() or ())
    return 0


def _rows(file: Path) -> int:
    with reading(file, "Parquet file"):
        return pq.read_metadata(arrow_input(file)).num_rows


def _column_batches(file: Path, column: str, rows: int) -> Iterator[Any]:
    """A list column in blocks of rows, each checked to point at what is there."""
    with reading(file, "Parquet file"), pq.ParquetFile(arrow_input(file), page_checksum_verification=True) as opened:
        check_rows(opened, file)
        if not _is_vector(opened.schema_arrow.field(column).type):
            raise PareError(
                f"{file}: column {column!r} holds {opened.schema_arrow.field(column).type}, not embeddings."
            )
        for batch in opened.iter_batches(batch_size=rows, columns=[column]):
            batch.validate(full=True)
            yield batch.column(0)


def _read_column(file: Path, name: str, read: Callable[..., Any], memory: int | None) -> Any:
    column = read_parquet(file, columns=[name], memory=memory)[name]
    with damaged(file, f"column {name!r}"):
        return read(column, file, name)
