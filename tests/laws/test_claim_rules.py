"""Rules that judge claims: verdicts by hand, and how often they are right on data where the answer is known."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from numpy.testing import assert_allclose

import paredown as pdn
from paredown.errors import PareError
from paredown.laws.claim_rules import (
    ClaimVerdict,
    Region,
    better_than,
    correlated_above,
    equivalent_to,
    every,
    judge,
    no_worse_than,
    power,
    seeds_needed,
    some,
)
from paredown.laws.steepness import steeper_than_random

HELD, CONTRADICTED, CANNOT_TELL = ClaimVerdict.HELD, ClaimVerdict.CONTRADICTED, ClaimVerdict.CANNOT_TELL
REPEATS = 2_000
SLACK = 0.015  # three standard errors of a share of 5 % in 2,000 repeats


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (better_than([-1.0, -1.1, -0.9, -1.0]), HELD),
        (better_than([1.0, 1.1, 0.9, 1.0]), CONTRADICTED),
        (better_than([-1.0, 1.1, 0.9, -1.0]), CANNOT_TELL),
        (better_than([-1.0, -1.1, -0.9, -1.0], least=2.0), CONTRADICTED),  # better, but not by that much
        (no_worse_than([0.1, 0.2, 0.15, 0.1], 0.5), HELD),
        (no_worse_than([0.9, 1.0, 0.95, 0.9], 0.5), CONTRADICTED),
        (no_worse_than([0.4, 0.6, 0.1, 0.9], 0.5), CANNOT_TELL),
        (equivalent_to([0.1, -0.1, 0.05, -0.05], 0.5), HELD),
        (equivalent_to([3.0, -3.0, 2.0, -2.0], 0.5), CANNOT_TELL),  # not significant is not equal
        (equivalent_to([-3.0, -3.1, -2.9, -3.0], 0.5), CONTRADICTED),
        (correlated_above([0.90, 0.91, 0.92], 0.8), HELD),
        (correlated_above([0.50, 0.51, 0.52], 0.8), CONTRADICTED),
        (correlated_above([0.5, 0.9, 0.8], 0.8), CANNOT_TELL),
        (better_than([-1.0, -1.1]), CANNOT_TELL),  # two seeds never decide
        (better_than([-1.0, -1.0, -1.0]), CANNOT_TELL),  # nor do seeds without spread
    ],
)
def test_verdicts_by_hand(found, verdict) -> None:
    assert found.verdict is verdict


def test_limits_are_those_of_students_t() -> None:
    """Mean -1, standard deviation 0.2, four seeds: t(0.95, 3) = 2.353363, standard error 0.1."""
    values = -1 + 0.2 * np.array([-1, -1, 1, 1]) * np.sqrt(3) / 2
    found = better_than(values)
    assert_allclose([found.value, found.stderr, found.low, found.high], [-1, 0.1, -1.2353363, -0.7646637], rtol=1e-6)
    assert found.seeds == 4


def test_correlations_are_reported_as_such() -> None:
    found = correlated_above([0.3, 0.5, 0.7, 0.6], 0.1)
    assert_allclose(found.value, np.tanh(np.arctanh([0.3, 0.5, 0.7, 0.6]).mean()))
    assert 0.1 < found.low < found.value < found.high < 1


def test_missing_seeds_do_not_count() -> None:
    assert better_than([-1.0, np.nan, -1.1, -0.9]).seeds == 3


def test_several_points_are_corrected_for() -> None:
    values = [-1.0, -0.2, -0.6, -0.5]  # significant alone
    assert better_than(values).verdict is HELD
    assert better_than(values, points=50).verdict is HELD  # each of all must hold: no correction
    assert better_than(values, points=50, all_must_hold=False).verdict is CANNOT_TELL
    assert better_than(np.negative(values)).verdict is CONTRADICTED
    assert better_than(np.negative(values), points=50).verdict is CANNOT_TELL


def test_claims_on_several_points() -> None:
    yes, no, open_ = better_than([-3, -3.1, -2.9]), better_than([3, 3.1, 2.9]), better_than([-1, 1, 0])
    assert every([yes, yes]) is HELD
    assert every([yes, open_]) is CANNOT_TELL
    assert every([yes, open_, no]) is CONTRADICTED
    assert some([no, open_, yes]) is HELD
    assert some([no, open_]) is CANNOT_TELL
    assert some([no, no]) is CONTRADICTED
    assert every([]) is some([]) is ClaimVerdict.NOT_TESTABLE


@pytest.mark.parametrize("seeds", [3, 4, 8])
@pytest.mark.parametrize("region", [Region(high=0.0), Region(low=1.0), Region(-1.0, 1.0)])
def test_false_alarms_and_power_are_as_promised(rng, seeds, region) -> None:
    edge = region.high if np.isfinite(region.high) else region.low
    at_the_edge = Counter(judge(edge + rng.standard_normal(seeds), region).verdict for _ in range(REPEATS))
    assert at_the_edge[HELD] <= (0.05 + SLACK) * REPEATS
    assert at_the_edge[CONTRADICTED] <= (0.05 + SLACK) * REPEATS
    inside = 0.0 if np.isfinite(region.low + region.high) else edge + (1.5 if region.high == np.inf else -1.5)
    spread = 0.3 if np.isfinite(region.low + region.high) else 1.0
    held = sum(judge(inside + spread * rng.standard_normal(seeds), region).verdict is HELD for _ in range(REPEATS))
    promised = power(region, inside, spread, seeds)
    if np.isfinite(region.low + region.high):  # a lower limit
        assert held / REPEATS >= promised - 3 * SLACK
    else:
        assert_allclose(held / REPEATS, promised, atol=3 * SLACK)


def test_the_number_of_seeds_for_a_power() -> None:
    needed = seeds_needed(Region(high=0.0), -1.0, 1.0)
    assert needed is not None
    assert power(Region(high=0.0), -1.0, 1.0, needed) >= 0.8 > power(Region(high=0.0), -1.0, 1.0, needed - 1)
    assert seeds_needed(Region(high=0.0), 0.0, 1.0, most=50) is None
    assert power(Region(high=0.0), -1.0, 1.0, 2) == 0


def test_margins_and_regions_are_checked() -> None:
    with pytest.raises(PareError, match=r"margin must be above 0, got 0"):
        equivalent_to([1.0, 2.0, 3.0], 0)
    with pytest.raises(PareError, match=r"from low to high, got 1 and 0"):
        Region(1.0, 0.0)


# --- steeper than random subsets -----------------------------------------------------------------------------------

FRACTIONS = np.array([1, 1 / 2, 1 / 4, 1 / 8, 1 / 16, 1 / 32])
SIZES = np.geomspace(1.5, 4, 6)  # kept examples per weight


def runs(truth, *, bound, seeds, noise, rng):
    """Single runs around true errors (sizes, fractions), of those points whose initial set is not above a bound."""
    size, fraction, seed = (a.ravel() for a in np.meshgrid(SIZES, FRACTIONS, np.arange(seeds), indexing="ij"))
    error = np.repeat(truth.ravel(), seeds) * np.exp(noise * rng.standard_normal(len(size)))
    there = size / fraction <= bound
    return size[there], fraction[there], error[there], seed[there]


@pytest.fixture(scope="module")
def theory():
    """The exact theory for a perfect probe, where the frontier falls exponentially."""
    return np.array(
        [
            [pdn.theory.solve(alpha_prune=a, keep_fraction=f, theta=0.0, strategy="hard").test_error for f in FRACTIONS]
            for a in SIZES
        ]
    )


EQUAL = np.outer(SIZES**-0.5, [1, 0.8, 0.7, 0.75, 0.9, 1.2])  # one exponent at every fraction


@pytest.mark.parametrize("bound", [64, np.inf])
@pytest.mark.parametrize("noise", [0.03, 0.1])
def test_exact_theory_is_found_steeper_and_equal_exponents_are_not(theory, rng, bound, noise) -> None:
    def verdicts(truth):
        draws = (steeper_than_random(*runs(truth, bound=bound, seeds=4, noise=noise, rng=rng)) for _ in range(200))
        return Counter(found.verdict for found in draws)

    true, false = verdicts(theory), verdicts(EQUAL)
    assert true[HELD] >= 0.95 * 200
    assert false[HELD] <= (0.05 + 0.03) * 200
    assert false[CONTRADICTED] <= (0.05 + 0.03) * 200


def test_a_frontier_that_falls_slower_is_contradicted_only_where_it_is_not_limited(rng) -> None:
    slower = EQUAL.copy()
    slower[:, 1:] *= 0.5 * SIZES[:, None] ** 0.4  # at a lower level, with a smaller exponent
    found = steeper_than_random(*runs(slower, bound=np.inf, seeds=4, noise=0.02, rng=rng))
    assert found.verdict is CONTRADICTED
    assert not found.limited.any()
    assert found.slope is not None
    assert_allclose(found.slope.value, 0.4, atol=0.05)
    limited = steeper_than_random(*runs(slower, bound=8.0, seeds=4, noise=0.02, rng=rng))
    assert limited.limited.sum() >= 3
    assert limited.verdict is not HELD


def test_too_few_sizes_or_seeds_are_not_testable(rng) -> None:
    two_seeds = steeper_than_random(*runs(EQUAL, bound=np.inf, seeds=2, noise=0.02, rng=rng))
    assert two_seeds.verdict is ClaimVerdict.NOT_TESTABLE
    assert two_seeds.slope is None
    random_is_best = np.outer(SIZES**-0.5, [1, 2, 3, 4, 5, 6])
    never = steeper_than_random(*runs(random_is_best, bound=np.inf, seeds=4, noise=0.02, rng=rng))
    assert never.verdict is ClaimVerdict.NOT_TESTABLE
    assert (never.keep_fraction == 1).all()


def test_an_asymptote_is_subtracted_from_both(rng) -> None:
    size, fraction, error, seed = runs(EQUAL, bound=np.inf, seeds=4, noise=0.02, rng=rng)
    plain = steeper_than_random(size, fraction, error, seed)
    moved = steeper_than_random(size, fraction, error + 0.1, seed, asymptote=0.1)
    assert_allclose(moved.log_ratio, plain.log_ratio, atol=1e-12)
    with pytest.raises(PareError, match="asymptote must be at least 0 and below the lowest error"):
        steeper_than_random(size, fraction, error, seed, asymptote=10.0)
    with pytest.raises(PareError, match="rows with keep_fraction 1 are needed"):
        steeper_than_random(size[fraction < 1], fraction[fraction < 1], error[fraction < 1], seed[fraction < 1])


@pytest.mark.parametrize("alpha_tot", [4.0, 16.0, 64.0])
def test_a_frontier_that_the_initial_set_bends_back_is_still_found_steeper(alpha_tot, rng) -> None:
    """The end of the frontier is flat there, so that a rule that looks at the end says no; exact theory says yes."""
    sizes = np.geomspace(0.25, 1, 8) * min(alpha_tot, 8) / 1.5
    fractions = np.array([1.0, 0.7, 0.5, 0.35, 0.25, 0.125, 0.06, 0.03])
    size, fraction, seed = (a.ravel() for a in np.meshgrid(sizes, fractions, np.arange(4), indexing="ij"))
    there = size / fraction <= alpha_tot
    size, fraction, seed = size[there], fraction[there], seed[there]
    truth = {(a, f): float(pdn.theory.solve(a, f).test_error) for a, f in set(zip(size, fraction, strict=True))}
    error = np.array([truth[key] for key in zip(size, fraction, strict=True)])
    found = steeper_than_random(size, fraction, error * np.exp(0.03 * rng.standard_normal(len(size))), seed)
    assert found.verdict is not CONTRADICTED
    if alpha_tot > 4:
        assert found.verdict is HELD


def test_the_earlier_rule_is_deprecated() -> None:
    frontier = pdn.laws.curve(SIZES, SIZES**-1.0)
    with pytest.warns(DeprecationWarning, match="use steeper_than_random"):
        pdn.laws.beats_power_law(frontier, pdn.laws.curve(SIZES, SIZES**-0.5), draws=5)
