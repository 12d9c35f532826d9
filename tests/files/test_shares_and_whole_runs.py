"""Runs that meet on one output: shares do their work together, a whole run alone, and nothing of anybody's is lost."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

import paredown as pdn
from paredown.errors import PareError
from paredown.files import lock_file, lock_is_held, locked, locked_together

# Runs the command line, and waits in the middle of the first file that it writes until it is told to go on.
PAUSED = """
import sys, time
from pathlib import Path
import paredown.embeddings.store as store, paredown.scoring.ranged_scoring as scoring

def pausing(function):
    def paused(*given, **more):
        Path("inside").touch()
        while not Path("go").exists():
            time.sleep(0.01)
        return function(*given, **more)
    return paused

store.file_digest, scoring.scores_table = pausing(store.file_digest), pausing(scoring.scores_table)
from paredown.cli import main
main()
"""
IN_SHARES = (
    r"e is being written by runs that do shares of the work \(the last to begin: process {} on .*\); wait for all"
)


def files(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.name != "embed.json"}


@contextmanager
def paused(*arguments: object) -> Iterator[subprocess.Popen[bytes]]:
    """A run of its own that waits in the middle of a file."""
    for name in ("inside", "go"):
        Path(name).unlink(missing_ok=True)
    with subprocess.Popen([sys.executable, "-c", PAUSED, *map(str, arguments)]) as process:
        try:
            while not Path("inside").exists():
                assert process.poll() is None
                time.sleep(0.01)
            yield process
        finally:
            if process.poll() is None:
                Path("go").touch()


@pytest.fixture(params=["embed", "score"])
def command(request, image_folder, tmp_path, rng, monkeypatch) -> list[object]:
    monkeypatch.chdir(tmp_path)
    if request.param == "embed":
        return ["embed", image_folder, "--encoder", "pixels", "--shard-size", "20", "-o"]
    np.save(tmp_path / "x.npy", rng.normal(size=(300, 8)).astype(np.float32))
    return ["score", tmp_path / "x.npy", "--metric", "random", "-o"]


def test_a_whole_run_and_a_merge_wait_for_shares_and_take_nothing_from_them(command, paredown, tmp_path) -> None:
    alone = [] if command[0] == "embed" else ["--shard", "1/1"]
    assert paredown(*command, "whole", *alone).returncode == 0
    with paused(*command, "e", "--shard", "1/2") as share:
        growing = sorted(file.name for file in (tmp_path / "e").iterdir())
        assert any(name.endswith(".paredown-tmp") for name in growing)
        whole = [*command, "e"] if command[0] == "embed" else [*command, "e", "--engine", "ray", "--address", "auto"]
        for refused in (whole, [*whole, "--overwrite"], ["merge", "e"]):
            done = paredown(*refused)
            assert done.returncode == 2
            assert re.search(IN_SHARES.format(share.pid), " ".join(done.stderr.split()))
            assert sorted(file.name for file in (tmp_path / "e").iterdir()) == growing
        assert "is writing it at this moment" in paredown("info", "e").stdout
        assert paredown(*command, "e", "--shard", "2/2").returncode == 0  # shares do their work side by side
    assert share.returncode == 0
    assert paredown("merge", "e").returncode == 0
    assert files(tmp_path / "e") == files(tmp_path / "whole")
    assert not lock_file(tmp_path / "e").exists()


def test_a_share_is_kept_away_from_a_whole_run(command, paredown, tmp_path) -> None:
    if command[0] == "score":
        with locked(tmp_path / "e"):
            done = paredown(*command, "e", "--shard", "1/2")
        assert "e is being written by another run (process" in " ".join(done.stderr.split())
        assert not (tmp_path / "e").exists()
        return
    with paused(*command, "e") as whole:
        growing = sorted(file.name for file in (tmp_path / "e").iterdir())
        done = paredown(*command, "e", "--shard", "1/2")
        assert done.returncode == 2
        said = " ".join(done.stderr.split())
        assert f"e is being written by another run (process {whole.pid} on" in said
        assert "; wait for it to finish, or choose another output." in said
        assert sorted(file.name for file in (tmp_path / "e").iterdir()) == growing
    assert whole.returncode == 0


def test_what_a_killed_share_left_is_cleared_away_by_the_merge(command, paredown, tmp_path) -> None:
    with paused(*command, "e", "--shard", "1/2") as share:
        share.send_signal(signal.SIGKILL)
        share.wait()
    assert any(file.name.endswith(".paredown-tmp") for file in (tmp_path / "e").iterdir())
    assert not lock_is_held(lock_file(tmp_path / "e"))
    for number in (2, 1):
        assert paredown(*command, "e", "--shard", f"{number}/2").returncode == 0
    assert paredown("merge", "e").returncode == 0
    assert not [file for file in (tmp_path / "e").iterdir() if file.name.endswith(".paredown-tmp")]
    assert not lock_file(tmp_path / "e").exists()


def test_shares_that_begin_and_end_all_the_time_never_keep_each_other_away(tmp_path) -> None:
    """The last one to leave removes the lock, while others are at its door."""
    failed: list[BaseException] = []

    def come_and_go() -> None:
        try:
            for _ in range(200):
                with locked_together(tmp_path / "e"):
                    assert lock_file(tmp_path / "e").exists()
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failed
    assert not list(tmp_path.iterdir())


def test_a_whole_run_in_the_process_of_a_share(tmp_path, image_folder) -> None:
    with (
        locked_together(tmp_path / "e"),
        pytest.raises(PareError, match="e is being written by runs that do shares of the work"),
    ):
        pdn.embed(image_folder, out=tmp_path / "e", encoder="pixels")
    assert not (tmp_path / "e").exists()
