"""What killed runs left behind, under paredown's own temporary names: found, and removed if nobody needs it."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from paredown.embeddings.store import replacement_of
from paredown.errors import PareError
from paredown.files import (
    LOCK_SUFFIX,
    MARK,
    TEMPORARY,
    file_mark,
    is_busy,
    is_file_mark,
    lock_file,
    lock_is_held,
    locked,
    mark_of,
    parts_folder,
    remove_folder,
)
from paredown.places import as_place
from paredown.sources.arrays import RECORD


@dataclass(frozen=True)
class Leftover:
    """Something that a killed run left behind."""

    path: Path
    what: str
    resumable: bool  # the same command would go on from it
    removed: bool


def clean(path: str | Path, *, unfinished: bool = False, dry_run: bool = False) -> list[Leftover]:
    """Remove what killed runs left in a folder, or of one output, under paredown's own names; say what.

    What belongs to a run that is alive is left alone. Finished parts, from which the same command would go on, are
    listed, and removed only if `unfinished`.

    Args:
        path: an output, which need not exist, or a folder that outputs are in.
        unfinished: also remove the finished parts of runs that were interrupted.
        dry_run: only say what would be removed.
    """
    path = as_place(path)
    inside = path.is_dir()
    if not inside and not path.parent.is_dir():
        raise PareError(f"{path}: there is no such file or folder.")
    found = [] if path.name in ("", "..") else list(_leftovers(path.parent, path.name))
    if inside:
        for root, folders, _ in os.walk(path):
            here = Path(root)
            folders[:] = [] if is_busy(here) else sorted(name for name in folders if not TEMPORARY.fullmatch(name))
            found += [] if is_busy(here) else list(_leftovers(here, None))
    leftovers = []
    for entry, what, resumable in dict.fromkeys(found):
        remove = (unfinished or not resumable) and not dry_run
        if remove:
            _remove(entry)
        leftovers.append(Leftover(entry, what, resumable, remove and not entry.exists()))
    if not leftovers and not path.exists():
        raise PareError(f"{path}: there is no such file or folder, and no leftovers of it.")
    return leftovers


def _leftovers(folder: Path, only: str | None) -> Iterator[tuple[Path, str, bool]]:
    """What is left in a folder, of the output of one name or of any: its path, what it is, whether a run can go on."""
    for entry in sorted(folder.iterdir()):
        name = _output_of(entry)
        if name is None or only not in (None, name):
            continue
        output = folder / name
        if lock_is_held(lock_file(output)):
            continue
        if TEMPORARY.fullmatch(entry.name):
            yield entry, "half-written", False
        elif entry.name.endswith(LOCK_SUFFIX) and entry.is_file() and not entry.is_symlink():
            yield entry, "the lock of a run that has ended", False
        elif entry == file_mark(output) and not output.exists() and is_file_mark(entry):
            yield entry, "the mark of a file that is gone", False
        elif entry == parts_folder(output) and (mark_of(entry) or {}).get("kind") == "unfinished run":
            yield entry, "finished parts of an interrupted run", True
        elif entry == replacement_of(output) and (entry / RECORD).exists():
            yield entry, "a store that was to replace another", True


def _output_of(entry: Path) -> str | None:
    """The name of the output that a hidden entry belongs to, by its name."""
    if not entry.name.startswith(".") or entry.name == MARK:
        return None
    if TEMPORARY.fullmatch(entry.name):
        return entry.name[1:].rsplit(".", 2)[0]
    for suffix in (LOCK_SUFFIX, MARK, ".parts", ".new"):
        if entry.name.endswith(suffix):
            return entry.name[1:].removesuffix(suffix)
    return None


def _remove(entry: Path) -> None:
    name = _output_of(entry)
    assert name is not None
    if TEMPORARY.fullmatch(entry.name) or entry.name.endswith(LOCK_SUFFIX):
        with locked(entry.with_name(name)):  # clears away what is half-written, or finishes an exchange
            pass
    elif entry.is_dir():
        remove_folder(entry)
    else:
        entry.unlink(missing_ok=True)
