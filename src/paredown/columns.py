"""Columns of ids, classes and clusters as Arrow holds them: what is read is what was written, or it is refused.

Arrow turns whole numbers with a gap into floating-point numbers, numbers of a CSV file into whole ones (`007` into 7)
and anything into something on its way to numpy. Every reader of tables therefore comes through here.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute
from numpy.typing import NDArray

from paredown.errors import PareError, located
from paredown.ids import id_array, name_rows
from paredown.scores import Labels, check_clusters

pc: Any = pyarrow.compute  # its functions are made at import, where type checkers do not see them

# How a gap among numbers is written in a text file. In a column of text these are values like any other.
_GAPS = ("", "NA", "N/A", "NaN", "nan", "NULL", "null", "None", "none", "?", "-")


def value_type(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values, also where it is a dictionary."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def is_text(kind: pa.DataType) -> bool:
    """Whether a column holds text, or bytes that are read as text."""
    kind = value_type(kind)
    tests = (
        pa.types.is_string,
        pa.types.is_large_string,
        pa.types.is_string_view,
        pa.types.is_binary,
        pa.types.is_large_binary,
        pa.types.is_binary_view,
        pa.types.is_fixed_size_binary,
    )
    return any(test(kind) for test in tests)


def is_whole(kind: pa.DataType) -> bool:
    """Whether a column holds whole numbers."""
    return pa.types.is_integer(value_type(kind))


def check_id_type(kind: pa.DataType, where: Any, name: str = "id") -> None:
    """Raise unless a column of this type can be ids."""
    if not (is_text(kind) or is_whole(kind)):
        raise PareError(
            f"{where}: column {name!r} holds {kind}, and ids must be whole numbers or text; convert them to text."
        )


def check_class_type(kind: pa.DataType, where: Any, name: str = "label") -> None:
    """Raise unless a column of this type can be classes."""
    value = value_type(kind)
    if not (is_text(value) or is_whole(value) or pa.types.is_boolean(value) or pa.types.is_floating(value)):
        raise PareError(
            f"{where}: column {name!r} holds {kind}, and classes must be whole numbers or text; convert them to text."
        )


def plain_text(column: Any, where: Any, *, first: int = 0) -> Any:
    """A column of text or bytes as text, dictionaries decoded; bytes that are not UTF-8 are refused with their row."""
    column = _decoded(column)
    if pa.types.is_string(column.type):
        return column
    if pa.types.is_fixed_size_binary(column.type):
        column = column.cast(pa.binary())
    try:
        return column.cast(pa.string())
    except pa.ArrowInvalid:
        row = next(row for row, value in enumerate(column) if value.is_valid and not _is_utf8(value))
        raise PareError(
            f"{where}: row {row + first} holds {column[row].as_py()!r}, which is not text in UTF-8; write it as text."
        ) from None


def id_column(column: Any, where: Any, name: str = "id") -> NDArray[Any]:
    """Ids from a column, as `id_array` gives them."""
    check_id_type(column.type, where, name)
    _check_present(column, where, name, "ids", "every example needs an id")
    plain = _decoded(column) if is_whole(column.type) else plain_text(column, where)
    with located(where):
        return id_array(plain.to_numpy())


def label_column(column: pa.ChunkedArray, where: Any, name: str = "label", *, with_unused: bool = False) -> Labels:
    """Labels from a column; classes that only its dictionary names are left out, or kept without examples."""
    check_class_type(column.type, where, name)
    _check_present(column, where, name, "labels", "label such rows or drop them")
    if not is_text(column.type):
        with located(where):
            return Labels.of(_decoded(column).to_numpy())
    if not (with_unused and pa.types.is_dictionary(column.type)):
        column = plain_text(column, where).dictionary_encode()
    merged = column.unify_dictionaries().combine_chunks()
    names = plain_text(merged.dictionary, where)
    if names.null_count or len(names.unique()) < len(names):  # a careless dictionary: unused gaps, values named twice
        merged = plain_text(merged, where).dictionary_encode()
        names = merged.dictionary
    return Labels.numbered(merged.indices.to_numpy(), names.to_pylist())


def cluster_column(column: Any, where: Any, *, first: int = 0) -> NDArray[np.int64]:
    """Cluster numbers from a column: whole numbers of 32 bits, none missing."""
    missing = np.flatnonzero(_is_null(column))
    if len(missing):
        raise PareError(
            f"{where}: the cluster is missing at {name_rows(missing + first)}; give every row one, or drop the column."
        )
    if not (is_whole(column.type) or pa.types.is_floating(value_type(column.type))):
        raise PareError(f"{where}: column 'cluster' holds {column.type}, and clusters must be whole numbers.")
    try:
        numbers = _decoded(column).cast(pa.int64()).to_numpy(zero_copy_only=False)
        check_clusters(numbers)
    except (pa.ArrowException, PareError) as error:
        raise PareError(f"{where}: column 'cluster' must hold whole numbers of 32 bits ({error}).") from error
    return numbers


def as_written(texts: Sequence[str] | pa.ChunkedArray, where: Any, name: str) -> NDArray[Any]:
    """Ids or labels from a text file: whole numbers if all of them are written plainly as such, otherwise text.

    Plainly means that the number, written out again, gives the same text: `7` and `-7`, but not `007`, `+7` or `7.0`.
    Among numbers, an empty cell or one such as `NA` is a gap, which is refused with its row.
    """
    column: Any = texts if isinstance(texts, pa.ChunkedArray) else pa.chunked_array([pa.array(texts, pa.string())])
    number = pc.match_substring_regex(column, r"^(0|-?[1-9][0-9]*)$")
    numbers = pc.sum(number).as_py() or 0
    if numbers < len(column):
        gaps = pc.is_in(column, value_set=pa.array(_GAPS))
        only_gaps = numbers > 0 and numbers + pc.sum(gaps).as_py() == len(column)
        missing = gaps if only_gaps else pc.equal(column, "")
        if pc.any(missing).as_py():
            rows = np.flatnonzero(missing.to_numpy())
            raise PareError(
                f"{where}: column {name!r} is empty or {column[int(rows[0])].as_py()!r} at {name_rows(rows)}; "
                "fill such rows in or drop them."
            )
    elif len(column):
        for kind in (pa.int64(), pa.uint64()):
            try:
                return column.cast(kind).to_numpy()
            except pa.ArrowInvalid:
                continue  # numbers beyond 64 bits stay text
    return np.array(column.to_pylist(), np.dtypes.StringDType())


def _decoded(column: Any) -> Any:
    return column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column


def _is_null(column: Any) -> NDArray[np.bool_]:
    nulls = pc.is_null(column)  # also where a dictionary names a null
    return nulls.to_numpy(zero_copy_only=False) if isinstance(nulls, pa.Array) else nulls.to_numpy()


def _check_present(column: Any, where: Any, name: str, what: str, remedy: str) -> None:
    missing = np.flatnonzero(_is_null(column)) if column.null_count or pa.types.is_dictionary(column.type) else ()
    if len(missing):
        raise PareError(f"{where}: {what} are missing at {name_rows(missing)} of column {name!r}; {remedy}.")


def _is_utf8(value: Any) -> bool:
    try:
        value.as_buffer().to_pybytes().decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
