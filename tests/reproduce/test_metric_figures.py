"""Figures that compare metrics: numbers that follow from known scores and known errors, and verdicts both ways."""

from __future__ import annotations

from dataclasses import replace
from importlib import import_module
from itertools import product
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy.stats import spearmanr

from paredown import balance_score, select
from paredown.reproduce import metric_comparison as benchmark
from paredown.reproduce.base import ClaimVerdict, FigureTable
from paredown.reproduce.figures.fig_histograms import variance_between, variance_explained
from paredown.reproduce.figures.fig_imbalance import lowest_balance
from paredown.reproduce.metric_comparison import (
    COMPARED_METRICS,
    METRIC_TITLES,
    PAPER_FRACTIONS,
    SUPERVISED,
    add_accuracies,
)
from paredown.reproduce.setup import Setup
from paredown.scores import Labels, Scores
from paredown.selection import balance_of_counts
from paredown.sweeps import expand, read_settings

CLASSES = 4
NOISE = (0.001, -0.002, 0.003, 0.0, -0.002)  # of a seed; sums to zero


@pytest.fixture
def setup(tmp_path) -> Setup:
    needs = {role: sizes["tiny"] for role, sizes in benchmark.NEEDS.items()}
    return Setup("tiny", 0, tmp_path / "parts", needs)


def swept(config: dict[str, Any], error: Any) -> pa.Table:
    """The table of a sweep whose test errors are known: `error(run)`, plus noise that a seed shares."""
    rows = []
    for run in expand(read_settings(config).grid):
        own = error(run)
        per_class = [1 - own - NOISE[run.seed] + 0.01 * (code - 1.5) for code in range(CLASSES)]
        measured = {"test_error": own + NOISE[run.seed], "top5_error": own / 2, "class_accuracy": per_class}
        measured["class_kept"] = [1, 2] if run.balance and run.keep_fraction < 0.7 else [0, 3]  # where the floor acts
        rows.append({**vars(run), **measured, "status": "done"})
    return pa.Table.from_pylist(rows)


def known_error(run: Any) -> float:
    """All examples 0.1; random loses by what is dropped, metrics half of that, the floor is worth a point."""
    lost = 1 - run.keep_fraction
    if run.metric == "random":
        return 0.1 + 0.1 * lost
    worse = {name: 0.001 * number for number, name in enumerate(COMPARED_METRICS)}.get(run.metric, 0.0)
    return 0.1 + 0.05 * lost + worse - 0.02 * run.balance


def measured(name: str, setup: Setup, monkeypatch: pytest.MonkeyPatch, error: Any = known_error) -> FigureTable:
    """The data of a figure whose students are made up."""
    figure = import_module(f"paredown.reproduce.figures.{name}")
    monkeypatch.setattr(Setup, "sweep", lambda _, config: SimpleNamespace(table=swept(config, error)))
    monkeypatch.setattr(benchmark, "score_benchmark", lambda *_: {})
    return figure.measure(setup)


def verdicts(name: str, table: FigureTable) -> list[bool | None]:
    """True for held, False for contradicted, None where the data cannot tell."""
    known = {ClaimVerdict.HELD: True, ClaimVerdict.CONTRADICTED: False}
    return [known.get(claim.verdict) for claim in import_module(f"paredown.reproduce.figures.{name}").judge(table)]


SPREAD = (-1, 1, -1, 1, 0.5, -0.5)


def with_seeds(table: FigureTable, spread: float = 0.0002) -> FigureTable:
    """Six seeds around the first one, wherever there are rows per seed; numbers but the seed get the same noise."""
    rows = []
    for row in table.rows:
        if "seed" not in row or row["kind"] == "part":
            rows.append(row)
        elif row["seed"] == 0:
            noisy = [name for name in row if name in BY_SEED]
            rows += [
                row | {"seed": seed} | {name: row[name] + spread * shift for name in noisy}
                for seed, shift in enumerate(SPREAD)
            ]
    return FigureTable(rows)


BY_SEED = ("difference", "full_difference", "gain", "change", "correlation", "size_of_change", "worst_less_rest")


def change(table: FigureTable, wanted: dict[str, Any], **cells: float) -> FigureTable:
    """A copy with some cells changed."""
    return FigureTable(row | cells if all(row.get(k) == v for k, v in wanted.items()) else row for row in table.rows)


# --- the benchmark -------------------------------------------------------------------------------------------------


def test_every_metric_has_one_place_and_the_paper_its_numbers(tmp_path) -> None:
    needs = {role: sizes["paper"] for role, sizes in benchmark.NEEDS.items()}
    paper = Setup("paper", 0, tmp_path, needs, rehearsal=True)
    places = benchmark._places(paper)
    assert list(places) == list(METRIC_TITLES)
    members = {name: scoring.options.get("members") for name, (scoring, _) in places.items()}
    assert (members["el2n_1"], members["el2n_20"], members["memorization"]) == (1, 20, 2000)
    assert places["prototypes"][0].options["k"] == 1000
    assert all(scoring.data["encoder"] == "swav" for scoring, _ in places.values())
    config = benchmark.benchmark_sweep(paper)
    assert config["grid"]["initial_size"] == [1_281_167]
    assert config["grid"]["keep_fraction"] == [1.0, *PAPER_FRACTIONS]
    assert len(expand(read_settings(config).grid)) == 5 * (1 + 4 + 4 * 10)
    file = config["probe"]["el2n_20"]["scores"]
    assert (config["probe"]["active_learning"]["scores"], config["probe"]["el2n_20"]["metric"]) == (file, "el2n")
    assert config["probe"]["el2n_1"]["scores"] != file


def test_every_seed_has_a_scoring_of_its_own(tmp_path) -> None:
    needs = {role: sizes["cpu"] for role, sizes in benchmark.NEEDS.items()}
    plan = benchmark.plan_students(Setup("cpu", 3, tmp_path, needs, rehearsal=True))
    grids = [config["grid"]["seed"] for config in plan.sweeps.values()]
    assert grids == [[3], [4], [5], [6], [7], [8]]
    files = [config["probe"]["ddd"]["scores"] for config in plan.sweeps.values()]
    assert len(set(files)) == 6
    assert {scoring.repeat for scoring in plan.scorings.values()} == set(range(6))


def test_every_part_of_the_examples_has_a_scoring_of_its_own(setup, monkeypatch) -> None:
    """Luck in scoring moves all examples of a scoring together: the rule sees as many numbers as there are scorings."""
    asked: list[int] = []

    def score_one(_setup: Any, _whole: Any = None, repeat: int = 0) -> dict[str, Scores]:
        asked.append(repeat)
        return {"random": Scores(np.full(60, float(repeat)), np.arange(60), "random")}

    monkeypatch.setattr(benchmark, "score_benchmark", score_one)
    monkeypatch.setattr(benchmark, "repeats", lambda *_: [0, 1, 2])
    parts = benchmark.parts_of(setup)
    assert asked == [0, 1, 2]
    assert [part.scores["random"].values[0] for part in parts] == [0, 1, 2]
    assert sorted(np.concatenate([part.rows for part in parts])) == list(range(60))
    assert {part.over for part in parts} == {"scorings"}
    monkeypatch.setattr(benchmark, "repeats", lambda *_: [0])
    once = benchmark.parts_of(setup)
    assert (len(once), {part.over for part in once}) == (benchmark.PARTS, {"parts"})


def test_the_long_tailed_set_is_scored_three_times_and_judged_over_these(tmp_path) -> None:
    setup = Setup("cpu", 0, tmp_path, {"main": ("digits_tailed",)}, rehearsal=True)
    assert benchmark.repeats(setup, setup.dataset()) == [0, 1, 2]
    table = FigureTable([{"kind": "data", "scorings": 3}])
    assert benchmark.over_scorings(table, np.array([0.0, 1, 2, 2, 3, 4])).tolist() == [1, 2, 3]


def test_scores_of_the_plan_are_those_that_are_made(setup, monkeypatch) -> None:
    made = {}
    monkeypatch.setattr(
        "paredown.reproduce.setup.score_all",
        lambda source, *, metrics, **_: {
            metric: Scores(np.arange(len(source.ids), dtype=float), source.ids, metric) for metric in metrics
        },
    )
    for name, (scoring, metric) in benchmark._places(setup).items():
        scored = setup.score(scoring)
        made[name] = scored.file
        assert len(scored[metric]) == 600
    probes = benchmark.benchmark_sweep(setup)["probe"]
    assert {name: Path(probe["scores"]) for name, probe in probes.items()} == {
        name: made[name] for name in COMPARED_METRICS
    }


def test_accuracies_are_compared_seed_by_seed(setup) -> None:
    config = benchmark.benchmark_sweep(setup, balance=[0.5])
    table = FigureTable()
    add_accuracies(table, swept(config, known_error), top=1, balance=0.5)
    full = table.where(kind="full").rows[0]
    assert full["accuracy"] == pytest.approx(1 - 0.1 - np.mean(NOISE[:2]))
    assert full["deviation"] == pytest.approx(np.std(NOISE[:2], ddof=1))
    row = table.where(kind="metric", metric="ddd", keep_fraction=0.6).rows[0]
    worse = 0.001 * COMPARED_METRICS.index("ddd")
    assert row["difference"] == pytest.approx(0.05 * 0.4 - worse + 0.01)
    assert row["full_difference"] == pytest.approx(-0.05 * 0.4 - worse + 0.01)
    assert row["stderr"] == pytest.approx(np.std(NOISE[:2], ddof=1) / np.sqrt(2))
    assert row["difference_stderr"] == pytest.approx(0, abs=1e-12)  # the noise of a seed is in both
    over = table.where(kind="mean", metric="ddd").rows[0]
    assert over["difference"] == pytest.approx(0.05 * 0.3 - worse + 0.01)  # 0.8 and 0.6 on average
    table = FigureTable()
    add_accuracies(table, swept(config, known_error), top=5, balance=0.5)
    assert table.where(kind="full").rows[0]["accuracy"] == pytest.approx(0.95)


# --- figures of trained students -----------------------------------------------------------------------------------


def test_fig5bc_verdicts_follow_the_accuracies(setup, monkeypatch) -> None:
    table = measured("fig5bc", setup, monkeypatch)
    ahead = table.where(kind="prototypes - memorization").rows
    assert [row["difference"] for row in ahead] == pytest.approx([-0.002, -0.002])
    assert verdicts("fig5bc", table) == [None] * 4  # two seeds decide nothing
    # Metrics lose 0.05 * 0.2 + 0.001 * number - 0.01 to everything: five of ten less than half a point, one just that.
    table = with_seeds(table)
    assert verdicts("fig5bc", table) == [None, True, True, False]
    table = FigureTable(
        row | {"full_difference": row["full_difference"] - 0.0005} if "full_difference" in row else row
        for row in table.rows
    )
    assert verdicts("fig5bc", table) == [True, True, True, False]
    few = change(table, {"kind": "seed", "keep_fraction": 0.8}, full_difference=0.0)
    assert verdicts("fig5bc", with_seeds(few)) == [False, True, True, True]
    for name in SUPERVISED:
        table = change(table, {"kind": "seed", "metric": name}, difference=-0.01)
    assert verdicts("fig5bc", with_seeds(table))[1] is False
    behind = {"kind": "prototypes - memorization by seed", "keep_fraction": 0.8}
    assert verdicts("fig5bc", with_seeds(change(table, behind, difference=-0.01)))[2] is False


def test_noise_is_left_out_of_claims_about_metrics(setup, monkeypatch) -> None:
    table = with_seeds(measured("fig5bc", setup, monkeypatch))
    table.add("reliability", data=table.values("data")[0], metric="prototypes", reliability=0.1)
    claims = import_module("paredown.reproduce.figures.fig5bc").judge(table)
    assert len(claims[1].numbers) == len(COMPARED_METRICS) - 1
    assert "Left out as noise (reliability below 0.3): self-supervised prototypes." in claims[1].evidence


def test_the_floor_is_worth_what_it_adds(setup, monkeypatch) -> None:
    table = measured("fig_unbalanced", setup, monkeypatch)
    assert table.where(kind="floor")["gain"] == pytest.approx(0.01)
    assert len(table.where(kind="floor")) == 2 * len(COMPARED_METRICS)
    assert set(table.where(kind="metric")["balance"]) == {0.0}
    acting = {row["keep_fraction"]: row["acts"] for row in table.where(kind="floor").rows}
    assert acting == {0.8: 0, 0.6: 1}
    over = table.where(kind="floor, where it acts").rows[0]
    assert (over["acts"], over["gain"]) == (len(COMPARED_METRICS), pytest.approx(0.01))
    table = with_seeds(table)
    assert verdicts("fig_unbalanced", table) == [True]
    worse = with_seeds(change(table, {"kind": "floor by seed"}, gain=-0.01))
    assert verdicts("fig_unbalanced", worse) == [False]
    nowhere = import_module("paredown.reproduce.figures.fig_unbalanced").judge(
        change(table, {"kind": "floor, where it acts"}, acts=0)
    )
    assert [claim.verdict for claim in nowhere] == [ClaimVerdict.NOT_TESTABLE]


def test_the_worst_classes_are_found(setup, monkeypatch) -> None:
    def table_of(config: dict[str, Any]) -> pa.Table:
        rows = swept(config, known_error).to_pylist()
        for row in rows:  # class 0 is the worst, and loses two points more than the others to any pruning
            row["class_accuracy"][0] -= 0.3 + 0.02 * (row["keep_fraction"] < 1)
        return pa.Table.from_pylist(rows)

    figure = import_module("paredown.reproduce.figures.fig_fairness")
    monkeypatch.setattr(benchmark, "score_benchmark", lambda *_: {})
    monkeypatch.setattr(Setup, "sweep", lambda _, config: SimpleNamespace(table=table_of(config)))
    table = figure.measure(setup)
    row = table.where(kind="metric", metric="memorization").rows[0]
    assert row["worst_classes"] == 1
    assert row["worst_less_rest"] == pytest.approx(-0.02)
    change_of_all = -(0.05 * 0.2 + 0.001 * COMPARED_METRICS.index("memorization") - 0.01)
    assert row["mean_change"] == pytest.approx(change_of_all - 0.02 / CLASSES)
    dots = table.where(kind="class", metric="memorization")
    slope, intercept = np.polyfit(dots["pruned"], dots["full"], 1)
    assert (row["slope"], row["intercept"]) == (pytest.approx(slope), pytest.approx(intercept))
    table = with_seeds(change(table, {"kind": "seed"}, correlation=0.97))
    other = {"kind": "seed", "metric": "prototypes"}
    assert verdicts("fig_fairness", table) == [True, True, True]
    assert verdicts("fig_fairness", with_seeds(change(table, other, correlation=0.5))) == [False, True, True]
    assert verdicts("fig_fairness", with_seeds(change(table, other, size_of_change=0.03))) == [True, False, True]
    assert verdicts("fig_fairness", with_seeds(change(table, other, worst_less_rest=0.01))) == [True, True, False]


def test_k_matters_where_it_does(setup, monkeypatch) -> None:
    def error(run: Any) -> float:
        return known_error(run) + {"k1": 0.05, "k100": 0.001}.get(run.metric, 0.0)

    table = measured("tab_k", setup, monkeypatch, error)
    assert table.where(kind="k")["change"] == pytest.approx([-0.05, 0, -0.001])
    assert table.where(kind="k")["difference"] == pytest.approx([-0.04, 0.01, 0.009])
    table = with_seeds(table)
    assert verdicts("tab_k", table) == [True, True]
    far = with_seeds(change(table, {"kind": "seed", "k": 100}, change=0.02))
    assert verdicts("tab_k", far) == [False, False]


# --- figures of scores ---------------------------------------------------------------------------------------------


@pytest.fixture
def scores(rng) -> dict[str, Scores]:
    """600 scores by each metric in four classes; the class is worth more the later the metric comes."""
    labels = Labels.of(np.arange(600) % CLASSES)
    easy = {"random": rng.random(600)}
    easy |= {name: rng.random(600) + 0.3 * number * labels.codes for number, name in enumerate(COMPARED_METRICS)}
    return {name: Scores(values, np.arange(600), name, labels) for name, values in easy.items()}


def scored(name: str, setup: Setup, scores: dict[str, Scores], monkeypatch: pytest.MonkeyPatch) -> FigureTable:
    figure = import_module(f"paredown.reproduce.figures.{name}")
    monkeypatch.setattr(benchmark, "score_benchmark", lambda *_: scores)
    monkeypatch.setattr(benchmark, "mixed_scoring", lambda *_: None)
    return figure.measure(setup)


def test_fig5a_leaves_noise_out(setup, scores, monkeypatch) -> None:
    scores["ddd"].provenance["report"] = {"models": 10, "split_half": 0.8, "reliability": 0.89}
    table = scored("fig5a", setup, scores, monkeypatch)
    assert table.where(kind="metric", metric="ddd").rows[0]["reliability"] == 0.89
    pair = table.where(kind="correlation", metric="ddd", other="memorization").rows[0]
    expected = np.array(spearmanr(scores["ddd"].values, scores["memorization"].values))[0]
    assert pair["spearman"] == pytest.approx(expected)
    parts = [row["seed"] for row in table.where(kind="part", metric="ddd", other="memorization").rows]
    assert parts == list(range(benchmark.PARTS))

    def over_parts(value: float, trio: float | None = None) -> FigureTable:
        """All correlations as given, those of the paper's three too if they have a value of their own."""
        three = ("el2n_20", "ddd", "memorization")
        rows = []
        for row in table.rows:
            if row["kind"] == "part":
                own = trio if trio is not None and {row["metric"], row["other"]} <= set(three) else value
                row = row | {"spearman": own + 0.01 * (row["seed"] % 3 - 1)}
            rows.append(row)
        return FigureTable(rows)

    assert verdicts("fig5a", over_parts(0.9)) == [True, False]
    assert verdicts("fig5a", over_parts(0.2)) == [False, True]
    assert verdicts("fig5a", over_parts(0.2, trio=0.9)) == [True, True]
    noise = change(over_parts(0.9), {"kind": "metric", "metric": "prototypes"}, reliability=0.1)
    diverse = import_module("paredown.reproduce.figures.fig5a").judge(noise)[1]
    assert diverse.values["pairs"] == 33  # nine metrics have 36, three of them are the paper's trio
    assert diverse.values["noise"] == ["prototypes"]
    noise = change(over_parts(0.9), {"kind": "metric", "metric": "ddd"}, reliability=0.1)
    alike = import_module("paredown.reproduce.figures.fig5a").judge(noise)[0]
    assert alike.verdict is ClaimVerdict.NOT_TESTABLE


def test_fig5a_has_a_claim_of_its_own_on_ddd_of_several_families(setup, scores, monkeypatch) -> None:
    scores[benchmark.MIXED] = replace(scores["ddd"], metric="ddd")
    table = scored("fig5a", setup, scores, monkeypatch)
    assert table.where(kind="correlation", metric="ddd", other=benchmark.MIXED).rows[0]["spearman"] == pytest.approx(1)

    def with_mixed(value: float) -> list[bool | None]:
        rows = [
            row | {"spearman": (value if benchmark.MIXED in (row["metric"], row["other"]) else 0.9) + jitter(row)}
            if row["kind"] == "part"
            else row
            for row in table.rows
        ]
        return verdicts("fig5a", FigureTable(rows))

    jitter = lambda row: 0.01 * (row["seed"] % 3 - 1)
    assert with_mixed(0.9) == [True, True, False]
    assert with_mixed(0.4) == [True, False, False]  # and neither of the other claims is about it
    claims = import_module("paredown.reproduce.figures.fig5a").judge(table)
    assert [row["point"] for row in claims[1].numbers] == [
        "EL2N (20 models) and DDD (mixed families)",
        "memorization and DDD (mixed families)",
    ]
    assert claims[2].values["pairs"] == 42  # of ten metrics, without the trio's three


def test_families_are_mixed_below_the_papers_size(tmp_path) -> None:
    figure = import_module("paredown.reproduce.figures.fig5a")
    cpu, paper = (
        figure.plan(Setup(size, 0, tmp_path, {"main": benchmark.NEEDS["main"][size][:1]}, rehearsal=True))
        for size in ("cpu", "paper")
    )
    mixed = [scoring for name, scoring in cpu.scorings.items() if name.startswith("mixed")]
    assert [scoring.repeat for scoring in mixed] == [0, 1, 2, 3, 4, 5]
    assert all(scoring.options["mixed"] and scoring.options["members"] == 6 for scoring in mixed)
    assert not any(scoring.options.get("mixed") for scoring in paper.scorings.values())


def test_balance_is_that_of_the_kept(setup, scores, monkeypatch) -> None:
    table = scored("fig_imbalance", setup, scores, monkeypatch)
    row = table.where(kind="metric", metric="ddd", strategy="easy", floor=0.5, pruned=0.7).rows[0]
    labels = scores["ddd"].labels
    assert labels is not None
    kept = select(scores["ddd"].values, keep_fraction=0.3, strategy="easy", labels=labels.codes, balance=0.5)
    assert row["b"] == pytest.approx(balance_score(labels.codes[kept.keep]))
    assert (table.where(kind="metric", floor=0.5)["smallest_share"] >= 0.5).all()
    assert (table.where(kind="metric", pruned=0.0)["b"] == 1).all()
    about = table.where(kind="data").rows[0]
    assert about["b"] == 1
    assert about["lowest_with_floor"] <= table.where(kind="metric", floor=0.5)["b"].min()
    assert verdicts("fig_imbalance", table)[0] is not True  # the first metric knows no classes
    known = [row for row in table.rows if row["kind"] != "part" or row["metric"] != COMPARED_METRICS[0]]
    parts = [row for row in known if row["kind"] == "part"]
    assert {row["seed"] for row in parts} == set(range(benchmark.PARTS))

    def parts_with(less: float, held: float) -> FigureTable:
        changed = [
            row
            | {"less": less + 0.01 * (row["seed"] % 3), "b": (held if row["floor"] else 0.3) + 0.01 * (row["seed"] % 3)}
            for row in table.rows
            if row["kind"] == "part"
        ]
        changed = [row | {"b": row["b"] + 0.002 * row["seed"] * (row["floor"] > 0)} for row in changed]
        return FigureTable([*(row for row in table.rows if row["kind"] != "part"), *changed])

    assert verdicts("fig_imbalance", parts_with(-0.2, 0.6)) == [True, True]
    assert verdicts("fig_imbalance", parts_with(0.2, 0.1)) == [False, False]
    # An arm is judged by its own rows.
    other = [row | {"data": "other"} for row in parts_with(0.2, 0.1).rows]
    both = FigureTable([*parts_with(-0.2, 0.6).rows, *other])
    assert verdicts("fig_imbalance", both) == [True, True, False, False]


def test_on_a_long_tail_balance_is_compared_with_that_of_random_subsets(setup, rng, monkeypatch) -> None:
    """Scores that know the classes: the rare ones are hard, so that keeping the hard ones makes classes more equal."""
    codes = np.repeat(np.arange(CLASSES), (300, 160, 90, 50))
    labels = Labels.of(codes)
    values = {"random": rng.random(600)} | {name: rng.random(600) + 0.08 * codes for name in COMPARED_METRICS}
    tailed = {name: Scores(value, np.arange(600), name, labels) for name, value in values.items()}
    table = scored("fig_imbalance", setup, tailed, monkeypatch)
    about = table.where(kind="data").rows[0]
    assert about["b"] == pytest.approx(balance_of_counts(np.array([300, 160, 90, 50])))
    lowest = table.where(kind="metric", floor=0.5)["b"].min()
    assert about["lowest_with_floor"] <= lowest
    at = table.where(kind="metric", metric="ddd", pruned=0.8)
    hard, easy = (at.where(strategy=end, floor=0.0).rows[0] for end in ("hard", "easy"))
    chance = table.where(kind="random", pruned=0.8).rows[0]["b"]
    assert hard["b"] - 0.2 > about["b"] > easy["b"] + 0.1
    assert easy["smallest_share"] < 0.5 <= at.where(strategy="easy", floor=0.5).rows[0]["smallest_share"]
    assert abs(chance - about["b"]) < 0.06
    signs = {"hard": 1, "easy": -1}
    steady = [
        row
        | {"less": 0.2 * signs[row["strategy"]] + 0.01 * (row["seed"] % 3), "b": 0.3 + 0.01 * (row["seed"] % 3)}
        | ({"b": 0.6 + 0.02 * (row["seed"] % 3)} if row["floor"] else {})
        for row in table.where(kind="part").rows
    ]
    rest = [row for row in table.rows if row["kind"] != "part"]
    amplified, limited = import_module("paredown.reproduce.figures.fig_imbalance").judge(FigureTable(rest + steady))
    assert amplified.verdict is ClaimVerdict.CONTRADICTED  # not from the hard end
    assert limited.verdict is ClaimVerdict.HELD
    acts = 0
    for name, end in product(COMPARED_METRICS, ("hard", "easy")):
        kept = select(tailed[name].values, keep_fraction=0.2, strategy=end, balance=0.0).keep
        acts += bool((np.bincount(codes[kept], minlength=CLASSES) < 0.1 * labels.counts).any())
    assert f"The floor acts in {acts} of 20 ways" in limited.evidence
    assert 10 <= acts < 20


def test_the_lowest_balance_of_two_and_three_classes() -> None:
    assert lowest_balance(2, 0.25) == pytest.approx(1 / 3, abs=1e-6)  # one has a quarter, the other the rest
    grid = np.linspace(1 / 6, 1, 400)
    first, second = np.meshgrid(grid, grid)
    third = 1 - first - second
    allowed = third >= 1 / 6
    three = np.stack([first[allowed], second[allowed], third[allowed]], axis=1)
    lowest = min(balance_of_counts(row) for row in three)
    assert lowest_balance(3, 1 / 6) == pytest.approx(lowest, abs=1e-3)
    assert lowest_balance(3, 1 / 6) <= lowest
    assert lowest_balance(1, 1.0) == 1
    assert np.isnan(lowest_balance(1000, 1e-3))


def test_variance_between_classes(setup, scores, monkeypatch) -> None:
    codes = np.array([0, 0, 1, 1])
    assert variance_between(np.array([0.0, 2, 4, 6]), codes) == pytest.approx(16 / 20)
    assert variance_between(np.ones(4), codes) == 0
    table = scored("fig_histograms", setup, scores, monkeypatch)
    shares = table.where(kind="histogram", metric="prototypes").grid("share", "name", "rank")
    np.testing.assert_allclose(shares.sum(axis=1), 1)
    strongest = table.where(kind="metric", metric=COMPARED_METRICS[-1]).rows[0]
    assert (strongest["least_above_median"], strongest["most_above_median"]) == (0, 1)
    assert strongest["between_classes"] > 0.9
    assert verdicts("fig_histograms", table)[0] is not True  # the first metric knows no classes
    first = {"kind": "metric", "metric": COMPARED_METRICS[0]}
    known = change(table, first, reliability=0.1)

    def with_parts(share: float, spread: float) -> list[bool | None]:
        parts = [
            row | {"between_classes": share + spread * (row["seed"] % 3)} if row["kind"] == "part" else row
            for row in known.rows
        ]
        return verdicts("fig_histograms", FigureTable(parts))

    assert with_parts(0.1, 0.002) == [True]
    assert with_parts(0.001, 0.002) == [False]
    assert with_parts(0.1, 0.03) == [None]  # with this noise, three per cent would not be seen


def test_what_classes_explain_by_chance_is_taken_off(rng) -> None:
    codes = np.arange(60) % 6
    chance = [(variance_between(v, codes), variance_explained(v, codes)) for v in rng.standard_normal((400, 60))]
    raw, corrected = np.mean(chance, axis=0)
    assert raw == pytest.approx(5 / 59, abs=0.01)
    assert corrected == pytest.approx(0, abs=0.01)
    values = codes + 0.001 * rng.standard_normal(60)
    assert variance_explained(values, codes) == pytest.approx(1, abs=1e-4)
