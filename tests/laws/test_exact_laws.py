"""Laws by hand: formulas against their definitions, defaults, repeatability, thresholds of verdicts, and words."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from paredown.errors import PareError
from paredown.laws import LAWS, LawComparison, beats_power_law, compare, curve, fit, local_exponents
from paredown.laws import exponents as exponents_module
from paredown.laws import law_comparison as comparing_module
from paredown.laws.curves import BOOTSTRAP, Curve, Estimate, from_runs, interval
from paredown.laws.fitting import information_criterion, weights
from paredown.laws.law_verdicts import Doubt, LawVerdict, PowerLawVerdict
from paredown.laws.least_squares import solve

pytestmark = pytest.mark.filterwarnings("ignore:beats_power_law judges:DeprecationWarning")
SIZES = np.array([100.0, 200.0, 400.0, 800.0, 1600.0])


def runs_of(errors: Any, rng: np.random.Generator, noise: float = 0.02, seeds: int = 4) -> Curve:
    errors = np.asarray(errors)
    runs = errors[:, None] * np.exp(noise * rng.standard_normal((len(errors), seeds)))
    return curve(np.repeat(SIZES[: len(errors)], seeds), runs.ravel())


# --- formulas ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1, 2, 3, 5])
def test_laws_are_what_their_formulas_say(n: int) -> None:
    size = np.array([float(n)])
    assert LAWS["power"].predict(size, 3.0, 0.5, 0.0)[0] == pytest.approx(3 * n**-0.5)
    assert LAWS["power with asymptote"].predict(size, 3.0, 0.5, 0.1)[0] == pytest.approx(3 * n**-0.5 + 0.1)
    assert LAWS["exponential"].predict(size, 3.0, 0.5, 0.0)[0] == pytest.approx(3 * math.exp(-0.5 * n))
    assert LAWS["exponential with asymptote"].predict(size, 3.0, 0.5, 0.1)[0] == pytest.approx(
        3 * math.exp(-0.5 * n) + 0.1
    )
    assert LAWS["factorial"].predict(size, 3.0, 1.0, 0.0)[0] == pytest.approx(3 / math.factorial(n))
    product = math.prod(math.factorial(k) for k in range(1, n + 1))
    assert LAWS["iterated factorial"].predict(size, 3.0, 1.0, 0.0)[0] == pytest.approx(3 / product)


def test_iterated_factorials_are_straight_between_whole_numbers() -> None:
    law = LAWS["iterated factorial"]
    logs = np.log(law.predict(np.array([2.0, 2.5, 3.0]), 1.0, 1.0, 0.0))
    assert logs[1] == pytest.approx((logs[0] + logs[2]) / 2)


def test_which_laws_have_an_asymptote() -> None:
    assert {name for name, law in LAWS.items() if law.asymptote} == {
        "power with asymptote",
        "exponential with asymptote",
    }


# --- curves ------------------------------------------------------------------------------------------------------


def test_a_curve_in_words() -> None:
    assert repr(curve([100, 200], [0.5, 0.25])) == "Curve(2 sizes from 100 to 200, unknown noise)"
    given = curve([200, 100, 400], [0.5, 0.2, 0.1], stderr=[0.05, 0.01, 0.002])
    assert repr(given) == "Curve(3 sizes from 100 to 400, relative noise 0.05)"
    assert given.error.tolist() == [0.2, 0.5, 0.1]  # by size
    assert given.freedom == np.inf
    np.testing.assert_allclose(given.log_stderr, [0.05, 0.1, 0.02])
    assert curve([100, 200], [0.5, 0.25]).log_stderr.tolist() == [1.0, 1.0]


def test_standard_errors_are_pooled_over_sizes() -> None:
    found = from_runs(np.array([1.0, 2.0]), np.array([[0.9, 1.1], [2.0, 2.0]]))
    assert found.error.tolist() == [1.0, 2.0]
    assert found.freedom == 2
    # Relative squares are 0.02 and 0; pooled 0.01 counts as ten runs beside the one degree of freedom of each size.
    variance = np.array([(10 * 0.01 + 0.02) / 11, (10 * 0.01) / 11])
    np.testing.assert_allclose(found.stderr, found.error * np.sqrt(variance / 2))
    uneven = from_runs(np.array([1.0, 2.0]), np.array([[0.9, 1.0, 1.1], [2.0, 2.2, np.nan]]))
    assert uneven.freedom == 3
    assert uneven.error.tolist() == pytest.approx([1.0, 2.1])
    paired = from_runs(np.array([1.0, 2.0]), np.array([[0.9, 1.0, 1.1], [2.0, 2.2, 2.1]]), paired=True)
    assert (paired.freedom, paired.paired) == (2, True)


def test_one_size_with_two_runs_is_enough_to_know_the_noise() -> None:
    found = from_runs(np.array([1.0, 2.0]), np.array([[0.9, 1.1], [2.0, np.nan]]))
    assert found.freedom == 1
    # The relative square of the first size, 0.02, is also the pooled one.
    np.testing.assert_allclose(found.stderr, [np.sqrt(0.02 * 11 / 11 / 2), 2 * np.sqrt(0.02 * 10 / 10)])


def test_runs_are_a_table_of_sizes_and_seeds() -> None:
    sizes, errors = [200, 100, 200, 100, 100, 200], [0.4, 0.9, 0.6, 1.0, 1.1, 0.5]
    by_seed = curve(sizes, errors, seed=["b", "c", "a", "a", "b", "c"], paired=True)
    assert by_seed.runs is not None
    assert by_seed.runs.tolist() == [[1.0, 1.1, 0.9], [0.6, 0.4, 0.5]]
    assert by_seed.freedom == 2  # seeds beyond the first
    as_given = curve(sizes, errors)
    assert as_given.runs is not None
    assert as_given.runs.tolist() == [[0.9, 1.0, 1.1], [0.4, 0.6, 0.5]]
    assert (as_given.freedom, as_given.paired) == (4, False)
    unpaired = curve(sizes, errors, seed=[0, 0, 0, 0, 1, 1]).runs  # seeds may be anything where they are not paired
    np.testing.assert_array_equal(unpaired, as_given.runs)
    uneven = curve([*sizes, 100], [*errors, 1.2]).runs
    assert uneven is not None
    np.testing.assert_array_equal(uneven, [[0.9, 1.0, 1.1, 1.2], [0.4, 0.6, 0.5, np.nan]])


@pytest.mark.parametrize("runs", [[[1.0], [2.0]], [[1.0, 1.0], [2.0, 2.0]]])
def test_without_spread_the_noise_is_unknown(runs: list[list[float]]) -> None:
    found = from_runs(np.array([1.0, 2.0]), np.array(runs))
    assert (found.stderr, found.freedom, found.runs) == (None, 0.0, None)
    low, high = found.limits()
    assert np.isnan(low).all()
    assert np.isnan(high).all()


def test_limits_repeat_and_hold_the_mean(rng: np.random.Generator) -> None:
    noisy = runs_of(0.5 * SIZES**-0.3, rng)
    low, high = noisy.limits()
    for options in ({}, {"seed": 0}, {"draws": BOOTSTRAP}):
        again = noisy.limits(**options)
        np.testing.assert_array_equal(again[0], low)
        np.testing.assert_array_equal(again[1], high)
    assert (low < noisy.error).all()
    assert (noisy.error < high).all()
    assert (noisy.limits(seed=1)[0] != low).any()


def test_resampling_has_the_standard_errors(rng: np.random.Generator) -> None:
    given = curve(SIZES, 0.5 * SIZES**-0.3, stderr=0.05 * SIZES**-0.3)
    for measured in (given, runs_of(0.5 * SIZES**-0.3, rng)):
        drawn = measured.resample(20_000, np.random.default_rng(1))
        np.testing.assert_allclose(drawn.mean(axis=0), np.log(measured.error), atol=0.005)
        np.testing.assert_allclose(drawn.std(axis=0), measured.log_stderr, rtol=0.03)
    shifted = given.resample(20_000, np.random.default_rng(1), np.zeros(len(SIZES)))
    np.testing.assert_allclose(shifted.mean(axis=0), 0, atol=0.005)


@pytest.mark.parametrize("error", [0.1, 0.3, 0.7])
def test_equal_runs_have_the_standard_error_of_the_other_sizes(error: float) -> None:
    """Their mean is rounded, which took for a spread left them without any."""
    noisy = [0.4, 0.5, 0.6]
    measured = curve(np.repeat([10, 20, 40, 80], 3), [*noisy, error, error, error, *noisy, *noisy])
    drawn = measured.resample(20_000, np.random.default_rng(0))
    np.testing.assert_allclose(drawn[:, 1].mean(), np.log(error), atol=0.005)
    np.testing.assert_allclose(drawn[:, 1].std(), measured.log_stderr[1], rtol=0.03)


def test_runs_of_one_seed_are_drawn_together() -> None:
    # Seeds are 10 % up or down at every size: paired, all sizes move together.
    seeds = np.array([0.9, 1.0, 1.1])
    runs = SIZES[:, None] ** -0.3 * seeds
    rows = {"size": np.repeat(SIZES, 3), "error": runs.ravel(), "seed": np.tile([3, 5, 7], len(SIZES))}
    paired = curve(**rows, paired=True)
    apart = curve(rows["size"], rows["error"])
    for measured, correlation in ((paired, 1.0), (apart, 0.0)):
        drawn = measured.resample(5_000, np.random.default_rng(0))
        assert np.corrcoef(drawn[:, 0], drawn[:, -1])[0, 1] == pytest.approx(correlation, abs=0.06)


@pytest.mark.parametrize(("freedom", "tail"), [(np.inf, 0.025), (1e9, 0.025), (4, 0.00275), (0, 1e-9)])
def test_intervals_widen_with_few_runs(freedom: float, tail: float) -> None:
    samples = np.linspace(0, 1, 100_001)
    found = interval(0.5, samples, freedom)
    assert found.value == 0.5
    assert found.low == pytest.approx(tail, abs=2e-4)
    assert found.high == pytest.approx(1 - tail, abs=2e-4)


def test_intervals_of_a_single_spare_run_hold_all_samples() -> None:
    samples = np.linspace(0, 1, 100_001)
    for freedom in (0, 0.5, 1):  # the tails of Student's t with one degree of freedom, 12.7 standard deviations away
        found = interval(0.5, samples, freedom)
        assert (found.low, found.high) == (pytest.approx(0, abs=1e-12), pytest.approx(1, abs=1e-12))
    assert interval(0.5, samples, 2).low == pytest.approx(8.4e-6, rel=0.05)


def test_numbers_in_words() -> None:
    assert format(Estimate(0.123456)) == "0.123"
    assert format(Estimate(0.123456, 0.1, 0.2)) == "0.123 [0.1, 0.2]"
    assert format(Estimate(0.123456, 0.1, 0.2), "+.2f") == "+0.12 [+0.10, +0.20]"


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: curve([1, 2], [0.1, 0.2, 0.3]),
            r"^columns must have one value per row, got 2 of size and 3 of error\.$",
        ),
        (lambda: curve([], []), r"^size is empty\.$"),
        (lambda: curve(["a"], [0.1]), r"^size must be numbers, got \['a'\]\.$"),
        (
            lambda: curve([1, 2], [0.1, 0.0]),
            r"^error must be finite and above 0, got 0 in row 1\. A law of log error needs errors above 0: test on "
            r"more examples, or leave this size out\.$",
        ),
        (
            lambda: curve([1, 2], [0.1, -1.0]),
            r"^error must be finite and above 0, got -1 in row 1\. Leave the row out\.$",
        ),
        (lambda: curve([0, 2], [0.1, 0.1]), r"^size must be finite and above 0, got 0 in row 0\. Leave the row out\.$"),
        (
            lambda: curve([1, 2], [0.1, 0.2], stderr=[0.1, np.nan]),
            r"^stderr must be finite and above 0, got nan in row 1\. Leave stderr out where it is not known\.$",
        ),
        (
            lambda: curve([2, 1, 2], [0.1] * 3, stderr=[0.1] * 3),
            r"^size 2 comes more than once, but stderr was given: rows are either means with a stderr or single runs "
            r"without\. Leave stderr out, or average the rows of each size first\.$",
        ),
        (
            lambda: curve([1, 2], [0.1, 0.2], paired=True),
            r"^paired runs need `seed`, the run that each row belongs to\.$",
        ),
        (
            lambda: curve([1, 1, 2], [0.1] * 3, seed=[0, 1, 0], paired=True),
            r"^paired runs need every seed once at every size, got 0 rows of seed 1 at size 2\. Leave such seeds out",
        ),
        (
            lambda: curve([1, 1, 2, 2], [0.1] * 4, seed=[0, 1, 1, 1], paired=True),
            r"^paired runs need every seed once at every size, got 0 rows of seed 0 at size 2\. ",
        ),
        (
            lambda: curve([1, 1, 2], [0.1] * 3, seed=[0, 0, 0], paired=True),
            r"^paired runs need every seed once at every size, got 2 rows of seed 0 at size 1\. ",
        ),
        (
            lambda: curve([1, 2], [0.1, 0.2], seed=[0, 0, 1], paired=True),
            r"^columns must have one value per row, got 2 of size and 3 of seed\.$",
        ),
        (
            lambda: curve([1, 2], [0.1, 0.2], stderr=[0.1]),
            r"^columns must have one value per row, got 2 of size and 1 of stderr\.$",
        ),
        (lambda: curve([1, 2], ["a", "b"]), r"^error must be numbers, got \['a', 'b'\]\.$"),
        (lambda: curve([1, 2], [0.1, 0.2], stderr=["a"]), r"^stderr must be numbers, got \['a'\]\.$"),
        (lambda: curve([1, 2], []), r"^error is empty\.$"),
        (
            lambda: curve([1, 2, 3], [0.1, 0.0, -1.0]),
            r"^error must be finite and above 0, got 0 in row 1\. A law of log error needs errors above 0: ",
        ),
        (
            lambda: curve([1, 2, 3], [np.inf, 0.1, 0.0]),
            r"^error must be finite and above 0, got inf in row 0\. Leave the row out\.$",
        ),
    ],
)
def test_mistakes_in_columns(call: Any, message: str) -> None:
    with pytest.raises(PareError, match=message):
        call()


# --- fits --------------------------------------------------------------------------------------------------------


def test_a_fit_repeats_with_its_defaults(rng: np.random.Generator) -> None:
    noisy = runs_of(2 * SIZES**-0.4, rng)
    default, given = fit(noisy), fit(noisy, "power", draws=BOOTSTRAP, seed=0)
    assert len(default.samples["nu"]) == BOOTSTRAP
    np.testing.assert_array_equal(default.samples["nu"], given.samples["nu"])
    assert (fit(noisy, seed=1).samples["nu"] != default.samples["nu"]).any()


def test_a_fit_in_words_and_numbers() -> None:
    errors = 2 * SIZES**-0.5 * np.exp([0.01, -0.01, 0.01, -0.01, 0.0])
    found = fit(curve(SIZES, errors), draws=50)
    slope, level = np.polyfit(np.log(SIZES), np.log(errors), 1)
    residual = np.log(errors) - level - slope * np.log(SIZES)
    assert found["nu"].value == pytest.approx(-slope)
    assert found["a"].value == pytest.approx(math.exp(level))
    assert found.rms_log_error == pytest.approx(np.sqrt(np.mean(residual**2)))
    assert found.chi_squared == pytest.approx(np.sum(residual**2))
    assert found.r_squared == pytest.approx(1 - residual.var() / np.log(errors).var())
    assert math.isnan(found.p_value)
    a, nu = found.parameters.values()
    assert str(found) == f"power, a n^-nu: a = {a}, nu = {nu}; rms residual {100 * found.rms_log_error:.2g} %"


def test_the_p_value_is_that_of_chi_squared() -> None:
    from scipy.stats import chi2

    errors = 2 * SIZES**-0.5 * np.exp([0.02, -0.03, 0.01, -0.01, 0.02])
    found = fit(curve(SIZES, errors, stderr=0.02 * errors), draws=10)
    assert found.p_value == pytest.approx(chi2.sf(found.chi_squared, 3))
    np.testing.assert_allclose(found.predict(SIZES), found["a"].value * SIZES ** -found["nu"].value)


def test_the_p_value_of_estimated_noise_is_that_of_fisher(rng: np.random.Generator) -> None:
    from scipy.stats import f

    measured = runs_of(2 * SIZES**-0.5 * np.exp([0.02, -0.03, 0.01, -0.01, 0.02]), rng, seeds=3)
    found = fit(measured, draws=2)
    assert measured.freedom == 10
    assert found.p_value == pytest.approx(f.sf(found.chi_squared / 3, 3, 10))
    assert 0.001 < found.p_value < 0.999


@pytest.mark.parametrize(("name", "sizes"), [("power", SIZES), ("power with asymptote", SIZES[:4])])
def test_noise_that_is_unknown_is_that_of_the_residuals(name: str, sizes: Any) -> None:
    errors = (2 * sizes**-0.5 + 0.02) * np.exp([0.02, -0.03, 0.01, -0.01, 0.02][: len(sizes)])
    found = fit(curve(sizes, errors), name, draws=20, seed=4)
    free = len(sizes) - len(LAWS[name].names)
    noise = np.random.default_rng(4).standard_normal((20, len(sizes))) * np.sqrt(found.chi_squared / free)
    drawn = solve(LAWS[name], sizes, np.log(found.predict(sizes)) + noise, np.ones(len(sizes)))
    np.testing.assert_allclose(found.samples["nu"], drawn.rate, rtol=1e-6)
    np.testing.assert_allclose(found.samples["a"], drawn.amplitude, rtol=1e-6)


def test_given_noise_is_added_to_the_fitted_curve() -> None:
    errors = 2 * SIZES**-0.5 * np.exp([0.02, -0.03, 0.01, -0.01, 0.02])
    measured = curve(SIZES, errors, stderr=[0.01, 0.003, 0.002, 0.002, 0.001])
    found = fit(measured, "exponential with asymptote", draws=20, seed=4)
    targets = measured.resample(20, np.random.default_rng(4), np.log(found.predict(SIZES)))
    drawn = solve(LAWS["exponential with asymptote"], SIZES, targets, weights(measured))
    np.testing.assert_allclose(found.samples["c"], drawn.asymptote, rtol=1e-6)


def test_sizes_to_predict_at_are_checked() -> None:
    found = fit(curve(SIZES, 2 * SIZES**-0.5), draws=2)
    for predict in (found.predict, found.predict_interval):
        with pytest.raises(PareError, match=r"^size must be finite and above 0, got 0 in row 1\. Leave the row out\.$"):
            predict([100.0, 0.0])
    assert found.predict(400).tolist() == pytest.approx([0.1])


def test_a_loss_of_rounding_errors_is_as_good_as_another() -> None:
    found = fit(curve(SIZES, 2 * SIZES**-0.5), draws=2)
    assert found.chi_squared < 5e-24
    assert found.aicc == pytest.approx(5 * math.log(5e-24) + 2 * 3 + 2 * 3 * 4 / (5 - 3 - 1))


@pytest.mark.parametrize(("name", "p"), [("power", 2), ("power with asymptote", 3)])
def test_aicc_by_its_definition(rng: np.random.Generator, name: str, p: int) -> None:
    sizes = np.geomspace(100, 10_000, 8)
    errors = (2 * sizes**-0.5 + 0.03) * np.exp(0.01 * rng.standard_normal(8))
    q = p + 1  # where the noise is estimated, it counts as a parameter
    unknown = fit(curve(sizes, errors), name, draws=2)
    assert unknown.aicc == pytest.approx(8 * math.log(unknown.chi_squared) + 2 * q + 2 * q * (q + 1) / (8 - q - 1))
    given = fit(curve(sizes, errors, stderr=0.01 * errors), name, draws=2)
    assert given.aicc == pytest.approx(given.chi_squared + 2 * p)
    runs = errors[:, None] * np.exp(0.01 * rng.standard_normal((8, 3)))
    several = curve(np.repeat(sizes, 3), runs.ravel())
    found, v = fit(several, name, draws=2), several.freedom
    expected = (8 + v) * math.log(found.chi_squared + v) - v * math.log(v) + 2 * q
    assert found.aicc == pytest.approx(expected + 2 * q * (q + 1) / (8 + v - q - 1))


def test_explained_variance_is_weighted() -> None:
    errors = 2 * SIZES**-0.5 * np.exp([0.02, -0.03, 0.01, -0.01, 0.02])
    relative = np.array([0.01, 0.1, 0.02, 0.05, 0.03])
    found = fit(curve(SIZES, errors, stderr=relative * errors), draws=2)
    logs, weight = np.log(errors), relative**-2.0
    residual = logs - np.log(found.predict(SIZES))
    spread = np.average((logs - np.average(logs, weights=weight)) ** 2, weights=weight)
    assert found.r_squared == pytest.approx(1 - np.average(residual**2, weights=weight) / spread)


def test_limits_of_predictions_are_quantiles_of_the_draws(rng: np.random.Generator) -> None:
    found = fit(runs_of(2 * SIZES**-0.4, rng), draws=200)
    low, high = found.predict_interval([500.0])
    drawn = found.samples["a"] * 500.0 ** -found.samples["nu"]
    assert (low[0], high[0]) == (pytest.approx(np.quantile(drawn, 0.025)), pytest.approx(np.quantile(drawn, 0.975)))


@pytest.mark.parametrize("seeds", [1, 3])
def test_intervals_of_a_fit_know_how_many_runs_there_were(rng: np.random.Generator, seeds: int) -> None:
    errors = 2 * SIZES**-0.4
    runs = errors[:, None] * np.exp(0.02 * rng.standard_normal((5, seeds)))
    measured = curve(np.repeat(SIZES, seeds), runs.ravel())
    found = fit(measured, draws=300)
    freedom = 3 if seeds == 1 else 10  # residuals that are free, or runs beyond the first of each size
    assert found["nu"] == interval(found["nu"].value, found.samples["nu"], freedom)
    given = fit(curve(SIZES, errors, stderr=0.02 * errors), draws=300)
    assert given["nu"] == interval(given["nu"].value, given.samples["nu"], np.inf)


def test_a_flat_curve_is_explained_in_full() -> None:
    assert fit(curve(SIZES, np.full(5, 0.25)), draws=2).r_squared == 1.0


def test_a_size_whose_runs_agree_has_gaussian_noise() -> None:
    runs = np.array([[0.5, 0.5, 0.5], [0.3, 0.4, 0.5]])
    measured = from_runs(np.array([100.0, 200.0]), runs)
    drawn = measured.resample(2_000, np.random.default_rng(0))
    assert np.isfinite(drawn).all()
    assert drawn[:, 0].std() == pytest.approx(measured.log_stderr[0], rel=0.05)
    assert len(np.unique(drawn[:, 0])) == 2_000
    assert len(np.unique(drawn[:, 1].round(9))) <= 10  # means of three of the three runs


def test_a_local_exponent_has_its_own_limits(rng: np.random.Generator) -> None:
    found = local_exponents(runs_of(2 * SIZES**-0.4, rng), draws=50)
    assert len(found) == 4
    for place in range(4):
        assert found[place] == Estimate(found.exponent[place], found.low[place], found.high[place])
        assert found.low[place] < found.exponent[place] < found.high[place]
    np.testing.assert_allclose(found.size, np.sqrt(SIZES[1:] * SIZES[:-1]))
    with pytest.raises(PareError, match=r"^span must be 2 or more sizes, got 1\.$"):
        local_exponents(curve(SIZES, 2 * SIZES**-0.4), span=1)


def test_too_few_sizes() -> None:
    few = curve(SIZES[:3], [0.3, 0.2, 0.1])
    for needs_four in (fit, compare):
        with pytest.raises(PareError, match=r"^a law needs 4 or more different sizes, got 3: 100, 200, 400\. Measure"):
            needs_four(few)
    with pytest.raises(PareError, match=r"^a law needs 5 or more different sizes, got 3: "):
        local_exponents(few, span=5)
    assert len(local_exponents(few, span=3)) == 1
    fit(curve(SIZES[:4], [0.4, 0.3, 0.2, 0.1]), draws=2)


# --- comparing ---------------------------------------------------------------------------------------------------


def test_contenders_are_ordered_by_aicc_with_akaike_weights(rng: np.random.Generator) -> None:
    found = compare(runs_of(2 * SIZES**-0.4, rng), draws=20)
    scores = [contender.fit.aicc for contender in found.contenders.values()]
    assert scores == sorted(scores)
    relative = np.exp(-(np.array(scores) - scores[0]) / 2)
    np.testing.assert_allclose([c.weight for c in found.contenders.values()], relative / relative.sum())
    np.testing.assert_allclose([c.difference for c in found.contenders.values()], np.array(scores) - scores[0])
    assert str(found) == found.sentence


def test_a_comparison_repeats_by_its_seed(rng: np.random.Generator) -> None:
    noisy = runs_of(2 * SIZES**-0.4, rng)
    found = compare(noisy, draws=20, seed=5)
    for name, contender in found.contenders.items():
        expected = fit(noisy, name, draws=20, seed=5)
        for parameter, sample in contender.fit.samples.items():
            np.testing.assert_array_equal(sample, expected.samples[parameter])
    assert compare(noisy, draws=20, seed=5).difference == found.difference
    assert compare(noisy, draws=20, seed=6).difference != found.difference
    assert found.sentence.endswith(
        f"; AICc lower by {found.difference:.3g} than {found.runner_up}, Akaike weight {found.weight:.3g}."
    )


def test_comparing_needs_two_families() -> None:
    noisy = curve(SIZES, 2 * SIZES**-0.4)
    with pytest.raises(PareError, match=r"^comparing needs laws of two families or more, got power\.$"):
        compare(noisy, ["power", "power"])
    with pytest.raises(PareError, match=r"got power, power with asymptote\.$"):
        compare(noisy, ["power", "power with asymptote"])
    with pytest.raises(PareError, match=r"got none\.$"):
        compare(noisy, [])


def test_few_sizes_of_unknown_noise_cannot_be_compared() -> None:
    found = compare(curve(SIZES[:4], 2 * SIZES[:4] ** -0.4), draws=2)
    assert (found.verdict, found.doubt, found.law) == (LawVerdict.CANNOT_TELL, Doubt.NOISE_UNKNOWN, None)
    assert (found.best, found.weight, found.runner_up) == ("power", 0.0, None)
    assert math.isnan(found.difference.value)
    assert {contender.weight for contender in found.contenders.values()} == {0.0}
    assert math.isnan(found.faster_than_power)
    assert found.sentence == (
        "Cannot tell: there are too few sizes to compare laws without knowing the noise; give several runs per size, "
        "or stderr."
    )
    assert {contender.difference for contender in found.contenders.values()} == {np.inf}


def test_a_law_that_misses_by_more_than_the_noise() -> None:
    sizes = np.geomspace(100, 10_000, 9)
    wavy = 2 * sizes**-0.4 * np.exp(0.05 * (-1.0) ** np.arange(9))
    found = compare(curve(sizes, wavy, stderr=0.002 * wavy), draws=50)
    assert (found.verdict, found.doubt, found.law) == (LawVerdict.NONE_FITS, None, None)
    assert found.sentence.startswith(f"None of the laws fits: {found.best} comes closest (AICc lower by ")
    chosen = found.contenders[found.best].fit
    miss = f"(p = {chosen.p_value:.1g}, rms residual {100 * chosen.rms_log_error:.2g} %)."
    assert found.sentence.endswith(f"but misses by more than the noise of the runs {miss}")


def test_a_law_is_named_with_its_asymptote_where_no_other_of_its_family_is_there(rng: np.random.Generator) -> None:
    sizes = np.geomspace(100, 100_000, 9)
    errors = 2 * sizes**-0.5 + 0.05
    runs = errors[:, None] * np.exp(0.01 * rng.standard_normal((9, 5)))
    found = compare(curve(np.repeat(sizes, 5), runs.ravel()), ["power with asymptote", "exponential"], draws=20)
    assert (found.law, found.best) == ("power with asymptote", "power with asymptote")
    assert found.runner_up == "exponential"
    assert found.sentence.startswith("Power with asymptote, a n^-nu + c: a = ")


def test_the_difference_has_its_bootstrap_interval(rng: np.random.Generator) -> None:
    noisy = runs_of(2 * SIZES**-0.4, rng)
    found = compare(noisy, draws=30, seed=5)
    targets = noisy.resample(30, np.random.default_rng(5))
    drawn = {
        name: information_criterion(solve(LAWS[name], SIZES, targets, weights(noisy)).loss, LAWS[name], noisy)
        for name in found.contenders
    }
    power = np.minimum(drawn["power"], drawn["power with asymptote"])
    exponential = np.minimum(drawn["exponential"], drawn["exponential with asymptote"])
    assert (LAWS[found.best].family, found.runner_up) == ("power", "exponential with asymptote")
    measured = found.contenders["exponential with asymptote"].fit.aicc - found.contenders[found.best].fit.aicc
    assert found.difference == interval(measured, exponential - power, noisy.freedom)


def test_left_out_errors_of_laws_with_as_many_parameters_as_there_are_other_sizes() -> None:
    errors = 2 * SIZES[:4] ** -0.4 * [1.01, 0.99, 1.02, 1.0]
    found = compare(curve(SIZES[:4], errors, stderr=0.01 * errors), draws=2)
    assert all(0 < contender.left_out_error < 2 for contender in found.contenders.values())


def test_left_out_errors_count_as_the_sizes_do() -> None:
    errors = 2 * SIZES**-0.4 * [1.1, 0.9, 1.05, 1.0, 0.97]
    relative = np.array([0.1, 0.01, 0.05, 0.02, 0.03])
    found = compare(curve(SIZES, errors, stderr=relative * errors), draws=2).contenders["power"]
    misses = []
    for i in range(5):
        rest = [np.delete(values, i) for values in (SIZES, errors, relative * errors)]
        misses.append(math.log(errors[i] / fit(curve(rest[0], rest[1], stderr=rest[2]), draws=2).predict(SIZES[i])[0]))
    assert found.left_out_error == pytest.approx(np.sqrt(np.average(np.square(misses), weights=relative**-2.0)))


def judged(
    noisy: Curve, found: LawComparison, aicc: dict[str, float], p_value: float = 0.5, **left_out: float
) -> LawComparison:
    """The verdict if the fits had these criteria and left-out errors."""
    contenders = {}
    for name in sorted(aicc, key=lambda name: aicc[name]):
        contender = found.contenders[name]
        changed = replace(contender.fit, aicc=aicc[name], p_value=p_value)
        above = aicc[name] - min(aicc.values())
        error = left_out.get(name.replace(" ", "_"), 1.0)
        contenders[name] = replace(contender, fit=changed, difference=above, left_out_error=error)
    return comparing_module._judge(noisy, contenders, 10, 0)


@pytest.mark.parametrize(
    ("aicc", "options", "concluded"),
    [
        ({"power": 0.0, "exponential": 5.9}, {}, "power"),
        ({"power": 0.0, "exponential": 5.88}, {}, Doubt.TOO_CLOSE),
        ({"power": 0.0, "exponential": 9.0}, {"p_value": 0.0011}, "power"),
        ({"power": 0.0, "exponential": 9.0}, {"p_value": 0.0009}, LawVerdict.NONE_FITS),
        ({"power": 0.0, "exponential": 9.0}, {"p_value": np.nan}, "power"),
        ({"power": 0.0, "exponential": 9.0}, {"exponential": 0.9}, Doubt.PREDICTION_DISAGREES),
        ({"power": 0.0, "exponential": 9.0}, {"exponential": np.nan}, "power"),
        # The asymptote gains too little, or enough.
        ({"power with asymptote": 0.0, "power": 1.9, "exponential": 9.0}, {}, "power"),
        ({"power with asymptote": 0.0, "power": 2.1, "exponential": 9.0}, {}, "power with asymptote"),
        # Left-out sizes are predicted by a law of the same family.
        (
            {"power": 0.0, "power with asymptote": 1.0, "exponential": 9.0},
            {"power_with_asymptote": 0.5},
            "power",
        ),
        ({"exponential": 0.0, "power": 9.0}, {}, "exponential"),
    ],
)
def test_the_thresholds_of_a_verdict(
    aicc: dict[str, float], options: dict[str, float], concluded: str | LawVerdict | Doubt, rng: np.random.Generator
) -> None:
    noisy = runs_of(2 * SIZES**-0.4, rng)
    found = judged(noisy, compare(noisy, draws=10), aicc, **options)
    expected = {str: LawVerdict.NAMED, Doubt: LawVerdict.CANNOT_TELL}.get(type(concluded), concluded)
    assert found.verdict is expected
    assert found.law == (concluded if isinstance(concluded, str) else None)
    assert found.doubt is (concluded if isinstance(concluded, Doubt) else None)
    best, *others = sorted(aicc, key=lambda name: aicc[name])
    runner_up = next(name for name in others if LAWS[name].family != LAWS[best].family)
    assert (found.best, found.runner_up) == (best, runner_up)
    assert found.difference.value == pytest.approx(aicc[runner_up])
    weight = 1 / (1 + math.exp(-aicc[runner_up] / 2))
    assert found.weight == pytest.approx(weight)
    assert found.faster_than_power == pytest.approx(weight if best == "exponential" else 1 - weight)
    if concluded is Doubt.PREDICTION_DISAGREES:
        assert found.predicts_best == "exponential"


def test_a_comparison_in_words(rng: np.random.Generator) -> None:
    noisy = runs_of(2 * SIZES**-0.4, rng)
    fits = compare(noisy, draws=10)

    def words(aicc: dict[str, float], **options: float) -> tuple[str, str]:
        found = judged(noisy, fits, aicc, **options)
        number = f"AICc lower by {found.difference:.3g} than {found.runner_up}, Akaike weight {found.weight:.3g}"
        return found.sentence, number

    sentence, number = words({"power": 0.0, "exponential": 5.88})
    assert sentence == f"Cannot tell: power fits best, but not by enough ({number})."
    sentence, number = words({"power": 0.0, "exponential": 9.0}, exponential=0.9)
    assert sentence == f"Cannot tell: power fits best ({number}), but exponential predicts left-out sizes better."
    sentence, number = words({"exponential": 0.0, "power": 9.0})
    assert sentence.startswith("Exponential, a exp(-b n): a = ")
    assert sentence.endswith(f"; {number}.")


def test_one_family_that_can_be_judged_is_not_a_comparison() -> None:
    errors = 2 * SIZES**-0.4 * [1.01, 1, 0.99, 1, 1.01]  # five sizes of unknown noise: too few for an asymptote
    found = compare(curve(SIZES, errors), ["exponential with asymptote", "power"], draws=2)
    assert (found.verdict, found.doubt) == (LawVerdict.CANNOT_TELL, Doubt.ONE_FAMILY)
    assert (found.best, found.runner_up) == ("power", None)
    assert (found.weight, found.faster_than_power) == (1.0, 0.0)
    assert math.isnan(found.difference.value)
    assert found.sentence == "Cannot tell: there are only enough sizes to fit one family of laws (power)."
    assert [contender.weight for contender in found.contenders.values()] == [1.0, 0.0]
    assert [contender.difference for contender in found.contenders.values()] == [0.0, np.inf]


# --- exponents and verdicts --------------------------------------------------------------------------------------


def test_local_exponents_are_slopes_of_neighbouring_sizes() -> None:
    errors = np.array([0.5, 0.4, 0.2, 0.15, 0.05])
    found = local_exponents(curve(SIZES, errors), span=3, draws=5)
    slopes = [-np.polyfit(np.log(SIZES[i : i + 3]), np.log(errors[i : i + 3]), 1)[0] for i in range(3)]
    assert [estimate.value for estimate in found] == pytest.approx(slopes)


def test_without_noise_the_gain_is_the_difference_alone() -> None:
    bent = 2 * SIZES**-0.4 * np.exp([0.0, 0.0, -0.1, -0.3, -0.8])
    found = beats_power_law(curve(SIZES, bent), curve(SIZES, 2 * SIZES**-0.4), draws=5)
    assert (found.verdict, found.doubt) == (PowerLawVerdict.CANNOT_TELL, Doubt.NOISE_UNKNOWN)
    assert found.gain.value == pytest.approx(found.end_exponent.value - found.random_exponent.value)
    assert found.end_exponent.value == pytest.approx(-np.polyfit(np.log(SIZES[-3:]), np.log(bent[-3:]), 1)[0])
    assert math.isnan(found.gain.low)
    assert found.sentence.startswith(
        "Cannot tell, because the noise is unknown (give several runs per size, or stderr): the frontier ends with "
    )
    assert str(found) == found.sentence


def test_the_comparison_with_random_subsets_repeats(rng: np.random.Generator) -> None:
    frontier, random = runs_of(2 * SIZES**-0.6, rng), runs_of(2 * SIZES**-0.4, rng)
    first, again = (beats_power_law(frontier, random, draws=30, seed=2) for _ in range(2))
    assert first.sentence == again.sentence
    assert first.gain == again.gain
    # The two curves are drawn apart: with one seed for both, their noise would be the same.
    expected = fit(random, "power", draws=30, seed=3)
    assert first.sentence.partition(": ")[2] == (
        f"the frontier ends with exponent {first.end_exponent:.3g}, random subsets have {first.random_exponent:.3g}, "
        f"a difference of {first.gain:+.3g}; on the frontier the AICc of the best faster law is lower by "
        f"{first.aicc_difference:.3g} than that of the best power law (Akaike weight {first.weight:.3g})."
    )
    np.testing.assert_array_equal(first.random.samples["nu"], expected.samples["nu"])
    assert first.frontier.sentence == compare(frontier, draws=30, seed=2).sentence
    assert (first.end_exponent, first.random_exponent) == (
        local_exponents(frontier, span=3, draws=30, seed=2)[-1],
        expected["nu"],
    )
    scores = {name: contender.fit.aicc for name, contender in first.frontier.contenders.items()}
    faster = min(scores["exponential"], scores["exponential with asymptote"])
    assert first.aicc_difference == pytest.approx(min(scores["power"], scores["power with asymptote"]) - faster)
    assert first.weight == first.frontier.faster_than_power
    end = local_exponents(frontier, span=3, draws=30, seed=2)
    assert first.end_exponent == end[-1]
    freedom = min(frontier.freedom, random.freedom)
    difference = end[-1].value - expected["nu"].value
    assert first.gain == interval(difference, end.samples[:, -1] - expected.samples["nu"], freedom)
    assert beats_power_law(frontier, random, draws=30).gain == beats_power_law(frontier, random, draws=30, seed=0).gain


@pytest.mark.parametrize(
    ("gain", "weight", "reference", "verdict", "doubt", "conclusion"),
    [
        (
            Estimate(0.1),
            1.0,
            0.0,
            PowerLawVerdict.CANNOT_TELL,
            Doubt.NOISE_UNKNOWN,
            "Cannot tell, because the noise is unknown (give several runs per size, or stderr)",
        ),
        (Estimate(-0.1, -0.2, 0.0), 1.0, 0.0, PowerLawVerdict.NOT_STEEPER, None, "Does not beat the power law"),
        (
            Estimate(0.1, -0.1, 0.2),
            1.0,
            0.0,
            PowerLawVerdict.CANNOT_TELL,
            Doubt.INTERVAL_SPANS_ZERO,
            "Cannot tell whether the frontier is steeper",
        ),
        (
            Estimate(0.1, 0.0, 0.2),
            1.0,
            0.0,
            PowerLawVerdict.CANNOT_TELL,
            Doubt.INTERVAL_SPANS_ZERO,
            "Cannot tell whether the frontier is steeper",
        ),
        (
            Estimate(0.2, 0.1, 0.3),
            1.0,
            0.95,
            PowerLawVerdict.CANNOT_TELL,
            Doubt.RANDOM_FALLS_FASTER,
            "Cannot tell, because the random curve itself falls faster than a power law",
        ),
        (Estimate(0.2, 0.1, 0.3), 0.95, 0.94, PowerLawVerdict.BEATS, None, "Beats the power law"),
        (
            Estimate(0.2, 0.1, 0.3),
            0.94,
            0.0,
            PowerLawVerdict.STEEPER,
            None,
            "Steeper than the power law, but possibly a power law itself",
        ),
    ],
)
def test_the_verdict_on_a_frontier(
    gain: Estimate,
    weight: float,
    reference: float,
    verdict: PowerLawVerdict,
    doubt: Doubt | None,
    conclusion: str,
    rng: np.random.Generator,
) -> None:
    assert exponents_module._verdict(gain, weight, reference) == (verdict, doubt)
    some = beats_power_law(runs_of(2 * SIZES**-0.6, rng), runs_of(2 * SIZES**-0.4, rng), draws=5)
    said = replace(some, verdict=verdict, doubt=doubt).sentence
    assert said.startswith(f"{conclusion}: the frontier ends with exponent ")
