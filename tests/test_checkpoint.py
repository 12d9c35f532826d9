"""A run that was killed goes on where it was, and ends with the same bytes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

import paredown as pdn
from paredown.checkpoint import Checkpoint, keep_settings
from paredown.errors import PareError
from paredown.scoring import scoring_job as fitting
from paredown.sources import base


@pytest.fixture
def small_parts(monkeypatch):
    """Parts of two batches of 32 rows, so that the digits make many."""
    monkeypatch.setattr(base, "BLOCK_BYTES", 32 * 64 * 4)
    monkeypatch.setattr(fitting, "_PART_BATCHES", 2)


@pytest.mark.parametrize("metric", ["prototypes", "supervised_prototypes", "random"])
def test_parts_make_the_same_bytes(metric, digits, tmp_path, small_parts) -> None:
    options = {"metric": metric, "labels": digits[1], "seed": 3}
    whole = pdn.score(digits[0], **options)
    parts = pdn.score(digits[0], checkpoint=tmp_path / "parts", **options)
    assert whole.values.tobytes() == parts.values.tobytes()
    assert not (tmp_path / "parts").exists()


def test_finished_parts_are_not_scored_again(digits, tmp_path, small_parts, monkeypatch) -> None:
    from paredown.metrics.prototypes import Prototypes

    whole = pdn.score(digits[0], sensitivity=False)
    real, scored = Prototypes.score, []

    def fail_after_ten(self, batch):
        scored.append(batch.ids[0])
        if len(scored) == 11:
            raise KeyboardInterrupt
        return real(self, batch)

    monkeypatch.setattr(Prototypes, "score", fail_after_ten)
    with pytest.raises(KeyboardInterrupt):
        pdn.score(digits[0], sensitivity=False, checkpoint=tmp_path / "parts")
    assert len(list((tmp_path / "parts" / "0").glob("0*.npz"))) == 5
    monkeypatch.setattr(Prototypes, "score", lambda self, batch: (scored.append(batch.ids[0]), real(self, batch))[1])
    again = pdn.score(digits[0], sensitivity=False, checkpoint=tmp_path / "parts")
    assert again.values.tobytes() == whole.values.tobytes()
    assert len(scored) == 11 + (57 - 10)  # only the batch that failed was done twice


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"seed": 1}, "seed was 0 and is now 1"),
        ({"k": 5}, "k was not given then and is now 5"),
    ],
)
def test_other_settings_are_refused(change, named, digits, tmp_path, small_parts) -> None:
    options = {"sensitivity": False, "checkpoint": tmp_path / "parts", "keep_checkpoint": True}  # as if killed
    pdn.score(digits[0], **options)
    with pytest.raises(PareError) as caught:
        pdn.score(digits[0], **(options | change))
    assert f"holds an unfinished run made with other settings: {named}. Run the same command as before" in str(
        caught.value
    )
    with pytest.raises(PareError, match=r"settings: the data have changed"):
        pdn.score(digits[0] + 1, **options)


def test_parts_from_before_the_name_of_the_encoder_was_recorded_are_used(image_folder, tmp_path) -> None:
    options = {"encoder": "pixels", "checkpoint": tmp_path / "parts", "keep_checkpoint": True}
    options |= {"metric": "el2n", "members": 1, "epochs": 1, "threads": 1}
    scores = pdn.score(image_folder, **options)
    assert scores.provenance["source"]["encoder_name"] == "pixels"
    decided = json.loads((tmp_path / "parts" / "0" / "settings.json").read_text())
    assert "encoder_name" not in decided["source"]  # as in the records of runs that were begun before
    assert decided["source"]["encoder"] == scores.provenance["source"]["encoder"]


def test_small_work_leaves_no_folder(digits, tmp_path, monkeypatch) -> None:
    vectors = digits[0].copy()
    vectors[1700] = 0
    with pytest.raises(PareError, match="row 1700"):
        pdn.score(vectors, checkpoint=tmp_path / "parts")
    assert not (tmp_path / "parts").exists()


def test_checkpoint_keeps_arrays_exactly(tmp_path) -> None:
    checkpoint = Checkpoint(tmp_path / "c", {"a": 1, "b": [1, 2]})
    assert checkpoint.load("x") is None
    values = np.array([0.1, np.pi, -1e-300])
    checkpoint.save("x", {"values": values})
    again = Checkpoint(tmp_path / "c", {"b": (1, 2), "a": 1}).load("x")
    assert again is not None
    assert again["values"].tobytes() == values.tobytes()
    with pytest.raises(PareError, match=r"b was \[1, 2\] and is now \[1, 3\]"):
        Checkpoint(tmp_path / "c", {"a": 1, "b": [1, 3]})


def test_settings_bind_only_where_a_part_is_finished(tmp_path) -> None:
    folder = tmp_path / "c"
    Checkpoint(folder, {"k": 5})  # stopped, or refused, before its first part
    assert not folder.exists()
    keep_settings(folder, {"k": 5}, kind="unfinished run")  # as earlier versions left it
    Checkpoint(folder, {"k": None}).save("x", {"values": np.arange(3)})
    with pytest.raises(PareError, match="k was not given then and is now 5"):
        Checkpoint(folder, {"k": 5})
    again = Checkpoint(folder, {"k": None}).load("x")
    assert again is not None
    assert again["values"].tolist() == [0, 1, 2]


CHILD = """
import sys, time
from paredown.scoring import scoring_job as fitting
from paredown.sources import base
from paredown.metrics.prototypes import Prototypes
base.BLOCK_BYTES, fitting._PART_BATCHES = 32 * 64 * 4, 2
real = Prototypes.score
Prototypes.score = lambda self, batch: (time.sleep(0.02), real(self, batch))[1]  # long enough to be killed in
sys.argv = ["paredown", "score", "emb.npy", "-o", "scores.parquet", "--json"]
from paredown.cli import main
main()
"""


def test_killed_at_any_moment(digits, tmp_path) -> None:
    np.save(tmp_path / "emb.npy", digits[0])

    def run() -> subprocess.Popen:
        return subprocess.Popen([sys.executable, "-c", CHILD], cwd=tmp_path, stdout=subprocess.DEVNULL)

    assert run().wait() == 0
    whole = (tmp_path / "scores.parquet").read_bytes()
    (tmp_path / "scores.parquet").unlink()
    (tmp_path / "scores.json").unlink()
    parts = tmp_path / ".scores.parquet.parts" / "0"
    for finished in (1, 12):  # once early, once later
        process = run()
        while len(list(parts.glob("0*.npz"))) < finished and process.poll() is None:
            time.sleep(0.005)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert not (tmp_path / "scores.parquet").exists()
    before = {file.name: file.stat().st_mtime_ns for file in parts.glob("*.npz")}
    assert len(before) >= 12
    assert run().wait() == 0
    assert (tmp_path / "scores.parquet").read_bytes() == whole
    assert sorted(path.name for path in tmp_path.iterdir()) == ["emb.npy", "scores.json", "scores.parquet"]
