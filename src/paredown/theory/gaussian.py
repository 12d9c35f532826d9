"""Gaussian integrals in closed form, written so that they stay accurate in the tails and over thin intervals."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr, ndtri

Array = NDArray[np.float64]
Index = NDArray[np.intp] | NDArray[np.bool_] | slice

# Beyond 38 the normal density underflows double precision, so a bound there stands for infinity.
INFINITE = 40.0
# Below this width the difference of two distribution functions loses more digits than the series drops.
THIN = 0.02
_ROOT_TWO_PI = np.sqrt(2 * np.pi)


def normal_pdf(x: Array) -> Array:
    """The standard normal density."""
    return np.exp(-0.5 * x * x) / _ROOT_TWO_PI


def psi(x: Array) -> tuple[Array, Array, Array]:
    """Psi_n(x) = E (x - g)_+^n for n = 0, 1, 2 and g ~ N(0, 1).

    Psi_0 = Phi(x), Psi_1 = x Psi_0 + phi(x), Psi_2 = x Psi_1 + Psi_0. The recursion loses about x^4 units of rounding
    on the far left, where the values themselves are below phi(x).
    """
    psi0 = ndtr(x)
    psi1 = x * psi0 + normal_pdf(x)
    return psi0, psi1, x * psi1 + psi0


def mass_between(lower: Array, upper: Array) -> Array:
    """P(lower < |z| < upper) for z ~ N(0, 1), without cancellation in the tail."""
    return 2 * (ndtr(-np.asarray(lower)) - ndtr(-np.asarray(upper)))


def folded_quantile(mass_above: Array) -> Array:
    """The g with P(|z| > g) = mass_above for z ~ N(0, 1)."""
    with np.errstate(divide="ignore"):
        return -ndtri(0.5 * np.asarray(mass_above, dtype=float))


def interval_moments(lower: Array, upper: Array) -> tuple[Array, Array, Array]:
    """The integrals of (1, v, v^2) phi(v) over lower < v < upper; zero where the interval is empty."""
    lower = np.clip(lower, -INFINITE, INFINITE)
    upper = np.maximum(np.clip(upper, -INFINITE, INFINITE), lower)
    # By symmetry take the interval on the side where both distribution functions are small.
    flip = lower + upper > 0
    left, right = np.where(flip, -upper, lower), np.where(flip, -lower, upper)
    pdf_lower, pdf_upper = normal_pdf(lower), normal_pdf(upper)
    mass = ndtr(right) - ndtr(left)
    first = pdf_lower - pdf_upper
    second = mass + lower * pdf_lower - upper * pdf_upper

    width = upper - lower
    thin = (width < THIN) & (width > 0)
    if thin.any():
        h, m = width[thin], 0.5 * (lower[thin] + upper[thin])
        h2, m2, centre = h * h, m * m, normal_pdf(m)
        mass[thin] = centre * h * (1 + h2 * (m2 - 1) / 24 + h2 * h2 * (m2 * m2 - 6 * m2 + 3) / 1920)
        first[thin] = 2 * centre * np.exp(-h2 / 8) * np.sinh(0.5 * m * h)
    return mass, first, second
