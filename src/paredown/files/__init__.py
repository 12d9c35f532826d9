"""Outputs on disk: whose they are, who is writing them, and how they appear whole or not at all.

Everything that paredown writes goes through here, and four promises are kept here:

- **Whole** (`atomic.py`). A run that is killed at any moment leaves the old output or the new one.
- **Own** (`marks.py`). Only what carries paredown's mark is ever replaced or removed, and only when a user says so. An
  output never equals, contains or lies inside what it is made from (`outputs.py`). Its own that is damaged is replaced
  too (`damage.py`).
- **One writer** (`locks.py`). Two runs cannot write one output, unless each does a share of the work.
- **Clear errors**. A full disk or a read-only folder is reported by the name of the output, not of a temporary file.
"""

from __future__ import annotations

from paredown.files.atomic import TEMPORARY, clear_temporaries, exchange_folder, remove_folder, write_whole
from paredown.files.damage import is_damaged
from paredown.files.locks import LOCK_SUFFIX, clear_below, is_busy, lock_file, lock_is_held, locked, locked_together
from paredown.files.marks import (
    MARK,
    damages,
    file_digest,
    file_mark,
    finished_request,
    foreign_files,
    is_file_mark,
    is_own,
    is_unfinished,
    mark_of,
    mv,
)
from paredown.files.outputs import (
    check_all_apart,
    check_apart,
    check_distinct,
    check_output,
    claim_folder,
    damaged_output,
    new_output,
    parts_folder,
)

__all__ = [
    "LOCK_SUFFIX",
    "MARK",
    "TEMPORARY",
    "check_all_apart",
    "check_apart",
    "check_distinct",
    "check_output",
    "claim_folder",
    "clear_below",
    "clear_temporaries",
    "damaged_output",
    "damages",
    "exchange_folder",
    "file_digest",
    "file_mark",
    "finished_request",
    "foreign_files",
    "is_busy",
    "is_damaged",
    "is_file_mark",
    "is_own",
    "is_unfinished",
    "lock_file",
    "lock_is_held",
    "locked",
    "locked_together",
    "mark_of",
    "mv",
    "new_output",
    "parts_folder",
    "remove_folder",
    "write_whole",
]
