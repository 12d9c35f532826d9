"""The error rates that verdicts come with, and the rule on equal exponents against exact theory."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose

import paredown as pdn
from paredown.laws.calibration import Strength, calibrate
from paredown.laws.claim_rules import (
    ClaimVerdict,
    above,
    below,
    better_than,
    correlated_above,
    correlated_below,
    equivalent_to,
    no_worse_than,
    number_of,
    seeds_needed,
)
from paredown.laws.equal_exponents import equal_exponents
from paredown.laws.steepness import steeper_than_random

HELD, CONTRADICTED = ClaimVerdict.HELD, ClaimVerdict.CONTRADICTED
CANNOT_TELL, NOT_TESTABLE = ClaimVerdict.CANNOT_TELL, ClaimVerdict.NOT_TESTABLE
SLACK = 0.02  # four standard errors of 5 % in 2,000 simulations

# --- every kind of claim: at most 5 % false alarms, and power where the noise allows it ---

POINTS = 6
SPREADS = np.linspace(0.5, 1.5, POINTS)


def numbers(mean: float, spread: float, seeds: int = 6) -> Any:
    """Seeds with exactly this mean and standard deviation."""
    shape = np.linspace(-1, 1, seeds)
    return mean + spread * shape / shape.std(ddof=1)


EVERY: dict[str, Any] = {"points": POINTS}
ONE: dict[str, Any] = {"points": POINTS, "all_must_hold": False}
COUNTED: dict[str, Any] = {"points": POINTS, "all_must_hold": None}
CLAIMS: dict[str, Any] = {
    "better than": ([better_than(numbers(-1, 0.5))], 1.0, {}),
    "no worse than": ([no_worse_than(numbers(0, 0.5), 1.0)], 1.0, {}),
    "equivalent to": ([equivalent_to(numbers(0, 0.5), 1.0)], 1.0, {}),
    "above": ([above(numbers(1, 0.5), 0.0)], 1.0, {}),
    "below": ([below(numbers(1, 0.5), 2.0)], 1.0, {}),
    "correlated above": ([correlated_above(np.tanh(numbers(1.2, 0.1)), 0.7)], 0.15, {}),
    "correlated below": ([correlated_below(np.tanh(numbers(0.2, 0.1)), 0.7)], 0.15, {}),
    "better everywhere": ([better_than(numbers(-1, s), **EVERY) for s in SPREADS], 3.0, {}),
    "better somewhere": ([better_than(numbers(-1, s), **ONE) for s in SPREADS], 2.0, {"least": 1}),
    "equivalent everywhere": ([equivalent_to(numbers(0, s), 3.0, **EVERY) for s in SPREADS], 3.0, {}),
    "most": ([better_than(numbers(-1, s), **COUNTED) for s in SPREADS], 6.0, {"least": 4}),
    "a few": ([no_worse_than(numbers(0, s), 6.0, **COUNTED) for s in SPREADS], 6.0, {"least": 1, "most": 3}),
}


@pytest.mark.parametrize("name", CLAIMS)
def test_false_alarms_are_at_most_five_per_cent_and_effects_are_seen(name: str) -> None:
    findings, effect, counts = CLAIMS[name]
    strength = calibrate(findings, effect, **counts)
    assert strength.false_alarms <= 0.05 + SLACK
    assert strength.power >= 0.8
    assert strength.smallest_effect <= effect
    assert strength.seeds_needed is not None
    assert strength.seeds_needed <= 6
    if all(np.isinf(found.region.low) or np.isinf(found.region.high) for found in findings):
        at_smallest = calibrate(findings, strength.smallest_effect, **counts)
        assert at_smallest.power >= 0.8 - 2 * SLACK  # the smallest effect is from a lower bound of the joint power


def test_one_point_needs_the_seeds_of_its_rule() -> None:
    found = better_than(numbers(-1, 1.0, seeds=4))
    strength = calibrate([found], 1.0)
    assert strength.seeds_needed == seeds_needed(found.region, -1.0, found.spread)
    assert_allclose(strength.power, found.power(-1.0), atol=0.04)


def test_findings_without_spread_see_nothing() -> None:
    strength = calibrate([better_than([-1.0, -1.0, -1.0])], 1.0)
    assert (strength.power, strength.smallest_effect, strength.seeds_needed) == (0.0, np.inf, None)
    assert Strength.from_record(strength.record()) == strength


def test_numbers_of_points() -> None:
    yes, no, open_ = (better_than(v, **COUNTED) for v in ([-3, -3.1, -2.9, -3], [3, 3.1, 2.9, 3], [-1, 1, 0, 0]))
    assert number_of([yes, yes, open_], least=2) is HELD
    assert number_of([yes, open_, no], least=2) is CANNOT_TELL
    assert number_of([yes, no, no], least=2) is CONTRADICTED
    assert number_of([yes, no, no], least=1, most=1) is HELD
    assert number_of([yes, open_, no], least=1, most=1) is CANNOT_TELL
    assert number_of([yes, yes, no], least=1, most=1) is CONTRADICTED


# --- equal exponents ---

FRACTIONS = np.array([1, 0.5, 0.25, 0.125])
REPEATS = 200
MARGIN = 0.1


def theory(sizes: Any) -> Any:
    return np.array([[float(pdn.theory.solve(float(a), float(f)).test_error) for f in FRACTIONS] for a in sizes])


def laws(sizes: Any, difference: float) -> Any:
    """Power laws: random subsets with exponent 0.4, pruned ones at a lower level with another exponent."""
    truth = np.outer(sizes**-0.4, [1, 0.1, 0.1, 0.1])
    truth[:, 1:] *= (sizes[:, None] / sizes[0]) ** -difference
    return truth


def judged(sizes: Any, truth: Any, rng: Any, noise: float = 0.03) -> Counter[ClaimVerdict]:
    size, fraction, seed = (a.ravel() for a in np.meshgrid(sizes, FRACTIONS, np.arange(4), indexing="ij"))
    found: Counter[ClaimVerdict] = Counter()
    for _ in range(REPEATS):
        error = np.repeat(truth.ravel(), 4) * np.exp(noise * rng.standard_normal(len(size)))
        found.update(test.verdict for test in equal_exponents(size, fraction, error, seed, margin=MARGIN))
    return found


@pytest.mark.parametrize(
    "sizes", [np.geomspace(0.1, 1.4, 6), np.geomspace(0.3, 8, 8), np.geomspace(1, 3, 12), np.geomspace(0.5, 8, 20)]
)
def test_sizes_before_and_around_the_crossing_contradict_nothing(sizes, rng) -> None:
    """The local exponents there are far apart, and become equal later."""
    found = judged(sizes, theory(sizes), rng)
    assert found[CONTRADICTED] <= 0.01 * REPEATS * 3
    if sizes[-1] < 1.5:
        assert found[NOT_TESTABLE] == REPEATS * 3


def test_exact_theory_has_equal_exponents_in_the_end(rng) -> None:
    sizes = np.geomspace(0.5, 128, 9)
    assert judged(sizes, theory(sizes), rng)[HELD] >= 0.9 * REPEATS * 3


@pytest.mark.parametrize(
    ("difference", "wanted"), [(0.0, HELD), (0.04, HELD), (-0.04, HELD), (MARGIN, None), (0.3, CONTRADICTED)]
)
def test_known_exponents(difference: float, wanted: ClaimVerdict | None, rng) -> None:
    sizes = np.geomspace(100, 30_000, 9)
    found = judged(sizes, laws(sizes, difference), rng)
    if wanted is None:  # just at the margin, either answer is a false alarm
        assert found[HELD] <= 0.05 * REPEATS * 3
        assert found[CONTRADICTED] <= 0.05 * REPEATS * 3
    else:
        assert found[wanted] >= 0.8 * REPEATS * 3


# --- steeper than random subsets: grids of sweeps, whose fractions do not all reach every size ---


@pytest.mark.parametrize("initial", [[937, 3750, 15_000, 60_000], [937, 1875, 3750, 7500, 15_000, 30_000, 60_000]])
def test_grids_of_sweeps_neither_make_nor_hide_a_faster_fall(initial, rng) -> None:
    """Random subsets have an exponent of 0.4; each fraction has its own level, and the best one is in the middle."""
    level = {1.0: 1.0, 0.5: 0.75, 0.25: 0.7, 0.125: 0.9}
    rows = [(int(n * f), f, seed) for n in initial for f in level for seed in range(4)]
    rows += [(int(n * f), 1.0, seed) for n in initial for f in (0.5, 0.25, 0.125) for seed in range(4)]
    size, fraction, seed = (np.array(column) for column in zip(*dict.fromkeys(rows), strict=True))

    def held(steeper: float) -> float:
        verdicts: Counter[ClaimVerdict] = Counter()
        for _ in range(REPEATS):
            truth = 5 * size**-0.4 * np.array([level[f] for f in fraction])
            truth *= np.where(fraction < 1, (size / 2000.0) ** -steeper, 1.0)
            error = truth * np.exp(0.05 * rng.standard_normal(len(size)))
            verdicts[steeper_than_random(size, fraction, error, seed).verdict] += 1
        return verdicts[HELD] / REPEATS

    assert held(0.0) <= 0.05 + 0.04
    assert held(0.3) >= 0.8
