"""What a file or folder is, in about ten lines: an output of paredown, finished or not, or a source of data.

Every kind of output has a function that returns facts, plain values for machines; `fact_lines.py` puts them into words.
"""

from __future__ import annotations

from paredown.describing.path_info import Info, info

__all__ = ["Info", "info"]
