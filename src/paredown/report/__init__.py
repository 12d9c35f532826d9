"""Reports: one static HTML file that people like to look at, of a manifest, of scores, or of a sweep."""

from __future__ import annotations

from paredown.report.writing import ReportSummary, write_report

__all__ = ["ReportSummary", "write_report"]
