from __future__ import annotations

import numpy as np
import pytest
from scipy.special import gammaln
from theory_reference import columns

import paredown as pdn
from paredown.theory import (
    best_keep_fraction,
    better_strategy,
    fit_frontier,
    gardner_margin,
    large_alpha_error,
    minimum_keep_fraction,
    optimal_delta,
    optimal_window,
    pareto_frontier,
    phase_diagram,
    solve,
)


@pytest.mark.parametrize(
    ("table", "options"),
    [
        ("frontier_theta0", {}),
        ("frontier_theta0_at_least_0.1", {"min_keep_fraction": 0.1}),
        ("frontier_theta10", {"theta": 10.0}),
    ],
)
def test_frontiers(table: str, options: dict) -> None:
    expected = columns(table)
    found = pareto_frontier(expected["alpha_prune"], **options)
    np.testing.assert_allclose(found.test_error, expected["test_error"], rtol=5e-8)
    np.testing.assert_allclose(found.keep_fraction, expected["keep_fraction"], rtol=2e-4)  # the optimum is flat
    np.testing.assert_allclose(found.alpha_tot, found.alpha_prune / found.keep_fraction)
    first = next(iter(found))
    assert first.test_error == found.test_error[0]
    assert first._fields == ("alpha_prune", "keep_fraction", "alpha_tot", "test_error")
    assert len(list(found)) == len(found) == len(expected["alpha_prune"])


def test_frontier_limits() -> None:
    free = pareto_frontier([2.0, 5.0])
    np.testing.assert_array_equal(free.test_error, 0)
    np.testing.assert_array_equal(free.keep_fraction, 0)
    assert np.isinf(free.alpha_tot).all()
    held = pareto_frontier([2.5, 5.0], max_alpha_tot=20.0)
    np.testing.assert_allclose(held.keep_fraction, [0.125, 0.25])
    assert held.at_limit.all()
    np.testing.assert_allclose(held.test_error, solve([2.5, 5.0], [0.125, 0.25]).test_error)
    with pytest.raises(pdn.PareError, match="alpha_prune 5 is above max_alpha_tot 4"):
        pareto_frontier(5.0, max_alpha_tot=4.0)


def test_optimal_windows() -> None:
    table = {name: column[::3] for name, column in columns("optimal_window").items()}
    for alpha, f, a, b, error in zip(*table.values(), strict=True):
        found = optimal_window(alpha, f)
        np.testing.assert_allclose(found.test_error, error, rtol=1e-9)
        np.testing.assert_allclose(found.window[0], a, atol=3e-4)
        np.testing.assert_allclose(solve(alpha, window=found.window).keep_fraction, f, rtol=1e-6)
        assert found.test_error <= min(found.hard_error, found.easy_error)
        assert found.window[1] > b - 0.05
    assert optimal_window(2.0, 1.0).window == (0.0, np.inf)


def test_delta_is_the_limit_of_a_thin_window() -> None:
    delta = optimal_delta(1.0)
    assert delta.position == np.inf
    np.testing.assert_allclose(delta.error_at(2.0), solve(1.0, window=(1.9999, 2.0001)).test_error, rtol=1e-4)
    np.testing.assert_allclose(gardner_margin(2.0), 0.0, atol=1e-12)
    assert optimal_delta(3.0).error_at(0.5) == 0
    assert np.isnan(optimal_delta(3.0).position)


def test_better_strategy_is_a_string_with_numbers() -> None:
    choice = better_strategy(4.0, 0.5)
    assert choice == "easy"
    assert isinstance(choice, str)
    np.testing.assert_allclose(choice.difference, choice.easy_error - choice.hard_error)
    assert choice.difference < 0
    np.testing.assert_array_equal(better_strategy([2.0, 100.0], 0.5), ["easy", "hard"])


def test_phase_diagram() -> None:
    diagram = phase_diagram([2.0, 100.0], [0.2, 0.5, 0.8])
    assert diagram.difference.shape == (2, 3)
    np.testing.assert_array_equal(diagram.better[:, 1], ["easy", "hard"])
    np.testing.assert_allclose(diagram.hard_error[1, 0], solve(alpha_tot=100.0, keep_fraction=0.2).test_error)


def test_minimum_keep_fraction() -> None:
    table = columns("minimum_keep_fraction")
    np.testing.assert_allclose(minimum_keep_fraction(table["theta"]), table["keep_fraction"], rtol=1e-10)
    assert [round(100 * f) for f in minimum_keep_fraction([10, 20])] == [24, 46]
    np.testing.assert_allclose(minimum_keep_fraction(1e-3) / np.radians(1e-3), np.sqrt(6 / np.pi), rtol=1e-6)
    assert (minimum_keep_fraction(0.0), minimum_keep_fraction(90.0)) == (0.0, 1.0)


def test_large_alpha_law() -> None:
    f = np.array([1.0, 0.4, 0.1, 0.05])
    for theta, agreement in ((10.0, 1e-5), (20.0, 1e-4), (60.0, 1e-3)):
        exact = solve(1e4, f, theta=theta).test_error
        np.testing.assert_allclose(large_alpha_error(1e4, f, theta=theta), exact, rtol=agreement)
    easy = solve(1e5, 0.7, theta=50.0, strategy="easy").test_error
    np.testing.assert_allclose(large_alpha_error(1e5, 0.7, theta=50.0, strategy="easy"), easy, rtol=1e-3)
    # The law keeps falling below f_min, down to sin(theta) of the classical error.
    np.testing.assert_allclose(
        large_alpha_error(1.0, 1e-6, theta=10.0) / large_alpha_error(1.0), np.sin(np.radians(10)), rtol=1e-6
    )
    with pytest.raises(pdn.PareError, match="knows the strategies"):
        large_alpha_error(1.0, strategy="window")


def test_best_keep_fraction() -> None:
    by_budget = best_keep_fraction(alpha_prune=3.0, theta=10.0)
    np.testing.assert_allclose(by_budget.keep_fraction, 0.2778346, rtol=1e-4)
    by_data = best_keep_fraction(alpha_tot=10.0, theta=20.0)
    np.testing.assert_allclose(by_data.test_error, 1.01 * solve(10.0, 1.0).test_error, rtol=1e-6)
    assert 0.6 < by_data.keep_fraction < 0.75
    held = best_keep_fraction(alpha_tot=10.0, theta=20.0, min_keep_fraction=0.9)
    assert (held.keep_fraction, held.at_limit) == (pytest.approx(0.9), True)
    with pytest.raises(pdn.PareError, match="give either alpha_tot"):
        best_keep_fraction()


def test_fits_recover_their_own_form() -> None:
    alpha = np.linspace(0.5, 4, 30)
    made = {
        "power law": 0.3 * alpha**-1.7,
        "exponential": 0.3 * np.exp(-2.1 * alpha),
        "factorial": 0.3 / np.exp(gammaln(1.5 * alpha + 1)),
    }
    for form, error in made.items():
        fits = fit_frontier(alpha, error)
        assert next(iter(fits)) == form
        np.testing.assert_allclose([fits[form].amplitude, fits[form].r_squared], [0.3, 1.0], rtol=1e-5)
    np.testing.assert_allclose(fit_frontier(alpha, made["power law"])["power law"].rate, 1.7)
    frontier = pareto_frontier(np.linspace(0.5, 3, 20), min_keep_fraction=0.1)
    fits = fit_frontier(frontier.alpha_prune, frontier.test_error)
    assert fits["exponential"].r_squared > fits["power law"].r_squared
    with pytest.raises(pdn.PareError, match="three or more points"):
        fit_frontier([1.0, 2.0], [0.1, 0.2])
