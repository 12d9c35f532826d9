"""Entropy and information gain of the Gibbs student: a random member of the version space of the kept examples.

Appendix section 'Information gain per example', at theta = 0. The replica entropy depends on two overlaps, q between
two students and R between student and teacher. Without pruning q = R, because the teacher is then itself a typical
student. Pruning by the teacher's own margin breaks that symmetry, so the true saddle point has q > R:
`form="exact"` solves for both, `form="paper"` imposes q = R as the printed entropy does. With

    w = (q - R^2) / (1 - q),    r = R / sqrt(1 - q),    S = sqrt(w) t + r z,    g = phi(S) / Phi(S)

and averages over t ~ N(0, 1) and over kept z > 0, the exact saddle point is w = alpha <g^2> and
r (1 - alpha <g (g + S)>) = alpha <g z>, and the information gain is I = -dS/dalpha = -<log Phi(S)>.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import root
from scipy.special import erfcx, expit, log_ndtr

from paredown.errors import PareError, check_known
from paredown.theory.gaussian import Array, folded_quantile, interval_moments, normal_pdf
from paredown.theory.quadrature import bracketed_root, composite_rule, transition
from paredown.theory.validation import as_given, fraction, positive

GIBBS_FORMS = {
    "exact": "both overlaps at the saddle point",
    "paper": "q = R imposed, as the paper's entropy is printed",
}
_ORDER = 16
_BODY = np.array([-7.5, -6.0, -4.5, -3.0, -1.5, 0.0, 1.5, 3.0, 4.5, 6.0, 7.5])
_REACH = 9.5
_RESIDUAL = 1e-11


@dataclass(frozen=True)
class GibbsStudent:
    """The typical student of the version space; floats, or arrays of the broadcast shape of the inputs."""

    alpha_prune: Any  # kept examples per weight
    keep_fraction: Any  # fraction of hardest examples kept
    form: str  # one of `GIBBS_FORMS`
    q: Any  # overlap of two students
    R: Any  # overlap of student and teacher
    test_error: Any  # arccos(R) / pi
    entropy: Any  # log volume of the version space per weight, relative to the sphere
    information_gain: Any  # nats gained from one more example


def information_gain(
    alpha_prune: ArrayLike, keep_fraction: ArrayLike = 1.0, *, form: str = "exact", missing: str = "raise"
) -> Any:
    """Nats gained from one more kept example, I = -dS/dalpha; arguments as for `gibbs`."""
    return gibbs(alpha_prune, keep_fraction, form=form, missing=missing).information_gain


def entropy(
    alpha_prune: ArrayLike, keep_fraction: ArrayLike = 1.0, *, form: str = "exact", missing: str = "raise"
) -> Any:
    """Log volume of the version space per weight; arguments as for `gibbs`."""
    return gibbs(alpha_prune, keep_fraction, form=form, missing=missing).entropy


def gibbs(
    alpha_prune: ArrayLike, keep_fraction: ArrayLike = 1.0, *, form: str = "exact", missing: str = "raise"
) -> GibbsStudent:
    """Solve for the Gibbs student that was shown the hardest examples (theta = 0).

    Args:
        alpha_prune: kept examples per weight.
        keep_fraction: fraction of examples kept, the hardest, in (0, 1].
        form: "exact" or "paper". The paper's form has a stationary point only for mild pruning or many examples; where
            it has two, the one with the larger R is taken, which joins the unpruned solution.
        missing: what to do where the paper's form has no stationary point: "raise", or "nan" to leave a gap.
    """
    check_known("form", form, GIBBS_FORMS)
    check_known("value of missing", missing, ("raise", "nan"))
    alpha, f = np.broadcast_arrays(positive("alpha_prune", alpha_prune), fraction("keep_fraction", keep_fraction))
    rows = np.array([_point(float(a), float(g), form, missing) for a, g in zip(alpha.flat, f.flat, strict=True)])
    columns = [as_given(c.reshape(alpha.shape), alpha.ndim == 0) for c in rows.reshape(-1, 5).T]
    q, overlap, test_error, volume, information = columns
    alpha, f = (as_given(a, alpha.ndim == 0) for a in (alpha, f))
    return GibbsStudent(alpha, f, form, q, overlap, test_error, volume, information)


def _point(alpha: float, f: float, form: str, missing: str) -> tuple[float, float, float, float, float]:
    gamma = float(folded_quantile(np.asarray(1 - f)))
    if form == "exact":
        w, r = _solve_exact(alpha, f, gamma)
    else:
        overlap = _solve_paper(alpha, f, gamma)
        if overlap is None:
            if missing == "nan":
                return np.nan, np.nan, np.nan, np.nan, np.nan
            raise PareError(
                f'form="paper" imposes q = R, and its entropy has no stationary point at alpha_prune={alpha:g}, '
                f'keep_fraction={f:g}; use form="exact", or missing="nan" to leave a gap.'
            )
        w, r = overlap, overlap / np.sqrt(1 - overlap)
    total = 1 + w + r * r
    information = -_averages(w, r, f, gamma)[0]
    volume = 0.5 * (w - np.log(total)) - alpha * information
    return 1 - 1 / total, r / np.sqrt(total), np.arctan2(np.sqrt(1 + w), r) / np.pi, volume, information


def _averages(w: float, r: float, f: float, gamma: float) -> tuple[float, ...]:
    """< log Phi >, < g^2 >, < g (g + S) >, < g z > over t and over kept z > 0.

    Along S = sqrt(V) u, V = w + r^2, the kept strip 0 < z < gamma is an interval of the orthogonal field v.
    """
    root_v = np.hypot(np.sqrt(w), r)
    cosine, sine = r / root_v, max(np.sqrt(w) / root_v, 1e-300)
    blur = sine / max(cosine, 1e-300)
    edge = min(gamma, 40.0) / max(cosine, 1e-300)
    steps = [
        transition(np.asarray(c), np.asarray(width)) for c, width in ((0.0, blur), (edge, blur), (0.0, 1 / root_v))
    ]
    breaks = np.concatenate([*steps, _BODY])
    u, weight = composite_rule(breaks, np.asarray(-_REACH), np.asarray(_REACH), order=_ORDER)
    mass, first, _ = interval_moments(-u * cosine / sine, (min(gamma, 40.0) - u * cosine) / sine)
    weight = 2 * weight * normal_pdf(u) / f
    field = root_v * u
    log_phi = log_ndtr(field)
    g = np.sqrt(2 / np.pi) / erfcx(-field / np.sqrt(2))  # phi / Phi, exact in both tails
    held = weight * mass
    gz = cosine * (weight * mass * u) @ g + sine * (weight * first) @ g
    return float(held @ log_phi), float(held @ g**2), float(held @ (g * (g + field))), float(gz)


def _solve_exact(alpha: float, f: float, gamma: float) -> tuple[float, float]:
    """The saddle point (w, r): Newton-like from two guesses, and if both fail two nested bracketed searches."""

    def conditions(logs: Array) -> list[float]:
        w, r = np.exp(np.clip(logs, -60, 60))
        _, squared, curvature, pull = _averages(w, r, f, gamma)
        return [float(np.log(alpha * squared / w)), 1 - alpha * curvature - alpha * pull / r]

    overlap = alpha / (1.1 + alpha)
    for gain in (1 / f, f) if alpha > 2 else (f, 1 / f):
        start = np.log([overlap, gain * overlap / np.sqrt(1 - overlap)])
        with np.errstate(all="ignore"):
            found = root(conditions, start, method="hybr", options={"xtol": 1e-13})
        if np.abs(conditions(found.x)).max() < _RESIDUAL:
            return float(np.exp(found.x[0])), float(np.exp(found.x[1]))
    return _solve_nested(conditions)


def _solve_nested(conditions: Callable[[Array], list[float]]) -> tuple[float, float]:
    """Near alpha = 2 and small keep_fraction the solution moves by orders of magnitude and no guess is good."""

    def balanced(log_w: float) -> float:
        return bracketed_root(lambda log_r: conditions(np.array([log_w, log_r]))[1], -25.0, 20.0)

    log_w = bracketed_root(lambda x: -conditions(np.array([x, balanced(x)]))[0], -25.0, 20.0)
    log_r = balanced(log_w)
    if not np.abs(conditions(np.array([log_w, log_r]))).max() < 100 * _RESIDUAL:
        raise PareError("the Gibbs student was not found to the promised accuracy; move away from the extreme values.")
    return float(np.exp(log_w)), float(np.exp(log_r))


def _solve_paper(alpha: float, f: float, gamma: float) -> float | None:
    """The largest stationary R of the entropy with q = R, or None if it has no stationary point."""

    def slope(logit: float) -> float:
        """(1 - R) dS/dR: with w = R and r = R / sqrt(1 - R) the chain rule gives the three terms."""
        overlap, rest = float(expit(logit)), float(expit(-logit))
        _, _, curvature, pull = _averages(overlap, overlap / np.sqrt(rest), f, gamma)
        return -overlap / 2 - alpha * rest * curvature / 2 + alpha * pull * (1 + rest) / (2 * np.sqrt(rest))

    grid = np.linspace(25.0, -12.0, 149)
    above = slope(grid[0])
    for high, low in pairwise(grid):
        below = slope(low)
        if above * below < 0:
            return float(expit(bracketed_root(slope, low, high)))
        above = below
    return None
