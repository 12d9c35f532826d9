"""A few kills of commands that write lose nothing: the small, fixed part of what `make fuzz` does at length."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from paredown.files import (
    atomic,
    clear_below,
    file_digest,
    finished_request,
    is_own,
    locked,
    new_output,
    remove_folder,
    write_whole,
)

FUZZ = Path(__file__).parent.parent / "fuzz"
sys.path.insert(0, str(FUZZ))

import kills  # noqa: E402

pytestmark = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="open files are looked up in /proc")


def kill(*arguments: str, script: Path = FUZZ / "kills.py") -> subprocess.CompletedProcess[str]:
    """In a process of its own, which may be forked: it has one thread."""
    return subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)


def test_killed_commands_lose_nothing() -> None:
    """One of each kind: a table and its JSON, a folder that is replaced, a file with a mark beside it, what grows."""
    names = (
        "score-overwrite",
        "prune-overwrite",
        "export-ids-overwrite",
        "embed-overwrite",
        "sweep",
        "report",
        "compare",
    )
    done = kill("--cases", "5", "--seed", "2026", *(f"--only={name}" for name in names))
    assert done.returncode == 0, done.stdout + done.stderr
    *_, total = done.stdout.splitlines()
    assert total.split()[0] == "all"
    assert total.split()[2] == str(5 * len(names))


@pytest.mark.parametrize("way", ["two-steps", "beside"])
def test_other_ways_to_be_disturbed(way: str) -> None:
    """Where the file system exchanges no folders, and with two runs at once, one case each, at the rename."""
    done = kill("--only", "prune-overwrite", "--way", way, "--at", "25")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("right\n")


FAULTY = """
import os, sys
from pathlib import Path
sys.path.insert(0, {fuzz!r})
import commands, kills
def begin():
    Path("out").mkdir()
    Path("out/a").write_text("old")
def run():
    {code}
    return 0
commands.COMMANDS["faulty"] = commands.Command(begin, run, {{"out/a": ()}}, marked=False)
sys.exit(kills.main(["--only", "faulty", "--cases", "4"]))
"""


@pytest.mark.parametrize(
    ("code", "said"),
    [
        ('os.remove("out/a"); Path("out/a").write_text("new")', "out/a is neither the old nor the new one"),
        ('Path("t").write_text("new"); os.replace("t", "out/a"); Path("u").touch(); os.remove("u")', "right"),
        ('Path(f"t{os.getpid()}").touch(); os.remove(f"t{os.getpid()}"); Path("out/a").touch()', "is left"),
        ('os.mkdir("once"); os.rmdir("once"); Path("out/a").touch()', "exit 1 in place of exit 0"),
        ('os.rename("notes.txt", "n"); os.rename("n", "notes.txt")', "lost or changed: notes.txt"),
    ],
)
def test_the_fuzzer_notices(tmp_path: Path, code: str, said: str) -> None:
    """A command that writes in place, leaves something, trips over its leftovers or takes what is not its own."""
    script = tmp_path / "faulty.py"
    script.write_text(FAULTY.format(fuzz=str(FUZZ), code=code))
    done = kill(script=script)
    if said == "right":
        assert done.returncode == 0, done.stdout + done.stderr
    else:
        assert done.returncode == 1, done.stderr
        assert said in done.stdout, done.stdout + done.stderr
        assert "--only faulty --way kill --at " in done.stdout


def test_events_are_told_before_they_happen(tmp_path: Path) -> None:
    def work() -> int:
        Path("a").write_text("x")
        os.rename("a", "b")
        with Path("b").open() as stream:  # reading is no event
            stream.read()
        os.mkdir("d")
        handle = os.open("d", os.O_RDONLY)
        os.remove("../b", dir_fd=handle)
        return 0

    run = kills.Run(work, tmp_path)
    assert run.wait() == "exit 0", run.printed
    assert run.events == ["open a", "os.rename a", "os.mkdir d", "os.remove b"]
    stopped = kills.Run(work, tmp_path, at=2)
    assert stopped.wait() == "killed"
    assert (tmp_path / "a").exists()
    assert not (tmp_path / "b").exists()


def test_old_content_under_the_mark_of_the_new_one_is_not_finished(tmp_path: Path) -> None:
    """As after a kill between the two: the mark beside a file is written before the file is replaced."""
    out, mark = tmp_path / "kept.txt", tmp_path / ".kept.txt.paredown"
    with new_output(out, request="first") as part:
        part.write_text("old")
    assert finished_request(out) == "first"
    old = file_digest(out)
    mark.write_text(json.dumps({"paredown": "1", "request": "second", "sha256": ["0" * 64, old]}))
    assert is_own(out)
    assert finished_request(out) is None
    with new_output(out, overwrite=True, request="second") as part:
        part.write_text("new")
        during = part
    assert json.loads(mark.read_text())["sha256"] == [file_digest(out)]
    assert finished_request(out) == "second"
    assert not during.exists()


def test_what_belongs_to_an_output_is_cleared_away_with_it(tmp_path: Path) -> None:
    out = tmp_path / "scores.parquet"
    beside = tmp_path / "scores.json"
    with pytest.raises(KeyboardInterrupt):
        with write_whole(beside, output=out) as part:
            assert part.parent.name.startswith(".scores.parquet.")
            raise KeyboardInterrupt
    left = tmp_path / ".scores.parquet.0123abcd.paredown-tmp"
    others = tmp_path / ".scores.json.0123abcd.paredown-tmp"
    for folder in (left, others):
        folder.mkdir()
        (folder / "scores.json").write_text("{")
    with locked(out):
        assert not left.exists()
    assert others.exists()  # of an output of that name, which may be being written


def test_parts_with_an_absolute_name_belong_to_an_output_with_a_relative_one(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    parts = tmp_path / ".out.parts"
    parts.mkdir()
    (parts / "part").touch()
    moved: list[str] = []

    def stop(folder: Path, **_: object) -> None:
        moved.append(Path(folder).name)
        raise KeyboardInterrupt

    monkeypatch.setattr(atomic.shutil, "rmtree", stop)
    with pytest.raises(KeyboardInterrupt):
        remove_folder(parts, output=Path("out"))
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    assert moved[0].startswith(".out.")
    assert [item.name for item in tmp_path.iterdir()] == moved[:1]
    with locked(Path("out")):
        assert not (tmp_path / moved[0]).exists()


def test_a_growing_folder_is_cleared_but_for_what_a_live_run_writes(tmp_path: Path) -> None:
    grown, runs = tmp_path / "swept", tmp_path / "swept" / "runs"
    runs.mkdir(parents=True)
    (runs / ".a.json.0123abcd.paredown-tmp").mkdir()
    (runs / ".dead.paredown-lock").write_text("{}")
    (runs / "a.json").write_text("{}")
    (runs / ".b.paredown-tmp").mkdir()  # no name of paredown's
    with locked(grown), locked(runs / "alive"):
        (runs / ".alive.0123abcd.paredown-tmp").mkdir()
        clear_below(grown)
        left = sorted(item.name for item in runs.iterdir())
    assert left == [".alive.0123abcd.paredown-tmp", ".alive.paredown-lock", ".b.paredown-tmp", "a.json"]


def test_a_folder_that_vanishes_before_the_lock_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a run that had made it, and ended without an output."""
    out, opened = tmp_path / "new" / "out", os.open
    vanished: list[str] = []

    def open_(path: object, *options: int) -> int:
        if not vanished:
            out.parent.rmdir()
            vanished.append(str(path))
        return opened(path, *options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", open_)
    with locked(out):
        assert vanished
        assert out.parent.is_dir()
