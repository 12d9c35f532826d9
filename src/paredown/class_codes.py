"""The class of every row as a number, block by block: only the names of the classes ever become Python objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from paredown.columns import cluster_column, is_text, plain_text, value_type
from paredown.errors import PareError
from paredown.score_table import Block, ScoreTable
from paredown.scores import Labels, class_order

pc: Any = pyarrow.compute  # its functions are made at import, where type checkers do not see them

_TABLE = 65_536  # whole numbers in a range no wider than this are looked up in a table


class ClassCodes:
    """Class codes of a table's rows: numbered as they come in the first pass, and as `Labels` numbers them after it.

    The classes are labels given apart, or else the table's `label` column, or else its `cluster` column.
    """

    def __init__(self, table: ScoreTable, labels: Labels | None = None) -> None:
        self.grouped_by = "label" if labels is not None else table.grouped_by
        self.column = table.grouped_by if labels is None else None  # that has to be read
        self.names: tuple[str, ...] = ("",)
        self.number = 1
        self.labels = labels
        self._settled, self._path = False, table.path
        if labels is not None:
            self.names, self.number = labels.classes, len(labels.classes)
        elif self.column is not None:
            kind = table.schema.field(self.column).type
            self._keeps_empty = self.column == "label" and pa.types.is_dictionary(kind)  # names classes without rows
            self.number = 0
            self._known: pa.Array | None = None  # classes in the order of their codes
            self._dictionary: pa.Array | None = None  # the one `_of_dictionary` was made for
            self._of_dictionary: NDArray[np.intp] = np.empty(0, np.intp)
            self._base, self._of_number = 0, np.empty(0, np.intp)  # code of each whole number from `_base` on, or -1
            self._plain = False  # whether these are 0, 1, 2, ...

    def __call__(self, block: Block) -> NDArray[np.intp]:
        """The class code of every row."""
        if self.labels is not None:
            return self.labels.codes[block.first : block.first + len(block)]
        if self.column is None:
            return np.zeros(len(block), np.intp)
        column = block.columns.column(self.column)
        if column.null_count:
            rows = np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))
            raise PareError(f"{block.where(rows)}: the {self.column} is missing; label such rows or drop them.")
        if self.column == "cluster":
            numbers = cluster_column(column, block.file, first=block.first_in_file)
            codes, column = self._looked_up(block, numbers), pa.array(numbers)
        elif pa.types.is_floating(value_type(column.type)):
            column, codes = self._whole(block, column), None
        else:
            whole = pa.types.is_integer(column.type)
            codes = self._looked_up(block, column.to_numpy(zero_copy_only=False)) if whole else None
        return self._encoded(block, column) if codes is None else codes

    def _looked_up(self, block: Block, numbers: NDArray[np.integer]) -> NDArray[np.intp] | None:
        """Codes of whole numbers in a narrow range, without hashing them."""
        low, high = int(numbers.min()), int(numbers.max())
        if len(self._of_number):
            low, high = min(low, self._base), max(high, self._base + len(self._of_number) - 1)
        if high - low >= _TABLE or high >= 2**63:
            return None
        if low < self._base or high - low >= len(self._of_number):
            self._tabulate(low, high)
        offsets = numbers.astype(np.intp)
        offsets -= self._base
        if self._plain:
            return offsets
        codes = self._of_number[offsets]
        if len(codes) and codes.min() < 0:
            self._learn(pa.array(np.unique(numbers[codes < 0])), block.file)
            self._tabulate(low, high)
            codes = self._of_number[offsets]
        return codes

    def _tabulate(self, low: int, high: int) -> None:
        self._base, self._of_number = low, np.full(high - low + 1, -1, np.intp)
        if self._known is not None:
            known = self._known.to_numpy()
            inside = np.flatnonzero((known >= low) & (known <= high))
            self._of_number[known[inside].astype(np.intp) - low] = inside
        self._plain = np.array_equal(self._of_number, np.arange(len(self._of_number)))

    def _encoded(self, block: Block, column: pa.Array) -> NDArray[np.intp]:
        encoded = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
        if self._dictionary is None or not encoded.dictionary.equals(self._dictionary):
            self._of_dictionary = self._learn(encoded.dictionary, block.file)
            self._dictionary = encoded.dictionary
        return self._of_dictionary[encoded.indices.to_numpy(zero_copy_only=False)]

    def _whole(self, block: Block, column: pa.Array) -> pa.Array:
        """Floating-point classes as the whole numbers they are, refused as `Labels` refuses them."""
        plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        values = plain.to_numpy(zero_copy_only=False)
        try:
            Labels.of(values)
        except PareError as error:
            raise PareError(f"{block.file}, from row {block.first_in_file} on: {error}") from error
        return pa.array(values.astype(np.int64))

    def _learn(self, values: pa.Array, file: Path) -> NDArray[np.intp]:
        """The codes of some classes, the new ones being added to those known."""
        if is_text(values.type):
            values = plain_text(values, file)
        elif pa.types.is_integer(values.type) and not pa.types.is_uint64(values.type):
            values = values.cast(pa.int64())
        known = values.slice(0, 0) if self._known is None else self._known
        new = values.filter(pc.is_null(pc.index_in(values, value_set=known))).unique()
        if len(new) and self._settled:
            raise PareError(f"{file}: it changed while it was read; run again when it is complete.")
        self._known = known = pa.concat_arrays([known, new])
        self.number = len(known)
        return pc.index_in(values, value_set=known).to_numpy(zero_copy_only=False).astype(np.intp)

    def join(self, other: ClassCodes) -> NDArray[np.intp]:
        """The codes here of the classes that are known there, the new ones being added to those known."""
        if self.column is None:
            return np.arange(self.number)
        return np.empty(0, np.intp) if other._known is None else self._learn(other._known, self._path)

    def in_manifest(self, table: ScoreTable) -> ClassCodes:
        """The same numbers for the same rows in a manifest of them, where labels are text."""
        codes = ClassCodes(table)
        codes.names, codes.number, codes._settled = self.names, self.number, True
        if codes.column is not None:
            codes._known = pa.array(self.names) if codes.column == "label" else pa.array(list(map(int, self.names)))
        return codes

    def settle(self, counts: NDArray[np.int64]) -> NDArray[np.intp]:
        """Number the classes as `Labels` does, given how often each occurs; returns the old codes in the new order."""
        if self.column is None:
            return np.arange(self.number)
        self._settled = True
        assert self._known is not None
        chosen = np.arange(len(counts)) if self._keeps_empty else np.flatnonzero(counts)
        names = [str(name) for name in self._known.take(pa.array(chosen)).to_pylist()]
        order = class_order(names)
        chosen = chosen[order]
        self.names, self.number = tuple(names[place] for place in order), len(chosen)
        self._known, self._dictionary = self._known.take(pa.array(chosen)), None
        self._base, self._of_number = 0, np.empty(0, np.intp)
        return chosen
