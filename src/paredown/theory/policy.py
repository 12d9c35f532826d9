"""Which examples to keep: the best window, the best single margin, and the better of the two ends.

Appendix section 'Optimal pruning policy' and the paragraph 'The best pruning strategy depends on the amount of initial
data'.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import expit

from paredown.theory.gaussian import Array, folded_quantile, psi
from paredown.theory.inputs import fraction, positive
from paredown.theory.saddle import solve
from paredown.theory.searches import bounded_minimum, bracketed_root

__all__ = [
    "Choice",
    "DeltaOptimum",
    "OptimalWindow",
    "better_strategy",
    "gardner_margin",
    "optimal_delta",
    "optimal_window",
]


@dataclass(frozen=True)
class OptimalWindow:
    """The best a < |z| < b for given sizes, and what it gains over either end.

    Attributes:
        alpha_prune: kept examples per weight.
        keep_fraction: fraction kept.
        theta: probe angle in degrees.
        window: (a, b).
        test_error: with this window.
        hard_error: keeping the hardest instead.
        easy_error: keeping the easiest instead.
    """

    alpha_prune: float
    keep_fraction: float
    theta: float
    window: tuple[float, float]
    test_error: float
    hard_error: float
    easy_error: float


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
    found = bounded_minimum(error, *bounds, precision=1e-7)
    inside = tuple(float(edge) for edge in windows(np.asarray(found.x)))
    hard_edge, easy_edge = float(folded_quantile(np.asarray(1 - f))), float(folded_quantile(np.asarray(f)))
    candidates = [
        (found.value, inside),
        (ends[0], (0.0, hard_edge)),
        (ends[1], (easy_edge, np.inf)),
    ]
    test_error, window = min(candidates)
    return OptimalWindow(alpha, f, float(theta), (window[0], window[1]), test_error, *ends)


@dataclass(frozen=True)
class DeltaOptimum:
    """What keeping only examples with one single margin |z| = position can reach (theta = 0).

    Attributes:
        alpha_prune: kept examples per weight.
        position: where to put the margin: infinity below alpha_prune = 2 (the error falls as it grows, and is
            reached only in the limit), NaN from 2 on (every position does).
        test_error: the smallest error, 0 in both cases.
        gardner_margin: margin of random labels at the same alpha_prune, which sets the error at a finite position.
    """

    alpha_prune: float
    position: float
    test_error: float
    gardner_margin: float

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
    """The better end, "hard" or "easy", as a string that also knows the numbers behind it.

    Attributes:
        hard_error: test error of keeping the hardest.
        easy_error: test error of keeping the easiest.
        difference: easy_error - hard_error, positive where hard is better.
    """

    hard_error: float
    easy_error: float
    difference: float

    def __new__(cls, hard_error: float, easy_error: float) -> Choice:
        """The end with the smaller error; the hard one if they are equal."""
        choice = super().__new__(cls, "hard" if hard_error <= easy_error else "easy")
        choice.hard_error, choice.easy_error = hard_error, easy_error
        choice.difference = easy_error - hard_error
        return choice


def better_strategy(alpha_tot: ArrayLike, keep_fraction: ArrayLike, *, theta: ArrayLike = 0.0) -> Any:
    """Which end to keep: a `Choice` that equals "hard" or "easy", or an object array of them."""
    hard = solve(alpha_tot=alpha_tot, keep_fraction=keep_fraction, theta=theta, strategy="hard").test_error
    easy = solve(alpha_tot=alpha_tot, keep_fraction=keep_fraction, theta=theta, strategy="easy").test_error
    return np.frompyfunc(lambda h, e: Choice(float(h), float(e)), 2, 1)(hard, easy)
