"""Tables of scores on disk, read block by block and column by column, with class codes but no object per row."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.parquet as pq
from numpy.typing import NDArray

from paredown.columns import check_class_type, check_id_type, is_text, plain_text, value_type
from paredown.errors import PareError
from paredown.ids import id_array, join_ids, name_rows
from paredown.reading import check_chunks, damaged, reading
from paredown.score_files import pick_score_column, provenance_of, score_files
from paredown.scores import Labels, class_order

__all__ = ["Block", "ClassCodes", "ScoreTable", "open_table"]

pc: Any = pyarrow.compute  # its functions are made at import, where type checkers do not see them

_BUFFER_BYTES = 2**20  # of a column chunk read at once, so that one giant row group does not fill the memory
_RUN_ROWS = 2**20  # rows of the row groups given to one reader
_LOOKED_INTO = 16  # row groups looked into for the range of the scores
_DENSE_CLASSES = 65_536  # whole-number labels in a range no wider than this are their own codes


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


@dataclass(frozen=True)
class ScoreTable:
    """Scores in one or several Parquet files that are never in memory as a whole."""

    path: Path
    files: tuple[Path, ...]
    rows: tuple[int, ...]  # of each file
    column: str  # that holds the scores
    metric: str
    schema: pa.Schema
    dtype: np.dtype[Any]  # of the scores, whole numbers being read as float64
    provenance: dict[str, Any] = field(default_factory=dict)

    def __len__(self) -> int:
        return sum(self.rows)

    @cached_property
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

    def blocks(self, columns: Sequence[str], rows: int) -> Iterator[Block]:
        """The table in row order, at most `rows` at a time, with these columns only."""
        first = 0
        for file, length in zip(self.files, self.rows, strict=True):
            first_in_file = 0
            for batch in self._batches(file, columns, rows):
                yield Block(file, first_in_file, first + first_in_file, batch)
                first_in_file += batch.num_rows
            if first_in_file != length:
                raise PareError(f"{file}: it changed while it was read; run again when it is complete.")
            first += length

    def _batches(
        self, file: Path, columns: Sequence[str], rows: int, row_groups: list[int] | None = None
    ) -> Iterator[pa.RecordBatch]:
        text = [name for name in ("label",) if name in columns and is_text(self.schema.field(name).type)]
        with (
            reading(file, "Parquet file"),
            pq.ParquetFile(
                file, read_dictionary=text, buffer_size=_BUFFER_BYTES, page_checksum_verification=True
            ) as opened,
        ):
            for some in _runs(opened.metadata, row_groups):
                for batch in opened.iter_batches(rows, some, columns=list(columns), use_threads=False):
                    batch.validate(full=True)
                    yield batch

    def scores(self, block: Block) -> NDArray[np.floating]:
        """The block's scores as floating-point numbers; a missing one is NaN."""
        column = block.columns.column(self.column)
        return column.to_numpy(zero_copy_only=False).astype(self.dtype, copy=False)

    def ids(self, block: Block, rows: NDArray[np.int64] | None = None) -> NDArray[Any]:
        """The ids of all rows of a block, or of some."""
        column = block.columns.column("id")
        self._check_ids(block, column)
        some = column if rows is None else column.take(pa.array(rows))
        return id_array(self._plain_ids(block, some).to_numpy(zero_copy_only=False))

    def id_column(self, block: Block) -> pa.Array:
        """The block's ids as a manifest holds them: 64-bit whole numbers, or text."""
        column = block.columns.column("id")
        self._check_ids(block, column)
        return self._plain_ids(block, column).cast(self.id_type)

    def _plain_ids(self, block: Block, column: pa.Array) -> pa.Array:
        if self.text_ids:
            return plain_text(column, block.file, first=block.first_in_file)
        return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column

    def _check_ids(self, block: Block, column: pa.Array) -> None:
        if not self.text_ids and not column.null_count:
            return
        missing = column.is_null()
        if self.text_ids:
            missing = pc.or_(missing, pc.equal(pc.fill_null(self._plain_ids(block, column), ""), ""))
        if missing.true_count:
            rows = np.flatnonzero(missing.to_numpy(zero_copy_only=False))
            raise PareError(f"{block.where(rows)}: the id is missing; every example needs an id.")

    def ids_at(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The ids of a few rows in ascending order; only the row groups that hold them are read."""
        parts: list[NDArray[Any]] = []
        first = 0
        for file, length in zip(self.files, self.rows, strict=True):
            here = rows[(rows >= first) & (rows < first + length)] - first
            parts += self._ids_in(file, here, first) if len(here) else []
            first += length
        return join_ids(parts)

    def _ids_in(self, file: Path, rows: NDArray[np.int64], first: int) -> list[NDArray[Any]]:
        ends = np.cumsum(_row_group_sizes(file))
        parts: list[NDArray[Any]] = []
        for group in np.unique(np.searchsorted(ends, rows, side="right")).tolist():
            start = int(ends[group - 1]) if group else 0
            for batch in self._batches(file, ["id"], 65_536, [group]):
                inside = rows[(rows >= start) & (rows < start + batch.num_rows)] - start
                if len(inside):
                    parts.append(self.ids(Block(file, start, first + start, batch), inside))
                start += batch.num_rows
        return parts

    def look(self) -> NDArray[np.floating]:
        """The finite scores at the beginning of some row groups all over the table."""
        groups = [(file, group) for file in self.files for group in range(len(_row_group_sizes(file)))]
        chosen = [
            groups[i] for i in np.unique(np.linspace(0, len(groups) - 1, min(_LOOKED_INTO, len(groups)), dtype=int))
        ]
        seen: list[NDArray[Any]] = []
        for file, group in chosen:
            batch = next(self._batches(file, [self.column], 16_384, [group]), None)
            if batch is not None:
                seen.append(self.scores(Block(file, 0, 0, batch)))
        values = np.concatenate(seen) if seen else np.empty(0, self.dtype)
        return values[np.isfinite(values)]


def open_table(path: str | Path, *, metric: str | None = None) -> ScoreTable:
    """Open a table of scores (a Parquet file, a folder of them, or what `prune` wrote) without reading its rows."""
    files = score_files(path)
    if not files or not files[0].exists():
        raise PareError(f"{path}: there is no Parquet file.")
    schemas: list[pa.Schema] = []
    rows: list[int] = []
    for file in files:
        with reading(file, "Parquet file"), pq.ParquetFile(file) as opened:
            schemas.append(opened.schema_arrow)
            rows.append(opened.metadata.num_rows)
    if sum(rows) == 0:
        raise PareError(f"{path}: the table is empty; it holds no scores.")
    column = pick_score_column(path, schemas[0], metric)
    for file, schema in zip(files, schemas, strict=True):
        _check_alike(file, schema, schemas[0], column)
    dtype = np.result_type(*(_score_dtype(schema.field(column).type) for schema in schemas))
    with damaged(files[0], "table of scores"):
        provenance = provenance_of(schemas[0], column)
    return ScoreTable(
        path=Path(path),
        files=tuple(files),
        rows=tuple(rows),
        column=column,
        metric=provenance.get("metric", column) if column == "score" else column,
        schema=schemas[0],
        dtype=dtype,
        provenance=provenance,
    )


def _check_alike(file: Path, schema: pa.Schema, first: pa.Schema, column: str) -> None:
    pick_score_column(file, schema, column)
    for name in ("label", "cluster"):
        if (name in schema.names) != (name in first.names):
            has = "has" if name in schema.names else "lacks"
            raise PareError(f"{file}: it {has} a column {name!r} and the first file does not agree; give all the same.")
    check_id_type(schema.field("id").type, file)
    for name in ("label", "cluster"):
        if name in schema.names:
            check_class_type(schema.field(name).type, file, name)
    for name in ("id", "label"):
        if name not in schema.names:
            continue
        kind, expected = (value_type(each.field(name).type) for each in (schema, first))
        unsigned = pa.types.is_uint64(kind) != pa.types.is_uint64(expected)
        if is_text(kind) != is_text(expected) or (name == "id" and unsigned):
            raise PareError(f"{file}: column {name!r} holds {kind}, in the first file {expected}; give all the same.")


def _runs(metadata: Any, row_groups: list[int] | None) -> Iterator[list[int]]:
    """Row groups a few at a time: an Arrow reader keeps a buffer for each it was given until it has read them all."""
    some: list[int] = []
    waiting = 0
    for group in range(metadata.num_row_groups) if row_groups is None else row_groups:
        some.append(group)
        waiting += metadata.row_group(group).num_rows
        if waiting >= _RUN_ROWS:
            yield some
            some, waiting = [], 0
    if some:
        yield some


def _row_group_sizes(file: Path) -> list[int]:
    with reading(file, "Parquet file"):
        metadata = pq.read_metadata(file)
    return [metadata.row_group(group).num_rows for group in range(metadata.num_row_groups)]


def _score_dtype(kind: pa.DataType) -> np.dtype[Any]:
    return np.dtype(f"f{kind.bit_width // 8}") if pa.types.is_floating(kind) else np.dtype(np.float64)


# --- class codes ---------------------------------------------------------------------------------------------------


class ClassCodes:
    """Class codes of a table, block by block: numbered as they come in the first pass, as `Labels` numbers them after.

    Text is read as Parquet's own dictionary codes, whole numbers in a narrow range are their own codes, and anything
    else is encoded by Arrow; only the names of the classes ever become Python objects.
    """

    def __init__(self, table: ScoreTable) -> None:
        self.column = table.grouped_by
        self.number = 1  # of classes seen so far
        self.names: tuple[str, ...] = ("",)  # once settled
        self._settled = False
        if self.column is None:
            return
        kind = table.schema.field(self.column).type
        self._keeps_empty = pa.types.is_dictionary(kind)  # a dictionary names classes that need not occur
        self._base, width = _whole_range(table, self.column)
        self._dense = width is not None
        self.number = width or 0
        self._place: NDArray[np.intp] | None = None  # dense: code -> place among the settled; None where the same
        self._known: pa.Array | None = None
        self._dictionary: pa.Array | None = None  # the one `_lookup` was made for
        self._lookup: NDArray[np.intp] = np.empty(0, np.intp)

    def __call__(self, block: Block) -> NDArray[np.intp]:
        """The class code of every row."""
        if self.column is None:
            return np.zeros(len(block), np.intp)
        column = block.columns.column(self.column)
        if column.null_count:
            rows = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
            raise PareError(f"{block.where(rows)}: the {self.column} is missing; label such rows or drop them.")
        return self._dense_codes(block, column) if self._dense else self._encoded(block, column)

    def _dense_codes(self, block: Block, column: pa.Array) -> NDArray[np.intp]:
        codes = column.to_numpy(zero_copy_only=False).astype(np.intp)
        if self._base:
            codes -= self._base
        width = self.number if self._place is None else len(self._place)
        if len(codes) and not (codes.min() >= 0 and codes.max() < width):
            raise PareError(f"{block.file}: its statistics do not match its column {self.column!r}; write it again.")
        return codes if self._place is None else self._place[codes]

    def _encoded(self, block: Block, column: pa.Array) -> NDArray[np.intp]:
        if pa.types.is_floating(value_type(column.type)):
            column = self._whole(block, column)
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        if self._dictionary is None or not encoded.dictionary.equals(self._dictionary):
            self._lookup = self._learn(encoded.dictionary, block)
            self._dictionary = encoded.dictionary
        return self._lookup[encoded.indices.to_numpy(zero_copy_only=False)]

    def _whole(self, block: Block, column: pa.Array) -> pa.Array:
        """Floating-point classes as the whole numbers they are, refused as `Labels` refuses them."""
        plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        values = plain.to_numpy(zero_copy_only=False)
        try:
            Labels.of(values)
        except PareError as error:
            raise PareError(f"{block.file}, from row {block.first_in_file} on: {error}") from error
        return pa.array(values.astype(np.int64))

    def _learn(self, dictionary: pa.Array, block: Block) -> NDArray[np.intp]:
        """Where each value of a dictionary stands among the known ones, the new ones being added to them."""
        if is_text(dictionary.type):
            dictionary = plain_text(dictionary, block.file)
        known = dictionary.slice(0, 0) if self._known is None else self._known
        new = dictionary.filter(pc.is_null(pc.index_in(dictionary, value_set=known))).unique()
        if len(new) and self._settled:
            raise PareError(f"{block.file}: it changed while it was read; run again when it is complete.")
        self._known = known = pa.concat_arrays([known, new])
        self.number = len(known)
        return pc.index_in(dictionary, value_set=known).to_numpy(zero_copy_only=False).astype(np.intp)

    def settle(self, counts: NDArray[np.int64]) -> NDArray[np.intp]:
        """Number the classes as `Labels` does, given how often each occurs; returns the old codes in the new order."""
        self._settled = True
        if self.column is None:
            return np.zeros(1, np.intp)
        if self._dense:
            chosen = np.flatnonzero(counts)
            if len(chosen) < self.number:
                self._place = np.full(self.number, -1, np.intp)
                self._place[chosen] = np.arange(len(chosen))
            self.names = tuple(str(code + self._base) for code in chosen.tolist())
            self.number = len(chosen)
            return chosen
        assert self._known is not None
        chosen = np.arange(len(counts)) if self._keeps_empty else np.flatnonzero(counts)
        names = [str(name) for name in self._known.take(pa.array(chosen)).to_pylist()]
        order = class_order(names)
        chosen = chosen[order]
        self.names = tuple(names[place] for place in order)
        self.number = len(chosen)
        self._known, self._dictionary = self._known.take(pa.array(chosen)), None
        return chosen


def _whole_range(table: ScoreTable, column: str) -> tuple[int, int | None]:
    """The lowest whole number of a column and the width of its range, from Parquet statistics; no width if unknown."""
    if not pa.types.is_integer(table.schema.field(column).type):
        return 0, None
    low, high = [], []
    for file in table.files:
        with reading(file, "Parquet file"), pq.ParquetFile(file) as opened:
            check_chunks(opened, column)
            metadata = opened.metadata
        place = metadata.schema.names.index(column)
        for group in range(metadata.num_row_groups):
            statistics = metadata.row_group(group).column(place).statistics
            if statistics is None or not statistics.has_min_max:
                return 0, None
            low.append(int(statistics.min))
            high.append(int(statistics.max))
    width = max(high, default=0) - min(low, default=0) + 1
    if width < 1:
        raise PareError(f"{table.path}: its statistics do not match its column {column!r}; write it again.")
    return (min(low, default=0), width) if width <= _DENSE_CLASSES else (0, None)
