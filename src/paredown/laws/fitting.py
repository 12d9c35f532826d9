"""One law fitted to one curve, with intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import chi2 as chi_squared
from scipy.stats import f as fisher

from paredown.errors import PareError
from paredown.laws.curves import BOOTSTRAP, Curve, Estimate, column, interval
from paredown.laws.forms import Array, Law, find_law
from paredown.laws.least_squares import solve

_FEWEST = 4


@dataclass(frozen=True)
class LawFit:
    """A law with the parameters that fit a curve best."""

    law: str  # name in `LAWS`
    formula: str  # of the law, in the names of the parameters
    parameters: Mapping[str, Estimate]  # name -> value and 95 % interval
    rms_log_error: float  # root mean square of the residuals in log error; 0.02 is a typical miss of 2 %
    r_squared: float  # fraction of the (weighted) variance of log error explained
    chi_squared: float  # sum of the squared residuals in units of their standard errors (of 1, if those are unknown)
    p_value: float  # how likely so bad a fit is if the law holds; NaN if the noise is unknown
    aicc: float  # Akaike's information criterion for few points; infinite if there are too few to judge the law at all
    samples: Mapping[str, Array] = field(repr=False)  # parameters of the bootstrap's fits, arrays of shape (draws,)

    def __getitem__(self, name: str) -> Estimate:
        return self.parameters[name]

    def __str__(self) -> str:
        numbers = ", ".join(f"{name} = {estimate}" for name, estimate in self.parameters.items())
        return f"{self.law}, {self.formula}: {numbers}; rms residual {100 * self.rms_log_error:.2g} %"

    def predict(self, size: ArrayLike) -> Array:
        """Errors at any sizes."""
        values = {name: np.float64(estimate.value) for name, estimate in self.parameters.items()}
        return _predict(find_law(self.law), column("size", size), values)

    def predict_interval(self, size: ArrayLike) -> tuple[Array, Array]:
        """The 95 % limits of the mean error at any sizes, given that the law holds there."""
        sizes = column("size", size)
        each = {name: sample[:, None] for name, sample in self.samples.items()}
        low, high = np.quantile(_predict(find_law(self.law), sizes, each), [0.025, 0.975], axis=0)
        return low, high


def fit(curve: Curve, law: str = "power", *, draws: int = BOOTSTRAP, seed: int = 0) -> LawFit:
    """Fit a law by weighted least squares in log error; intervals by bootstrap.

    Weights are the inverse variances of log error; every size counts the same if those are unknown. The bootstrap draws
    the runs of each size again where there are several, else adds Gaussian noise to the fitted curve: of the given
    standard errors, or of the size of the residuals.

    Args:
        curve: made by `paredown.laws.curve`; four sizes or more.
        law: a name in `LAWS`.
        draws, seed: of the bootstrap behind the intervals.
    """
    form = find_law(law)
    check_points(curve)
    best = solve(form, curve.size, np.log(curve.error)[None], weights(curve))
    free = len(curve) - len(form.names)  # one or more: a law has three parameters at most
    centre = np.log(form.predict(curve.size, *(value[0] for value in best[:3])))
    rng = np.random.default_rng(seed)
    if curve.stderr is None:
        noise = np.sqrt(best.loss[0] / free)
        targets = centre + noise * rng.standard_normal((draws, len(curve)))
    else:
        targets = curve.resample(draws, rng, None if curve.runs is not None else centre)
    drawn = solve(form, curve.size, targets, weights(curve))
    freedom = curve.freedom if curve.stderr is not None else free
    samples = dict(zip(form.names, drawn, strict=False))
    parameters = {
        name: interval(float(value[0]), samples[name], freedom) for name, value in zip(form.names, best, strict=False)
    }
    residual = np.log(curve.error) - centre
    weight = weights(curve)
    spread = np.average((np.log(curve.error) - np.average(np.log(curve.error), weights=weight)) ** 2, weights=weight)
    return LawFit(
        law=form.name,
        formula=form.formula,
        parameters=parameters,
        rms_log_error=float(np.sqrt(np.mean(residual**2))),
        r_squared=1 - float(np.average(residual**2, weights=weight) / spread) if spread > 0 else 1.0,
        chi_squared=float(best.loss[0]),
        p_value=_p_value(float(best.loss[0]), free, curve),
        aicc=float(information_criterion(best.loss, form, curve)[0]),
        samples=samples,
    )


def weights(curve: Curve) -> Array:
    """Inverse variances of log error."""
    return curve.log_stderr**-2


def information_criterion(loss: Array, law: Law, curve: Curve) -> Array:
    """AICc: (n + v) log(loss + v) + 2 p + 2 p (p + 1) / (n + v - p - 1).

    v degrees of freedom stand behind the standard errors. With runs this is Akaike's criterion of the regression on all
    runs; with v = 0 the common one for unknown noise; as v goes to infinity it becomes loss + 2 p, which needs no
    correction. p counts the noise level wherever that is estimated.
    """
    n, v, p = len(curve), curve.freedom, len(law.names)
    if np.isinf(v):
        return loss + 2 * p
    p, total = p + 1, n + v
    if total - p - 1 <= 0:
        return np.full_like(loss, np.inf)
    # A loss of rounding errors only is no better than another such; v log v is left out, the same for all laws.
    scale = np.maximum(loss, n * 1e-24) + v
    return total * np.log(scale) - (v * np.log(v) if v else 0) + 2 * p + 2 * p * (p + 1) / (total - p - 1)


def check_points(curve: Curve, fewest: int = _FEWEST) -> None:
    """Raise if a curve has fewer sizes than a fit needs."""
    if len(curve) < fewest:
        raise PareError(
            f"a law needs {fewest} or more different sizes, got {len(curve)}: "
            f"{', '.join(f'{size:g}' for size in curve.size)}. Measure at more sizes."
        )


def _predict(law: Law, size: Array, values: Mapping[str, Any]) -> Array:
    amplitude, rate, *rest = (values[name] for name in law.names)
    return law.predict(size, amplitude, rate, rest[0] if rest else 0.0)


def _p_value(loss: float, free: int, curve: Curve) -> float:
    if curve.stderr is None:
        return float("nan")
    if np.isinf(curve.freedom):
        return float(chi_squared.sf(loss, free))
    return float(fisher.sf(loss / free, free, curve.freedom))
