"""A table of scores on disk, read block by block and column by column, with no object per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from numpy.typing import NDArray

from paredown.columns import check_class_type, check_id_type, is_text, plain_text, value_type
from paredown.display import Introduced
from paredown.errors import PareError
from paredown.ids import hash_ids, id_array, join_ids, name_rows
from paredown.places import arrow_input, as_place, is_remote
from paredown.reading import check_rows, damaged, reading
from paredown.score_files import keep_column, pick_score_column, provenance_of, score_files, scores_in
from paredown.scores import Scores

pc: Any = pyarrow.compute  # its functions are made at import, where type checkers do not see them

_BUFFER_BYTES = 2**20  # of a column chunk read at once, so that one giant row group does not fill the memory
_REQUEST_BYTES = 2**23  # the same of an object store, where each is a request
_RUN_ROWS = 2**20  # rows given to one reader: Arrow keeps a buffer for each row group until it has read them all
_SAMPLED_GROUPS, _SAMPLED_ROWS = 16, 16_384
_SAMPLE_BLOCK = 131_072  # rows out of which those of a sample are taken at once
# Of a table read and selected from in memory, measured at its peak: arrays, orders and hashes, and objects for text.
_ROW_BYTES, _TEXT_ROW_BYTES = 170, 400


def bytes_in_memory(rows: int, *, text_ids: bool) -> int:
    """About what reading so many scores and selecting from them in memory takes at its peak."""
    return rows * (_TEXT_ROW_BYTES if text_ids else _ROW_BYTES)


class RowGroup(NamedTuple):
    """A row group of a file: its number there, and its first row in the file and over all files."""

    file: Path
    number: int
    first_in_file: int
    first: int
    rows: int


class Block(NamedTuple):
    """Some consecutive rows of a table."""

    file: Path
    first_in_file: int
    first: int  # row number over all files
    columns: pa.RecordBatch

    def __len__(self) -> int:
        return self.columns.num_rows

    def where(self, rows: NDArray[Any]) -> str:
        """The file and the rows in it, for a message."""
        return f"{self.file}: {name_rows(rows + self.first_in_file)}"


@dataclass(frozen=True, repr=False)
class ScoreTable(Introduced):
    """Scores in one or several Parquet files that are never in memory as a whole."""

    path: Path
    groups: tuple[RowGroup, ...]
    column: str  # that holds the scores
    metric: str
    schema: pa.Schema
    dtype: np.dtype[Any]  # of the scores, whole numbers being read as float64
    provenance: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return self.groups[-1].first + self.groups[-1].rows

    def introduce(self) -> dict[str, str]:
        facts = {"path": str(self.path), "metric": self.metric, "examples": f"{len(self):,}"}
        return facts | ({} if self.grouped_by is None else {"grouped by": self.grouped_by})

    @property
    def grouped_by(self) -> str | None:
        """The column of classes: `label`, else `cluster`, else none."""
        return next((name for name in ("label", "cluster") if name in self.schema.names), None)

    @cached_property
    def text_ids(self) -> bool:
        """Whether ids are text rather than whole numbers."""
        return is_text(self.schema.field("id").type)

    @cached_property
    def id_type(self) -> pa.DataType:
        """The type of ids in a manifest."""
        unsigned = pa.types.is_uint64(value_type(self.schema.field("id").type))
        return pa.string() if self.text_ids else pa.uint64() if unsigned else pa.int64()

    @property
    def in_memory_bytes(self) -> int:
        """About what reading the table and selecting from it in memory takes at its peak."""
        return bytes_in_memory(len(self), text_ids=self.text_ids)

    def blocks(self, columns: Sequence[str], rows: int) -> Iterator[Block]:
        """The table in row order, at most `rows` at a time, with these columns only."""
        return self._read(self.groups, columns, rows)

    def _read(self, groups: Sequence[RowGroup], columns: Sequence[str], rows: int) -> Iterator[Block]:
        text = [name for name in ("label",) if name in columns and is_text(self.schema.field(name).type)]
        options: dict[str, Any] = {"read_dictionary": text, "buffer_size": _BUFFER_BYTES}
        if is_remote(self.path):
            options["buffer_size"] = _REQUEST_BYTES
        for file, of_file in groupby(groups, key=lambda group: group.file):
            with (
                reading(file, "Parquet file"),
                pq.ParquetFile(arrow_input(file), page_checksum_verification=True, **options) as opened,
            ):
                sizes = [opened.metadata.row_group(number).num_rows for number in range(opened.num_row_groups)]
                for run in _runs(of_file):
                    numbers, end = [group.number for group in run], run[-1].first + run[-1].rows
                    in_file, first = run[0].first_in_file, run[0].first
                    if max(numbers) >= len(sizes) or [sizes[number] for number in numbers] != [g.rows for g in run]:
                        raise _changed(file)
                    for batch in opened.iter_batches(rows, numbers, columns=list(columns), use_threads=False):
                        batch.validate(full=True)
                        yield Block(file, in_file, first, batch)
                        in_file, first = in_file + batch.num_rows, first + batch.num_rows
                    if first != end:
                        raise _changed(file)

    def scores(self, block: Block) -> NDArray[np.floating]:
        """The block's scores as floating-point numbers; a missing one is NaN."""
        column = block.columns.column(self.column)
        return column.to_numpy(zero_copy_only=False).astype(self.dtype, copy=False)

    def ids(self, block: Block, rows: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """The ids of all rows of a block, or of some."""
        column = self.id_column(block)
        some = column if rows is None else column.take(pa.array(rows))
        return id_array(some.to_numpy(zero_copy_only=False))

    def id_column(self, block: Block) -> pa.Array:
        """The block's ids as a manifest holds them, 64-bit whole numbers or text; checked to be there."""
        column = block.columns.column("id")
        if self.text_ids:
            column = plain_text(column, block.file, first=block.first_in_file)
            missing = pc.equal(pc.fill_null(column, ""), "")
        else:
            missing = pc.is_null(column)  # also where a dictionary names a null
            column = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        if missing.true_count:
            rows = np.flatnonzero(missing.to_numpy(zero_copy_only=False))
            raise PareError(f"{block.where(rows)}: the id is missing; every example needs an id.")
        return column.cast(self.id_type)

    def ids_at(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The ids of a few rows in ascending order; only the row groups that hold them are read."""
        parts: list[NDArray[Any]] = []
        starts = np.array([group.first for group in self.groups])
        for place in np.unique(np.searchsorted(starts, rows, side="right") - 1).tolist():
            for block in self._read([self.groups[place]], ["id"], 65_536):
                first, end = np.searchsorted(rows, [block.first, block.first + len(block)])
                if first < end:
                    parts.append(self.ids(block, rows[first:end] - block.first))
        return join_ids(parts)

    def sample(self) -> NDArray[np.floating]:
        """The finite scores at the beginning of some row groups all over the table, or a zero if there are none."""
        groups = [group for group in self.groups if group.rows]
        chosen = np.unique(np.linspace(0, len(groups) - 1, min(_SAMPLED_GROUPS, len(groups)), dtype=int))
        blocks = [next(self._read([groups[place]], [self.column], _SAMPLED_ROWS)) for place in chosen.tolist()]
        values = np.concatenate([self.scores(block) for block in blocks])
        finite = values[np.isfinite(values)]
        return finite if len(finite) else np.zeros(1, values.dtype)


def _changed(file: Path) -> PareError:
    return PareError(f"{file}: it changed while it was read; run again when it is complete.")


def _runs(groups: Iterator[RowGroup]) -> Iterator[list[RowGroup]]:
    """Row groups a few at a time."""
    run: list[RowGroup] = []
    rows = 0
    for group in groups:
        run.append(group)
        rows += group.rows
        if rows >= _RUN_ROWS:
            yield run
            run, rows = [], 0
    if run:
        yield run


def open_table(path: str | Path, *, metric: str | None = None) -> ScoreTable:
    """Open a table of scores (a Parquet file, a folder of them, or what `prune` wrote) without reading its rows.

    With several columns of scores, `metric` says which.
    """
    files = score_files(path)
    if not files or not files[0].exists():
        raise PareError(f"{path}: there is no Parquet file.")
    schemas: list[pa.Schema] = []
    groups: list[RowGroup] = []
    first = 0
    for file in files:
        with reading(file, "Parquet file"), pq.ParquetFile(arrow_input(file)) as opened:
            check_rows(opened, file)
            schemas.append(opened.schema_arrow)
            in_file = 0
            for number in range(opened.metadata.num_row_groups):
                rows = opened.metadata.row_group(number).num_rows
                groups.append(RowGroup(file, number, in_file, first + in_file, rows))
                in_file += rows
            first += in_file
    if first == 0:
        raise PareError(f"{path}: the table is empty; it holds no scores.")
    column = pick_score_column(path, schemas[0], metric)
    for file, schema in zip(files, schemas, strict=True):
        _check_alike(file, schema, schemas[0], column)
    dtype = np.result_type(*(_score_dtype(schema.field(column).type) for schema in schemas))
    with damaged(files[0], "table of scores"):
        provenance = provenance_of(schemas[0], column)
    metric = provenance.get("metric", column) if column == "score" else column
    return ScoreTable(as_place(path), tuple(groups), column, str(metric), schemas[0], dtype, provenance)


def read_sample(
    path: str | Path, *, most: int, metric: str | None = None, seed: int = 0
) -> tuple[Scores, NDArray[np.bool_] | None]:
    """Scores of about `most` rows of a table of any size, drawn by the hash of their ids, and which of them are kept.

    None for what is kept where the table is no manifest.
    """
    opened = open_table(path, metric=metric)
    names = [name for name in ("id", "keep", opened.column, "label", "cluster") if name in opened.schema.names]
    limit = most * 2**64 // len(opened)  # of the hash
    parts: list[pa.Table] = []
    for block in opened.blocks(names, _SAMPLE_BLOCK):
        chosen = hash_ids(opened.ids(block), seed=seed) <= np.uint64(min(limit, 2**64 - 1))
        if "keep" in names:
            keep_column(block.columns.column("keep"), block.file)
        parts.append(pa.table(block.columns).filter(pa.array(chosen)))
    with damaged(path, "table of scores"):
        table = pa.concat_tables(parts, promote_options="permissive").unify_dictionaries()
    scores = scores_in(table.replace_schema_metadata(opened.schema.metadata), opened.column, path)
    return scores, table["keep"].to_numpy() if "keep" in names else None


def _check_alike(file: Path, schema: pa.Schema, first: pa.Schema, column: str) -> None:
    pick_score_column(file, schema, column)
    check_id_type(schema.field("id").type, file)
    for name in ("label", "cluster"):
        if (name in schema.names) != (name in first.names):
            has = "has" if name in schema.names else "lacks"
            raise PareError(f"{file}: it {has} a column {name!r} and the first file does not agree; give all the same.")
        if name in schema.names:
            check_class_type(schema.field(name).type, file, name)
    for name in {"id", "label"} & set(schema.names):
        kind, expected = (value_type(each.field(name).type) for each in (schema, first))
        unsigned = pa.types.is_uint64(kind) != pa.types.is_uint64(expected)
        if is_text(kind) != is_text(expected) or (name == "id" and unsigned):
            raise PareError(f"{file}: column {name!r} holds {kind}, in the first file {expected}; give all the same.")


def _score_dtype(kind: pa.DataType) -> np.dtype[Any]:
    return np.dtype(f"f{kind.bit_width // 8}") if pa.types.is_floating(kind) else np.dtype(np.float64)
