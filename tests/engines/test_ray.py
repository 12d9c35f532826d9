"""The same bytes on a Ray cluster, whatever is killed; and the manners of a guest. One cluster serves all tests."""

from __future__ import annotations

import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import numpy as np
import psutil
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import paredown as pdn
from paredown.engines import fold, open_engine, ray_connection
from paredown.engines.ray_cluster import _fold_group, _join
from paredown.engines.ray_connection import Connection, own_token
from paredown.engines.ray_tasks import fold_in_tasks
from paredown.errors import PareError
from paredown.scoring.ranged_scoring import merge, score_ranges
from paredown.selection import Limits

ray = pytest.importorskip("ray", reason="Ray is not installed: pip install 'paredown[ray]'")
pytestmark = [
    pytest.mark.xdist_group("ray"),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning", "ignore::FutureWarning"),
    # Threads of Ray's own that end with its connection.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


HERE = "ray_jobs:"
DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def small_ranges(monkeypatch) -> None:
    for module in ("sources.row_ranges", "clustering.passes", "metrics.prototypes"):
        monkeypatch.setattr(f"paredown.{module}.CHUNK_BLOCKS", 1)


@pytest.fixture
def wide(tmp_path, rng) -> Path:
    vectors = rng.integers(-100, 100, (20_000, 1_024)).astype(np.int8)
    np.save(tmp_path / "wide.npy", vectors)
    return tmp_path / "wide.npy"


def run(*arguments, **how) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "paredown", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, **how)


def contents(folder) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir() if file.is_file()}


def ray_session_of(driver: int) -> str:
    """The folder of the cluster that a program has started."""
    for child in psutil.Process(driver).children(recursive=True):
        with suppress(psutil.Error):
            for word in child.cmdline():
                if found := re.match(r"(?:--session[-_]dir=)(/tmp/pdn-ray-\w+/session_[^/ ]+)", word):
                    return found[1]
    raise AssertionError("no cluster is running")


def test_jobs_give_their_values(cluster) -> None:
    assert cluster.workers == 2
    outcomes = sorted(cluster.run_jobs(HERE + "twice", [1, 2, 3, 4, 5], common=2))
    assert [outcome.value for outcome in outcomes] == [2, 4, 6, 8, 10]


@pytest.mark.parametrize(("common", "reason"), [("ours", "row 7 of x.npy is bad"), ("theirs", "ValueError: row 7")])
def test_failed_jobs_say_why(cluster, common, reason) -> None:
    (outcome,) = cluster.run_jobs(HERE + "fail", [{"name": "range 3"}], common=common)
    assert outcome.value is None
    assert reason in outcome.error
    assert common == "theirs" or outcome.error == reason
    assert common == "ours" or "range 3 failed" in outcome.error


def test_a_killed_worker_costs_one_try(cluster, tmp_path) -> None:
    outcomes = sorted(cluster.run_jobs(HERE + "die_once", [0, 1, 2], common=str(tmp_path)))
    assert [(outcome.value, outcome.error) for outcome in outcomes] == [(0, None), (1, None), (2, None)]


def test_a_job_that_always_dies_is_given_up(cluster) -> None:
    (outcome,) = cluster.run_jobs(HERE + "die", [0])
    assert "its worker died 6 times, perhaps for want of memory; run the same" in outcome.error


def test_failed_folds_name_the_job(cluster) -> None:
    jobs = [{"name": f"range {number}"} for number in range(20)]
    with pytest.raises(PareError, match=r"(?s)ValueError: row 7.*in range \d"):
        fold(cluster, HERE + "fail", HERE + "add", jobs, common="theirs")


@pytest.mark.parametrize(("common", "reason"), [("ours", "row 7 of x.npy is bad"), ("theirs", ".*ValueError: row 7")])
def test_failed_folds_begin_with_the_job(cluster, common, reason) -> None:
    with pytest.raises(PareError, match=rf"(?s)^range 3: {reason}"):
        fold(cluster, HERE + "fail", HERE + "add", [{"name": "range 3"}], common=common)


def test_folds_that_ask_for_too_much_memory_begin_with_the_job(cluster) -> None:
    with pytest.raises(PareError, match=r"^range 3: a worker ran out of memory; lower workers"):
        fold(cluster, HERE + "ask_for_too_much", HERE + "add", [{"name": "range 3"}])


def test_a_worker_killed_in_a_fold_costs_one_try(cluster, tmp_path) -> None:
    for job in (0, 1, 2, 4, 5, 6, 7, 8):
        (tmp_path / f"{job}").touch()  # the others have been killed
    assert fold(cluster, HERE + "die_once", HERE + "add", list(range(9)), common=str(tmp_path)) == 36
    assert (tmp_path / "3").exists()


def test_a_fold_whose_worker_always_dies_names_its_jobs(cluster) -> None:
    jobs = [{"name": f"range {number}"} for number in range(9)]  # in groups of two
    with pytest.raises(PareError, match=r"^range 2 to range 3: its worker died 6 times, perhaps for want of memory"):
        fold(cluster, HERE + "die_if", HERE + "add", jobs, common="range 3")


def test_values_of_a_fold_that_are_lost_are_made_again(cluster) -> None:
    """An error like that of a node that is lost with what it holds."""
    begun = []
    leaf, join = (ray.remote(function).options(num_returns=2) for function in (_fold_group, _join))
    common = {"function": HERE + "large", "combine": HERE + "add", "common": None}

    @ray.remote(num_returns=2, max_retries=0)
    def lose(left, right):
        raise ray.exceptions.ObjectLostError("00" * 28, "", "")

    def join_after_a_loss(left, right):
        begun.append((left, right))
        return join.remote(HERE + "add", left, right) if len(begun) > 1 else lose.remote(left, right)

    total = fold_in_tasks(ray, partial(leaf.remote, common), join_after_a_loss, [[1], [2], [3]], 2)
    assert (total == 6).all()
    assert len(begun) == 3  # one more, of new values
    assert not {*begun[0]} & {*begun[1]}


@pytest.mark.parametrize("workers", [1, 2])
def test_no_more_tasks_run_at_once_than_asked_for(cluster, workers) -> None:
    """On a cluster of two cores: with one worker never two at once, and with two always two, but at the end."""
    with open_engine("ray", workers=workers) as engine:
        jobs = [time for outcome in engine.run_jobs(HERE + "take_time", range(6)) for time in outcome.value]
        folded = fold(engine, HERE + "take_time", HERE + "add", [{"name": f"{job}"} for job in range(6)])
    for times in (jobs, folded):
        assert len(times) == 6
        assert max(sum(began <= moment < ended for began, ended in times) for moment, _ in times) == workers


def test_a_node_must_have_both_a_core_and_the_memory(cluster, monkeypatch) -> None:
    sizes = [("head", {"memory": 2.0**33}), *((f"node{n}", {"CPU": 4.0, "memory": 300 * 2.0**20}) for n in range(6))]
    nodes = [{"Alive": True, "NodeManagerAddress": name, "Resources": size} for name, size in sizes]
    monkeypatch.setattr(ray, "nodes", lambda: nodes)
    message = r"a task needs a core and 2.0 GiB of memory on one node, and the nodes of the Ray cluster offer: node5 4 "
    with pytest.raises(PareError, match=message + r"cores and 300.0 MiB, .*, and 2 more; lower k if it is large"):
        list(cluster.run_jobs(HERE + "twice", [1], common=2, memory=2**31))
    monkeypatch.setattr(ray, "nodes", lambda: nodes[:1])
    with pytest.raises(PareError, match=r"needs a core on one node, .* offer: head 0 cores and 8.0 GiB; start a node"):
        list(cluster.run_jobs(HERE + "twice", [1], common=2))


def test_more_memory_than_any_node_has_is_refused_at_once(cluster) -> None:
    message = r"a task needs a core and 1024.* of memory on one node, .* offer: \S+ 2 cores and [\d.]+ GiB; lower k"
    with pytest.raises(PareError, match=message):
        list(cluster.run_jobs(HERE + "twice", [1], common=2, memory=2**50))
    with pytest.raises(PareError, match=message):
        fold(cluster, HERE + "twice", HERE + "add", [1, 2], common=2, memory=2**50)


def test_overwriting_keeps_what_others_put_there(cluster, wide, small_ranges, tmp_path) -> None:
    out = tmp_path / "s"
    score_ranges(wide, out=out, k=3)
    before = contents(out)
    (out / "notes.txt").write_text("mine")
    with pytest.raises(PareError, match=r"also holds notes.txt, which paredown did not write and which would be lost"):
        score_ranges(wide, out=out, k=4, engine=cluster, overwrite=True)
    (out / "notes.txt").unlink()
    gone = run("score", wide, "-o", out, "--k", "4", "--engine", "ray", "--address", "127.0.0.1:1", "--overwrite")
    assert "no Ray cluster answers" in gone.stderr
    assert contents(out) == before
    score_ranges(wide, out=out, k=4, engine=cluster, overwrite=True)
    score_ranges(wide, out=tmp_path / "fresh", k=4)
    assert contents(out) == contents(tmp_path / "fresh")


@pytest.mark.parametrize(
    ("metric", "options"),
    [
        ("prototypes", {"k": 7, "method": "full", "memory": 2**24, "iterations": 5}),
        ("prototypes", {"k": 7, "method": "sample", "memory": 2**24, "iterations": 5}),
        ("prototypes", {"k": 60, "method": "hierarchical", "probes": 2, "memory": 2**24, "iterations": 5}),
        ("random", {}),
    ],
)
def test_scores_are_those_of_the_local_engine(
    cluster, wide, small_ranges, tmp_path, monkeypatch, metric, options
) -> None:
    for name in ("WORTH_SENDING", "WORTH_SHARING"):
        monkeypatch.setattr(f"paredown.clustering.lloyd._{name}", 2)  # the first centroids, too, are found by workers
    score_ranges(wide, out=tmp_path / "local", metric=metric, **options)
    score_ranges(wide, out=tmp_path / "ray", metric=metric, engine=cluster, **options)
    assert contents(tmp_path / "ray") == contents(tmp_path / "local")
    whole = pdn.score(str(wide), metric=metric, **options)
    np.testing.assert_array_equal(pdn.read_scores(tmp_path / "ray").values, whole.values)


@pytest.mark.parametrize("name", ["a b", "ü 名", "-o", "a#b%20c?d", "new\nline", "~", "[0-9]*", "000000.parquet"])
def test_names_that_mean_something_elsewhere_are_names(cluster, tmp_path, rng, name) -> None:
    """On a cluster and in shares: embedded, scored and pruned as under any other name."""
    place = tmp_path / name
    (place / name).mkdir(parents=True)
    for number in range(3):
        pixels = rng.integers(0, 256, (8, 8, 3)).astype(np.uint8)
        Image.fromarray(pixels).save(place / name / f"{number}{name if name != '000000.parquet' else ''}.png")
    pdn.embed(place / name, out=place / "e", encoder="pixels", engine=cluster)
    assert len(pdn.open_source(place / "e")) == 3
    vectors = rng.standard_normal((60, 4)).astype(np.float32)
    np.save(place / f"{name}.npy", vectors)
    score_ranges(place / f"{name}.npy", out=place / f"{name} scored", k=2, engine=cluster)
    for share in ("1/2", "2/2"):
        score_ranges(place / f"{name}.npy", out=place / f"{name} shares", k=2, shard=share)
    merge(place / f"{name} shares")
    expected = pdn.score(vectors, k=2)
    for folder in ("scored", "shares"):
        np.testing.assert_array_equal(pdn.read_scores(place / f"{name} {folder}").values, expected.values)
    pdn.prune(place / f"{name} scored", keep_fraction=0.5, out=place / f"{name} pruned", engine=cluster)
    assert pdn.verify(place / f"{name} pruned").problems == ()
    assert pdn.verify(place / f"{name} scored").problems == ()


def test_a_second_run_of_the_same_output_is_refused(cluster, address, wide, tmp_path) -> None:
    """While the first is at work; afterwards it finds everything done."""
    command = [sys.executable, "-m", "paredown", "score", wide, "-o", tmp_path / "s", "--k", "3"]
    on_ray = [*command, "--engine", "ray", "--address", address]
    with subprocess.Popen(on_ray, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as first:
        deadline = time.monotonic() + 120
        while not (tmp_path / "s").exists() and first.poll() is None and time.monotonic() < deadline:
            time.sleep(0.001)
        first.send_signal(signal.SIGSTOP)
        with pytest.raises(PareError, match=rf"process {first.pid}"):
            score_ranges(wide, out=tmp_path / "s", k=3, engine=cluster)
        first.send_signal(signal.SIGCONT)
        assert first.stderr is not None
        said = first.stderr.read()
    assert first.returncode == 0, said
    done = contents(tmp_path / "s")
    written: list[int] = []
    score_ranges(wide, out=tmp_path / "s", k=3, memory=2**30, engine=cluster, tell=written.append)
    assert contents(tmp_path / "s") == done
    assert written == [0]


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


def test_a_busy_cluster_proves_what_it_sees(cluster, wide, tmp_path) -> None:
    """All cores are taken; the proof needs none."""

    @ray.remote(num_cpus=2)
    def work():
        time.sleep(60)

    begun = work.remote()
    deadline = time.monotonic() + 30
    while ray.available_resources().get("CPU") and time.monotonic() < deadline:
        time.sleep(0.05)
    began = time.monotonic()
    cluster.check_places([str(wide)], str(tmp_path))
    ray.cancel(begun, force=True)
    with pytest.raises(ray.exceptions.RayError):
        ray.get(begun)
    assert time.monotonic() - began < 30


def test_another_address_than_that_of_the_connection_is_refused(cluster, address) -> None:
    port = int(address.rpartition(":")[2])
    for same in ("auto", "local", address, f"localhost:{port}", "ray://127.0.0.1:10001"):
        with open_engine("ray", address=same) as engine:
            assert engine.workers == 2
    for other in (f"localhost:{port - 1}", f"nowhere.invalid:{port}", "ray://nowhere.invalid:10001"):
        message = rf"connected to the Ray cluster at {address} already, and address is {other}; leave it out"
        with pytest.raises(PareError, match=message), open_engine("ray", address=other):
            pass


def test_a_program_that_uses_ray_keeps_its_connection(cluster) -> None:
    with open_engine("ray") as second:
        assert second.workers == 2
    assert ray.is_initialized()
    assert [outcome.value for outcome in cluster.run_jobs(HERE + "twice", [4], common=2)] == [8]


@pytest.mark.parametrize("address", ["127.0.0.1:1", "ray://127.0.0.1:1"])
def test_an_unreachable_cluster_is_told_in_seconds(tmp_path, wide, address) -> None:
    began = run("score", wide, "-o", tmp_path / "s", "--engine", "ray", "--address", address)
    assert began.returncode == 2
    assert f"no Ray cluster answers at {address}" in began.stderr
    assert "Traceback" not in began.stderr


class Silence(BaseHTTPRequestHandler):
    def log_message(self, format, *_):
        pass


@pytest.mark.parametrize("kind", ["silent", "http", "ray://"])
def test_a_port_that_is_not_of_ray_is_told_in_seconds(kind, monkeypatch) -> None:
    monkeypatch.setattr(ray_connection, "_ANSWER", 0.5)
    with socket.create_server(("127.0.0.1", 0)) as silent, HTTPServer(("127.0.0.1", 0), Silence) as http:
        Thread(target=http.serve_forever, daemon=True).start()
        port = (silent.getsockname() if kind == "silent" else http.server_address)[1]
        address = f"{'ray://' if kind == 'ray://' else ''}127.0.0.1:{port}"
        began = time.monotonic()
        with pytest.raises(PareError, match=f"what listens at {address} is no Ray cluster, or one that hangs; address"):
            Connection(address, None)._connect(ray)
        http.shutdown()
    assert time.monotonic() - began < 10


def test_the_token_of_a_cluster_is_asked_for(tmp_path, rng) -> None:
    """Without a mode, without a token, with a wrong one, with one that is saved here and `auto`, and the right one."""
    np.save(tmp_path / "e.npy", rng.standard_normal((50, 4)).astype(np.float32))
    script = Path(__file__).with_name("ask_for_a_token.py")
    command = [sys.executable, script, tmp_path / "e.npy", tmp_path]
    home = {**os.environ, "HOME": str(tmp_path / "home")}
    asked = subprocess.run(command, capture_output=True, text=True, timeout=300, env=home)
    assert asked.returncode == 0, asked.stderr
    *refused, accepted = asked.stdout.splitlines()
    assert len(refused) == 4
    for said in refused:
        assert re.search(
            r"^2 .*asks for a token that it did not get; set RAY_AUTH_MODE=token, and .* RAY_AUTH_TOKEN", said
        )
    assert accepted.startswith("0 ")


def test_a_cluster_that_does_not_start_here_is_told(monkeypatch) -> None:
    """On a machine that is far too busy, Ray gives up after half a minute."""

    def init(**_):
        raise Exception("The current node timed out during startup.")

    connection = Connection("local", 1)
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: ended.append(True))
    ended: list[bool] = []
    with pytest.raises(PareError, match=r"could not start a cluster on this machine \(The current node timed out dur"):
        connection._connect(ray)
    connection.__exit__()
    assert ended == [True]


def test_a_token_that_the_client_of_ray_lacks_is_asked_for(monkeypatch) -> None:
    def init(**_):
        raise ConnectionError("Failed to connect") from RuntimeError("Failed to get cluster ID: Unauthenticated: ...")

    connection = Connection("ray://127.0.0.1:10001", None)
    monkeypatch.setattr(connection, "_check_reachable", lambda: None)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(
        PareError, match=r"at ray://127\.0\.0\.1:10001 asks for a token that it did not get; set RAY_AUTH"
    ):
        connection._connect(ray)


def test_a_cluster_that_needs_the_client_of_ray_says_how_to_install_it(monkeypatch) -> None:
    def init(**_):
        raise ValueError("Ray Client requires pip package `ray[client]`.")

    connection = Connection("ray://127.0.0.1:10001", None)
    monkeypatch.setattr(connection, "_check_reachable", lambda: None)
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(PareError, match=r"ray:// takes Ray's client; run `pip install 'ray\[client\]'`"):
        connection._connect(ray)


def test_a_killed_driver_is_finished_by_the_same_command(tmp_path, rng) -> None:
    """On a cluster of its own: the driver is killed when the first table is there, and started again."""
    vectors = rng.integers(-100, 100, (140_000, 1_024)).astype(np.int8)  # five ranges of the usual size
    np.save(tmp_path / "wide.npy", vectors)
    command = [sys.executable, "-m", "paredown", "score", tmp_path / "wide.npy", "--k", "5", "--json"]
    on_ray = [*command, "-o", tmp_path / "s", "--engine", "ray", "--workers", "1"]
    home = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    home["HOME"] = str(tmp_path)
    with subprocess.Popen(on_ray, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, env=home) as driver:
        deadline = time.monotonic() + 120
        while not list((tmp_path / "s").glob("0*.parquet")) and time.monotonic() < deadline:
            time.sleep(0.02)
        left = Path(ray_session_of(driver.pid)).parent
        driver.kill()
    assert left.is_dir()
    assert not (tmp_path / ".ray").exists()  # where Ray saves a token, if none is given
    done = {file.name: file.stat().st_mtime_ns for file in (tmp_path / "s").glob("0*.parquet")}
    assert 0 < len(done) < 5
    again = subprocess.run(on_ray, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    assert json.loads(again.stdout)["complete"] is True
    assert {name: (tmp_path / "s" / name).stat().st_mtime_ns for name in done} == done  # not redone
    score_ranges(tmp_path / "wide.npy", out=tmp_path / "local", k=5, memory=2**30)
    assert contents(tmp_path / "s") == contents(tmp_path / "local")
    assert not left.exists()  # what the killed one left is removed by the next


def test_a_table_is_pruned_by_the_cluster(cluster, tmp_path, rng, monkeypatch) -> None:
    """Every strategy, in parts: the same rows as in memory."""
    few = {"rows": 64, "candidates": 99, "cells": 999, "part": 400}
    monkeypatch.setattr(Limits, "__init__", lambda self: self.__dict__.update(few))
    (tmp_path / "t").mkdir()
    for number in range(4):
        columns = {"id": 700 * number + np.arange(700), "el2n": rng.random(700).round(2)}
        columns["label"] = rng.integers(0, 3, 700)
        pq.write_table(pa.table(columns), tmp_path / "t" / f"{number}.parquet")
    for strategy in ("hard", "random", "window", "stratified"):
        options = {"keep_fraction": 0.3, "strategy": strategy, "balance": 0.0 if strategy == "stratified" else 0.5}
        pdn.prune(tmp_path / "t", out=tmp_path / strategy, engine=cluster, **options)
        manifest = pq.read_table(tmp_path / strategy / "manifest.parquet")
        assert manifest.to_pylist() == pdn.select(tmp_path / "t", **options).manifest().to_pylist()
        assert len(list((tmp_path / strategy / "manifest.parquet").iterdir())) == 4


def test_embeddings_are_scored_and_pruned_by_the_cluster(cluster, wide, small_ranges, tmp_path) -> None:
    kept = pdn.prune(wide, keep_fraction=0.3, out=tmp_path / "ray", scoring={"k": 4}, engine=cluster)
    expected = pdn.prune(wide, keep_fraction=0.3, scoring={"k": 4})
    assert kept.ids.tolist() == expected.ids.tolist()
    assert (tmp_path / "ray" / "manifest.parquet" / "000000.parquet").is_file()
    assert pdn.verify(tmp_path / "ray").problems == ()


def test_a_driver_killed_while_shards_are_written_is_finished_by_the_same_command(address, tmp_path, rng) -> None:
    n = 2**21  # rows of a shard
    (tmp_path / "t").mkdir()
    for number in range(3):
        columns = {"id": n * number + np.arange(n), "el2n": rng.integers(0, 1000, n).astype(np.float32)}
        pq.write_table(pa.table(columns), tmp_path / "t" / f"{number}.parquet")
    command = [sys.executable, "-m", "paredown", "prune", tmp_path / "t", "--keep-fraction", "0.3"]
    on_ray = [*command, "-o", tmp_path / "ray", "--engine", "ray", "--address", address, "--workers", "1"]
    with subprocess.Popen(on_ray, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as driver:
        deadline = time.monotonic() + 120
        while not list(tmp_path.glob(".ray.parts/manifest-*/0*.parquet")) and time.monotonic() < deadline:
            time.sleep(0.02)
        driver.kill()
    done = {file.name: file.stat().st_mtime_ns for file in tmp_path.glob(".ray.parts/manifest-*/0*.parquet")}
    assert 0 < len(done) < 3
    assert not (tmp_path / "ray").exists()
    again = subprocess.run(on_ray, capture_output=True, text=True, timeout=300)
    assert again.returncode == 0, again.stderr
    shards = tmp_path / "ray" / "manifest.parquet"
    assert {name: (shards / name).stat().st_mtime_ns for name in done} == done  # not redone
    pdn.prune(tmp_path / "t", keep_fraction=0.3, out=tmp_path / "local", memory="1KiB")
    assert pq.read_table(shards).equals(pq.read_table(tmp_path / "local" / "manifest.parquet"))
    assert not (tmp_path / ".ray.parts").exists()


def test_a_token_of_our_own_leaves_the_settings_as_they_were(monkeypatch, tmp_path) -> None:
    from ray._raylet import AuthenticationTokenLoader

    loader, before = AuthenticationTokenLoader.instance(), dict(os.environ)
    monkeypatch.setenv("HOME", str(tmp_path))  # where none is saved
    monkeypatch.delenv("RAY_AUTH_TOKEN")
    loader.reset_cache()
    try:
        for mode in ("token", "disabled"):
            monkeypatch.setenv("RAY_AUTH_MODE", mode)
            with own_token():
                assert len(os.environ.get("RAY_AUTH_TOKEN", "")) == (64 if mode == "token" else 0)
            assert "RAY_AUTH_TOKEN" not in os.environ
        (tmp_path / ".ray").mkdir()
        (tmp_path / ".ray" / "auth_token").write_text("a" * 64)
        loader.reset_cache()
        monkeypatch.setenv("RAY_AUTH_MODE", "token")
        with own_token():
            assert "RAY_AUTH_TOKEN" not in os.environ  # the one that is saved is taken
    finally:
        monkeypatch.undo()
        loader.reset_cache()
    assert dict(os.environ) == before


def test_a_lost_node_costs_only_time(tmp_path, rng) -> None:
    """Two nodes on this machine; the one without the driver is killed when the first table is there."""
    np.save(tmp_path / "wide.npy", rng.integers(-100, 100, (140_000, 1_024)).astype(np.int8))
    script = Path(__file__).with_name("lose_a_node.py")
    command = [sys.executable, script, tmp_path / "wide.npy", tmp_path / "s", "score"]
    run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert run.returncode == 0, run.stderr
    assert "lost a node" in run.stdout
    score_ranges(tmp_path / "wide.npy", out=tmp_path / "local", k=5)
    assert contents(tmp_path / "s") == contents(tmp_path / "local")


def test_a_cluster_of_others_is_left_as_it_was(tmp_path, wide) -> None:
    """Two runs, one after the other, on a cluster that someone else started; then it still works."""
    script = Path(__file__).with_name("be_a_guest.py")
    guest = subprocess.run([sys.executable, script, wide, tmp_path], capture_output=True, text=True, timeout=300)
    assert guest.returncode == 0, guest.stderr
    refused, last = guest.stdout.splitlines()[-2:]
    assert last == "still there"
    assert re.search(
        r"needs a core and 4.0 GiB .* offer: \S+ 2 cores and 3.0 GiB, \S+ 0 cores and 8.0 GiB; lower", refused
    )
    assert contents(tmp_path / "first") == contents(tmp_path / "second")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_no_processes_and_no_files(tmp_path, rng, number) -> None:
    np.save(tmp_path / "wide.npy", rng.integers(-100, 100, (140_000, 1_024)).astype(np.int8))
    (tmp_path / "t").mkdir()
    command = [sys.executable, "-m", "paredown", "score", tmp_path / "wide.npy", "--k", "5", "-o", tmp_path / "s"]
    on_ray = [*command, "--engine", "ray", "--workers", "1"]
    with subprocess.Popen(
        on_ray,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as driver:
        deadline = time.monotonic() + 120
        while not list((tmp_path / "s").glob("0*.parquet")) and time.monotonic() < deadline:
            time.sleep(0.02)
        children = psutil.Process(driver.pid).children(recursive=True)
        mine = Path(ray_session_of(driver.pid)).parent
        driver.send_signal(number)
        assert driver.stderr is not None
        said = driver.stderr.read()
    assert driver.returncode == 128 + number, said
    assert "Traceback" not in said
    assert "SIGTERM" not in said  # Ray's own dump of the stack
    assert "interrupted; " in said
    _, alive = psutil.wait_procs(children, timeout=30)
    assert children
    assert not alive
    assert not mine.exists()


def test_a_signal_while_ray_starts_is_told_like_any_other(tmp_path, rng) -> None:
    np.save(tmp_path / "e.npy", rng.standard_normal((50, 4)).astype(np.float32))
    command = [sys.executable, "-m", "paredown", "score", tmp_path / "e.npy", "--k", "5", "-o", tmp_path / "s"]
    with subprocess.Popen(
        [*command, "--engine", "ray", "--workers", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as driver:
        deadline = time.monotonic() + 60
        while not psutil.Process(driver.pid).children() and time.monotonic() < deadline:
            time.sleep(0.01)
        children = psutil.Process(driver.pid).children(recursive=True)
        driver.send_signal(signal.SIGTERM)
        assert driver.stderr is not None
        said = driver.stderr.read()
    assert driver.returncode == 143, said
    assert said.startswith("interrupted; nothing was written.")
    assert not psutil.wait_procs(children, timeout=30)[1]
    assert not (tmp_path / "s").exists()


def test_a_cluster_of_another_version_is_told(monkeypatch) -> None:
    """The words of Ray's own check, which compares the two versions when a program connects."""
    from ray._private.utils import check_version_info

    connection = Connection("auto", None)
    monkeypatch.setattr(connection, "_check_reachable", lambda: None)

    def init(**_):
        check_version_info({"ray_version": "2.1.0", "python_version": "3.9.1"}, "this process")

    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(
        PareError, match=r"(?s)at auto runs another version of Ray or Python: .*2.1.0.*Install the same"
    ):
        connection._connect(ray)


def test_without_ray_the_command_says_how_to_install_it(tmp_path, wide) -> None:
    (tmp_path / "ray.py").write_text("raise ImportError\n")
    without = run(
        "score", wide, "-o", tmp_path / "s", "--engine", "ray", env={**os.environ, "PYTHONPATH": str(tmp_path)}
    )
    assert without.returncode == 2
    assert "Ray is not installed; run `pip install 'paredown[ray]'`." in without.stderr
    assert not (tmp_path / "s").exists() or not list((tmp_path / "s").glob("*.parquet"))


LOWER = "a worker ran out of memory; lower"


def test_a_job_that_asks_for_too_much_memory_says_what_to_lower(cluster) -> None:
    (outcome,) = cluster.run_jobs(HERE + "ask_for_too_much", [0])
    assert LOWER in outcome.error


def test_a_worker_that_ray_kills_for_its_memory_says_what_to_lower() -> None:
    """On a cluster of others, where Ray itself would try without end."""
    script = Path(__file__).with_name("run_out_of_memory.py")
    starved = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert starved.returncode == 0, starved.stderr
    assert f"job: {LOWER}" in starved.stdout
    assert f"fold: range 7: {LOWER}" in starved.stdout


def test_a_full_object_store_stops_nothing() -> None:
    script = Path(__file__).with_name("fill_the_store.py")
    filled = subprocess.run([sys.executable, script], capture_output=True, text=True, timeout=300)
    assert filled.stdout.split() == ["True", "True"], filled.stderr


def test_the_cluster_of_the_docs_is_one_that_ray_accepts() -> None:
    yaml = pytest.importorskip("yaml")
    from ray.autoscaler._private.util import prepare_config, validate_config

    settings = prepare_config(yaml.safe_load((DOCS / "ray-cluster.yaml").read_text()))
    validate_config(settings)
    assert settings["max_workers"] == 2
    validate_without = {name: value for name, value in settings.items() if name != "cluster_name"}
    with pytest.raises(Exception, match="cluster_name"):
        validate_config(validate_without)


def test_the_nodes_of_the_docs_start_with_options_that_ray_has() -> None:
    yaml = pytest.importorskip("yaml")
    from ray.scripts.scripts import cli

    settings = yaml.safe_load((DOCS / "ray-cluster.yaml").read_text())
    commands = [*settings["head_start_ray_commands"], *settings["worker_start_ray_commands"]]
    words = [shlex.split(part) for command in commands for part in command.split(";") if "ray" in part]
    assert [said[said.index("ray") + 1] for said in words] == ["stop", "start", "stop", "start"]
    for said in words:
        name, *options = said[said.index("ray") + 1 :]
        cli.commands[name].make_context(name, options)  # which an unknown option ends
    head = cli.commands["start"].make_context("start", words[1][words[1].index("start") + 1 :]).params
    assert (head["head"], head["port"]) == (True, 6379)


def test_the_commands_of_the_docs_run_on_a_cluster(address, tmp_path, rng) -> None:
    """With a smaller k, in a folder in place of the shared one."""
    (tmp_path / "embeddings").mkdir()
    np.save(tmp_path / "embeddings" / "part.npy", rng.standard_normal((300, 8)).astype(np.float32))
    commands = re.findall(r"ray exec ray-cluster.yaml '(paredown score [^']+)'", (DOCS / "scaling-out.md").read_text())
    assert len(commands) == 1
    for command in commands:
        given = command.replace("/shared", str(tmp_path)).replace("auto", address).replace("20000", "5")
        done = run(*shlex.split(given)[1:])
        assert done.returncode == 0, done.stderr
    assert len(pdn.read_scores(tmp_path / "scores")) == 300
