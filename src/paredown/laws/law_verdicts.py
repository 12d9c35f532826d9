"""What a comparison of laws can conclude, and the one place where a conclusion becomes a sentence."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from paredown.laws.exponents import PowerLawTest
    from paredown.laws.law_comparison import LawComparison


class LawVerdict(Enum):
    """Which law a curve follows."""

    NAMED = "named"  # `LawComparison.law` says which
    NONE_FITS = "none fits"  # the noise of the runs rejects even the best
    CANNOT_TELL = "cannot tell"


class PowerLawVerdict(Enum):
    """Whether a frontier falls faster than the power law of random subsets."""

    BEATS = "beats"  # steeper at its end, and best described by a law that falls faster than any power
    STEEPER = "steeper"  # but perhaps a power law too
    NOT_STEEPER = "not steeper"
    CANNOT_TELL = "cannot tell"


class Doubt(Enum):
    """Why a verdict is `CANNOT_TELL`."""

    NOISE_UNKNOWN = "noise unknown"
    ONE_FAMILY = "one family"  # too few sizes to fit laws of a second one
    TOO_CLOSE = "too close"  # two families describe the curve about equally well
    PREDICTION_DISAGREES = "prediction disagrees"  # another family predicts left-out sizes better
    INTERVAL_SPANS_ZERO = "interval spans zero"  # the difference of exponents
    RANDOM_FALLS_FASTER = "random falls faster"  # the random curve is no power law itself


_REMEDY = "give several runs per size, or stderr"
_CONCLUSIONS = {
    PowerLawVerdict.BEATS: "Beats the power law",
    PowerLawVerdict.STEEPER: "Steeper than the power law, but possibly a power law itself",
    PowerLawVerdict.NOT_STEEPER: "Does not beat the power law",
    Doubt.NOISE_UNKNOWN: f"Cannot tell, because the noise is unknown ({_REMEDY})",
    Doubt.INTERVAL_SPANS_ZERO: "Cannot tell whether the frontier is steeper",
    Doubt.RANDOM_FALLS_FASTER: "Cannot tell, because the random curve itself falls faster than a power law",
}


def describe_comparison(found: LawComparison) -> str:
    """A comparison of laws as a sentence with the numbers behind its verdict."""
    number = f"AICc lower by {found.difference:.3g} than {found.runner_up}, Akaike weight {found.weight:.3g}"
    if found.verdict is LawVerdict.NAMED:
        assert found.law is not None
        text = f"{found.contenders[found.law].fit}; {number}."
        return text[0].upper() + text[1:]
    if found.verdict is LawVerdict.NONE_FITS:
        fit = found.contenders[found.best].fit
        return (
            f"None of the laws fits: {found.best} comes closest ({number}), but misses by more than the noise of the "
            f"runs (p = {fit.p_value:.1g}, rms residual {100 * fit.rms_log_error:.2g} %)."
        )
    match found.doubt:
        case Doubt.NOISE_UNKNOWN:
            why = f"there are too few sizes to compare laws without knowing the noise; {_REMEDY}"
        case Doubt.ONE_FAMILY:
            why = f"there are only enough sizes to fit one family of laws ({found.best})"
        case Doubt.PREDICTION_DISAGREES:
            why = f"{found.best} fits best ({number}), but {found.predicts_best} predicts left-out sizes better"
        case _:
            why = f"{found.best} fits best, but not by enough ({number})"
    return f"Cannot tell: {why}."


def describe_power_law_test(found: PowerLawTest) -> str:
    """A comparison with the power law of random subsets as a sentence with its numbers."""
    conclusion = _CONCLUSIONS[found.doubt or found.verdict]
    return (
        f"{conclusion}: the frontier ends with exponent {found.end_exponent:.3g}, random subsets have "
        f"{found.random_exponent:.3g}, a difference of {found.gain:+.3g}; on the frontier the AICc of the best faster "
        f"law is lower by {found.aicc_difference:.3g} than that of the best power law (Akaike weight "
        f"{found.weight:.3g})."
    )
