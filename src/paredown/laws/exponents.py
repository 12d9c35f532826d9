"""Local exponents along a curve, and an earlier rule on whether a frontier beats the power law of random pruning."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from paredown.errors import PareError
from paredown.laws.curves import BOOTSTRAP, Curve, Estimate, interval, percentile_limits
from paredown.laws.fitting import LawFit, check_points, fit, weights
from paredown.laws.forms import LAWS, Array
from paredown.laws.law_comparison import LawComparison, compare
from paredown.laws.law_verdicts import Doubt, PowerLawVerdict, describe_power_law_test
from paredown.laws.least_squares import solve

_CERTAIN = 0.95


@dataclass(frozen=True)
class LocalExponents:
    """nu = -d log error / d log n along a curve: constant for a power law, rising for anything faster."""

    size: Array  # geometric mean of the sizes behind each, shape (m,)
    exponent: Array  # nu, shape (m,)
    low: Array  # lower limit of the 95 % interval; NaN if nothing is known about the noise
    high: Array  # upper limit
    samples: Array  # exponents of the bootstrap, shape (draws, m); no draws if the noise is unknown

    def __len__(self) -> int:
        return len(self.size)

    def __getitem__(self, place: int) -> Estimate:
        return Estimate(float(self.exponent[place]), float(self.low[place]), float(self.high[place]))


def local_exponents(curve: Curve, *, span: int = 2, draws: int = BOOTSTRAP, seed: int = 0) -> LocalExponents:
    """The exponent of the power law through each `span` neighbouring sizes, by weighted least squares in the logs.

    Args:
        curve: made by `paredown.laws.curve`.
        span: sizes behind each exponent; 2 is the slope between neighbours, more is steadier and less local.
        draws, seed: of the bootstrap behind the intervals.
    """
    if span < 2:
        raise PareError(f"span must be 2 or more sizes, got {span}.")
    check_points(curve, span)
    known = curve.stderr is not None
    targets = np.log(curve.error)[None]
    if known:
        targets = np.concatenate([targets, curve.resample(draws, np.random.default_rng(seed))])
    pieces = [slice(start, start + span) for start in range(len(curve) - span + 1)]
    slopes = np.stack(
        [solve(LAWS["power"], curve.size[piece], targets[:, piece], weights(curve)[piece]).rate for piece in pieces],
        axis=-1,
    )
    exponent, samples = slopes[0], slopes[1:]
    unknown = np.full(len(pieces), np.nan)
    low, high = percentile_limits(samples, curve.freedom) if known else (unknown, unknown)
    middle = np.array([np.exp(np.log(curve.size[piece]).mean()) for piece in pieces])
    return LocalExponents(middle, exponent, low, high, samples)


@dataclass(frozen=True)
class PowerLawTest:
    """Whether a frontier falls faster than the power law of random pruning."""

    verdict: PowerLawVerdict  # whether it does
    doubt: Doubt | None  # why the verdict is "cannot tell", if it is
    end_exponent: Estimate  # local exponent over the last sizes of the frontier
    random_exponent: Estimate  # exponent of the power law fitted to the random curve
    gain: Estimate  # their difference
    aicc_difference: float  # AICc of the best power law minus that of the best faster law on the frontier
    weight: float  # Akaike weight of the faster laws on the frontier
    frontier: LawComparison  # the laws compared on the frontier
    random: LawFit  # the power law of the random curve

    @property
    def sentence(self) -> str:
        """The verdict as text, with its numbers."""
        return describe_power_law_test(self)

    def __str__(self) -> str:
        return self.sentence


def beats_power_law(
    frontier: Curve, random: Curve, *, span: int = 3, draws: int = BOOTSTRAP, seed: int = 0
) -> PowerLawTest:
    """Compare the end of a frontier with the power law of random subsets; use `steeper_than_random` instead.

    Deprecated. The end of a frontier is where the initial set forces larger fractions on it, so that the end is flat
    however fast the rest falls: on exact theory where the frontier does beat every power law this rule says that it
    does not. `steeper_than_random` judges single runs at the sizes where nothing limits the frontier.

    Args:
        frontier: error of the best keep_fraction against kept size; four sizes or more.
        random: error of random subsets against size; four sizes or more.
        span: sizes at the end of the frontier behind its exponent.
        draws, seed: of the bootstrap behind the intervals.
    """
    warnings.warn(
        "beats_power_law judges a frontier by its end, where the initial set limits it: use steeper_than_random, with "
        "one row per run.",
        DeprecationWarning,
        stacklevel=2,
    )
    end = local_exponents(frontier, span=span, draws=draws, seed=seed)
    laws = compare(frontier, draws=draws, seed=seed)
    straight = fit(random, "power", draws=draws, seed=seed + 1)
    nu = straight["nu"]
    if frontier.stderr is None or random.stderr is None:
        gain = Estimate(end[-1].value - nu.value)
    else:
        freedom = min(frontier.freedom, random.freedom)
        gain = interval(end[-1].value - nu.value, end.samples[:, -1] - straight.samples["nu"], freedom)
    best = {"power": np.inf, "faster": np.inf}
    for name, contender in laws.contenders.items():
        kind = "power" if LAWS[name].family == "power" else "faster"
        best[kind] = min(best[kind], contender.fit.aicc)
    aicc = best["power"] - best["faster"] if np.isfinite(list(best.values())).all() else np.nan
    reference = compare(random, draws=draws, seed=seed).faster_than_power
    verdict, doubt = _verdict(gain, laws.faster_than_power, reference)
    return PowerLawTest(verdict, doubt, end[-1], nu, gain, float(aicc), laws.faster_than_power, laws, straight)


def _verdict(gain: Estimate, weight: float, reference: float) -> tuple[PowerLawVerdict, Doubt | None]:
    if np.isnan(gain.low):
        return PowerLawVerdict.CANNOT_TELL, Doubt.NOISE_UNKNOWN
    if gain.high <= 0:
        return PowerLawVerdict.NOT_STEEPER, None
    if gain.low <= 0:
        return PowerLawVerdict.CANNOT_TELL, Doubt.INTERVAL_SPANS_ZERO
    if reference >= _CERTAIN:
        return PowerLawVerdict.CANNOT_TELL, Doubt.RANDOM_FALLS_FASTER
    return (PowerLawVerdict.BEATS if weight >= _CERTAIN else PowerLawVerdict.STEEPER), None
