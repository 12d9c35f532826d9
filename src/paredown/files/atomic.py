"""Written whole or not at all: under a temporary name, flushed to the disk, then put in place in one step.

A run that is killed at any moment leaves the old file or folder, or the new one. Temporary names end in a suffix that
nobody else uses, so that what killed runs leave behind can be cleared away without touching anything else.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import re
import secrets
import shutil
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paredown.errors import PareError
from paredown.places import is_remote

TEMPORARY = re.compile(r"\..+\.[0-9a-f]{8}\.paredown-tmp", re.DOTALL)  # names of what is being written or deleted
MARK = ".paredown"  # the file in a folder that says that paredown wrote it; of a file, `.NAME.paredown` beside it
UNFINISHED = "unfinished"  # in the mark of a folder that is being sent to an object store
_SYNCED_ONE_BY_ONE = 1000  # files above which the whole disk is flushed instead


@contextmanager
def write_whole(
    path: Path, *, folder: bool = False, replace: bool = True, output: Path | None = None
) -> Iterator[Path]:
    """Give a temporary place to write to, which becomes `path` in one step when the block ends without an error.

    For files inside an output that is already one's own; `new_output` is for those that a user names. Whatever is at
    `path` is replaced, unless `replace` is False. Errors name the `output` that the file belongs to, and so does the
    temporary name of a file beside its output: whoever locks that clears both away.

    A place in an object store is written on this machine first, and then sent.
    """
    if is_remote(path):
        with _sent(path, folder=folder, replace=replace) as part:
            yield part
        return
    with clear_errors(output or path):
        path.parent.mkdir(parents=True, exist_ok=True)
        workspace = Path(os.path.abspath(_temporary(path, output)))  # in a relative name, libraries take ~ for a home
        workspace.mkdir()
        try:
            part = workspace / path.name
            if folder:
                part.mkdir()
            yield part
            _sync(part)
            _put_in_place(part, path, aside=workspace / "replaced", replace=replace)
            _sync_folder(path.parent)
        except FileNotFoundError as error:
            if workspace.exists():
                raise
            raise PareError(
                f"{output or path}: another run of the same work cleared away what this one was writing; run the same "
                "command again to go on."
            ) from error
        finally:
            shutil.rmtree(workspace, ignore_errors=True)


@contextmanager
def _sent(path: Any, *, folder: bool, replace: bool) -> Iterator[Path]:
    """A place on this machine, which is sent to an object store when the block ends without an error.

    Of a folder, an unfinished mark comes first, and its own mark last: until then it does not count as complete. What
    the folder held before and has no more is removed in between.
    """
    with tempfile.TemporaryDirectory(prefix="paredown-") as workspace:
        part = Path(workspace, path.name)
        if not folder:
            yield part
            if not replace:
                _check_absent(path)
            path.upload(part)
            return
        part.mkdir()
        yield part
        files = sorted((file for file in part.rglob("*") if file.is_file()), key=lambda file: file.name == MARK)
        names = [file.relative_to(part).as_posix() for file in files]
        begun = Path(workspace, "begun")
        old = {} if not path.exists() else {str(file.relative_to(path)): file for file in path.rglob("*")}
        listed = {name: {} for name in [*names, *(name for name, file in old.items() if file.is_file())]}
        begun.write_text(json.dumps({"paredown": "", UNFINISHED: True, "files": listed}) + "\n", encoding="utf-8")
        (path / MARK).upload(begun)
        for name, file in old.items():
            if file.is_file() and name != MARK:
                file.unlink()
        for name, file in zip(names, files, strict=True):
            (path / name).upload(file)


def remove_folder(folder: Path, *, output: Path | None = None) -> None:
    """Remove a folder of one's own: moved aside first, so that a kill never leaves half of it under its name.

    What belongs to an `output` beside it is moved to a temporary name of that, to be cleared away with its own.
    """
    if is_remote(folder):
        folder.rmtree(last=MARK)  # type: ignore[attr-defined]  # by which a killed run knows it for its own
        return
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


def clear_temporaries(folder: Path, name: str | None = None) -> list[Path]:
    """Remove what killed runs left in a folder under paredown's temporary names; return what was removed.

    With a `name`, only what belongs to that output. An exchange that was killed half-way is finished first. Only for
    those who hold the lock of the output: a live run writes under such a name.
    """
    removed = []
    if is_remote(folder):  # where there are none
        return removed
    for entry in sorted(folder.iterdir()) if folder.is_dir() else ():
        if not TEMPORARY.fullmatch(entry.name) or (name is not None and target_name(entry) != name):
            continue
        target = folder / target_name(entry)
        if (entry / "replaced").exists() and not target.exists():
            os.rename(entry / target.name if (entry / target.name).exists() else entry / "replaced", target)
        shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
        removed.append(entry)
    return removed


def _temporary(path: Path, output: Path | None = None) -> Path:
    beside_it = output is not None and os.path.abspath(output.parent) == os.path.abspath(path.parent)
    owner = output if output is not None and beside_it else path
    return path.with_name(f".{owner.name}.{secrets.token_hex(4)}.paredown-tmp")


def target_name(temporary: Path) -> str:
    """The name of the output that a temporary file or folder belongs to."""
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
UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP)


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
    if number in UNSUPPORTED:
        return False
    if number == errno.EEXIST:
        _check_absent(path)
    raise OSError(number, os.strerror(number), str(path))


def _check_absent(path: Path) -> None:
    if path.exists() or path.is_symlink():
        raise PareError(
            f"{path} was created by another program in the meantime; nothing was replaced. Choose another output."
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
        if error.errno not in UNSUPPORTED:
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
def clear_errors(path: Path) -> Iterator[None]:
    """Tell what went wrong with writing `path` by its own name; what went wrong with reading other files stays."""
    try:
        yield
    except OSError as error:
        elsewhere = error.filename is not None and not _lies_beside(error.filename, path)
        if error.errno not in _REASONS or elsewhere:
            raise
        what = _output_with(path)
        message = f"cannot write {what}: {_REASONS[error.errno]}; nothing was changed. Choose another output."
        raise PareError(message) from error


def _output_with(path: Path) -> Path:
    """The output that a path belongs to, which may be inside one that is being written under a temporary name."""
    growing = [part for part in path.parents if TEMPORARY.fullmatch(part.name)]
    return growing[-1].with_name(target_name(growing[-1])) if growing else path


def _lies_beside(name: Any, path: Path) -> bool:
    file, parent = os.path.abspath(os.fsdecode(name)), os.path.abspath(path.parent)
    return file == parent or file.startswith(os.path.join(parent, "")) or parent.startswith(os.path.join(file, ""))


def beside(path: Path, suffix: str) -> Path:
    """The hidden file or folder beside an output that belongs to it."""
    place = path if path.name not in ("", "..") or is_remote(path) else Path(os.path.abspath(path))
    if not place.name:
        raise PareError(f"{path} cannot be an output; name a new file or folder inside it.")
    return place.with_name(f".{place.name}{suffix}")
