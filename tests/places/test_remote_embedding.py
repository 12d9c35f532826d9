"""`embed` from an object store and into one, alone, in shares and on Ray: the store of a local run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any

import pytest

import paredown as pdn
from paredown.embeddings import merge_store
from paredown.errors import PareError
from paredown.places import StorageError

HOW = {"encoder": "pixels", "shard_size": 13}


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "paredown", *arguments], capture_output=True, text=True, timeout=300)


@pytest.fixture(params=["folder", "tars"])
def images(request, image_folder, tmp_path, s3) -> tuple[Path, str]:
    """Sixty images, one of them damaged, on disk and in the store."""
    every = sorted(image_folder.rglob("*.png"))
    every[40].write_bytes(b"not an image")
    if request.param == "tars":
        (tmp_path / "tars").mkdir()
        for number in range(3):
            with tarfile.open(tmp_path / "tars" / f"{number}.tar", "w") as tar:
                for row in range(20 * number, 20 * number + 20):
                    tar.add(every[row], f"{row:03d}.png")
        image_folder = tmp_path / "tars"
    for file in image_folder.rglob("*.*"):
        s3.put(file, f"images/{file.relative_to(image_folder).as_posix()}")
    return image_folder, s3.url("images")


def expected(images: tuple[Path, str], tmp_path: Path) -> dict[str, bytes]:
    """The store of a run on this machine; the record of one whose images are in the object store."""
    pdn.embed(images[0], out=tmp_path / "local", on_error="skip", **HOW)
    pdn.embed(images[1], out=tmp_path / "half", on_error="skip", **HOW)
    local, half = files(tmp_path / "local"), files(tmp_path / "half")
    record = half.pop("embed.json")
    before = local.pop("embed.json")
    assert half == local  # every shard, its table and what the encoder has learnt
    differing = {name for name, value in json.loads(record).items() if json.loads(before)[name] != value}
    assert differing == {"images", "state", "record_sha256"}
    return half | {"embed.json": record}


def test_images_and_store_in_the_object_store(images, tmp_path, s3) -> None:
    made = expected(images, tmp_path)
    store = pdn.embed(images[1], out=s3.url("store"), on_error="skip", **HOW)
    assert (store.examples, store.already, len(store.skipped)) == (59, 0, 1)
    assert s3.objects("store") == made
    s3.faults()
    assert pdn.embed(images[1], out=s3.url("store"), on_error="skip", **HOW).already == 60
    assert [line for line in s3.requests() if line.startswith("PUT") and not line.endswith(".json")] == []
    assert s3.objects("store") == made
    assert pdn.verify(s3.url("store")).problems == ()
    here, there = pdn.score(tmp_path / "local", k=4), pdn.score(s3.url("store"), k=4)
    assert (there.values.tolist(), there.ids.tolist()) == (here.values.tolist(), here.ids.tolist())


def test_shares_and_a_merge(images, tmp_path, s3, paredown) -> None:
    made = expected(images, tmp_path)
    command = ["embed", images[1], "-o", s3.url("store"), "--encoder", "pixels", "--shard-size", "13"]
    command += ["--on-error", "skip"]
    for share in (2, 3):
        assert paredown(*command, "--shard", f"{share}/3").returncode == 0
    with pytest.raises(PareError, match=r"2 of 5 shards are missing, such as 00000.npy, 00003.npy"):
        merge_store(s3.url("store"))
    done = paredown("score", s3.url("store"), "-o", "name")
    assert "these embeddings are incomplete" in " ".join(done.stderr.split())
    assert paredown(*command, "--shard", "1/3").returncode == 0
    assert paredown("merge", s3.url("store")).returncode == 0
    assert s3.objects("store") == made


@pytest.mark.xdist_group("ray")
def test_ray_gives_the_bytes_of_the_local_engine(image_folder, tmp_path, s3) -> None:
    """On a cluster of its own, whose workers have the credentials from here."""
    pytest.importorskip("ray")
    for file in image_folder.rglob("*.png"):
        s3.put(file, f"images/{file.relative_to(image_folder).as_posix()}")
    pdn.embed(s3.url("images"), out=tmp_path / "half", **HOW)
    how = ["--encoder", "pixels", "--shard-size", "13", "--engine", "ray", "--workers", "1"]
    done = run("embed", s3.url("images"), "-o", s3.url("store"), *how)
    assert done.returncode == 0, done.stderr
    assert s3.objects("store") == files(tmp_path / "half")
    done = run("embed", s3.url("images"), "-o", "s3://nobucket-of-ours/store", *how)
    assert "there is no bucket 'nobucket-of-ours'" in " ".join(done.stderr.split())


@pytest.mark.parametrize("shard", [None, "1/1"])
def test_a_run_that_is_killed_is_finished_by_the_same_command(images, tmp_path, s3, shard) -> None:
    made = expected(images, tmp_path)
    code = f"""
input()
import paredown as pdn
pdn.embed({images[1]!r}, out={s3.url("store")!r}, on_error="skip", shard={shard!r}, **{HOW!r})
"""
    process = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, text=True)
    s3.faults(put=7, do="kill", process=process.pid)
    process.communicate("\n")
    s3.faults()
    assert process.returncode == -signal.SIGKILL
    done = {name for name in s3.objects("store") if name.endswith(".npy")}
    assert 0 < len(done) < 5
    store = pdn.embed(images[1], out=s3.url("store"), on_error="skip", shard=shard, **HOW)
    assert store.already >= 13
    assert s3.objects("store") == made


def test_a_bucket_that_vanishes_and_a_refusal_end_the_run(image_folder, tmp_path, s3) -> None:
    for file in image_folder.rglob("*.png"):
        s3.put(file, f"images/{file.relative_to(image_folder).as_posix()}")
    calls: list[Any] = []
    asked: list[Any] = [lambda: s3.faults(deny=True)]

    def encode(images: list[Any]) -> Any:
        import numpy as np

        calls.append(images)
        if len(calls) == 2:
            asked[-1]()
        return np.ones((len(images), 3))

    how = {"encoder": encode, "shard_size": 13, "on_error": "skip"}
    with pytest.raises(StorageError, match="access was denied"):
        pdn.embed(s3.url("images"), out=s3.url("store"), **how)
    with pytest.raises(StorageError, match="access was denied"):  # what is there is not taken for missing
        merge_store(s3.url("store"))
    s3.faults()
    done = s3.objects("store")
    assert "00000.npy" in done
    calls += [None, None]
    assert pdn.embed(s3.url("images"), out=s3.url("store"), **how).already >= 13
    calls.clear()
    asked.append(s3.vanish)
    with pytest.raises(StorageError, match="there is no bucket"):
        pdn.embed(s3.url("images"), out=s3.url("other"), **how)
