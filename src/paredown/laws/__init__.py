"""Scaling laws of measured errors: the frontier over keep fractions, fits with intervals, and which law it is.

Everything is a pure function of arrays. A curve (`curve`, or the `curve` of a `pareto_frontier`) goes into `fit`,
`compare`, `local_exponents` and `beats_power_law`.
"""

from __future__ import annotations

from paredown.laws.claim_rules import ClaimVerdict as ClaimVerdict
from paredown.laws.claim_rules import Finding as Finding
from paredown.laws.claim_rules import Region as Region
from paredown.laws.claim_rules import better_than as better_than
from paredown.laws.claim_rules import correlated_above as correlated_above
from paredown.laws.claim_rules import equivalent_to as equivalent_to
from paredown.laws.claim_rules import no_worse_than as no_worse_than
from paredown.laws.comparing import Contender as Contender
from paredown.laws.comparing import LawComparison as LawComparison
from paredown.laws.comparing import compare as compare
from paredown.laws.curves import Curve as Curve
from paredown.laws.curves import Estimate as Estimate
from paredown.laws.curves import curve as curve
from paredown.laws.exponents import LocalExponents as LocalExponents
from paredown.laws.exponents import PowerLawTest as PowerLawTest
from paredown.laws.exponents import beats_power_law as beats_power_law
from paredown.laws.exponents import local_exponents as local_exponents
from paredown.laws.fitting import LawFit as LawFit
from paredown.laws.fitting import fit as fit
from paredown.laws.forms import LAWS as LAWS
from paredown.laws.forms import Law as Law
from paredown.laws.frontier import MeasuredFrontier as MeasuredFrontier
from paredown.laws.frontier import MeasuredRow as MeasuredRow
from paredown.laws.frontier import pareto_frontier as pareto_frontier
from paredown.laws.law_verdicts import Doubt as Doubt
from paredown.laws.law_verdicts import LawVerdict as LawVerdict
from paredown.laws.law_verdicts import PowerLawVerdict as PowerLawVerdict
from paredown.laws.steepness import SteepnessTest as SteepnessTest
from paredown.laws.steepness import steeper_than_random as steeper_than_random
