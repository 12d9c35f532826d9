"""Scoring and pruning images: the same whether their embeddings are in memory or in a store, killed or not."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import paredown as pdn
from paredown.embeddings import embedding, shard_jobs
from paredown.errors import PareError
from paredown.scoring import scoring


@pytest.fixture
def small_shards(monkeypatch) -> None:
    """Seven images are a shard, so that sixty are many."""
    monkeypatch.setattr(embedding, "SHARD_SIZE", 7)
    monkeypatch.setattr(scoring, "SHARD_SIZE", 7)


@pytest.fixture
def one_class_unreadable(image_folder) -> Path:
    for file in (image_folder / "digit-3").iterdir():
        file.write_bytes(b"no image")
    return image_folder


@pytest.mark.parametrize("metric", ["prototypes", "supervised_prototypes"])
def test_in_memory_among_parts_or_kept_is_the_same(metric, tmp_path, one_class_unreadable, small_shards) -> None:
    options = {"metric": metric, "encoder": "pixels", "on_error": "skip"} | ({"k": 4} if metric == "prototypes" else {})
    memory = pdn.score(one_class_unreadable, **options)
    parts = pdn.score(one_class_unreadable, checkpoint=tmp_path / "parts", **options)
    kept = pdn.score(one_class_unreadable, embeddings=tmp_path / "kept", **options)
    for other in (parts, kept):
        np.testing.assert_allclose(other.values, memory.values, atol=1e-5)  # shards of seven cut other batches
        assert other.ids.tolist() == memory.ids.tolist()
        assert other.labels is not None
        assert memory.labels is not None
        assert other.labels.classes == memory.labels.classes
        np.testing.assert_array_equal(other.labels.codes, memory.labels.codes)
        assert other.provenance["source"] == memory.provenance["source"]
        assert other.provenance["skipped"] == memory.provenance["skipped"]
        assert other.provenance["warnings"] == memory.provenance["warnings"]
    assert parts.values.tobytes() == kept.values.tobytes()
    assert not (tmp_path / "parts").exists()
    assert len(pdn.open_source(tmp_path / "kept")) == len(memory) < 60


def test_shards_of_the_real_size_give_the_bytes_of_memory(tmp_path, digits) -> None:
    from PIL import Image

    images = tmp_path / "images"
    images.mkdir()
    for row in range(60):
        Image.fromarray((digits[0][row].reshape(8, 8) * 15).astype(np.uint8)).save(images / f"{row:02d}.png")
    memory = pdn.score(images, encoder="pixels", k=4)
    kept = pdn.score(images, encoder="pixels", k=4, embeddings=tmp_path / "kept")
    assert kept.values.tobytes() == memory.values.tobytes()
    assert kept.provenance == memory.provenance
    assert embedding.SHARD_SIZE % 256 == 0  # of whole batches, whichever encoder


def test_few_images_leave_no_folder(tmp_path, image_folder, monkeypatch) -> None:
    monkeypatch.setattr(scoring.Job, "run", lambda *arguments: exec("raise KeyboardInterrupt"))
    with pytest.raises(KeyboardInterrupt):
        pdn.score(image_folder, encoder="pixels", checkpoint=tmp_path / "parts")
    assert not (tmp_path / "parts").exists()


def test_kept_embeddings_are_not_made_again(paredown, tmp_path, image_folder, monkeypatch) -> None:
    score = ["score", image_folder, "--encoder", "pixels", "--embeddings", "kept", "--k", "4", "-o"]
    assert paredown(*score, "a.parquet").returncode == 0
    with monkeypatch.context() as patch:
        patch.setattr(shard_jobs, "encode_images", None)  # nothing is left to encode
        assert paredown(*score, "b.parquet").returncode == 0
        command = ["prune", image_folder, "--encoder", "pixels", "--embeddings", "kept", "--k", "4", "-o", "pruned"]
        assert paredown(*command).returncode == 0
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()
    manifest, _ = pdn.read_manifest(tmp_path / "pruned")
    np.testing.assert_array_equal(manifest.values, pdn.read_scores(tmp_path / "a.parquet").values)
    assert paredown("export", "pruned", "--to", "images", "-o", "exported").returncode == 0  # it knows the images
    result = paredown(*score, "c.parquet", "--seed", "1")
    assert result.returncode == 2
    assert "kept: embedding was finished with other settings: seed was 0 and is now 1" in result.stderr
    assert "Run the same command as before, or remove that folder." in result.stderr


def test_a_store_that_embed_made_is_taken_as_it_is(tmp_path, image_folder) -> None:
    store = pdn.embed(image_folder, out=tmp_path / "e", encoder="pixels", dtype="float16", shard_size=25)
    direct = pdn.score(store.path, k=4)
    through = pdn.score(image_folder, encoder="pixels", k=4, embeddings=tmp_path / "e")
    assert through.values.tobytes() == direct.values.tobytes()
    assert through.provenance["source"]["location"] == str(image_folder)


def test_where_a_folder_for_embeddings_has_no_sense(tmp_path, image_folder, digits) -> None:
    kept = {"embeddings": tmp_path / "kept"}
    with pytest.raises(PareError, match=r"array: these are already embeddings \(array\); embeddings=... is for"):
        pdn.score(digits[0], **kept)
    with pytest.raises(PareError, match=r"metric 'random' does not use embeddings; leave out"):
        pdn.score(image_folder, metric="random", **kept)
    with pytest.raises(PareError, match=r"holds the embeddings of one source, and 2 sources are given"):
        pdn.score([image_folder, image_folder], **kept)
    for file in list(image_folder.rglob("*.png")):
        file.rename(image_folder / file.name)
        file.parent.rmdir() if not any(file.parent.iterdir()) else None
    with pytest.raises(PareError, match=r"'supervised_prototypes' needs labels"):  # before the long work
        pdn.score(image_folder, metric="supervised_prototypes", **kept)
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(("verb", "out"), [("score", "scores.parquet"), ("prune", "pruned")])
def test_a_full_disk_at_the_end_does_not_cost_the_embeddings(
    verb, out, paredown, tmp_path, image_folder, small_shards, monkeypatch
) -> None:
    command = [verb, image_folder, "--encoder", "pixels", "-o", out]
    real = pq.ParquetWriter.write_table

    def full(self, table, *arguments, **options):
        if Path(self.where).name in (out, "manifest.parquet"):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        real(self, table, *arguments, **options)

    monkeypatch.setattr(pq.ParquetWriter, "write_table", full)
    result = paredown(*command)
    assert result.returncode == 2
    assert "the disk is full" in result.stderr
    store = tmp_path / f".{out}.parts" / "0" / "embeddings"
    assert len(list(store.glob("*.npy"))) == 9
    monkeypatch.setattr(pq.ParquetWriter, "write_table", real)
    monkeypatch.setattr(shard_jobs, "encode_images", None)  # nothing is left to encode
    assert paredown(*command).returncode == 0
    assert not (tmp_path / f".{out}.parts").exists()


CHILD = """
import sys, time
from paredown.embeddings import embedding, shard_jobs
from paredown.scoring import scoring
embedding.SHARD_SIZE = scoring.SHARD_SIZE = 4
real = shard_jobs.write_shard
shard_jobs.write_shard = lambda *arguments: (time.sleep(0.03), real(*arguments))  # long enough to be killed in
sys.argv = ["paredown", *sys.argv[1:], "--encoder", "pixels", "--json"]
from paredown.cli import main
main()
"""


@pytest.mark.parametrize(("verb", "out", "file"), [("score", "s.parquet", ""), ("prune", "p", "manifest.parquet")])
def test_killed_while_embedding_it_finishes_with_the_same_bytes(
    verb, out, file, paredown, tmp_path, image_folder, monkeypatch
) -> None:
    monkeypatch.setattr(embedding, "SHARD_SIZE", 4)
    monkeypatch.setattr(scoring, "SHARD_SIZE", 4)
    (tmp_path / "undisturbed").mkdir()
    assert paredown(verb, image_folder, "-o", tmp_path / "undisturbed" / out, "--encoder", "pixels").returncode == 0
    command = [sys.executable, "-c", CHILD, verb, image_folder, "-o", tmp_path / out]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    store = tmp_path / f".{out}.parts" / "0" / "embeddings"
    while process.poll() is None and len(list(store.glob("*.npy"))) < 5:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert not (tmp_path / out).exists()
    done = {shard.name for shard in store.glob("*.npy")}
    assert 5 <= len(done) < 15
    written = []
    real = shard_jobs.write_shard
    monkeypatch.setattr(shard_jobs, "write_shard", lambda *a: (written.append(f"{a[1]:05d}.npy"), real(*a)))
    assert paredown(verb, image_folder, "-o", tmp_path / out, "--encoder", "pixels").returncode == 0
    assert sorted({*written, *done}) == [f"{number:05d}.npy" for number in range(15)]
    assert len(written) == 15 - len(done)  # no finished shard was made again
    assert (tmp_path / out / file).read_bytes() == (tmp_path / "undisturbed" / out / file).read_bytes()
    assert not (tmp_path / f".{out}.parts").exists()
