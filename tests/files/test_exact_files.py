"""Outputs by hand: what marks hold, every message in full, and names beside an output."""

from __future__ import annotations

import errno
import hashlib
import json
import os
import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paredown.errors import PareError
from paredown.files import (
    MARK,
    atomic,
    check_apart,
    check_output,
    claim_folder,
    clear_temporaries,
    exchange_folder,
    file_digest,
    file_mark,
    finished_request,
    foreign_files,
    is_busy,
    is_own,
    lock_file,
    lock_is_held,
    locked,
    mark_of,
    marks,
    new_output,
    parts_folder,
    remove_folder,
    write_whole,
)
from paredown.records import Change, changes, check_same, digest, read_record, tuples, write_json, write_record
from paredown.version import __version__


def refused(message: str):
    """The whole message, word by word."""
    return pytest.raises(PareError, match=f"^{re.escape(message)}$")


def sha(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


# --- marks ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("request_", "more"), [(None, {}), ("abc", {"request": "abc"})])
def test_the_mark_of_a_folder(tmp_path: Path, request_: str | None, more: dict[str, str]) -> None:
    with new_output(tmp_path / "out", folder=True, request=request_) as part:
        (part / "sub").mkdir()
        (part / "sub" / "é.txt").write_text("content")
        (part / "a").write_text("")
    mark = json.loads((tmp_path / "out" / MARK).read_text())
    listed = {"a": {"bytes": 0, "sha256": sha("")}, "sub/é.txt": {"bytes": 7, "sha256": sha("content")}}
    assert mark == {"paredown": __version__, "files": listed} | more
    assert mark_of(tmp_path / "out") == mark
    assert finished_request(tmp_path / "out") == request_
    assert finished_request(tmp_path / "absent") is None


def test_the_mark_of_a_file_names_what_it_holds(tmp_path: Path) -> None:
    out = tmp_path / "kept.txt"
    for text, request, overwrite in (("one", "r1", False), ("two", None, True)):
        with new_output(out, request=request, overwrite=overwrite) as part:
            part.write_text(text)
        mark = json.loads(file_mark(out).read_text(encoding="utf-8"))
        assert mark["paredown"] == __version__
        assert mark.get("request", "none") == (request or "none")
        assert mark["sha256"][0] == sha(text) == file_digest(out)
    assert mark["sha256"] == [sha("two")]  # that of the old content is gone with it
    assert file_mark(out) == tmp_path / ".kept.txt.paredown"
    out.write_text("edited")
    assert mark_of(out) is None
    assert finished_request(out) is None


def test_links_are_listed_without_a_digest(tmp_path: Path) -> None:
    with new_output(tmp_path / "out", folder=True) as part:
        (part / "link").symlink_to("nowhere")
    listed = mark_of(tmp_path / "out")
    assert listed is not None
    assert listed["files"] == {"link": {"bytes": len("nowhere")}}


def test_large_folders_are_listed_without_digests_or_counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(marks, "_DIGESTED_BYTES", 4)
    for name, text, expected in (("fits", "1234", {"bytes": 4, "sha256": sha("1234")}), ("not", "12345", {"bytes": 5})):
        with new_output(tmp_path / name, folder=True) as part:
            (part / "x").write_text(text)
        mark = mark_of(tmp_path / name)
        assert mark is not None
        assert mark["files"] == {"x": expected}
    monkeypatch.setattr(marks, "_LISTED_FILES", 2)
    for count in (2, 3):
        with new_output(tmp_path / f"n{count}", folder=True) as part:
            for number in range(count):
                (part / str(number)).write_text("x")
        mark = mark_of(tmp_path / f"n{count}")
        assert mark is not None
        assert ("count" in mark) == (count == 3)
    assert mark["count"] == 3
    assert mark["names"] == hashlib.sha256(b"0\x001\n1\x001\n2\x001\n").hexdigest()
    assert foreign_files(tmp_path / "n3", mark) == []
    for number in range(1_200):
        (tmp_path / "n3" / f"more-{number}").touch()
    assert foreign_files(tmp_path / "n3", mark) == ["1,200 more files than were written"]


@pytest.mark.parametrize(("number", "shown"), [(1, "f0"), (3, "f0, f1, f2"), (4, "f0, f1, f2 and 1 more")])
def test_foreign_files_are_named(tmp_path: Path, number: int, shown: str) -> None:
    out = tmp_path / "out"
    with new_output(out, folder=True) as part:
        (part / "own").touch()
    for row in range(number):
        (out / f"f{row}").touch()
    with refused(
        f"{out} contains files that were added or changed since paredown wrote it ({shown}), which would "
        f"be lost; move it away (`mv {out} {out}.old`), or choose another output."
    ):
        check_output(out, overwrite=True, folder=True)


def test_marks_that_formats_carry(tmp_path: Path) -> None:
    schema = {b"paredown": json.dumps({"metric": "el2n"}).encode()}
    pq.write_table(pa.table({"id": [1]}).replace_schema_metadata(schema), tmp_path / "own.parquet")
    assert mark_of(tmp_path / "own.parquet") == {"paredown": "", "metric": "el2n"}
    pq.write_table(pa.table({"id": [1]}), tmp_path / "other.parquet")
    assert mark_of(tmp_path / "other.parquet") is None
    for name in ("header", "record"):
        np.savez(tmp_path / f"{name}.npz", **{name: np.array(json.dumps({"format": "paredown model"}))})
        assert mark_of(tmp_path / f"{name}.npz") == {"paredown": "", "format": "paredown model"}
        np.savez(tmp_path / "foreign.npz", **{name: np.array(json.dumps({"format": "someone's"}))})
        assert mark_of(tmp_path / "foreign.npz") is None
    np.savez(tmp_path / "plain.npz", x=np.zeros(2))
    assert mark_of(tmp_path / "plain.npz") is None
    (tmp_path / "own.json").write_text('{"paredown": "1"}')
    assert mark_of(tmp_path / "own.json") == {"paredown": "1"}
    for text in ('{"other": 1}', "[1]", "nonsense"):
        (tmp_path / "other.json").write_text(text)
        assert mark_of(tmp_path / "other.json") is None
    assert mark_of(tmp_path / "absent") is None


@pytest.mark.parametrize("before", [0, 2**20])
def test_encoders_carry_the_mark_at_their_end(tmp_path: Path, before: int) -> None:
    (tmp_path / "own.onnx").write_bytes(b"x" * before + b"paredown.training" + b"y" * 100)
    assert mark_of(tmp_path / "own.onnx") == {"paredown": ""}
    (tmp_path / "other.onnx").write_bytes(b"x" * (before + 100))
    assert mark_of(tmp_path / "other.onnx") is None
    (tmp_path / "early.onnx").write_bytes(b"paredown.training" + b"y" * 2**20)
    assert mark_of(tmp_path / "early.onnx") is None  # only the end is looked at
    (tmp_path / "own.bin").write_bytes(b"paredown.training")
    assert mark_of(tmp_path / "own.bin") is None


def test_folders_from_before_there_were_marks(tmp_path: Path) -> None:
    schema = {b"paredown": b"{}"}
    pq.write_table(pa.table({"id": [1]}).replace_schema_metadata(schema), tmp_path / "manifest.parquet")
    (tmp_path / "manifest.json").write_text("{}")
    assert mark_of(tmp_path) == {"paredown": "", "files": {"manifest.parquet": {}, "manifest.json": {}}}
    (tmp_path / "manifest.parquet").unlink()
    assert mark_of(tmp_path) is None
    assert not is_own(tmp_path)


# --- folders that grow ---------------------------------------------------------------------------------------------


def test_claimed_folders_are_of_one_kind(tmp_path: Path) -> None:
    out = tmp_path / "out"
    claim_folder(out, "sweep")
    assert json.loads((out / MARK).read_text()) == {"paredown": __version__, "kind": "sweep"}
    claim_folder(out, "sweep")
    with refused(f"{out} holds a sweep, not an embedding; choose another output."):
        claim_folder(out, "embedding")
    with refused(f"{tmp_path} already exists and is not an embedding of paredown; choose another output."):
        claim_folder(tmp_path, "embedding")
    (tmp_path / "file").touch()
    with refused(f"{tmp_path / 'file'} is a file, but a folder would be written there; choose another output."):
        claim_folder(tmp_path / "file", "sweep")


@pytest.mark.parametrize(
    ("kind", "content", "known"),
    [
        ("store", '{"paredown": 1}', True),
        ("set of figures", '{"figure": 1}', True),
        ("unfinished training", '{"rows": []}', True),
        ("store", '{"figure": 1}', False),
        ("store", '{"rows": []}', False),
        ("set of figures", '{"paredown": 1}', False),
        ("store", '{"other": 1}', False),
        ("store", "[1]", False),
        ("store", "x", False),
    ],
)
def test_folders_are_known_by_earlier_records(tmp_path: Path, kind: str, content: str, known: bool) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "state.json").write_text(content)
    if known:
        claim_folder(tmp_path / "out", kind, earlier=["absent.json", "state.json"])
        assert (tmp_path / "out" / MARK).exists()
    else:
        with pytest.raises(PareError, match=rf"out already exists and is not an? {kind} of paredown"):
            claim_folder(tmp_path / "out", kind, earlier=["state.json"])
        assert not (tmp_path / "out" / MARK).exists()


# --- names beside an output ----------------------------------------------------------------------------------------


def test_names_beside_an_output(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert parts_folder(tmp_path / "out") == tmp_path / ".out.parts"
    assert lock_file(tmp_path / "out") == tmp_path / ".out.paredown-lock"
    (tmp_path / "here" / "sub").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here" / "sub")
    assert parts_folder(Path()) == tmp_path / "here" / ".sub.parts"
    assert parts_folder(Path("..")) == tmp_path / ".here.parts"
    assert parts_folder(Path("x")) == Path(".x.parts")
    with refused("/ cannot be an output; name a new file or folder inside it."):
        parts_folder(Path("/"))


def test_temporary_names_are_told_from_others(tmp_path: Path) -> None:
    own = tmp_path / ".a.b.tar.0123abcd.paredown-tmp"
    own.mkdir()
    (tmp_path / ".x.0123abcd.paredown-tmp").write_text("")
    others = [".a.b.tar.0123abc.paredown-tmp", "a.b.tar.0123abcd.paredown-tmp", ".a.b.tar.0123abcd.paredown-tmp2"]
    for name in others:
        (tmp_path / name).write_text("")
    assert clear_temporaries(tmp_path, "a") == []
    assert clear_temporaries(tmp_path, "a.b.tar") == [own]
    assert clear_temporaries(tmp_path) == [tmp_path / ".x.0123abcd.paredown-tmp"]
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(others)
    assert clear_temporaries(tmp_path / "absent") == []


def test_a_link_under_a_temporary_name_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "precious").mkdir()
    (tmp_path / "precious" / "x").touch()
    (tmp_path / ".a.0123abcd.paredown-tmp").symlink_to(tmp_path / "precious")
    clear_temporaries(tmp_path)
    assert [path.name for path in tmp_path.rglob("*")] == ["precious", "x"]


# --- refusals in full ----------------------------------------------------------------------------------------------


def test_refusals_word_by_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file, folder = tmp_path / "file.txt", tmp_path / "folder"
    file.touch()
    folder.mkdir()
    with refused(f"{file} already exists; choose another output; paredown did not write it."):
        check_output(file)
    with refused(f"{file} is a file, but a folder would be written there; choose another output."):
        check_output(file, overwrite=True, folder=True)
    with refused(f"{folder} is a folder, but a file would be written there; choose another output."):
        check_output(folder, overwrite=True)
    move = f"move it away (`mv {file} {file}.old`), or choose another output."
    with refused(f"{file} was not written by paredown, so it is never replaced; {move}"):
        check_output(file, overwrite=True)
    with refused(f"{file} was not written by paredown, so it is never replaced; {move}"):
        check_output(tmp_path / "new", beside=[file])
    with refused(f"cannot write {file / 'x'}: {file} is not a folder; choose another output."):
        check_output(file / "x")
    (tmp_path / "link").symlink_to("nowhere")
    with refused(f"{tmp_path / 'link'} already exists; choose another output; paredown did not write it."):
        check_output(tmp_path / "link")
    check_output(tmp_path / ("x" * 200))
    long = tmp_path / ("x" * 201)
    with refused(f"the name of {long} is too long; choose one of at most 200 bytes."):
        check_output(long)
    monkeypatch.setattr(os, "access", lambda path, mode: mode != os.W_OK)
    with refused(f"cannot write {tmp_path / 'a' / 'b'}: {tmp_path} is read-only; choose another output."):
        check_output(tmp_path / "a" / "b")


def test_outputs_and_sources_word_by_word(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "here" / "data").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "here")
    data = tmp_path / "here" / "data"
    with refused(f"{data} is also an input (data); choose another output."):
        check_apart(data, ["data"])
    with refused(f"{data / 'out'} is inside an input (data); choose an output outside it."):
        check_apart(data / "out", ["absent", "data"])
    with refused(f"{data} contains an input (data/x); choose an output outside it."):
        (data / "x").touch()
        check_apart(data, ["data/x"])
    with refused(". is the current folder, which would be replaced as a whole; name a new folder inside it."):
        check_apart(Path(), [])
    with refused(
        ".. is a folder above the current one, which would be replaced as a whole; name a new folder inside it."
    ):
        check_apart(Path(".."), [])
    check_apart(Path(".."), [], folder=False)
    check_apart(data / "out", [])


@pytest.mark.parametrize(
    ("number", "reason"),
    [
        (errno.ENOSPC, "the disk is full"),
        (errno.EDQUOT, "the disk quota is used up"),
        (errno.EFBIG, "the file would be larger than the system allows"),
        (errno.EACCES, "writing there is not permitted"),
        (errno.EROFS, "the file system is read-only"),
        (errno.ENAMETOOLONG, "the name is too long"),
    ],
)
def test_errors_name_the_output(tmp_path: Path, number: int, reason: str) -> None:
    out = tmp_path / "out"
    with refused(f"cannot write {out}: {reason}; nothing was changed. Choose another output."):
        with write_whole(out):
            raise OSError(number, "told badly")
    with refused(f"cannot write {out}: {reason}; nothing was changed. Choose another output."):
        with write_whole(tmp_path / "inside" / "x", output=out):
            raise OSError(number, "told badly", str(tmp_path / "inside" / "y"))
    with pytest.raises(OSError, match="elsewhere"):  # an error of reading is not one of writing
        with write_whole(out):
            raise OSError(number, "elsewhere", "/somewhere/else")
    assert not out.exists()
    with pytest.raises(OSError, match="odd"):
        with write_whole(out):
            raise OSError(errno.EBADF, "odd")


# --- locks ---------------------------------------------------------------------------------------------------------


def test_a_busy_folder(tmp_path: Path) -> None:
    out = tmp_path / "out"
    assert not is_busy(out)
    assert not lock_is_held(lock_file(out))
    with locked(out):
        assert lock_is_held(lock_file(out))
        assert is_busy(out)
        assert is_busy(out / "inside" / "deeper")
        assert not is_busy(tmp_path)
        owner = json.loads(lock_file(out).read_text())
        assert owner["process"] == os.getpid()
        assert set(owner) == {"process", "host", "since", "together"}
    assert not is_busy(out)
    assert list(tmp_path.iterdir()) == []
    lock_file(out).touch()  # left by a run that was killed
    assert not lock_is_held(lock_file(out))
    with locked(out):
        assert is_busy(out)


@pytest.mark.parametrize(
    ("content", "who"),
    [
        ('{"process": 7, "host": "h", "since": "now"}', "another run (process 7 on h, since now)"),
        ('{"process": 7}', "another run"),
        ("", "another run"),
        ("[1]", "another run"),
    ],
)
def test_whose_the_lock_is(tmp_path: Path, content: str, who: str) -> None:
    import fcntl

    out = tmp_path / "out"
    lock_file(out).write_text(content)
    with lock_file(out).open("r+") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with refused(f"{out} is being written by {who}; wait for it to finish, or choose another output."):
            with locked(out):
                pytest.fail("two at once")


# --- folders -------------------------------------------------------------------------------------------------------


def test_removing_and_exchanging(tmp_path: Path) -> None:
    remove_folder(tmp_path / "absent")
    for name in ("new", "home"):
        (tmp_path / name).mkdir()
        (tmp_path / name / name).touch()
    exchange_folder(tmp_path / "new", tmp_path / "home")
    assert [str(path.relative_to(tmp_path)) for path in sorted(tmp_path.rglob("*"))] == ["home", "home/new"]
    (tmp_path / "next").mkdir()
    exchange_folder(tmp_path / "next", tmp_path / "nowhere-yet")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "nowhere-yet"]


# --- records -------------------------------------------------------------------------------------------------------


def test_records_are_for_people_too(tmp_path: Path) -> None:
    write_json({"name": "é", "path": Path("a"), "number": np.float64(0.5)}, tmp_path / "x.json")
    assert (tmp_path / "x.json").read_bytes() == b'{\n  "name": "\\u00e9",\n  "path": "a",\n  "number": 0.5\n}\n'
    write_record(tmp_path / "sub" / "r.json", {"a": (1, 2)})
    assert read_record(tmp_path / "sub" / "r.json") == {"a": [1, 2]}
    assert read_record(tmp_path / "absent.json") is None
    with pytest.raises(TypeError, match=r"^a setting cannot be recorded: <object"):
        write_json({"x": object()}, tmp_path / "y.json")


def test_changes_in_words() -> None:
    assert str(Change("k", 1, "x" * 100)) == f"k was 1 and is now {repr('x' * 100)[:77]}..."
    assert str(Change("k", "x" * 78, None)) == f"k was {'x' * 78!r} and is not given now"
    before, now = {"a": 1, "b": {"c": 1, "d": 2}, "gone": 0}, {"new": 5, "a": 1, "b": {"c": 1, "d": 3, "e": 4}}
    assert changes(before, now) == [
        Change("new", None, 5),
        Change("b.d", 2, 3),
        Change("b.e", None, 4),
        Change("gone", 0, None),
    ]
    assert changes(before, now, names=["a", "gone"]) == [Change("gone", 0, None)]
    assert changes({"a": {"x": 1}}, {"a": 1}) == [Change("a", {"x": 1}, 1)]
    check_same("it was", before, before, advice="Never said.")
    with refused("swept was made with other settings: k was 1 and is now 2. Do this."):
        check_same("swept was", {"k": 1, "l": 1}, {"k": 2, "l": 2}, advice="Do this.")


def test_digests_by_definition() -> None:
    whole = hashlib.sha256(b'{"a": [1, 2], "b": "x"}').hexdigest()
    assert digest({"b": Path("x"), "a": (1, 2)}) == whole[:16]
    assert digest({"b": "x", "a": np.array([1, 2])}, 64) == whole
    assert tuples({"a": [1], "b": "x"}) == {"a": (1,), "b": "x"}


# --- where the system has no exchange ------------------------------------------------------------------------------


@pytest.mark.parametrize("folder", [False, True])
def test_new_outputs_without_the_help_of_the_system(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: bool
) -> None:
    monkeypatch.setattr(atomic, "_rename", lambda *arguments: False)
    with new_output(tmp_path / "out", folder=folder) as part:
        (part / "x" if folder else part).write_text("new")
    assert (tmp_path / "out" / "x" if folder else tmp_path / "out").read_text() == "new"


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="Linux renames with a promise")
def test_relative_names_are_exchanged_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("a", "b"):
        Path(name).mkdir()
        Path(name, name).touch()
    assert atomic._rename(Path("a"), Path("b"), atomic._EXCHANGE)
    assert [str(path) for path in sorted(Path().rglob("*"))] == ["a", "a/b", "b", "b/a"]


def test_a_file_may_be_named_like_the_folder_one_is_in_only_to_be_told_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with refused(f"{tmp_path} is a folder, but a file would be written there; choose another output."):
        check_output(tmp_path, overwrite=True)


def test_since_when_a_lock_is_held(tmp_path: Path) -> None:
    with locked(tmp_path / "out"):
        since = json.loads(lock_file(tmp_path / "out").read_text())["since"]
    assert re.fullmatch(r"20\d\d-\d\d-\d\d \d\d:\d\d:\d\d", since)


class _Library:
    """A C library that renames nothing and says why."""

    def __init__(self, number: int) -> None:
        self.number = number

    def renameat2(self, *arguments: object) -> int:
        import ctypes

        ctypes.set_errno(self.number)
        return -1

    renamex_np = renameat2


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOSYS, errno.ENOTSUP, errno.EOPNOTSUPP])
def test_a_file_system_without_such_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int) -> None:
    monkeypatch.setattr(atomic.ctypes, "CDLL", lambda *arguments, **options: _Library(number))
    assert not atomic._rename(tmp_path / "a", tmp_path / "b", atomic._NO_REPLACE)
    for overwrite in (False, True):
        with new_output(tmp_path / "out", folder=True, overwrite=overwrite) as part:
            (part / "x").write_text(str(overwrite))
        assert (tmp_path / "out" / "x").read_text() == str(overwrite)


@pytest.mark.parametrize("error", [AttributeError, OSError, TypeError])
def test_a_system_without_such_renames(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]) -> None:
    def missing(*arguments: object, **options: object) -> None:
        raise error("there is none")

    monkeypatch.setattr(atomic.ctypes, "CDLL", missing)
    with new_output(tmp_path / "out") as part:
        part.write_text("new")
    assert (tmp_path / "out").read_text() == "new"


def test_other_errors_of_renaming_are_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(atomic.ctypes, "CDLL", lambda *arguments, **options: _Library(errno.EIO))
    with pytest.raises(OSError, match=os.strerror(errno.EIO)) as caught:
        atomic._rename(tmp_path / "a", tmp_path / "b", atomic._EXCHANGE)
    assert (caught.value.errno, caught.value.filename) == (errno.EIO, str(tmp_path / "b"))
