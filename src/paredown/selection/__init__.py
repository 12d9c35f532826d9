"""From scores to kept examples: strategies, floors and quotas; `streamed` for tables larger than memory."""

from __future__ import annotations

from paredown.selection.floors import PAPER_BALANCE, Quota, balance_of_counts, balance_score, class_floors, class_quotas
from paredown.selection.selection import Selection, check_settings, select
from paredown.selection.strategies import STRATEGIES

__all__ = [
    "PAPER_BALANCE",
    "STRATEGIES",
    "Quota",
    "Selection",
    "balance_of_counts",
    "balance_score",
    "check_settings",
    "class_floors",
    "class_quotas",
    "select",
]
