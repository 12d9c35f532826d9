"""Laws of known curves are found again, with intervals that cover, and are not named where nobody could tell."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import least_squares

from paredown import PareError, theory
from paredown.laws import (
    LAWS,
    Doubt,
    LawVerdict,
    PowerLawVerdict,
    beats_power_law,
    compare,
    curve,
    fit,
    local_exponents,
)

pytestmark = pytest.mark.filterwarnings("ignore:beats_power_law judges:DeprecationWarning")
SIZES = np.geomspace(100, 10_000, 8)
# Amplitude, rate and asymptote of a curve of each law over SIZES.
TRUE = {
    "power": (3.0, 0.5, 0.0),
    "power with asymptote": (3.0, 0.5, 0.05),
    "exponential": (0.5, 3e-4, 0.0),
    "exponential with asymptote": (0.5, 5e-4, 0.03),
    "factorial": (0.5, 4e-4, 0.0),
    "iterated factorial": (0.5, 4e-4, 0.0),
}


def true_error(name, sizes=SIZES):
    return LAWS[name].predict(sizes, *TRUE[name])


def noisy(error, sizes, rng, *, noise=0.03, seeds=5):
    """Runs of several seeds, with relative noise."""
    runs = error[:, None] * np.exp(noise * rng.standard_normal((len(sizes), seeds)))
    return curve(np.repeat(sizes, seeds), runs.ravel())


@pytest.mark.parametrize("name", LAWS)
def test_exact_curves_give_back_their_parameters(name) -> None:
    found = fit(curve(SIZES, true_error(name)), name, draws=2)
    values = [estimate.value for estimate in found.parameters.values()]
    np.testing.assert_allclose(values, TRUE[name][: len(values)], rtol=1e-6)
    np.testing.assert_allclose(found.predict([5.0, 50_000.0]), true_error(name, np.array([5.0, 50_000.0])), rtol=1e-4)
    assert found.rms_log_error < 1e-8
    np.testing.assert_allclose(found.r_squared, 1.0)


@pytest.mark.parametrize("name", ["power with asymptote", "exponential with asymptote", "factorial"])
def test_the_fast_fit_is_the_weighted_least_squares_of_scipy(name, rng) -> None:
    error, stderr = true_error(name) * np.exp(0.05 * rng.standard_normal(8)), np.linspace(0.01, 0.1, 8)
    found = fit(curve(SIZES, error, stderr=error * stderr), name, draws=2)

    def residuals(p):
        a, b, c = (*np.exp(p), 0.0)[:3]
        return np.log(error / LAWS[name].predict(SIZES, a, b, c)) / stderr

    start = np.log([value for value in TRUE[name] if value])
    slow = least_squares(residuals, start, xtol=1e-14, ftol=1e-14, gtol=1e-14)
    np.testing.assert_allclose(found.chi_squared, 2 * slow.cost, rtol=1e-7)
    np.testing.assert_allclose([e.value for e in found.parameters.values()], np.exp(slow.x), rtol=1e-4)


@pytest.mark.parametrize(
    ("name", "seeds", "repetitions"), [("power", 3, 200), ("exponential", 5, 200), ("power with asymptote", 5, 60)]
)
def test_intervals_cover_the_truth(name, seeds, repetitions, rng) -> None:
    inside = np.zeros(len(LAWS[name].names))
    for _ in range(repetitions):
        found = fit(noisy(true_error(name), SIZES, rng, noise=0.05, seeds=seeds), name, draws=100)
        inside += [e.low <= true <= e.high for e, true in zip(found.parameters.values(), TRUE[name], strict=False)]
    assert ((inside / repetitions >= 0.85) & (inside / repetitions <= 1)).all()


def test_intervals_cover_when_means_are_given(rng) -> None:
    error, inside = true_error("power"), {"known": 0, "unknown": 0}
    for _ in range(200):
        measured = error * np.exp(0.02 * rng.standard_normal(8))
        for noise, stderr in (("known", 0.02 * error), ("unknown", None)):
            nu = fit(curve(SIZES, measured, stderr=stderr), draws=200)["nu"]
            inside[noise] += nu.low <= 0.5 <= nu.high
    assert all(0.85 <= count / 200 <= 1 for count in inside.values())


def test_predictions_come_with_limits(rng) -> None:
    found = fit(noisy(true_error("power"), SIZES, rng), "power")
    low, high = found.predict_interval([1000, 1e6])
    middle = found.predict([1000, 1e6])
    assert ((low < middle) & (middle < high)).all()
    assert high[1] / low[1] > 2 * (high[0] / low[0] - 1) + 1  # far beyond the data less is known


@settings(max_examples=30)
@given(
    scale=st.floats(1e-3, 1e6),
    factor=st.floats(1e-2, 1.0),
    name=st.sampled_from(["power", "power with asymptote"]),
    seed=st.integers(0, 100),
)
def test_units_leave_the_exponent_alone(scale, factor, name, seed) -> None:
    made = np.random.default_rng(seed)
    sizes, errors = np.repeat(SIZES, 3), np.repeat(true_error(name), 3) * np.exp(0.03 * made.standard_normal(24))
    here, there = fit(curve(sizes, errors), name, draws=50), fit(curve(scale * sizes, factor * errors), name, draws=50)
    for limit in ("value", "low", "high"):
        np.testing.assert_allclose(getattr(there["nu"], limit), getattr(here["nu"], limit), rtol=1e-3)
    np.testing.assert_allclose(there.aicc, here.aicc, rtol=1e-6)


def test_laws_are_named(rng) -> None:
    for name in ("power", "power with asymptote", "exponential", "exponential with asymptote"):
        verdicts = Counter(compare(noisy(true_error(name), SIZES, rng), draws=20).law for _ in range(2))
        assert verdicts[name] == 2, (name, verdicts)


def test_a_verdict_has_its_numbers(rng) -> None:
    found = compare(noisy(true_error("power"), SIZES, rng), draws=50)
    assert (found.verdict, found.law, found.runner_up) == (LawVerdict.NAMED, "power", "exponential with asymptote")
    assert found.weight > 0.99
    assert found.faster_than_power < 0.01
    assert found.difference.low < found.difference.value < found.difference.high
    assert found.difference.value > 6
    assert found.sentence.startswith("Power, a n^-nu: a = ")
    assert f"{found.difference:.3g}" in found.sentence
    np.testing.assert_allclose(sum(c.weight for c in found.contenders.values()), 1.0)
    assert found.contenders["power"].left_out_error < found.contenders["exponential"].left_out_error


def test_left_out_sizes_are_predicted_from_the_others(rng) -> None:
    errors = true_error("power") * np.exp(0.05 * rng.standard_normal(8))
    found = compare(curve(SIZES, errors, stderr=0.05 * errors), draws=2).contenders["exponential"]
    misses = []
    for i in range(8):
        others = curve(np.delete(SIZES, i), np.delete(errors, i), stderr=0.05 * np.delete(errors, i))
        misses.append(np.log(errors[i] / fit(others, "exponential", draws=2).predict(SIZES[i])[0]))
    np.testing.assert_allclose(found.left_out_error, np.sqrt(np.mean(np.square(misses))))


@pytest.mark.parametrize(
    ("sizes", "noise"),
    [(np.geomspace(5000, 7000, 6), 0.03), (np.geomspace(1000, 3000, 4), 0.1), (SIZES[3:], 0.6)],
    ids=["narrow range", "few points", "large noise"],
)
def test_nobody_can_tell(sizes, noise, rng) -> None:
    error = true_error("power", sizes)
    verdicts = Counter(compare(noisy(error, sizes, rng, noise=noise), draws=2).verdict for _ in range(5))
    assert verdicts[LawVerdict.CANNOT_TELL] >= 4, verdicts


def test_without_noise_few_sizes_are_too_few() -> None:
    found = compare(curve(SIZES[::2], true_error("power")[::2]), draws=2)
    assert (found.verdict, found.doubt) == (LawVerdict.CANNOT_TELL, Doubt.NOISE_UNKNOWN)
    five = compare(curve(SIZES[:5], true_error("power")[:5] * [1.01, 1, 0.99, 1, 1.01]), draws=2)
    assert np.isfinite(five.contenders["power"].fit.aicc)
    assert np.isinf(five.contenders["power with asymptote"].fit.aicc)


def test_a_crossing_is_no_single_law(rng) -> None:
    sizes = np.geomspace(100, 30_000, 9)
    error = 0.4 * np.exp(-sizes / 1500) + 0.02 * (sizes / 1500) ** -0.5 / (1 + (1500 / sizes) ** 2)
    measured = noisy(error, sizes, rng, noise=0.01)
    found = compare(measured, draws=2)
    assert found.verdict is LawVerdict.NONE_FITS
    slopes = local_exponents(measured)
    steepest = int(slopes.exponent.argmax())
    assert 0 < steepest < len(slopes) - 1
    assert slopes.low[steepest] > slopes.high[0]
    assert slopes.low[steepest] > slopes.high[-1]
    assert slopes.low[-1] < 0.5 < slopes.high[-1] + 0.1  # ends as the power law


def test_aicc_is_that_of_the_regression_on_all_runs(rng) -> None:
    """With equal noise at all sizes: N log(RSS / N) + 2 p + correction, up to a constant that all laws share."""
    runs = np.exp(0.05 * rng.standard_normal((8, 2)))
    runs = true_error("power")[:, None] * np.stack([runs[:, 0], 2 - runs[:, 0]], axis=1)
    runs *= (1 + 0.1 * np.linspace(-1, 1, 8) ** 2)[:, None]
    made = curve(np.repeat(SIZES, 2), runs.ravel())
    assert made.freedom == 8
    loss = {name: fit(made, name, draws=2).chi_squared for name in ("power", "exponential")}
    values = {name: fit(made, name, draws=2).aicc for name in loss}
    expected = 16 * np.log((loss["exponential"] + 8) / (loss["power"] + 8))
    np.testing.assert_allclose(values["exponential"] - values["power"], expected)


def test_local_exponents_of_a_power_law_and_their_coverage(rng) -> None:
    exact = local_exponents(curve(SIZES, true_error("power")))
    np.testing.assert_allclose(exact.exponent, 0.5)
    np.testing.assert_allclose(exact.size, np.sqrt(SIZES[1:] * SIZES[:-1]))
    assert np.isnan(exact.low).all()
    inside = 0
    for _ in range(100):
        found = local_exponents(noisy(true_error("power"), SIZES, rng), span=3, draws=200)
        inside += int(((found.low <= 0.5) & (found.high >= 0.5)).sum())
    assert 0.85 <= inside / 600 <= 1


def test_paired_seeds_are_drawn_together(rng) -> None:
    """A factor common to all runs of a seed moves the amplitude and says nothing about the exponent."""
    common = np.exp(0.3 * rng.standard_normal(6))
    runs = true_error("power")[:, None] * common
    sizes, seeds = np.repeat(SIZES, 6), np.tile(np.arange(6), 8)
    nu = fit(curve(sizes, runs.ravel(), seed=seeds, paired=True))["nu"]
    assert nu.high - nu.low < 1e-9
    alone = fit(curve(sizes, runs.ravel()))["nu"]
    assert alone.high - alone.low > 0.02


def test_beating_the_power_law(rng) -> None:
    power, exponential = true_error("power"), 0.3 * np.exp(-3e-4 * SIZES)
    random = noisy(power, SIZES, rng)
    found = beats_power_law(noisy(exponential, SIZES, rng), random, draws=40)
    assert found.verdict is PowerLawVerdict.BEATS
    assert found.gain.low > 0.5
    assert found.aicc_difference > 10
    assert found.sentence.startswith("Beats the power law: the frontier ends with exponent ")
    steeper = beats_power_law(noisy(30 * SIZES**-0.9, SIZES, rng), random, draws=40)
    assert steeper.verdict is PowerLawVerdict.STEEPER
    assert 0.3 < steeper.gain.low < steeper.gain.value < steeper.gain.high < 0.5


def test_not_beating_the_power_law(rng) -> None:
    power, exponential = true_error("power"), 0.3 * np.exp(-3e-4 * SIZES)
    random = noisy(power, SIZES, rng)
    same = beats_power_law(noisy(power, SIZES, rng), random, draws=40)
    assert same.verdict in (PowerLawVerdict.CANNOT_TELL, PowerLawVerdict.NOT_STEEPER)
    flat = beats_power_law(noisy(SIZES**-0.1, SIZES, rng), random, draws=40)
    assert flat.verdict is PowerLawVerdict.NOT_STEEPER
    falling = beats_power_law(noisy(exponential**2, SIZES, rng), noisy(exponential, SIZES, rng), draws=40)
    assert falling.doubt is Doubt.RANDOM_FALLS_FASTER
    unknown = beats_power_law(curve(SIZES, exponential), curve(SIZES, power), draws=2)
    assert (unknown.verdict, unknown.doubt) == (PowerLawVerdict.CANNOT_TELL, Doubt.NOISE_UNKNOWN)


def test_the_theory_beats_its_power_law(rng) -> None:
    alpha = np.geomspace(0.5, 3.0, 9)
    frontier = theory.pareto_frontier(alpha, min_keep_fraction=0.1).test_error
    random = theory.solve(alpha, 1.0).test_error
    found = beats_power_law(noisy(frontier, alpha, rng), noisy(random, alpha, rng), draws=40)
    assert found.gain.low > 0
    assert found.aicc_difference > 10
    assert found.weight > 0.99
    far = np.geomspace(100, 10_000, 6)
    nu = fit(curve(far, theory.solve(far, 1.0).test_error), draws=20)["nu"]
    np.testing.assert_allclose(nu.value, 1.0, atol=1e-3)
    slopes = local_exponents(curve(alpha, random)).exponent
    assert (np.diff(slopes) > 0).all()
    assert slopes[-1] < 1


def test_with_an_imperfect_probe_the_theory_ends_in_a_power_law() -> None:
    """Theta of 20 degrees: a frontier steeper than 1 in between, and exponent 1 in the end."""
    alpha = np.array([1.0, 2.0, 3.0, 1000.0, 2000.0])
    slopes = local_exponents(curve(alpha, theory.pareto_frontier(alpha, theta=20.0, min_keep_fraction=0.05).test_error))
    assert slopes.exponent.max() > 1.1
    np.testing.assert_allclose(slopes.exponent[-1], 1.0, atol=0.02)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: fit(curve([1, 2, 3], [3, 2, 1])), r"needs 4 or more different sizes, got 3: 1, 2, 3\. Measure"),
        (lambda: fit(curve([5] * 6, [0.1] * 6)), "needs 4 or more different sizes, got 1: 5"),
        (lambda: curve([1, 2], [0.1, 0.0]), r"error must be finite and above 0, got 0 in row 1\. A law of log error"),
        (lambda: curve([1, 2], [np.nan, 0.1]), r"error must be finite and above 0, got nan in row 0\. Leave the row"),
        (lambda: curve([1, -2], [0.2, 0.1]), "size must be finite and above 0, got -2 in row 1"),
        (lambda: curve([], []), "size is empty"),
        (lambda: curve(["a"], [1]), "size must be numbers"),
        (lambda: curve([1, 2], [0.2]), "one value per row, got 2 of size and 1 of error"),
        (lambda: curve([1, 1], [0.2, 0.1], stderr=[0.1, 0.1]), "size 1 comes more than once, but stderr was given"),
        (lambda: curve([1, 2], [0.2, 0.1], stderr=[0.1, 0.0]), "stderr must be .* Leave stderr out where"),
        (lambda: curve([1, 2], [0.2, 0.1], paired=True), "paired runs need `seed`"),
        (lambda: curve([1, 2], [0.2, 0.1], seed=[0, 1], paired=True), "got 0 rows of seed 1 at size 1"),
        (lambda: fit(curve(SIZES, SIZES**-0.5), "powr"), "unknown law 'powr'; .* Did you mean 'power'"),
        (lambda: compare(curve(SIZES, SIZES**-0.5), ["power"]), "two families or more, got power"),
        (lambda: local_exponents(curve(SIZES, SIZES**-0.5), span=1), "span must be 2 or more sizes, got 1"),
    ],
)
def test_mistakes_are_answered(call, message) -> None:
    with pytest.raises(PareError, match=message):
        call()
