"""The same bytes on a Ray cluster, whatever is killed; and the manners of a guest. One cluster serves all tests."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import paredown as pdn
from paredown.engines import open_engine
from paredown.errors import PareError
from paredown.scoring.ranged_scoring import score_ranges

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'paredown[ray]'")
pytestmark = [
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
    # Threads of Ray's own that end with its connection.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


HERE = "ray_jobs:"


@pytest.fixture(scope="module")
def cluster():
    """Two workers, who find the functions of `ray_jobs`."""
    before = os.environ.get("PYTHONPATH")
    os.environ["PYTHONPATH"] = os.pathsep.join([str(Path(__file__).parent), *([before] if before else [])])
    try:
        with open_engine("ray", workers=2) as engine:
            yield engine
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


@pytest.fixture
def small_ranges(monkeypatch) -> None:
    for module in ("sources.row_ranges", "clustering.passes", "metrics.prototypes"):
        monkeypatch.setattr(f"paredown.{module}.CHUNK_BLOCKS", 1)


@pytest.fixture
def wide(tmp_path, rng) -> Path:
    vectors = rng.integers(-100, 100, (20_000, 1_024)).astype(np.int8)
    np.save(tmp_path / "wide.npy", vectors)
    return tmp_path / "wide.npy"


def contents(folder) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def test_jobs_give_their_values(cluster) -> None:
    assert cluster.workers == 2
    outcomes = sorted(cluster.run_jobs(HERE + "twice", [1, 2, 3, 4, 5], common=2))
    assert [outcome.value for outcome in outcomes] == [2, 4, 6, 8, 10]


@pytest.mark.parametrize(("common", "reason"), [("ours", "row 7 of x.npy is bad"), ("theirs", "ValueError: row 7")])
def test_failed_jobs_say_why(cluster, common, reason) -> None:
    (outcome,) = cluster.run_jobs(HERE + "fail", [{"name": "range 3"}], common=common)
    assert outcome.value is None
    assert reason in outcome.error
    assert common == "ours" or "range 3 failed" in outcome.error


def test_a_killed_worker_costs_one_try(cluster, tmp_path) -> None:
    outcomes = sorted(cluster.run_jobs(HERE + "die_once", [0, 1, 2], common=str(tmp_path)))
    assert [(outcome.value, outcome.error) for outcome in outcomes] == [(0, None), (1, None), (2, None)]


def test_a_job_that_always_dies_is_given_up(cluster) -> None:
    (outcome,) = cluster.run_jobs(HERE + "die", [0])
    assert "its worker died 6 times; run the same command again" in outcome.error


@pytest.mark.parametrize(
    ("metric", "options"),
    [("prototypes", {"k": 7, "method": "full", "memory": 2**24, "iterations": 5}), ("random", {})],
)
def test_scores_are_those_of_the_local_engine(cluster, wide, small_ranges, tmp_path, metric, options) -> None:
    score_ranges(wide, out=tmp_path / "local", metric=metric, **options)
    score_ranges(wide, out=tmp_path / "ray", metric=metric, engine=cluster, **options)
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")
    whole = pdn.score(str(wide), metric=metric, **options)
    np.testing.assert_array_equal(pdn.read_scores(tmp_path / "ray").values, whole.values)


def test_errors_name_the_range(cluster, small_ranges, tmp_path, rng) -> None:
    vectors = rng.standard_normal((9_000, 1_024)).astype(np.float16)
    vectors[8_500] = np.nan
    np.save(tmp_path / "e.npy", vectors)
    model = tmp_path / "m.npz"
    pdn.score(vectors[:100], k=3, save_model=model)
    with pytest.raises(PareError, match=r"(?s)range 2: e.npy from row 8192 on: .*8500.*What is done stays"):
        score_ranges(tmp_path / "e.npy", out=tmp_path / "s", engine=cluster, model=model)
    assert sorted(file.name for file in (tmp_path / "s").glob("*.parquet")) == ["000000.parquet", "000001.parquet"]


def test_a_folder_that_workers_cannot_write_is_refused(cluster, wide, tmp_path) -> None:
    with pytest.raises(PareError, match=r"/nowhere.npy does not exist there"):
        cluster.check_places([str(tmp_path / "nowhere.npy")], None)
    cluster.check_places([str(wide)], str(tmp_path))
    assert not list(tmp_path.glob(".*paredown-proof*"))


def test_a_program_that_uses_ray_keeps_its_connection(cluster) -> None:
    with open_engine("ray") as second:
        assert second.workers == 2
    assert ray.is_initialized()
    assert [outcome.value for outcome in cluster.run_jobs(HERE + "twice", [4], common=2)] == [8]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_an_unreachable_cluster_is_told_in_seconds(tmp_path, wide, address) -> None:
    began = subprocess.run(
        [
            sys.executable,
            "-m",
            "paredown",
            "score",
            wide,
            "-o",
            tmp_path / "s",
            "--engine",
            "ray",
            "--address",
            address,
        ],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert began.returncode == 2
    assert f"no Ray cluster answers at {address}" in began.stderr
    assert "Traceback" not in began.stderr


def test_a_killed_driver_is_finished_by_the_same_command(tmp_path, rng) -> None:
    """On a cluster of its own: the driver is killed when the first table is there, and started again."""
    vectors = rng.integers(-100, 100, (140_000, 1_024)).astype(np.int8)  # five ranges of the usual size
    np.save(tmp_path / "wide.npy", vectors)
    command = [sys.executable, "-m", "paredown", "score", tmp_path / "wide.npy", "--k", "5", "--json"]
    on_ray = [*command, "-o", tmp_path / "s", "--engine", "ray", "--workers", "1"]
    with subprocess.Popen(on_ray, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        deadline = time.monotonic() + 120
        while not list((tmp_path / "s").glob("0*.parquet")) and time.monotonic() < deadline:
            time.sleep(0.02)
        driver.kill()
    done = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "s").glob("0*.parquet")}
    assert 0 < len(done) < 5
    again = subprocess.run(on_ray, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["complete"] is True
    assert {name: (tmp_path / "s" / name).stat().st_mtime_ns for name in done} == done  # not redone
    score_ranges(tmp_path / "wide.npy", out=tmp_path / "local", k=5, memory=2**30)
    assert contents(tmp_path / "s") == contents(tmp_path / "local")


def test_a_lost_node_costs_only_time(tmp_path, rng) -> None:
    """Two nodes on this machine; the one without the driver is killed when the first table is there."""
    np.save(tmp_path / "wide.npy", rng.integers(-100, 100, (140_000, 1_024)).astype(np.int8))
    script = Path(__file__).with_name("lose_a_node.py")
    run = subprocess.run(
        [sys.executable, script, tmp_path / "wide.npy", tmp_path / "s"], capture_output=True, text=True, timeout=300
    )
    assert run.returncode == 0, run.stderr
    assert "lost a node" in run.stdout
    score_ranges(tmp_path / "wide.npy", out=tmp_path / "local", k=5)
    assert contents(tmp_path / "s") == contents(tmp_path / "local")
