"""Work on more rows than fit in memory."""

from __future__ import annotations

from paredown.scale.order import Limits
from paredown.scale.selecting import STREAMED, StreamedSelection, select_streamed
from paredown.scale.tables import ScoreTable, open_table

__all__ = ["STREAMED", "Limits", "ScoreTable", "StreamedSelection", "open_table", "select_streamed"]
