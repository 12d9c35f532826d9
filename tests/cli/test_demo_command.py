from __future__ import annotations

import json

import numpy as np
import pytest

from paredown.demo import DEMO_FRACTIONS, DEMO_METHODS, run_demo
from paredown.errors import PareError


@pytest.fixture(scope="module")
def rows():
    return run_demo(repeats=3, random_subsets=2)


def test_demo_compares_every_method_with_random(rows) -> None:
    assert {(row.method, row.keep_fraction) for row in rows} == {
        ("full", 1.0),
        *((method, f) for method in ("random", *DEMO_METHODS) for f in DEMO_FRACTIONS),
    }
    for row in rows:
        if row.method in ("full", "random"):
            assert row.difference == 0


def test_demo_shows_what_the_paper_says(rows) -> None:
    """Hard pruning of a small set to a tenth loses clearly; keeping 80 % costs nothing that can be seen."""
    table = {(row.method, row.keep_fraction): row for row in rows}
    assert table["full", 1.0].accuracy > 0.97
    assert table["prototypes, hard", 0.1].difference < -0.05
    assert abs(table["prototypes, hard, balanced", 0.8].difference) < 0.01
    assert table["prototypes, hard, balanced", 0.1].accuracy > table["prototypes, hard", 0.1].accuracy
    random = [table["random", f].accuracy for f in DEMO_FRACTIONS]
    assert np.all(np.diff(random) > -0.005)  # more data, no worse


def test_demo_command_writes_plot_and_table(paredown, tmp_path) -> None:
    result = paredown("demo", "--repeats", 2, "-o", "d", "--json")
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)["rows"]) == 1 + len(DEMO_FRACTIONS) * (1 + len(DEMO_METHODS))
    assert (tmp_path / "d" / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "d" / "pruned" / "manifest.parquet").exists()


def test_demo_needs_two_repeats() -> None:
    with pytest.raises(PareError, match=r"repeats must be at least 2 to have an error bar, got 1"):
        run_demo(repeats=1)
