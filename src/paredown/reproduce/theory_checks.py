"""Measurements that several figures share: simulated dots, exponents, crossings, agreement with the theory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.stats import t as student_t

from paredown.perceptron import simulate
from paredown.reproduce.base import Claim, FigureTable, pick
from paredown.reproduce.setup import Setup
from paredown.theory import solve

# Two-sided 99.73 %, three standard errors of a Gaussian; with few draws Student's t needs more for the same certainty.
_TAIL = 0.00135
_ALLOWED_OUTSIDE = 0.05


def add_dots(table: FigureTable, setup: Setup, points: Sequence[Mapping[str, Any]], *, timed: bool = False) -> None:
    """Simulate each point (arguments of `simulate`) and add it as a row of kind "simulation", theory beside it.

    The number of examples is whole, so a dot stands at the alpha_prune that was really simulated. Each has a seed of
    its own: dots of one curve are independent. `timed` adds the median clock time of one max-margin solution, measured
    on one core; the rest of a row depends on the seed alone.
    """
    common = {**pick(setup.size, "n_features", "draws"), "workers": 1 if timed else None}
    for number, point in enumerate(setup.track(points, "simulating", total=len(points))):
        dot = simulate(**point, **common, seed=setup.seed + number)
        setting = dot.setting
        alpha = setting.n_kept / setting.n_features
        fraction = None if setting.window else setting.keep_fraction
        theta, strategy, window = setting.theta or 0.0, setting.strategy, setting.window
        theory = solve(alpha, fraction, theta=theta, strategy=strategy, window=window)
        table.add(
            "simulation",
            strategy=strategy,
            theta=theta,
            keep_fraction=setting.keep_fraction,
            alpha_prune=alpha,
            alpha_tot=setting.n_total / setting.n_features,
            **pick(dot, "test_error", "stderr"),
            theory_error=theory.test_error,
            **pick(setup.size, "n_features", "draws"),
            **({"seconds": float(np.median(dot.values("seconds")))} if timed else {}),
        )


def agreement(dots: FigureTable) -> Claim:
    """Whether simulated dots lie where the theory puts them, given their standard errors.

    The theory is for infinitely many features, so a few dots may lie outside at finite N, where curves are steep.
    """
    z = (dots["test_error"] - dots["theory_error"]) / dots["stderr"]
    bound = student_t.isf(_TAIL, dots["draws"] - 1)
    outside = int((np.abs(z) > bound).sum())
    worst = dots.rows[int(np.argmax(np.abs(z) / bound))]
    apart = float(np.median(np.abs(dots["test_error"] / dots["theory_error"] - 1)))
    return Claim.judged(
        "The theory matches simulations of perceptrons with finitely many features.",
        outside <= max(1, _ALLOWED_OUTSIDE * len(dots)),
        f"{len(dots)} dots at N = {worst['n_features']:g} with {worst['draws']:g} draws: root mean square difference "
        f"{np.sqrt(np.mean(z**2)):.2f} standard errors, median {100 * apart:.1f} %; {outside} beyond the "
        f"{bound.max():.1f} standard errors of 99.7 % confidence; farthest at alpha_prune "
        f"{worst['alpha_prune']:.3g}, keep_fraction {worst['keep_fraction']:.3g}, theta {worst['theta']:g}.",
        outside=outside,
        bound=float(bound.max()),
    )


def exponent(x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """The local exponent d log y / d log x between neighbouring points."""
    return np.diff(np.log(y)) / np.diff(np.log(x))


def crossing(x: ArrayLike, difference: ArrayLike) -> list[float]:
    """Where a difference changes sign, by interpolation in log x."""
    log_x, d = np.log(x), np.asarray(difference, dtype=float)
    at = np.flatnonzero(d[:-1] * d[1:] < 0)
    return [float(np.exp(log_x[i] - d[i] * (log_x[i + 1] - log_x[i]) / (d[i + 1] - d[i]))) for i in at]


def floats(values: ArrayLike, digits: int = 3) -> str:
    """Numbers for a sentence."""
    return ", ".join(f"{value:.{digits}g}" for value in np.atleast_1d(values))
