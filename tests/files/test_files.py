"""Whose an output is, who writes it, and that it appears whole: nothing of anyone else's is ever lost."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import paredown as pdn
from paredown import files
from paredown.errors import PareError
from paredown.files import (
    atomic,
    check_output,
    claim_folder,
    clear_temporaries,
    exchange_folder,
    file_mark,
    finished_request,
    is_own,
    lock_is_held,
    locked,
    locks,
    mark_of,
    marks,
    new_output,
    remove_folder,
    write_whole,
)


def write(path: Path, text: str, **options) -> None:
    with new_output(path, **options) as part:
        (part / "x" if options.get("folder") else part).write_text(text)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


# --- own ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", [False, True])
def test_what_others_wrote_is_never_replaced(tmp_path, folder) -> None:
    out = tmp_path / "out"
    out.mkdir() if folder else out.write_text("precious")
    if folder:
        (out / "thesis.tex").write_text("precious")
    with pytest.raises(PareError, match=r"out was not written by paredown, so it is never replaced; move it away \(`"):
        write(out, "new", overwrite=True, folder=folder)
    assert (out / "thesis.tex" if folder else out).read_text() == "precious"


def test_what_was_put_into_an_output_is_not_lost(tmp_path) -> None:
    write(tmp_path / "out", "old", folder=True)
    (tmp_path / "out" / "notes").mkdir()
    (tmp_path / "out" / "notes" / "mine.txt").write_text("precious")
    with pytest.raises(
        PareError,
        match=r"added or changed since paredown wrote it \(notes/mine.txt\), which would be lost",
    ):
        write(tmp_path / "out", "new", overwrite=True, folder=True)
    shutil.rmtree(tmp_path / "out" / "notes")
    (tmp_path / "out" / "x").unlink()  # what is missing is no loss
    write(tmp_path / "out", "new", overwrite=True, folder=True)
    assert (tmp_path / "out" / "x").read_text() == "new"


@pytest.mark.parametrize("folder", [False, True])
def test_names_that_are_not_utf8_are_refused_before_anything_is_written(tmp_path, folder) -> None:
    place = tmp_path / os.fsdecode(b"caf\xe9.parquet")
    for write_it in (
        lambda: check_output(place, folder=folder),
        lambda: claim_folder(place, "sweep"),
        lambda: check_output(place / "inside"),
    ):
        with pytest.raises(PareError, match=r"caf.*: the name of an output must be UTF-8; choose another one"):
            write_it()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_was_changed_since_is_not_ones_own(tmp_path) -> None:
    write(tmp_path / "kept.txt", "a\nb\n")
    assert is_own(tmp_path / "kept.txt")
    (tmp_path / "kept.txt").write_text("a\nb\nc\n")
    with pytest.raises(
        PareError, match=r"kept.txt was changed since paredown wrote it, by the digest in .kept.txt.paredown"
    ):
        write(tmp_path / "kept.txt", "a\n", overwrite=True)


@pytest.mark.parametrize("rest", [0, 0.5, 0.99])
def test_ones_own_that_was_cut_off_is_replaced(tmp_path, digits, rest) -> None:
    scores = pdn.score(digits[0], k=5, sensitivity=False)
    kept = pdn.select(scores, keep_fraction=0.5)
    outputs = {
        "s.parquet": lambda out, **how: pdn.write_scores(scores, out, **how),
        "kept.npy": lambda out, **how: pdn.export(kept, to="indices", out=out, **how),
        "p": lambda out, **how: pdn.prune(scores, keep_fraction=0.5, out=out, **how),
    }
    for name, write_output in outputs.items():
        out = tmp_path / name
        write_output(out)
        file = out / "manifest.parquet" if out.is_dir() else out
        whole = file.read_bytes()
        file.write_bytes(whole[: int(rest * len(whole))])
        refusal = r"is not as it was written.* again with" if out.is_dir() else r"already exists.* replace it with"
        with pytest.raises(PareError, match=f"{refusal} overwrite=True"):
            write_output(out)
        write_output(out, overwrite=True)
        assert file.read_bytes() == whole
        assert pdn.verify(out).problems == ()


def test_a_model_that_was_cut_off_is_replaced(tmp_path, digits) -> None:
    model = tmp_path / "m.npz"
    pdn.score(digits[0], k=5, sensitivity=False, save_model=model)
    whole = model.read_bytes()
    model.write_bytes(whole[: len(whole) // 2])
    pdn.score(digits[0], k=5, sensitivity=False, save_model=model, overwrite=True)
    assert model.read_bytes() == whole


@pytest.mark.parametrize("content", [b"PAR1 cut off", b"", b"their table, in another format"])
def test_damaged_files_that_nothing_says_are_ones_own_are_left_alone(tmp_path, digits, content) -> None:
    out = tmp_path / "s.parquet"
    out.write_bytes(content)
    with pytest.raises(PareError, match=rf"so it is never replaced; move it away \(`mv {out} {out}.old`\)"):
        pdn.write_scores(pdn.score(digits[0], metric="random"), out, overwrite=True)
    assert out.read_bytes() == content


def test_another_file_under_the_name_of_ones_own_is_left_alone(tmp_path, digits) -> None:
    scores = pdn.score(digits[0], metric="random")
    pdn.write_scores(scores, tmp_path / "s.parquet")
    (tmp_path / "s.parquet").write_text("my notes")
    with pytest.raises(PareError, match=r"s.parquet was not written by paredown"):
        pdn.write_scores(scores, tmp_path / "s.parquet", overwrite=True)
    assert (tmp_path / "s.parquet").read_text() == "my notes"


def test_a_file_is_its_own_at_every_moment_of_a_replacement(tmp_path, monkeypatch) -> None:
    write(tmp_path / "kept.txt", "old")
    with monkeypatch.context() as patch:
        real = os.replace

        def killed(source, target):
            if Path(target).name == "kept.txt":
                raise KeyboardInterrupt
            real(source, target)

        patch.setattr(os, "replace", killed)
        with pytest.raises(KeyboardInterrupt):
            write(tmp_path / "kept.txt", "new", overwrite=True)
    assert (tmp_path / "kept.txt").read_text() == "old"
    assert is_own(tmp_path / "kept.txt")
    write(tmp_path / "kept.txt", "new", overwrite=True)
    assert (tmp_path / "kept.txt").read_text() == "new"


def test_marks_inside_formats(tmp_path, digits) -> None:
    scores = pdn.score(digits[0], k=5, sensitivity=False, save_model=tmp_path / "m.npz")
    pdn.write_scores(scores, tmp_path / "s.parquet")
    recorder = pdn.Recorder(n_examples=2, n_classes=2)
    recorder.save(tmp_path / "r.npz")
    for name in ("m.npz", "s.parquet", "s.json", "r.npz"):
        assert is_own(tmp_path / name), name
    np.save(tmp_path / "x.npy", digits[0])
    np.savez(tmp_path / "x.npz", digits[0])
    (tmp_path / "x.json").write_text('{"a": 1}')
    (tmp_path / "x.parquet").write_bytes(b"PAR1 but not really")
    for name in ("x.npy", "x.npz", "x.json", "x.parquet", "nothing"):
        assert not is_own(tmp_path / name), name
    assert not file_mark(tmp_path / "m.npz").exists()  # only for formats that cannot carry one


def test_the_mark_lists_every_file_with_its_digest(tmp_path) -> None:
    write(tmp_path / "out", "abc", folder=True, request="r1")
    mark = mark_of(tmp_path / "out")
    assert mark is not None
    sha = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"  # of "abc", from the standard
    assert mark["files"] == {"x": {"bytes": 3, "sha256": sha}}
    assert finished_request(tmp_path / "out") == "r1"
    assert finished_request(tmp_path / "nowhere") is None


def test_many_files_are_counted(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(marks, "_LISTED_FILES", 3)
    monkeypatch.setattr(atomic, "_SYNCED_ONE_BY_ONE", 3)
    with new_output(tmp_path / "out", folder=True) as part:
        for number in range(5):
            (part / str(number)).write_text("x")
    assert (mark_of(tmp_path / "out") or {})["count"] == 5
    write(tmp_path / "out", "x", folder=True, overwrite=True)
    with new_output(tmp_path / "many", folder=True) as part:
        for number in range(5):
            (part / str(number)).write_text("x")
    (tmp_path / "many" / "mine").write_text("x")
    with pytest.raises(PareError, match=r"paredown wrote it \(1 more files than were written\)"):
        write(tmp_path / "many", "x", folder=True, overwrite=True)


def test_of_many_files_the_names_are_compared(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(marks, "_LISTED_FILES", 3)
    with new_output(tmp_path / "out", folder=True, request="r") as part:
        for number in range(5):
            (part / str(number)).write_text("x")
    assert finished_request(tmp_path / "out") == "r"
    (tmp_path / "out" / "0").rename(tmp_path / "out" / "mine")  # as many as were written
    assert finished_request(tmp_path / "out") is None
    with pytest.raises(PareError, match=r"paredown wrote it \(files of other names or sizes than were written\)"):
        write(tmp_path / "out", "x", folder=True, overwrite=True)
    (problem,) = pdn.verify(tmp_path / "out").problems
    assert problem.what == "holds files of other names or sizes than were written"


def test_a_folder_with_a_changed_file_is_not_replaced(tmp_path) -> None:
    write(tmp_path / "out", "old", folder=True, request="r")
    (tmp_path / "out" / "x").write_text("odd")  # of the same size
    with pytest.raises(
        PareError,
        match=r"added or changed since paredown wrote it \(x, which was changed\), which would",
    ):
        write(tmp_path / "out", "new", folder=True, overwrite=True)
    (tmp_path / "out" / "x").write_text("longer")
    assert finished_request(tmp_path / "out") is None
    with pytest.raises(PareError, match=r"x, which was changed"):
        write(tmp_path / "out", "new", folder=True, overwrite=True)
    assert (tmp_path / "out" / "x").read_text() == "longer"


@pytest.mark.parametrize("folder", [False, True])
def test_what_appears_while_an_output_is_replaced_is_not_lost(tmp_path, folder) -> None:
    out = tmp_path / "out"
    with (
        pytest.raises(PareError, match=r"out was not written by paredown, so it is never replaced"),
        new_output(out, overwrite=True, folder=folder) as part,
    ):
        (part / "x" if folder else part).write_text("new")
        out.mkdir() if folder else out.write_text("precious")
        if folder:
            (out / "mine").write_text("precious")
    assert (out / "mine" if folder else out).read_text() == "precious"


def test_a_lock_never_empties_the_file_that_a_link_leads_to(tmp_path) -> None:
    (tmp_path / "mine").write_text("precious")
    (tmp_path / ".out.paredown-lock").symlink_to("mine")
    with pytest.raises(OSError, match=r"\.out\.paredown-lock"), locked(tmp_path / "out"):
        pass
    assert (tmp_path / "mine").read_text() == "precious"


def test_a_folder_that_grows_is_claimed_once_and_by_one_kind(tmp_path) -> None:
    claim_folder(tmp_path / "swept", "sweep")
    claim_folder(tmp_path / "swept", "sweep")
    with pytest.raises(PareError, match="swept holds a sweep, not a store of embeddings; choose another output"):
        claim_folder(tmp_path / "swept", "store of embeddings")
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    with pytest.raises(PareError, match="repo already exists and is not a sweep of paredown; choose another output"):
        claim_folder(repo, "sweep")
    (repo / "settings.json").write_text('{"editor": "vi"}')  # of someone else
    with pytest.raises(PareError, match="is not a sweep of paredown"):
        claim_folder(repo, "sweep", earlier=["settings.json"])
    (repo / "settings.json").write_text('{"paredown": "0.1", "seed": 0}')  # of an earlier version
    claim_folder(repo, "sweep", earlier=["settings.json"])
    assert names(repo) == [".git", ".paredown", "settings.json"]
    (tmp_path / "file").write_text("")
    with pytest.raises(PareError, match="file is a file, but a folder would be written there"):
        claim_folder(tmp_path / "file", "sweep")


# --- apart from what is read ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("out", "why"),
    [
        ("photos", "is also an input"),
        ("photos/../photos", "is also an input"),
        ("link", "is also an input"),
        ("photos/pruned", "is inside an input"),
        ("link/pruned", "is inside an input"),
        ("deep", "contains an input"),
    ],
)
def test_an_output_stays_clear_of_its_sources(tmp_path, out, why) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "photos").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "photos")
    (tmp_path / "deep" / "list.csv").write_text("path\n")
    sources = [tmp_path / "photos", tmp_path / "deep" / "list.csv", "mnist:nowhere"]
    with pytest.raises(PareError, match=why):
        check_output(tmp_path / out, overwrite=True, folder=True, sources=sources)
    check_output(tmp_path / "photos2", folder=True, sources=sources)  # a longer name is another folder


@pytest.mark.parametrize("out", [".", "..", "/", "../.."])
def test_the_current_folder_and_those_above_are_refused(tmp_path, monkeypatch, out) -> None:
    (tmp_path / "a" / "b").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "a" / "b")
    with pytest.raises(PareError, match=r"current (folder|one), which would be replaced as a whole"):
        check_output(Path(out), overwrite=True, folder=True)
    with pytest.raises(PareError, match=r"current (folder|one), which would be replaced as a whole"):
        claim_folder(Path(out), "sweep")


def test_names_that_are_too_long(tmp_path) -> None:
    with pytest.raises(PareError, match="too long; choose one of at most 200 bytes"):
        check_output(tmp_path / ("x" * 201))
    write(tmp_path / ("x" * 200), "fits")


# --- whole ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("exchange", [True, False])
def test_folders_are_exchanged(tmp_path, monkeypatch, exchange) -> None:
    if not exchange:
        monkeypatch.setattr(atomic, "_rename", lambda *_: False)
    for name in ("new", "home"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text(name)
    exchange_folder(tmp_path / "new", tmp_path / "home")
    assert names(tmp_path) == ["home"]
    assert (tmp_path / "home" / "x").read_text() == "new"


def test_linux_exchanges_in_one_step(tmp_path) -> None:
    if sys.platform != "linux":
        pytest.skip("renameat2 is Linux's")
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).write_text("")
    assert atomic._rename(tmp_path / "a", tmp_path / "b", atomic._EXCHANGE)
    assert names(tmp_path / "b") == ["a"]
    with pytest.raises(PareError, match="b was created by another program in the meantime; nothing was replaced"):
        atomic._rename(tmp_path / "a", tmp_path / "b", atomic._NO_REPLACE)
    with pytest.raises(FileNotFoundError):
        atomic._rename(tmp_path / "nothing", tmp_path / "b", atomic._EXCHANGE)


@pytest.mark.parametrize("exchange", [True, False])
def test_an_output_that_appears_meanwhile_is_not_replaced(tmp_path, monkeypatch, exchange) -> None:
    if not exchange:
        monkeypatch.setattr(atomic, "_rename", lambda *_: False)
    with pytest.raises(PareError, match="out was created by another program in the meantime"):
        with new_output(tmp_path / "out") as part:
            part.write_text("mine")
            (tmp_path / "out").write_text("theirs")
    assert (tmp_path / "out").read_text() == "theirs"


@pytest.mark.parametrize("moved", [True, False])
def test_a_replacement_killed_between_two_renames_is_finished(tmp_path, moved) -> None:
    """Where folders cannot be exchanged in one step, the next run finds both in the workspace."""
    write(tmp_path / "out", "old", folder=True)
    workspace = tmp_path / ".out.0123abcd.paredown-tmp"
    workspace.mkdir()
    (tmp_path / "out").rename(workspace / "replaced")
    if not moved:
        (workspace / "out").mkdir()
        (workspace / "out" / "x").write_text("new")
    with locked(tmp_path / "out"):
        pass
    assert (tmp_path / "out" / "x").read_text() == ("old" if moved else "new")
    assert names(tmp_path) == ["out"]


def test_only_temporary_names_are_cleared(tmp_path) -> None:
    for name in (".git", ".out.0123abcd.paredown-tmp", ".out.zzzzzzzz.paredown-tmp", ".other.0123abcd.paredown-tmp"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "x").write_text("x")
    assert [path.name for path in clear_temporaries(tmp_path, "out")] == [".out.0123abcd.paredown-tmp"]
    assert [path.name for path in clear_temporaries(tmp_path)] == [".other.0123abcd.paredown-tmp"]
    assert names(tmp_path) == [".git", ".out.zzzzzzzz.paredown-tmp"]
    assert clear_temporaries(tmp_path / "nowhere") == []


def test_a_folder_is_moved_aside_before_it_is_removed(tmp_path, monkeypatch) -> None:
    (tmp_path / "parts").mkdir()
    (tmp_path / "parts" / "x").write_text("")
    monkeypatch.setattr(shutil, "rmtree", lambda *_, **__: None)  # killed before the first file is gone
    remove_folder(tmp_path / "parts")
    assert not (tmp_path / "parts").exists()
    (left,) = tmp_path.iterdir()
    assert files.TEMPORARY.fullmatch(left.name)
    remove_folder(tmp_path / "parts")  # nothing there


def test_everything_is_flushed_before_it_takes_its_place(tmp_path, monkeypatch) -> None:
    events: list[str] = []
    sync, replace = os.fsync, os.replace

    def synced(handle):
        events.append(f"sync {Path(os.readlink(f'/proc/self/fd/{handle}')).name}")
        sync(handle)

    def replaced(source, target):
        events.append(f"rename {Path(target).name}")
        replace(source, target)

    monkeypatch.setattr(os, "fsync", synced)
    monkeypatch.setattr(os, "replace", replaced)
    with write_whole(tmp_path / "f") as part:
        part.write_text("x")
    assert events == ["sync f", "rename f", f"sync {tmp_path.name}"]
    events.clear()
    with write_whole(tmp_path / "d", folder=True) as part:
        (part / "sub").mkdir()
        (part / "sub" / "x").write_text("x")
    assert events == ["sync x", "sync d", "sync sub", "rename d", f"sync {tmp_path.name}"]


def test_a_full_disk_inside_an_output_is_told_by_the_name_of_the_output(tmp_path) -> None:
    with (
        pytest.raises(PareError, match=rf"cannot write {tmp_path}/out: the disk is full; nothing was changed"),
        new_output(tmp_path / "out", folder=True) as folder,
        new_output(folder / "table", folder=True),
    ):
        raise OSError(errno.ENOSPC, "No space left on device")
    assert names(tmp_path) == []


def test_a_lock_that_cannot_say_whose_it_is_is_held_and_leaves_nothing(tmp_path, monkeypatch) -> None:
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "pwrite", full)
    with locked(tmp_path / "out"):
        assert lock_is_held(tmp_path / ".out.paredown-lock")
    assert names(tmp_path) == []


def test_errors_of_reading_are_not_told_as_errors_of_writing(tmp_path) -> None:
    other = tmp_path.parent / "unreadable.png"
    with pytest.raises(PermissionError), write_whole(tmp_path / "out"):
        raise PermissionError(13, "Permission denied", str(other))
    with pytest.raises(PareError, match=r"cannot write .*out: the disk is full; nothing was changed"):
        with write_whole(tmp_path / "out") as part:
            raise OSError(28, "No space left on device", str(part))


# --- one writer -----------------------------------------------------------------------------------------------------


HOLD = """
import sys, time
from pathlib import Path
from paredown.files import locked
with locked(Path(sys.argv[1])):
    print("locked", flush=True)
    time.sleep(600)
"""


def test_a_second_run_is_told_whose_the_output_is(tmp_path) -> None:
    out = tmp_path / "out"
    with subprocess.Popen([sys.executable, "-c", HOLD, out], stdout=subprocess.PIPE, text=True) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "locked\n"
        lock = tmp_path / ".out.paredown-lock"
        assert lock_is_held(lock)
        expected = (
            rf"out is being written by another run \(process {holder.pid} on .*, since .*\); wait for it to finish"
        )
        with pytest.raises(PareError, match=expected), locked(out):
            pass
        holder.kill()
    assert lock.exists()
    assert not lock_is_held(lock)
    with locked(out):  # a dead owner's lock is taken over
        assert json.loads(lock.read_text())["process"] == os.getpid()
    assert names(tmp_path) == []


def test_a_lock_may_be_taken_again_by_its_thread_only(tmp_path) -> None:
    caught: list[BaseException] = []

    def elsewhere() -> None:
        try:
            with locked(tmp_path / "out"):
                pass
        except PareError as error:
            caught.append(error)

    with locked(tmp_path / "out"), locked(tmp_path / "out"), locked(tmp_path / "other"):
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
    assert "is being written by another thread of this process" in str(caught[0])
    elsewhere()
    assert len(caught) == 1
    assert names(tmp_path) == []


def test_a_lock_that_was_removed_in_between_is_not_held(tmp_path, monkeypatch) -> None:
    """The owner removes the file while another run has it open already: that run must not hold a file nobody sees."""
    real, calls = locks._lock_handle, []

    def removed_first(handle, **how) -> bool:
        calls.append(handle)
        if len(calls) == 1:
            (tmp_path / ".out.paredown-lock").unlink()
        return real(handle, **how)

    monkeypatch.setattr(locks, "_lock_handle", removed_first)
    with locked(tmp_path / "out"):
        assert (tmp_path / ".out.paredown-lock").exists()
    assert len(calls) == 2


def _race(folder: str, barrier, won) -> None:
    barrier.wait()
    try:
        with new_output(Path(folder) / "out", folder=True) as part:
            (part / "pid").write_text(str(os.getpid()))
            won.put(os.getpid())
    except PareError:
        won.put(None)


def test_of_many_runs_at_once_one_writes(tmp_path) -> None:
    context = multiprocessing.get_context("spawn")
    barrier, won = context.Barrier(4), context.Queue()
    runs = [context.Process(target=_race, args=(str(tmp_path), barrier, won)) for _ in range(4)]
    for run in runs:
        run.start()
    results = [won.get(timeout=120) for _ in runs]
    for run in runs:
        run.join()
    winners = [result for result in results if result is not None]
    assert (tmp_path / "out" / "pid").read_text() in map(str, winners)
    assert len(winners) == 1
    assert names(tmp_path) == ["out"]


def test_folders_that_nothing_came_into_are_removed(tmp_path) -> None:
    with pytest.raises(RuntimeError), locked(tmp_path / "a" / "b" / "out"):
        raise RuntimeError
    assert names(tmp_path) == []
    write(tmp_path / "a" / "b" / "out", "x", folder=True)
    assert names(tmp_path / "a" / "b") == ["out"]
