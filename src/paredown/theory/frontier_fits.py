"""Functional forms fitted to the theory's frontier: power law, exponential, factorial, iterated factorial.

Appendix figure 'Scaling of the Pareto frontier', which fits the four to the perceptron's frontier by least squares. The
forms and the least squares are those of `paredown.laws`, which also deals with noise; a curve of the theory has none.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from paredown.errors import PareError
from paredown.laws.forms import LAWS
from paredown.laws.least_squares import solve
from paredown.theory.gaussian import Array
from paredown.theory.validation import positive

# The name of a form -> its law.
FRONTIER_FORMS = {
    "power law": LAWS["power"],
    "exponential": LAWS["exponential"],
    "factorial": LAWS["factorial"],
    "iterated factorial": LAWS["iterated factorial"],
}


@dataclass(frozen=True)
class FrontierFit:
    """One fitted form."""

    form: str  # name of the form
    amplitude: float  # factor in front
    rate: float  # exponent of the power law, or the factor of alpha_prune in the other forms
    r_squared: float  # fraction of the variance of log test_error explained
    rms_log_error: float  # root mean square of the residuals in log test_error
    predicted: Array  # fitted errors at the given alpha_prune


def fit_frontier(alpha_prune: ArrayLike, test_error: ArrayLike) -> dict[str, FrontierFit]:
    """Fit the four forms by least squares on log test_error; the result is ordered from best to worst.

    error = A alpha^-b (power law), A exp(-b alpha), A / Gamma(b alpha + 1) (factorial) and A / prod_{j <= b alpha} j!
    (iterated factorial, log-linear between whole numbers).
    """
    alpha, error = positive("alpha_prune", alpha_prune).ravel(), positive("test_error", test_error).ravel()
    if len(alpha) != len(error) or len(alpha) < 3:
        raise PareError(f"a fit needs three or more points, got {len(alpha)} alphas and {len(error)} errors.")
    fits = [_fit(form, alpha, np.log(error)) for form in FRONTIER_FORMS]
    return {fit.form: fit for fit in sorted(fits, key=lambda fit: fit.rms_log_error)}


def _fit(form: str, alpha: Array, target: Array) -> FrontierFit:
    best = solve(FRONTIER_FORMS[form], alpha, target[None], np.ones_like(alpha))
    amplitude, rate, variance = float(best.amplitude[0]), float(best.rate[0]), float(best.loss[0]) / len(alpha)
    spread = float(np.var(target))
    predicted = FRONTIER_FORMS[form].predict(alpha, best.amplitude, best.rate, best.asymptote)
    r_squared = 1 - variance / spread if spread > 0 else 1.0
    return FrontierFit(form, amplitude, rate, r_squared, float(np.sqrt(variance)), predicted)
