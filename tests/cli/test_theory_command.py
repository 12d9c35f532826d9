from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

import paredown as pdn
from paredown.cli.run import app


def run(*arguments: str) -> str:
    result = CliRunner().invoke(app, ["theory", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_what_error() -> None:
    assert "Keeping the 30 % hardest of alpha_tot = 10" in run(
        "--alpha-tot", "10", "--theta", "20", "--keep-fraction", "0.3"
    )
    answer = json.loads(run("--alpha-tot", "10", "--theta", "20", "--keep-fraction", "0.3", "--json"))
    expected = pdn.theory.solve(alpha_tot=10.0, keep_fraction=0.3, theta=20.0)
    assert answer["test_error"] == expected.test_error
    assert answer["random_error"] == pdn.theory.solve(3.0, 1.0).test_error
    assert answer["unpruned_error"] == pdn.theory.solve(10.0, 1.0).test_error
    assert answer["better_end"] == "easy"


def test_equal_ends_are_called_the_same() -> None:
    random = ["--alpha-tot", "3", "--keep-fraction", "1", "--strategy", "random"]
    assert "; keeping the hard end and keeping the easy end give the same error (0." in run(*random)
    answer = json.loads(run(*random, "--json"))
    assert answer["better_end"] is None
    assert answer["hard_error"] == pytest.approx(answer["easy_error"], rel=1e-6)
    assert "keeping the hard end is better (hard 0." in run("--alpha-tot", "100", "--keep-fraction", "0.5")


def test_alpha_and_degrees_are_explained() -> None:
    lines = run("--alpha-tot", "10", "--theta", "20", "--keep-fraction", "0.3").splitlines()
    assert lines[1:] == [
        "For your data: alpha_tot = 10 is the number of examples per feature of a linear model (5,120 examples for 512 "
        "features); a probe 0 degrees off ranks examples perfectly, one 90 degrees off at random."
    ]


def test_how_much() -> None:
    assert run("--alpha-tot", "10", "--theta", "20").startswith("Keep the 68.3 % hardest")
    answer = json.loads(run("--alpha-prune", "3", "--min-keep-fraction", "0.2", "--json"))
    assert answer["keep_fraction"] == pytest.approx(0.2)


def test_window() -> None:
    answer = json.loads(run("--alpha-tot", "3", "--window", "0.2", "0.5", "--json"))
    assert answer["window"] == [0.2, 0.5]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--theta", "3"], "give either --alpha-tot"),
        (["--alpha-prune", "3"], "the error falls to zero"),
        (["--alpha-tot", "3", "--keep-fraction", "2"], "keep_fraction must be in"),
        (["--alpha-tot", "3", "--keep-fraction", ".2", "--min-keep-fraction", ".1"], "leave --keep-fraction out"),
        (["--alpha-tot", "3", "--strategy", "window"], "answered for --strategy hard or easy"),
    ],
)
def test_mistakes_are_explained(arguments: list[str], message: str) -> None:
    with pytest.raises(pdn.PareError, match=message):
        CliRunner().invoke(app, ["theory", *arguments], catch_exceptions=False)


def test_importing_the_command_line_loads_no_numerics() -> None:
    code = "import sys, paredown.cli.run; sys.exit(any(m in sys.modules for m in ('numpy', 'scipy')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
