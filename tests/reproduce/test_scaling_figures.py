"""Figures on real data: what they are made from, rehearsals, and verdicts that follow from known laws."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import load_digits

from paredown.errors import PareError
from paredown.reproduce import FIGURES, FigureTable, Setup, rehearse_figures
from paredown.reproduce.data_folders import find_dataset
from paredown.reproduce.figures import (
    fig1d,
    fig_frontier_practice,
    fig_noise,
    fig_probe_strength,
    tab_duration,
    tab_ensembles,
)
from paredown.reproduce.rehearsal import network_cost, rehearse
from paredown.reproduce.scaling import add_laws, judge_exponents, judge_frontier, judge_level, scaling_sweep
from paredown.reproduce.setup import FigurePlan
from paredown.sources import open_source
from paredown.training import find_recipe

# --- data ----------------------------------------------------------------------------------------------------------


def test_the_digits_are_those_of_scikit_learn(tmp_path: Path) -> None:
    data = find_dataset(["digits"], None, tmp_path)
    pixels, labels = load_digits(return_X_y=True)
    found = [open_source(data.location, split=split) for split in ("train", "test")]
    assert [len(part) for part in found] == [data.examples, 500]
    features = data.features()
    rows = np.concatenate([np.load(features["source"]), np.load(features["test"])])
    codes = np.concatenate([np.load(features["labels"]), np.load(features["test_labels"])])
    expected = np.minimum(pixels * 16, 255).astype(np.uint8) / np.float32(255)
    order, known = np.lexsort(rows.T), np.lexsort(expected.T)
    np.testing.assert_allclose(rows[order], expected[known], atol=1e-6)
    assert np.bincount(codes).tolist() == np.bincount(labels).tolist()


def test_a_part_of_a_data_set_knows_its_rows(tmp_path: Path) -> None:
    setup = Setup("tiny", 0, tmp_path, {"main": ("digits",)})
    whole, part = setup.dataset(), setup.dataset(limit=300)
    rows = part.rows()
    assert len(np.unique(rows)) == part.examples == 300
    np.testing.assert_array_equal(np.load(part.features()["source"]), np.load(whole.features()["source"])[rows])
    np.testing.assert_array_equal(np.load(part.features()["labels"]), np.load(whole.features()["labels"])[rows])
    assert setup.dataset(limit=10_000) == whole


def test_the_best_data_set_that_is_there_is_taken(tmp_path: Path) -> None:
    (tmp_path / "given" / "mnist").mkdir(parents=True)
    assert find_dataset(["mnist", "digits"], tmp_path / "given", tmp_path).name == "mnist"
    assert find_dataset(["mnist", "digits"], None, tmp_path).name == "digits"
    with pytest.raises(PareError, match=r"needs a folder of data sets \(--data\).*svhn \(SVHN\)"):
        find_dataset(["svhn"], None, tmp_path)


# --- rehearsals ----------------------------------------------------------------------------------------------------


def test_a_rehearsal_counts_the_work(tmp_path: Path) -> None:
    setup = Setup("cpu", 0, tmp_path, {"main": ("mnist",)}, rehearsal=True)
    data = setup.dataset()
    config = scaling_sweep(setup, strategy=["hard", "easy"])
    students, probes = rehearse(FigurePlan(sweeps={"s": config}, datasets=(data,)))
    assert students.trainings == 4 * 4 * (3 * 3 + 1)  # sizes, seeds, and hard, easy and random of three fractions
    assert probes.trainings == 4 * 4 * 3
    layers = [784, 128, 128, 10]
    products = sum(a * b for a, b in pairwise(layers))
    assert network_cost(find_recipe("mlp"), data).flops == 2 * products
    assert students.weights == products + sum(layers[1:])
    assert students.flops == pytest.approx(3 * 2 * products * 128 * 1500 * students.trainings)


def test_a_rehearsal_finds_what_would_not_run(tmp_path: Path) -> None:
    setup = Setup("cpu", 0, tmp_path, {"main": ("mnist",)}, rehearsal=True)
    data = setup.dataset()
    with pytest.raises(PareError, match=r"initial sets of 70,000, and MNIST has 60,000"):
        rehearse(FigurePlan(sweeps={"s": scaling_sweep(setup, initial_size=[70_000])}, datasets=(data,)))
    with pytest.raises(PareError, match="unknown metric 'el3n'"):
        rehearse(FigurePlan(sweeps={"s": scaling_sweep(setup, metric=["el3n"])}, datasets=(data,)))


@pytest.mark.parametrize("size", ["paper", "cpu", "tiny"])
def test_every_figure_passes_its_rehearsal(size: str) -> None:
    rehearsed = rehearse_figures(FIGURES, size=size)
    assert "fig1d" in rehearsed
    assert "fig1a" not in rehearsed
    assert all(part.trainings > 0 and part.weights > 0 for parts in rehearsed.values() for part in parts)


# --- laws of made-up sweeps ----------------------------------------------------------------------------------------


def made_up(pruned: Any, *, noise: float = 0.01, seeds: int = 4, label: str = "hard") -> pa.Table:
    """A sweep whose random subsets have error 2 n^-0.4 and whose pruned ones `pruned(n, f)`."""
    rng = np.random.default_rng(0)
    rows = []
    for initial in (1000, 4000, 16_000, 64_000):
        for fraction in (0.25, 0.5, 1.0):
            kept = round(initial * fraction)
            for seed in range(seeds):
                base = {"initial_size": initial, "keep_fraction": fraction, "matched_iterations": 1.0, "balance": 0.0}
                base |= {"seed": seed, "kept": kept, "status": "done"}
                error = 2 * kept**-0.4 * np.exp(noise * rng.standard_normal())
                rows.append({**base, "metric": "random", "strategy": "random", "test_error": error})
                if fraction < 1:
                    error = pruned(kept, fraction) * np.exp(noise * rng.standard_normal())
                    rows.append({**base, "metric": "el2n", "strategy": label, "test_error": error})
    return pa.Table.from_pylist(rows)


def laws_of(pruned: Any, **options: Any) -> FigureTable:
    table = FigureTable()
    add_laws(table, made_up(pruned, **options), "made up")
    return table


def test_equal_exponents_and_a_lower_level_are_found() -> None:
    table = laws_of(lambda n, f: 2 * (0.5 + 0.5 * f) * n**-0.4, noise=0.03)
    exponents = table.where(kind="exponent")
    np.testing.assert_allclose(exponents["nu"], 0.4, atol=0.02)
    assert judge_exponents(table).held
    assert judge_level(table).held
    frontier = table.where(kind="frontier")
    assert set(frontier["keep_fraction"][frontier["kept"] <= 16_000]) <= {0.25, 0.5}
    assert not judge_frontier(table).held  # shifted power laws are power laws


def test_pruning_that_hurts_is_not_on_the_frontier() -> None:
    table = laws_of(lambda n, f: 3 * n**-0.3)
    assert not judge_exponents(table).held
    assert not judge_level(table).held
    np.testing.assert_array_equal(table.where(kind="frontier")["keep_fraction"], 1.0)


def test_a_frontier_that_falls_exponentially_beats_the_power_law() -> None:
    table = laws_of(lambda n, f: 0.1 * np.exp(-n / 4000) if f == 0.25 else 2 * n**-0.4, noise=0.005)
    assert judge_frontier(table).held
    laws = {row["law"]: row["aicc"] for row in table.where(kind="law").rows}
    assert laws["exponential"] < laws["power"]
    better = fig_frontier_practice.judge(table)[0]
    assert better.held == (min(laws["power"], laws["power with asymptote"]) >= 6)


# --- verdicts on hand-made tables ----------------------------------------------------------------------------------


@pytest.mark.parametrize(("small", "large", "held"), [(4, -5, True), (4, -1, False), (-4, -5, False)])
def test_fig1d_wants_both_signs(small: float, large: float, held: bool) -> None:
    table = FigureTable()
    for strategy in ("hard", "easy"):
        z = np.array([small, large]) if strategy == "hard" else np.array([5.0, 5.0])
        table.add(
            "difference",
            data="made up",
            strategy=strategy,
            keep_fraction=0.25,
            initial_size=np.array([100, 1000]),
            difference=0.01 * z,
            z=z,
        )
    first, second = fig1d.judge(table)
    assert first.held == held
    assert second.held


@pytest.mark.parametrize(
    ("gains", "held"), [([-0.01, -0.02], (True, False, True)), ([-0.02, 0.01], (True, True, False))]
)
def test_a_probe_stops_paying_where_its_gain_turns(gains: list[float], held: tuple[bool, ...]) -> None:
    table = FigureTable()
    for probe in ("random", "weak", "strong"):
        table.add(
            "error",
            data="made up",
            probe=probe,
            initial_size=1000,
            keep_fraction=np.array([0.5, 0.25]),
            difference=np.array(gains),
        )
    table.add("strong minus weak", initial_size=1000, keep_fraction=0.25, difference=-0.04, difference_stderr=0.01)
    assert tuple(claim.held for claim in fig_probe_strength.judge(table)) == held


def test_tab_duration_compares_with_equal_epochs() -> None:
    table = FigureTable()
    factors = np.array([0.0, 0.4, 1.0])
    table.add(
        "accuracy",
        data="made up",
        examples="prototypes",
        matched_iterations=factors,
        accuracy=0.9 + 0.01 * factors,
        stderr=0.001,
        gain=0.01 * factors,
        gain_stderr=0.001,
        seeds=4,
    )
    longer, enough = tab_duration.judge(table)
    assert longer.held
    assert not enough.held  # 0.6 points short, with a standard error of 0.14


def test_tab_ensembles_wants_no_difference() -> None:
    def of(gain: float) -> FigureTable:
        table = FigureTable()
        names = [*tab_ensembles.SINGLES, "ensemble"]
        gains = np.array([0.0] * len(tab_ensembles.SINGLES) + [gain])
        table.add("accuracy", data="x", examples=names, keep_fraction=0.8, gain=gains, gain_stderr=0.001)
        return table

    assert tab_ensembles.judge(of(0.002))[0].held
    assert not tab_ensembles.judge(of(0.02))[0].held


def test_fig_noise_wants_a_loss_and_the_verdict_of_the_sweep() -> None:
    table = FigureTable()
    table.add(
        "difference",
        data="made up",
        label_noise=np.array([0.0, 0.2]),
        strategy="hard",
        keep_fraction=0.5,
        difference=np.array([-0.01, 0.05]),
        z=np.array([-4.0, 9.0]),
    )
    table.add("advice", label_noise=0.2, strategy="hard", verdict="hurts", sentence="What a sweep says.")
    assert [claim.held for claim in fig_noise.judge(table)] == [True, True]
    table.rows[0]["z"] = 5.0
    assert [claim.held for claim in fig_noise.judge(table)] == [False, True]
    table.rows[-1]["verdict"] = "undecided"
    assert [claim.held for claim in fig_noise.judge(table)] == [False, False]
    assert fig_noise.judge(table)[1].values["advice"] == ["What a sweep says."]
