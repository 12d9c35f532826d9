"""Figures on real data: what they are made from, rehearsals, and verdicts that follow from known laws."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from sklearn.datasets import load_digits

from paredown.errors import PareError
from paredown.laws import ClaimVerdict, better_than, equivalent_to
from paredown.laws.calibration import Strength, Weakness
from paredown.reproduce import FIGURES, Claim, FigureTable, Setup, rehearse_figures
from paredown.reproduce.data_folders import find_dataset
from paredown.reproduce.figures import (
    fig1d,
    fig3,
    fig_noise,
    fig_probe_strength,
    fig_scaling_more,
    tab_duration,
    tab_ensembles,
)
from paredown.reproduce.judging import judge_points, strength_sentence
from paredown.reproduce.rehearsal import network_cost, rehearse
from paredown.reproduce.runner import _needs
from paredown.reproduce.scaling import (
    add_laws,
    judge_exponential,
    judge_exponents,
    judge_frontier,
    judge_level,
    merge_sizes,
    scaling_sweep,
)
from paredown.reproduce.setup import FigurePlan
from paredown.sources import open_source
from paredown.sweeps import expand, read_settings
from paredown.sweeps.settings import Settings
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


def made_up(pruned: Any, *, noise: float = 0.01, seeds: int = 4, label: str = "hard", **way: Any) -> pa.Table:
    """A sweep whose random subsets have error 2 n^-0.4 and whose pruned ones `pruned(n, f)`."""
    rng = np.random.default_rng(0)
    rows = []
    for initial in (1000, 2000, 4000, 8000, 16_000, 32_000, 64_000):
        for fraction in (0.25, 0.5, 1.0):
            kept = round(initial * fraction)
            for seed in range(seeds):
                base = {"initial_size": initial, "keep_fraction": fraction, "matched_iterations": 1.0, "balance": 0.0}
                base |= {"seed": seed, "kept": kept, "status": "done"}
                error = 2 * kept**-0.4 * np.exp(noise * rng.standard_normal())
                rows.append({**base, "metric": "random", "strategy": "random", "test_error": error})
                if fraction < 1:
                    error = pruned(kept, fraction) * np.exp(noise * rng.standard_normal())
                    rows.append({**base, "metric": "el2n", "strategy": label, "test_error": error, **way})
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
    assert not judge_frontier(table).held  # shifted power laws are not steeper


def test_every_way_of_pruning_is_judged_by_its_own_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only memorization helps, and falls exponentially; a table without it, as at `paper`, has one panel fewer."""
    setup = Setup("cpu", 0, tmp_path, {"main": ("digits",)}, rehearsal=True)
    planned = fig_scaling_more.plan(setup).sweeps["memorization"]
    assert planned["probe"]["memorization"] == {"metric": "memorization", "members": 10}
    assert planned["grid"]["initial_size"] == fig_scaling_more.plan(setup).sweeps["el2n"]["grid"]["initial_size"]
    paper = Setup("paper", 0, tmp_path, {"main": ("imagenet",)}, rehearsal=True)
    assert "memorization" not in fig_scaling_more.plan(paper).sweeps

    def sweep(_: Setup, config: dict[str, Any]) -> SimpleNamespace:
        (metric,) = config["grid"]["metric"]
        helps = {"memorization": lambda n, f: (0.1 if f == 0.5 else 0.12) * np.exp(-n / 4000)}
        ways = [
            made_up(helps.get(metric, lambda n, f: 3 * n**-0.3), noise=0.005, metric=metric, balance=balance)
            for balance in config["grid"]["balance"]
        ]
        return SimpleNamespace(table=pa.concat_tables(ways))

    monkeypatch.setattr(Setup, "sweep", sweep)
    table = fig_scaling_more.measure(setup)
    claims = fig_scaling_more.judge(table)
    levels, slopes = claims[:4], claims[4:]
    assert ["memorization" in claim.claim for claim in levels] == [False, False, False, True]
    assert [claim.verdict for claim in levels] == [CONTRADICTED] * 3 + [ClaimVerdict.HELD]
    assert [claim.verdict for claim in slopes] == [NOT_TESTABLE] * 3 + [ClaimVerdict.HELD]
    assert [claim.counted_in for claim in levels] == ["fig3", "", "", ""]
    without = FigureTable(row for row in table.rows if row["metric"] != "memorization")
    assert len(fig_scaling_more.judge(without)) == 6
    fig_scaling_more.draw(without, tmp_path / "drawn.png")


def test_pruning_that_hurts_is_not_on_the_frontier() -> None:
    table = laws_of(lambda n, f: 3 * n**-0.3)
    assert judge_exponents(table).verdict is NOT_TESTABLE  # no size is past the crossing
    assert judge_level(table).verdict is CONTRADICTED
    assert judge_frontier(table).verdict is NOT_TESTABLE
    np.testing.assert_array_equal(table.where(kind="frontier")["keep_fraction"], 1.0)


def test_a_frontier_that_falls_exponentially_is_steeper() -> None:
    table = laws_of(lambda n, f: (0.1 if f == 0.5 else 0.12) * np.exp(-n / 4000), noise=0.005)
    claim = judge_frontier(table)
    assert claim.held
    assert claim.values["on_theory"] >= 0.8
    assert claim.strength is not None
    assert claim.strength.power >= 0.8
    assert claim.strength.false_alarms <= 0.08  # 5 % of 300
    assert judge_exponential(table).held
    power_law = laws_of(lambda n, f: (1.0 if f == 0.5 else 1.2) * n**-0.4, noise=0.005)
    assert judge_exponential(power_law).verdict is CONTRADICTED
    noisy = judge_exponential(laws_of(lambda n, f: (1.0 if f == 0.5 else 1.2) * n**-0.4, noise=0.1))
    assert noisy.verdict is CANNOT_TELL
    assert noisy.strength is not None
    assert noisy.strength.power < 0.8


def test_equal_exponents_name_the_fractions_that_they_are_about() -> None:
    """A quarter pays only at the largest sizes: too few to judge, so that the claim is about the half alone."""
    claim = judge_exponents(laws_of(lambda n, f: 2 * (0.7 if f == 0.5 or n > 12_000 else 1.5) * n**-0.4, noise=0.02))
    assert claim.claim.startswith("made up, el2n: at keep_fraction 0.5 error falls")
    assert "fewer than three sizes past the crossing: 0.25 (1)" in claim.evidence
    assert claim.held


def test_equal_exponents_that_differ_are_contradicted_and_noise_decides_nothing() -> None:
    steeper = judge_exponents(laws_of(lambda n, f: 30 * n**-0.8, noise=0.02))
    assert steeper.verdict is CONTRADICTED
    assert steeper.strength is not None
    assert steeper.strength.power >= 0.8
    assert steeper.strength.false_alarms <= 0.08
    noisy = judge_exponents(laws_of(lambda n, f: 1.4 * n**-0.4, noise=0.2))
    assert noisy.verdict is CANNOT_TELL


def test_sizes_that_differ_by_rounding_are_one() -> None:
    assert merge_sizes([468, 469, 937, 938, 1875, 468]).tolist() == [468, 468, 937, 937, 1875, 468]


# --- claims from findings ------------------------------------------------------------------------------------------

SPREAD = np.array([-1.0, 1.0, -1.0, 1.0, 0.5])


def test_a_claim_has_its_numbers_and_its_strength() -> None:
    found = {"a": better_than(-0.02 + 0.001 * SPREAD, points=2), "b": better_than(-0.03 + 0.001 * SPREAD, points=2)}
    claim = judge_points("It is better.", found, rule="better than", effect=0.01, about="Errors")
    assert claim.held
    assert claim.evidence.startswith("Errors: 2 of 2 hold (b: -2.99 [")
    assert claim.rule == "better than, below 0 points, at every one of 2 points"
    assert [row["point"] for row in claim.numbers] == ["a", "b"]
    assert claim.strength is not None
    assert claim.strength.power >= 0.99
    assert claim.strength.smallest_effect < 0.01
    assert Claim.from_record(claim.record()) == claim


def test_an_undecided_claim_says_how_many_seeds_it_takes() -> None:
    claim = judge_points(
        "They are equal.", {"all": equivalent_to(0.005 * SPREAD, 0.003)}, rule="equivalent to", effect=0.003, about="x"
    )
    assert claim.verdict is CANNOT_TELL
    assert claim.strength is not None
    assert claim.strength.power < 0.8
    assert claim.strength.seeds_needed is not None
    assert f"{claim.strength.seeds_needed} seeds are needed for 0.8." in claim.evidence


@pytest.mark.parametrize(
    ("mean", "spread", "verdict", "weakness"),
    [
        (-0.05, 0.004, ClaimVerdict.HELD, None),
        (0.05, 0.004, ClaimVerdict.CONTRADICTED, None),
        (-0.05, 0.02, ClaimVerdict.CANNOT_TELL, Weakness.LITTLE_POWER),
        (0.05, 0.02, ClaimVerdict.CANNOT_TELL, Weakness.LITTLE_POWER),
        (0.0, 0.004, ClaimVerdict.CANNOT_TELL, None),
    ],
)
def test_a_rule_without_power_decides_nothing(mean, spread, verdict, weakness) -> None:
    """The effect named is one point of error, of which five seeds with a spread of two see little."""
    found = {"all": better_than(mean + spread * SPREAD)}
    claim = judge_points("It is better.", found, rule="better than", effect=0.01, about="x")
    assert (claim.verdict, claim.weakness) == (verdict, weakness)
    assert ("too weak" in claim.evidence) == (weakness is not None)
    assert claim.evidence.count("power of") == (weakness is not None)
    assert Claim.from_record(claim.record()) == claim


def test_a_rule_with_false_alarms_decides_nothing() -> None:
    found = {"all": better_than(-0.05 + 0.004 * SPREAD)}
    for alarms, repeats, held in ((0.06, 2000, True), (0.07, 2000, False), (0.07, 300, True), (0.09, 300, False)):
        strength = Strength(0.01, 1.0, alarms, 0.01, 5, 5, repeats)
        claim = judge_points("x", found, rule="better than", effect=0.01, about="x", strength=strength)
        assert claim.held == held
        assert claim.weakness is (None if held else Weakness.FALSE_ALARMS)


def test_without_points_nothing_is_testable() -> None:
    claim = judge_points("It holds everywhere.", {}, rule="above", effect=0.1, about="x", note="No metric is steady.")
    assert claim.verdict is NOT_TESTABLE
    assert claim.evidence == "x: there is no such point here. No metric is steady."


# --- verdicts on hand-made tables ----------------------------------------------------------------------------------

HELD, CONTRADICTED = ClaimVerdict.HELD, ClaimVerdict.CONTRADICTED
CANNOT_TELL, NOT_TESTABLE = ClaimVerdict.CANNOT_TELL, ClaimVerdict.NOT_TESTABLE


def by_seed(
    table: FigureTable, mean: float, spread: float = 0.001, *, column: str = "difference", **where: Any
) -> None:
    table.add_seeds("seed", columns={column: mean + spread * SPREAD}, **where)


@pytest.mark.parametrize(
    ("small", "large", "verdicts"),
    [
        (0.1, -0.02, [HELD, HELD, HELD]),
        (-0.1, -0.02, [CONTRADICTED, HELD, HELD]),
        (0.1, 0.02, [HELD, CONTRADICTED, HELD]),
        (0.0001, -0.0001, [CANNOT_TELL, CANNOT_TELL, HELD]),
    ],
)
def test_fig1d_judges_both_signs(small: float, large: float, verdicts: list[ClaimVerdict]) -> None:
    table = FigureTable()
    for size, mean in ((100, small), (1000, large)):
        by_seed(table, mean, data="made up", strategy="hard", keep_fraction=0.25, initial_size=size)
        by_seed(table, 0.1, data="made up", strategy="easy", keep_fraction=0.25, initial_size=size)
    assert [claim.verdict for claim in fig1d.judge(table)] == verdicts


def test_fig1d_judges_every_data_set_by_itself() -> None:
    """Where random subsets err on 30 %, a gain is about a twentieth of that, and not about half a point."""
    table = FigureTable()
    for data, large, error in (("digits", -0.02, 0.04), ("photos", 0.03, 0.3)):
        for size, mean in ((100, 0.1), (1000, large)):
            point = {"data": data, "keep_fraction": 0.8, "initial_size": size}
            by_seed(table, mean, **point, strategy="hard")
            by_seed(table, 0.1, **point, strategy="easy")
            random = error if size == 1000 else 0.9
            table.add("difference", **point, strategy="hard", random_error=random, unpruned_error=random - 0.01)
    claims = fig1d.judge(table)
    assert [claim.claim.partition(":")[0] for claim in claims] == ["digits"] * 3 + ["photos"] * 3
    assert [claim.verdict for claim in claims] == [HELD, HELD, HELD, HELD, CONTRADICTED, HELD]
    effects = [claim.strength.effect for claim in claims if claim.strength is not None]
    np.testing.assert_allclose(effects, [0.05, 0.005, 0.05, 0.05, 0.015, 0.05])
    assert "Everything has an error of 29.00%, random subsets 30.00% (keep_fraction 0.8)." in claims[4].evidence


@pytest.mark.parametrize(("turn", "verdicts"), [(0.2, [HELD, HELD, CONTRADICTED]), (-0.2, [HELD, CONTRADICTED, HELD])])
def test_a_probe_stops_paying_where_its_error_turns(turn: float, verdicts: list[ClaimVerdict]) -> None:
    table = FigureTable()
    table.add("error", data="made up")
    for probe, level in (("random", 0.0), ("weak", 0.0), ("strong", -0.3)):
        for fraction, further in ((0.5, 0.0), (0.25, turn)):
            spread = 0.01 if fraction == 0.5 else -0.005  # the difference of two fractions has noise of its own
            spread *= 2 if probe == "strong" else 1
            at = {"probe": probe, "initial_size": 1000, "keep_fraction": fraction}
            by_seed(table, level + further, spread, column="log_ratio", **at)
    assert [claim.verdict for claim in fig_probe_strength.judge(table)] == verdicts


def duration_table(last: float, middle: float, *, metric: str = "prototypes", data: str = "made up") -> FigureTable:
    table = FigureTable()
    for number, (factor, gain) in enumerate(((0.0, 0.0), (0.4, middle), (1.0, last))):
        where = {"data": data, "examples": metric, "matched_iterations": factor}
        gains = gain + 0.0005 * number * SPREAD
        table.add("accuracy", **where, accuracy=0.9 + gain)
        table.add_seeds("seed", **where, columns={"accuracy": 0.9 + gains, "gain": gains})
    return table


def test_tab_duration_compares_with_equal_epochs() -> None:
    def of(last: float, middle: float) -> list[ClaimVerdict]:
        return [claim.verdict for claim in tab_duration.judge(duration_table(last, middle))]

    assert of(0.01, 0.01) == [HELD, HELD]
    assert of(0.01, 0.004) == [HELD, CONTRADICTED]
    assert of(-0.01, -0.01) == [CONTRADICTED, HELD]


def test_tab_duration_has_a_wider_margin_for_convnets() -> None:
    """Six tenths of a point are too much for embeddings, and within a convnet's whole point."""
    table = duration_table(0.01, 0.004, data="embeddings")
    table.rows += duration_table(0.01, 0.004, metric="el2n", data="photos").rows
    claims = tab_duration.judge(table)
    assert [claim.claim.partition(":")[0] for claim in claims] == ["embeddings", "embeddings", "photos", "photos"]
    assert [claim.verdict for claim in claims] == [HELD, CONTRADICTED, HELD, HELD]
    (_, too_little) = tab_duration.judge(duration_table(0.03, 0.01, metric="el2n"))
    assert too_little.verdict is CONTRADICTED


# --- convnets from scratch -----------------------------------------------------------------------------------------

WITH_CONVNETS = (fig1d, fig3, tab_duration)


def needs_of(figure: Any, scale: str) -> dict[str, tuple[str, ...]]:
    return _needs(figure.__name__.rpartition(".")[2], scale)


def convnet_settings(figure: Any, setup: Setup) -> Settings:
    return read_settings(figure.plan(replace(setup, needs=needs_of(figure, setup.scale))).sweeps["pixels"])


@pytest.mark.parametrize("size", ["tiny", "cpu", "overnight"])
def test_figures_share_the_runs_of_convnets(tmp_path: Path, size: str) -> None:
    setup = Setup.at_size(size, 0, tmp_path, rehearsal=True)
    first, second, third = (convnet_settings(figure, setup) for figure in WITH_CONVNETS)
    assert first.identity() == second.identity() == third.identity()
    runs = [set(expand(settings.grid)) for settings in (first, second, third)]
    assert runs[1] < runs[0]
    assert {run for run in runs[2] if run.matched_iterations == 1} < runs[0]
    assert first.student.resolve().inputs == "images"


def test_figures_do_without_convnets_where_there_is_no_cifar10(tmp_path: Path) -> None:
    for figure in WITH_CONVNETS:
        setup = Setup("cpu", 0, tmp_path, needs_of(figure, "cpu"))
        assert "pixels" not in figure.plan(setup).sweeps
        assert len(figure.plan(setup).sweeps) >= 1


def test_tab_ensembles_wants_equivalence() -> None:
    def of(gain: float, spread: float) -> ClaimVerdict:
        table = FigureTable()
        table.add("accuracy", data="x")
        for name in (*tab_ensembles.SINGLES, "ensemble"):
            own = (gain, spread) if name == "ensemble" else (0.0, 0.0001)
            by_seed(table, *own, column="gain", examples=name, keep_fraction=0.8)
        return tab_ensembles.judge(table)[0].verdict

    assert of(0.001, 0.001) is HELD
    assert of(0.02, 0.001) is CONTRADICTED
    assert of(0.001, 0.02) is CANNOT_TELL  # no significant difference, and yet not equal


def test_fig_noise_wants_a_loss_and_the_verdict_of_the_sweep() -> None:
    def of(clean: float, said: str) -> list[ClaimVerdict]:
        table = FigureTable()
        table.add("difference", data="made up")
        for noise, mean in ((0.0, clean), (0.2, 0.05)):
            by_seed(table, mean, label_noise=noise, strategy="hard", keep_fraction=0.5)
        table.add("advice", label_noise=0.2, strategy="hard", verdict=said, sentence="What a sweep says.")
        claims = fig_noise.judge(table)
        assert claims[0].counted_in == "fig1d"
        assert claims[2].values["advice"] == ["What a sweep says."]
        return [claim.verdict for claim in claims]

    assert of(-0.01, "hurts") == [HELD, HELD, HELD]
    assert of(0.01, "undecided") == [CONTRADICTED, HELD, CANNOT_TELL]
    assert of(0.01, "pays") == [CONTRADICTED, HELD, CONTRADICTED]


def test_a_weak_rule_says_how_many_seeds_it_takes_where_that_is_known() -> None:
    def said(seeds_needed: int | None) -> str:
        strength = Strength(
            0.05, power=0.16, false_alarms=0.023, smallest_effect=0.07, seeds=4, seeds_needed=seeds_needed
        )
        return strength_sentence(strength, "in exponent").partition("; at ")[2]

    start = "0.05 in exponent the power is 0.16; false alarms 2.3 %; "
    assert said(9) == start + "9 seeds are needed for 0.8"
    assert said(4) == start + "more seeds are needed"
    assert said(None) == start + "more seeds alone do not decide it"
