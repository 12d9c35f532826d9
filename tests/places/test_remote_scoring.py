"""Scores from an object store to an object store: the same bytes as on a disk."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import pytest

import paredown as pdn
from paredown.errors import PareError
from paredown.places import as_place
from paredown.score_table import open_table
from paredown.scoring.ranged_scoring import merge, score_ranges
from paredown.sources import object_reading
from paredown.sources.base import files_fingerprint
from paredown.sources.row_ranges import RangedSource


@pytest.fixture
def embeddings(tmp_path: Path, s3, rng) -> str:
    """Two files of embeddings, and labels, in the store."""
    for number, rows in enumerate((700, 500)):
        np.save(tmp_path / "rows.npy", rng.normal(size=(rows, 16)).astype(np.float32))
        s3.put(tmp_path / "rows.npy", f"embeddings/{number:05d}.npy")
    np.save(tmp_path / "labels.npy", np.arange(1200) % 3)
    s3.put(tmp_path / "labels.npy", "embeddings/labels.npy")
    return s3.url("embeddings")


@pytest.fixture(autouse=True)
def small_ranges(monkeypatch) -> None:
    monkeypatch.setattr("paredown.sources.row_ranges.rows_per_range", lambda dim, *, rows=0: 256)


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "paredown", *arguments], capture_output=True, text=True, timeout=300)


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def test_scores_in_the_store_have_the_bytes_of_those_on_disk(tmp_path, s3, embeddings) -> None:
    score_ranges(embeddings, out=tmp_path / "scores", k=5)
    table = score_ranges(embeddings, out=s3.url("scores"), k=5)
    assert table is not None
    assert len(table) == 1200
    assert s3.objects("scores") == files(tmp_path / "scores")
    before = s3.objects("scores")
    s3.faults()
    assert score_ranges(embeddings, out=s3.url("scores"), k=5) is not None
    assert not [line for line in s3.requests() if line.startswith("PUT")]
    assert s3.objects("scores") == before


def test_shares_are_merged(tmp_path, s3, embeddings) -> None:
    score_ranges(embeddings, out=tmp_path / "scores", k=5)
    for share in (1, 2, 3):
        score_ranges(embeddings, out=s3.url("scores"), k=5, shard=f"{share}/3")
    assert len(merge(s3.url("scores"))) == 1200
    assert s3.objects("scores") == files(tmp_path / "scores")


def test_a_fingerprint_in_the_store_is_that_on_disk_and_made_in_few_requests(tmp_path, s3, rng, monkeypatch) -> None:
    monkeypatch.setattr("paredown.sources.base._WHOLE_BYTES", 2**20)
    monkeypatch.setattr("paredown.sources.base._CHUNK_BYTES", 2**10)  # 4,096 pieces of 1 KiB, a gap after each
    names = ("a.npy", "b.npy")
    for name, size in zip(names, (9_000_001, 3_000_001), strict=True):
        (tmp_path / name).write_bytes(rng.bytes(size))
        s3.put(tmp_path / name, name)
    expected = files_fingerprint([tmp_path / name for name in names])
    s3.faults()
    assert files_fingerprint([as_place(s3.url(name)) for name in names]) == expected
    read = [line for line in s3.requests() if " bytes=" in line]
    assert len(read) == 4  # three of up to 4 MiB, and one
    monkeypatch.setattr("paredown.sources.base._CHUNKS", 40)
    expected = files_fingerprint([tmp_path / name for name in names])
    monkeypatch.setattr(object_reading, "_GAP", 2**16)  # gaps are larger: each piece is a request
    s3.faults()
    assert files_fingerprint([as_place(s3.url(name)) for name in names]) == expected
    assert len([line for line in s3.requests() if " bytes=" in line]) == 30 + 9


def test_the_parts_of_a_fingerprint_are_asked_for_at_once(tmp_path, s3, rng, monkeypatch) -> None:
    monkeypatch.setattr("paredown.sources.base._WHOLE_BYTES", 2**10)
    monkeypatch.setattr("paredown.sources.base._CHUNKS", 8)
    monkeypatch.setattr(object_reading, "_GAP", 0)
    (tmp_path / "a.npy").write_bytes(rng.bytes(1_000_000))
    place = as_place(s3.put(tmp_path / "a.npy", "a.npy"))
    together, fetch = Barrier(8, timeout=60), object_reading._Object.fetch

    def met(*arguments: Any) -> bytes:
        together.wait()  # breaks unless all eight are on their way
        return fetch(*arguments)

    monkeypatch.setattr(object_reading._Object, "fetch", met)
    assert files_fingerprint([place]) == files_fingerprint([tmp_path / "a.npy"])


def test_shares_look_into_the_objects_once(s3, embeddings, monkeypatch) -> None:
    looks = []
    fingerprint = RangedSource.fingerprint
    monkeypatch.setattr(RangedSource, "fingerprint", lambda source: looks.append(1) or fingerprint(source))
    for share in (1, 2, 3):
        score_ranges(embeddings, out=s3.url("scores"), k=5, shard=f"{share}/3")
    assert len(looks) == 1
    rows = np.load(io.BytesIO(as_place(embeddings + "/00000.npy").read_bytes()))
    with io.BytesIO() as stream:
        np.save(stream, -rows)
        s3.client().put_object(Bucket=s3.bucket, Key="embeddings/00000.npy", Body=stream.getvalue())
    with pytest.raises(PareError, match="holds"):
        score_ranges(embeddings, out=s3.url("scores"), k=5, shard="1/3")
    assert len(looks) == 2


def test_only_the_rows_of_a_range_are_fetched_and_in_one_request(tmp_path, s3, embeddings) -> None:
    source = RangedSource(embeddings)
    s3.faults()
    opened = source.open(source.ranges()[2])  # the last rows of one file and the first of another
    for _ in opened.blocks(1000):
        pass
    first, second = (f"GET /{s3.bucket}/embeddings/0000{number}.npy" for number in (0, 1))
    reads = [line for line in s3.requests() if "npy bytes" in line and "labels" not in line]
    assert f"{first} bytes={128 + 512 * 64}-{128 + 700 * 64 - 1}" in reads
    assert f"{second} bytes=128-{128 + 68 * 64 - 1}" in reads
    assert len(reads) == 4  # and a header of each


@pytest.mark.xdist_group("ray")
def test_a_ray_cluster_writes_the_same_objects(s3, embeddings) -> None:
    pytest.importorskip("ray")
    whole = run("score", embeddings, "--k", "5", "-o", s3.url("whole"), "--shard", "1/1")
    on_ray = run("score", embeddings, "--k", "5", "-o", s3.url("scores"), "--engine", "ray", "--workers", "1")
    assert (whole.returncode, on_ray.returncode) == (0, 0), whole.stderr + on_ray.stderr
    assert s3.objects("scores") == s3.objects("whole")


@pytest.mark.parametrize("engine", ["local", pytest.param("ray", marks=pytest.mark.xdist_group("ray"))])
def test_a_run_that_is_killed_between_two_objects_is_finished_by_the_same_command(tmp_path, s3, embeddings, engine):
    if engine == "ray":
        pytest.importorskip("ray")
    score_ranges(embeddings, out=tmp_path / "scores", k=5)
    code = f"""
import paredown.sources.row_ranges as r
r.rows_per_range = lambda dim, *, rows=0: 256
input()
from paredown.scoring.ranged_scoring import score_ranges
score_ranges({embeddings!r}, out={s3.url("scores")!r}, k=5, engine={engine!r})
"""
    run = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, text=True, start_new_session=True)
    s3.faults(put=6, do="kill", process=run.pid)
    run.communicate("\n")
    s3.faults()
    assert run.returncode == -signal.SIGKILL
    done = s3.objects("scores")
    assert "_complete.json" not in done
    with pytest.raises(PareError, match="incomplete"):
        open_table(s3.url("scores"))
    score_ranges(embeddings, out=s3.url("scores"), k=5)
    assert s3.objects("scores") == files(tmp_path / "scores")


def test_a_transfer_that_fails_is_repeated_by_the_same_command(tmp_path, s3, embeddings) -> None:
    score_ranges(embeddings, out=tmp_path / "scores", k=5)
    s3.faults(put=4, do="fail")
    with pytest.raises(PareError, match=r"the object store failed .*Run the same command again to go on"):
        score_ranges(embeddings, out=s3.url("scores"), k=5)
    s3.faults()
    score_ranges(embeddings, out=s3.url("scores"), k=5)
    assert s3.objects("scores") == files(tmp_path / "scores")


def test_overwriting_removes_only_scores(tmp_path, s3, embeddings) -> None:
    score_ranges(embeddings, out=s3.url("scores"), k=5)
    score_ranges(embeddings, out=s3.url("scores"), k=6, overwrite=True)
    score_ranges(embeddings, out=tmp_path / "scores", k=6)
    assert s3.objects("scores") == files(tmp_path / "scores")
    s3.put(tmp_path / "rows.npy", "scores/mine.npy")
    with pytest.raises(PareError, match=r"also holds mine\.npy, which paredown did not write and which would be lost"):
        score_ranges(embeddings, out=s3.url("scores"), k=5, overwrite=True)


def test_images_are_embedded_into_the_store(tmp_path, s3, image_folder) -> None:
    how = {"encoder": "pixels", "shard_size": 25}
    pdn.embed(image_folder, out=tmp_path / "store", **how)
    pdn.embed(image_folder, out=s3.url("store"), **how)
    assert s3.objects("store") == files(tmp_path / "store")
    on_disk, remote = pdn.score(tmp_path / "store", k=4), pdn.score(s3.url("store"), k=4)
    assert np.array_equal(on_disk.values, remote.values)
    assert pdn.verify(s3.url("store")).problems == ()
    with pytest.raises(PareError, match="stores in object stores are not replaced; remove it first"):
        pdn.embed(image_folder, out=s3.url("store"), overwrite=True, **how)
