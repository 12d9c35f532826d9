"""The max-margin solver against hand-made examples, another algorithm, its own certificate and the laws of margins."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize, nnls

from paredown import PareError
from paredown.perceptron import MaxMargin, max_margin

EXACT = 1e-9  # the promised relative accuracy of the margin
CERTAIN = 1e-12  # what the certificate reaches on well-scaled data


def teacher_data(rng, n_examples, n_features):
    x = rng.standard_normal((n_examples, n_features))
    return x, np.where(x @ rng.standard_normal(n_features) < 0, -1.0, 1.0)


def margin_by_nnls(x, y):
    """The distance of the convex hull of y_i x_i from the origin, by nonnegative least squares: another algorithm."""
    system = np.vstack([(y[:, None] * x).T, np.ones(len(x))])
    solution, _ = nnls(system, np.append(np.zeros(x.shape[1]), 1.0), maxiter=100 * len(x))
    return np.linalg.norm((solution / solution.sum()) @ (y[:, None] * x))


def assert_kkt(result: MaxMargin, x, y, *, gap=CERTAIN):
    """Unit weights, the margin as stated and attained on the support, weights a combination of the support."""
    signed = y[:, None] * x
    margins = signed @ result.weights
    combination = result.multipliers @ signed[result.support]
    np.testing.assert_allclose(np.linalg.norm(result.weights), 1, rtol=1e-14)
    np.testing.assert_allclose(margins.min(), result.margin, rtol=1e-9)
    np.testing.assert_allclose(margins[result.support], result.margin, rtol=1e-5)
    assert (result.multipliers > 0).all()
    np.testing.assert_allclose(result.multipliers.sum(), 1, rtol=1e-14)
    np.testing.assert_allclose(combination / np.linalg.norm(combination), result.weights, atol=1e-5)
    bound = np.linalg.norm(combination)
    assert 0 <= result.gap <= gap
    assert (bound - result.margin) / bound <= result.gap + 1e-13


def test_two_points_facing_each_other():
    result = max_margin([[3.0, 4.0], [-3.0, -4.0]], [1, -1])
    np.testing.assert_allclose(result.weights, [0.6, 0.8], rtol=1e-15)
    assert result.margin == pytest.approx(5.0, rel=1e-15)


def test_a_triangle_whose_margin_is_a_height():
    # The signed examples are (1, 0), (0, 1) and (5, 5); the nearest point of their hull is (1/2, 1/2).
    result = max_margin([[1.0, 0.0], [0.0, -1.0], [5.0, 5.0]], [1, -1, 1])
    np.testing.assert_allclose(result.weights, np.sqrt([0.5, 0.5]), rtol=1e-15)
    assert result.margin == pytest.approx(np.sqrt(0.5), rel=1e-15)
    np.testing.assert_array_equal(result.support, [0, 1])
    np.testing.assert_allclose(result.multipliers, [0.5, 0.5], rtol=1e-15)


def test_one_dimension():
    result = max_margin([[2.0], [-0.25], [7.0]], [1, -1, 1])
    np.testing.assert_array_equal(result.weights, [1.0])
    assert (result.margin, result.n_support) == (0.25, 1)


def test_a_nearest_corner_supports_alone():
    result = max_margin([[1.0, 0.0], [-2.0, -3.0], [2.0, -3.0]], [1, -1, 1])
    np.testing.assert_allclose(result.weights, [1.0, 0.0], atol=1e-15)
    assert result.margin == pytest.approx(1.0, rel=1e-15)


def test_more_support_than_dimensions():
    x = np.array([[i, j] for i in range(-5, 6) for j in range(-5, 6) if i != 0], dtype=float)
    result = max_margin(x, np.sign(x[:, 0]))
    np.testing.assert_allclose(result.weights, [1.0, 0.0], atol=1e-9)
    assert result.margin == pytest.approx(1.0, rel=EXACT)


SIZES = [(5, 40), (40, 40), (30, 10), (200, 10), (3000, 10), (100, 50), (400, 50), (2000, 20), (300, 100)]


@pytest.mark.parametrize(("n_examples", "n_features"), SIZES)
def test_agrees_with_nonnegative_least_squares_and_satisfies_kkt(n_examples, n_features):
    x, y = teacher_data(np.random.default_rng(n_examples + n_features), n_examples, n_features)
    result = max_margin(x, y)
    assert result.margin == pytest.approx(margin_by_nnls(x, y), rel=EXACT)
    assert_kkt(result, x, y)


def test_agrees_with_sequential_quadratic_programming():
    x, y = teacher_data(np.random.default_rng(0), 30, 4)
    signed = y[:, None] * x
    constraint = {"type": "ineq", "fun": lambda w: signed @ w - 1, "jac": lambda w: signed}
    start = 100 * max_margin(x, y).weights + 1
    peer = minimize(lambda w: w @ w / 2, start, jac=lambda w: w, constraints=constraint, method="SLSQP", tol=1e-14)
    assert max_margin(x, y).margin == pytest.approx(1 / np.linalg.norm(peer.x), rel=EXACT)


def test_barely_separable_random_labels():
    """Just below the capacity of two examples per feature the margin is small and the solution delicate."""
    rng = np.random.default_rng(3)
    x, y = rng.standard_normal((185, 100)), np.where(rng.random(185) < 0.5, -1.0, 1.0)
    result = max_margin(x, y)
    assert result.margin == pytest.approx(margin_by_nnls(x, y), rel=EXACT)
    assert_kkt(result, x, y)


def test_repeated_examples_change_nothing():
    x, y = teacher_data(np.random.default_rng(1), 60, 10)
    once, thrice = max_margin(x, y), max_margin(np.repeat(x, 3, axis=0), np.repeat(y, 3))
    assert thrice.margin == pytest.approx(once.margin, rel=EXACT)
    np.testing.assert_allclose(thrice.weights, once.weights, atol=1e-6)


@pytest.mark.parametrize("scale", [1e-300, 1e-30, 1e30, 1e300])
def test_any_common_scale(scale):
    x, y = teacher_data(np.random.default_rng(2), 60, 10)
    assert max_margin(scale * x, y).margin / scale == pytest.approx(max_margin(x, y).margin, rel=EXACT)


def test_input_is_not_changed():
    x, y = teacher_data(np.random.default_rng(4), 20, 5)
    x_before, y_before = x.copy(), y.copy()
    max_margin(x, y)
    np.testing.assert_array_equal(x, x_before)
    np.testing.assert_array_equal(y, y_before)


def test_integers_and_float32_are_welcome():
    x = np.array([[2, 1], [-1, -2], [3, 0]])
    for dtype in (np.int64, np.float32):
        assert max_margin(x.astype(dtype), np.array([1, -1, 1])).margin == pytest.approx(3 / np.sqrt(2), rel=EXACT)


@st.composite
def problems(draw):
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n_features = draw(st.integers(2, 12))
    x, y = teacher_data(rng, draw(st.integers(2, 60)), n_features)
    y[0] = -y[1]  # both classes; sign of the input follows, so that the data stay separable
    teacher = rng.standard_normal(n_features)
    return x * (y * np.sign(x @ teacher))[:, None], y, rng


@settings(max_examples=50)
@given(problems(), st.floats(1e-3, 1e3))
def test_law_margin_scales_with_the_inputs(problem, scale):
    x, y, _ = problem
    once, scaled = max_margin(x, y), max_margin(scale * x, y)
    assert scaled.margin == pytest.approx(scale * once.margin, rel=EXACT)
    np.testing.assert_allclose(scaled.weights, once.weights, atol=1e-6)


@settings(max_examples=50)
@given(problems())
def test_law_order_and_mirroring_do_not_matter(problem):
    x, y, rng = problem
    order, mirror = rng.permutation(len(x)), rng.permutation(y)  # any signs that hold both classes
    once = max_margin(x, y)
    shuffled = max_margin(x[order], y[order])
    mirrored = max_margin(x * (y * mirror)[:, None], mirror)
    for other in (shuffled, mirrored):
        assert other.margin == pytest.approx(once.margin, rel=EXACT)
        np.testing.assert_allclose(other.weights, once.weights, atol=1e-6)


@settings(max_examples=50)
@given(problems(), st.floats(1.001, 100))
def test_law_an_example_beyond_the_margin_changes_nothing(problem, factor):
    x, y, rng = problem
    once = max_margin(x, y)
    extra = rng.standard_normal(x.shape[1])
    extra += (factor * once.margin - extra @ once.weights) * once.weights
    more = max_margin(np.vstack([x, extra]), np.append(y, 1.0))
    assert more.margin == pytest.approx(once.margin, rel=EXACT)
    np.testing.assert_allclose(more.weights, once.weights, atol=1e-6)


@settings(max_examples=50)
@given(problems())
def test_law_certificate(problem):
    x, y, _ = problem
    assert_kkt(max_margin(x, y), x, y, gap=EXACT)


def test_contradiction_is_not_separable_and_named():
    x, y = teacher_data(np.random.default_rng(5), 20, 30)
    x, y = np.vstack([x, x[7]]), np.append(y, -y[7])
    with pytest.raises(PareError, match=r"not separable.*convex combination of 2 of.*heaviest rows: (7, 20|20, 7)\b"):
        max_margin(x, y)


@pytest.mark.parametrize("n_examples", [50, 300])
def test_random_labels_beyond_capacity_are_not_separable(n_examples):
    rng = np.random.default_rng(6)
    x, y = rng.standard_normal((n_examples, 10)), np.where(rng.random(n_examples) < 0.5, -1, 1)
    with pytest.raises(PareError, match=r"not separable by a plane through the origin.*length [0-9.]+e-1[5-9]"):
        max_margin(x, y)


@pytest.mark.parametrize("x", [np.zeros((2, 3)), np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 0.0]])])
def test_a_zero_example_is_not_separable(x):
    with pytest.raises(PareError, match="not separable"):
        max_margin(x, [1, -1])


def test_hopeless_scaling_is_an_error_not_a_wrong_number():
    x, y = teacher_data(np.random.default_rng(0), 300, 20)
    with pytest.raises(PareError, match=r"not separable|could only be enclosed between"):
        max_margin(x * 10.0 ** np.random.default_rng(1).uniform(-8, 8, 300)[:, None], y)


@pytest.mark.parametrize(
    ("x", "y", "message"),
    [
        (np.zeros((0, 3)), [], r"at least one example and one feature, got shape \(0, 3\)"),
        (np.zeros((2, 0)), [1, -1], r"at least one example and one feature, got shape \(2, 0\)"),
        ([1.0, 2.0], [1, -1], r"x must have shape \(P, N\) and y shape \(P,\).*got \(2,\) and \(2,\)"),
        (np.ones((3, 2)), [1, -1], r"got \(3, 2\) and \(2,\)"),
        ([[1.0, np.nan], [1.0, 2.0]], [1, -1], r"x must be finite; 1 of its 2 rows hold NaN or infinity.*row 0"),
        ([[1.0, 1.0], [np.inf, 2.0]], [1, -1], r"x must be finite.*row 1"),
        ([[1.0], [2.0]], [1, 0], r"labels must be -1 or \+1, got 0 in row 1.*pass 2 \* y - 1"),
        ([[1.0], [2.0]], [1, np.nan], r"labels must be -1 or \+1, got nan in row 1"),
        ([[1.0], [2.0]], [1, 1], r"single class: all 2 labels are \+1"),
        ([["a"], ["b"]], [1, -1], r"x must be an array of real numbers"),
        ([[1.0], [2.0]], ["cat", "dog"], r"y must be an array of real numbers"),
    ],
)
def test_bad_input_is_a_clear_error(x, y, message):
    with pytest.raises(PareError, match=message):
        max_margin(x, y)
