"""Selection from tables of scores that do not fit in memory: the same examples, in memory that does not grow."""

from __future__ import annotations

from paredown.score_table import ScoreTable, open_table
from paredown.selection.streamed.streaming import select_streamed
from paredown.table_passes import Limits

__all__ = ["Limits", "ScoreTable", "open_table", "select_streamed"]
