"""`paredown info`: every kind of output and source, finished or not, and what is none of them."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import quick_students

import paredown as pdn
from paredown.describing.fact_lines import fact_lines
from paredown.embeddings.encoders.pixel_pca import WEAK_ENCODER
from paredown.errors import PareError
from paredown.files import claim_folder
from paredown.records import write_record
from paredown.reproduce import Claim
from paredown.scores import Scores


@pytest.fixture
def embeddings(tmp_path, digits):
    np.save(tmp_path / "emb.npy", digits[0][:300])
    return tmp_path / "emb.npy"


def test_a_manifest(tmp_path, digits, embeddings, paredown) -> None:
    kept = pdn.prune(embeddings, labels=digits[1][:300], keep_fraction=0.4, out=tmp_path / "pruned")
    scores = kept.scores
    found = pdn.info(tmp_path / "pruned")
    assert found.kind == "manifest"
    assert (found.facts["examples"], found.facts["classes"]) == (300, 10)
    assert found.facts["kept"]["kept"] == 120
    assert found.facts["balance_score"] == kept.balance_scores()
    (metric,) = found.facts["metrics"]
    assert (metric["metric"], metric["median"]) == ("prototypes", pytest.approx(np.median(scores.values), rel=1e-15))
    assert (metric["lowest"], metric["highest"]) == (scores.values.min(), scores.values.max())
    hardest = np.argsort(-scores.values)
    assert [one["id"] for one in metric["hardest"]] == scores.ids[hardest[:5]].tolist()
    assert [one["id"] for one in metric["easiest"]] == scores.ids[hardest[:-6:-1]].tolist()
    assert found.facts["source"] == {"location": str(embeddings), "kind": "npy", "examples": 300, "state": "present"}
    assert found.facts["complete"] is True
    assert pdn.info(tmp_path / "pruned" / "manifest.parquet").facts == found.facts
    assert pdn.info(tmp_path / "pruned" / "manifest.json").facts == found.facts

    shown = paredown("info", "pruned").stdout.splitlines()
    assert shown[0] == "pruned (manifest)"
    assert shown[1].split() == ["examples", "300", "in", "10", "classes"]
    assert shown[2].split() == ["kept", "120", "(40", "%):", "hard,", "floor", "0.5", "per", "class"]
    assert len(shown) <= 11
    assert json.loads(paredown("info", "pruned", "--json").stdout) == {
        "path": "pruned",
        "kind": "manifest",
        **found.facts,
    }


def test_data_that_moved_or_changed(tmp_path, embeddings) -> None:
    pdn.prune(embeddings, keep_fraction=0.5, out=tmp_path / "pruned")
    later = (tmp_path / "pruned" / "manifest.parquet").stat().st_mtime + 3600
    os.utime(embeddings, (later, later))
    source = pdn.info(tmp_path / "pruned").facts["source"]
    assert source["state"] == "modified"
    assert (
        f"emb.npy (npy), modified later, at {source['modified'][:10]}"
        in pdn.info(tmp_path / "pruned").introduce()["source"]
    )
    embeddings.unlink()
    assert pdn.info(tmp_path / "pruned").facts["source"]["state"] == "missing"
    assert pdn.info(tmp_path / "pruned").introduce()["source"].endswith("emb.npy (npy), which is not there any more")


def test_scores_by_several_metrics_and_of_others(tmp_path, rng) -> None:
    ids = [f"x{row}" for row in range(50)]
    values = rng.standard_normal((2, 50))
    pdn.write_scores(
        [Scores(values[0], np.array(ids), "mine"), Scores(values[1], np.array(ids), "yours")], tmp_path / "s.parquet"
    )
    found = pdn.info(tmp_path / "s.parquet", extremes=2)
    assert [metric["metric"] for metric in found.facts["metrics"]] == ["mine", "yours"]
    for metric, own in zip(found.facts["metrics"], values, strict=True):
        assert metric["median"] == np.median(own)
        assert [one["id"] for one in metric["hardest"]] == [ids[row] for row in np.argsort(-own)[:2]]
    assert found.introduce()["scores"] == "2 metrics: mine, yours"
    # a folder of tables that paredown did not write
    (tmp_path / "shards").mkdir()
    for part in range(2):
        rows = slice(25 * part, 25 * part + 25)
        pq.write_table(pa.table({"id": ids[rows], "loss": values[0][rows]}), tmp_path / "shards" / f"{part}.parquet")
    others = pdn.info(tmp_path / "shards")
    assert (others.kind, others.facts["examples"]) == ("scores", 50)
    assert others.facts["metrics"][0]["median"] == np.median(values[0])
    assert "paredown" not in others.facts


def test_a_store_finished_and_not(tmp_path, image_folder) -> None:
    pdn.embed(image_folder, out=tmp_path / "store", encoder="pixels", shard_size=16)
    found = pdn.info(tmp_path / "store")
    assert found.kind == "store of embeddings"
    assert (found.facts["examples"], found.facts["classes"], found.facts["dimensions"]) == (60, 10, 50)
    assert found.facts["source"]["kind"] == "image folder"
    assert found.introduce()["parts"] == "4 shards"
    assert found.introduce()["warning"] == WEAK_ENCODER
    record = json.loads((tmp_path / "store" / "embed.json").read_text())
    for name in ("examples", "dim", "shards", "record_sha256"):
        del record[name]
    (tmp_path / "store" / "embed.json").write_text(json.dumps(record | {"complete": False}))
    (tmp_path / "store" / "00002.npy").unlink()
    unfinished = pdn.info(tmp_path / "store")
    assert unfinished.facts["parts"] == {"what": "shards", "done": 3, "of": 4}
    assert unfinished.introduce()["state"] == (
        "unfinished: run the command that writes store again; it resumes from what is finished"
    )
    (tmp_path / "store" / "embed.json").write_text("{")
    with pytest.raises(PareError, match="the record of this store is missing or damaged"):
        pdn.info(tmp_path / "store")


def test_a_claim_of_an_earlier_version_that_did_not_hold_is_contradicted(tmp_path) -> None:
    """As `paredown reproduce` reads the record; `verdict` came later than `held`."""
    old = [{"claim": "a", "held": held, "evidence": "e"} for held in (True, False, False)]
    new = [Claim.judged("a", held, "e").record() for held in (True, None)]
    claim_folder(tmp_path / "figures", "set of figures")
    write_record(tmp_path / "figures" / "fig1a.json", {"paredown": "0.1.0", "figure": "fig1a", "claims": old + new})
    found = pdn.info(tmp_path / "figures")
    assert found.facts["claims"] == {"held": 2, "contradicted": 2, "cannot tell": 1}
    assert [Claim.from_record(each).verdict.value for each in old] == ["held", "contradicted", "contradicted"]


def test_a_model_and_a_recording(tmp_path, embeddings, digits) -> None:
    pdn.score(embeddings, k=7, save_model=tmp_path / "model.npz")
    model = pdn.info(tmp_path / "model.npz")
    assert model.kind == "model"
    assert [model.facts[name] for name in ("metric", "dimensions", "centroids")] == ["prototypes", 64, 7]
    assert model.introduce()["fitted"] == "7 centroids, k 7"
    recorder = pdn.Recorder(n_examples=4, n_classes=2)
    for epoch in range(3):
        recorder.update([0, 1, 2], np.eye(2)[[0, 1, 0]], [0, 1, 1], epoch)
    recorder.save(tmp_path / "recording.npz")
    recording = pdn.info(tmp_path / "recording.npz")
    assert recording.kind == "recording"
    assert [recording.facts[name] for name in ("examples", "classes", "epochs", "unseen")] == [4, 2, 3, 1]


def test_a_sweep_finished_and_not(tmp_path) -> None:
    rng = np.random.default_rng(0)
    for name, n in (("train", 90), ("test", 60)):
        labels = np.arange(n) % 3
        np.save(tmp_path / f"{name}.npy", rng.standard_normal((n, 5)) + 3 * np.eye(5)[labels])
        np.save(tmp_path / f"{name}_labels.npy", labels)
    config = {
        "data": {
            "source": str(tmp_path / "train.npy"),
            "labels": str(tmp_path / "train_labels.npy"),
            "test": str(tmp_path / "test.npy"),
            "test_labels": str(tmp_path / "test_labels.npy"),
        },
        "grid": {"initial_size": [40, 80], "keep_fraction": [0.5, 1.0], "metric": ["prototypes"], "seeds": 2},
        "student": {"recipe": "linear", "steps": 5},
    }
    runs = quick_students.sweep_quickly(config, tmp_path / "swept", workers=1).num_rows
    found = pdn.info(tmp_path / "swept")
    assert found.kind == "sweep"
    assert found.facts["parts"] == {"what": "runs", "done": runs, "of": runs}
    assert found.facts["grid"]["initial_size"] == [40, 80]
    assert found.facts["complete"] is True
    for name in ("results", "timings"):
        assert pdn.info(tmp_path / "swept" / f"{name}.parquet").facts == found.facts
    # killed before the last two runs had ended
    (tmp_path / "swept" / "digests.json").unlink()
    for file in sorted((tmp_path / "swept" / "runs").glob("*.json"))[-2:]:
        file.unlink()
    unfinished = pdn.info(tmp_path / "swept")
    assert unfinished.introduce()["parts"] == f"{runs - 2} of {runs} runs done"
    assert unfinished.introduce()["state"].startswith("unfinished: run the command that writes swept again")


def test_exports(tmp_path, image_folder) -> None:
    pdn.prune(image_folder, keep_fraction=0.5, out=tmp_path / "p", scoring={"encoder": "pixels"})
    pdn.export(tmp_path / "p", to="images", out=tmp_path / "kept")
    found = pdn.info(tmp_path / "kept")
    assert (found.kind, found.facts["form"], found.facts["examples"]) == ("export", "image folder", 30)
    assert found.facts["files"]["number"] == 30
    pdn.export(tmp_path / "p", to="ids", out=tmp_path / "ids.txt")
    ids = pdn.info(tmp_path / "ids.txt")
    assert (ids.kind, ids.facts["form"]) == ("export", "txt")
    assert ids.facts["files"] == {"number": 1, "bytes": (tmp_path / "ids.txt").stat().st_size}
    (tmp_path / "ids.txt").write_text("other")
    with pytest.raises(PareError, match=r"ids.txt: it was changed or damaged since paredown wrote it; export it again"):
        pdn.info(tmp_path / "ids.txt")


def test_sources_of_others(tmp_path, image_folder, embeddings, digits) -> None:
    assert pdn.info(image_folder).facts == {"examples": 60, "classes": 10, "warnings": []}
    found = pdn.info(embeddings)
    assert (found.kind, found.facts["examples"], found.facts["dimensions"]) == ("npy", 300, 64)
    pq.write_table(pa.table({"id": ["a", "b"], "embedding": [[1.0, 2.0], [3.0, 4.0]]}), tmp_path / "e.parquet")
    assert pdn.info(tmp_path / "e.parquet").facts["dimensions"] == 2
    with pytest.raises(PareError, match="needs"):
        pdn.info(f"cifar10:{tmp_path}")


def test_what_a_run_left_and_what_is_being_written(tmp_path, paredown) -> None:
    (tmp_path / ".pruned.parts").mkdir()
    (tmp_path / ".pruned.parts" / "0.npz").write_bytes(b"")
    left = pdn.info(tmp_path / "pruned")
    assert left.kind == "unfinished output"
    assert left.introduce() == {
        "kind": "unfinished output",
        "parts": "1 part done",
        "state": "unfinished: run the command that writes pruned again; it resumes from what is finished",
    }
    code = (
        "import sys; from pathlib import Path; from paredown.files import locked\n"
        "with locked(Path(sys.argv[1])): print('held', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path / "other")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    assert pdn.info(tmp_path / "other").introduce()["state"] == "unfinished: a run is writing it at this moment"
    process.communicate("")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda path: None, r"x: there is no such file or folder"),
        (lambda path: path.write_bytes(b"\0\1\2"), r"unsupported file type"),
        (lambda path: path.mkdir(), r"x"),
        (lambda path: os.mkfifo(path), r"x"),
    ],
)
def test_what_is_nothing_is_a_mistake(paredown, tmp_path, make, message) -> None:
    make(tmp_path / "x")
    result = paredown("info", "x")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr.startswith("error: ")
    assert message in result.stderr


def test_damage_is_a_mistake(paredown, tmp_path, embeddings) -> None:
    pdn.prune(embeddings, keep_fraction=0.5, out=tmp_path / "p")
    pdn.score(embeddings, save_model=tmp_path / "m.npz")
    for file in (tmp_path / "p" / "manifest.parquet", tmp_path / "m.npz"):
        whole = file.read_bytes()
        for cut in (len(whole) // 2, 3):
            file.write_bytes(whole[:cut])
            result = paredown("info", file)
            assert result.returncode == 2, (file, cut)
            assert str(file.name) in result.stderr
    pdn.prune(embeddings, keep_fraction=0.5, out=tmp_path / "q")
    record = json.loads((tmp_path / "q" / "manifest.json").read_text())
    (tmp_path / "q" / "manifest.json").write_text(json.dumps(record | {"balance_score": {"before": {}}}))
    result = paredown("info", "q")
    assert (result.returncode, result.stdout) == (2, "")
    assert "q: not a readable output of paredown" in result.stderr
    assert "See what `paredown verify` says of it" in result.stderr


@pytest.mark.parametrize("keep", [[1, 0], [True, None], ["yes", "no"]])
def test_a_keep_column_that_is_neither_true_nor_false_is_refused(tmp_path, keep) -> None:
    pq.write_table(pa.table({"id": [1, 2], "keep": keep, "score": [0.5, 1.5]}), tmp_path / "m.parquet")
    with pytest.raises(PareError, match="its 'keep' column must be true or false in every row"):
        pdn.info(tmp_path / "m.parquet")


def test_lines_count_in_plain_words() -> None:
    one = {"examples": 3, "classes": 1, "files": {"number": 1, "bytes": 10}, "form": "csv"}
    assert fact_lines(one)["examples"] == "3 in 1 class"
    assert fact_lines(one)["files"] == "csv, 1 file, 10 B"
    recorded = {"epochs": 2, "members": 1, "observations": (2, 4)}
    assert fact_lines(recorded)["recorded"] == "2 epochs of 1 member, 2 to 4 observations of each example"


def test_the_grid_of_a_sweep_that_runs_is_that_of_the_runs_so_far() -> None:
    grid = {"initial_size": [500], "seed": [0, 1]}
    assert fact_lines({"grid": grid, "complete": True})["grid"] == "initial_size 500; seed 0, 1"
    running = fact_lines({"grid": grid, "complete": False, "advice": "wait"})
    assert running["grid"] == "so far initial_size 500; seed 0, 1"
