"""Work on more rows than fit in memory."""

from __future__ import annotations

from paredown.selection.streamed.order import Limits
from paredown.selection.streamed.score_table import ScoreTable, open_table
from paredown.selection.streamed.selecting import STREAMED, StreamedSelection, select_streamed

__all__ = ["STREAMED", "Limits", "ScoreTable", "StreamedSelection", "open_table", "select_streamed"]
