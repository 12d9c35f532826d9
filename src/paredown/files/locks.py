"""One writer: an output is locked by the run that writes it, and a second run is told whose it is.

Runs that do shares of one work hold the lock together; one that writes alone is kept away until all of them have ended,
and they while it runs. The lock is the operating system's, which takes it from a process that dies, however it dies.
"""

from __future__ import annotations

import errno
import json
import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from paredown.errors import PareError
from paredown.files.atomic import TEMPORARY, UNSUPPORTED, beside, clear_errors, clear_temporaries, target_name
from paredown.places import is_remote, real

LOCK_SUFFIX = ".paredown-lock"
_PATIENCE = 2.0  # seconds that a share waits for another one, which may be just about to end


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
        for target in sorted({target_name(here / name) for name in folders + files if TEMPORARY.fullmatch(name)}):
            if lock_file(here / target).name not in busy:
                clear_temporaries(here, target)
        folders[:] = [name for name in folders if not TEMPORARY.fullmatch(name)]


_held: dict[Path, tuple[int, int]] = {}  # locks of this process: the thread that has it, and how many times over
_held_guard = threading.Lock()


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """Be the only run that writes `path` while the block lasts; others are told whose it is.

    The lock is a hidden file beside the output, held by the operating system for this process and freed when that dies,
    however it dies. What a killed run left of the same output is cleared away. A thread may lock an output again.
    Outputs in object stores are not locked.
    """
    path = real(path)
    if is_remote(path):  # nothing is locked there, and need not be: two runs of one command write the same objects
        yield
        return
    mine = threading.get_ident()
    with _held_guard:
        thread, times = _held.get(path, (mine, 0))
        if thread != mine:
            raise PareError(f"{path} is being written by another thread of this process; wait for it to finish.")
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
def locked_together(path: Path) -> Iterator[None]:
    """Be one of the runs that write `path` side by side while the block lasts; one that writes it alone is kept away.

    What killed runs left is not cleared away: it might be what another one is writing. Outputs in object stores are not
    locked, nor any on Windows, which has no such locks.
    """
    path = real(path)
    if is_remote(path) or os.name != "posix":
        yield
        return
    with _locked_by_system(path, together=True):
        yield


@contextmanager
def _locked_by_system(path: Path, *, together: bool = False) -> Iterator[None]:
    made = [folder for folder in path.parents if not folder.exists()]
    file = lock_file(path)
    with clear_errors(path):
        handle = _acquire(file, path, together=together)
    try:
        if not together:
            clear_temporaries(path.parent, path.name)
        yield
    finally:
        if not together or _lock_handle(handle):  # the last one to leave
            file.unlink(missing_ok=True)  # while it is still held, so that nobody waits for a file that is gone
        os.close(handle)
        for folder in made:  # those that nothing came into
            try:
                folder.rmdir()
            except OSError:
                break


def _acquire(file: Path, path: Path, *, together: bool) -> int:
    patient_until = time.monotonic() + (_PATIENCE if together else 0)
    while True:
        handle = _open_lock(file)
        if not _lock_handle(handle, together=together):
            owner = _owner(handle)
            os.close(handle)
            if time.monotonic() < patient_until:
                time.sleep(0.02)
                continue
            raise PareError(f"{path} is being written by {owner}, or choose another output.")
        try:
            current = os.stat(file).st_ino == os.fstat(handle).st_ino
        except FileNotFoundError:
            current = False
        if current:
            break
        os.close(handle)  # its owner removed it in between
    since = time.strftime("%Y-%m-%d %H:%M:%S")
    owner = {"process": os.getpid(), "host": socket.gethostname(), "since": since, "together": together}
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


def _lock_handle(handle: int, *, together: bool = False) -> bool:
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
        fcntl.flock(handle, (fcntl.LOCK_SH if together else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        if error.errno in (*UNSUPPORTED, errno.ENOLCK):  # no locks, as on some NFS: two runs at once are not noticed
            return True
        raise
    return True


def _owner(handle: int) -> str:
    try:
        owner = json.loads(os.pread(handle, 4096, 0))
        run = f"process {owner['process']} on {owner['host']}, since {owner['since']}"
        if owner.get("together"):
            return (
                f"runs that do shares of the work (the last to begin: {run}); wait for all of them to finish, and join "
                "what they wrote with `paredown merge`"
            )
        return f"another run ({run}); wait for it to finish"
    except (ValueError, KeyError, TypeError):
        return "another run; wait for it to finish"


def lock_file(path: Path) -> Path:
    """The file by which an output is locked."""
    return beside(path, LOCK_SUFFIX)


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
    place = real(folder)
    return any(lock_is_held(lock_file(part)) for part in (place, *place.parents) if part.name)
