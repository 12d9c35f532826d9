"""Selection from a table of scores that is never in memory as a whole; the same examples as `select` keeps.

A first pass counts the scores of every class. Then a strategy is one or a few cuts (see `cuts`), and a last pass
goes through the rows and applies them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from paredown.class_codes import ClassCodes
from paredown.columns import cluster_column
from paredown.errors import PareError, argument
from paredown.progress import Track, silent
from paredown.score_files import manifest_schema, read_scores
from paredown.score_table import ScoreTable
from paredown.score_warnings import Tie, tie_warning
from paredown.scores import Labels, Scores
from paredown.selection.floors import Quota, class_notes, common_level, default_balance
from paredown.selection.selection import ClassCounts, Selection
from paredown.selection.selection_settings import Places, SelectionSettings
from paredown.selection.strategies import STRATIFIED_BINS, median_of, score_bins
from paredown.selection.streamed.cuts import Cut, Search, find_cut
from paredown.selection.streamed.histogram import Histogram
from paredown.selection.streamed.sort_keys import Limits, Ranking, Rows, Scan
from paredown.selection.streamed.survey import Survey


def select_streamed(
    table: ScoreTable,
    *,
    keep_fraction: float,
    strategy: str = "hard",
    labels: ArrayLike | Labels | None = None,
    balance: float | None = None,
    quota: Quota = "none",
    drop_hardest: float = 0.05,
    mix_random: float = 0.0,
    seed: int = 0,
    limits: Limits | None = None,
    track: Track = silent,
) -> Selection:
    """`select` from an opened table, in memory that does not grow with its rows.

    Scores take two passes (`hard`, `easy`), three (`random`, `window`), four (`moderate`) or five (`stratified`),
    crowded or equal ones a few more. Ids are not checked for being unique, except where one would be kept and its twin
    would not.

    Args:
        table: see `open_table`.
        keep_fraction, strategy, labels, balance, quota, drop_hardest, mix_random, seed: see `select`.
        limits: what bounds the memory.
        track: reports progress.
    """
    labels = None if labels is None else Labels.of(labels, length=len(table))
    codes = ClassCodes(table, labels)
    floor = default_balance(balance, groups=codes.grouped_by is not None and quota == "none")
    options = SelectionSettings(keep_fraction, strategy, floor, quota, drop_hardest, mix_random, seed).check()
    _check_streams(table, options, codes.grouped_by)
    scan = Scan(table, codes, limits or Limits(), track)
    survey = Survey(scan, "easy" if strategy == "easy" else "hard", seed)
    places, short = options.places(survey.counts)
    notes = ([] if strategy == "random" else survey.notes()) + options.window_notes(len(table)) + short
    cuts = _find_cuts(survey, options, places)
    notes += _tie_notes(survey, options, cuts, places.total)
    rows = RowsOnDisk(survey, cuts, options.kept_and_dropped(len(table))[0])
    if options.grouped:
        notes += class_notes(codes.names, survey.counts, rows.class_kept)
    again = partial(select_streamed, table, labels=labels, limits=limits, track=track)
    return Selection(rows, options.recipe(len(table), codes.grouped_by), tuple(notes), again=again)


def _check_streams(table: ScoreTable, options: SelectionSettings, grouped_by: str | None) -> None:
    if options.grouped and grouped_by is None:
        raise PareError(
            f"{table.path}: a floor or quota needs a column 'label' or 'cluster', and there is neither; "
            f"use {argument('balance', 0)} for no floor."
        )
    if options.grouped and options.strategy == "stratified":
        raise PareError(
            f"{table.path}: 'stratified' with a floor or quota ranks the examples of every class by their places in "
            f"bins over all classes, which needs all {len(table):,} scores in memory; raise {argument('memory')}, "
            f"or use {argument('balance', 0)} and no quota."
        )


# --- strategies as cuts --------------------------------------------------------------------------------------------


class _Cuts(NamedTuple):
    """What is kept: what `upper` keeps less what `dropped` does, `again` of that after all, and `mixed` at random.

    Only `window` drops the hardest, and takes some of them again for a class whose floor needs more than is left.
    """

    upper: Cut
    dropped: Cut | None = None
    again: Cut | None = None
    mixed: Cut | None = None

    def keeps(self, rows: Rows) -> NDArray[np.bool_]:
        keep = self.upper.keeps(rows)
        if self.dropped is not None:
            keep &= ~self.dropped.keeps(rows)
        for more in (self.again, self.mixed):
            if more is not None:
                keep |= more.keeps(rows)
        return keep

    @property
    def ids(self) -> bool:
        """Whether ids are to be read along."""
        return any(cut is not None and cut.ids for cut in self)

    def class_kept(self, scan: Scan) -> NDArray[np.int64]:
        """How many of each class are kept; takes a pass if the cuts are not those of classes."""
        kept = np.zeros(scan.codes.number, np.int64)
        if not self.upper.ranking.of_classes:
            for rows in scan.rows("counting classes", ids=self.ids):
                kept += np.bincount(rows.codes[self.keeps(rows)], minlength=len(kept))
            return kept
        for cut in (self.upper, self.again, self.mixed):
            kept += 0 if cut is None else cut.kept
        return kept if self.dropped is None else kept - self.dropped.kept


def _find_cuts(survey: Survey, options: SelectionSettings, places: Places) -> _Cuts:
    scan, n, seed = survey.scan, len(survey.scan.table), options.seed
    nothing, (_, n_dropped) = np.zeros_like(survey.counts), options.kept_and_dropped(n)

    def find(search: Search, *others: Search) -> Cut:
        return find_cut(scan, search, *others, *survey.class_scores)

    if options.strategy == "random":
        cuts = _Cuts(find(Search(Ranking("hash", seed), survey.counts, places.floors, places.total)))
    elif options.strategy == "moderate":
        ranking = Ranking("distance", seed, median_of(survey.scores_at_places((n - 1) // 2, n // 2)))
        cuts = _Cuts(find(Search(ranking, Histogram(scan, ranking), places.floors, places.total)))
    elif options.strategy == "stratified":
        following = survey.search(nothing, n_dropped + 1)
        dropped = find(survey.search(nothing, n_dropped), following)
        highest = survey.scores_at(following.low)[0]  # that is left
        cuts = _Cuts(_stratified(scan, seed, dropped, survey.lowest, highest, places.total))
    elif options.strategy == "window":
        dropped = find(survey.search(nothing, n_dropped))
        # A floor that needs more than is left of its class takes the first of those left out.
        again = np.maximum(places.floors - (survey.counts - dropped.kept), 0)
        floors = np.where(places.floors > 0, dropped.kept + places.floors - again, 0)
        upper = find(survey.search(floors, n_dropped + places.total - int(again.sum())))
        cuts = _Cuts(upper, dropped, find(survey.search(again)) if again.any() else None)
    else:
        cuts = _Cuts(find(survey.search(places.floors, places.total)))
    if places.random_total == 0:
        return cuts
    left = Ranking("hash", seed + 1, groups=lambda rows: np.where(cuts.keeps(rows), -1, rows.codes))
    counts = survey.counts - cuts.class_kept(scan)
    return cuts._replace(mixed=find(Search(left, counts, places.random_floors, places.random_total)))


def _stratified(scan: Scan, seed: int, dropped: Cut, lowest: Any, highest: Any, total: int) -> Cut:
    """The same number from every bin of scores, as far as it has them, the lowest hashes first."""

    def bins_of(rows: Rows) -> NDArray[np.intp]:
        return np.where(dropped.keeps(rows), -1, score_bins(rows.scores, lowest, highest))

    counts = np.zeros(STRATIFIED_BINS, np.int64)
    for rows in scan.rows("counting bins", ids=dropped.ids):
        counts += np.bincount(bins_of(rows) + 1, minlength=STRATIFIED_BINS + 1)[1:]
    level = common_level(counts, total)
    numbers = np.minimum(counts, level + 1)
    cut = find_cut(scan, Search(Ranking("hash", seed, groups=bins_of), counts, numbers, int(numbers.sum())))
    # In the last round not all bins have their turn, but those whose next row has the lowest hash.
    bins = np.flatnonzero(counts > level)
    late = bins[np.argsort(cut.key[bins])][total - int(np.minimum(counts, level).sum()) :]
    cut.key[late] -= np.uint64(1)
    return cut


def _tie_notes(survey: Survey, options: SelectionSettings, cuts: _Cuts, n_kept: int) -> list[str]:
    """Warnings of ties at the cuts, in the words of `select`."""
    if options.strategy in ("random", "stratified") or survey.constant() is not None:
        return []
    upper, out, dtype = cuts.upper, cuts.dropped, survey.scan.table.dtype
    kept, left, scores = upper.equal_kept, upper.equal_left, upper.ranking.scores_at(upper.key, dtype)
    if out is not None:  # what is dropped as the hardest is not kept
        kept = kept - np.where(out.key == upper.key, out.equal_kept, 0)
    if not options.grouped:  # all classes are cut at the same score
        kept, left, scores = kept.sum(keepdims=True), left.sum(keepdims=True), scores[:1]
    notes = [tie_warning(Tie.of(kept, left, scores), n_kept)]
    if out is not None:
        at = survey.scores_at(out.key)[:1]
        tie = Tie.of(out.equal_kept.sum(keepdims=True), out.equal_left.sum(keepdims=True), at)
        notes.append(tie_warning(tie, int(out.kept.sum()), dropping=True))
    return [note for note in notes if note is not None]


# --- the last pass -------------------------------------------------------------------------------------------------


class RowsOnDisk:
    """The kept rows of a table: the cuts, and passes that apply them. Small, whatever the number of rows."""

    def __init__(self, survey: Survey, cuts: _Cuts, n_keep: int) -> None:
        self._scan, self._cuts, self._n_keep = survey.scan, cuts, n_keep  # but not the histogram, which is large
        self._counts = survey.counts
        self._class_scores = [survey.scores_at(search.low) for search in survey.class_scores]  # low, median, high
        self._table, self._codes = survey.scan.table, survey.scan.codes
        self.metric, self.provenance = self._table.metric, self._table.provenance
        label, cluster = self._codes.grouped_by == "label", "cluster" in self._table.schema.names
        self.schema = manifest_schema(self._table.id_type, self._table.dtype, label=label, cluster=cluster)

    def __len__(self) -> int:
        return len(self._table)

    def read_scores(self) -> Scores:
        """The scores as a whole, in memory."""
        scores = read_scores(self._table.path, metric=self._table.column)
        return scores if self._codes.labels is None else scores.with_labels(self._codes.labels)

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
        found, ids = 0, "id" in columns or self._cuts.ids
        also = ("cluster",) if "cluster" in columns else ()
        for rows in self._scan.rows("applying the cut", ids=ids, also=also):
            keep = self._cuts.keeps(rows)
            found += int(np.count_nonzero(keep))
            yield rows, keep
        if found != self._n_keep:
            raise PareError(f"{self._table.path}: it changed while it was read; run again when it is complete.")

    def _column(self, name: str, rows: Rows, keep: NDArray[np.bool_]) -> pa.Array:
        if name == "id":
            return self._table.id_column(rows.block)
        if name == "label":
            names = pa.array(self._codes.names, pa.string())
            return pa.DictionaryArray.from_arrays(pa.array(rows.codes.astype(np.int32)), names)
        if name == "cluster":
            numbers = rows.block.columns.column("cluster")
            return pa.array(cluster_column(numbers, rows.block.file, first=rows.block.first_in_file).astype(np.int32))
        return pa.array(keep if name == "keep" else rows.scores)

    @cached_property
    def class_kept(self) -> NDArray[np.int64]:
        """How many of each class are kept."""
        return self._cuts.class_kept(self._scan)

    def classes(self) -> ClassCounts | None:
        """The classes, or else the clusters, if there are any."""
        if self._codes.grouped_by is None:
            return None
        kind = "class" if self._codes.grouped_by == "label" else "cluster"
        return ClassCounts(kind, self._codes.names, self._counts, self.class_kept, *self._class_scores)
