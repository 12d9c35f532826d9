"""Measurements that several figures share: simulated dots, exponents, crossings, agreement with the theory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.laws.claim_rules import Region, judge_mean
from paredown.perceptron import simulate
from paredown.reproduce.base import Claim, FigureTable, pick
from paredown.reproduce.judging import PERCENT, judge_points
from paredown.reproduce.setup import Setup
from paredown.theory import solve

_MARGIN = 0.05  # of log test error, up to which simulations match the theory


def add_dots(table: FigureTable, setup: Setup, points: Sequence[Mapping[str, Any]], *, timed: bool = False) -> None:
    """Simulate each point (arguments of `simulate`) and add it as a row of kind "simulation", theory beside it.

    The number of examples is whole, so a dot stands at the alpha_prune that was really simulated. Each has a seed of
    its own: dots of one curve are independent. `timed` adds the median clock time of one max-margin solution, measured
    on one core, and adds rows of kind "draw" with the time and error of each; the rest depends on the seed alone.
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
        if timed:
            each = {"seconds": dot.values("seconds"), "test_error": dot.values("test_error")}
            table.add_seeds("draw", keep_fraction=setting.keep_fraction, alpha_prune=alpha, columns=each)


def agreement(dots: FigureTable) -> Claim:
    """Whether simulated errors equal the theory's along every curve, up to a margin.

    The theory is for infinitely many features, so a dot may lie apart at finite N where curves are steep; the mean of
    the log ratio over the dots of a curve is judged, with the noise of their draws.
    """
    dots = FigureTable(row for row in dots.rows if row["theory_error"] > 0 and row["test_error"] > 0)
    curves: dict[str, list[dict[str, Any]]] = {}
    for row in dots.rows:
        angle = f", theta {row['theta']:g}" if row["theta"] else ""
        curves.setdefault(f"{row['strategy']}, keep_fraction {row['keep_fraction']:g}{angle}", []).append(row)
    found = {}
    for name, rows in curves.items():
        ratio = np.log([row["test_error"] / row["theory_error"] for row in rows])
        spread = np.array([row["stderr"] / row["test_error"] for row in rows])
        freedom = int(sum(row["draws"] - 1 for row in rows))
        stderr = float(np.sqrt((spread**2).sum())) / len(rows)
        found[name] = judge_mean(
            float(ratio.mean()), stderr, freedom + 1, Region(-_MARGIN, _MARGIN), points=len(curves)
        )
    known = dots.rows[0]
    return judge_points(
        "The theory matches simulations of perceptrons with finitely many features.",
        found,
        rule="equivalent to",
        effect=_MARGIN,
        unit=PERCENT,
        over="draws",
        about=f"{len(dots)} dots at N = {known['n_features']:g} with {known['draws']:g} draws, log of simulated over "
        "exact test error, mean of a curve",
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
