"""The frontier over keep fractions: below every curve, falling, and honest about the luck of the lowest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paredown import PareError, theory
from paredown.laws import compare, pareto_frontier

TOLERANCE = 1e-9


def table(error, initial=(1000, 2000, 4000, 8000), fractions=(1.0, 0.5, 0.25), seeds=1):
    """Columns of a sweep over initial sizes and fractions; error(kept, fraction, seed)."""
    rows = [(n * f, f, error(n * f, f, seed), seed) for n in initial for f in fractions for seed in range(seeds)]
    return dict(zip(("kept_size", "keep_fraction", "error", "seed"), np.array(rows).T, strict=True))


def test_an_example_by_hand() -> None:
    """Two fractions that cross: the small one is better from 1000 kept on; at 300 only it was measured."""
    found = pareto_frontier(
        kept_size=[500, 1000, 2000, 4000, 250, 1000, 2000],
        keep_fraction=[1.0, 1.0, 1.0, 1.0, 0.25, 0.25, 0.25],
        error=[0.30, 0.20, 0.15, 0.10, 0.60, 0.18, 0.09],
    )
    assert [(row.kept_size, row.keep_fraction, row.initial_size, row.error) for row in found] == [
        (250, 0.25, 1000, 0.60),
        (500, 1.0, 500, 0.30),
        (1000, 0.25, 4000, 0.18),
        (2000, 0.25, 8000, 0.09),  # 4000 of fraction 1 is worse than 2000 of fraction 0.25
    ]
    assert not found.cross_fitted
    assert found.curve.stderr is None


def test_a_point_above_the_line_between_two_others_is_not_on_it() -> None:
    found = pareto_frontier([100, 1000, 400], [0.5, 0.5, 1.0], [0.4, 0.04, 0.3])
    np.testing.assert_array_equal(found.kept_size, [100, 1000])


@settings(max_examples=60)
@given(
    points=st.dictionaries(
        st.tuples(st.sampled_from([1.0, 0.5, 0.2]), st.integers(1, 30)), st.floats(0.01, 1.0), min_size=1, max_size=25
    )
)
def test_the_frontier_falls_and_is_below_every_curve(points) -> None:
    fraction, size = np.array(list(points)).T
    error = np.array(list(points.values()))
    found = pareto_frontier(size, fraction, error)
    assert len(found) >= 1
    assert (np.diff(found.error) < 0).all()
    assert (np.diff(found.kept_size) > 0).all()
    for f in np.unique(fraction):
        mine = np.argsort(size[fraction == f])
        x, y = np.log(size[fraction == f][mine]), np.log(error[fraction == f][mine])
        at = np.log(found.kept_size)
        inside = (at >= x[0]) & (at <= x[-1])
        assert (np.log(found.error)[inside] <= np.interp(at, x, y)[inside] + TOLERANCE).all()
    assert found.error[-1] == error.min()


def test_cross_fitting_takes_the_luck_out(rng) -> None:
    """Ten fractions that are all the same: the lowest mean is too low, the cross-fitted error is right."""
    fractions, sizes = np.repeat(np.linspace(0.1, 1, 10), 12), np.full(120, 1000.0)
    seeds = np.tile(np.arange(12), 10)
    lowest, honest, half = [], [], []
    for _ in range(40):
        error = 0.2 + 0.02 * rng.standard_normal(120)
        found = pareto_frontier(sizes, fractions, error, seed=seeds)
        assert found.cross_fitted
        lowest.append(found.lowest_mean[0])
        honest.append(found.error[0])
        half.append(pareto_frontier(sizes, fractions, error, seed=seeds, folds=2).error[0])
    stderr = 0.02 / np.sqrt(12) / np.sqrt(40)
    assert np.mean(lowest) < 0.2 - 8 * stderr  # 1.54 standard errors of a mean, the lowest of ten
    np.testing.assert_allclose([np.mean(honest), np.mean(half)], 0.2, atol=4 * stderr)


def test_each_run_is_judged_by_the_others() -> None:
    """By hand: seed 0 alone finds fraction 0.5 best, seed 1 fraction 1, so each is judged at the other's choice."""
    found = pareto_frontier([10, 10, 10, 10], [1.0, 1.0, 0.5, 0.5], [0.4, 0.2, 0.3, 0.5], seed=[0, 1, 0, 1])
    np.testing.assert_array_equal(found.keep_fraction, [1.0])
    np.testing.assert_allclose(found.lowest_mean, 0.3)
    np.testing.assert_allclose(found.curve.runs, [[0.4, 0.5]])


def test_runs_are_judged_by_the_mean_of_those_that_there_are() -> None:
    """Seed 0 is judged by one run of fraction 1 (0.42) and two of 0.5 (0.39 on average); 0.25 has no other run."""
    rows = [(1.0, 0, 0.40), (1.0, 1, 0.42), (0.5, 0, 0.30), (0.5, 1, 0.50), (0.5, 2, 0.28), (0.25, 0, 0.01)]
    fractions, seeds, errors = zip(*rows, strict=True)
    found = pareto_frontier([10] * 6, fractions, errors, seed=seeds)
    assert (found.keep_fraction.tolist(), found.lowest_mean.tolist()) == ([0.25], [0.01])
    np.testing.assert_allclose(found.error, [0.30])  # seeds 1 and 2 are sent to fraction 0.25, where they have no runs


def test_a_fraction_is_not_judged_beyond_its_largest_size() -> None:
    """By seed 0 alone, fraction 0.25 at 2000 is better than fraction 1 at 4000; at 4000 it was not measured."""
    found = pareto_frontier(
        kept_size=[2000, 2000, 2000, 2000, 4000, 4000],
        keep_fraction=[0.25, 0.25, 1.0, 1.0, 1.0, 1.0],
        error=[0.09, 0.09, 0.2, 0.2, 0.1, 0.04],
        seed=[0, 1, 0, 1, 0, 1],
    )
    assert found.keep_fraction.tolist() == [0.25, 1.0]
    assert found.curve.runs is not None
    np.testing.assert_allclose(found.curve.runs, [[0.09, 0.09], [0.1, 0.04]])


def test_of_equal_fractions_the_larger_is_shown() -> None:
    for fractions in ([0.25, 1.0, 0.5], [1.0, 0.5, 0.25]):
        found = pareto_frontier([10, 10, 10], fractions, [0.3, 0.3, 0.3])
        assert [(row.kept_size, row.keep_fraction) for row in found] == [(10, 1.0)]  # needs the smallest initial size
    assert pareto_frontier([10, 20], [1.0, 1.0], [0.3, 0.3]).kept_size.tolist() == [10]


def test_folds_are_seeds_in_turn() -> None:
    """With two folds, seeds 0 and 2 are judged by 1 and 3, and the other way round."""
    errors = {1.0: [0.4, 0.2, 0.41, 0.21], 0.5: [0.3, 0.5, 0.31, 0.51]}
    rows = [(f, seed, error) for f, of_seeds in errors.items() for seed, error in enumerate(of_seeds)]
    fractions, seeds, values = zip(*rows, strict=True)
    found = pareto_frontier([10] * 8, fractions, values, seed=seeds, folds=2)
    assert found.curve.runs is not None
    np.testing.assert_allclose(found.curve.runs, [[0.4, 0.5, 0.41, 0.51]])
    each = pareto_frontier([10] * 8, fractions, values, seed=seeds, folds=4)
    alone = pareto_frontier([10] * 8, fractions, values, seed=seeds)
    np.testing.assert_array_equal(each.curve.error, alone.curve.error)


def test_several_runs_without_seeds_are_averaged() -> None:
    found = pareto_frontier([20, 10, 20, 10, 10], [0.5] * 5, [0.2, 0.4, 0.1, 0.5, 0.6])
    assert (found.kept_size.tolist(), found.initial_size.tolist()) == ([10, 20], [20, 40])
    np.testing.assert_allclose(found.error, [0.5, 0.15])
    assert found.curve.runs is not None
    np.testing.assert_array_equal(found.curve.runs, [[0.4, 0.5, 0.6], [0.2, 0.1, np.nan]])
    assert found.curve.freedom == 3


def test_where_one_fraction_is_clearly_best_both_agree(rng) -> None:
    columns = table(lambda n, f, seed: n**-0.3 * f**0.5 * (1 + 0.01 * rng.standard_normal()), seeds=5)
    found = pareto_frontier(**columns)
    np.testing.assert_allclose(found.error, found.lowest_mean)
    np.testing.assert_array_equal(found.kept_size, [250, 500, 1000, 2000])
    np.testing.assert_array_equal(found.keep_fraction, 0.25)
    low, high = found.curve.limits()
    assert ((low < found.error) & (found.error < high)).all()


def test_limits_of_the_means_cover_them(rng) -> None:
    inside = 0
    for _ in range(100):
        columns = table(lambda n, f, seed: n**-0.3 * f**0.5 * np.exp(0.05 * rng.standard_normal()), seeds=5)
        found = pareto_frontier(**columns)
        low, high = found.curve.limits(draws=200)
        true = found.kept_size**-0.3 * 0.25**0.5
        inside += np.mean((low <= true) & (true <= high))
    assert 85 <= inside <= 100


def test_the_frontier_of_the_theory_is_found_from_noisy_runs(rng) -> None:
    """Fractions of a grid at theta = 0, runs with 2 % noise: near the exact frontier, and faster than a power law."""
    alpha, fractions = np.geomspace(0.5, 3.0, 8), np.array([0.1, 0.15, 0.25, 0.4, 0.6, 0.8, 1.0])
    exact = theory.solve(alpha, fractions[:, None]).test_error
    runs = exact[:, :, None] * np.exp(0.02 * rng.standard_normal((*exact.shape, 6)))
    f, a, seed = np.broadcast_arrays(fractions[:, None, None], alpha[:, None], np.arange(6))
    found = pareto_frontier(a.ravel(), f.ravel(), runs.ravel(), seed=seed.ravel())
    np.testing.assert_allclose(found.kept_size, alpha)
    np.testing.assert_allclose(found.error, exact.min(axis=0), rtol=0.04)
    assert (np.diff(found.keep_fraction) <= 0).all()
    assert found.keep_fraction[-1] == 0.1
    assert compare(found.curve, draws=2).faster_than_power > 0.99


def test_means_with_standard_errors() -> None:
    found = pareto_frontier([10, 10, 20], [1.0, 0.5, 0.5], [0.4, 0.3, 0.2], stderr=[0.01, 0.02, 0.03])
    np.testing.assert_allclose(found.curve.stderr, [0.02, 0.03])
    assert np.isinf(found.curve.freedom)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"keep_fraction": [1.5, 0.5, 1.0, 1.0]}, r"keep_fraction must be in \(0, 1\], got 1.5 in row 0"),
        ({"error": [0.1, 0.0, 0.1, 0.1]}, "error must be finite and above 0, got 0 in row 1"),
        ({"seed": [0, 0, 1, 1]}, "seed 1 comes 2 times at kept size 20 and keep_fraction 1"),
        ({"seed": [0, 0, 1, 2], "stderr": [1, 1, 1, 1]}, "a seed or means with a stderr, not both"),
        ({"stderr": [1, 1, 1, 1]}, "kept size 20 with keep_fraction 1 comes more than once"),
        ({"seed": [0, 0, 1, 2], "folds": 9}, "folds must be from 2 to the number of seeds, 3, got 9"),
        ({"seed": [0, 0, 0, 1], "folds": 3}, "folds must be from 2 to the number of seeds, 2, got 3"),
        ({"seed": [0, 0, 1, 2]}, "no run can be judged by others at kept size 10: .* Add runs"),
        ({"seed": [0, 1]}, "one value per row, got 4 of error and 2 of seed"),
        ({"stderr": [0.1, 0.1, 0.1, 0.0]}, "^stderr must be finite and above 0, got 0 in row 3"),
        (
            {"stderr": [0.1] * 4},
            r"^kept size 20 with keep_fraction 1 comes more than once, but stderr was given: rows are either means or "
            r"single runs\. Average them first, or give seed instead of stderr\.$",
        ),
        ({"keep_fraction": [1.0, 0.0, 1.0, 1.0]}, "^keep_fraction must be finite and above 0, got 0 in row 1"),
        ({"kept_size": [10, 10, 0, 20]}, "^kept_size must be finite and above 0, got 0 in row 2"),
        ({"keep_fraction": [1.0, 0.5, 1.25, 1.5]}, r"^keep_fraction must be in \(0, 1\], got 1.5 in row 3\.$"),
        (
            {"keep_fraction": [1.0, 0.5]},
            r"^columns must have one value per row, got 4 of kept_size and 2 of keep_fraction and 4 of error\.$",
        ),
        ({"error": [0.4, 0.3]}, "got 4 of kept_size and 4 of keep_fraction and 2 of error"),
        ({"kept_size": [10, 10]}, "got 2 of kept_size and 4 of keep_fraction and 4 of error"),
        (
            {"seed": [0, 0, 1, 2], "stderr": [1, 1, 1, 1]},
            r"^rows are single runs with a seed or means with a stderr, not both\. Leave one of them out\.$",
        ),
        (
            {"seed": [0, 0, 1, 2]},
            r"^no run can be judged by others at kept size 10: every fraction there needs runs of two seeds or more\. "
            r"Add runs, or leave seed out\.$",
        ),
        (
            {"seed": ["x", "x", "y", "y"]},
            r"^seed y comes 2 times at kept size 20 and keep_fraction 1\. Give every run of a point a seed of its",
        ),
        ({"seed": [0, 0, 1, 2], "folds": 1}, "^folds must be from 2 to the number of seeds, 3, got 1"),
        ({"stderr": [0.1, 0.1]}, "^columns must have one value per row, got 4 of kept_size and 2 of stderr"),
    ],
)
def test_mistakes_are_answered(change, message) -> None:
    columns = {"kept_size": [10, 10, 20, 20], "keep_fraction": [1.0, 0.5, 1.0, 1.0], "error": [0.4, 0.3, 0.2, 0.2]}
    with pytest.raises(PareError, match=message):
        pareto_frontier(**{**columns, **change})


def test_runs_of_one_seed_or_of_none_are_not_cross_fitted() -> None:
    columns = {"kept_size": [10, 10, 20, 20], "keep_fraction": [1.0, 0.5, 1.0, 0.5], "error": [0.4, 0.3, 0.2, 0.25]}
    for seed in (None, [7, 7, 7, 7]):
        found = pareto_frontier(**columns, seed=seed)
        assert not found.cross_fitted
        assert found.curve.error.tolist() == [0.3, 0.2]
