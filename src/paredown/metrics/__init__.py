"""Metrics: how hard each example is. One file per idea, one entry per metric in `METRICS`."""

from __future__ import annotations

from paredown.metrics.base import Metric, Model
from paredown.metrics.registry import METRICS

__all__ = ["METRICS", "Metric", "Model"]
