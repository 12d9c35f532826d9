"""Several metrics of the same examples side by side: how alike they rank, what each would keep, and what each costs."""

from __future__ import annotations

from paredown.comparison.comparison_result import MetricComparison
from paredown.comparison.disputed_examples import DisputedExample
from paredown.comparison.metric_comparing import KEEP_FRACTIONS, compare
from paredown.comparison.metric_facts import MetricFacts

__all__ = ["KEEP_FRACTIONS", "DisputedExample", "MetricComparison", "MetricFacts", "compare"]
