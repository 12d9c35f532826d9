"""`paredown embed`: the store it writes, finishing what was killed, and refusing what does not belong together."""

from __future__ import annotations

import io
import json
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from PIL import Image
from sklearn.datasets import load_sample_image

import paredown as pdn
from paredown.embeddings.encoders import Encoder
from paredown.errors import PareError
from paredown.records import read_record, write_record
from paredown.sources import VectorSource


def brightness(images: list[Image.Image]) -> np.ndarray:
    """Mean, spread and corner of each image: a tiny encoder that tells digits apart."""
    grey = [np.asarray(image.convert("L"), np.float32) for image in images]
    return np.array([[g.mean(), g.std() + 1, g[2, 3] + 1, g[5, 4]] for g in grey])


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def vectors(store: Path) -> np.ndarray:
    source = pdn.open_source(store)
    assert isinstance(source, VectorSource)
    return np.concatenate([block.copy() for block in source.blocks(7)])  # blocks share one buffer


# --- the store -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("dtype", "size"), [("float16", 2), ("float32", 4)])
def test_store_holds_vectors_ids_labels_and_how_it_was_made(tmp_path, image_folder, dtype, size) -> None:
    store = pdn.embed(image_folder, out=tmp_path / "e", encoder=brightness, dtype=dtype, shard_size=25)
    assert sorted(contents(tmp_path / "e")) == [
        ".paredown",
        *(f"0000{i}.{suffix}" for i in range(3) for suffix in ("npy", "parquet")),
        "embed.json",
    ]
    assert (store.examples, store.dim, store.already, store.skipped) == (60, 4, 0, ())
    images = pdn.open_source(image_folder)
    opened = store.open()
    assert opened.ids.tolist() == images.ids.tolist()
    assert opened.labels is not None
    assert images.labels is not None
    assert opened.labels.names.tolist() == images.labels.names.tolist()
    expected = brightness(list(images.images())).astype(dtype)  # type: ignore[union-attr]
    np.testing.assert_array_equal(vectors(tmp_path / "e"), expected)
    assert np.load(tmp_path / "e" / "00000.npy").itemsize == size
    record = json.loads((tmp_path / "e" / "embed.json").read_text())
    assert record["complete"]
    assert record["settings"]["dtype"] == dtype
    assert record["settings"]["source"] == images.fingerprint()
    assert record["images"]["location"] == str(image_folder)


def test_classes_keep_their_order(tmp_path, image_folder) -> None:
    labels = np.arange(60) % 12  # as text, 10 would come before 2
    store = pdn.embed(image_folder, out=tmp_path / "e", encoder=brightness, labels=labels)
    opened = store.open()
    assert opened.labels is not None
    assert opened.labels.classes == tuple(map(str, range(12)))
    np.testing.assert_array_equal(opened.labels.codes, labels)


def test_every_kind_of_source_gives_the_same_vectors(tmp_path, image_folder) -> None:
    import datasets

    files = sorted(image_folder.rglob("*.png"))[:20]
    table = pa.table({"path": [str(file) for file in files]})
    pa.csv.write_csv(table, tmp_path / "list.csv")
    pq.write_table(table, tmp_path / "list.parquet")
    features = datasets.Features({"image": datasets.Image()})
    dataset = datasets.Dataset.from_dict({"image": [str(file) for file in files]}, features=features)
    dataset.save_to_disk(tmp_path / "hf")
    (tmp_path / "tars").mkdir()
    for number in range(3):
        with tarfile.open(tmp_path / "tars" / f"{number}.tar", "w") as tar:
            for i, file in list(enumerate(files))[number * 7 : number * 7 + 7]:
                info = tarfile.TarInfo(f"{i:03d}.png")
                info.size = file.stat().st_size
                tar.addfile(info, io.BytesIO(file.read_bytes()))
    expected = brightness([Image.open(file) for file in files]).astype(np.float16)
    for name in ("list.csv", "list.parquet", "hf", "tars"):
        pdn.embed(tmp_path / name, out=tmp_path / f"e-{name}", encoder=brightness, shard_size=6)
        np.testing.assert_array_equal(vectors(tmp_path / f"e-{name}"), expected, err_msg=name)
    # A shard in the middle is read from its own place: redo it alone.
    for name in ("list.csv", "hf", "tars"):
        before = contents(tmp_path / f"e-{name}")
        (tmp_path / f"e-{name}" / "00002.npy").unlink()
        store = pdn.embed(tmp_path / name, out=tmp_path / f"e-{name}", encoder=brightness, shard_size=6)
        assert store.already == 14
        assert contents(tmp_path / f"e-{name}") == before


@pytest.mark.parametrize("encoder", ["pixels", brightness])
def test_any_number_of_workers_gives_the_same_bytes(tmp_path, image_folder, encoder) -> None:
    for workers in (1, 5):
        pdn.embed(image_folder, out=tmp_path / str(workers), encoder=encoder, workers=workers, shard_size=17)
    assert contents(tmp_path / "1") == contents(tmp_path / "5")


def test_store_is_scored_pruned_and_exported_as_images(paredown, tmp_path, image_folder) -> None:
    pdn.embed(image_folder, out=tmp_path / "e", encoder="pixels", dtype="float32")
    direct = pdn.score(image_folder, encoder="pixels", k=5)
    scores = pdn.score(tmp_path / "e", k=5)
    np.testing.assert_allclose(scores.values, direct.values, atol=1e-6)
    assert scores.provenance["source"]["encoder"] == direct.provenance["source"]["encoder"]
    assert scores.provenance["warnings"] == direct.provenance["warnings"]
    result = paredown("prune", "e", "--keep-fraction", "0.5", "-o", "pruned", "--on-error", "skip")
    assert result.returncode == 0, result.stderr
    assert "whitened PCA" in result.stdout
    assert paredown("export", "pruned", "--to", "images", "-o", "kept").returncode == 0
    kept = sorted(file.relative_to(tmp_path / "kept").as_posix() for file in (tmp_path / "kept").rglob("*.png"))
    manifest, keep = pdn.read_manifest(tmp_path / "pruned")
    assert kept == sorted(manifest.ids[keep].tolist())
    image_folder.rename(tmp_path / "moved")
    result = paredown("export", "pruned", "--to", "images", "-o", "again")
    assert result.returncode == 2
    assert "say where they are with --source" in result.stderr
    assert paredown("export", "pruned", "--to", "images", "-o", "again", "--source", "moved").returncode == 0


def test_command_line_with_real_weights(paredown, tmp_path) -> None:
    (tmp_path / "photos").mkdir()
    for name in ("china", "flower"):
        photo = Image.fromarray(load_sample_image(f"{name}.jpg"))
        photo.save(tmp_path / "photos" / f"{name}.png")
        photo.crop((8, 8, *photo.size)).save(tmp_path / "photos" / f"{name}-shifted.png")
    result = paredown("embed", "photos", "-o", "e", "--encoder", "efficientnet_lite0")
    assert result.returncode == 0, result.stderr
    assert "Encoder: efficientnet_lite0, weights 064a5c56ec81e5ad" in result.stdout
    assert "4 embeddings of 1280 dimensions in e" in result.stdout
    assert "images per second" in result.stdout
    rows = vectors(tmp_path / "e").astype(np.float64)
    cosines = np.corrcoef(rows)
    assert cosines[0, 1] > 0.9  # china and its shifted self
    assert cosines[2, 3] > 0.9
    assert cosines[0, 2] < 0.5


def test_command_line_prints_json(paredown, image_folder) -> None:
    result = paredown("embed", image_folder, "-o", "e", "--encoder", "pixels", "--json")
    report = json.loads(result.stdout)
    assert (report["examples"], report["already"], report["complete"]) == (60, 0, True)
    assert (
        json.loads(paredown("embed", image_folder, "-o", "e", "--encoder", "pixels", "--json").stdout)["already"] == 60
    )


# --- stopped and started again -------------------------------------------------------------------------------------


def test_killed_at_any_moment_it_finishes_with_the_same_bytes(tmp_path, image_folder) -> None:
    """Kill the command for real, again and again, then let it finish."""
    command = [Path(sys.executable).parent / "paredown", "embed", image_folder, "--encoder", "pixels"]
    command += ["--shard-size", "2", "--workers", "2", "-o"]
    subprocess.run([*command, tmp_path / "whole"], check=True, capture_output=True)
    out, rng = tmp_path / "killed", random.Random(0)
    kills, done = 0, {}
    for shards in (0, 4, 9, 16):  # kill some milliseconds after so many shards are there
        process = subprocess.Popen([*command, out], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while process.poll() is None and not (out.exists() and len(list(out.glob("*.npy"))) >= shards):
            time.sleep(0.0005)
        time.sleep(rng.random() * 0.01)
        process.send_signal(signal.SIGKILL)
        kills += process.wait() == -signal.SIGKILL
        if process.returncode != 0:
            with pytest.raises(PareError, match=r"these embeddings are incomplete|is empty"):
                pdn.open_source(out)
        assert {file.name: file.stat().st_mtime_ns for file in out.glob("*.npy")}.items() >= done.items()
        done = {file.name: file.stat().st_mtime_ns for file in out.glob("*.npy")}
    assert kills >= 2
    subprocess.run([*command, out], check=True, capture_output=True)
    assert {file.name: file.stat().st_mtime_ns for file in out.glob("*.npy")}.items() >= done.items()  # left alone
    assert contents(out) == contents(tmp_path / "whole")


OVERWRITE = """
import sys, time
from paredown.embeddings import shard_jobs
real = shard_jobs.write_shard
shard_jobs.write_shard = lambda *arguments: (time.sleep(0.01), real(*arguments))  # long enough to be killed in
sys.argv = ["paredown", "embed", *sys.argv[1:], "--dtype", "float32", "--shard-size", "2", "--overwrite"]
from paredown.cli import main
main()
"""


def test_overwrite_killed_keeps_the_old_store_and_the_same_command_finishes(tmp_path, image_folder) -> None:
    options = {"encoder": "pixels", "shard_size": 2}
    pdn.embed(image_folder, out=tmp_path / "e", **options)
    pdn.embed(image_folder, out=tmp_path / "fresh", dtype="float32", **options)
    old = contents(tmp_path / "e")
    command = [sys.executable, "-c", OVERWRITE, image_folder, "-o", tmp_path / "e", "--encoder", "pixels"]
    growing = tmp_path / ".e.new"
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    while process.poll() is None and len(list(growing.glob("*.npy"))) < 6:
        time.sleep(0.001)
    process.send_signal(signal.SIGKILL)
    assert process.wait() == -signal.SIGKILL
    assert contents(tmp_path / "e") == old
    assert len(pdn.open_source(tmp_path / "e")) == 60
    done = {file.name: file.stat().st_mtime_ns for file in growing.glob("*.npy")}
    assert 6 <= len(done) < 30
    subprocess.run(command, check=True, capture_output=True)
    assert contents(tmp_path / "e") == contents(tmp_path / "fresh")
    assert {file.name: file.stat().st_mtime_ns for file in (tmp_path / "e").glob("*.npy")}.items() >= done.items()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e", "fresh", "images"]


def test_overwrite_begun_with_other_settings_starts_anew(tmp_path, image_folder) -> None:
    """Twice overwritten, each time with another dtype or shard size, the first time stopped half-way."""
    pdn.embed(image_folder, out=tmp_path / "e", encoder=brightness)
    old = contents(tmp_path / "e")

    def stops(images):
        raise KeyboardInterrupt

    stops.__module__, stops.__qualname__ = brightness.__module__, brightness.__qualname__
    with pytest.raises(KeyboardInterrupt):
        pdn.embed(image_folder, out=tmp_path / "e", encoder=stops, shard_size=7, overwrite=True)
    assert contents(tmp_path / "e") == old
    assert (tmp_path / ".e.new").exists()
    store = pdn.embed(image_folder, out=tmp_path / "e", encoder=brightness, shard_size=25, overwrite=True)
    assert (store.path, store.already) == (tmp_path / "e", 0)
    pdn.embed(image_folder, out=tmp_path / "fresh", encoder=brightness, shard_size=25)
    assert contents(tmp_path / "e") == contents(tmp_path / "fresh")
    with pytest.raises(KeyboardInterrupt):
        pdn.embed(image_folder, out=tmp_path / "e", encoder=stops, shard_size=7, overwrite=True)
    store = pdn.embed(image_folder, out=tmp_path / "e", encoder=brightness, shard_size=25, overwrite=True)
    assert store.already == 60  # the old store is what is wanted after all
    assert not (tmp_path / ".e.new").exists()


def test_an_exchange_of_stores_killed_half_way_is_finished(tmp_path, image_folder, monkeypatch) -> None:
    options = {"out": tmp_path / "e", "encoder": brightness, "shard_size": 25}
    pdn.embed(image_folder, **options | {"shard_size": 60})
    real, calls = os.rename, []

    def first_only(source, target):
        calls.append(source)
        if len(calls) == 2:
            raise KeyboardInterrupt
        real(source, target)

    with monkeypatch.context() as patch:
        patch.setattr("paredown.files.atomic._rename", lambda *_: False)  # a system without an exchange in one step
        patch.setattr("paredown.files.atomic.os.rename", first_only)
        with pytest.raises(KeyboardInterrupt):
            pdn.embed(image_folder, overwrite=True, **options)
    store = pdn.embed(image_folder, overwrite=True, **options)
    assert store.already == 60
    assert len(store.open()) == 60
    assert sorted(path.name for path in tmp_path.iterdir()) == ["e", "images"]


def test_a_failing_encoder_leaves_finished_shards(tmp_path, image_folder) -> None:
    calls = []

    def sometimes(images):
        calls.append(len(images))
        if len(calls) == 3:
            raise RuntimeError("out of memory")
        return brightness(images)

    with pytest.raises(RuntimeError, match="out of memory"):
        pdn.embed(image_folder, out=tmp_path / "e", encoder=sometimes, shard_size=20)
    assert pdn.embed(image_folder, out=tmp_path / "e", encoder=sometimes, shard_size=20).already == 40
    assert calls == [20, 20, 20, 20]


def test_finished_store_is_left_alone(tmp_path, image_folder) -> None:
    pdn.embed(image_folder, out=tmp_path / "e", encoder=brightness)
    before = {file: file.stat().st_mtime_ns for file in (tmp_path / "e").glob("0*")}

    def never(images):
        raise AssertionError("nothing is left to encode")

    never.__module__, never.__qualname__ = brightness.__module__, brightness.__qualname__
    assert pdn.embed(image_folder, out=tmp_path / "e", encoder=never).already == 60
    assert {file: file.stat().st_mtime_ns for file in (tmp_path / "e").glob("0*")} == before


def test_a_complete_store_needs_no_network(paredown, tmp_path, image_folder, monkeypatch) -> None:
    import paredown.embeddings.encoders as encoders

    loaded = []

    def network(name, weights, image_size, runtime):
        loaded.append(image_size)
        side = image_size or 8
        prepare = lambda image: np.asarray(image.convert("L").resize((side, side)), np.float32).ravel()
        return encoders.Encoder(name, name, prepare, np.stack, settings={"image_size": side}, warnings=("mind this",))

    monkeypatch.setattr(encoders, "_network_encoder", network)
    command = ["embed", "images", "-o", "store", "--encoder", "timm:tiny", "--dtype", "float32"]
    assert paredown(*command).returncode == 0
    again = paredown(*command)
    assert "60 were there already" in again.stdout
    assert "mind this" in again.stdout
    for _ in range(2):  # making scores, and finding them made
        scored = paredown("score", "images", "--encoder", "timm:tiny", "--embeddings", "store", "-o", "scores.parquet")
        assert scored.returncode == 0, scored.stderr
    assert "already complete" in scored.stdout
    assert loaded == [None]
    assert "image_size was 8 and is now 16" in paredown(*command, "--image-size", "16").stderr
    assert loaded == [None, 16]
    (tmp_path / "store" / "00000.npy").unlink()
    expected = [path.name for path in (tmp_path / "store").iterdir()]
    assert paredown(*command).returncode == 0  # the remembered encoder loads the network when it is needed
    assert loaded == [None, 16, None]
    assert sorted([*expected, "00000.npy"]) == sorted(path.name for path in (tmp_path / "store").iterdir())


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"dtype": "float32"}, r"dtype was 'float16' and is now 'float32'"),
        ({"shard_size": 30}, r"shard_size was 25 and is now 30"),
        ({"encoder": brightness}, r"encoder was 'pixels' and is now '.*brightness'"),
        ({"seed": 1}, r"seed was 0 and is now 1"),
        ({"labels": np.arange(60) % 2}, r"ids was"),
    ],
)
@pytest.mark.parametrize("finished", [True, False])
def test_other_settings_are_refused_by_name(tmp_path, image_folder, changed, message, finished) -> None:
    settings = {"encoder": "pixels", "shard_size": 25}
    pdn.embed(image_folder, out=tmp_path / "e", **settings)
    record = tmp_path / "e" / "embed.json"
    if not finished:
        (tmp_path / "e" / "00002.npy").unlink()
        write_record(record, (read_record(record) or {}) | {"complete": False})
    before = contents(tmp_path / "e")
    state = "finished" if finished else "begun"
    with pytest.raises(PareError, match=rf"embedding was {state} with other settings: {message}.*overwrite=True"):
        pdn.embed(image_folder, out=tmp_path / "e", **settings | changed)
    assert contents(tmp_path / "e") == before
    pdn.embed(image_folder, out=tmp_path / "e", overwrite=True, **settings | changed)
    pdn.embed(image_folder, out=tmp_path / "fresh", **settings | changed)
    assert contents(tmp_path / "e") == contents(tmp_path / "fresh")


def test_other_images_are_refused(tmp_path, image_folder) -> None:
    pdn.embed(image_folder, out=tmp_path / "e", encoder=brightness)
    next(iter(sorted(image_folder.rglob("*.png")))).unlink()
    with pytest.raises(PareError, match=r"with other settings: the images have changed"):
        pdn.embed(image_folder, out=tmp_path / "e", encoder=brightness)


# --- bad input -----------------------------------------------------------------------------------------------------


def test_unreadable_images_raise_or_are_listed(paredown, tmp_path, image_folder) -> None:
    files = sorted(image_folder.rglob("*.png"))
    files[3].write_bytes(files[3].read_bytes()[:50])
    files[40].write_bytes(b"not an image")
    names = [files[row].relative_to(image_folder).as_posix() for row in (3, 40)]
    result = paredown("embed", image_folder, "-o", "e", "--encoder", "pixels", "--shard-size", "20")
    assert result.returncode == 2
    assert f"image {names[0]} cannot be decoded" in result.stderr
    assert "--on-error skip" in result.stderr
    with pytest.raises(PareError, match=names[0]):
        pdn.embed(image_folder, out=tmp_path / "late", encoder=brightness, shard_size=20)
    for _ in range(2):  # the second time nothing is left to do, and the list is the same
        result = paredown("embed", image_folder, "-o", "e", "--encoder", "pixels", "--on-error", "skip")
        assert result.returncode == 0, result.stderr
        assert "Skipped 2:" in result.stdout
        assert all(name in result.stdout for name in names)
        assert "58 embeddings of 50 dimensions" in result.stdout
    record = json.loads((tmp_path / "e" / "embed.json").read_text())
    assert [what for what, _ in record["skipped"]] == names
    opened = pdn.open_source(tmp_path / "e")
    assert len(opened) == 58
    assert not set(names) & set(opened.ids.tolist())
    with pytest.raises(PareError, match=rf"image {names[0]} cannot be decoded"):
        pdn.embed(image_folder, out=tmp_path / "e", encoder="pixels")


def test_a_shard_without_a_readable_image(tmp_path) -> None:
    images = tmp_path / "images"
    images.mkdir()
    for row in range(6):
        Image.new("L", (9, 9), 10 * row + 5).save(images / f"{row}.png")
    for row in (2, 3):
        (images / f"{row}.png").write_bytes(b"no image")
    store = pdn.embed(images, out=tmp_path / "e", encoder=brightness, shard_size=2, on_error="skip")
    assert store.examples == 4
    assert store.open().ids.tolist() == ["0.png", "1.png", "4.png", "5.png"]
    assert np.load(tmp_path / "e" / "00001.npy").shape == (0, 4)
    for file in images.glob("*.png"):
        file.write_bytes(b"no image")
    with pytest.raises(PareError, match=r"none of its 6 images could be read"):
        pdn.embed(images, out=tmp_path / "none", encoder=brightness, on_error="skip")


def test_vectors_that_cannot_be_kept(tmp_path, image_folder) -> None:
    with pytest.raises(
        PareError, match=r"the embedding of image digit-0/\S+ has values too large for float16; use dtype='float32'"
    ):
        pdn.embed(image_folder, out=tmp_path / "e", encoder=lambda images: np.full((len(images), 2), 1e5))
    with pytest.raises(PareError, match=r"the embedding of image digit-0/\S+ has NaN or infinite values"):
        pdn.embed(image_folder, out=tmp_path / "f", encoder=lambda images: np.full((len(images), 2), np.nan))
    widths = Encoder("odd", "odd", np.asarray, lambda batch: np.ones((len(batch), len(batch))), batch_size=40)
    with pytest.raises(PareError, match=r"encoder 'odd' returned rows of different lengths: \[20, 40\]"):
        pdn.embed(image_folder, out=tmp_path / "g", encoder=widths)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--dtype", "int8"], r"dtype must be 'float16' or 'float32', got 'int8'"),
        (["--dtype", "nonsense"], r"dtype must be 'float16' or 'float32', got 'nonsense'"),
        (["--shard-size", "0"], r"--shard-size must be at least 1, got 0"),
        (["--workers", "0"], r"workers must be at least 1, got 0"),
        (["--encoder", "pixel"], r"unknown encoder 'pixel'; available: auto,"),
        (["--on-error", "ignore"], r"--on-error must be 'raise' or 'skip', got 'ignore'"),
    ],
)
def test_bad_options(paredown, tmp_path, image_folder, options, message) -> None:
    result = paredown("embed", image_folder, "-o", "e", "--encoder", "pixels", *options)
    assert result.returncode == 2
    assert message in result.stderr
    assert not (tmp_path / "e").exists()


def test_bad_places(paredown, tmp_path, image_folder, digits) -> None:
    np.save(tmp_path / "emb.npy", digits[0])
    assert "these are already embeddings (npy); score or prune them" in paredown("embed", "emb.npy", "-o", "e").stderr
    (tmp_path / "taken").mkdir()
    (tmp_path / "taken" / "precious.txt").write_text("keep me")
    for more in ([], ["--overwrite"]):
        result = paredown("embed", image_folder, "-o", "taken", "--encoder", "pixels", *more)
        assert "taken already exists and is not a store of embeddings" in result.stderr
    assert [file.name for file in (tmp_path / "taken").iterdir()] == ["precious.txt"]
    assert "emb.npy is a file, but a folder" in paredown("embed", image_folder, "-o", "emb.npy").stderr
    (tmp_path / "odd").mkdir()
    (tmp_path / "odd" / "embed.json").write_text("{")
    assert "odd/embed.json: not a readable record" in paredown("embed", image_folder, "-o", "odd").stderr
    assert "nowhere: there is no such file or folder" in paredown("embed", "nowhere", "-o", "e").stderr


def test_tables_beside_shards(tmp_path, rng) -> None:
    """Anyone's shards may have tables of ids beside them; what does not fit is named."""
    for number in range(2):
        np.save(tmp_path / f"{number}.npy", rng.standard_normal((3, 2)))
        names = [f"{number}-{row}" for row in range(3)]
        pq.write_table(pa.table({"id": names, "label": list("aba")}), tmp_path / f"{number}.parquet")
    source = pdn.open_source(tmp_path)
    assert source.ids.tolist() == ["0-0", "0-1", "0-2", "1-0", "1-1", "1-2"]
    assert source.labels is not None
    assert source.labels.counts.tolist() == [4, 2]
    pq.write_table(pa.table({"id": names}), tmp_path / "1.parquet")
    with pytest.raises(PareError, match=r"some shards have a 'label' column and others have none"):
        pdn.open_source(tmp_path)
    pq.write_table(pa.table({"id": names[:2], "label": list("ab")}), tmp_path / "1.parquet")
    with pytest.raises(PareError, match=r"1.parquet: has 2 rows for the 3 embeddings of 1.npy"):
        pdn.open_source(tmp_path)
    pq.write_table(pa.table({"name": names}), tmp_path / "1.parquet")
    with pytest.raises(PareError, match=r"1.parquet: it has no 'id' column"):
        pdn.open_source(tmp_path)
    (tmp_path / "1.parquet").unlink()
    with pytest.raises(PareError, match=r"1.parquet: there is no such file"):
        pdn.open_source(tmp_path)


def test_disk_full_while_writing_a_shard(tmp_path, image_folder, monkeypatch) -> None:
    save = np.save

    def full(stream, array):
        if len(array) == 20 and full.armed:
            raise OSError(28, os.strerror(28))
        save(stream, array)

    full.armed = True
    monkeypatch.setattr(np, "save", full)
    with pytest.raises(PareError, match=r"cannot write .*/e: the disk is full"):
        pdn.embed(image_folder, out=tmp_path / "e", encoder=brightness, shard_size=20)
    assert not list((tmp_path / "e").glob("*.npy"))
    full.armed = False
    assert pdn.embed(image_folder, out=tmp_path / "e", encoder=brightness, shard_size=20).examples == 60
