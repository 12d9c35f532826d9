"""Selection from a table of scores that is never in memory as a whole; the same examples as `select` keeps.

A first pass counts the scores of every class. Then a strategy is one or a few cuts (see `cuts`), and a last pass goes
through the rows and applies them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.class_codes import ClassCodes
from paredown.engines import Engine
from paredown.errors import PareError, argument
from paredown.progress import Track, silent
from paredown.score_table import ScoreTable
from paredown.score_warnings import Tie, constant_warning, tie_warning
from paredown.scores import Labels
from paredown.selection.floors import Quota, class_notes, common_level, default_balance
from paredown.selection.rows_on_disk import RowsOnDisk
from paredown.selection.selection import Selection
from paredown.selection.selection_settings import Places, SelectionSettings
from paredown.selection.strategies import STRATIFIED_BINS, score_bins
from paredown.selection.streamed.cuts import Cut, Kept, find
from paredown.selection.streamed.sort_keys import ByHash, ByScore
from paredown.selection.streamed.survey import Survey
from paredown.table_passes import Chosen, Limits, Rows, Scan, Tally


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
    engine: Engine | None = None,
) -> Selection:
    """`select` from an opened table, in memory that does not grow with its rows.

    Scores take two passes (`hard`, `easy`, `random`), three (`window`), four (`moderate`) or five (`stratified`),
    crowded or equal ones a few more. Ids are not checked for being unique, except where one would be kept and its twin
    would not.

    Args:
        table: see `open_table`.
        keep_fraction, strategy, labels, balance, quota, drop_hardest, mix_random, seed: see `select`.
        limits: what bounds the memory.
        track: reports progress.
        engine: makes the passes, of which only the counts come here; this process does if it is not given.
    """
    labels = None if labels is None else Labels.of(labels, length=len(table))
    codes = ClassCodes(table, labels)
    floor = default_balance(balance, groups=codes.grouped_by is not None and quota == "none")
    options = SelectionSettings(keep_fraction, strategy, floor, quota, drop_hardest, mix_random, seed).check()
    check_streams(table.path, len(table), options, grouped=codes.grouped_by is not None)
    scan = Scan(table, codes, limits or Limits(), track, engine)
    hashed = ByHash(seed) if strategy == "random" else None
    survey = Survey(scan, ByScore("easy" if strategy == "easy" else "hard", seed), hashed)
    places, short = options.places(survey.rows)
    notes = ([] if strategy == "random" else survey.notes()) + options.window_notes(len(table)) + short
    by_order = _find_cuts(survey, options, places)
    notes += _tie_notes(survey, options, by_order, places.total)
    kept = _mixed(survey, by_order, places, seed + 1) if places.random_total else by_order
    rows = RowsOnDisk(survey, kept, options.kept_and_dropped(len(table))[0])
    if options.grouped:
        notes += class_notes(codes.names, survey.rows, rows.class_kept)
    again = partial(select_streamed, table, labels=labels, limits=limits, track=track, engine=engine)
    return Selection(rows, options.recipe(len(table), codes.grouped_by), tuple(notes), again=again)


def check_streams(where: object, n: int, options: SelectionSettings, *, grouped: bool) -> None:
    """Raise at a selection that cannot be made from a stream of n scores; `grouped` if they have labels or clusters."""
    if options.grouped and not grouped:
        raise PareError(
            f"{where}: a floor or quota needs a column 'label' or 'cluster', and there is neither; "
            f"use {argument('balance', 0)} for no floor."
        )
    if options.grouped and options.strategy == "stratified":
        raise PareError(
            f"{where}: 'stratified' with a floor or quota ranks the examples of every class by their places in "
            f"bins over all classes, which needs all {n:,} scores in memory; raise {argument('memory')}, "
            f"or use {argument('balance', 0)} and no quota."
        )


# --- strategies as cuts --------------------------------------------------------------------------------------------


def _find_cuts(survey: Survey, options: SelectionSettings, places: Places) -> Kept:
    """What the order of a strategy keeps of every class and of all."""
    n = len(survey.scan.table)
    nothing, (_, n_dropped) = np.zeros_like(survey.rows), options.kept_and_dropped(n)
    if options.strategy == "random":
        cut = survey.cut(places.floors, places.total, order=ByHash(options.seed))
    elif options.strategy == "moderate":
        order = ByScore("distance", options.seed, survey.median())
        cut = Survey(survey.scan, order).cut(places.floors, places.total)
    elif options.strategy == "stratified":
        dropped, following = survey.cut(nothing, n_dropped), survey.cut(nothing, n_dropped + 1, ties=False)
        survey.find(dropped, following)
        bins = _ScoreBins(dropped, survey.lowest, survey.scores_at(following.low)[0])
        return Kept(_stratified(survey.scan, bins, places.total, options.seed), by_class=False)
    elif options.strategy == "window":
        dropped = survey.cut(nothing, n_dropped)
        survey.find(dropped)
        # A floor that needs more than is left of its class takes the first of those left out.
        again = np.maximum(places.floors - (survey.rows - dropped.taken), 0)
        floors = np.where(places.floors > 0, dropped.taken + places.floors - again, 0)
        upper = survey.cut(floors, n_dropped + places.total - int(again.sum()))
        more = [survey.cut(again)] if again.any() else []
        survey.find(upper, *more)
        return Kept(upper, dropped, tuple(more))
    else:
        cut = survey.cut(places.floors, places.total)
    survey.find(cut)
    return Kept(cut)


def _mixed(survey: Survey, by_order: Kept, places: Places, seed: int) -> Kept:
    """More rows at random, of those that a strategy left."""
    left = survey.rows - by_order.class_kept(survey.scan)
    cut = Cut(ByHash(seed), left, places.random_floors, places.random_total, among=by_order.left)
    survey.find(cut)
    return replace(by_order, more=(*by_order.more, cut))


def _stratified(scan: Scan, bins: _ScoreBins, total: int, seed: int) -> Cut:
    """The same number from every bin of scores, as far as it has them, the lowest hashes first."""
    tally = Tally(bins, STRATIFIED_BINS)
    scan.look("counting bins", [tally], ids=bins.dropped.ids)
    level = common_level(tally.counts, total)
    cut = Cut(ByHash(seed), tally.counts, np.minimum(tally.counts, level + 1), among=bins)
    find(scan, cut)
    # In the last round not all bins have their turn, but those whose next row has the lowest hash.
    full = np.flatnonzero(tally.counts > level)
    late = full[np.argsort(cut.last[full])][total - int(np.minimum(tally.counts, level).sum()) :]
    cut.last[late] -= np.uint64(1)
    return cut


@dataclass(frozen=True)
class _ScoreBins:
    """The rows that are not dropped as the hardest, in the bins of `stratified`."""

    dropped: Cut
    lowest: Any
    highest: Any

    def __call__(self, rows: Rows) -> tuple[Chosen, NDArray[np.intp]]:
        chosen = np.flatnonzero(~self.dropped.takes(rows))
        return chosen, score_bins(rows.scores[chosen], self.lowest, self.highest)


def _tie_notes(survey: Survey, options: SelectionSettings, kept: Kept, n_kept: int) -> list[str]:
    """Warnings of ties at the cuts, in the words of `select`."""
    n, dtype, upper, dropped = len(survey.scan.table), survey.scan.table.dtype, kept.upper, kept.dropped
    if not isinstance(upper.order, ByScore) or constant_warning(float(survey.lowest), float(survey.highest), n):
        return []
    inside, outside = upper.tied
    if dropped is not None:  # what is dropped as the hardest is not kept
        inside = inside - np.where(dropped.low == upper.low, dropped.tied[0], 0)
    scores = upper.order.scores_at(upper.low, dtype)
    if not options.grouped:  # all classes are cut at the same score
        inside, outside, scores = inside.sum(keepdims=True), outside.sum(keepdims=True), scores[:1]
    notes = [tie_warning(Tie.of(inside, outside, scores), n_kept)]
    if dropped is not None:
        inside, outside = (numbers.sum(keepdims=True) for numbers in dropped.tied)
        tie = Tie.of(inside, outside, survey.scores_at(dropped.low)[:1])
        notes.append(tie_warning(tie, int(dropped.taken.sum()), dropping=True))
    return [note for note in notes if note is not None]
