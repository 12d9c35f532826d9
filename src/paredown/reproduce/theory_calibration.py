"""Whether the rules on exponents and laws could have said yes: simulations of the grid that was measured and its noise.

Each rule is simulated as it is, with its choice of sizes, on runs for which the claim is true and on others for which
it is barely false. Steepness is also simulated on the exact theory of a perfect probe, where the frontier beats every
power law. Its one free constant, how many examples make one per weight, is set so that keeping the hardest starts to
pay at the size at which it does in the data.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.laws.claim_rules import ClaimVerdict, better_than
from paredown.laws.equal_exponents import ExponentTest, equal_exponents
from paredown.laws.forms import LAWS
from paredown.laws.least_squares import solve as fit_laws
from paredown.laws.steepness import steeper_than_random
from paredown.theory import solve

_CROSSING = 1.5  # alpha_prune at which keeping the hardest starts to pay, for most fractions
_LEAST, _MOST = 0.05, 300.0  # of alpha_prune; beyond, curves are flat or known power laws
_REPEATS = 300

Array = NDArray[Any]


@dataclass(frozen=True)
class RuleCalibration:
    """How often a rule is right and wrong on simulated runs of a grid and its noise."""

    power: float  # share of "held" where the claim is true by the effect that it names
    false_alarms: float  # share of "held" where it is barely false; of "contradicted" where it is true if that is more
    noise: float  # standard deviation of log error of one run
    on_theory: float = np.nan  # share of "held" on the exact theory, of a claim to be steeper
    repeats: int = _REPEATS


class _Grid:
    """Measured points (kept size, fraction), the mean of log error at each, and runs drawn around other means."""

    def __init__(self, size: ArrayLike, fraction: ArrayLike, error: ArrayLike, seed: ArrayLike, noise: int) -> None:
        self.size, self.fraction = np.asarray(size, float), np.asarray(fraction, float)
        self.seed, logs = np.asarray(seed), np.log(np.asarray(error, float))
        self.points, self.which = _unique_rows(np.stack([self.size, self.fraction], axis=1))
        count = np.bincount(self.which)
        self.mean = np.bincount(self.which, logs) / count
        residuals = logs - self.mean[self.which]
        self.noise = float(np.sqrt((residuals**2).sum() / max(1, int((count - 1).sum()))))
        self._rng = np.random.default_rng(noise)

    def draw(self, truth: Array) -> tuple[Array, Array, Array, Array]:
        """Sizes, fractions, errors and seeds of one simulated experiment."""
        drawn = np.exp(truth[self.which] + self.noise * self._rng.standard_normal(len(self.size)))
        return self.size, self.fraction, drawn, self.seed

    def shares(self, truth: Array, judged: Callable[..., ClaimVerdict]) -> tuple[float, float]:
        """How often a rule says "held" and how often "contradicted"."""
        verdicts = [judged(*self.draw(truth)) for _ in range(_REPEATS)]
        counts = [verdicts.count(verdict) for verdict in (ClaimVerdict.HELD, ClaimVerdict.CONTRADICTED)]
        return counts[0] / _REPEATS, counts[1] / _REPEATS


def calibrate_steepness(
    kept_size: ArrayLike,
    keep_fraction: ArrayLike,
    error: ArrayLike,
    seed: ArrayLike,
    *,
    effect: float,
    least: float = 0.0,
    random_seed: int = 0,
) -> RuleCalibration:
    """Simulate `steeper_than_random`: frontiers that are steeper by `least + effect` and, barely false, by `least`."""
    grid = _Grid(kept_size, keep_fraction, error, seed, random_seed)

    def judged(*runs: Array) -> ClaimVerdict:
        return steeper_than_random(*runs, least=least).verdict

    power, _ = grid.shares(_steeper(grid, least + effect), judged)
    alarms, _ = grid.shares(_steeper(grid, least), judged)
    on_theory, _ = grid.shares(_theory(grid.points, grid.mean), judged)
    return RuleCalibration(power, alarms, grid.noise, on_theory)


def calibrate_exponents(
    kept_size: ArrayLike,
    keep_fraction: ArrayLike,
    error: ArrayLike,
    seed: ArrayLike,
    *,
    tests: list[ExponentTest],
    margin: float,
    random_seed: int = 0,
) -> RuleCalibration:
    """Simulate `equal_exponents` at the fractions of `tests`, on curves of the measured levels past their crossings.

    The claim is true where all of them fall as random subsets do, and barely false where one differs by the margin.
    """
    grid = _Grid(kept_size, keep_fraction, error, seed, random_seed)
    testable = [test.keep_fraction for test in tests]

    def judged(*runs: Array) -> ClaimVerdict:
        found = {test.keep_fraction: test for test in equal_exponents(*runs, margin=margin)}
        return joined([found[fraction] for fraction in testable])

    power, denied = grid.shares(_with_slopes(grid, tests, {}), judged)
    alarms = [
        grid.shares(_with_slopes(grid, tests, {fraction: sign * margin}), judged)[0]
        for fraction in testable
        for sign in (-1, 1)
    ]
    return RuleCalibration(power, max(*alarms, denied), grid.noise)


def joined(tests: list[ExponentTest]) -> ClaimVerdict:
    """The verdict on all fractions; one that is not testable leaves it open."""
    verdicts = {test.verdict for test in tests}
    if ClaimVerdict.CONTRADICTED in verdicts:
        return ClaimVerdict.CONTRADICTED
    return ClaimVerdict.HELD if verdicts == {ClaimVerdict.HELD} else ClaimVerdict.CANNOT_TELL


def misfits(size: Array, logs: Array) -> dict[str, Array]:
    """Root mean square residuals of log errors (seeds, sizes) from either law with an asymptote, for every seed."""
    weight = np.ones(len(size))
    return {
        name: np.sqrt(fit_laws(LAWS[f"{name} with asymptote"], size, logs, weight).loss / len(size))
        for name in ("exponential", "power")
    }


def calibrate_misfits(size: Array, logs: Array, *, random_seed: int = 0) -> tuple[RuleCalibration, float]:
    """Simulate "an exponential fits better than a power law" around either law as it fits best on average.

    Also how much worse the power law fits that exponential without any noise: the effect that there is to see.
    """
    rng, weight, seeds = np.random.default_rng(random_seed), np.ones(len(size)), len(logs)
    mean = logs.mean(axis=0)
    noise = float(np.sqrt(((logs - mean) ** 2).sum() / max(1, (seeds - 1) * len(size))))
    truths, shares = {}, {}
    for name in ("exponential", "power"):
        law = LAWS[f"{name} with asymptote"]
        found = fit_laws(law, size, mean[None], weight)
        truths[name] = np.log(_curve_of(law, found, size))
        drawn = truths[name] + noise * rng.standard_normal((_REPEATS * seeds, len(size)))
        each = misfits(size, drawn)
        apart = (each["exponential"] - each["power"]).reshape(_REPEATS, seeds)
        shares[name] = np.mean([better_than(row).verdict is ClaimVerdict.HELD for row in apart])
    clean = misfits(size, truths["exponential"][None])
    effect = float(clean["power"][0] - clean["exponential"][0])
    return RuleCalibration(float(shares["exponential"]), float(shares["power"]), noise), effect


def _unique_rows(rows: Array) -> tuple[Array, Array]:
    found, which = np.unique(rows, axis=0, return_inverse=True)
    return found, which.ravel()


def _differences(points: Array, mean: Array) -> tuple[Array, Array]:
    """Which points are pruned and have random subsets of their size, and the log ratio to those."""
    random = {size: value for (size, fraction), value in zip(points, mean, strict=True) if fraction == 1}
    pruned = np.array(
        [row for row, (size, fraction) in enumerate(points) if fraction < 1 and size in random], dtype=int
    )
    return pruned, np.array([mean[row] - random[points[row, 0]] for row in pruned])


def _theory(points: Array, mean: Array) -> Array:
    """Log errors of the exact theory, scaled so that pruning starts to pay at the same size."""
    pruned, ratio = _differences(points, mean)
    pays = points[pruned[ratio < 0], 0]
    scale = (pays.min() if len(pays) else points[:, 0].max()) / _CROSSING
    alpha = np.clip(points[:, 0] / scale, _LEAST, _MOST)
    return np.log([float(solve(a, f).test_error) for a, f in zip(alpha, points[:, 1], strict=True)])


def _steeper(grid: _Grid, slope: float) -> Array:
    """The power law of random subsets; each fraction falls faster by `slope`, through where it is best against them."""
    points, mean = grid.points, grid.mean
    alone = points[:, 1] == 1
    nu, level = np.polyfit(np.log(points[alone, 0]), mean[alone], 1)
    truth = level + nu * np.log(points[:, 0])
    pruned, ratio = _differences(points, mean)
    for fraction in np.unique(points[pruned, 1]):
        own = points[pruned, 1] == fraction
        best = int(np.argmin(ratio[own]))
        rows = points[:, 1] == fraction
        start = np.log(points[pruned[own][best], 0])
        truth[rows] += ratio[own][best] - slope * (np.log(points[rows, 0]) - start)
    return truth


def _with_slopes(grid: _Grid, tests: list[ExponentTest], slopes: dict[float, float]) -> Array:
    """Measured means, but a straight line past the crossings: of slope 0 against random subsets, or as given."""
    truth = grid.mean.copy()
    alone = grid.points[:, 1] == 1
    random = dict(zip(grid.points[alone, 0], grid.mean[alone], strict=True))
    for test in tests:
        logs = np.log(test.kept_size)
        line = test.log_ratio.mean() + slopes.get(test.keep_fraction, 0.0) * (logs - logs.mean())
        for size, value in zip(test.kept_size, line, strict=True):
            row = (grid.points[:, 0] == size) & (grid.points[:, 1] == test.keep_fraction)
            truth[row] = random[size] + value
    return truth


def _curve_of(law: Any, found: Any, size: Array) -> Array:
    return found.amplitude[0] * np.exp(-found.rate[0] * law.coordinate(size)) + found.asymptote[0]
