"""What a table of scores holds, in numbers a person can read; in memory that does not grow with its rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.ids import hash_ids
from paredown.progress import Track, silent
from paredown.selection.floors import balance_of_counts
from paredown.selection.strategies import median_of
from paredown.selection.streamed.class_codes import ClassCodes
from paredown.selection.streamed.narrowing import Cut, Question, find_cut
from paredown.selection.streamed.score_table import ScoreTable
from paredown.selection.streamed.sort_keys import Limits, Order, Scan
from paredown.selection.streamed.streaming import Survey, survey_scores


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
    """Range, median and extremes of an opened table in about six passes over its scores.

    Args:
        table: see `open_table`.
        extremes: how many of the hardest and easiest examples to name.
        seed: of the hash that breaks ties.
        limits: what bounds the memory.
        track: reports progress.
    """
    codes = ClassCodes(table)
    survey = survey_scores(Scan(table, codes, limits or Limits(), track), Order("hard", seed))
    n = len(table)
    middle = [survey.score_at(place) for place in sorted({(n - 1) // 2, n // 2})]
    hardest, easiest = _extremes(survey, min(extremes, n))
    return TableSummary(
        metric=table.metric,
        examples=n,
        grouped_by=codes.grouped_by,
        groups=codes.number if codes.grouped_by else 0,
        balance_score=balance_of_counts(survey.counts) if codes.grouped_by else None,
        lowest=float(survey.ends[0]),
        median=float(median_of(np.array(middle))),
        highest=float(survey.ends[1]),
        hardest=hardest,
        easiest=easiest,
    )


def _extremes(survey: Survey, number: int) -> tuple[tuple[Extreme, ...], tuple[Extreme, ...]]:
    """The first rows of the order and the last ones, which are those that all but a few places leave out."""
    n, nothing = len(survey.scan.table), np.zeros_like(survey.counts)
    question = replace(Question(survey.scan, survey.order), grouped=False)

    def cut(total: int) -> Cut | None:
        return find_cut(question, survey.histogram, nothing, total) if total else None

    first, rest = cut(number), cut(n - number)
    ids = any(each is not None and each.ids for each in (first, rest))
    hard: list[tuple[int, float]] = []
    easy: list[tuple[int, float]] = []
    for rows in survey.scan.rows("looking for extremes", ids=ids):
        nobody = np.zeros(len(rows), bool)
        for found, chosen in (
            (hard, nobody if first is None else first.keeps(rows)),
            (easy, ~nobody if rest is None else ~rest.keeps(rows)),
        ):
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
    ties = survey.order.ties(hash_ids(ids, seed=survey.order.seed))
    order = np.lexsort((ties, -scores))
    return tuple(Extreme(ids.tolist()[place], float(scores[place])) for place in order.tolist())
