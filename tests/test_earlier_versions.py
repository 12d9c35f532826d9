"""Outputs of an earlier version open, verify and give the same numbers.

`tests/data/version_0.1.0` was written by the commands in `sweep.toml` and below, with `expected.json` beside them:
`embed images -o store --encoder pixels`, `score rows.npy --labels labels.npy --k 10 --save-model model.npz -o
scores.parquet`, `prune scores.parquet --keep-fraction 0.6 -o pruned`, `prune rows.npy --k 7 --keep-fraction 0.5
--strategy window --drop-hardest 0.1 -o pruned-window`, `Recorder.save("recording.npz")`, `sweep sweep.toml -o swept`.
"""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import paredown as pdn

BEFORE = Path(__file__).parent / "data" / "version_0.1.0"
EXPECTED = json.loads((BEFORE / "expected.json").read_text())
ROWS = np.load(BEFORE / "rows.npy")

# Cosines are sums in single precision, which another type of processor adds up in another order (docs/scaling.md).
ROUNDING = 1e-6


def assert_same_scores(scores: pdn.Scores, expected: list[float]) -> None:
    np.testing.assert_allclose(np.asarray(scores.values, np.float64), expected, rtol=0, atol=ROUNDING)


@pytest.fixture
def earlier(tmp_path) -> Path:
    return shutil.copytree(BEFORE, tmp_path / "earlier")


def test_scores() -> None:
    scores = pdn.read_scores(BEFORE / "scores.parquet")
    np.testing.assert_array_equal(scores.values, EXPECTED["scores"])
    np.testing.assert_array_equal(scores.clusters, EXPECTED["clusters"])
    assert scores.labels is not None
    np.testing.assert_array_equal(scores.labels.names.astype(int), np.load(BEFORE / "labels.npy"))
    kept = pdn.select(scores, keep_fraction=0.6, labels=scores.labels, balance=0.5)
    np.testing.assert_array_equal(kept.ids, EXPECTED["kept"])


def test_the_same_scores_come_out_today() -> None:
    scores = pdn.score(ROWS, metric="prototypes", k=10, labels=np.load(BEFORE / "labels.npy"))
    assert_same_scores(scores, EXPECTED["scores"])


@pytest.mark.parametrize("name", ["pruned", "pruned-window"])
def test_manifests(name) -> None:
    scores, keep = pdn.read_manifest(BEFORE / name)
    np.testing.assert_array_equal(scores.ids[keep], EXPECTED[name])


def test_select_again_from_a_manifest() -> None:
    again = pdn.prune(BEFORE / "pruned", keep_fraction=0.6)
    np.testing.assert_array_equal(again.ids, EXPECTED["pruned"])


def test_a_model() -> None:
    scores = pdn.score(ROWS[:20], model=BEFORE / "model.npz")
    assert_same_scores(scores, EXPECTED["model_scores"])


def test_a_store() -> None:
    scores = pdn.score(BEFORE / "store", k=3)
    assert_same_scores(scores, EXPECTED["store_scores"])


def test_a_recording() -> None:
    recorder = pdn.Recorder.load(BEFORE / "recording.npz")
    for metric, values in EXPECTED["recording"].items():
        np.testing.assert_array_equal(recorder.scores(metric).values, values)


def test_the_results_of_a_sweep() -> None:
    rows = pq.read_table(BEFORE / "swept" / "results.parquet").select(list(EXPECTED["sweep"][0])).to_pylist()
    assert rows == EXPECTED["sweep"]


@pytest.mark.parametrize("name", ["store", "scores.parquet", "pruned", "pruned-window", "model.npz", "swept"])
def test_verify(earlier, paredown, name) -> None:
    result = paredown("verify", earlier / name)
    assert result.returncode == 0, result.stdout + result.stderr


def test_the_same_sweep_again_trains_nothing(earlier, paredown, monkeypatch) -> None:
    def written() -> dict[str, int]:
        return {file.name: file.stat().st_mtime_ns for file in (earlier / "swept" / "runs").iterdir()}

    before = written()
    monkeypatch.chdir(earlier)
    result = paredown("sweep", "sweep.toml", "-o", "swept", "--json")
    assert result.returncode == 0, result.stderr
    assert written() == before
    assert len(before) == len(EXPECTED["sweep"])
    rows = pq.read_table(earlier / "swept" / "results.parquet").select(list(EXPECTED["sweep"][0])).to_pylist()
    assert rows == EXPECTED["sweep"]
