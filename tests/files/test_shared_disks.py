"""File systems that machines share: what some of them lack is done without, and nothing else changes."""

from __future__ import annotations

import errno
import fcntl
import os
import stat
from pathlib import Path

import numpy as np
import pytest

import paredown as pdn
from paredown.errors import PareError
from paredown.files import atomic, lock_file, lock_is_held, locked
from paredown.scoring.ranged_scoring import merge, score_ranges


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("number", [errno.ENOLCK, errno.ENOSYS, errno.ENOTSUP, errno.EINVAL])
def test_without_locks_special_renames_and_synced_folders(tmp_path, rng, monkeypatch, number) -> None:
    source = tmp_path / "rows.npy"
    np.save(source, rng.normal(size=(500, 8)).astype(np.float32))
    monkeypatch.setattr("paredown.sources.row_ranges.rows_per_range", lambda dim, *, rows=0: 128)
    score_ranges(source, out=tmp_path / "local" / "scores", k=4)
    pdn.prune(tmp_path / "local" / "scores", keep_fraction=0.5, out=tmp_path / "local" / "pruned")
    fsync = os.fsync

    def lacks(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    def syncs_files(handle: int) -> None:
        lacks() if stat.S_ISDIR(os.fstat(handle).st_mode) and number in atomic.UNSUPPORTED else fsync(handle)

    monkeypatch.setattr(fcntl, "flock", lacks)
    monkeypatch.setattr(os, "fsync", syncs_files)
    monkeypatch.setattr(atomic, "_rename", lambda *_: False)  # what `renameat2` without support comes to
    shared = tmp_path / "shared"
    for share in (1, 2):
        score_ranges(source, out=shared / "scores", k=4, shard=f"{share}/2")
    merge(shared / "scores")
    pdn.prune(tmp_path / "local" / "scores", keep_fraction=0.3, out=shared / "pruned")
    pdn.prune(tmp_path / "local" / "scores", keep_fraction=0.5, out=shared / "pruned", overwrite=True)
    assert contents(shared) == contents(tmp_path / "local")
    assert not lock_is_held(lock_file(shared / "pruned"))


def test_another_failure_to_lock_is_told(tmp_path, monkeypatch) -> None:
    def denied(*_: object) -> None:
        raise OSError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(fcntl, "flock", denied)
    with (
        pytest.raises(PareError, match=r"cannot write .*out: writing there is not permitted"),
        locked(tmp_path / "out"),
    ):
        pass


@pytest.mark.parametrize("number", sorted(atomic.UNSUPPORTED))
def test_a_rename_that_the_file_system_does_not_know_is_done_without(tmp_path, monkeypatch, number) -> None:
    class Library:
        def renameat2(self, *_: object) -> int:
            return -1

        renamex_np = renameat2

    monkeypatch.setattr(atomic.ctypes, "CDLL", lambda *_, **__: Library())
    monkeypatch.setattr(atomic.ctypes, "get_errno", lambda: number)
    for text in ("old", "new"):
        with atomic.write_whole(tmp_path / "out", folder=True) as part:
            (part / "x").write_text(text)
    assert contents(tmp_path) == {"out/x": b"new"}
