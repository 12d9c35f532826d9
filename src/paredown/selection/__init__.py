"""From scores to kept examples: strategies, floors and quotas; `streamed` for tables larger than memory."""

from __future__ import annotations

from paredown.selection.floors import (
    PAPER_BALANCE,
    Quota,
    balance_of_counts,
    balance_score,
    class_floors,
    class_quotas,
    default_balance,
)
from paredown.selection.selecting import DEFAULT_MEMORY, select
from paredown.selection.selection import Selection
from paredown.selection.selection_settings import SelectionSettings
from paredown.selection.strategies import DROPPING, STRATEGIES
from paredown.selection.streamed import Limits, ScoreTable, open_table, select_streamed

__all__ = [
    "DEFAULT_MEMORY",
    "DROPPING",
    "PAPER_BALANCE",
    "STRATEGIES",
    "Limits",
    "Quota",
    "ScoreTable",
    "Selection",
    "SelectionSettings",
    "balance_of_counts",
    "balance_score",
    "class_floors",
    "class_quotas",
    "default_balance",
    "open_table",
    "select",
    "select_streamed",
]
