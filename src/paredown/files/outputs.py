"""What a user names as an output: checked before long work begins, and written whole, marked and locked."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from paredown.errors import PareError, argument
from paredown.files.atomic import TEMPORARY, beside, write_whole
from paredown.files.locks import locked
from paredown.files.marks import (
    MARK,
    _mark_inside,
    check_own,
    damages,
    file_digest,
    inventory,
    is_own,
    is_unfinished,
    new_mark,
    read_mark,
    was_own,
    write_companion,
)
from paredown.places import StorageError, as_place, is_remote, real
from paredown.text import encodable, few, with_article

_LONGEST_NAME = 200  # bytes, so that temporary names, which are longer, fit into the 255 of most file systems


def check_output(
    path: Path,
    *,
    overwrite: bool = False,
    folder: bool = False,
    sources: Iterable[str | Path] = (),
    beside: Iterable[Path] = (),
) -> None:
    """Raise if `path` could not be written, without writing anything: called before long work.

    Args:
        path: the output.
        overwrite: whether it may replace an earlier one, if that is paredown's own.
        folder: whether it is to be a folder.
        sources: files and folders it is made from, which it must stay clear of.
        beside: further files that are written with it.
    """
    check_apart(path, sources, folder=folder)
    if len(os.fsencode(path.name)) > _LONGEST_NAME:
        raise PareError(f"the name of {path} is too long; choose one of at most {_LONGEST_NAME} bytes.")
    if path.exists() and path.is_dir() != folder:
        is_, needed = ("file", "folder") if folder else ("folder", "file")
        raise PareError(f"{path} is a {is_}, but a {needed} would be written there; choose another output.")
    if (path.exists() or path.is_symlink()) and not overwrite and not is_unfinished(path):
        instead = (
            f", or replace it with {argument('overwrite', True)}"
            if is_own(path) or was_own(path)
            else "; paredown did not write it"
        )
        if broken := damages(path):
            raise damaged_output(path, broken)
        raise PareError(f"{path} already exists; choose another output{instead}.")
    _check_parent(path)
    for existing in [path, *beside]:
        if existing.exists() or existing.is_symlink():
            check_own(existing)


def damaged_output(path: Path, broken: list[str]) -> PareError:
    """What to say of an output whose files are not as they were written."""
    return PareError(
        f"{path} is not as it was written: {few(broken)}. Make it again with {argument('overwrite', True)}, or choose "
        "another output; `paredown verify` checks all of it."
    )


def _check_parent(path: Path) -> None:
    """Raise if nothing can be written where `path` would be."""
    if is_remote(path):
        path.check_bucket()  # type: ignore[attr-defined]
        return
    parent = next(p for p in path.absolute().parents if p.exists())
    if not parent.is_dir():
        raise PareError(f"cannot write {path}: {parent} is not a folder; choose another output.")
    if not os.access(parent, os.W_OK):
        raise PareError(f"cannot write {path}: {parent} is read-only; choose another output.")


def check_apart(path: Path, sources: Iterable[str | Path], *, folder: bool = True) -> None:
    """Raise if an output equals, contains or lies inside anything it is made from, or the current folder."""
    if encodable(str(path)) != str(path):  # Parquet files and JSON could not name it
        raise PareError(f"{path}: the name of an output must be UTF-8; choose another one.")
    out, here = real(path), real(os.curdir)
    if folder and (out == here or out in here.parents):
        where = "the current folder" if out == here else "a folder above the current one"
        raise PareError(f"{path} is {where}, which would be replaced as a whole; name a new folder inside it.")
    for source in sources:
        read = as_place(source)
        if not is_remote(read) and not read.exists():
            continue
        read = real(read)
        if out == read:
            raise PareError(f"{path} is also an input ({source}); choose another output.")
        if out in read.parents:
            raise PareError(f"{path} contains an input ({source}); choose an output outside it.")
        if read in out.parents:
            raise PareError(f"{path} is inside an input ({source}); choose an output outside it.")


def check_all_apart(outputs: Iterable[Path | None], sources: Iterable[str | Path | None]) -> None:
    """Raise if any output of a run, files and folders that are given, touches any file or folder that it reads."""
    given = [source for source in sources if source is not None]
    for output in outputs:
        if output is not None:
            check_apart(output, given, folder=False)


def check_distinct(*outputs: Path | None) -> None:
    """Raise if two outputs of one run are the same, or one lies inside another."""
    given = [path for path in outputs if path is not None]
    for number, path in enumerate(given):
        for other in given[:number]:
            one, two = real(path), real(other)
            if one == two or one in two.parents or two in one.parents:
                how = "the same place" if one == two else "inside one another"
                raise PareError(
                    f"{other} and {path} would both be written, and are {how}; write them to different places."
                )


@contextmanager
def new_output(
    path: Path,
    *,
    overwrite: bool = False,
    folder: bool = False,
    sources: Iterable[str | Path] = (),
    request: str | None = None,
) -> Iterator[Path]:
    """Give a temporary place to write an output to, which becomes `path` when the block ends without an error.

    An existing output is refused unless `overwrite`, and is then replaced only if it is paredown's own, and only once
    the new one is complete.

    Args:
        path, overwrite, folder, sources: see `check_output`.
        request: a hash of all that the output depends on, by which a later run finds it finished.
    """
    sources = tuple(sources)
    check_output(path, overwrite=overwrite, folder=folder, sources=sources)
    with locked(path):
        check_output(path, overwrite=overwrite, folder=folder, sources=sources)  # as the last run left it
        beside = False
        with write_whole(path, folder=folder, replace=overwrite) as part:
            yield part
            if overwrite:  # or the rename itself finds what others put there in the meantime
                check_output(path, overwrite=True, folder=folder, sources=sources)
            if folder:
                (part / MARK).write_text(json.dumps(new_mark(request) | inventory(part)) + "\n", encoding="utf-8")
            elif _mark_inside(part) is None:
                replaced = [file_digest(path)] if path.exists() else []
                write_companion(path, [file_digest(part), *replaced], request)
                beside = bool(replaced)
        if beside:
            write_companion(path, [file_digest(path)], request)


def claim_folder(folder: Path, kind: str, *, earlier: Iterable[str] = ()) -> None:
    """Make a folder that grows over several runs one's own, or raise if it is someone else's.

    Args:
        folder: which may hold nothing, or what an earlier run put there under its lock.
        kind: what it holds, such as `sweep`: a folder of another kind is refused.
        earlier: names of JSON documents by which a folder of this kind is known that has no mark yet.
    """
    check_apart(folder, ())
    if is_remote(folder):
        _check_parent(folder)
    if folder.exists() and not folder.is_dir():
        raise PareError(f"{folder} is a file, but a folder would be written there; choose another output.")
    mark = read_mark(folder / MARK)
    if mark is not None and mark.get("kind") == kind:
        return
    if mark is not None and mark.get("kind") is not None:
        raise PareError(
            f"{folder} holds {with_article(mark['kind'])}, not {with_article(kind)}; choose another output."
        )
    known = any(_is_earlier_record(folder / name, kind) for name in earlier)
    if folder.exists() and not known and any(not TEMPORARY.fullmatch(item.name) for item in folder.iterdir()):
        raise PareError(f"{folder} already exists and is not {with_article(kind)} of paredown; choose another output.")
    with write_whole(folder / MARK, output=folder) as part:
        part.write_text(json.dumps(new_mark(None) | {"kind": kind}) + "\n", encoding="utf-8")


# A key that the record of such a folder has; others have `paredown`.
_EARLIER_KEYS = {"set of figures": "figure", "unfinished training": "rows"}


def _is_earlier_record(file: Path, kind: str) -> bool:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except StorageError:
        raise
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and _EARLIER_KEYS.get(kind, "paredown") in record


def parts_folder(path: Path) -> Path:
    """Where the finished parts of an output are kept until it is complete."""
    return beside(path, ".parts")
