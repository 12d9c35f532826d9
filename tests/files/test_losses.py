"""Ways to lose data or to get an answer of other data, as a user would meet them: each is refused or repaired."""

from __future__ import annotations

import json
import os
import shutil
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import paredown as pdn
from paredown import files
from paredown.checkpoint import Checkpoint
from paredown.errors import PareError
from paredown.scoring import scoring_job as fitting
from paredown.sources import base
from paredown.sources.base import files_fingerprint


def tree(folder: Path) -> dict[str, bytes]:
    """Every file below a folder and what is in it."""
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.fixture
def embeddings(tmp_path, digits) -> Path:
    np.save(tmp_path / "emb.npy", digits[0])
    return tmp_path / "emb.npy"


# --- nothing of anyone else's is lost ------------------------------------------------------------------------------


@pytest.mark.parametrize("more", [[], ["--overwrite"]])
def test_embed_into_a_repository(paredown, tmp_path, image_folder, more) -> None:
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    (repo / ".git" / "HEAD").write_text("ref: refs/heads/main")
    before = tree(repo)
    result = paredown("embed", image_folder, "-o", "repo", "--encoder", "pixels", *more)
    assert result.returncode == 2
    assert "repo already exists and is not a store of embeddings of paredown" in result.stderr
    assert tree(repo) == before


def test_a_repository_made_inside_a_store_stays(paredown, tmp_path, image_folder) -> None:
    embed = ["embed", image_folder, "-o", "store", "--encoder", "pixels"]
    assert paredown(*embed).returncode == 0
    (tmp_path / "store" / ".dvc").mkdir()
    (tmp_path / "store" / ".dvc" / "config").write_text("remote")
    before = tree(tmp_path / "store")
    assert paredown(*embed).returncode == 0  # the store is complete
    assert tree(tmp_path / "store") == before
    result = paredown(*embed, "--dtype", "float32", "--overwrite")
    assert result.returncode == 2
    assert "store contains files that paredown did not write (.dvc)" in result.stderr
    assert tree(tmp_path / "store") == before


@pytest.mark.parametrize("out", ["images", "images/pruned", ".", "images/../images", "linked"])
def test_pruning_over_what_is_pruned(paredown, tmp_path, image_folder, out) -> None:
    (tmp_path / "linked").symlink_to(image_folder)
    before = tree(image_folder)
    result = paredown("prune", image_folder, "-o", out, "--encoder", "pixels", "--overwrite")
    assert result.returncode == 2
    assert "Traceback" not in result.stderr
    assert tree(image_folder) == before


@pytest.mark.parametrize("link", ["copy", "symbolic", "hard"])
def test_exporting_over_the_source(paredown, tmp_path, image_folder, link) -> None:
    assert paredown("prune", image_folder, "-o", "pruned", "--encoder", "pixels").returncode == 0
    before = tree(image_folder)
    options = ["--to", "images", "--link", link, "--overwrite"]
    for out in ("images", "images/kept", "pruned"):
        result = paredown("export", "pruned", *options, "-o", out)
        assert result.returncode == 2, out
    assert tree(image_folder) == before
    assert (tmp_path / "pruned" / "manifest.parquet").exists()


def test_a_list_of_images_that_lie_in_the_output(paredown, tmp_path, image_folder) -> None:
    """The list itself is elsewhere: the images that it names are what must not be replaced."""
    assert paredown("prune", image_folder, "-o", "p", "--encoder", "pixels").returncode == 0
    assert paredown("export", "p", "--to", "images", "-o", "subset").returncode == 0  # carries paredown's mark
    images = sorted((tmp_path / "subset").rglob("*.png"))
    (tmp_path / "list.csv").write_text("path\n" + "".join(f"{image}\n" for image in images))
    before = tree(tmp_path / "subset")
    result = paredown("prune", "list.csv", "-o", "subset", "--encoder", "pixels", "--overwrite")
    assert result.returncode == 2
    assert "subset contains an input" in result.stderr
    assert tree(tmp_path / "subset") == before


@pytest.mark.parametrize(
    ("command", "file"),
    [
        (["score", "emb.npy", "--labels", "l.parquet", "-o", "l.parquet"], "l.parquet"),
        (["score", "emb.npy", "--labels", "l.json", "-o", "l.parquet"], "l.json"),  # the sidecar
        (["score", "emb.npy", "--ids", "linked.txt", "-o", "l.parquet"], "linked.txt"),
        (["score", "emb.npy", "--model", "m.npz", "-o", "s.parquet", "--save-model", "m.npz"], "m.npz"),
        (["score", "emb.npy", "--warm-start", "m.npz", "-o", "s.parquet", "--save-model", "m.npz"], "m.npz"),
        (["score", "emb.npy", "--labels", "l.npy", "-o", "s.parquet", "--save-model", "l.npy"], "l.npy"),
        (["score", "emb.npy", "-o", "s.parquet", "--save-model", "emb.npy"], "emb.npy"),
        (["score", "--from", "old.parquet", "--higher-is", "harder", "-o", "old.parquet"], "old.parquet"),
        (["prune", "emb.npy", "--labels", "p/labels.txt", "-o", "p"], "p/labels.txt"),
        (["prune", "emb.npy", "--ids", "p/ids.txt", "-o", "p"], "p/ids.txt"),
        (["prune", "emb.npy", "--model", "p/m.npz", "-o", "p"], "p/m.npz"),
        (["prune", "emb.npy", "--warm-start", "p/m.npz", "-o", "p"], "p/m.npz"),
        (["prune", "emb.npy", "--warm-start", "m.npz", "-o", "new", "--save-model", "m.npz"], "m.npz"),
        (["prune", "old.parquet", "--labels", "l.npy", "-o", "l.npy"], "l.npy"),
        (["export", "p", "--to", "ids", "--ids", "kept.txt", "-o", "kept.txt"], "kept.txt"),
        (["embed", "images", "--labels", "store/l.txt", "-o", "store"], "store/l.txt"),
        (["embed", "images", "--ids", "e.onnx", "-o", "store", "--train-encoder", "e.onnx"], "e.onnx"),
    ],
)
def test_an_output_stays_clear_of_every_file_that_is_given(paredown, tmp_path, command, file) -> None:
    """Before any work: nothing is read, so that the files need not be what they are called."""
    for folder in ("images", "p", "store"):
        (tmp_path / folder).mkdir()
    (tmp_path / "linked.txt").symlink_to("l.parquet")
    for name in ("emb.npy", "l.parquet", "l.json", "l.npy", "m.npz", "old.parquet", "kept.txt", "e.onnx"):
        (tmp_path / name).write_text("precious")
    for name in ("p/labels.txt", "p/ids.txt", "p/m.npz", "store/l.txt"):
        (tmp_path / name).write_text("precious")
    before = tree(tmp_path)
    result = paredown(*command, "--overwrite")
    assert result.returncode == 2
    assert f"an input ({file})" in result.stderr
    assert tree(tmp_path) == before


def test_python_keeps_a_model_that_it_reads(tmp_path, digits) -> None:
    model = tmp_path / "m.npz"
    pdn.score(digits[0], k=5, save_model=model)
    before = model.read_bytes()
    with pytest.raises(PareError, match="is also an input"):
        pdn.score(digits[0], k=5, start=model, save_model=model, overwrite=True)
    assert model.read_bytes() == before


def test_scores_beside_someones_json(paredown, tmp_path, embeddings) -> None:
    (tmp_path / "data.json").write_text('{"precious": true}')
    for more in ([], ["--overwrite"]):
        result = paredown("score", embeddings, "-o", "data.parquet", *more)
        assert result.returncode == 2
        assert "data.json was not written by paredown, so it is never replaced" in result.stderr
    assert (tmp_path / "data.json").read_text() == '{"precious": true}'
    assert not (tmp_path / "data.parquet").exists()


def test_a_table_is_never_beside_the_record_of_another(tmp_path, rng, monkeypatch) -> None:
    one, two = (pdn.Scores(rng.random(9), np.arange(9), provenance={"seed": seed}) for seed in (1, 2))
    pdn.write_scores(one, tmp_path / "s.parquet")
    with monkeypatch.context() as patch:
        patch.setattr("paredown.score_files.write_sidecar", lambda *_: exec("raise KeyboardInterrupt"))
        with pytest.raises(KeyboardInterrupt):
            pdn.write_scores(two, tmp_path / "s.parquet", overwrite=True)
    assert pdn.read_scores(tmp_path / "s.parquet").provenance["seed"] == 2
    assert not (tmp_path / "s.json").exists()
    (problem,) = pdn.verify(tmp_path / "s.parquet").problems
    assert problem.what == "the copy of the record is missing; the table contains it as well"


def test_a_record_lost_to_a_kill_is_written_by_the_same_command(paredown, tmp_path, embeddings) -> None:
    score = ["score", embeddings, "-o", "s.parquet"]
    assert paredown(*score).returncode == 0
    record = (tmp_path / "s.json").read_bytes()
    (tmp_path / "s.json").unlink()
    result = paredown(*score)
    assert result.returncode == 0
    assert "s.parquet was already complete" in result.stdout
    assert (tmp_path / "s.json").read_bytes() == record


# --- a finished run is success ------------------------------------------------------------------------------------


def test_the_same_command_again_is_success_and_changes_nothing(paredown, tmp_path, image_folder, embeddings) -> None:
    commands = [
        ["embed", image_folder, "-o", "store", "--encoder", "pixels"],
        ["score", embeddings, "-o", "s.parquet", "--save-model", "m.npz"],
        ["score", embeddings, "-o", "two.parquet", "--metric", "prototypes,random"],
        ["prune", embeddings, "-o", "p1"],
        ["prune", "s.parquet", "-o", "p2", "--keep-fraction", "0.5"],
        ["prune", "s.parquet", "-o", "p3", "--keep-fraction", "0.5", "--memory", "1B"],
        ["prune", image_folder, "-o", "p4", "--encoder", "pixels"],
        ["export", "p1", "--to", "indices", "-o", "kept.npy"],
        ["export", "p4", "--to", "images", "-o", "kept"],
    ]
    for command in commands:
        assert paredown(*command).returncode == 0, command
    before = tree(tmp_path)
    for command in commands:
        again = paredown(*command)
        assert again.returncode == 0, (command, again.stderr)
        assert "already" in again.stdout, command
    assert tree(tmp_path) == before
    other = paredown("prune", embeddings, "-o", "p1", "--keep-fraction", "0.5")
    assert other.returncode == 2
    assert "p1 already exists, made with other settings: keep_fraction was 0.8 and is now 0.5" in other.stderr
    for command in (
        ["score", embeddings, "-o", "s.parquet", "--k", "7"],
        ["export", "p1", "--to", "uids", "-o", "kept.npy"],
    ):
        other = paredown(*command)
        assert other.returncode == 2
        assert "already exists; choose another output, or replace it with --overwrite" in other.stderr
    assert tree(tmp_path) == before


def test_a_note_beside_a_finished_manifest_is_no_mistake(paredown, tmp_path, embeddings) -> None:
    assert paredown("prune", embeddings, "-o", "p").returncode == 0
    (tmp_path / "p" / "notes.txt").write_text("mine")
    assert paredown("prune", embeddings, "-o", "p").returncode == 0
    refused = paredown("prune", embeddings, "-o", "p", "--overwrite")
    assert refused.returncode == 2
    assert (
        "p contains files that were added or changed since paredown wrote it (notes.txt), which would be lost"
        in refused.stderr
    )
    assert (tmp_path / "p" / "notes.txt").read_text() == "mine"


def test_other_data_under_the_same_name_are_not_the_same_run(paredown, tmp_path, embeddings, digits) -> None:
    assert paredown("prune", embeddings, "-o", "p").returncode == 0
    np.save(embeddings, digits[0][::-1])
    result = paredown("prune", embeddings, "-o", "p")
    assert result.returncode == 2
    assert "p already exists" in result.stderr


def test_python_finds_a_finished_run_too(tmp_path, embeddings) -> None:
    first = pdn.prune(embeddings, keep_fraction=0.5, out=tmp_path / "p")
    again = pdn.prune(embeddings, keep_fraction=0.5, out=tmp_path / "p")
    assert (first.already, again.already) == (False, True)
    np.testing.assert_array_equal(first.keep, again.keep)
    assert again.recipe == first.recipe
    forced = pdn.prune(embeddings, keep_fraction=0.5, out=tmp_path / "p", overwrite=True)
    assert not forced.already


# --- answers of other data ----------------------------------------------------------------------------------------


def test_parts_without_their_settings_are_not_trusted(tmp_path, digits, monkeypatch) -> None:
    monkeypatch.setattr(base, "BLOCK_BYTES", 32 * 64 * 4)
    monkeypatch.setattr(fitting, "_PART_BATCHES", 2)
    parts = tmp_path / "parts"
    options = {"sensitivity": False, "checkpoint": parts, "keep_checkpoint": True}
    pdn.score(digits[0][::-1], **options)  # other data
    for file in parts.rglob("settings.json"):
        file.unlink()
    mixed = pdn.score(digits[0], **options)
    assert mixed.values.tobytes() == pdn.score(digits[0], sensitivity=False).values.tobytes()


@pytest.mark.parametrize(
    "damage", [lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"PK" + data[2:-9]]
)
def test_damaged_parts_are_made_again(tmp_path, damage) -> None:
    checkpoint = Checkpoint(tmp_path / "c", {"seed": 0})
    checkpoint.save("x", {"values": np.arange(1000.0)})
    file = tmp_path / "c" / "x.npz"
    file.write_bytes(damage(file.read_bytes()))
    assert checkpoint.load("x") is None
    (tmp_path / "c" / "settings.json").write_text("{")
    assert Checkpoint(tmp_path / "c", {"seed": 1}).load("x") is None


def test_a_flipped_bit_in_a_part_is_noticed(tmp_path) -> None:
    checkpoint = Checkpoint(tmp_path / "c", {"seed": 0})
    checkpoint.save("x", {"values": np.arange(1000.0)})
    file = tmp_path / "c" / "x.npz"
    data = bytearray(file.read_bytes())
    data[4000] ^= 1
    file.write_bytes(data)
    assert checkpoint.load("x") is None


def test_a_folder_of_someone_is_no_checkpoint(tmp_path, digits) -> None:
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "a.png").write_bytes(b"x")
    with pytest.raises(PareError, match="photos already exists and is not an unfinished run of paredown"):
        pdn.score(digits[0], checkpoint=tmp_path / "photos")
    assert (tmp_path / "photos" / "a.png").exists()


def test_torn_and_foreign_shards_are_made_again(tmp_path, image_folder) -> None:
    options = {"encoder": "pixels", "shard_size": 20}
    pdn.embed(image_folder, out=tmp_path / "whole", **options)
    pdn.embed(image_folder, out=tmp_path / "e", **options)
    pdn.embed(image_folder, out=tmp_path / "other", encoder="pixels", shard_size=20, seed=1, dtype="float32")
    store = tmp_path / "e"
    record = json.loads((store / "embed.json").read_text()) | {"complete": False}
    (store / "embed.json").write_text(json.dumps(record))
    (store / "00000.npy").write_bytes((store / "00000.npy").read_bytes()[:200])  # torn
    for name in ("00001.npy", "00001.parquet"):  # of another run
        shutil.copy(tmp_path / "other" / name, store / name)
    again = pdn.embed(image_folder, out=store, **options)
    assert again.already == 20
    assert tree(store) == tree(tmp_path / "whole")


def test_a_store_that_lost_its_record_is_finished(tmp_path, image_folder) -> None:
    pdn.embed(image_folder, out=tmp_path / "e", encoder="pixels", shard_size=20)
    before = tree(tmp_path / "e")
    (tmp_path / "e" / "embed.json").write_text("{ damaged")
    assert pdn.embed(image_folder, out=tmp_path / "e", encoder="pixels", shard_size=20).already == 60
    assert tree(tmp_path / "e") == before


# --- fingerprints -------------------------------------------------------------------------------------------------


def test_a_fingerprint_sees_the_middle_of_a_large_file(tmp_path, rng, monkeypatch) -> None:
    monkeypatch.setattr(base, "_WHOLE_BYTES", 2**20)
    monkeypatch.setattr(base, "_CHUNKS", 64)
    rows = rng.standard_normal((40_000, 16)).astype(np.float32)  # 2.5 MB, of which 1 MB is looked at
    np.save(tmp_path / "a.npy", rows)
    before = files_fingerprint([tmp_path / "a.npy"])
    for start, stop in ((800, 39_200), (10_000, 12_000), (20_000, 21_000)):
        changed = rows.copy()
        changed[start:stop] += 1
        np.save(tmp_path / "a.npy", changed)
        assert files_fingerprint([tmp_path / "a.npy"]) != before, (start, stop)
    np.save(tmp_path / "a.npy", rows)
    assert files_fingerprint([tmp_path / "a.npy"]) == before


def test_a_fingerprint_sees_replaced_images(tmp_path) -> None:
    photos = tmp_path / "photos"
    photos.mkdir()
    for row in range(600):
        Image.new("L", (8, 8), row % 256).save(photos / f"{row:03d}.bmp")  # all of one size
    before = pdn.open_source(photos).fingerprint()
    for row in range(1, 600, 2):
        Image.new("L", (8, 8), (row + 100) % 256).save(photos / f"{row:03d}.bmp")
    assert pdn.open_source(photos).fingerprint() != before


def test_a_fingerprint_does_not_depend_on_times_or_order(tmp_path, image_folder) -> None:
    before = pdn.open_source(image_folder).fingerprint()
    shutil.copytree(image_folder, tmp_path / "copy")
    for file in (tmp_path / "copy").rglob("*.png"):
        os.utime(file, (1, 1))
    assert pdn.open_source(tmp_path / "copy").fingerprint() == before
    paths = sorted(image_folder.rglob("*.png"))
    assert files_fingerprint(paths[::-1]) == files_fingerprint(paths) == before


def test_a_resumed_run_looks_at_modification_times(paredown, tmp_path, image_folder) -> None:
    embed = ["embed", image_folder, "-o", "e", "--encoder", "pixels"]
    assert paredown(*embed).returncode == 0
    before = tree(tmp_path / "e")
    touched = min(image_folder.rglob("*.png"))
    os.utime(touched, ns=(time.time_ns(), touched.stat().st_mtime_ns + 10**9))
    result = paredown(*embed)
    assert result.returncode == 2
    assert "files were modified" in result.stderr
    assert "--trust-source" in result.stderr
    assert paredown(*embed, "--trust-source").returncode == 0
    after = tree(tmp_path / "e")
    assert before.pop("embed.json") != after.pop("embed.json")  # the new times are noted
    assert after == before
    assert paredown(*embed).returncode == 0


def test_an_export_of_other_data_is_refused(paredown, tmp_path, image_folder) -> None:
    assert paredown("prune", image_folder, "-o", "p", "--encoder", "pixels").returncode == 0
    changed = min(image_folder.rglob("*.png"))
    Image.new("L", (8, 8), 200).save(changed)
    export = ["export", "p", "--to", "images", "-o", "kept"]
    result = paredown(*export)
    assert result.returncode == 2
    assert "these are not the data that were scored; their content has changed since." in result.stderr
    assert not (tmp_path / "kept").exists()
    assert paredown(*export, "--trust-source").returncode == 0


# --- verify and clean ---------------------------------------------------------------------------------------------


def flip(file: Path, place: int) -> None:
    data = bytearray(file.read_bytes())
    data[place % len(data)] ^= 0x10
    file.write_bytes(data)


@pytest.fixture
def outputs(paredown, tmp_path, image_folder, embeddings):
    """One of everything, by the path that is verified."""
    for command in (
        ["embed", image_folder, "-o", "store", "--encoder", "pixels", "--shard-size", "20"],
        ["score", embeddings, "-o", "s.parquet", "--save-model", "m.npz", "--k", "5"],
        ["prune", "s.parquet", "-o", "p"],
        ["export", "p", "--to", "ids", "-o", "kept.txt"],
        ["export", "p", "--to", "indices", "-o", "kept.npy"],
    ):
        assert paredown(*command).returncode == 0
    recorder = pdn.Recorder(n_examples=50, n_classes=3)
    recorder.update(np.arange(50), np.random.default_rng(0).random((50, 3)), np.zeros(50, int), 0)
    recorder.save(tmp_path / "r.npz")
    return paredown


def test_everything_is_as_it_was_written(outputs) -> None:
    result = outputs("verify", "store", "s.parquet", "p", "kept.txt", "kept.npy", "m.npz", "r.npz", "--json")
    assert result.returncode == 0, result.stdout
    found = json.loads(result.stdout)["verified"]
    kinds = ["store of embeddings", "scores", "manifest", "export", "export", "model", "recording"]
    assert [item["kind"] for item in found] == kinds
    assert all(not item["problems"] and not item["unchecked"] for item in found)


@pytest.mark.parametrize(
    ("output", "file"),
    [
        ("store", "store/00001.npy"),
        ("store", "store/00001.parquet"),
        ("store", "store/embed.json"),
        ("s.parquet", "s.parquet"),
        ("p", "p/manifest.parquet"),
        ("p", "p/classes.csv"),
        ("kept.txt", "kept.txt"),
        ("kept.npy", "kept.npy"),
        ("m.npz", "m.npz"),
        ("r.npz", "r.npz"),
    ],
)
def test_a_flipped_bit_is_found_wherever_it_is(outputs, tmp_path, output, file) -> None:
    missed = missed_flips(tmp_path / output, tmp_path / file)
    # A zip has bytes that say nothing: times, attributes, and padding of headers.
    assert len(missed) <= (8 if file.endswith(".npz") else 0), missed


def missed_flips(output: Path, file: Path) -> list[int]:
    """At which of 40 places, the last hundred bytes among them, a flipped bit of a file is not found by `verify`."""
    whole = file.read_bytes()
    missed = []
    for place in [*np.random.default_rng(0).integers(0, len(whole), 34).tolist(), -100, -90, -80, -50, -5, -2]:
        flip(file, place)
        try:
            problems = pdn.verify(output).problems
        except PareError:  # not even known as paredown's any more
            problems = ("refused",)
        if not problems:
            missed.append(place)
        file.write_bytes(whole)
    assert pdn.verify(output).problems == ()
    return missed


def strip_digest(record: Path) -> None:
    """Make a record what an earlier version would have written."""
    content = json.loads(record.read_text())
    del content["record_sha256"]
    record.write_text(json.dumps(content, indent=2) + "\n")


def test_a_flipped_bit_in_a_sweep_is_found(tmp_path, digits) -> None:
    for name, at in (("train", slice(0, 200)), ("test", slice(200, 300))):
        np.savez(tmp_path / f"{name}.npz", embeddings=digits[0][at], labels=digits[1][at])
    config = {
        "data": {"source": str(tmp_path / "train.npz"), "test": str(tmp_path / "test.npz")},
        "grid": {"initial_size": [60], "keep_fraction": [0.5, 1.0], "metric": ["prototypes"], "seed": [0]},
        "student": {"recipe": "mlp", "steps": 3, "keep_weights": True},
        "probe": {"prototypes": {"k": 3}},
    }
    swept = tmp_path / "swept"
    before = pdn.sweep(config, out=swept, workers=1).table
    verified = pdn.verify(swept)
    assert (verified.kind, verified.problems, verified.unchecked) == ("sweep", (), 0)
    run = next(file for file in sorted((swept / "runs").glob("*.json")))
    scores = next((swept / "scores").glob("*.npy"))
    records = [swept / "settings.json", swept / "digests.json", swept / "data" / "features" / "data.json", run]
    for file in [*records, scores, run.with_suffix(".pt"), swept / "results.parquet", swept / "timings.parquet"]:
        assert missed_flips(swept, file) == [], file

    # A digit that changed in a result is not read as one: the run is done again.
    run.write_text(run.read_text().replace('"test_error": 0.', '"test_error": 0.0', 1))
    assert pdn.sweep(config, out=swept, workers=1).table.equals(before)
    assert pdn.verify(swept).problems == ()

    # Those of an earlier version have no digests: they are used, and verified as far as that goes.
    for file in (swept / "settings.json", swept / "data" / "features" / "data.json", run):
        strip_digest(file)
    (swept / "digests.json").unlink()
    verified = pdn.verify(swept)
    assert (verified.problems, verified.unchecked) == ((), 3 + 3 + 1 + 2)  # records; weights, scores and tables
    assert pdn.sweep(config, out=swept, workers=1).table.equals(before)


def test_a_flipped_bit_in_a_figure_is_found(paredown, tmp_path) -> None:
    make = ["reproduce", "fig1f", "--size", "tiny", "-o", "figures"]
    assert paredown(*make).returncode == 0
    figures = tmp_path / "figures"
    verified = pdn.verify(figures)
    assert (verified.kind, verified.problems, verified.files, verified.unchecked) == ("set of figures", (), 4, 0)
    for name in ("fig1f.json", "fig1f.csv", "fig1f.png", "results.md"):
        assert missed_flips(figures, figures / name) == [], name
    strip_digest(figures / "fig1f.json")
    verified = pdn.verify(figures)
    assert (verified.problems, verified.unchecked) == ((), 1)
    assert "already complete" in paredown(*make).stdout or paredown(*make).returncode == 0


def test_the_record_of_a_store(outputs, tmp_path) -> None:
    """One that was changed is not taken for what it says; one of an earlier version, without a digest, is."""
    record = tmp_path / "store" / "embed.json"
    whole = record.read_text()
    record.write_text(whole.replace('"examples": ', '"examples": 1', 1))
    with pytest.raises(PareError, match=r"embed.json: the record was changed or damaged since it was written"):
        pdn.open_source(tmp_path / "store")
    record.write_text(whole)
    strip_digest(record)
    verified = pdn.verify(tmp_path / "store")
    assert (verified.problems, verified.unchecked) == ((), 1)
    assert "record_sha256" not in pdn.open_source(tmp_path / "store").provenance()
    assert "1 file has no checksum" in outputs("verify", "store").stdout


def test_a_flipped_bit_in_scores_is_not_read_as_a_score(tmp_path, rng) -> None:
    """Page checksums are verified by every read, not only by `verify`."""
    scores = pdn.Scores(rng.random(5000), np.arange(5000))
    pdn.write_scores(scores, tmp_path / "s.parquet")
    whole = (tmp_path / "s.parquet").read_bytes()
    silent = 0
    for place in range(100, 30_000, 997):
        flip(tmp_path / "s.parquet", place)
        with suppress(PareError):
            silent += not np.array_equal(pdn.read_scores(tmp_path / "s.parquet").values, scores.values)
        (tmp_path / "s.parquet").write_bytes(whole)
    assert silent == 0


def test_missing_and_foreign_files_are_told(outputs, tmp_path) -> None:
    (tmp_path / "p" / "classes.csv").unlink()
    (tmp_path / "p" / "notes.txt").write_text("mine")
    result = outputs("verify", "p")
    assert result.returncode == 1
    assert "p/classes.csv: missing" in result.stdout
    assert "p/notes.txt: paredown did not write this" in result.stdout
    (tmp_path / "store" / "00002.npy").unlink()
    assert "00002.npy: missing, truncated" in outputs("verify", "store").stdout


def test_what_cannot_be_verified_is_said(outputs, tmp_path) -> None:
    (tmp_path / "mine.txt").write_text("x")
    for path, message in (("mine.txt", "was not written by paredown"), ("nowhere", "there is no such file or folder")):
        result = outputs("verify", path)
        assert result.returncode == 2
        assert message in result.stderr


def test_clean_removes_leftovers_and_nothing_else(paredown, tmp_path, embeddings) -> None:
    assert paredown("prune", embeddings, "-o", "p").returncode == 0
    (tmp_path / ".git").mkdir()
    (tmp_path / ".p.paredown-lock").write_text("{}")
    (tmp_path / ".old.txt.paredown").write_text('{"paredown": "1", "sha256": []}')
    for folder in (".p.0123abcd.paredown-tmp", ".x.parts", "deep/.y.0123abcd.paredown-tmp"):
        (tmp_path / folder).mkdir(parents=True)
    files.claim_folder(tmp_path / ".q.parts", "unfinished run")
    before = sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*"))
    dry = json.loads(paredown("clean", tmp_path, "--dry-run", "--json").stdout)["leftovers"]
    assert len(dry) == 5
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == before
    with files.locked(tmp_path / "deep" / "y"):
        (tmp_path / "deep" / ".y.0123abcd.paredown-tmp").mkdir()  # of a run that is alive
        result = paredown("clean", tmp_path)
    assert result.returncode == 0
    assert "kept" in result.stdout
    assert (tmp_path / "deep" / ".y.0123abcd.paredown-tmp").exists()
    left = sorted(path.name for path in tmp_path.iterdir())
    assert left == [".git", ".q.parts", ".x.parts", "deep", "emb.npy", "p"]
    assert pdn.verify(tmp_path / "p").problems == ()
    assert paredown("clean", ".", "--unfinished").returncode == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == [".git", ".x.parts", "deep", "emb.npy", "p"]
    assert "p: no leftovers of killed runs" in paredown("clean", "p").stdout


def test_outputs_of_the_version_before_still_open(tmp_path, rng) -> None:
    """Without marks and checksums: a manifest folder unchanged, replaced on demand."""
    old = tmp_path / "old"
    old.mkdir()
    table = pa.table({"id": [1, 2, 3], "keep": [True, False, True], "score": [0.3, 0.1, 0.2]})
    record = {"metric": "prototypes", "selection": {"keep_fraction": 0.6}}
    pq.write_table(table.replace_schema_metadata({b"paredown": json.dumps(record).encode()}), old / "manifest.parquet")
    (old / "manifest.json").write_text(json.dumps(record))
    assert pdn.read_manifest(old)[1].tolist() == [True, False, True]
    verified = pdn.verify(old)
    assert (verified.problems, verified.unchecked) == ((), 2)
    pdn.prune(rng.random((20, 3)), keep_fraction=0.5, out=old, overwrite=True)
    assert len(pdn.read_manifest(old)[1]) == 20


# --- what an attack found ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["prune", "demo"])
def test_nothing_takes_the_place_of_a_store(paredown, tmp_path, image_folder, embeddings, verb) -> None:
    assert paredown("embed", image_folder, "-o", "store", "--encoder", "pixels").returncode == 0
    (tmp_path / "store" / "notes.txt").write_text("precious")
    before = tree(tmp_path / "store")
    result = paredown(*(["prune", embeddings, "--overwrite"] if verb == "prune" else ["demo"]), "-o", "store")
    assert result.returncode == 2
    why = "holds a store of embeddings, which nothing else replaces"
    assert (why if verb == "prune" else "store already exists and is not an earlier demo") in result.stderr
    assert tree(tmp_path / "store") == before


def test_a_demo_replaces_nothing_but_a_demo(paredown, tmp_path, embeddings) -> None:
    assert paredown("prune", embeddings, "-o", "pruned", "--metric", "random").returncode == 0
    before = tree(tmp_path / "pruned")
    result = paredown("demo", "-o", "pruned", "--repeats", 2)
    assert result.returncode == 2
    assert "pruned already exists and is not an earlier demo" in result.stderr
    assert tree(tmp_path / "pruned") == before
    for _ in range(2):
        assert paredown("demo", "-o", "shown", "--repeats", 2).returncode == 0


def test_someones_json_put_beside_finished_scores(paredown, tmp_path, embeddings) -> None:
    score = ["score", embeddings, "-o", "s.parquet", "--metric", "random"]
    assert paredown(*score).returncode == 0
    (tmp_path / "s.json").write_text('{"precious": true}')
    result = paredown(*score)
    assert result.returncode == 2
    assert "s.json was not written by paredown, so it is never replaced" in result.stderr
    assert (tmp_path / "s.json").read_text() == '{"precious": true}'


def test_a_table_that_someone_changed_is_neither_finished_nor_replaced(paredown, tmp_path, embeddings) -> None:
    """Arrow keeps the metadata of a table, and so paredown's mark, through any change."""
    score = ["score", embeddings, "-o", "s.parquet", "--metric", "random"]
    assert paredown(*score).returncode == 0
    pq.write_table(pq.read_table(tmp_path / "s.parquet").slice(0, 10), tmp_path / "s.parquet")
    before = tree(tmp_path)
    assert "s.parquet already exists" in paredown(*score).stderr
    result = paredown(*score, "--overwrite")
    assert result.returncode == 2
    assert "s.parquet was changed since paredown wrote it, by the digest in s.json" in result.stderr
    assert tree(tmp_path) == before


def test_clean_leaves_what_is_only_named_like_a_leftover(tmp_path) -> None:
    (tmp_path / ".project.paredown").mkdir()
    (tmp_path / ".project.paredown" / "mine").write_text("precious")
    (tmp_path / ".config.paredown").write_text("precious")
    (tmp_path / ".folder.paredown-lock").mkdir()
    (tmp_path / "mine.txt").write_text("precious")
    (tmp_path / ".link.paredown-lock").symlink_to("mine.txt")
    before = tree(tmp_path)
    assert pdn.clean(tmp_path, unfinished=True) == []
    assert tree(tmp_path) == before


def test_a_folder_that_is_only_named_like_parts_stays(paredown, tmp_path) -> None:
    (tmp_path / "given.csv").write_text("id,score\n1,0.5\n2,0.25\n")
    (tmp_path / ".s.parquet.parts").mkdir()
    (tmp_path / ".s.parquet.parts" / "mine").write_text("precious")
    assert paredown("score", "--from", "given.csv", "--higher-is", "harder", "-o", "s.parquet").returncode == 0
    assert (tmp_path / ".s.parquet.parts" / "mine").read_text() == "precious"


def test_a_store_reached_by_a_link(paredown, tmp_path, image_folder) -> None:
    embed = ["embed", image_folder, "--encoder", "pixels", "-o"]
    assert paredown(*embed, "store").returncode == 0
    (tmp_path / "link").symlink_to("store")
    with files.locked(tmp_path / "store"), ThreadPoolExecutor() as pool:
        assert files.is_busy(tmp_path / "link")
        second = pool.submit(pdn.embed, image_folder, out=tmp_path / "link", encoder="pixels")
        with pytest.raises(PareError, match="store is being written by another thread"):
            second.result()
    assert paredown(*embed, "link", "--dtype", "float32", "--overwrite").returncode == 0
    assert (tmp_path / "link").is_symlink()
    assert np.load(tmp_path / "store" / "00000.npy").dtype == np.float32
    assert [item.name for item in tmp_path.iterdir() if item.name.endswith("-tmp")] == []


def test_an_export_of_other_data_is_not_the_same_export(paredown, tmp_path, image_folder) -> None:
    assert paredown("prune", image_folder, "-o", "pruned", "--encoder", "pixels").returncode == 0
    export = ["export", "pruned", "--to", "images", "-o", "kept"]
    assert paredown(*export).returncode == 0
    assert "already" in paredown(*export).stdout
    shutil.copytree(image_folder, tmp_path / "elsewhere")
    assert "kept already exists" in paredown(*export, "--source", "elsewhere").stderr
    next((tmp_path / "kept").rglob("*.png")).unlink()
    assert ".png is missing. Make it again with --overwrite" in paredown(*export).stderr
    assert paredown(*export, "--overwrite").returncode == 0
    first, second, *_ = sorted(image_folder.rglob("*.png"))
    shutil.copyfile(first, second)
    result = paredown(*export)
    assert result.returncode == 2
    assert "these are not the data that were scored" in result.stderr


@pytest.mark.parametrize(
    ("verb", "options", "why"),
    [
        ("prune", ["-o", "x", "--embeddings", "x"], "x and x would both be written, and are the same place"),
        ("prune", ["-o", "x", "--save-model", "x/m.npz"], "x and x/m.npz would both be written, and are inside"),
        ("score", ["-o", "x.parquet", "--save-model", "x.json"], "x.json and x.json would both be written"),
        ("embed", ["-o", "x", "--train-encoder", "x/e.onnx"], "x and x/e.onnx would both be written"),
    ],
)
def test_two_outputs_in_one_place(paredown, tmp_path, image_folder, verb, options, why) -> None:
    result = paredown(verb, image_folder, *options)
    assert result.returncode == 2
    assert why in result.stderr
    assert [item.name for item in tmp_path.iterdir()] == [image_folder.name]


def test_verify_reads_what_an_encoder_learnt(paredown, tmp_path, image_folder) -> None:
    assert paredown("embed", image_folder, "-o", "store", "--encoder", "pixels").returncode == 0
    state = tmp_path / "store" / "encoder.npz"
    content = bytearray(state.read_bytes())
    content[len(content) // 2] ^= 1
    state.write_bytes(content)
    (problem,) = pdn.verify(tmp_path / "store").problems
    assert problem.path == state
