"""`paredown simulate` as people and machines see it."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from paredown import PareError
from paredown.cli.run import app
from paredown.perceptron import simulate

SMALL = ["simulate", "--alpha-prune", "2", "--keep-fraction", "0.5", "--n-features", "20", "--draws", "4"]


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, [*SMALL, *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.stdout


def test_sentence_gives_error_and_standard_error():
    text = run("--theta", "10")
    s = simulate(2, keep_fraction=0.5, theta=10, n_features=20, draws=4)
    assert f"Test error {s.test_error:.5f} ± {s.stderr:.1g} (standard error over 4 draws)" in text
    assert "For your data: alpha_prune = 2 is the number of examples per feature" in text
    assert "keeping the hardest 40 of 80 examples in 20 dimensions, ranked by a probe 10 degrees off" in text


def test_json_is_one_document_with_the_same_numbers():
    result = json.loads(run("--theta", "10", "--json"))
    s = simulate(2, keep_fraction=0.5, theta=10, n_features=20, draws=4)
    assert (result["test_error"], result["stderr"]) == (s.test_error, s.stderr)
    assert (result["R"], result["rho"], result["kappa"]) == (s.R, s.rho, s.kappa)
    assert (result["n_total"], result["n_kept"], result["draws"], result["seed"]) == (80, 40, 4, 0)
    assert "theory_test_error" in result
    assert "z_score" in result


def test_one_draw_has_no_standard_error_in_json():
    result = json.loads(run("--draws", "1", "--json"))
    assert result["stderr"] is None
    assert result["z_score"] is None
    assert "(one draw)" in run("--draws", "1")


def test_window_and_trained_probe():
    window = ["--alpha-prune", "2", "--strategy", "window", "--window", "0.5", "1.0", "--n-features", "20"]
    result = CliRunner().invoke(app, ["simulate", *window, "--draws", "2", "--json"], catch_exceptions=False)
    assert json.loads(result.stdout)["keep_fraction"] == pytest.approx(0.29976, abs=1e-5)
    assert 0 < json.loads(run("--probe", "trained", "--json"))["theta"] < 90


def test_ranking_by_margin_is_not_compared_with_the_theory():
    assert json.loads(run("--theta", "20", "--hardness", "margin", "--json"))["theory_test_error"] is None


def test_user_errors_reach_the_command_line():
    with pytest.raises(PareError, match="theta must be in"):
        run("--theta", "100")


def test_help_has_an_example():
    result = CliRunner().invoke(app, ["simulate", "--help"], env={"COLUMNS": "200"})
    assert "paredown simulate --alpha-prune 2 --keep-fraction 0.5 --theta 10" in result.stdout


def test_starting_the_command_line_imports_no_numpy():
    code = "import sys, paredown.cli.run; assert not {'numpy', 'scipy'} & set(sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
