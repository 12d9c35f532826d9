"""Which examples to keep, and how many: f_opt and f_min, the best window, the best margin, the better of the two ends.

Appendix section 'Optimal pruning policy' and the paragraph 'The best pruning strategy depends on the amount of initial
data'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import minimize_scalar
from scipy.special import expit

from paredown.errors import PareError
from paredown.theory.gaussian import Array, folded_quantile, mass_between, normal_pdf, psi
from paredown.theory.phase_diagram import SEARCH_FLOOR, pareto_frontier
from paredown.theory.quadrature import bracketed_root
from paredown.theory.saddle import solve
from paredown.theory.validation import as_given, fraction, positive, probe_angle


@dataclass(frozen=True)
class OptimalWindow:
    """The best a < |z| < b for given sizes, and what it gains over either end."""

    alpha_prune: float  # kept examples per weight
    keep_fraction: float  # fraction kept
    theta: float  # probe angle in degrees
    window: tuple[float, float]  # (a, b)
    test_error: float  # with this window
    hard_error: float  # keeping the hardest instead
    easy_error: float  # keeping the easiest instead


def optimal_window(alpha_prune: float, keep_fraction: float, *, theta: float = 0.0) -> OptimalWindow:
    """The window of |z| holding `keep_fraction` of the examples that gives the smallest test error.

    The printed window equations of the appendix carry prefactors twice too large; `solve` has them right. The window
    slides from the easy end (b infinite) to the hard end (a = 0) as alpha_prune grows; its place is searched over the
    fraction of examples above it, on a grid of 61 and then to the precision the flat optimum allows.
    """
    alpha, f = float(positive("alpha_prune", alpha_prune)), float(fraction("keep_fraction", keep_fraction))
    ends = [float(solve(alpha, f, theta=theta, strategy=end).test_error) for end in ("hard", "easy")]
    whole = OptimalWindow(alpha, f, float(theta), (0.0, np.inf), ends[0], ends[0], ends[1])
    if f == 1:
        return whole

    def windows(logit: Array) -> tuple[Array, Array]:
        above, below = (1 - f) * expit(logit), (1 - f) * expit(-logit)
        return folded_quantile(1 - below), folded_quantile(above)

    def error(logit: Any) -> Any:
        return solve(alpha, theta=theta, window=windows(np.asarray(logit, dtype=float))).test_error

    grid = np.linspace(-16.0, 16.0, 61)
    errors = error(grid)
    best = int(np.argmin(errors))
    bounds = (grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)])
    found: Any = minimize_scalar(error, bounds=bounds, method="bounded", options={"xatol": 1e-7})
    inside = tuple(float(edge) for edge in windows(np.asarray(found.x)))
    hard_edge, easy_edge = (float(folded_quantile(np.asarray(mass))) for mass in (1 - f, f))
    test_error, window = min((float(found.fun), inside), (ends[0], (0.0, hard_edge)), (ends[1], (easy_edge, np.inf)))
    return OptimalWindow(alpha, f, float(theta), (window[0], window[1]), test_error, *ends)


@dataclass(frozen=True)
class DeltaOptimum:
    """What keeping only examples with one single margin |z| = position can reach (theta = 0)."""

    alpha_prune: float  # kept examples per weight
    # where to put the margin: infinity below alpha_prune = 2 (the error falls as it grows, and is reached only in
    # the limit), NaN from 2 on (every position does)
    position: float
    test_error: float  # the smallest error, 0 in both cases
    gardner_margin: float  # margin of random labels at the same alpha_prune, which sets the error at a finite position

    def error_at(self, position: float) -> float:
        """Test error if all kept examples have |z| = position: R = z / sqrt(z^2 + margin^2), or R = 1 from alpha 2."""
        z = float(positive("position", position))
        return float(np.arctan2(max(self.gardner_margin, 0.0), z) / np.pi)


def optimal_delta(alpha_prune: float) -> DeltaOptimum:
    """The optimum of the appendix over all densities p(z), a delta function, solved in closed form.

    With p = delta(|z| - z*) the shortfall x of every example is the same, so alpha Psi_2(x) = 1 makes it Gardner's
    margin of random labels, and the length condition gives r x = z*: R = z* / sqrt(z*^2 + x^2) if x > 0, that is below
    alpha = 2. From alpha = 2 on, x <= 0 and the margin grows with r without end: R = 1 wherever the delta stands.
    """
    alpha = float(positive("alpha_prune", alpha_prune))
    margin = gardner_margin(alpha)
    return DeltaOptimum(alpha, np.inf if alpha < 2 else np.nan, 0.0, margin)


def gardner_margin(alpha_prune: float) -> float:
    """The largest margin of alpha_prune random labels per weight: alpha Psi_2(margin) = 1; negative above 2."""
    alpha = float(positive("alpha_prune", alpha_prune))

    def excess(margin: float) -> float:
        return float(np.log(alpha * psi(np.asarray(margin))[2]))

    return bracketed_root(excess, -8.0, 2 / np.sqrt(alpha) + 2)


class Choice(str):
    """The better end, "hard" or "easy", as a string that also knows the numbers behind it."""

    hard_error: float  # test error of keeping the hardest
    easy_error: float  # test error of keeping the easiest
    difference: float  # easy_error - hard_error, positive where hard is better

    def __new__(cls, hard_error: float, easy_error: float) -> Choice:
        """The end with the smaller error; the hard one if they are equal."""
        choice = super().__new__(cls, "hard" if hard_error <= easy_error else "easy")
        choice.hard_error, choice.easy_error = hard_error, easy_error
        choice.difference = easy_error - hard_error
        return choice


def better_strategy(alpha_tot: ArrayLike, keep_fraction: ArrayLike, *, theta: ArrayLike = 0.0) -> Any:
    """Which end to keep: a `Choice` that equals "hard" or "easy", or an object array of them."""
    hard, easy = (
        solve(alpha_tot=alpha_tot, keep_fraction=keep_fraction, theta=theta, strategy=end).test_error
        for end in ("hard", "easy")
    )
    return np.frompyfunc(lambda h, e: Choice(float(h), float(e)), 2, 1)(hard, easy)


@dataclass(frozen=True)
class BestKeep:
    """How much to keep."""

    keep_fraction: float  # the best fraction
    alpha_prune: float  # kept examples per weight
    alpha_tot: float  # examples per weight before pruning
    test_error: float  # with it
    at_limit: bool  # whether a limit given by the caller holds the fraction up


def best_keep_fraction(
    *,
    alpha_tot: float | None = None,
    alpha_prune: float | None = None,
    theta: float = 0.0,
    strategy: str = "hard",
    min_keep_fraction: float | None = None,
    max_alpha_tot: float | None = None,
    tolerance: float = 0.01,
) -> BestKeep:
    """The fraction to keep, for a given number of examples before pruning (`alpha_tot`) or after (`alpha_prune`).

    With `alpha_prune` the training budget is fixed and more pruning means starting from more data: the fraction of
    smallest error, a point of `pareto_frontier`. With `alpha_tot` the data are fixed and dropping examples never helps
    by more than rounding: the smallest fraction whose error is within `tolerance` (relative) of keeping everything.
    """
    if (alpha_tot is None) == (alpha_prune is None):
        raise PareError("give either alpha_tot (examples before pruning) or alpha_prune (kept examples per weight).")
    if alpha_prune is not None:
        limits = {"min_keep_fraction": min_keep_fraction, "max_alpha_tot": max_alpha_tot}
        frontier = pareto_frontier(alpha_prune, theta=theta, strategy=strategy, **limits)
        row = next(iter(frontier))
        return BestKeep(row.keep_fraction, row.alpha_prune, row.alpha_tot, row.test_error, bool(frontier.at_limit[0]))
    return _least_without_loss(
        positive("alpha_tot", alpha_tot or np.nan), theta, strategy, min_keep_fraction, tolerance
    )


def _least_without_loss(
    total: Array, theta: float, strategy: str, min_keep_fraction: float | None, tolerance: float
) -> BestKeep:
    allowed = float(solve(total, 1.0).test_error) * (1 + tolerance)
    low = SEARCH_FLOOR if min_keep_fraction is None else float(fraction("min_keep_fraction", min_keep_fraction))
    left, right = np.log(low), 0.0
    at_limit = False
    # Each grid lies inside the cell of the last one where the loss first becomes more than allowed, coming from f = 1.
    for _ in range(9):
        grid = np.linspace(left, right, 33)
        errors = solve(alpha_tot=total, keep_fraction=np.exp(grid), theta=theta, strategy=strategy).test_error
        lost = np.flatnonzero(~(errors <= allowed))
        if not len(lost):
            right, at_limit = left, min_keep_fraction is not None and low < 1
            break
        if lost[-1] == len(grid) - 1:
            break
        left, right = grid[lost[-1]], grid[lost[-1] + 1]
    f = float(np.exp(right))
    error = float(solve(alpha_tot=total, keep_fraction=f, theta=theta, strategy=strategy).test_error)
    return BestKeep(f, f * float(total), float(total), error, at_limit)


def minimum_keep_fraction(theta: ArrayLike) -> Any:
    """The paper's f_min(theta): where the kept examples are as spread along the probe as sin(theta).

    Appendix section 'Imperfect teacher-probe overlap': E x^2 = 1 - 2 gamma phi(gamma) / f = sin^2(theta) for the
    Gaussian cut at gamma, which holds a fraction f. The printed right-hand side is half of this second moment; the full
    moment gives 0.238 and 0.456 at 10 and 20 degrees, matching the 24 % and 46 % of the text, and the printed one 0.333
    and 0.623. It is an estimate of where pruning stops paying, not a bound: `large_alpha_error` keeps falling.
    """
    angle = probe_angle(theta)
    values = np.array([_minimum_keep_fraction(np.radians(t)) for t in angle.flat]).reshape(angle.shape)
    return as_given(values, angle.ndim == 0)


def _minimum_keep_fraction(theta: float) -> float:
    sine = np.sin(theta)
    if sine == 0 or theta >= np.pi / 2:
        return 0.0 if sine == 0 else 1.0

    def excess(log_gamma: float) -> float:
        # E x^2 over |x| < g is g^2 / 3 for small g, where the closed form cancels.
        g = float(np.exp(log_gamma))
        if g < 0.02:
            moment = g * g / 3 * (1 - 2 * g * g / 15)
        else:
            held = float(mass_between(np.zeros(()), np.asarray(g)))
            moment = 1 - 2 * g * float(normal_pdf(np.asarray(g))) / held
        return float(np.log(moment) - 2 * np.log(sine))

    gamma = np.exp(bracketed_root(excess, np.log(sine), np.log(40.0)))
    return float(mass_between(np.zeros(()), np.asarray(gamma)))
