"""Sweeps: what is run, that killed ones end the same, and that mistakes are named."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import quick_students
from typer.testing import CliRunner

from paredown.cli.run import app
from paredown.errors import PareError
from paredown.score_files import write_scores
from paredown.scores import Scores
from paredown.scoring import score
from paredown.sources import ImageSource
from paredown.sweeps import Run, expand, plan_sweep, read_settings, sweep, sweep_plan
from paredown.sweeps import jobs as jobs_module
from paredown.sweeps.jobs import student_steps
from paredown.sweeps.settings import GridSettings
from paredown.sweeps.summary import compare_with_random, curves_by_way
from paredown.sweeps.sweep_data import initial_rows, initial_source, open_data, open_sources, prepare_data
from paredown.training import StreamedExamples, find_recipe
from paredown.workers import Outcome

pytestmark = pytest.mark.usefixtures("one_torch_thread")

RUN = Run(100, 0.5, "el2n", "hard", 0.0, 1.0, 0)


@pytest.fixture
def config(tmp_path: Path) -> dict[str, Any]:
    """Three classes in five dimensions, and students of a few steps."""
    rng = np.random.default_rng(0)
    for name, n in (("train", 90), ("test", 60)):
        labels = np.arange(n) % 3
        np.save(tmp_path / f"{name}.npy", rng.standard_normal((n, 5)) + 3 * np.eye(5)[labels])
        np.save(tmp_path / f"{name}_labels.npy", labels)
    return {
        "data": {
            "source": str(tmp_path / "train.npy"),
            "labels": str(tmp_path / "train_labels.npy"),
            "test": str(tmp_path / "test.npy"),
            "test_labels": str(tmp_path / "test_labels.npy"),
        },
        "grid": {"initial_size": [40, 80], "keep_fraction": [0.25, 1.0], "seeds": 2},
        "student": {"recipe": "linear", "steps": 5},
        "probe": {"members": 2, "epochs": 2},
    }


def with_(config: dict[str, Any], part: str, **changes: Any) -> dict[str, Any]:
    return {**config, part: {**config[part], **changes}}


def here(function: str, jobs: list[Any], *, workers: int, common: Any) -> Any:
    """Jobs in this process, one after another."""
    call = getattr(jobs_module, function.partition(":")[2])
    for number, job in enumerate(jobs):
        yield Outcome(number, call(json.loads(json.dumps(common)), json.loads(json.dumps(job))))


# --- what is run ---------------------------------------------------------------------------------------------------


def test_chance_is_beside_every_run() -> None:
    grid = GridSettings((10, 20), (0.5, 1.0), strategy=("hard", "easy"), metric=("el2n", "prototypes"), seed=(0, 1))
    runs = expand(grid)
    pruned = [run for run in runs if run.metric != "random"]
    assert len(pruned) == 2 * 2 * 2 * 2  # sizes, strategies, metrics, seeds at the one fraction that prunes
    assert {(run.initial_size, run.keep_fraction, run.seed) for run in runs if run.metric == "random"} == {
        (size, fraction, seed) for size in (10, 20) for fraction in (0.5, 1.0) for seed in (0, 1)
    }
    assert len(set(runs)) == len(runs)
    assert runs == expand(replace(grid, initial_size=(20, 10), strategy=("easy", "hard")))


def test_a_run_is_named_by_all_that_decides_it() -> None:
    names = {RUN.name({"student": 1}, "probe"), RUN.name({"student": 2}, "probe"), RUN.name({"student": 1}, "other")}
    names.add(replace(RUN, seed=1).name({"student": 1}, "probe"))
    assert len(names) == 4
    assert RUN.name({"a": 1, "b": 2}, 0) == RUN.name({"b": 2, "a": 1}, 0)
    chance = replace(RUN, metric="random", strategy="random")
    assert chance.name({"student": 1}, "probe") == chance.name({"student": 1}, "other")  # no score has a part in it


@pytest.mark.parametrize(("factor", "steps"), [(0.0, 10 * 1), (0.5, 15), (1.0, 10 * 2)])
def test_matched_iterations_go_from_equal_epochs_to_equal_steps(factor: float, steps: int) -> None:
    recipe = find_recipe("mlp", batch_size=50, epochs=10)
    assert student_steps(recipe, replace(RUN, matched_iterations=factor), 50, None) == steps
    assert student_steps(recipe, replace(RUN, matched_iterations=factor), 50, 7) == 7


def test_initial_sets_of_one_seed_are_nested() -> None:
    small, large, other = initial_rows(100, 10, 3), initial_rows(100, 30, 3), initial_rows(100, 10, 4)
    assert len(set(large.tolist())) == 30
    assert set(small.tolist()) < set(large.tolist())
    assert set(small.tolist()) != set(other.tolist())


# --- a whole sweep -------------------------------------------------------------------------------------------------


def test_a_sweep_ends_in_one_table_and_goes_on_where_it_was(config: dict[str, Any], tmp_path: Path) -> None:
    swept = sweep(config, out=tmp_path / "swept", engine=here)
    table = swept.table
    assert table.num_rows == 2 * 2 * 2 + 2 * 2  # random and whole, then pruned
    assert set(table["status"].to_pylist()) == {"done"}
    by_run = {(row["initial_size"], row["keep_fraction"], row["metric"], row["seed"]): row for row in table.to_pylist()}
    assert by_run[40, 0.25, "el2n", 0]["kept"] == 10
    assert by_run[80, 1.0, "random", 1]["kept"] == 80
    for row in by_run.values():
        right = np.mean(row["class_accuracy"])  # test classes are of equal size
        assert row["test_error"] == pytest.approx(1 - right)
        assert sum(row["class_kept"]) == row["kept"]

    # What is missing is made again, nothing else, and the table is the same to the byte.
    before = (tmp_path / "swept" / "results.parquet").read_bytes()
    files = sorted((tmp_path / "swept" / "runs").iterdir())
    times = {file: file.stat().st_mtime_ns for file in files}
    for file in files[::3]:
        file.unlink()
    sweep(config, out=tmp_path / "swept", engine=here)
    assert (tmp_path / "swept" / "results.parquet").read_bytes() == before
    changed = [file for file in files if file.stat().st_mtime_ns != times[file]]
    assert changed == files[::3]

    # A larger grid keeps what it shares; other settings are refused.
    larger = sweep(with_(config, "grid", seeds=3), out=tmp_path / "swept", engine=here)
    assert larger.table.num_rows == 18
    assert all(file.stat().st_mtime_ns == times[file] for file in files if file not in changed)
    with pytest.raises(
        PareError, match=r"holds a sweep made with other settings: student.learning_rate was 0.005 and is now 0.5"
    ):
        sweep(with_(config, "student", learning_rate=0.5), out=tmp_path / "swept", engine=here)


def test_killed_three_times_it_ends_with_the_same_table(config: dict[str, Any], tmp_path: Path) -> None:
    config["grid"] = {"initial_size": [40, 80], "keep_fraction": [0.5, 1.0], "seeds": 4, "metric": "prototypes"}
    config["probe"] = {"k": 3, "sensitivity": False}
    undisturbed = quick_students.sweep_quickly(config, tmp_path / "undisturbed", workers=1)
    assert undisturbed.num_rows == 24
    (tmp_path / "config.json").write_text(json.dumps(config))
    code = (
        "import json; from pathlib import Path; from quick_students import sweep_quickly\n"
        f"folder = Path({str(tmp_path)!r})\n"
        "sweep_quickly(json.loads((folder / 'config.json').read_text()), folder / 'killed', workers=2)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    runs, kills = tmp_path / "killed" / "runs", 0
    for wanted in (1, 6, 11):
        process = subprocess.Popen([sys.executable, "-c", code], env=environment)
        while process.poll() is None and len(list(runs.glob("*.json"))) < wanted:
            time.sleep(0.01)
        kills += process.poll() is None
        process.send_signal(signal.SIGKILL)
        process.wait()
        for file in runs.glob("*.json"):
            assert json.loads(file.read_text())["status"] == "done"  # whole, whatever happened
    assert kills == 3
    assert len(list(runs.glob("*.json"))) < 24
    ended = quick_students.sweep_quickly(config, tmp_path / "killed", workers=1)
    assert ended.equals(undisturbed)
    assert len(set(ended["test_error"].to_pylist())) > 1


def test_a_sweep_estimates_how_long_it_will_take(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured: list[tuple[int, bool]] = []

    def steps(common: dict[str, Any], job: dict[str, Any]) -> float:
        measured.append((job["together"], job["recipe"]["name"] == "linear"))
        return 2.0 if job["together"] == 1 else 3.0

    real = jobs_module.measure_step
    plan = plan_sweep(with_(config, "grid", initial_size=[40]), out=tmp_path / "swept")
    common, job = (
        {"data": str(tmp_path / "swept" / "data")},
        {"recipe": find_recipe("linear").settings(), "together": 2},
    )
    seconds = real(common, job)
    assert seconds is not None
    assert seconds >= 0
    assert real(common, {**job, "recipe": find_recipe("linear", learning_rate=1e38).settings()}) is None
    monkeypatch.setattr(jobs_module, "measure_step", steps)
    said: list[float] = []
    done = sweep_plan(plan, workers=2, engine=here, announce=said.append)
    # Six students of 5 steps, and for two seeds two probes trained together for 2 epochs of one batch.
    assert said == [(6 * 5 * 2.0 + 2 * 2 * 3.0) / 2]
    assert measured == [(1, True), (2, True)]
    assert done.table.num_rows == 6
    again = plan_sweep(with_(config, "grid", initial_size=[40]), out=tmp_path / "swept")
    sweep_plan(again, engine=here, announce=said.append)
    assert len(said) == 1  # nothing is left to do


def test_an_address_without_a_cluster_is_refused(config: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(PareError, match="address is that of a Ray cluster"):
        sweep(config, out=tmp_path / "swept", address="auto")


def test_unpruned_sets_are_trained_unless_they_are_not_wanted(config: dict[str, Any]) -> None:
    small = with_(config, "grid", keep_fraction=[0.25])
    assert {run.keep_fraction for run in expand(read_settings(small).grid)} == {0.25, 1.0}
    without = with_(small, "grid", unpruned=False)
    assert {run.keep_fraction for run in expand(read_settings(without).grid)} == {0.25}
    with pytest.raises(PareError, match="unpruned"):
        read_settings(with_(small, "grid", unpruned=[1]))


def test_a_run_that_fails_says_why_and_the_others_go_on(config: dict[str, Any], tmp_path: Path) -> None:
    wild = with_(config, "student", learning_rate=1e38, steps=20)
    wild["grid"] = {"initial_size": 40, "keep_fraction": 0.5, "seed": 0, "metric": "supervised_prototypes"}
    swept = sweep(wild, out=tmp_path / "wild", engine=here)
    assert swept.table["status"].to_pylist() == ["failed"] * 3  # pruned, random and unpruned
    assert all("the loss became" in reason for _, reason in swept.failed)
    assert compare_with_random(swept.table) == []


@pytest.fixture
def image_config(tmp_path: Path) -> dict[str, Any]:
    """Folders of colour images of two classes, in memory for students, and embedded for prototypes."""
    from PIL import Image

    rng = np.random.default_rng(0)
    for split, n in (("train", 16), ("test", 40)):
        for number in range(n):
            file = tmp_path / split / "ab"[number % 2] / f"{number:02d}.png"
            file.parent.mkdir(parents=True, exist_ok=True)
            bright = 100 + 60 * (number % 2)
            Image.fromarray(rng.integers(0, bright, (8, 8, 3), dtype=np.uint8)).save(file)
    return {
        "data": {"source": str(tmp_path / "train"), "test": str(tmp_path / "test"), "encoder": "pixels"},
        "grid": {"initial_size": 12, "keep_fraction": 0.5, "seed": 0, "metric": ["el2n", "prototypes"]},
        "student": {"recipe": "tiny_cnn", "steps": 4, "image_size": 8, "batch_size": 4},
        "probe": {"recipe": "mlp", "members": 2, "epochs": 1, "k": 2, "sensitivity": False},
    }


def test_images_and_features_of_one_sweep(image_config: dict[str, Any], tmp_path: Path) -> None:
    swept = sweep(image_config, out=tmp_path / "swept", engine=here)
    assert swept.table["status"].to_pylist() == ["done"] * 4  # pruned, random and unpruned
    assert sorted(path.name for path in (tmp_path / "swept" / "data").iterdir()) == ["features", "images"]


def test_images_larger_than_memory_are_not_copied_and_give_the_same_table(
    image_config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    images = with_(image_config, "probe", recipe="tiny_cnn", members=1)
    images["grid"] = {"initial_size": 12, "keep_fraction": [0.5, 1.0], "seeds": 2, "metric": "el2n"}
    images["data"] = {**images["data"], "label_noise": 0.2}
    in_memory = sweep(images, out=tmp_path / "in_memory", engine=here)
    monkeypatch.setattr("paredown.sweeps.sweep_data._COPIED", 1000)
    streamed = sweep(images, out=tmp_path / "streamed", engine=here)
    assert streamed.table.equals(in_memory.table)
    assert len(set(streamed.table["test_error"].to_pylist())) > 1
    folder = tmp_path / "streamed" / "data" / "images"
    assert sorted(file.name for file in folder.iterdir()) == ["data.json", "test_labels.npy", "train_labels.npy"]
    train, _ = open_data(folder)
    assert isinstance(train, StreamedExamples)
    assert (train.labels != [0] * 8 + [1] * 8).any()  # the noise is there, and it is the same
    np.testing.assert_array_equal(
        train.labels, np.load(tmp_path / "in_memory" / "data" / "images" / "train_labels.npy")
    )
    (tmp_path / "train" / "a" / "00.png").unlink()
    open_data.cache_clear()
    with pytest.raises(PareError, match="held 16 images when the sweep began, and holds 15 now"):
        open_data(folder)


def test_rows_of_streamed_images_are_a_source(
    image_config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows, settings = np.array([1, 4, 9, 14]), read_settings(image_config)
    sources = {}
    for copied in (2**30, 1000):
        monkeypatch.setattr("paredown.sweeps.sweep_data._COPIED", copied)
        recipes = {"images": settings.student.resolve()}
        prepare_data(settings.data, open_sources(settings.data), recipes, tmp_path / str(copied))
        sources[copied] = initial_source(open_data(tmp_path / str(copied) / "images")[0], rows)
    mapped, streamed = sources[2**30], sources[1000]
    assert isinstance(streamed, ImageSource)
    assert [name for _, name in streamed.files(1)] == ["a/08.png", "b/03.png", "b/13.png"]
    np.testing.assert_array_equal(streamed.ids, rows)
    assert streamed.labels is not None
    assert [streamed.labels.classes[code] for code in streamed.labels.codes] == ["a", "a", "b", "b"]
    for metric, options in (("prototypes", {"k": 2, "sensitivity": False}), ("el2n", {"members": 1, "epochs": 1})):
        recipe = {"recipe": settings.student.resolve()} if metric == "el2n" else {}
        one, other = (
            score(source, metric=metric, encoder="pixels", **recipe, **options) for source in (mapped, streamed)
        )
        np.testing.assert_array_equal(one.values, other.values)


def test_data_prepared_for_other_settings_are_made_again(config: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(PareError, match="asks for 1,000 examples"):  # after the data are prepared
        sweep(with_(config, "grid", initial_size=1000), out=tmp_path / "swept")
    noisy = with_(with_(config, "data", label_noise=0.5), "grid", seeds=1)
    sweep(noisy, out=tmp_path / "swept", engine=here)
    labels = np.load(tmp_path / "swept" / "data" / "features" / "train_labels.npy")
    assert np.mean(labels != np.arange(90) % 3) > 0.3
    np.save(tmp_path / "train_labels.npy", np.arange(1, 91) % 3)
    with pytest.raises(PareError, match=r"other settings: found.train_labels was"):
        sweep(noisy, out=tmp_path / "swept")


def test_noisy_labels_are_the_share_asked_for(config: dict[str, Any], tmp_path: Path) -> None:
    noisy = with_(config, "data", label_noise=0.3)
    noisy["grid"] = {"initial_size": 90, "keep_fraction": 1.0, "seed": 0}
    sweep(noisy, out=tmp_path / "noisy", engine=here)
    data = tmp_path / "noisy" / "data" / "features"
    assert 0.15 < np.mean(np.load(data / "train_labels.npy") != np.arange(90) % 3) < 0.45
    np.testing.assert_array_equal(np.load(data / "test_labels.npy"), np.arange(60) % 3)


# --- what it says --------------------------------------------------------------------------------------------------


def test_differences_are_paired_by_seed() -> None:
    import pyarrow as pa

    def row(metric: str, seed: int, error: float) -> dict[str, Any]:
        run = replace(RUN, metric=metric, seed=seed, strategy="random" if metric == "random" else "hard")
        return {**vars(run), "kept": 50, "test_error": error, "status": "done"}

    rows = [row("random", seed, error) for seed, error in enumerate((0.2, 0.3, 0.4))]
    rows += [row("el2n", seed, error) for seed, error in enumerate((0.1, 0.21, 0.29))]
    table = pa.Table.from_pylist(rows)
    (found,) = compare_with_random(table)
    assert (found.seeds, found.test_error, found.random_error) == (3, pytest.approx(0.2), pytest.approx(0.3))
    assert found.difference == pytest.approx(-0.1)
    assert found.difference_stderr == pytest.approx(0.01 / np.sqrt(3))  # of -0.1, -0.09 and -0.11
    assert found.z == pytest.approx(-0.1 / (0.01 / np.sqrt(3)))
    assert curves_by_way(table)["el2n, hard"][0.5] == [(50, pytest.approx(0.2), pytest.approx(found.stderr))]


# --- mistakes ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("part", "changes", "message"),
    [
        (
            "grid",
            {"keep_fractions": [0.5]},
            r"unknown setting in \[grid\] 'keep_fractions'.*Did you mean 'keep_fraction'",
        ),
        ("grid", {"keep_fraction": []}, r"keep_fraction is empty, so there is nothing to run"),
        ("grid", {"keep_fraction": [0.5, 1.5]}, r"keep_fraction must be in \(0, 1\], got 1.5"),
        ("grid", {"initial_size": [1000]}, r"asks for 1,000 examples, and .* has 90"),
        ("grid", {"initial_size": [10, 10]}, r"initial_size names a value twice"),
        ("grid", {"metric": ["eln2"]}, r"unknown metric 'eln2'.*Did you mean 'el2n'"),
        ("grid", {"strategy": "hardest"}, r"unknown strategy 'hardest'.*Did you mean 'hard'"),
        ("grid", {"seed": [0], "seeds": 2}, r"both seed and seeds"),
        ("grid", {"matched_iterations": 2}, r"matched_iterations must be in \[0, 1\], got 2"),
        ("student", {"recipe": "mpl"}, r"unknown recipe 'mpl'.*Did you mean 'mlp'"),
        ("student", {"learning_rat": 1}, r"unknown setting of a recipe 'learning_rat'.*Did you mean 'learning_rate'"),
        ("student", {"steps": 0}, r"steps must be at least 1"),
        ("probe", {"member": 2}, r"unknown setting in \[probe\] 'member'.*Did you mean 'members'"),
        ("data", {"label_noise": 1.0}, r"label_noise must be in \[0, 1\)"),
        ("data", {"label_noise": "much"}, r"\[data\] label_noise is a number, got 'much'"),
        ("data", {"labels": "nowhere.npy"}, r"nowhere.npy: there is no such file"),
        ("data", {"source": "nowhere"}, r"nowhere: there is no such file or folder"),
        ("data", {"labels": "test_labels.npy"}, r"there are 60 labels for 90 examples; give one label per example"),
        ("grid", {"seed": [[0]], "seeds": None}, r"\[grid\] seed is a list of whole numbers, got \[\[0\]\]"),
        ("grid", {"initial_size": ["40"]}, r"\[grid\] initial_size is a list of whole numbers, got \['40'\]"),
        ("student", {"steps": "five"}, r"\[student\] steps is a whole number, got 'five'"),
        ("student", {"optimizer": "sdg"}, r"recipe 'linear': optimizer is one of 'sgd', .*, got 'sdg'"),
        ("student", {"learning_rate": "fast"}, r"recipe 'linear': learning_rate is a number, got 'fast'"),
        ("student", {"recipe": "tiny_cnn"}, r"recipe 'tiny_cnn' trains on images, and these are vectors"),
        ("probe", {"members": "two"}, r"option 'members' of metric 'el2n' is a whole number, got 'two'"),
        ("probe", {"recipe": "tiny_cnn"}, r"recipe 'tiny_cnn' trains on images, and these are vectors"),
        ("data", {"test": None}, r"has no test split of its own"),
        ("data", {"labels": None}, r"has no labels, and a sweep measures accuracy; give \[data\] labels"),
    ],
)
def test_mistakes_are_named_before_anything_runs(
    part: str, changes: dict[str, Any], message: str, config: dict[str, Any], tmp_path: Path
) -> None:
    changed = with_(config, part, **changes)
    changed[part] = {name: value for name, value in changed[part].items() if value is not None}
    if changes.get("labels") == "test_labels.npy":
        changed["data"]["labels"] = config["data"]["test_labels"]
    with pytest.raises(PareError, match=message):
        sweep(changed, out=tmp_path / "swept")
    assert not (tmp_path / "swept" / "runs").exists()


def test_parts_that_are_missing_or_misspelt(config: dict[str, Any], tmp_path: Path) -> None:
    with pytest.raises(PareError, match=r"unknown part 'gird'.*Did you mean 'grid'"):
        read_settings({"data": config["data"], "gird": config["grid"]})
    with pytest.raises(PareError, match=r"there is no \[grid\]"):
        read_settings({"data": config["data"]})
    with pytest.raises(PareError, match=r"grid is a part, with its settings below \[grid\]; got 4"):
        read_settings({"data": config["data"], "grid": 4})
    for number in (0, 10**12):
        with pytest.raises(PareError, match=rf"\[grid\] seeds is how many, from 1 to 10,000; got {number}"):
            read_settings({"data": {"source": "x.npy"}, "grid": {"seeds": number}})
    with pytest.raises(PareError, match=r"\[data\] has no source"):
        read_settings({"data": {}, "grid": config["grid"]})
    (tmp_path / "broken.toml").write_text("[grid\n")
    with pytest.raises(PareError, match=r"broken.toml: not a readable TOML file"):
        read_settings(tmp_path / "broken.toml")


def write_toml(config: dict[str, Any], file: Path) -> None:
    lines = []
    for part, values in config.items():
        lines += [f"[{part}]", *(f"{name} = {json.dumps(value)}" for name, value in values.items())]
    file.write_text("\n".join(lines))


class CrewHere:
    """Takes the place of worker processes."""

    run_jobs = staticmethod(here)

    def __enter__(self) -> CrewHere:
        return self

    def __exit__(self, *_: object) -> None: ...


def test_lost_classes_and_failures_are_said(
    config: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("paredown.sweeps.sweeping.Crew", CrewHere)
    labels = np.arange(90) % 2
    labels[:3] = 2  # a class that most subsets are without
    np.save(tmp_path / "train_labels.npy", labels)
    command = ["sweep", str(tmp_path / "sweep.toml"), "-o", str(tmp_path / "swept")]
    write_toml(with_(config, "grid", initial_size=[40]), tmp_path / "sweep.toml")
    said = json.loads(CliRunner().invoke(app, [*command, "--json"], catch_exceptions=False).stdout)
    table = pq.read_table(said["results"]).to_pylist()
    lost = [[name for name, kept in zip("012", row["class_kept"], strict=True) if not kept] for row in table]
    assert ["2"] in lost
    assert [] in lost
    assert [student["classes"] for student in said["missing_classes"]] == [classes for classes in lost if classes]
    shown = CliRunner().invoke(app, command, catch_exceptions=False)
    assert f"{len(said['missing_classes'])} of 6 students saw no example of some class" in shown.stdout
    assert shown.exit_code == 0

    write_toml(with_(config, "student", learning_rate=1e38, steps=20), tmp_path / "sweep.toml")
    failed = CliRunner().invoke(app, [*command[:-1], str(tmp_path / "wild")], catch_exceptions=False)
    assert "Nothing to compare" in failed.stdout
    assert "failed: 0.25 of 40 (el2n, hard, seed 0): recipe 'linear': the loss became nan" in failed.stdout
    assert "12 of 12 students failed; --retry-failed trains them again." in failed.stdout
    assert failed.exit_code == 1


def test_the_command_line(config: dict[str, Any], tmp_path: Path) -> None:
    write_toml(with_(config, "grid", initial_size=[40], seeds=2), tmp_path / "sweep.toml")
    command = ["sweep", str(tmp_path / "sweep.toml"), "-o", str(tmp_path / "swept"), "--workers", "1"]
    result = CliRunner().invoke(app, [*command, "--json"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    said = json.loads(result.stdout)
    assert said["runs"] == pq.read_table(said["results"]).num_rows == 6
    assert [row["kept"] for row in said["against_random"]] == [10]
    assert Path(said["picture"]).stat().st_size > 10_000
    shown = CliRunner().invoke(app, command, catch_exceptions=False).stdout
    assert "el2n, hard, floor 0.5: test error in %" in shown
    assert "unpruned" in shown


# --- names for probes, files of scores, and what else is kept ------------------------------------------------------


def test_named_probes_share_one_baseline(config, tmp_path) -> None:
    """A weak and a strong probe of one metric are two rows of one table, and adding one keeps what is there."""
    named = {**config["probe"], "weak": {"metric": "el2n", "epochs": 1}, "el2n": {"epochs": 6}}
    settings = read_settings({**with_(config, "grid", metric=["weak", "el2n"]), "probe": named})
    assert settings.probe.find("weak").options["epochs"] == 1
    assert settings.probe.find("el2n").options == {"members": 2, "epochs": 6, "recipe": "linear"}
    first = sweep({**config, "probe": named}, out=tmp_path / "out", engine=here)
    before = {file.name for file in (tmp_path / "out" / "runs").iterdir()}
    both = sweep(settings, out=tmp_path / "out", engine=here)
    assert before < {file.name for file in (tmp_path / "out" / "runs").iterdir()}
    assert first.table.num_rows == 2 * 2 * 2 + 2 * 2
    assert both.table.num_rows == first.table.num_rows + 2 * 2
    assert {row.metric for row in compare_with_random(both.table)} == {"weak", "el2n"}


def test_scores_of_a_file_are_matched_by_id(config, tmp_path) -> None:
    """Scores in another order, that make the hardest of all rows the multiples of four."""
    ids = np.random.default_rng(1).permutation(90)
    write_scores(Scores(np.where(ids % 4 == 0, 1.0, 0.0), ids, "mine"), tmp_path / "mine.parquet")
    config = with_(config, "grid", metric=["mine"], initial_size=[90], keep_fraction=[23 / 90], seeds=1)
    config["probe"] = {**config["probe"], "mine": {"scores": str(tmp_path / "mine.parquet")}}
    table = sweep(config, out=tmp_path / "out", engine=here).table.to_pylist()
    (kept,) = [row["class_kept"] for row in table if row["metric"] == "mine"]
    labels = np.load(tmp_path / "train_labels.npy")
    assert kept == np.bincount(labels[np.arange(0, 90, 4)]).tolist()


def test_scores_of_other_examples_are_refused(config, tmp_path) -> None:
    write_scores(Scores(np.zeros(89), np.arange(1, 90), "mine"), tmp_path / "mine.parquet")
    config["probe"] = {"mine": {"scores": str(tmp_path / "mine.parquet")}}
    with pytest.raises(PareError, match=r"1 of the 90 examples .* have no score in it, the first of them 0"):
        sweep(with_(config, "grid", metric=["mine"]), out=tmp_path / "out", engine=here)


@pytest.mark.parametrize(
    ("probe", "message"),
    [
        ({"weak": {"epochs": 4}}, r"\[probe.weak\]: unknown metric 'weak'.* `metric = NAME` or `scores = FILE`"),
        ({"weak": {"metric": "el2n", "epoch": 4}}, r"\[probe.weak\]: unknown option of el2n 'epoch'.*epochs"),
        ({"mine": {"scores": "x.parquet", "epochs": 4}}, r"\[probe.mine\] takes scores from a file.*leave out epochs"),
        ({"random": {"metric": "el2n"}}, r"the name 'random' is that of the baseline"),
    ],
)
def test_mistakes_in_named_probes_are_named(config, probe, message) -> None:
    with pytest.raises(PareError, match=message):
        read_settings({**config, "probe": probe})


def test_weights_and_learning_curves_are_kept_when_asked(config, tmp_path) -> None:
    config = with_(config, "student", keep_weights=True, test_every_epoch=True, steps=None)
    config["student"].pop("steps")
    config = with_(with_(config, "student", epochs=3), "grid", seeds=1, initial_size=[80])
    swept = sweep(config, out=tmp_path / "out", engine=here)
    for row in swept.table.to_pylist():
        assert (tmp_path / "out" / "runs" / f"{row['run']}.pt").exists()
        assert len(row["epoch_errors"]) == 3
        assert row["epoch_errors"][-1] == pytest.approx(row["test_error"])
        assert row["top5_error"] is None


def test_runs_whose_scores_cannot_be_made_have_failed(config, tmp_path) -> None:
    """Trying again would not help, so they are results and not unfinished; the baseline is there all the same."""
    config["probe"] = {"members": 0}
    swept = sweep(config, out=tmp_path / "out", workers=1)
    assert not swept.unfinished
    assert {run.metric for run, _ in swept.failed} == {"el2n"}
    assert all(reason.startswith("its scores could not be made: ") for _, reason in swept.failed)
    done = [row for row in swept.table.to_pylist() if row["status"] == "done"]
    assert {row["metric"] for row in done} == {"random"}
    again = sweep(config, out=tmp_path / "out", workers=1)
    assert again.failed == swept.failed


def test_steps_and_matched_iterations_exclude_each_other(config) -> None:
    with pytest.raises(PareError, match="matched_iterations would say nothing"):
        read_settings(with_(config, "grid", matched_iterations=[0.0, 1.0]))
