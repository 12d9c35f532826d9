"""What is kept of a set of scores, in one form whether the scores are in memory or a table too large for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from paredown.display import Introduced, data_frame, html_card
from paredown.errors import PareError
from paredown.ids import id_array, join_ids
from paredown.places import as_place
from paredown.score_files import (
    PARQUET_OPTIONS,
    manifest_schema,
    manifest_table,
    new_table,
    provenance_metadata,
)
from paredown.scores import Labels, Scores
from paredown.selection.floors import balance_of_counts

if TYPE_CHECKING:
    import pandas as pd

BATCH_ROWS = 131_072
_ROW_GROUP = 2**20  # rows of the manifest written at once
_REPEATABLE = ("strategy", "balance", "quota", "drop_hardest", "mix_random", "seed")


class ClassCounts(NamedTuple):
    """Every class (or cluster, without labels), with its examples and their scores."""

    kind: str  # class or cluster
    names: tuple[str, ...]
    counts: NDArray[np.int64]
    kept: NDArray[np.int64]
    lowest: NDArray[np.floating]
    medians: NDArray[np.floating]
    highest: NDArray[np.floating]


class KeptRows(Protocol):
    """All examples and which of them are kept, in row order."""

    metric: str
    provenance: dict[str, Any]
    schema: pa.Schema  # of the manifest

    def __len__(self) -> int:
        """How many examples there are, kept or not."""
        ...

    def read_scores(self) -> Scores:
        """The scores as a whole, in memory."""
        ...

    def keep(self) -> NDArray[np.bool_]:
        """Whether each example is kept."""
        ...

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of the manifest, a block of rows at a time."""
        ...

    def classes(self) -> ClassCounts | None:
        """The classes, or else the clusters, if there are any."""
        ...


@dataclass(frozen=True, eq=False, repr=False)
class Selection(Introduced):
    """Which examples are kept, and how they were chosen.

    `ids`, `indices`, `keep`, `scores` and `manifest()` are whole arrays and tables. Of scores that do not fit in memory
    they are read from their table when asked for; everything else, `batches()` and `write()` among it, never holds
    more than some blocks of rows.
    """

    rows: KeptRows
    recipe: dict[str, Any]
    notes: tuple[str, ...] = ()
    already: bool = False  # found finished by `prune`, which wrote nothing
    again: Callable[..., Selection] | None = field(default=None, kw_only=True)  # `select` from the same scores

    def __len__(self) -> int:
        return int(self.recipe["kept"])

    @property
    def n_examples(self) -> int:
        """How many examples there are, kept or not."""
        return len(self.rows)

    @property
    def metric(self) -> str:
        """What the scores are called."""
        return self.rows.metric

    @cached_property
    def scores(self) -> Scores:
        """The scores of all examples, with their ids and labels."""
        return self.rows.read_scores()

    @cached_property
    def keep(self) -> NDArray[np.bool_]:
        """Whether each example is kept, in row order."""
        return self.rows.keep()

    @property
    def indices(self) -> NDArray[np.int64]:
        """Row numbers of the kept examples, ascending."""
        return np.flatnonzero(self.keep)

    @cached_property
    def ids(self) -> NDArray[Any]:
        """Ids of the kept examples, in row order."""
        kept = self.batches(["id"], kept_only=True)
        return join_ids([id_array(batch["id"].to_numpy(zero_copy_only=False)) for batch in kept])

    def at(self, keep_fraction: float) -> Selection:
        """The same recipe at another keep_fraction, from the same scores."""
        assert self.again is not None
        return self.again(keep_fraction=keep_fraction, **{name: self.recipe[name] for name in _REPEATABLE})

    def batches(self, columns: Sequence[str] | None = None, *, kept_only: bool = False) -> Iterator[pa.RecordBatch]:
        """The manifest as Arrow record batches of at most 131,072 rows, in row order.

        Args:
            columns: of `id`, `keep`, `score`, and `label` and `cluster` if there are any; all of them if not given.
            kept_only: only the rows that are kept.
        """
        names = self.rows.schema.names
        wanted = list(names if columns is None else columns)
        for name in wanted:
            if name not in names:
                raise PareError(f"there is no column {name!r} in the manifest; it has {', '.join(names)}.")
        return self._batches(wanted, kept_only)

    def _batches(self, columns: list[str], kept_only: bool) -> Iterator[pa.RecordBatch]:
        read = [*columns, "keep"] if kept_only and "keep" not in columns else columns
        for batch in self.rows.batches(read):
            yield batch.filter(batch["keep"]).select(columns) if kept_only else batch

    def manifest(self) -> pa.Table:
        """Every example with `id`, `keep` and `score` (and label and cluster), the recipe in the table's metadata."""
        table = pa.Table.from_batches(self.batches(), self.rows.schema)
        return table.replace_schema_metadata(self.written_schema().metadata)

    def to_pandas(self) -> pd.DataFrame:
        """The manifest as a data frame."""
        table = self.manifest()
        return data_frame({name: table[name].to_numpy() for name in table.column_names})

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the manifest, in row order and whole or not at all, with its provenance inside and as JSON beside."""
        path = as_place(path)
        with new_table(path, self.record(), overwrite=overwrite) as part:
            write_manifest(part, self.written_schema(), self.batches())

    def class_table(self) -> pa.Table | None:
        """Per class (or cluster, without labels): examples, kept, and lowest, median and highest score.

        A class without examples has no scores: these are null.
        """
        classes = self.rows.classes()
        if classes is None:
            return None
        seen = classes.counts > 0
        columns = {
            classes.kind: pa.array(classes.names, pa.string()),
            "examples": classes.counts,
            "kept": classes.kept,
            "kept_fraction": classes.kept / np.maximum(classes.counts, 1),
            "score_min": pa.array(classes.lowest, mask=~seen),
            "score_median": pa.array(classes.medians, mask=~seen),
            "score_max": pa.array(classes.highest, mask=~seen),
        }
        return pa.table(columns)

    def balance_scores(self) -> dict[str, float]:
        """The balance score b of the classes (or clusters) before and after; empty if there are none."""
        classes = self.rows.classes()
        if classes is None:
            return {}
        return {"before": balance_of_counts(classes.counts), "after": balance_of_counts(classes.kept)}

    def provenance(self) -> dict[str, Any]:
        """The record of the scores with the recipe of the selection."""
        return self.rows.provenance | {"selection": self.recipe, "notes": list(self.notes)}

    def record(self) -> dict[str, Any]:
        """What a manifest carries."""
        return self.provenance() | {"metric": self.metric}

    def written_schema(self) -> pa.Schema:
        """The columns of a manifest, with its record in the metadata."""
        return self.rows.schema.with_metadata(provenance_metadata(self.record()))

    def introduce(self) -> dict[str, str]:
        """How many are kept, and how they were chosen."""
        recipe, per = self.recipe, self.recipe["grouped_by"]
        facts = {"kept": f"{len(self):,} of {self.n_examples:,}", "strategy": recipe["strategy"], "metric": self.metric}
        if per and recipe["quota"] != "none":
            facts["quota"] = f"{recipe['quota']} per {per}"
        elif per:
            facts["floor"] = f"{recipe['balance']:g} per {per}"
        return facts

    def _repr_html_(self) -> str:
        return html_card("Selection", self.introduce(), self.notes)


def write_manifest(file: Path, schema: pa.Schema, batches: Iterator[pa.RecordBatch]) -> None:
    """Write the rows of a manifest, or of a shard of one."""
    # Dictionaries pay for labels only: ids differ in every row, and scores nearly so; row numbers grow by one.
    # Statistics of labels would take as long as all the rest.
    options: dict[str, Any] = {**PARQUET_OPTIONS, "use_dictionary": ["label"]}
    options["write_statistics"] = [name for name in schema.names if name != "label"]
    if pa.types.is_integer(schema.field("id").type):
        options["column_encoding"] = {"id": "DELTA_BINARY_PACKED"}
    with pq.ParquetWriter(file, schema, **options) as writer:
        for table in _row_groups(batches):
            writer.write_table(table, row_group_size=table.num_rows)


def _row_groups(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.Table]:
    """Batches put together to tables of a size that readers like."""
    waiting: list[pa.RecordBatch] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.num_rows for part in waiting) >= _ROW_GROUP:
            yield pa.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pa.Table.from_batches(waiting)


class RowsInMemory:
    """The kept rows of scores that are in memory."""

    def __init__(self, scores: Scores, keep: NDArray[np.bool_]) -> None:
        self._scores, self._keep = scores, keep
        self.metric, self.provenance = scores.metric, scores.provenance
        label, cluster = scores.labels is not None, scores.clusters is not None
        self.schema = manifest_schema(pa.array(scores.ids[:0]).type, scores.values.dtype, label=label, cluster=cluster)

    def __len__(self) -> int:
        return len(self._scores)

    def read_scores(self) -> Scores:
        """The scores."""
        return self._scores

    def keep(self) -> NDArray[np.bool_]:
        """Whether each example is kept."""
        return self._keep

    def batches(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Some columns of the manifest, a block of rows at a time."""
        yield from manifest_table(self._scores, self._keep).select(columns).to_batches(BATCH_ROWS)

    def classes(self) -> ClassCounts | None:
        """The classes, or else the clusters, if there are any."""
        groups, kind = self._scores.labels, "class"
        if groups is None and self._scores.clusters is not None:
            groups, kind = Labels.of(self._scores.clusters), "cluster"
        if groups is None:
            return None
        counts = groups.counts
        ordered = self._scores.values[np.lexsort((self._scores.values, groups.codes))]
        ends = np.cumsum(counts)
        # A class without examples gets the score of another, which is not shown.
        first, middle = (np.minimum(ends - counts + more, len(ordered) - 1) for more in (0, counts // 2))
        kept = groups[self._keep].counts
        return ClassCounts(kind, groups.classes, counts, kept, ordered[first], ordered[middle], ordered[ends - 1])
