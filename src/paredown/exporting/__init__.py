"""From a manifest to what a training job or a viewer reads: `EXPORTS` lists the forms."""

from __future__ import annotations

from paredown.exporting.content import Link
from paredown.exporting.export_job import EXPORTS, check_export, export

__all__ = ["EXPORTS", "Link", "check_export", "export"]
