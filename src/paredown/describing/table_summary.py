"""What a table of scores holds, in numbers a person can read; in memory that does not grow with its rows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.class_codes import ClassCodes
from paredown.ids import hash_ids
from paredown.progress import Track, silent
from paredown.score_table import ScoreTable
from paredown.selection.floors import balance_of_counts
from paredown.selection.streamed.sort_keys import ByScore
from paredown.selection.streamed.survey import Survey
from paredown.table_passes import Limits, Scan


@dataclass(frozen=True)
class Extreme:
    """One of the hardest or easiest examples."""

    id: Any
    score: float


@dataclass(frozen=True)
class TableSummary:
    """The scores of a table by one metric.

    Attributes:
        metric: whose scores they are.
        examples: how many rows.
        grouped_by: `label`, `cluster`, or None if there are neither.
        groups: how many classes or clusters.
        balance_score: the paper's b of them; None without any.
        lowest, median, highest: of the scores.
        hardest, easiest: in the order in which `select` would take them, ties broken by the same hash.
    """

    metric: str
    examples: int
    grouped_by: str | None
    groups: int
    balance_score: float | None
    lowest: float
    median: float
    highest: float
    hardest: tuple[Extreme, ...]
    easiest: tuple[Extreme, ...]


def summarize_table(
    table: ScoreTable, *, extremes: int = 5, seed: int = 0, limits: Limits | None = None, track: Track = silent
) -> TableSummary:
    """Range, median and extremes of an opened table in about five passes over its scores.

    Args:
        table: see `open_table`.
        extremes: how many of the hardest and easiest examples to name.
        seed: of the hash that breaks ties.
        limits: what bounds the memory.
        track: reports progress.
    """
    codes = ClassCodes(table)
    survey = Survey(Scan(table, codes, limits or Limits(), track), ByScore("hard", seed))
    n = len(table)
    median = survey.median()
    hardest, easiest = _extremes(survey, min(extremes, n))
    return TableSummary(
        metric=table.metric,
        examples=n,
        grouped_by=codes.grouped_by,
        groups=codes.number if codes.grouped_by else 0,
        balance_score=balance_of_counts(survey.rows) if codes.grouped_by else None,
        lowest=float(survey.lowest),
        median=float(median),
        highest=float(survey.highest),
        hardest=hardest,
        easiest=easiest,
    )


def _extremes(survey: Survey, number: int) -> tuple[tuple[Extreme, ...], tuple[Extreme, ...]]:
    """The first rows of the order and the last ones, which are those that all but a few places leave out."""
    scan, nothing = survey.scan, np.zeros_like(survey.rows)
    first, rest = (survey.cut(nothing, total) for total in (number, len(scan.table) - number))
    survey.find(first, rest)
    hard: list[tuple[int, float]] = []
    easy: list[tuple[int, float]] = []
    for rows in scan.rows("looking for extremes", ids=first.ids or rest.ids):
        for found, chosen in ((hard, first.takes(rows)), (easy, ~rest.takes(rows))):
            places = np.flatnonzero(chosen)
            found += zip((rows.block.first + places).tolist(), rows.scores[places].tolist(), strict=True)
    return _named(survey, hard), _named(survey, easy)[::-1]


def _named(survey: Survey, found: list[tuple[int, float]]) -> tuple[Extreme, ...]:
    """Rows with their ids, the hardest first; ties as `select` breaks them."""
    if not found:
        return ()
    rows: NDArray[np.int64] = np.array([row for row, _ in found])
    scores = np.array([score for _, score in found])
    ids = survey.scan.table.ids_at(rows)
    order = np.lexsort((hash_ids(ids, seed=survey.order.seed), -scores))
    return tuple(Extreme(ids.tolist()[place], float(scores[place])) for place in order.tolist())
