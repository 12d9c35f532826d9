"""Which law a curve follows, if the data can tell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from paredown.errors import PareError
from paredown.laws.curves import BOOTSTRAP, Curve, Estimate, interval
from paredown.laws.fitting import LawFit, check_points, fit, information_criterion, weights
from paredown.laws.forms import LAWS, Array, find_law
from paredown.laws.law_verdicts import Doubt, LawVerdict, describe_comparison
from paredown.laws.least_squares import solve

# The two forms the paper fits to measured frontiers, and each with the asymptote that measured errors often have.
PAPER_LAWS = ("power", "power with asymptote", "exponential", "exponential with asymptote")
_CERTAIN = 0.95  # Akaike weight among the families from which a law is named
_REJECTED = 0.001  # p-value below which the best law is said not to fit
_SIMPLER = 2.0  # AICc that an asymptote must gain before it is named; by chance alone it gains up to about this


@dataclass(frozen=True)
class Contender:
    """One law in a comparison."""

    fit: LawFit  # the law fitted to all sizes
    difference: float  # AICc above that of the best law
    weight: float  # Akaike weight among all laws compared
    left_out_error: float  # root mean square error in log error of predicting each size from all others


@dataclass(frozen=True)
class LawComparison:
    """Laws compared on one curve."""

    verdict: LawVerdict  # whether a law is named
    law: str | None  # the named law, or None
    doubt: Doubt | None  # why the verdict is "cannot tell", if it is
    best: str  # the law with the smallest AICc, named or not
    weight: float  # Akaike weight of its family, the best law of each family competing
    runner_up: str | None  # the best law of another family, if there is one
    difference: Estimate  # AICc of the runner-up minus that of the best, with its bootstrap interval
    faster_than_power: float  # Akaike weight of all families that fall faster than a power law
    predicts_best: str  # the law that predicts left-out sizes best
    contenders: Mapping[str, Contender] = field(repr=False)  # name -> law, best first

    @property
    def sentence(self) -> str:
        """The verdict as text, with the numbers behind it."""
        return describe_comparison(self)

    def __str__(self) -> str:
        return self.sentence


def compare(curve: Curve, laws: Sequence[str] = PAPER_LAWS, *, draws: int = BOOTSTRAP, seed: int = 0) -> LawComparison:
    """Compare laws by AICc and by predicting each size from the others.

    A law is named only if its family has an Akaike weight of 0.95 or more, the prediction of left-out sizes agrees, and
    the noise of the runs does not reject it. A law with an asymptote always fits at least as well as without; it is
    named only if it gains 2 in AICc.

    Args:
        curve: made by `paredown.laws.curve`; four sizes or more. Without runs or standard errors AICc needs five sizes,
            six for laws with an asymptote.
        laws: names in `LAWS`, of two or more families. The factorials are there on request: they are hard to tell from
            an exponential.
        draws, seed: of the bootstrap behind the intervals.
    """
    names = list(dict.fromkeys(laws))
    families = {find_law(name).family for name in names}
    if len(families) < 2:
        raise PareError(f"comparing needs laws of two families or more, got {', '.join(names) or 'none'}.")
    check_points(curve)
    fits = {name: fit(curve, name, draws=draws, seed=seed) for name in names}
    scores = np.array([fits[name].aicc for name in names])
    weight = _akaike_weights(scores)
    left_out = {name: _left_out(curve, name) for name in names}
    contenders = {}
    for i in np.argsort(scores, kind="stable"):
        name, above = names[i], float(scores[i] - scores.min()) if np.isfinite(scores[i]) else np.inf
        contenders[name] = Contender(fits[name], above, float(weight[i]), left_out[name])
    return _judge(curve, contenders, draws, seed)


def _judge(curve: Curve, contenders: dict[str, Contender], draws: int, seed: int) -> LawComparison:
    champions: dict[str, str] = {}  # family -> its best law
    for name, contender in contenders.items():
        if np.isfinite(contender.fit.aicc):
            champions.setdefault(LAWS[name].family, name)
    weight = dict(
        zip(champions, _akaike_weights(np.array([contenders[n].fit.aicc for n in champions.values()])), strict=True)
    )
    best, *others = champions.values() or contenders
    runner_up = others[0] if champions and others else None
    family = LAWS[best].family
    difference = _difference(curve, contenders, family, draws, seed) if runner_up else Estimate(np.nan)
    named = best
    plain = next((n for n in contenders if LAWS[n].family == family and not LAWS[n].asymptote), best)
    if contenders[plain].difference < _SIMPLER:
        named = plain
    predicts_best = min(contenders, key=lambda name: np.nan_to_num(contenders[name].left_out_error, nan=np.inf))
    certain = float(weight.get(family, 0))
    verdict, doubt = LawVerdict.CANNOT_TELL, None
    if not champions:
        doubt = Doubt.NOISE_UNKNOWN
    elif runner_up is None:
        doubt = Doubt.ONE_FAMILY
    elif certain < _CERTAIN:
        doubt = Doubt.TOO_CLOSE
    elif contenders[best].fit.p_value < _REJECTED:
        verdict = LawVerdict.NONE_FITS
    elif LAWS[predicts_best].family != family:
        doubt = Doubt.PREDICTION_DISAGREES
    else:
        verdict = LawVerdict.NAMED
    return LawComparison(
        verdict=verdict,
        law=named if verdict is LawVerdict.NAMED else None,
        doubt=doubt,
        best=best,
        weight=certain,
        runner_up=runner_up,
        difference=difference,
        faster_than_power=sum(float(w) for name, w in weight.items() if name != "power") if weight else np.nan,
        predicts_best=predicts_best,
        contenders=contenders,
    )


def _difference(curve: Curve, contenders: dict[str, Contender], family: str, draws: int, seed: int) -> Estimate:
    """AICc of the best law of the other families minus that of the best of this one, with a bootstrap interval."""

    def of(criteria: Mapping[str, Array]) -> Array:
        inside = [value for name, value in criteria.items() if LAWS[name].family == family]
        outside = [value for name, value in criteria.items() if LAWS[name].family != family]
        return np.min(outside, axis=0) - np.min(inside, axis=0)

    measured = of({name: np.array([contender.fit.aicc]) for name, contender in contenders.items()})[0]
    if curve.stderr is None:
        return Estimate(float(measured))
    targets = curve.resample(draws, np.random.default_rng(seed))
    drawn = {}
    for name in contenders:
        law = LAWS[name]
        drawn[name] = information_criterion(solve(law, curve.size, targets, weights(curve)).loss, law, curve)
    return interval(float(measured), of(drawn), curve.freedom)


def _left_out(curve: Curve, name: str) -> float:
    """Leave-one-size-out: root mean square error in log error, weighted as the fit is."""
    law = LAWS[name]
    n = len(curve)
    without = weights(curve) * (1 - np.eye(n))  # row i gives no weight to size i
    amplitude, rate, asymptote, _ = solve(law, curve.size, np.tile(np.log(curve.error), (n, 1)), without)
    predicted = law.predict(curve.size, amplitude, rate, asymptote)
    miss = np.log(curve.error / np.maximum(predicted, 1e-300))
    return float(np.sqrt(np.average(miss**2, weights=weights(curve))))


def _akaike_weights(scores: Array) -> Array:
    if not np.isfinite(scores).any():
        return np.zeros_like(scores)
    relative = np.exp(-(scores - scores.min()) / 2)
    return relative / relative.sum()
