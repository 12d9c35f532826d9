"""Outputs on disk: whose they are, who is writing them, and how they appear whole or not at all.

Everything that paredown writes goes through here, and four promises are kept here:

- **Whole.** What is written grows under a temporary name, is flushed to the disk, and then takes its place in one step,
  also in the place of another output. A run that is killed at any moment leaves the old output or the new one.
- **Own.** Only what carries paredown's mark is ever replaced or removed, and only when a user says so; a temporary name
  ends in a suffix that nobody else uses. An output never equals, contains or lies inside what it is made from.
- **One writer.** An output is locked by the run that writes it, and a second run is told whose it is. The lock is the
  operating system's, which takes it from a process that dies.
- **Clear errors.** A full disk or a read-only folder is told by the name of the output, not of a temporary file.
"""

from __future__ import annotations

import ctypes
import errno
import hashlib
import json
import os
import re
import secrets
import shutil
import socket
import sys
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from paredown.errors import PareError
from paredown.version import __version__

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
    "exchange_folder",
    "file_digest",
    "file_mark",
    "finished_request",
    "foreign_files",
    "is_busy",
    "is_file_mark",
    "is_own",
    "lock_file",
    "lock_is_held",
    "locked",
    "mark_of",
    "new_output",
    "parts_folder",
    "remove_folder",
    "write_whole",
]

MARK = ".paredown"  # the file in a folder that says that paredown wrote it; of a file, `.NAME.paredown` beside it
LOCK_SUFFIX = ".paredown-lock"
TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.paredown-tmp", re.DOTALL)  # names of what is being written or deleted
_LONGEST_NAME = 200  # bytes, so that temporary names, which are longer, fit into the 255 of most file systems
_SYNCED_ONE_BY_ONE = 1000  # files above which the whole disk is flushed instead
_LISTED_FILES = 10_000  # files of a folder up to which its mark lists them
_DIGESTED_BYTES = 2**30  # bytes of a folder up to which its mark has digests of its files


# --- written whole, or not at all ----------------------------------------------------------------------------------


@contextmanager
def write_whole(
    path: Path, *, folder: bool = False, replace: bool = True, output: Path | None = None
) -> Iterator[Path]:
    """Give a temporary place to write to, which becomes `path` in one step when the block ends without an error.

    For files inside an output that is already one's own; `new_output` is for those that a user names. Whatever is at
    `path` is replaced, unless `replace` is False. Errors name the `output` that the file belongs to, and so does the
    temporary name of a file beside its output: whoever locks that clears both away.
    """
    with _clear_errors(output or path):
        path.parent.mkdir(parents=True, exist_ok=True)
        workspace = _temporary(path, output)
        workspace.mkdir()
        try:
            part = workspace / path.name
            if folder:
                part.mkdir()
            yield part
            _sync(part)
            _put_in_place(part, path, aside=workspace / "replaced", replace=replace)
            _sync_folder(path.parent)
        finally:
            shutil.rmtree(workspace, ignore_errors=True)


def remove_folder(folder: Path, *, output: Path | None = None) -> None:
    """Remove a folder of one's own: moved aside first, so that a kill never leaves half of it under its name.

    What belongs to an `output` beside it is moved to a temporary name of that, to be cleared away with its own.
    """
    aside = _temporary(folder, output)
    try:
        os.rename(folder, aside)
    except FileNotFoundError:
        return
    try:
        shutil.rmtree(aside, ignore_errors=True)
    except BaseException:  # an interruption waits until it is gone; a second one does not
        shutil.rmtree(aside, ignore_errors=True)
        raise


def exchange_folder(new: Path, home: Path) -> None:
    """Put a complete folder where another one is, or may be, in one step, and remove that one."""
    workspace = _temporary(home)
    workspace.mkdir()
    try:
        _sync(new)
        _put_in_place(new, home, aside=workspace / "replaced", replace=True)
        _sync_folder(home.parent)
    finally:
        shutil.rmtree(workspace, ignore_errors=True)
    remove_folder(new, output=home)  # after an exchange this is the old one


def clear_below(folder: Path) -> None:
    """Remove what killed runs left in a folder that grows, and in the folders inside it: temporaries and dead locks.

    Only for those who hold the lock of the folder. An output in it that has a lock of its own, held by a run that is
    alive, is left alone.
    """
    for root, folders, files in os.walk(folder):
        here = Path(root)
        for name in files:
            if name.endswith(LOCK_SUFFIX) and not lock_is_held(here / name):
                (here / name).unlink(missing_ok=True)
        busy = {name for name in files if name.endswith(LOCK_SUFFIX) and (here / name).exists()}
        for target in sorted({_target_name(here / name) for name in folders + files if TEMPORARY.fullmatch(name)}):
            if lock_file(here / target).name not in busy:
                clear_temporaries(here, target)
        folders[:] = [name for name in folders if not TEMPORARY.fullmatch(name)]


def clear_temporaries(folder: Path, name: str | None = None) -> list[Path]:
    """Remove what killed runs left in a folder under paredown's temporary names; return what was removed.

    With a `name`, only what belongs to that output. An exchange that was killed half-way is finished first. Only for
    those who hold the lock of the output: a live run writes under such a name.
    """
    removed = []
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not TEMPORARY.fullmatch(entry.name) or (name is not None and _target_name(entry) != name):
            continue
        target = folder / _target_name(entry)
        if (entry / "replaced").exists() and not target.exists():
            os.rename(entry / target.name if (entry / target.name).exists() else entry / "replaced", target)
        shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        removed.append(entry)
    return removed


def _temporary(path: Path, output: Path | None = None) -> Path:
    owner = output if output is not None and output.parent == path.parent else path
    return path.with_name(f".{owner.name}.{secrets.token_hex(4)}.paredown-tmp")


def _target_name(temporary: Path) -> str:
    return temporary.name[1:].rsplit(".", 2)[0]


def _put_in_place(part: Path, path: Path, *, aside: Path, replace: bool) -> None:
    if not replace:
        if not _rename(part, path, _NO_REPLACE):
            _check_absent(path)  # where there is no such rename, the lock keeps other runs away
            os.rename(part, path)
    elif not part.is_dir() or not path.exists():
        os.replace(part, path)
    elif not _rename(part, path, _EXCHANGE):  # a folder cannot be renamed over another one
        os.rename(path, aside)  # killed here, the next run finishes: see `clear_temporaries`
        try:
            os.rename(part, path)
        except OSError:
            os.rename(aside, path)
            raise


_NO_REPLACE, _EXCHANGE = 1, 2  # flags of Linux's renameat2
_MACOS_FLAGS = {_NO_REPLACE: 4, _EXCHANGE: 2}  # of renamex_np
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


def _rename(part: Path, path: Path, flag: int) -> bool:
    """Rename with a promise that `os.rename` does not give; False where the system or the file system has no such."""
    here = -100  # AT_FDCWD
    try:
        library = ctypes.CDLL(None, use_errno=True)
        if sys.platform == "darwin":
            failed = library.renamex_np(os.fsencode(part), os.fsencode(path), _MACOS_FLAGS[flag])
        else:
            failed = library.renameat2(here, os.fsencode(part), here, os.fsencode(path), flag)
    except (AttributeError, OSError, TypeError):
        return False
    if not failed:
        return True
    number = ctypes.get_errno()
    if number in _UNSUPPORTED:
        return False
    if number == errno.EEXIST:
        _check_absent(path)
    raise OSError(number, os.strerror(number), str(path))


def _check_absent(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise PareError(
            f"{path} was made by someone else in the meantime; nothing was replaced. Choose another output."
        )


def _sync(part: Path) -> None:
    """Flush a file, or a folder with all that is in it, to the disk: a rename must not come before its content."""
    if part.is_file():
        _sync_file(part)
        return
    files, folders = [], [part]
    for root, subfolders, names in os.walk(part):
        files += [Path(root, name) for name in names]
        folders += [Path(root, name) for name in subfolders]
    if len(files) > _SYNCED_ONE_BY_ONE:
        os.sync()
        return
    for file in files:
        if not file.is_symlink():
            _sync_file(file)
    for folder in folders:
        _sync_folder(folder)


def _sync_file(file: Path) -> None:
    with file.open("rb") as stream:
        os.fsync(stream.fileno())


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere folders cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _UNSUPPORTED:
            raise
    finally:
        os.close(handle)


_REASONS: dict[int, str] = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "the file would be larger than the system allows",
    errno.EACCES: "writing there is not permitted",
    errno.EPERM: "writing there is not permitted",
    errno.EROFS: "the file system is read-only",
    errno.ENOTDIR: "a part of the path is not a folder",
    errno.ENAMETOOLONG: "the name is too long",
}


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    """Tell what went wrong with writing `path` by its own name; what went wrong with reading other files stays."""
    try:
        yield
    except OSError as error:
        elsewhere = error.filename is not None and not _lies_beside(error.filename, path)
        if error.errno not in _REASONS or elsewhere:
            raise
        what = _output_with(path)
        message = f"cannot write {what}: {_REASONS[error.errno]}; nothing was changed. Choose another output with -o."
        raise PareError(message) from error


def _output_with(path: Path) -> Path:
    """The output that a path belongs to, which may be inside one that is being written under a temporary name."""
    growing = [part for part in path.parents if TEMPORARY.fullmatch(part.name)]
    return growing[-1].with_name(_target_name(growing[-1])) if growing else path


def _lies_beside(name: Any, path: Path) -> bool:
    file, parent = os.path.abspath(os.fsdecode(name)), os.path.abspath(path.parent)
    return file == parent or file.startswith(os.path.join(parent, "")) or parent.startswith(os.path.join(file, ""))


# --- what a user names ---------------------------------------------------------------------------------------------


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
    if (path.exists() or path.is_symlink()) and not overwrite:
        instead = ", or replace it with --overwrite" if is_own(path) else "; paredown did not write it"
        raise PareError(f"{path} exists already; choose another output{instead}.")
    parent = next(p for p in path.absolute().parents if p.exists())
    if not parent.is_dir():
        raise PareError(f"cannot write {path}: {parent} is not a folder; choose another output with -o.")
    if not os.access(parent, os.W_OK):
        raise PareError(f"cannot write {path}: {parent} is read-only; choose another output with -o.")
    for existing in [path, *beside]:
        if existing.exists() or existing.is_symlink():
            _check_own(existing)


def check_apart(path: Path, sources: Iterable[str | Path], *, folder: bool = True) -> None:
    """Raise if an output equals, contains or lies inside anything it is made from, or the current folder."""
    out = Path(os.path.realpath(path))
    here = Path(os.path.realpath(os.curdir))
    if folder and (out == here or out in here.parents):
        where = "the current folder" if out == here else "a folder above the current one"
        raise PareError(f"{path} is {where}, which would be replaced as a whole; name a new folder inside it.")
    for source in sources:
        if not os.path.exists(source):
            continue
        real = Path(os.path.realpath(source))
        if out == real:
            raise PareError(f"{path} is also what is read ({source}); choose another output.")
        if out in real.parents:
            raise PareError(f"{path} contains what is read ({source}); choose an output outside of it.")
        if real in out.parents:
            raise PareError(f"{path} lies inside what is read ({source}); choose an output outside of it.")


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
            one, two = Path(os.path.realpath(path)), Path(os.path.realpath(other))
            if one == two or one in two.parents or two in one.parents:
                how = "the same place" if one == two else "inside one another"
                raise PareError(
                    f"{other} and {path} would both be written, and are {how}; give each a place of its own."
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
                (part / MARK).write_text(json.dumps(_mark(request) | _inventory(part)) + "\n", encoding="utf-8")
            elif _mark_inside(part) is None:
                replaced = [file_digest(path)] if path.exists() else []
                _write_companion(path, [file_digest(part), *replaced], request)
                beside = bool(replaced)
        if beside:
            _write_companion(path, [file_digest(path)], request)


# --- the mark ------------------------------------------------------------------------------------------------------


def is_own(path: Path) -> bool:
    """Whether paredown wrote a file or folder."""
    return mark_of(path) is not None


def mark_of(path: Path) -> dict[str, Any] | None:
    """What a file or folder says of having been written by paredown; None if it does not.

    Parquet files, models, recordings and encoders carry the mark inside, JSON documents as a key `paredown`.
    """
    if path.is_dir():
        return _read_mark(path / MARK) or _mark_of_earlier_folder(path)
    if not path.is_file():
        return None
    mark = _read_mark(file_mark(path))
    digests = [] if mark is None else mark.get("sha256", [])
    if mark is not None and digests and (digest := file_digest(path)) in digests:
        return mark if digest == digests[0] else _mark(None)  # the old content, if a kill came before the new one
    return _mark_inside(path)


def file_mark(path: Path) -> Path:
    """Where the mark of a file is that cannot carry one."""
    return _beside(path, MARK)


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def finished_request(path: Path) -> str | None:
    """The `request` of the run that finished an output; None where there is none, or where files of it are gone."""
    mark = mark_of(path) if path.exists() else None
    if mark is None or (path.is_dir() and not _is_complete(path, mark)):
        return None
    return mark.get("request")


def _is_complete(folder: Path, mark: dict[str, Any]) -> bool:
    """Whether every file of an output is there, in its size; `paredown verify` reads them too."""
    sizes = _sizes(folder)
    if "names" in mark:
        return _names_digest(sizes) == mark["names"]
    return all(
        sizes.get(name) == noted.get("bytes", sizes.get(name, -1)) for name, noted in mark.get("files", {}).items()
    )


def is_file_mark(file: Path) -> bool:
    """Whether a file is the mark of another one, and not only named like it."""
    return file.is_file() and "sha256" in (_read_mark(file) or {})


def claim_folder(folder: Path, kind: str, *, earlier: Iterable[str] = ()) -> None:
    """Make a folder that grows over several runs one's own, or raise if it is someone else's.

    Args:
        folder: which may hold nothing, or what an earlier run put there under its lock.
        kind: what it holds, such as `sweep`: a folder of another kind is refused.
        earlier: names of JSON documents by which a folder of this kind is known that has no mark yet.
    """
    check_apart(folder, ())
    if folder.exists() and not folder.is_dir():
        raise PareError(f"{folder} is a file, but a folder would be written there; choose another output.")
    mark = _read_mark(folder / MARK)
    if mark is not None and mark.get("kind") == kind:
        return
    if mark is not None and mark.get("kind") is not None:
        raise PareError(f"{folder} holds {_a(mark['kind'])}, not {_a(kind)}; choose another output.")
    known = any(_is_earlier_record(folder / name, kind) for name in earlier)
    if folder.exists() and not known and any(not TEMPORARY.fullmatch(item.name) for item in folder.iterdir()):
        raise PareError(f"{folder} exists already and is not {_a(kind)} of paredown; choose another output.")
    with write_whole(folder / MARK, output=folder) as part:
        part.write_text(json.dumps(_mark(None) | {"kind": kind}) + "\n", encoding="utf-8")


def _a(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"


def _mark(request: str | None) -> dict[str, Any]:
    return {"paredown": __version__} | ({} if request is None else {"request": request})


def _read_mark(file: Path) -> dict[str, Any] | None:
    try:
        mark = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return mark if isinstance(mark, dict) and "paredown" in mark else None


# A key that the record of such a folder has; others have `paredown`.
_EARLIER_KEYS = {"set of figures": "figure", "unfinished training": "rows"}


def _is_earlier_record(file: Path, kind: str) -> bool:
    try:
        record = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return isinstance(record, dict) and _EARLIER_KEYS.get(kind, "paredown") in record


def _inventory(folder: Path) -> dict[str, Any]:
    """What is in a folder: a size and a digest of every file, as far as they are not too many or too large."""
    files = _files_in(folder)
    sizes = _sizes(folder)
    if len(files) > _LISTED_FILES:
        return {"count": len(files), "names": _names_digest(sizes)}
    digested = sum(sizes.values()) <= _DIGESTED_BYTES
    return {
        "files": {
            name: {"bytes": sizes[name]} | ({"sha256": file_digest(file)} if digested and not file.is_symlink() else {})
            for name, file in zip(sizes, files, strict=True)
        }
    }


def _files_in(folder: Path) -> list[Path]:
    """Every file and link of an output but its mark, in a fixed order."""
    found = (file for file in folder.rglob("*") if not file.is_dir() or file.is_symlink())
    return sorted((file for file in found if file != folder / MARK), key=os.fsencode)


def _sizes(folder: Path) -> dict[str, int]:
    return {_name_in(folder, file): file.lstat().st_size for file in _files_in(folder)}


def _name_in(folder: Path, file: Path) -> str:
    return os.fsencode(file.relative_to(folder)).decode("utf-8", "backslashreplace")


def _names_digest(sizes: dict[str, int]) -> str:
    return hashlib.sha256("".join(f"{name}\0{size}\n" for name, size in sizes.items()).encode()).hexdigest()


def _write_companion(path: Path, digests: list[str], request: str | None) -> None:
    """The mark of a file: with the digest of the content and, until that has taken its place, of what it replaces."""
    with write_whole(file_mark(path), output=path) as mark:
        mark.write_text(json.dumps(_mark(request) | {"sha256": digests}) + "\n", encoding="utf-8")


def _check_own(path: Path) -> None:
    """Raise unless paredown wrote what is at `path`, in one run, and nobody added to it or changed it."""
    mark = None if path.is_symlink() else mark_of(path)
    if mark is None:
        raise PareError(
            f"{path} was not written by paredown, and is never replaced; move it away, or choose another output."
        )
    if path.is_dir() and mark.get("kind") is not None:
        raise PareError(
            f"{path} holds {_a(mark['kind'])}, which is not replaced by anything else; move it away, or choose another "
            "output."
        )
    foreign = [*foreign_files(path, mark), *_changed_files(path, mark)] if path.is_dir() else []
    if foreign:
        few = ", ".join(foreign[:3]) + (f" and {len(foreign) - 3} more" if len(foreign) > 3 else "")
        raise PareError(
            f"{path} holds what paredown did not write ({few}), which would be lost; move it away, or choose another "
            "output."
        )


def foreign_files(folder: Path, mark: dict[str, Any]) -> list[str]:
    """The files in an output that are not paredown's own, by its mark."""
    present = _sizes(folder)
    if "files" in mark:
        return [name for name in present if name not in mark["files"]]
    if "count" in mark and len(present) > mark["count"]:
        return [f"{len(present) - mark['count']:,} files more than were written"]
    if "names" in mark and _names_digest(present) != mark["names"]:
        return ["files of other names or sizes than were written"]
    return []


def _changed_files(folder: Path, mark: dict[str, Any]) -> list[str]:
    """The files of an output that are not as they were written: someone's work may be in them."""
    return [
        f"{name}, which was changed"
        for name, size in _sizes(folder).items()
        if (noted := mark.get("files", {}).get(name))
        and (
            noted.get("bytes", size) != size
            or ("sha256" in noted and ((folder / name).is_symlink() or file_digest(folder / name) != noted["sha256"]))
        )
    ]


_EARLIER_MANIFEST = ("manifest.parquet", "manifest.json", "classes.csv")


def _mark_of_earlier_folder(folder: Path) -> dict[str, Any] | None:
    """Folders of `prune` from before there were marks are known by their manifest."""
    if not is_own(folder / _EARLIER_MANIFEST[0]):
        return None
    return {"paredown": "", "files": {name: {} for name in _EARLIER_MANIFEST if (folder / name).exists()}}


def _mark_inside(path: Path) -> dict[str, Any] | None:
    """The mark of a format that can carry one."""
    try:
        with path.open("rb") as stream:
            start = stream.read(4)
        if path.suffix == ".json":
            return _read_mark(path)
        if start == b"PAR1":
            return _mark_of_table(path)
        if start == b"PK\3\4":
            return _mark_of_arrays(path)
        return _mark_of_encoder(path) if path.suffix == ".onnx" else None
    except Exception:  # whatever a library says of a file that it cannot read, the file is not paredown's
        return None


def _mark_of_table(path: Path) -> dict[str, Any] | None:
    import pyarrow.parquet as pq

    record = (pq.read_schema(path).metadata or {}).get(b"paredown")
    return None if record is None else {"paredown": ""} | json.loads(record)


def _mark_of_arrays(path: Path) -> dict[str, Any] | None:
    """Models and recordings have a JSON document among their arrays that names their format."""
    import numpy as np

    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:  # numpy leaves a bad zip open
        for name in {"header", "record"} & set(arrays.files):
            record = json.loads(str(arrays[name]))
            if str(record["format"]).startswith("paredown"):
                return {"paredown": ""} | record
    return None


def _mark_of_encoder(path: Path) -> dict[str, Any] | None:
    """An encoder that paredown trained says how in its metadata, which are at the end of the file."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - 2**20))
        return {"paredown": ""} if b"paredown.training" in stream.read() else None


# --- one writer ----------------------------------------------------------------------------------------------------

_held: dict[Path, tuple[int, int]] = {}  # locks of this process: the thread that has it, and how many times over
_held_guard = threading.Lock()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Be the only run that writes `path` while the block lasts; others are told whose it is.

    The lock is a hidden file beside the output, held by the operating system for this process and freed when that dies,
    however it dies. What a killed run left of the same output is cleared away. A thread may lock an output again.
    """
    path = Path(os.path.realpath(path))  # by whatever links it is reached
    mine = threading.get_ident()
    with _held_guard:
        thread, times = _held.get(path, (mine, 0))
        if thread != mine:
            raise PareError(f"{path} is being written by another thread of this process; wait for it to end.")
        _held[path] = (mine, times + 1)
    try:
        if times:
            yield
        else:
            with _locked_by_system(path):
                yield
    finally:
        with _held_guard:
            if times:
                _held[path] = (mine, times)
            else:
                del _held[path]


@contextmanager
def _locked_by_system(path: Path) -> Iterator[None]:
    made = [folder for folder in path.parents if not folder.exists()]
    file = lock_file(path)
    with _clear_errors(path):
        handle = _acquire(file, path)
    try:
        clear_temporaries(path.parent, path.name)
        yield
    finally:
        file.unlink(missing_ok=True)  # while it is still held, so that nobody waits for a file that is gone
        os.close(handle)
        for folder in made:  # those that nothing came into
            try:
                folder.rmdir()
            except OSError:
                break


def _acquire(file: Path, path: Path) -> int:
    while True:
        handle = _open_lock(file)
        if not _lock_handle(handle):
            owner = _owner(handle)
            os.close(handle)
            raise PareError(f"{path} is being written by {owner}; wait for it to end, or choose another output.")
        try:
            current = os.stat(file).st_ino == os.fstat(handle).st_ino
        except FileNotFoundError:
            current = False
        if current:
            break
        os.close(handle)  # its owner removed it in between
    owner = {"process": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
    with suppress(OSError):  # it is held all the same; a full disk is told where the output is written
        os.truncate(handle, 0)
        os.pwrite(handle, json.dumps(owner).encode(), 0)
    return handle


def _open_lock(file: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)  # nobody's file is emptied
    for _ in range(100):
        try:
            file.parent.mkdir(parents=True, exist_ok=True)
            return os.open(file, flags, 0o666)
        except FileNotFoundError:  # a run that had made the folder removed it in between, as nothing had come into it
            continue
    return os.open(file, flags, 0o666)


def _lock_handle(handle: int) -> bool:
    try:
        import fcntl
    except ImportError:  # Windows
        import msvcrt

        try:
            msvcrt.locking(handle, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in _UNSUPPORTED:  # a file system without locks: two runs at once are not noticed there
            return True
        raise
    return True


def _owner(handle: int) -> str:
    try:
        owner = json.loads(os.pread(handle, 4096, 0))
        return f"another run (process {owner['process']} on {owner['host']}, since {owner['since']})"
    except (ValueError, KeyError, TypeError):
        return "another run"


def lock_file(path: Path) -> Path:
    """The file by which an output is locked."""
    return _beside(path, LOCK_SUFFIX)


def lock_is_held(file: Path) -> bool:
    """Whether a lock file belongs to a run that is alive."""
    if not file.is_file():
        return False
    try:
        handle = os.open(file, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        return not _lock_handle(handle)
    finally:
        os.close(handle)


def is_busy(folder: Path) -> bool:
    """Whether a run that is alive writes a folder, or one that it is in."""
    place = Path(os.path.realpath(folder))
    return any(lock_is_held(lock_file(part)) for part in (place, *place.parents) if part.name)


def parts_folder(path: Path) -> Path:
    """Where the finished parts of an output are kept until it is complete."""
    return _beside(path, ".parts")


def _beside(path: Path, suffix: str) -> Path:
    """The hidden file or folder beside an output that belongs to it."""
    place = path if path.name not in ("", "..") else Path(os.path.abspath(path))
    if not place.name:
        raise PareError(f"{path} cannot be an output; name a new file or folder inside it.")
    return place.with_name(f".{place.name}{suffix}")
