"""The paper's figures: right numbers in the tables, verdicts that follow from them, and runs that can be resumed."""

from __future__ import annotations

import csv
import json
import os
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import paredown as pdn
from paredown.reproduce import FIGURES, SIZES, Claim, ClaimVerdict, FigureTable, reproduce_figures
from paredown.reproduce.theory_checks import agreement, crossing, exponent

pytestmark = pytest.mark.xdist_group("figures")  # one process makes them all, once
EMPIRICAL = [name for name in FIGURES if hasattr(import_module(f"paredown.reproduce.figures.{name}"), "NEEDS")]
EXACT = 1e-12  # the tables hold what the theory returned, digit for digit


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Every figure at the smallest size, made once."""
    out = tmp_path_factory.mktemp("figures")
    results = reproduce_figures(FIGURES, size="tiny", out=out, workers=1)
    assert [result.name for result in results] == list(FIGURES)
    assert all(result.made for result in results)
    return out


def test_one_process_makes_all_figures(request) -> None:
    """Groups of tests are marks that xdist reads, and no error tells if it does not."""
    assert "PYTEST_XDIST_WORKER" not in os.environ or request.node.nodeid.endswith("@figures")


def read(out: Path, name: str) -> FigureTable:
    """The CSV with numbers as numbers."""
    with (out / f"{name}.csv").open(newline="") as stream:
        return FigureTable(
            {key: _number(cell) for key, cell in row.items() if cell != ""} for row in csv.DictReader(stream)
        )


def _number(cell: str) -> float | str:
    try:
        return float(cell)
    except ValueError:
        return cell


def verdicts(table: FigureTable, name: str) -> list[bool]:
    return [claim.held for claim in import_module(f"paredown.reproduce.figures.{name}").judge(table)]


# --- every figure --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FIGURES)
def test_picture_data_and_verdicts_are_there(made, name) -> None:
    assert (made / f"{name}.png").read_bytes().startswith(b"\x89PNG")
    record = json.loads((made / f"{name}.json").read_text())
    assert record["settings"]["size"] == "tiny"
    if name in EMPIRICAL:
        assert record["settings"]["data (main)"].split("_")[0] == "digits"
    else:
        assert record["settings"]["draws"] == SIZES["tiny"].draws
    table = read(made, name)
    assert all("kind" in row for row in table.rows)
    judged = import_module(f"paredown.reproduce.figures.{name}").judge(
        table
    )  # the file holds all that the verdicts need
    assert [claim.record() for claim in judged] == record["claims"]


@pytest.mark.parametrize("name", FIGURES)
def test_each_file_says_what_to_expect(name) -> None:
    text = import_module(f"paredown.reproduce.figures.{name}").__doc__ or ""
    assert text.startswith(("Fig. ", "Appendix figure", "Appendix table", "Beyond the paper"))
    assert f"paredown reproduce {name}\n" in text
    assert "Claim" in text
    assert "Expected: " in text


def test_nothing_else_is_left_behind(made) -> None:
    expected = {f"{name}.{end}" for name in FIGURES for end in ("png", "csv", "json")}
    assert {file.name for file in made.iterdir()} == expected | {".paredown", "parts", "results.md"}


def test_one_page_has_every_figure_and_verdict(made) -> None:
    page = (made / "results.md").read_text()
    records = [json.loads((made / f"{name}.json").read_text()) for name in FIGURES]
    claims = [claim for record in records for claim in record["claims"]]
    once = [claim for claim in claims if claim.get("counted_in") not in FIGURES]
    counts = ", ".join(
        f"{sum(c['verdict'] == verdict.value for c in once)} {verdict.value}" for verdict in ClaimVerdict
    )
    assert f"{len(FIGURES)} figures and tables. {len(once)} claims: {counts}; " in page
    assert f"; {len(claims) - len(once)} more are on runs of another figure and counted there." in page
    told = [line for line in page.splitlines() if line.startswith(("**Held", "**Contradicted", "**Cannot", "**Not"))]
    assert len(told) == len(claims)
    assert all(claim["claim"] in page for claim in claims)
    assert all(f"]({name}.png)" in page for name in FIGURES)


# --- the numbers ---------------------------------------------------------------------------------------------------


def test_fig1a_holds_the_theory_and_a_frontier_below_it(made) -> None:
    table = read(made, "fig1a")
    curves = table.where(kind="theory")
    expected = pdn.theory.solve(curves["alpha_prune"], curves["keep_fraction"]).test_error
    np.testing.assert_allclose(curves["test_error"], expected, rtol=EXACT)
    for cut_off in (0.1, 0.01):
        frontier = table.where(kind="frontier", cut_off=cut_off)
        for fraction in curves.values("keep_fraction"):
            curve = curves.where(keep_fraction=fraction)
            at = np.isin(frontier["alpha_prune"], curve["alpha_prune"])
            assert (frontier["test_error"][at] <= curve["test_error"] * (1 + 1e-12)).all()
        assert (frontier["keep_fraction"] >= cut_off * (1 - 1e-12)).all()
    dots = table.where(kind="simulation")
    one = pdn.theory.solve(dots["alpha_prune"][3], dots["keep_fraction"][3]).test_error
    assert dots["theory_error"][3] == pytest.approx(one, rel=EXACT)
    matches, *exact = import_module("paredown.reproduce.figures.fig1a").judge(table)
    assert matches.verdict is ClaimVerdict.CANNOT_TELL  # three draws do not tell 5 %
    assert [claim.held for claim in exact] == [True] * 3


def test_fig1b_keeps_the_right_examples(made) -> None:
    table = read(made, "fig1b")
    for strategy in ("easy", "hard"):
        examples = table.where(kind="example", regime="abundant", strategy=strategy)
        kept, margin = examples["kept"] == 1, np.abs(examples["along_teacher"])
        assert kept.sum() == round(0.4 * 20 * SIZES["tiny"].n_features) == 400
        inner, outer = (kept, ~kept) if strategy == "hard" else (~kept, kept)
        assert margin[inner].max() < margin[outer].min()


def test_fig1c_crosses_where_the_ends_are_equal(made) -> None:
    told = read(made, "fig1c").where(kind="boundary")
    # Where the errors of both ends are equal, solved to six digits by bisection on solve().
    for fraction, alpha_prune in ((0.8, 7.73), (0.6, 2.96), (0.4, 2.30), (0.2, 2.07)):
        assert told.where(keep_fraction=fraction)["alpha_prune"][0] == pytest.approx(alpha_prune, rel=0.02)
    choice = [
        pdn.theory.better_strategy(a * row["alpha_tot"], 0.4)
        for row in told.where(keep_fraction=0.4).rows
        for a in (0.9, 1.1)
    ]
    assert choice == ["easy", "hard"]


def test_fig1e_best_fraction_falls_to_the_cut_off(made) -> None:
    best = read(made, "fig1e").where(kind="best")
    far = best["alpha_prune"] >= 2
    np.testing.assert_allclose(best["keep_fraction"][far], 0.01)
    assert (best["keep_fraction"][best["alpha_prune"] < 1.9] > 0.1).all()


def test_fig1f_tells_the_forms_apart(made) -> None:
    table = read(made, "fig1f")
    exact, paper = (table.where(kind="theory", form=form, keep_fraction=0.1) for form in ("exact", "paper"))
    expected = pdn.theory.information_gain(exact["alpha_prune"], 0.1)
    np.testing.assert_allclose(exact["info_gain"], expected, rtol=1e-9)
    assert np.isnan(paper["info_gain"]).any()
    assert np.isfinite(paper["info_gain"]).any()
    assert verdicts(table, "fig1f") == [True, True, False]


def test_fig2_is_below_f_min_better(made) -> None:
    table = read(made, "fig2")
    for theta, f_min in ((10.0, 0.238), (20.0, 0.456)):
        at_min, less = table.where(kind="far", theta=theta).rows
        assert at_min["keep_fraction"] == pytest.approx(f_min, abs=5e-4)
        assert less["test_error"] < 0.8 * at_min["test_error"]
        for row in (at_min, less):
            assert row["test_error"] == pytest.approx(row["theory_error"], rel=0.01)
    assert verdicts(table, "fig2")[1:] == [True, False]


def test_policy_windows_beat_both_ends(made) -> None:
    table = read(made, "fig_policy")
    window = table.where(kind="frontier", strategy="window")
    at = window.rows[5]
    best = pdn.theory.optimal_window(at["alpha_prune"], at["keep_fraction"])
    assert at["test_error"] == pytest.approx(best.test_error, rel=1e-9)
    for end in ("hard", "easy"):
        assert (window["test_error"] <= table.where(kind="frontier", strategy=end)["test_error"] * (1 + 1e-9)).all()
    held = verdicts(table, "fig_policy")
    assert held[:2] == [True, True]
    assert held[3:] == [False, True]
    claims = import_module("paredown.reproduce.figures.fig_policy").judge(table)
    assert claims[4].told == "held, in the limit"
    optimum = import_module("paredown.reproduce.figures.fig1e").judge(read(made, "fig1e"))[1]
    assert optimum.told.startswith("contradicted, refined: only below alpha_prune = 2")


def test_frontier_forms_are_ranked_over_the_stated_range(made) -> None:
    table = read(made, "fig_frontier")
    frontier = table.where(kind="frontier")
    inside = frontier["alpha_prune"] <= 3
    fits = pdn.theory.fit_frontier(frontier["alpha_prune"][inside], frontier["test_error"][inside])
    for row in table.where(kind="goodness").rows:
        assert row["rms_log_error"] == pytest.approx(fits[row["form"]].rms_log_error, rel=1e-9)
    assert verdicts(table, "fig_frontier") == [True, True]


def test_compute_lines_go_through_the_dots(made) -> None:
    table = read(made, "fig_compute_a")
    dots, line = table.where(kind="simulation"), table.where(kind="line of all").rows[0]
    slope, intercept = np.polyfit(dots["alpha_prune"], dots["seconds"], 1)
    assert (line["slope"], line["intercept"]) == (pytest.approx(slope), pytest.approx(intercept))
    frontier = table.where(kind="frontier")
    assert (np.diff(frontier["test_error"]) <= 1e-12).all()


def test_claims_as_records() -> None:
    """Records of earlier versions say `held` alone."""
    for verdict in ClaimVerdict:
        claim = Claim("It holds.", verdict, "By 3 standard errors.")
        record = claim.record()
        assert record == {
            "claim": "It holds.",
            "held": verdict is ClaimVerdict.HELD,
            "verdict": verdict.value,
            "evidence": "By 3 standard errors.",
        }
        assert Claim.from_record(json.loads(json.dumps(record))) == claim
    old = {"claim": "It holds.", "evidence": "By 3 standard errors."}
    assert Claim.from_record({**old, "held": True}).verdict is ClaimVerdict.HELD
    assert Claim.from_record({**old, "held": False}).verdict is ClaimVerdict.CONTRADICTED
    assert Claim.judged("It holds.", None, "").verdict is ClaimVerdict.CANNOT_TELL


# --- the verdicts follow the data, both ways -----------------------------------------------------------------------


def dots(apart: list[float], *, noise: float = 0.01, draws: int = 10) -> FigureTable:
    """Simulated errors that lie apart from the theory by these shares, on one curve."""
    table, theory = FigureTable(), np.full(len(apart), 0.2)
    error = theory * (1 + np.array(apart))
    where = {"strategy": "hard", "keep_fraction": 0.5, "alpha_prune": 1.0, "theta": 0.0, "n_features": 200}
    columns = {"test_error": error, "theory_error": theory, "stderr": noise * error, "draws": draws}
    table.add("simulation", **where, **columns)
    return table


def test_agreement_is_equality_up_to_a_margin() -> None:
    near = agreement(dots([0.01, -0.02, 0.02, 0.0]))
    assert near.held
    assert near.strength is not None
    assert near.strength.power >= 0.8
    assert agreement(dots([0.1, 0.09, 0.11, 0.1])).verdict is ClaimVerdict.CONTRADICTED
    assert agreement(dots([0.05, 0.05, 0.05, 0.05])).verdict is ClaimVerdict.CANNOT_TELL
    # No significant difference is not agreement.
    assert agreement(dots([0.01, -0.02, 0.02, 0.0], noise=0.2)).verdict is ClaimVerdict.CANNOT_TELL


def test_a_theory_that_is_off_by_the_margin_is_held_in_at_most_five_per_cent(rng) -> None:
    drawn = (0.05 + 0.02 * rng.standard_normal((200, 4))).tolist()
    held = sum(agreement(dots(apart, noise=0.02, draws=10)).held for apart in drawn)
    assert held <= 0.05 * 200 + 3 * 3


def test_fig1b_wants_either_end_where_it_is_better() -> None:
    def of(scarce: float, abundant: float, stderr: float = 0.005) -> ClaimVerdict:
        table = FigureTable()
        for regime, easy in (("scarce", scarce), ("abundant", abundant)):
            for strategy, error in (("easy", easy), ("hard", 0.2)):
                table.add("simulation", regime=regime, strategy=strategy, test_error=error, stderr=stderr, draws=10)
        return import_module("paredown.reproduce.figures.fig1b").judge(table)[0].verdict

    assert of(0.1, 0.3) is ClaimVerdict.HELD
    assert of(0.1, 0.1) is ClaimVerdict.CONTRADICTED
    assert of(0.1, 0.3, stderr=0.05) is ClaimVerdict.CANNOT_TELL


def test_exponent_and_crossing_of_known_curves() -> None:
    x = np.geomspace(1, 10, 20)
    np.testing.assert_allclose(exponent(x, 3 * x**-2.5), -2.5)
    assert crossing(x, np.log(x / 4)) == pytest.approx([4.0])
    assert crossing(x, x) == []


def change(table: FigureTable, wanted: dict, **cells: float) -> FigureTable:
    """A copy with some cells changed."""
    rows = [row | cells if all(row.get(k) == v for k, v in wanted.items()) else row for row in table.rows]
    return FigureTable(rows)


@pytest.mark.parametrize(
    ("name", "claim", "wanted", "cells"),
    [
        ("fig1a", 1, {"kind": "far", "alpha_prune": 1000.0, "keep_fraction": 0.5}, {"test_error": 0.1}),
        ("fig1a", 2, {"kind": "theory", "keep_fraction": 0.5}, {"test_error": 0.6}),
        ("fig1a", 3, {"kind": "frontier without cut-off"}, {"test_error": 0.01}),
        ("fig1c", 0, {"kind": "boundary", "keep_fraction": 0.4}, {"crossings": 0}),
        ("fig1c", 1, {"kind": "boundary", "keep_fraction": 0.4}, {"sharpness": 10.0}),
        ("fig1e", 0, {"kind": "best", "alpha_prune": 10.0}, {"keep_fraction": 1.0}),
        ("fig1e", 1, {"kind": "best"}, {"at_cut_off": 0}),
        ("fig1f", 0, {"kind": "far", "alpha_prune": 100.0}, {"info_gain": 1.0}),
        ("fig1f", 1, {"kind": "theory", "form": "exact", "keep_fraction": 1.0}, {"info_gain": 100.0}),
        ("fig1f", 2, {"kind": "extreme"}, {"info_gain": 1.02}),
        ("fig2", 1, {"kind": "far frontier", "alpha_prune": 1000.0}, {"test_error": 0.1}),
        ("fig2", 2, {"kind": "far"}, {"test_error": 1e-4}),
        ("fig_policy", 0, {"kind": "frontier", "strategy": "easy"}, {"test_error": 0.5}),
        ("fig_policy", 1, {"kind": "frontier", "strategy": "window"}, {"lower": 1.0, "test_error": 0.45}),
        ("fig_policy", 3, {"kind": "delta"}, {"best_position": 1.0}),
        ("fig_policy", 4, {"kind": "delta", "alpha_prune": 1.0}, {"test_error": 0.1}),
        ("fig_frontier", 0, {"kind": "goodness", "form": "power law"}, {"rms_log_error": 0.0}),
        ("fig_frontier", 1, {"kind": "goodness", "form": "exponential"}, {"rms_log_error": 0.0}),
    ],
)
def test_other_data_turn_the_verdict(made, name, claim, wanted, cells) -> None:
    table = read(made, name)
    changed = change(table, wanted, **cells)
    assert verdicts(changed, name)[claim] is not verdicts(table, name)[claim]


@pytest.mark.parametrize(
    ("factor", "noise", "verdict"),
    [
        (0.2, 0.1, ClaimVerdict.HELD),
        (0.9, 0.1, ClaimVerdict.CONTRADICTED),
        (0.5, 0.1, ClaimVerdict.CANNOT_TELL),
        (0.2, 2.0, ClaimVerdict.CANNOT_TELL),
    ],
)
def test_error_in_equal_time_is_judged_draw_by_draw(factor: float, noise: float, verdict: ClaimVerdict) -> None:
    """Half the error in equal time counts as better; `factor` is what the pruned data have of it."""
    rng, table = np.random.default_rng(1), FigureTable()
    for fraction, level in ((1.0, 1.0), (0.1, factor)):
        for alpha in (2.0, 4.0, 8.0):
            error = 0.4 / alpha * level * np.exp(noise * rng.standard_normal(10))
            columns = {"seconds": np.full(10, alpha), "test_error": error}
            table.add_seeds("draw", keep_fraction=fraction, alpha_prune=alpha, columns=columns)
    for kind in ("line of all", "line"):
        table.add(kind, slope=1.0, intercept=0.0, r_squared=1.0)
    assert import_module("paredown.reproduce.figures.fig_compute_a").judge(table)[1].verdict is verdict


def test_one_line_for_all_is_a_matter_of_the_solver(made) -> None:
    claim = import_module("paredown.reproduce.figures.fig_compute_a").judge(read(made, "fig_compute_a"))[0]
    assert claim.verdict is ClaimVerdict.NOT_TESTABLE


# --- runs ----------------------------------------------------------------------------------------------------------


def test_a_complete_figure_is_left_alone(made) -> None:
    before = (made / "fig1e.png").stat().st_mtime_ns
    again = reproduce_figures(["fig1e"], size="tiny", out=made)[0]
    assert not again.made
    assert [claim.record() for claim in again.claims] == json.loads((made / "fig1e.json").read_text())["claims"]
    assert (made / "fig1e.png").stat().st_mtime_ns == before


def test_an_unfinished_or_changed_figure_is_made_again(tmp_path) -> None:
    reproduce_figures(["fig1e"], size="tiny", out=tmp_path)
    whole = (tmp_path / "fig1e.csv").read_bytes()
    (tmp_path / "fig1e.csv").write_bytes(whole[:100])
    assert reproduce_figures(["fig1e"], size="tiny", out=tmp_path)[0].made
    assert (tmp_path / "fig1e.csv").read_bytes() == whole  # same settings, same bytes
    (tmp_path / "fig1e.json").unlink()
    assert reproduce_figures(["fig1e"], size="tiny", out=tmp_path)[0].made
    assert reproduce_figures(["fig1e"], size="tiny", out=tmp_path, overwrite=True)[0].made


def test_other_settings_are_refused_before_any_work(made, tmp_path) -> None:
    with pytest.raises(
        pdn.PareError, match=r"fig1e.json was made with other settings: size was 'tiny' and is now 'cpu'.*--over"
    ):
        reproduce_figures(["fig1e"], size="cpu", out=made)
    with pytest.raises(pdn.PareError, match="seed was 0 and is now 1"):
        reproduce_figures(["fig1e"], size="tiny", seed=1, out=made)
    (tmp_path / "fig1e.json").write_text("[]")
    (tmp_path / "results.md").write_text("mine")
    with pytest.raises(pdn.PareError, match="already exists and is not a set of figures of paredown"):
        reproduce_figures(["fig1e"], size="tiny", out=tmp_path)
    assert (tmp_path / "results.md").read_text() == "mine"


def test_a_failed_drawing_leaves_nothing(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr("paredown.reproduce.figures.fig1e.draw", lambda table, path: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        reproduce_figures(["fig1e"], size="tiny", out=tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == [".paredown"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["fig1x"], "unknown figure 'fig1x'; available: fig1a, fig1b"),
        (["fig1a", "--size", "huge"], "unknown size 'huge'; available: cpu, overnight, paper, tiny"),
        (["fig1a", "--seed", "-1"], "seed must be at least 0"),
        (["fig1a", "--all"], "give names of figures or --all, not both"),
        (["fig1d", "--data", "nowhere"], "nowhere: there is no such folder"),
        (["fig3", "--size", "paper"], "needs a folder of data sets (--data)"),
        (["fig1e", "-o", "file"], "file is a file, but a folder would be written there"),
    ],
)
def test_mistakes_are_answered(paredown, arguments, message) -> None:
    Path("file").touch()
    result = paredown("reproduce", *arguments)
    assert result.returncode == 2
    assert message in result.stderr.replace("\n", " ")


def test_without_names_the_figures_are_listed(paredown) -> None:
    shown = paredown("reproduce")
    assert shown.returncode == 0
    assert all(name in shown.stdout for name in FIGURES)
    assert json.loads(paredown("reproduce", "--json").stdout)["figures"] == {
        name: figure.shows for name, figure in FIGURES.items()
    }


def test_a_dry_run_counts_without_data(paredown) -> None:
    answer = json.loads(paredown("reproduce", "fig1d", "fig1a", "--size", "cpu", "--dry-run", "--json").stdout)
    students, probes, *_ = answer["figures"]["fig1d"]
    assert (students["role"], students["trainings"], students["data"]) == ("student", 160, "mnist")
    assert probes["trainings"] == 48
    assert list(answer["figures"]) == ["fig1d"]
    assert not list(Path.cwd().iterdir())


def test_the_command_tells_what_held(paredown) -> None:
    result = paredown("reproduce", "fig1e", "--size", "tiny", "-o", "figures")
    assert result.returncode == 0, result.stderr
    assert "held: The optimal keep_fraction falls" in result.stdout
    assert "contradicted, refined: only below alpha_prune = 2: For every alpha_prune" in result.stdout
    answer = json.loads(paredown("reproduce", "fig1e", "--size", "tiny", "-o", "figures", "--json").stdout)
    figure = answer["figures"][0]
    assert (figure["figure"], figure["made"], figure["settings"]["size"]) == ("fig1e", False, "tiny")
    assert Path(figure["png"]).is_file()
    assert [claim["held"] for claim in figure["claims"]] == [True, False]
