from __future__ import annotations

import json
from functools import partial

import numpy as np
import pytest
import scipy.special
import scipy.stats

from paredown import demo
from paredown.demo import (
    DEMO_FRACTIONS,
    DEMO_HARDEST,
    DEMO_METHODS,
    MANY_FRACTIONS,
    MANY_KEPT,
    DemoRow,
    load_digits,
    planned_comparisons,
    run_demo,
)
from paredown.errors import PareError


@pytest.fixture(scope="module")
def rows():
    return run_demo(repeats=3, random_subsets=2)


def test_demo_compares_every_method_with_random(rows) -> None:
    assert {(row.method, row.keep_fraction) for row in rows if row.digits == "few"} == {
        ("full", 1.0),
        *((method, f) for method in ("random", *DEMO_METHODS) for f in DEMO_FRACTIONS),
    }
    assert {(row.method, row.keep_fraction, row.kept) for row in rows if row.digits == "many"} == {
        *(("random", 1.0, kept) for kept in MANY_KEPT),
        *((DEMO_HARDEST, f, kept) for f in MANY_FRACTIONS for kept in MANY_KEPT),
    }
    for row in rows:
        if row.method in ("full", "random"):
            assert row.difference == 0


def test_demo_shows_what_the_paper_says(rows) -> None:
    """Hard pruning of a small set to a tenth loses clearly; keeping 80 % costs nothing that can be seen."""
    table = {(row.method, row.keep_fraction): row for row in rows if row.digits == "few"}
    assert table["full", 1.0].accuracy > 0.97
    assert table["prototypes, hard", 0.1].difference < -0.05
    assert abs(table["prototypes, hard, balanced", 0.8].difference) < 0.01
    assert table["prototypes, hard, balanced", 0.1].accuracy > table["prototypes, hard", 0.1].accuracy
    random = [table["random", f].accuracy for f in DEMO_FRACTIONS]
    assert np.all(np.diff(random) > -0.005)  # more data, no worse


def test_demo_shows_the_crossing(rows) -> None:
    """The hardest lose when few digits are cut down to a tenth, and win when they are taken from many."""
    found = {(row.digits, row.method, row.keep_fraction, row.kept): row for row in rows}
    few, many = found["few", DEMO_HARDEST, 0.1, 135], found["many", DEMO_HARDEST, 0.25, 2000]
    chance = found["many", "random", 1.0, 2000]
    assert few.difference < -2 * few.difference_stderr
    assert many.difference > 2 * many.difference_stderr
    assert many.difference == pytest.approx(many.accuracy - chance.accuracy)
    assert 1 - many.accuracy < 0.9 * (1 - chance.accuracy)


def test_differences_are_judged_by_students_t_and_for_how_many_there_are(rows) -> None:
    """Of three repeats, two standard errors are p = 0.18, and one of thirty comparisons is to be expected anyway."""
    single = {
        row: float(2 * scipy.stats.t.sf(abs(row.difference / row.difference_stderr), 2))
        for row in rows
        if row.difference_stderr
    }
    smallest = min(single, key=lambda row: single[row])
    assert smallest.p_value == pytest.approx(min(1, len(single) * single[smallest]))
    assert all(row.p_value >= single[row] - 1e-12 for row in single)
    assert all(np.isnan(row.p_value) for row in rows if row.method in ("full", "random"))


def test_no_deformed_test_digit_comes_from_a_training_digit(monkeypatch) -> None:
    made: list[set[bytes]] = []
    monkeypatch.setattr(demo, "_few", lambda *_: {})
    monkeypatch.setattr(demo, "_many", lambda train, test, _: made.extend(map(rows_of, (train, test))) or {})
    demo._repeat(np.random.default_rng(0), 1)
    assert rows_of(load_digits()) == made[0] | made[1]
    assert not made[0] & made[1]


def rows_of(labelled: tuple[np.ndarray, np.ndarray]) -> set[bytes]:
    return {image.tobytes() for image in labelled[0]}


def test_the_two_comparisons_that_were_planned_are_corrected_for_being_two() -> None:
    row = partial(DemoRow, accuracy=0.9, stderr=0.01)
    few = row("few", DEMO_HARDEST, 0.1, 135, difference=-0.03, difference_stderr=0.01)
    many = row("many", DEMO_HARDEST, 0.25, 2000, difference=0.012, difference_stderr=0.001)
    others = [
        row("few", DEMO_HARDEST, 0.2, 269, difference=0.1, difference_stderr=0.001),
        row("many", DEMO_HARDEST, 0.25, 500, difference=0.1, difference_stderr=0.001),
        row("many", DEMO_HARDEST, 0.5, 2000, difference=0.1, difference_stderr=0.001),
    ]
    first, second = planned_comparisons([*others, few, many], 10)
    assert (first.kept, second.kept) == (135, 2000)
    assert second.p_value == pytest.approx(2 * 2 * scipy.special.stdtr(9, -12.0))
    assert first.p_value == pytest.approx(
        2 * scipy.special.stdtr(9, -3.0)
    )  # the larger one of two, by Holm's correction


def test_demo_command_writes_plot_and_table(paredown, tmp_path) -> None:
    result = paredown("demo", "--repeats", 2, "-o", "d", "--json")
    assert result.returncode == 0, result.stderr
    assert len(json.loads(result.stdout)["rows"]) == 1 + len(DEMO_FRACTIONS) * (1 + len(DEMO_METHODS)) + len(
        MANY_KEPT
    ) * (1 + len(MANY_FRACTIONS))
    assert (tmp_path / "d" / "demo.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "d" / "pruned" / "manifest.parquet").exists()


def test_demo_needs_two_repeats() -> None:
    with pytest.raises(PareError, match=r"repeats must be at least 2 to have an error bar, got 1"):
        run_demo(repeats=1)


def test_too_few_repeats_are_named_as_an_option(paredown) -> None:
    result = paredown("demo", "--repeats", "1")
    assert result.returncode == 2
    assert "error: --repeats must be at least 2 to have an error bar, got 1." in result.stderr
