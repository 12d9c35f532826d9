"""Functional forms fitted to a frontier: power law, exponential, factorial, iterated factorial.

Appendix figure 'Scaling of the Pareto frontier', which fits the four to the perceptron's frontier by least squares.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from paredown.errors import PareError
from paredown.theory.gaussian import Array
from paredown.theory.inputs import positive
from paredown.theory.searches import bounded_minimum

__all__ = ["FORMS", "FrontierFit", "fit_frontier"]

_LARGEST_RATE = 50.0


def _log_iterated_factorial(n: Array) -> Array:
    """Log of the product 1! 2! ... n!, linear between whole numbers."""
    whole = np.floor(n).astype(int)
    part = n - whole
    steps = np.concatenate([[0.0], np.cumsum(gammaln(np.arange(1, whole.max() + 3) + 1))])
    return steps[whole] * (1 - part) + steps[whole + 1] * part


# name -> h(x) in error = amplitude * exp(-h(rate * alpha)); the power law is fitted in log alpha instead.
FORMS: dict[str, Callable[[Array], Array]] = {
    "power law": lambda x: x,
    "exponential": lambda x: x,
    "factorial": lambda x: gammaln(x + 1),
    "iterated factorial": _log_iterated_factorial,
}


@dataclass(frozen=True)
class FrontierFit:
    """One fitted form.

    Attributes:
        form: name of the form.
        amplitude: factor in front.
        rate: exponent of the power law, or the factor of alpha_prune in the other forms.
        r_squared: fraction of the variance of log test_error explained.
        rms_log_error: root mean square of the residuals in log test_error.
        predicted: fitted errors at the given alpha_prune.
    """

    form: str
    amplitude: float
    rate: float
    r_squared: float
    rms_log_error: float
    predicted: Array


def fit_frontier(alpha_prune: ArrayLike, test_error: ArrayLike) -> dict[str, FrontierFit]:
    """Fit the four forms by least squares on log test_error; the result is ordered from best to worst.

    error = A alpha^-b (power law), A exp(-b alpha), A / Gamma(b alpha + 1) (factorial) and A / prod_{j <= b alpha} j!
    (iterated factorial, log-linear between whole numbers).
    """
    alpha, error = positive("alpha_prune", alpha_prune).ravel(), positive("test_error", test_error).ravel()
    if len(alpha) != len(error) or len(alpha) < 3:
        raise PareError(f"a fit needs three or more points, got {len(alpha)} alphas and {len(error)} errors.")
    fits = [_fit(form, alpha, np.log(error)) for form in FORMS]
    return {fit.form: fit for fit in sorted(fits, key=lambda fit: fit.rms_log_error)}


def _fit(form: str, alpha: Array, target: Array) -> FrontierFit:
    shape = FORMS[form]
    if form == "power law":
        x = np.log(alpha)
        rate = -float(np.polyfit(x, target, 1)[0])
        curve = -rate * x
    else:

        def loss(log_rate: float) -> float:
            residual = target + shape(np.exp(log_rate) * alpha)
            return float(np.var(residual))

        grid = np.linspace(np.log(1e-3), np.log(_LARGEST_RATE), 200)
        best = int(np.argmin([loss(x) for x in grid]))
        bounds = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
        rate = float(np.exp(bounded_minimum(loss, *bounds, precision=1e-10).x))
        curve = -shape(rate * alpha)
    offset = float(np.mean(target - curve))
    residual = target - curve - offset
    spread = float(np.var(target))
    r_squared = 1 - float(np.var(residual)) / spread if spread > 0 else 1.0
    return FrontierFit(
        form, float(np.exp(offset)), rate, r_squared, float(np.sqrt(np.mean(residual**2))), np.exp(curve + offset)
    )
