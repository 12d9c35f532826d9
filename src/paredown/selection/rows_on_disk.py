"""What is kept of a table that is not in memory: passes that apply the cuts of a streamed selection."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from paredown.columns import cluster_column
from paredown.errors import PareError
from paredown.score_files import manifest_schema, read_scores
from paredown.score_table import ScoreTable
from paredown.scores import Scores
from paredown.selection.selection import ClassCounts
from paredown.selection.streamed.cuts import Kept
from paredown.selection.streamed.survey import Survey
from paredown.table_passes import Rows, Scan


class RowsOnDisk:
    """The kept rows of a table: the cuts, and passes that apply them. Small, whatever the number of rows."""

    def __init__(self, survey: Survey, kept: Kept, n_keep: int) -> None:
        self._scan, self._kept = survey.scan, kept  # but not the histogram, which is large
        self._n_keep: int | None = n_keep
        self._counts = survey.rows
        self._class_scores = survey.class_scores()
        self.metric, self.provenance = self._scan.table.metric, self._scan.table.provenance
        label, cluster = self._scan.codes.grouped_by == "label", "cluster" in self._scan.table.schema.names
        self.schema = manifest_schema(self._scan.table.id_type, self._scan.table.dtype, label=label, cluster=cluster)

    def __len__(self) -> int:
        return len(self._scan.table)

    @property
    def path(self) -> Path:
        """Of the table."""
        return self._scan.table.path

    def parts(self) -> list[dict[str, Any]]:
        """The rows in parts, each for one worker."""
        return self._scan.parts()

    def apart(self) -> RowsOnDisk:
        """What a worker needs of this: the rows `of` its part."""
        return self._with(self._scan.apart(), None)

    def of(self, part: dict[str, Any]) -> RowsOnDisk:
        """The rows of a part."""
        return self._with(self._scan.of(part), None)

    def in_manifest(self, table: ScoreTable) -> RowsOnDisk:
        """The same rows, read from the manifest that was written of them."""
        scan = replace(self._scan, table=table, codes=self._scan.codes.in_manifest(table), engine=None)
        return self._with(scan, self._n_keep)

    def _with(self, scan: Scan, n_keep: int | None) -> RowsOnDisk:
        other = copy(self)
        other._scan, other._n_keep = scan, n_keep
        return other

    def read_scores(self) -> Scores:
        """The scores as a whole, in memory."""
        scores = read_scores(self._scan.table.path, metric=self._scan.table.column)
        return scores if self._scan.codes.labels is None else scores.with_labels(self._scan.codes.labels)

    def keep(self) -> NDArray[np.bool_]:
        """Whether each example is kept."""
        keep = np.empty(len(self), bool)
        for rows, kept in self._apply(()):
            keep[rows.block.first : rows.block.first + len(kept)] = kept
        return keep

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of the manifest, a block of rows at a time."""
        schema = pa.schema([self.schema.field(name) for name in columns])
        for rows, keep in self._apply(columns):
            yield pa.RecordBatch.from_arrays([self._column(name, rows, keep) for name in columns], schema=schema)

    def _apply(self, columns: Sequence[str]) -> Iterator[tuple[Rows, NDArray[np.bool_]]]:
        """The last pass: all rows, and which of them are kept."""
        found, ids = 0, "id" in columns or self._kept.ids
        also = ("cluster",) if "cluster" in columns else ()
        for rows in self._scan.rows("applying the cut", ids=ids, also=also):
            keep = self._kept.keeps(rows)
            found += int(np.count_nonzero(keep))
            yield rows, keep
        if self._n_keep not in (None, found):
            raise PareError(f"{self._scan.table.path}: it changed while it was read; run again when it is complete.")

    def _column(self, name: str, rows: Rows, keep: NDArray[np.bool_]) -> pa.Array:
        if name == "id":
            return self._scan.table.id_column(rows.block)
        if name == "label":
            names = pa.array(self._scan.codes.names, pa.string())
            return pa.DictionaryArray.from_arrays(pa.array(rows.codes.astype(np.int32)), names)
        if name == "cluster":
            numbers = rows.block.columns.column("cluster")
            return pa.array(cluster_column(numbers, rows.block.file, first=rows.block.first_in_file).astype(np.int32))
        return pa.array(keep if name == "keep" else rows.scores)

    @cached_property
    def class_kept(self) -> NDArray[np.int64]:
        """How many of each class are kept."""
        return self._kept.class_kept(self._scan)

    def classes(self) -> ClassCounts | None:
        """The classes, or else the clusters, if there are any."""
        if self._scan.codes.grouped_by is None:
            return None
        kind = "class" if self._scan.codes.grouped_by == "label" else "cluster"
        return ClassCounts(kind, self._scan.codes.names, self._counts, self.class_kept, *self._class_scores)
