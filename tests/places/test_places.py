"""What is a place, what goes wrong with one, and that no verb takes one for a folder called `s3:`."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paredown as pdn
from paredown.errors import PareError
from paredown.places import absolute, as_place


def test_names() -> None:
    place = as_place("s3://bucket//a/./b.tar.gz")
    assert str(place) == "s3://bucket/a/b.tar.gz"
    assert (place.name, place.stem, place.suffix) == ("b.tar.gz", "b.tar", ".gz")
    assert str(place.parent / "c") == str(place.with_name("c")) == "s3://bucket/a/c"
    assert [str(parent) for parent in place.parents] == ["s3://bucket/a", "s3://bucket"]
    assert str(place.relative_to(as_place("s3a://bucket/a"))) == "b.tar.gz"  # type: ignore[arg-type]
    assert str(absolute("s3://bucket/x")) == "s3://bucket/x"
    assert as_place("file:///tmp/x") == Path("/tmp/x")
    assert as_place("mnist:data") == Path("mnist:data")
    assert {as_place("s3://b/x"), as_place(Path("s3://b/x"))} == {as_place("s3://b/x")}


@pytest.mark.parametrize("use", [os.fspath, open, os.stat, Path, np.load])
def test_a_remote_place_is_never_a_local_path(use) -> None:
    with pytest.raises(PareError, match="s3://bucket/x: this needs a path on this machine"):
        use(as_place("s3://bucket/x"))


def test_what_is_no_place() -> None:
    with pytest.raises(
        PareError, match="ftp://host/x: there is no access to ftp://; give a local path, or one of s3://"
    ):
        as_place("ftp://host/x")
    for given in ("s3://", "s3://bucket/../x"):
        with pytest.raises(PareError, match="not a place in an object store; give s3://BUCKET/FOLDER"):
            as_place(given)


def test_a_missing_package_is_named() -> None:
    pytest.importorskip("fsspec")
    with pytest.raises(PareError, match="gs:// needs the package gcsfs; run `pip install gcsfs`"):
        as_place("gs://bucket/x").exists()


def test_any_store_of_fsspec(tmp_path, rng) -> None:
    pytest.importorskip("fsspec")
    (tmp_path / "x").write_bytes(b"abc")
    place = as_place("memory://tests/folder/x")
    place.upload(tmp_path / "x")  # type: ignore[attr-defined]
    assert place.read_bytes() == b"abc"
    assert [file.name for file in as_place("memory://tests").rglob("*") if file.is_file()] == ["x"]
    place.unlink()
    assert not place.exists()


def test_a_place_in_the_store(tmp_path, s3) -> None:
    (tmp_path / "x").write_bytes(bytes(range(256)) * 1000)
    place = as_place(s3.put(tmp_path / "x", "a/b/x.npy"))
    assert place.is_file()
    assert place.parent.is_dir()
    assert not as_place(s3.url("a/b/y")).exists()
    assert place.stat().st_size == 256_000
    assert [str(file) for file in as_place(s3.url("a")).glob("*")] == [str(place.parent)]
    assert list(as_place(s3.url("a")).glob("*/*.npy")) == [place]
    with place.open("rb", buffering=0) as stream:
        s3.faults()
        stream.seek(1000)
        assert stream.read(3) == bytes([232, 233, 234])
    assert s3.requests() == [f"GET /{s3.bucket}/a/b/x.npy bytes=1000-1002"]
    with pytest.raises(FileNotFoundError):
        as_place(s3.url("nothing")).unlink()
    place.parent.rmtree(last="x.npy")  # type: ignore[attr-defined]
    assert not place.exists()


# --- what goes wrong -----------------------------------------------------------------------------------------------


def test_an_unknown_bucket(s3, tmp_path) -> None:
    np.save(tmp_path / "x.npy", np.ones((9, 2), np.float32))
    with pytest.raises(PareError, match="there is no bucket 'nobody'; check its name"):
        pdn.prune(tmp_path / "x.npy", keep_fraction=0.5, metric="random", out="s3://nobody/pruned")
    with pytest.raises(
        PareError, match=r"s3://nobody/x.npy: there is no bucket 'nobody'; check its name and AWS_ENDPOINT_URL"
    ):
        pdn.score("s3://nobody/x.npy")


def test_access_denied(s3, monkeypatch) -> None:
    s3.faults(deny=True)
    with pytest.raises(PareError, match=r"access was denied; check the credentials \(AWS_...\) and what they may do"):
        pdn.score(s3.url("x.npy"))
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", "/nowhere")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    with pytest.raises(PareError, match="access was denied, and no credentials are set; set AWS_ACCESS_KEY_ID"):
        pdn.score(s3.url("x.npy"))


def test_an_endpoint_where_nobody_answers(s3, monkeypatch) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{free.getsockname()[1]}")
        with pytest.raises(PareError, match=r"no object store answers at http://127.* check AWS_ENDPOINT_URL"):
            pdn.score(s3.url("x.npy"))
    monkeypatch.setenv("AWS_ENDPOINT_URL", "localhost")
    with pytest.raises(PareError, match="must be http://HOST:PORT or https://HOST:PORT, got 'localhost'"):
        pdn.score(s3.url("x.npy"))


# --- every verb ----------------------------------------------------------------------------------------------------

VERBS = {
    "clean": ["clean", "URL/x"],
    "compare": ["compare", "URL/x.npy", "-o", "URL/out.png"],
    "demo": None,  # trains for long, and writes through `files/` as the others do
    "embed": ["embed", "URL/images", "-o", "URL/out"],
    "export": ["export", "URL/x", "--to", "images", "-o", "URL/out"],
    "info": ["info", "URL/x"],
    "merge": ["merge", "URL/x"],
    "plan": ["plan", "URL/x.npy"],
    "prune": ["prune", "URL/images", "-o", "URL/out"],
    "report": ["report", "URL/x", "-o", "URL/out.html"],
    "reproduce": ["reproduce", "fig1a", "--size", "tiny", "-o", "URL/out"],
    "score": ["score", "URL/images", "-o", "URL/out.parquet"],
    "simulate": None,  # reads and writes nothing
    "sweep": ["sweep", "URL/images", "-o", "URL/out"],
    "theory": None,
    "verify": ["verify", "URL/x"],
}


def test_every_verb_is_tried() -> None:
    from paredown.cli.run import app

    assert VERBS.keys() == {str(command.name or command.callback.__name__) for command in app.registered_commands}  # type: ignore[union-attr]


@pytest.mark.parametrize("verb", [verb for verb, arguments in VERBS.items() if arguments])
def test_a_verb_reads_and_writes_remote_places_or_says_that_it_does_not(verb, s3, paredown, tmp_path) -> None:
    (tmp_path / "x").write_bytes(b"no image")
    s3.put(tmp_path / "x", "images/x.png")
    done = paredown(*(argument.replace("URL/", s3.url()) for argument in VERBS[verb] or ()))
    assert done.returncode == 2
    assert "s3://" in done.stderr
    assert "internal error" not in done.stderr
    assert "Traceback" not in done.stderr
    assert not list(tmp_path.glob("s3:*"))
    assert set(s3.objects("out")) <= ({".paredown", "embed.json"} if verb == "embed" else set())  # begun, as on a disk


@pytest.mark.parametrize("write", ["sweep", "export", "write_scores", "write_report"])
def test_python_takes_no_remote_place_for_a_local_one(write, s3, tmp_path, monkeypatch, image_folder) -> None:
    monkeypatch.chdir(tmp_path)
    out = s3.url("out.html" if write == "write_report" else "out")
    kept = pdn.select(np.arange(9.0), keep_fraction=0.5)
    calls = {
        "sweep": lambda: pdn.sweep(image_folder, out=out),
        "export": lambda: pdn.export(kept, to="images", out=out),
        "write_scores": lambda: pdn.write_scores(kept.scores, out),
        "write_report": lambda: pdn.report.write_report(out, out),
    }
    with pytest.raises((PareError, TypeError)):
        calls[write]()
    assert not list(tmp_path.glob("s3:*"))


def test_nothing_of_object_stores_is_imported_for_local_paths() -> None:
    code = "import sys, paredown.score_table; print('pyarrow.fs' in sys.modules, 'fsspec' in sys.modules)"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert found[1] == "False"


def test_local_names_that_a_library_would_take_for_others(tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for folder, first in (("~", 0), ("home", 100)):
        Path(folder).mkdir()
        pq.write_table(
            pa.table({"id": np.arange(first, first + 9), "score": np.arange(9.0)}), tmp_path / folder / "s.parquet"
        )
    assert pdn.select("~/s.parquet", keep_fraction=0.5).ids.max() < 9
    for name in ("~/q", "gs:x", "file:L"):
        pdn.prune(pdn.Scores(np.arange(9.0), np.arange(9)), keep_fraction=0.5, out=name)
        assert pdn.verify(name).problems == ()
    with pytest.raises(PareError, match="s3:: not a place in an object store; give s3://BUCKET/FOLDER"):
        pdn.prune(pdn.Scores(np.arange(9.0), np.arange(9)), keep_fraction=0.5, out="s3:")
    assert as_place("s3:/bucket/x") == as_place("s3://bucket/x")
