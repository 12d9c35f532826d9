"""Selection from a table of scores that is never in memory as a whole; the same examples as `select` keeps.

A first pass counts the scores of every class. Then a strategy is one or a few cuts (see `narrowing`), and a last pass
goes through the rows and applies them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from paredown.columns import cluster_column
from paredown.errors import PareError, argument
from paredown.progress import Track, silent
from paredown.score_files import manifest_schema, read_scores
from paredown.score_warnings import (
    CROWDED,
    CROWDED_BAND,
    CROWDED_ROWS,
    Magnitudes,
    Tie,
    band_ranks,
    band_warning,
    constant_warning,
    crowding_warning,
    tie_warning,
)
from paredown.scores import Labels, Scores
from paredown.selection.floors import Quota, class_notes, common_level, default_balance
from paredown.selection.selection import ClassCounts, Selection
from paredown.selection.selection_settings import Places, SelectionSettings
from paredown.selection.strategies import STRATIFIED_BINS, median_of, score_bins
from paredown.selection.streamed.class_codes import ClassCodes
from paredown.selection.streamed.histogram import Histogram
from paredown.selection.streamed.narrowing import Cut, Question, count_rows, find_cut, value_at
from paredown.selection.streamed.score_table import ScoreTable
from paredown.selection.streamed.sort_keys import Limits, Order, Rows, Scan


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

    Scores take two passes (`hard`, `easy`, `random`), three (`window`) or five (`moderate`, `stratified`), crowded or
    equal ones a few more. Ids are not checked for being unique, except where one would be kept and its twin would not.

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
    survey = survey_scores(
        scan, Order("hash" if strategy == "random" else "easy" if strategy == "easy" else "hard", seed)
    )
    places, short = options.places(survey.counts)
    notes = survey.notes() + options.window_notes(len(table)) + short
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


# --- the first pass ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Survey:
    """What the first pass over a table leaves: the number of rows and the range of scores of every class."""

    scan: Scan
    order: Order
    histogram: Histogram
    counts: NDArray[np.int64]
    lowest: NDArray[np.floating]
    highest: NDArray[np.floating]

    @cached_property
    def ends(self) -> tuple[Any, Any]:
        """The lowest and highest score of all."""
        return self.lowest[self.counts > 0].min(), self.highest[self.counts > 0].max()

    def constant(self) -> str | None:
        return constant_warning(float(self.ends[0]), float(self.ends[1]), len(self.scan.table))

    def notes(self) -> list[str]:
        """What is wrong with the scores themselves, in the words of `select`."""
        if self.order.by_hash:
            return []
        warning = self.constant() or self._crowded()
        return [] if warning is None or warning in self.scan.table.provenance.get("warnings", ()) else [warning]

    def _crowded(self) -> str | None:
        """A warning if the scores crowd in one place; takes more passes only where they may.

        Crowded means that three quarters of them are within a share of the largest distance, from zero or from the
        median. A tenth more allows for rounding.
        """
        n, histogram, (lowest, highest) = len(self.scan.table), self.histogram, map(float, self.ends)
        near = 1.1 * CROWDED * max(abs(lowest), abs(highest))
        first, last = histogram.bin_of(np.array([-near, near], histogram.dtype)).tolist()
        band = 2.2 * CROWDED_BAND * (highest - lowest) * histogram.scale / histogram.merged
        width = int(min(band, histogram.bins - 3)) + 3
        before = histogram.before.sum(axis=0)
        most = max(before[last + 1] - before[first], (before[width:] - before[:-width]).max())
        if n < CROWDED_ROWS or 4 * most < 3 * n:
            return None
        magnitudes = Magnitudes()
        for rows in self.scan.rows("looking at crowded scores"):
            magnitudes.add(rows.scores)
        warning = crowding_warning(magnitudes, n)
        return band_warning(*self._band()) if warning is None and magnitudes.may_crowd() else warning

    def _band(self) -> tuple[float, float, float]:
        middle, most, large = band_ranks(len(self.scan.table))
        median = np.float64(self.score_at(middle if self.order.by == "easy" else len(self.scan.table) - 1 - middle))
        question = Question(self.scan, Order("distance", self.order.seed, median))
        histogram = count_rows(question, len(self.counts))
        most, large = (float(value_at(question, histogram, place)) for place in (most, large))
        return float(median), most, large

    def score_at(self, place: int) -> Any:
        """The score at a place of the order, from 0 on."""
        value = value_at(Question(self.scan, self.order), self.histogram, place)
        return (-value if self.order.by == "hard" else value).astype(self.scan.table.dtype)


def survey_scores(scan: Scan, order: Order) -> Survey:
    """Count the rows of every class by score; checks every score, and settles how classes are numbered."""
    codes, histogram = scan.codes, Histogram(scan, order)
    lowest = highest = np.empty(0, scan.table.dtype)
    for rows in scan.rows("counting scores", ids=order.by_hash):
        rows.check_finite()
        if codes.number > len(lowest):
            more = np.full(2 * codes.number - len(lowest), np.inf, lowest.dtype)
            lowest, highest = np.concatenate([lowest, more]), np.concatenate([highest, -more])
        np.minimum.at(lowest, rows.codes, rows.scores)
        np.maximum.at(highest, rows.codes, rows.scores)
        histogram.add(rows.values(order), rows.codes, codes.number)
    chosen = codes.settle(histogram.counts[: codes.number].sum(axis=1, dtype=np.int64))
    histogram.settle(chosen)
    return Survey(scan, order, histogram, histogram.before[:, -1].copy(), lowest[chosen], highest[chosen])


# --- strategies as cuts --------------------------------------------------------------------------------------------


class _Cuts(NamedTuple):
    """What is kept: what `upper` keeps less what `dropped` does, `again` of that after all, and `mixed` at random.

    Only `window` and `stratified` drop the hardest; `window` takes some of them again for a class whose floor needs
    more than is left.
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
        return any(cut is not None and (cut.ids or cut.question.order.by_hash) for cut in self)


def _find_cuts(survey: Survey, options: SelectionSettings, places: Places) -> _Cuts:
    scan, n = survey.scan, len(survey.scan.table)
    question = Question(scan, survey.order, grouped=options.grouped)
    over_all = replace(question, grouped=False)
    nothing = np.zeros_like(places.floors)
    _, n_dropped = options.kept_and_dropped(n)

    def first(number: int) -> Cut:
        return find_cut(over_all, survey.histogram, nothing, number)

    if options.strategy == "moderate":
        middle = [survey.score_at(place) for place in {(n - 1) // 2, n // 2}]
        question = replace(question, order=Order("distance", options.seed, median_of(np.array(middle))))
        histogram = count_rows(question, len(nothing))
        cuts = _Cuts(find_cut(question, histogram, places.floors, places.total))
    elif options.strategy == "stratified":
        dropped = first(n_dropped) if n_dropped else None
        low, high = survey.ends[0], survey.ends[1] if dropped is None else survey.score_at(n_dropped)
        cuts = _Cuts(_stratified(scan, options.seed, dropped, low, high, places.total), dropped)
    elif options.strategy == "window" and n_dropped:
        dropped = first(n_dropped)
        # A floor that needs more than is left of its class takes the first of those left out.
        again = np.maximum(places.floors - (survey.counts - dropped.kept), 0)
        floors, total = dropped.kept + places.floors - again, n_dropped + places.total - int(again.sum())
        upper = find_cut(question, survey.histogram, floors, total)
        back = find_cut(question, survey.histogram, again, int(again.sum())) if again.any() else None
        cuts = _Cuts(upper, dropped, back)
    else:
        cuts = _Cuts(find_cut(question, survey.histogram, places.floors, places.total))
    if places.random_total == 0:
        return cuts
    left = Question(scan, Order("hash", options.seed + 1), among=lambda rows: ~cuts.keeps(rows), ids=True)
    histogram = count_rows(left, len(nothing))
    return cuts._replace(mixed=find_cut(left, histogram, places.random_floors, places.random_total))


def _stratified(scan: Scan, seed: int, dropped: Cut | None, low: Any, high: Any, total: int) -> Cut:
    """The same number from every bin of scores, as far as it has them, the lowest hashes first."""
    question = Question(
        scan,
        Order("hash", seed),
        groups=lambda rows: score_bins(rows.scores, low, high),
        among=None if dropped is None else lambda rows: ~dropped.keeps(rows),
    )
    histogram = count_rows(question, STRATIFIED_BINS)
    counts = histogram.before[:, -1]
    level = common_level(counts, total)
    numbers = np.minimum(counts, level + 1)
    cut = find_cut(question, histogram, numbers, int(numbers.sum()))
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
    kept, left, scores = upper.equal_kept, upper.equal_left, upper.question.order.scores_at(upper.equal_key, dtype)
    if out is not None:  # what is dropped as the hardest is not kept
        kept = kept - np.where(out.equal_key == upper.equal_key, out.equal_kept, 0)
    if not options.grouped:
        kept, left, scores = kept.sum(keepdims=True), left.sum(keepdims=True), scores[:1]
    notes = [tie_warning(Tie.of(kept, left, scores), n_kept)]
    if out is not None:
        at = out.question.order.scores_at(out.equal_key, dtype)[:1]
        tie = Tie.of(out.equal_kept.sum(keepdims=True), out.equal_left.sum(keepdims=True), at)
        notes.append(tie_warning(tie, int(out.kept.sum()), dropping=True))
    return [note for note in notes if note is not None]


# --- the last pass -------------------------------------------------------------------------------------------------


class RowsOnDisk:
    """The kept rows of a table: the cuts, and passes that apply them. Small, whatever the number of rows."""

    def __init__(self, survey: Survey, cuts: _Cuts, n_keep: int) -> None:
        self._scan, self._cuts, self._n_keep = survey.scan, cuts, n_keep  # but not the histogram, which is large
        self._counts, self._lowest, self._highest = survey.counts, survey.lowest, survey.highest
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
        """How many of each class are kept; takes a pass if the cuts are not those of classes."""
        upper, dropped, again, mixed = self._cuts
        if upper.question.groups is not None:
            counts = (np.bincount(rows.codes[keep], minlength=self._codes.number) for rows, keep in self._apply(()))
            return np.sum(list(counts), axis=0)
        kept = upper.kept if dropped is None else upper.kept - dropped.kept
        return kept + sum(more.kept for more in (again, mixed) if more is not None)

    def classes(self) -> ClassCounts | None:
        """The classes, or else the clusters, if there are any."""
        if self._codes.grouped_by is None:
            return None
        kind = "class" if self._codes.grouped_by == "label" else "cluster"
        return ClassCounts(kind, self._codes.names, self._counts, self.class_kept, self._lowest, None, self._highest)
