"""Plans of runs by ranges of rows: counted as the runs do it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from paredown.clustering.ranged_rows import RangedEmbeddings
from paredown.engines import InProcess
from paredown.engines.base import fold, fold_messages
from paredown.errors import PareError
from paredown.metrics.prototypes import fit_prototypes
from paredown.scoring.run_plan import plan_run
from paredown.sources.row_ranges import RangedSource

SPEEDS = {"core_speed": 1e9, "read_speed": 1e6}


class Noting(InProcess):
    """Notes what is done with how many ranges."""

    def __init__(self) -> None:
        self.folds: list[tuple[str, int]] = []

    def run_jobs(self, function, jobs, **how):
        if function.endswith(":parts_of_ranges"):
            self.folds.append((how["common"]["function"].split(":")[1], sum(len(job["ranges"]) for job in jobs)))
        else:
            self.folds.append((function.split(":")[1], len(jobs)))
        return super().run_jobs(function, jobs, **how)

    def fold_groups(self, groups, common, memory):
        self.folds.append((common["function"].split(":")[1], sum(map(len, groups))))
        return super().fold_groups(groups, common, memory)


@pytest.mark.parametrize("leading", [False, True])
@pytest.mark.parametrize(
    ("rows", "dim", "options"),
    [
        (3_000, 8, {"k": 5}),
        (9_000, 256, {"k": 20, "memory": 2**22}),
        (9_000, 256, {"k": 20, "memory": 2**20}),
        (9_000, 256, {"k": 20, "memory": 2**22, "method": "full", "iterations": 3}),
        (9_000, 256, {"k": 20, "memory": 2**22, "method": "hierarchical"}),
        (9_000, 256, {"k": 20, "memory": 2**30}),
        (9_000, 256, {"k": 20, "memory": 2**30, "method": "hierarchical"}),
        (9_000, 256, {"k": 40, "memory": 2**22, "method": "hierarchical", "probes": 2}),
    ],
)
def test_steps_of_workers_are_those_of_a_run(tmp_path, rng, monkeypatch, rows, dim, options, leading) -> None:
    for module in ("sources.row_ranges", "sources.base"):
        monkeypatch.setattr(f"paredown.{module}.BLOCK_BYTES", 2**17)
    monkeypatch.setattr("paredown.clustering.kmeans.worth_a_choice", lambda *_: leading)
    monkeypatch.setattr("paredown.clustering.kmeans._LEADING_ENOUGH", 0.0)
    np.save(tmp_path / "e.npy", rng.standard_normal((rows, dim), np.float32))
    engine = Noting()
    source = RangedEmbeddings(RangedSource(tmp_path / "e.npy"), engine)
    fit_prototypes(source, seed=0, sensitivity=False, **options)
    plan = plan_run(rows, dim, **SPEEDS, **options)
    planned = {step.name: step.tasks for step in plan.steps if step.where == "workers" and step.name != "scoring"}
    of_ids = [tasks for name, tasks in engine.folds if name in ("count_hashes", "hashes_up_to")]
    assert planned.pop("sampling: ids") + planned.pop("agreement: ids", 0) == sum(of_ids)
    assert list(planned.values()) == [tasks for name, tasks in engine.folds if "hashes" not in name]


def test_work_and_bytes_are_counted() -> None:
    plan = plan_run(10**6, 100, k=10, item_bytes=2, workers=4, **SPEEDS)
    scoring = plan.steps[-1]
    assert scoring.read == 2 * 10**8
    assert scoring.core_seconds == pytest.approx(2 * 10**8 / 1e6 + 10**6 * 100 * 10 / 1e9)
    assert plan.core_seconds == pytest.approx(sum(step.core_seconds for step in plan.steps))
    assert plan.read == sum(step.read for step in plan.steps)
    assert plan_run(10**6, 100, k=10, item_bytes=2, workers=8, **SPEEDS).core_seconds == plan.core_seconds


def test_memory_and_messages_do_not_grow_with_the_rows_beyond_the_depth_of_the_tree() -> None:
    small, large = (plan_run(rows, 768, k=1_000, workers=64, **SPEEDS) for rows in (10**7, 10**9))
    assert large.worker_memory < 2.2 * small.worker_memory
    assert large.driver_memory == small.driver_memory
    passes = [step for step in large.steps if step.name.startswith("sampling")]
    assert passes
    assert all(step.messages <= step.tasks / large.steps[1].tasks * 2 * (2 * 8 * 64 - 1) for step in passes)


def test_messages_are_those_of_a_fold() -> None:
    class Three(InProcess):
        workers = 3

        def fold_groups(self, groups, common, memory):
            return len(groups)

    for jobs in (1, 2, 11, 12, 13, 100):
        groups = fold(Three(), "", "", list(range(jobs)))
        assert fold_messages(jobs, 3) == 2 * groups + 2 * (groups - 1)


def test_too_little_memory_for_centroids_is_said() -> None:
    (warning,) = plan_run(10**9, 768, k=50_000, workers=1_000, method="hierarchical", **SPEEDS).warnings
    assert warning.startswith("50,000 centroids of 768 dimensions need 1.1 GiB, and memory is 1.0 GiB")


def test_a_driver_that_works_alone_for_long_is_said() -> None:
    options = {"k": 20_000, "workers": 1_000, "method": "sample", "core_speed": 5e10, "read_speed": 1e9}
    (warning,) = plan_run(10**9, 768, memory=2**40, **options).warnings  # which the sample fits into
    assert "the driver works alone" in warning
    assert plan_run(10**9, 768, memory=2**33, **options).warnings == ()


def test_workers_compare_the_sample_with_the_first_centroids() -> None:
    options = {"k": 10_000, "memory": 2**32, "core_speed": 3e10, "read_speed": 1e8, "item_bytes": 2}
    alone, shared = (plan_run(35 * 10**8, 768, workers=workers, **options) for workers in (1, 1_024))
    assert {step.where for step in alone.steps if step.name == "first centroids"} == {"driver"}
    (step,) = (step for step in shared.steps if step.name == "first centroids")
    assert step.where == "workers"
    assert shared.driver_seconds < 60 < step.core_seconds


def test_metrics_that_need_all_examples_are_refused() -> None:
    with pytest.raises(PareError, match="needs all examples on one machine; by ranges of rows: random, prototypes"):
        plan_run(1_000, 8, metric="el2n")


def test_the_command_takes_sizes_or_a_source(paredown, tmp_path) -> None:
    np.save(tmp_path / "e.npy", np.ones((1_000, 16), np.float16))
    speeds = ["--core-speed", "50", "--read-speed", "1GB", "--json"]
    of_file = json.loads(paredown("plan", tmp_path / "e.npy", "--k", "4", *speeds).stdout)
    by_size = json.loads(
        paredown("plan", "--rows", "1e3", "--dim", "16", "--dtype", "float16", "--k", "4", *speeds).stdout
    )
    assert of_file == by_size
    assert by_size["bytes_read"] == 2 * 8 * 1_000 + 2 * 2 * 16_000
    shown = paredown("plan", tmp_path / "e.npy", "--k", "4").stdout
    assert "first centroids" in shown
    assert "core-hours" in shown


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "give SOURCE, or both --rows and --dim"),
        (["--rows", "0.5", "--dim", "3"], "--rows must be a positive whole number, such as 400e6; got 0.5"),
        (["--rows", "10", "--dim", "0"], "--dim"),
        (["--rows", "10", "--dim", "3", "--dtype", "f4"], "dtype"),
        (["--rows", "1e6", "--dim", "3", "--option", "methd=full"], "methd"),
    ],
)
def test_wrong_usage_is_told(paredown, arguments, message) -> None:
    result = paredown("plan", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert "Traceback" not in result.stderr


def test_the_kernel_decides_what_a_search_among_many_takes(paredown) -> None:
    options = ["plan", "--rows", "1e7", "--dim", "64", "--k", "20000", "--core-speed", "60", "--json"]
    steps = {}
    for kernel in ("auto", "float32"):
        made = json.loads(paredown(*options, "--kernel", kernel, "--read-speed", "1TB").stdout)
        steps[kernel] = {step["name"]: step for step in made["steps"]}
    assert "agreement: rows" in steps["auto"]
    assert "agreement: rows" not in steps["float32"]
    reading = 10**7 * 64 * 4 / 1e12
    exact, grouped = (steps[kernel]["scoring"]["core_seconds"] - reading for kernel in ("float32", "auto"))
    assert exact == pytest.approx(10**7 * 64 * 20_000 / 3e10)
    assert grouped / exact == pytest.approx((4 * 566 + 64 * (2 * 20_000 / 566 + 50)) / 20_000)
    assert json.loads(paredown(*options).stdout) == json.loads(paredown(*options, "--kernel", "auto").stdout)


def test_as_many_prototypes_as_classes_unless_told(paredown, tmp_path) -> None:
    speeds = ["--core-speed", "60", "--json"]
    (tmp_path / "d").mkdir()
    np.save(tmp_path / "d" / "e.npy", np.ones((1_000, 16), np.float32))
    plan = lambda *given: json.loads(paredown("plan", *given, *speeds).stdout)["k"]
    assert plan(tmp_path / "d") == 16  # half the root
    np.save(tmp_path / "d" / "labels.npy", np.arange(1_000) % 7)
    assert plan(tmp_path / "d") == 7
    assert plan(tmp_path / "d", "--classes", "12") == 12
    assert plan(tmp_path / "d", "--k", "5") == 5
    assert plan(tmp_path / "d", "--metric", "supervised_prototypes") == 7
    assert plan("--rows", "1e4", "--dim", "8", "--classes", "100") == 100
    assert plan("--rows", "1e4", "--dim", "8", "--classes", "1") == 50  # one class is no classes
    assert plan("--rows", "50", "--dim", "8", "--classes", "100") == 50
    for wrong in (["--classes", "0"], ["--kernel", "fast"], ["--metric", "random", "--kernel", "float32"]):
        result = paredown("plan", "--rows", "10", "--dim", "3", *wrong)
        assert result.returncode == 2
        assert wrong[-2].removeprefix("--") in result.stderr
