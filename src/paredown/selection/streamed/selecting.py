"""Selection from a table of scores that is never in memory as a whole; the same examples as `select` keeps."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from paredown.columns import cluster_column
from paredown.errors import PareError
from paredown.progress import Track, silent
from paredown.score_files import PARQUET_OPTIONS, check_table_output, new_table, provenance_metadata
from paredown.score_warnings import (
    CROWDED,
    CROWDED_ROWS,
    Magnitudes,
    Tie,
    constant_warning,
    crowding_warning,
    tie_warning,
)
from paredown.selection.floors import PAPER_BALANCE, Quota, class_floors, class_notes, class_quotas
from paredown.selection.selection import check_settings, kept_and_dropped, make_recipe, window_notes
from paredown.selection.streamed.counting import Counted, count_scores
from paredown.selection.streamed.cut import Cut
from paredown.selection.streamed.order import Limits, Order, Rows, Scan
from paredown.selection.streamed.score_table import Block, ClassCodes, ScoreTable
from paredown.selection.streamed.threshold import find_cut

__all__ = ["STREAMED", "StreamedSelection", "select_streamed"]

_ROW_GROUP = 2**20  # rows of the manifest written at once
STREAMED = ("hard", "easy", "random", "window")  # strategies that need no more than counts of scores


class Kept(NamedTuple):
    """Some consecutive rows of the table and which of them are kept."""

    block: Block
    keep: NDArray[np.bool_]
    codes: NDArray[np.intp]  # of classes


@dataclass(frozen=True)
class StreamedSelection:
    """Which examples of a table are kept, as one cut per class: small, whatever the number of rows.

    `batches` goes through the rows again and says of each whether it is kept; `write` makes the manifest of it.
    """

    scores: ScoreTable
    classes: tuple[str, ...]  # of the column `scores.grouped_by`; a single nameless one if there is none
    counts: NDArray[np.int64]  # examples of each class
    kept: NDArray[np.int64]  # and how many of them are kept
    score_min: NDArray[np.floating]
    score_max: NDArray[np.floating]
    recipe: dict[str, Any]
    notes: tuple[str, ...]
    scan: Scan
    cuts: _Cuts
    already: bool = False  # found finished by `prune`, which wrote nothing

    def __len__(self) -> int:
        return int(self.kept.sum())

    def provenance(self) -> dict[str, Any]:
        """The record of the scores with the recipe of the selection."""
        return self.scores.provenance | {"selection": self.recipe, "notes": list(self.notes)}

    def batches(self, *columns: str) -> Iterator[Kept]:
        """The rows in order, some at a time: which are kept, with these columns of the table in `block.columns`."""
        found = 0
        with_ids = "id" in columns or self.cuts.many_ties
        for rows in self.scan.passes("applying the cut", with_ids=with_ids, also=columns):
            keep = self.cuts.keep(rows, self.scan)
            found += int(np.count_nonzero(keep))
            yield Kept(rows.block, keep, rows.codes)
        if found != len(self):
            raise PareError(f"{self.scores.path}: it changed while it was read; run again when it is complete.")

    def write(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the manifest, in row order and whole or not at all, with its provenance inside and as JSON beside."""
        path = Path(path)
        record = self.provenance() | {"metric": self.scores.metric}
        schema = self._schema().with_metadata(provenance_metadata(record))
        clusters = ("cluster",) if "cluster" in self.scores.schema.names else ()
        check_table_output(path, overwrite=overwrite)
        # Dictionaries pay for labels only: ids differ in every row, and scores nearly so; row numbers grow by one.
        # Statistics of labels would take as long as all the rest.
        options: dict[str, Any] = {**PARQUET_OPTIONS, "use_dictionary": ["label"]}
        options["write_statistics"] = [name for name in schema.names if name != "label"]
        if not self.scores.text_ids:
            options["column_encoding"] = {"id": "DELTA_BINARY_PACKED"}
        with new_table(path, record, overwrite=overwrite) as part, pq.ParquetWriter(part, schema, **options) as writer:
            rows = (self._manifest_rows(kept, schema) for kept in self.batches("id", *clusters))
            for table in _row_groups(rows):
                writer.write_table(table, row_group_size=table.num_rows)

    def _schema(self) -> pa.Schema:
        table = self.scores
        fields = [
            ("id", table.id_type),
            ("keep", pa.bool_()),
            ("score", pa.from_numpy_dtype(table.dtype)),
        ]
        if "label" in table.schema.names:
            fields.append(("label", pa.dictionary(pa.int32(), pa.string())))
        if "cluster" in table.schema.names:
            fields.append(("cluster", pa.int32()))
        return pa.schema(fields)

    def _manifest_rows(self, kept: Kept, schema: pa.Schema) -> pa.RecordBatch:
        table = self.scores
        columns = [table.id_column(kept.block), pa.array(kept.keep), pa.array(table.scores(kept.block))]
        if "label" in schema.names:
            names = pa.array(self.classes, pa.string())
            columns.append(pa.DictionaryArray.from_arrays(pa.array(kept.codes.astype(np.int32)), names))
        if "cluster" in schema.names:
            columns.append(_clusters(kept.block))
        return pa.RecordBatch.from_arrays(columns, schema=schema)


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


def _clusters(block: Block) -> pa.Array:
    numbers = cluster_column(block.columns.column("cluster"), block.file, first=block.first_in_file)
    return pa.array(numbers.astype(np.int32))


@dataclass(frozen=True)
class _Cuts:
    """What is kept, in terms of cuts: `upper` less what `dropped` takes, and `again` of that after all.

    Only `window` drops the hardest, and takes them again only for a class whose floor needs more than is left.
    """

    upper: Cut
    dropped: Cut | None = None
    again: Cut | None = None

    def keep(self, rows: Rows, scan: Scan) -> NDArray[np.bool_]:
        keep = self.upper.keep(rows, scan)
        if self.dropped is not None:
            keep &= ~self.dropped.keep(rows, scan)
        if self.again is not None:
            keep |= self.again.keep(rows, scan)
        return keep

    @property
    def many_ties(self) -> bool:
        """Whether ids are better read along than looked up."""
        return any(cut is not None and cut.many_ties for cut in (self.upper, self.dropped, self.again))

    @property
    def kept(self) -> NDArray[np.int64]:
        """How many of each class are kept."""
        kept = self.upper.kept
        kept = kept if self.dropped is None else kept - self.dropped.kept
        return kept if self.again is None else kept + self.again.kept


def select_streamed(
    table: ScoreTable,
    *,
    keep_fraction: float,
    strategy: str = "hard",
    balance: float | None = None,
    quota: Quota = "none",
    drop_hardest: float = 0.05,
    mix_random: float = 0.0,
    seed: int = 0,
    limits: Limits | None = None,
    track: Track = silent,
) -> StreamedSelection:
    """Keep exactly `round(keep_fraction * n)` rows of a table (at least one), the same that `select` keeps.

    Two passes over the scores and classes, constant memory; see `threshold.py`. Scores that are crowded or mostly
    equal take a pass or a few more, and so does `window`.

    Args:
        table: see `open_table`; classes are its `label` column, or else `cluster`.
        keep_fraction, strategy, balance, quota, drop_hardest, seed: see `select`. Strategies are those in `STREAMED`,
            and `balance` defaults to the paper's 0.5 if the table has classes.
        mix_random: must be 0; drawing at random from what is left needs all rows in memory.
        limits: what bounds the memory.
        track: reports progress.
    """
    grouped_by = table.grouped_by
    balance = (PAPER_BALANCE if grouped_by else 0.0) if balance is None else float(balance)
    check_settings(keep_fraction, strategy, balance, quota, drop_hardest, mix_random, seed)
    _check_streamed(table, strategy, mix_random)
    grouped = balance > 0 or quota != "none"
    if grouped and grouped_by is None:
        raise PareError(
            f"{table.path}: a floor or quota needs a column 'label' or 'cluster', and there is neither; "
            "use balance=0 (--balance 0) for none."
        )
    order = Order("hard" if strategy == "window" else strategy, seed)
    scan = Scan(table, order, ClassCodes(table), limits or Limits(), track)
    counted = count_scores(scan)
    n_keep, dropped = kept_and_dropped(len(table), keep_fraction, drop_hardest)
    floors, notes = np.zeros(len(counted.counts), np.int64), _score_notes(scan, counted)
    notes += window_notes(len(table), dropped, strategy, drop_hardest)
    if quota != "none":
        floors = class_quotas(counted.counts, n_keep, quota)
    elif grouped:
        floors, short = class_floors(counted.counts, balance * keep_fraction, n_keep)
        notes += short
    dropped = dropped if strategy == "window" else 0
    cuts = _find_cuts(scan, counted, floors, n_keep, dropped, grouped)
    notes += _tie_notes(scan, counted, cuts, grouped, n_keep, dropped)
    if grouped:
        notes += class_notes(scan.codes.names, counted.counts, cuts.kept)
    recipe = make_recipe(
        keep_fraction=keep_fraction,
        kept=n_keep,
        strategy=strategy,
        balance=balance,
        quota=quota,
        drop_hardest=drop_hardest,
        mix_random=mix_random,
        seed=seed,
        grouped_by=grouped_by if grouped else None,
    )
    return StreamedSelection(
        scores=table,
        classes=scan.codes.names,
        counts=counted.counts,
        kept=cuts.kept,
        score_min=counted.lowest,
        score_max=counted.highest,
        recipe=recipe,
        notes=tuple(notes),
        scan=scan,
        cuts=cuts,
    )


def _find_cuts(
    scan: Scan, counted: Counted, floors: NDArray[np.int64], n_keep: int, dropped: int, grouped: bool
) -> _Cuts:
    """The cut with these floors, after leaving out the first `dropped` of the order."""
    if dropped == 0:
        return _Cuts(find_cut(scan, counted, floors, n_keep, grouped=grouped))
    nothing = np.zeros_like(floors)
    out = find_cut(scan, counted, nothing, dropped, grouped=False)
    # A floor that needs more than is left of its class takes the first of those left out.
    again = np.maximum(floors - (counted.counts - out.kept), 0)
    upper = find_cut(scan, counted, out.kept + floors - again, n_keep + dropped - int(again.sum()), grouped=grouped)
    return _Cuts(upper, out, find_cut(scan, counted, again, int(again.sum())) if again.any() else None)


def _score_notes(scan: Scan, counted: Counted) -> list[str]:
    """What is wrong with the scores themselves, in the words of `select`; a pass more only where something may be."""
    if scan.order.by_hash:
        return []
    seen = counted.counts > 0
    lowest, highest = float(counted.lowest[seen].min()), float(counted.highest[seen].max())
    warning = constant_warning(lowest, highest, len(scan.table))
    if warning is None and len(scan.table) >= CROWDED_ROWS and counted.may_crowd(CROWDED):
        magnitudes = Magnitudes()
        for rows in scan.passes("looking at crowded scores"):
            magnitudes.add(rows.scores)
        warning = crowding_warning(magnitudes, len(scan.table))
    return [] if warning is None or warning in scan.table.provenance.get("warnings", ()) else [warning]


def _tie_notes(scan: Scan, counted: Counted, cuts: _Cuts, grouped: bool, n_keep: int, dropped: int) -> list[str]:
    """Warnings of ties at the cuts, in the words of `select`."""
    seen = counted.counts > 0
    constant = constant_warning(float(counted.lowest[seen].min()), float(counted.highest[seen].max()), len(scan.table))
    if scan.order.by_hash or constant is not None:
        return []
    merit, inside, outside = cuts.upper.equals
    notes: list[str | None] = []
    if cuts.dropped is not None:  # what is dropped as the hardest is not kept
        out = cuts.dropped.equals
        inside = inside - np.where(out.merit == merit, out.inside, 0)
        tie = Tie.of(out.inside.sum(keepdims=True), out.outside.sum(keepdims=True), out.merit[:1])
        notes.append(tie_warning(tie, dropped, dropping=True))
    scores = -merit if scan.order.strategy == "easy" else merit
    if not grouped:
        inside, outside, scores = inside.sum(keepdims=True), outside.sum(keepdims=True), scores[:1]
    notes.insert(0, tie_warning(Tie.of(inside, outside, scores), n_keep))
    return [note for note in notes if note is not None]


def _check_streamed(table: ScoreTable, strategy: str, mix_random: float) -> None:
    what = None if strategy in STREAMED else f"strategy {strategy!r}"
    what = "mix_random above 0" if what is None and mix_random > 0 else what
    if what is not None:
        raise PareError(
            f"{table.path}: {what} needs all {len(table):,} scores in memory; allow more memory (--memory), "
            f"or use one of the strategies {', '.join(STREAMED)} without random ones mixed in."
        )
