"""Texts that stand beside the embeddings of a source, for people to look at."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from paredown.errors import PareError, argument
from paredown.places import arrow_input
from paredown.reading import reading
from paredown.sources.base import Source

# Names tried in turn when the user names no column.
TEXT_COLUMNS = ("text", "content", "sentence", "prompt", "document", "caption", "question")


def read_texts(source: Source, rows: NDArray[np.int64], *, column: str | None = None) -> list[str] | None:
    """The texts of some rows of a table or Hugging Face dataset; None if it has no column that looks like texts.

    Args:
        source: the data.
        rows: in any order.
        column: that holds the texts; looked for by its usual names if not given.
    """
    source, rows = source.underlying(rows)
    names = _text_columns(source)
    if column is not None and column not in names:
        held = ", ".join(names) if names else "none"
        raise PareError(
            f"{source.location}: there is no column of texts named {column!r}; its columns of texts: {held}. Choose "
            f"one with {argument('texts', ...)}."
        )
    column = next((name for name in TEXT_COLUMNS if name in names), None) if column is None else column
    if column is None:
        return None
    dataset = getattr(source, "dataset", None)
    if dataset is not None:
        found = dataset.select_columns([column]).with_format(None).select(rows.tolist())[:][column]
        return ["" if text is None else str(text) for text in found]
    return _read_column(source, column, rows)


def _text_columns(source: Source) -> list[str]:
    dataset = getattr(source, "dataset", None)
    if dataset is not None:
        return [name for name, kind in dataset.features.items() if getattr(kind, "dtype", "") in _TEXT]
    file = next((file for file in source.disk_files() if file.suffix == ".parquet"), None)
    if file is None or source.kind != "parquet":
        return []
    with reading(file, "Parquet file"):
        return [field.name for field in pq.read_schema(arrow_input(file)) if str(field.type) in _TEXT]


_TEXT = ("string", "large_string", "string_view")


def _read_column(source: Source, column: str, rows: NDArray[np.int64]) -> list[str]:
    """The wanted rows of a column, a batch of it in memory at a time."""
    order = np.argsort(rows)
    ascending, found, first = rows[order], [""] * len(rows), 0
    for file in source.disk_files():
        with reading(file, "Parquet file"), pq.ParquetFile(arrow_input(file)) as opened:
            for batch in opened.iter_batches(columns=[column]):
                here = range(*np.searchsorted(ascending, [first, first + batch.num_rows]).tolist())
                taken = batch.column(0).take(pa.array(ascending[here.start : here.stop] - first))
                for place, text in zip(here, taken.to_pylist(), strict=True):
                    found[order[place]] = text or ""
                first += batch.num_rows
    return found
