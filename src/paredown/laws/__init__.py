"""Scaling laws of measured errors: the frontier over keep fractions, fits with intervals, and which law it is.

Everything is a pure function of arrays. A curve (`curve`, or the `curve` of a `pareto_frontier`) goes into `fit`,
`compare`, `local_exponents` and `beats_power_law`.
"""

from __future__ import annotations

from paredown.laws.calibration import Strength, Weakness, calibrate
from paredown.laws.claim_rules import (
    ClaimVerdict,
    Finding,
    Region,
    above,
    below,
    better_than,
    correlated_above,
    correlated_below,
    equivalent_to,
    judge_mean,
    no_worse_than,
)
from paredown.laws.curves import Curve, Estimate, curve
from paredown.laws.equal_exponents import ExponentTest, equal_exponents
from paredown.laws.exponents import LocalExponents, PowerLawTest, beats_power_law, local_exponents
from paredown.laws.fitting import LawFit, fit
from paredown.laws.forms import LAWS, Law
from paredown.laws.frontier import MeasuredFrontier, MeasuredRow, pareto_frontier
from paredown.laws.law_comparison import Contender, LawComparison, compare
from paredown.laws.law_verdicts import Doubt, LawVerdict, PowerLawVerdict
from paredown.laws.steepness import SteepnessTest, steeper_than_random

__all__ = [
    "LAWS",
    "ClaimVerdict",
    "Contender",
    "Curve",
    "Doubt",
    "Estimate",
    "ExponentTest",
    "Finding",
    "Law",
    "LawComparison",
    "LawFit",
    "LawVerdict",
    "LocalExponents",
    "MeasuredFrontier",
    "MeasuredRow",
    "PowerLawTest",
    "PowerLawVerdict",
    "Region",
    "SteepnessTest",
    "Strength",
    "Weakness",
    "above",
    "beats_power_law",
    "below",
    "better_than",
    "calibrate",
    "compare",
    "correlated_above",
    "correlated_below",
    "curve",
    "equal_exponents",
    "equivalent_to",
    "fit",
    "judge_mean",
    "local_exponents",
    "no_worse_than",
    "pareto_frontier",
    "steeper_than_random",
]
