from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import dblquad, quad
from scipy.stats import norm
from theory_reference import columns

import paredown as pdn
from paredown.theory import classical_constant, solve

EXACT = 1e-10  # the reference is good to about 1e-12; the promise is 1e-8 at theta = 0 and 1e-6 above
QUADRATURE = 2e-7  # what scipy's adaptive integrals reach on the printed equations in reasonable time


@pytest.mark.parametrize("theta", [0, 5, 20])
@pytest.mark.parametrize("strategy", ["hard", "easy"])
def test_every_reference_point(theta: float, strategy: str) -> None:
    table = columns("points")
    chosen = (table["theta"] == theta) & (table["strategy"] == strategy)
    found = solve(table["alpha_prune"][chosen], table["keep_fraction"][chosen], theta=theta, strategy=strategy)
    for name in ("test_error", "R", "rho", "kappa"):
        np.testing.assert_allclose(getattr(found, name), table[name][chosen], rtol=EXACT, err_msg=name)
    assert found.residual.max() < 1e-10


def test_reference_windows() -> None:
    table = columns("windows")
    found = solve(table["alpha_prune"], window=(table["a"], table["b"]))
    np.testing.assert_allclose(found.test_error, table["test_error"], rtol=EXACT)
    np.testing.assert_allclose(found.keep_fraction, 0.3, rtol=1e-9)


@pytest.mark.parametrize(("alpha", "f", "theta"), [(1.7, 0.35, 13.0), (0.6, 0.7, 55.0), (6.0, 0.2, 27.0)])
def test_boxed_equations_hold_by_independent_quadrature(alpha: float, f: float, theta: float) -> None:
    s = solve(alpha, f, theta=theta)
    R, rho, kappa, cos, sin2 = s.R, s.rho, s.kappa, np.cos(np.radians(theta)), np.sin(np.radians(theta)) ** 2
    lam, root = np.sqrt(sin2 - R**2 - rho**2 + 2 * rho * R * cos), np.sqrt(1 - rho**2)
    gamma = norm.isf((1 - f) / 2)

    def edge(t: float, z: float) -> float:
        delta = z * z * (rho**2 + cos**2 - 2 * rho * R * cos) + 2 * t * z * (R * cos - rho) + t * t * sin2
        return np.exp(-delta / (2 * lam**2)) * (kappa - t)

    def bulk(t: float, z: float) -> float:
        side = (z * (rho * R - cos) - t * (R - rho * cos)) / (root * lam)
        return norm.pdf((t - rho * z) / root) / root * norm.sf(side) * (kappa - t)

    def average(integrand: object) -> float:
        density = lambda t, z: integrand(t, z) * norm.pdf(z) / f  # type: ignore[operator]
        # scipy's adaptive rule sees the ridge only if the range is not much wider than it.
        return dblquad(density, -gamma, gamma, -7, kappa, epsabs=1e-8, epsrel=1e-8)[0]

    at_edge = average(edge)
    np.testing.assert_allclose(alpha / (np.pi * lam) * at_edge, (R - rho * cos) / sin2, rtol=QUADRATURE)
    second = 2 * alpha * average(lambda t, z: bulk(t, z) * (kappa - t))
    np.testing.assert_allclose(second, 1 - (rho**2 + R**2 - 2 * rho * R * cos) / sin2, rtol=QUADRATURE)
    third = average(lambda t, z: bulk(t, z) * (z - rho * t) / root**2)
    third += (rho * R - cos) / root**2 / (2 * np.pi * lam) * at_edge
    np.testing.assert_allclose(2 * alpha * third, (rho - R * cos) / sin2, rtol=QUADRATURE, atol=QUADRATURE)


@pytest.mark.parametrize(
    ("alpha", "a", "b"), [(0.8, 0.0, 0.4), (3.3, 0.25, 1.1), (12.0, 0.9, np.inf), (2.0, 0.0, 0.05)]
)
def test_window_equations_hold_by_independent_quadrature(alpha: float, a: float, b: float) -> None:
    s = solve(alpha, window=(a, b))
    R, f, root = s.R, s.keep_fraction, np.sqrt(1 - s.R**2)

    def integral(bracket: object, power: int) -> float:
        integrand = lambda t: norm.pdf(t) * bracket(t) * (s.kappa - t) ** power  # type: ignore[operator]
        return quad(integrand, -12, s.kappa, epsabs=1e-13, epsrel=1e-12, limit=500)[0]

    first = integral(lambda t: norm.pdf((a - R * t) / root) - norm.pdf((b - R * t) / root), 1)
    np.testing.assert_allclose(2 * alpha / (f * root) * first, R, rtol=1e-9)
    second = integral(lambda t: norm.sf((a - R * t) / root) - norm.sf((b - R * t) / root), 2)
    np.testing.assert_allclose(2 * alpha / f * second, 1 - R**2, rtol=1e-9)


def test_classical_limit() -> None:
    np.testing.assert_allclose(classical_constant(), 0.5004889317774, rtol=1e-12)
    np.testing.assert_allclose(1e5 * solve(1e5, 1.0).test_error, 0.5004889317774, rtol=1e-8)


def test_without_pruning_the_probe_does_not_matter() -> None:
    everything = solve(3.0, 1.0, theta=[0.0, 7.0, 45.0, 90.0])
    np.testing.assert_array_equal(everything.test_error, solve(3.0, strategy="random").test_error)
    np.testing.assert_allclose(everything.rho, everything.R * np.cos(np.radians([0, 7, 45, 90])), atol=1e-15)


@pytest.mark.parametrize("strategy", ["hard", "easy"])
def test_small_angles_approach_the_perfect_probe_quadratically(strategy: str) -> None:
    s = solve(2.0, 0.4, theta=[0.0, 0.02, 0.04, 0.08], strategy=strategy)
    shift = s.test_error[1:] - s.test_error[0]
    np.testing.assert_allclose(shift[1:] / shift[:-1], 4.0, rtol=2e-3)


def test_a_probe_at_a_right_angle_has_no_overlap_with_the_student() -> None:
    for strategy in ("hard", "easy"):
        np.testing.assert_allclose(solve(2.0, 0.3, theta=90, strategy=strategy).rho, 0.0, atol=1e-12)


@pytest.mark.parametrize(("f", "alpha"), [(0.8, 7.73), (0.6, 2.96), (0.4, 2.30), (0.2, 2.07), (0.1, 2.01)])
def test_hard_and_easy_cross(f: float, alpha: float) -> None:
    at = np.array([alpha - 0.005, alpha + 0.005])
    difference = solve(at, f).test_error - solve(at, f, strategy="easy").test_error
    assert difference[0] > 0 > difference[1]


def test_error_vanishes_with_the_fraction_above_alpha_two() -> None:
    f = np.array([1e-3, 1e-4])
    above, at = solve(3.0, f).test_error, solve(2.0, f).test_error
    np.testing.assert_allclose(above[0] / above[1], 10.0, rtol=1e-2)
    np.testing.assert_allclose(at[0] / at[1], 10 ** (1 / 3), rtol=1e-2)


@pytest.mark.parametrize("theta", [0.0, 25.0])
def test_a_given_density_equals_the_strategy_it_describes(theta: float) -> None:
    gamma = norm.isf(0.25)
    hard = solve(1.5, density=lambda z: np.where(z < gamma, norm.pdf(z), 0.0), breaks=[gamma], theta=theta)
    easy = solve(1.5, density=lambda z: 7 * np.where(z > gamma, norm.pdf(z), 0.0), breaks=[gamma], theta=theta)
    np.testing.assert_allclose(hard.test_error, solve(1.5, 0.5, theta=theta).test_error, rtol=1e-11)
    np.testing.assert_allclose(easy.test_error, solve(1.5, 0.5, theta=theta, strategy="easy").test_error, rtol=1e-11)
    assert np.isnan(hard.alpha_tot)


def test_scalars_give_floats_and_arrays_broadcast() -> None:
    one = solve(alpha_prune=2.0, keep_fraction=0.5, theta=10.0, strategy="hard")
    assert all(
        type(getattr(one, name)) is float for name in ("R", "rho", "kappa", "test_error", "residual", "alpha_tot")
    )
    grid = solve([[1.0], [2.0]], [0.5, 1.0, 0.2], theta=10.0)
    assert grid.test_error.shape == grid.alpha_tot.shape == (2, 3)
    np.testing.assert_allclose(grid.test_error[1, 0], one.test_error, rtol=1e-13)
    np.testing.assert_allclose(
        solve(alpha_tot=4.0, keep_fraction=0.5, theta=10.0).test_error, one.test_error, rtol=1e-13
    )
    assert solve(np.zeros((0,)) + 1, 0.5).test_error.shape == (0,)


ALPHA = st.floats(0.05, 200)
FRACTION = st.floats(0.01, 0.99)
ANGLE = st.floats(0, 90)


@settings(max_examples=40)
@given(alpha=ALPHA, f=FRACTION, theta=ANGLE)
def test_ends_are_windows(alpha: float, f: float, theta: float) -> None:
    for end in ("hard", "easy"):
        kept = solve(alpha, f, theta=theta, strategy=end)
        same = solve(alpha, window=kept.window, theta=theta)
        np.testing.assert_allclose(same.test_error, kept.test_error, rtol=1e-9)


@settings(max_examples=40)
@given(alpha=ALPHA, f=FRACTION, theta=ANGLE, strategy=st.sampled_from(["hard", "easy"]))
def test_student_is_a_unit_vector_with_positive_margin(alpha: float, f: float, theta: float, strategy: str) -> None:
    s = solve(alpha, f, theta=theta, strategy=strategy)
    assert 0 < s.test_error < 0.5
    assert s.kappa > 0
    np.testing.assert_allclose(s.test_error, np.arccos(s.R) / np.pi, rtol=1e-6)
    angle = np.radians(theta)
    in_plane = s.R**2 + (s.rho - s.R * np.cos(angle)) ** 2 / np.sin(angle) ** 2 if theta > 1 else s.R**2
    assert in_plane < 1 + 1e-12


@settings(max_examples=20)
@given(alpha=ALPHA, factor=st.floats(1.01, 3))
def test_more_random_examples_help(alpha: float, factor: float) -> None:
    assert solve(alpha * factor, 1.0).test_error < solve(alpha, 1.0).test_error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"keep_fraction": 1.2}, r"keep_fraction must be in \(0, 1\], got 1.2"),
        ({"keep_fraction": 0.0}, r"keep_fraction must be in \(0, 1\], got 0"),
        ({"keep_fraction": float("nan")}, "keep_fraction must be in .* got nan"),
        ({"keep_fraction": "half"}, "keep_fraction must be a number"),
        ({"keep_fraction": 0.5, "theta": 91}, "theta is the angle .* 0 to 90, got 91"),
        ({"keep_fraction": 0.5, "theta": -1}, "theta is the angle .* got -1"),
        ({"keep_fraction": 0.5, "alpha_prune": 0}, "alpha_prune must be finite and above 0, got 0"),
        ({"keep_fraction": 0.5, "alpha_prune": [1, float("inf")]}, "alpha_prune must be finite .* got inf"),
        ({"keep_fraction": 0.5, "alpha_tot": 3}, "either alpha_prune .* or alpha_tot"),
        ({"keep_fraction": 0.5, "strategy": "hrad"}, "unknown strategy 'hrad'; available: .*Did you mean 'hard'"),
        ({}, "strategy 'hard' needs keep_fraction="),
        ({"strategy": "window"}, "strategy 'window' needs window="),
        ({"strategy": "hard", "window": (0, 1)}, "strategy 'hard' takes no window"),
        ({"window": (1, 0.5)}, r"window must have 0 <= a < b, got \(1, 0.5\)"),
        ({"window": 3}, "window must be a pair"),
        ({"window": (0.1, 0.2), "keep_fraction": 0.5}, "keep_fraction is 0.5 but the window holds a fraction 0.0788"),
        ({"window": (9, 10)}, "the window holds a fraction .* widen it"),
        ({"density": lambda z: -z}, "density must be finite, nowhere negative"),
        ({"density": lambda z: 1 / (1 + z)}, "density is not over by"),
        ({"density": lambda z: 1.0}, "one value for each"),
        ({"density": lambda z: np.where(z < 1.1234, 1.0, 0.0)}, "name the jumps of the density in breaks="),
    ],
)
def test_mistakes_are_explained(arguments: dict, message: str) -> None:
    with pytest.raises(pdn.PareError, match=message):
        solve(**{"alpha_prune": 2.0, **({"alpha_prune": 2.0} | arguments)})


@pytest.mark.parametrize(
    ("alpha", "fraction", "theta", "strategy"),
    [
        (2.28421, 0.604296, 0.0, "easy"),
        (2.46915, 0.149521, 0.0, "easy"),
        (0.156885, 0.745579, 0.0, "hard"),
        (0.150902, 0.0568468, 26.8992, "easy"),
    ],
)
def test_a_first_guess_that_hits_the_direction_is_no_dead_end(alpha, fraction, theta, strategy) -> None:
    # Found by solving 200 000 random points: the gradient at a rough slack then points away from the solution.
    assert pdn.theory.solve(alpha, fraction, theta=theta, strategy=strategy).residual < 1e-10
