"""Errors over whole ranges: the phase diagram, the Pareto frontier, and the laws of large alpha."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError
from paredown.theory.gaussian import Array, folded_quantile, mass_between, psi
from paredown.theory.quadrature import bracketed_root
from paredown.theory.saddle import solve
from paredown.theory.validation import as_given, fraction, positive, probe_angle

CRITICAL_ALPHA = 2.0  # from here on ever harder examples fix the teacher exactly, if the probe is the teacher
SEARCH_FLOOR = 1e-5  # smallest keep_fraction an unrestricted search looks at


@dataclass(frozen=True)
class PhaseDiagram:
    """Errors of both ends on a grid; arrays of shape (alpha_tot, keep_fraction)."""

    alpha_tot: Array  # examples per weight before pruning, shape (n,)
    keep_fraction: Array  # fractions kept, shape (m,)
    theta: float  # probe angle in degrees
    hard_error: Array  # keeping the hardest
    easy_error: Array  # keeping the easiest

    @property
    def difference(self) -> Array:
        """easy_error - hard_error: positive where keeping the hardest is better."""
        return self.easy_error - self.hard_error

    @property
    def better(self) -> Array:
        """The name of the better end."""
        return np.where(self.difference >= 0, "hard", "easy")


def phase_diagram(alpha_tot: ArrayLike, keep_fraction: ArrayLike, *, theta: float = 0.0) -> PhaseDiagram:
    """Test errors of keeping the hardest and the easiest over all pairs (Fig. 1C)."""
    total, f = np.atleast_1d(positive("alpha_tot", alpha_tot)), np.atleast_1d(fraction("keep_fraction", keep_fraction))
    hard, easy = (
        solve(alpha_tot=total[:, None], keep_fraction=f, theta=theta, strategy=end).test_error
        for end in ("hard", "easy")
    )
    return PhaseDiagram(total, f, float(theta), hard, easy)


class FrontierRow(NamedTuple):
    """One point of a Pareto frontier."""

    alpha_prune: float
    keep_fraction: float
    alpha_tot: float
    test_error: float


@dataclass(frozen=True)
class Frontier:
    """The smallest error for each number of kept examples; iterates as rows."""

    alpha_prune: Array  # kept examples per weight, shape (n,)
    keep_fraction: Array  # the best fraction; 0 where the error falls all the way as ever fewer are kept
    alpha_tot: Array  # examples per weight before pruning; infinite where keep_fraction is 0
    test_error: Array  # the smallest error, 0 where keep_fraction is 0
    at_limit: NDArray[np.bool_]  # whether a limit given by the caller holds the fraction up

    def __iter__(self) -> Iterator[FrontierRow]:
        columns = (self.alpha_prune, self.keep_fraction, self.alpha_tot, self.test_error)
        return (FrontierRow(*(float(x) for x in row)) for row in zip(*columns, strict=True))

    def __len__(self) -> int:
        return len(self.alpha_prune)


def pareto_frontier(
    alpha_prune: ArrayLike,
    *,
    theta: float = 0.0,
    strategy: str = "hard",
    min_keep_fraction: float | None = None,
    max_alpha_tot: float | None = None,
) -> Frontier:
    """The lowest test error over keep_fraction for each alpha_prune (purple curve of Fig. 1A, and f_opt of Fig. 1E).

    Unrestricted, with theta = 0 and the hardest kept, the frontier reaches zero error at alpha_prune = 2: the error
    vanishes as keep_fraction does, so the rows from there on are that limit (keep_fraction 0, alpha_tot infinite). A
    finite frontier, like the one the paper draws, comes from a limit on how much can be pruned; give one.

    Args:
        alpha_prune: kept examples per weight, any number of values.
        theta: probe angle in degrees.
        strategy: "hard" or "easy".
        min_keep_fraction: smallest fraction allowed; the paper's figures use 0.1.
        max_alpha_tot: largest number of examples per weight that there are to prune.
    """
    alpha = np.atleast_1d(positive("alpha_prune", alpha_prune)).ravel()
    floor = _floor(alpha, min_keep_fraction, max_alpha_tot)
    limited = ~np.isnan(floor)
    vanishes = ~limited & (alpha >= CRITICAL_ALPHA) & (float(probe_angle(theta)) == 0) & (strategy == "hard")
    f, error = np.zeros_like(alpha), np.zeros_like(alpha)
    inside = np.flatnonzero(~vanishes)
    if len(inside):
        low = np.where(limited, floor, SEARCH_FLOOR)[inside]
        f[inside], error[inside] = _minimise(alpha[inside], low, theta, strategy)
    with np.errstate(divide="ignore"):
        total = alpha / f
    at_limit = limited & (f <= np.where(limited, floor, 0) * (1 + 1e-9)) & (f < 1)
    return Frontier(alpha, f, total, error, at_limit)


def _floor(alpha: Array, min_keep_fraction: float | None, max_alpha_tot: float | None) -> Array:
    floor = np.full_like(alpha, np.nan)
    if min_keep_fraction is not None:
        floor = np.fmax(floor, float(fraction("min_keep_fraction", min_keep_fraction)))
    if max_alpha_tot is not None:
        most = float(positive("max_alpha_tot", max_alpha_tot))
        if (alpha > most).any():
            raise PareError(f"alpha_prune {alpha.max():g} is above max_alpha_tot {most:g}: there are not that many.")
        floor = np.fmax(floor, alpha / most)
    return floor


def _minimise(alpha: Array, low: Array, theta: float, strategy: str) -> tuple[Array, Array]:
    """The best keep_fraction in [low, 1] of every alpha at once, by grids in log f inside the last one's best cell."""
    left, right = np.log(low), np.zeros_like(alpha)
    rows = np.arange(len(alpha))
    f, error = np.ones_like(alpha), np.full_like(alpha, np.inf)
    for count in (33, *[9] * 9):
        share = np.linspace(0, 1, count)
        grid = left[:, None] * (1 - share) + right[:, None] * share
        grid[:, -1] = right
        errors = solve(alpha[:, None], np.exp(grid), theta=theta, strategy=strategy).test_error
        best = np.argmin(errors, axis=1)
        better = errors[rows, best] < error
        f[better], error[better] = np.exp(grid[rows, best])[better], errors[rows, best][better]
        left, right = grid[rows, np.maximum(best - 1, 0)], grid[rows, np.minimum(best + 1, count - 1)]
    return f, error


def large_alpha_error(
    alpha_prune: ArrayLike, keep_fraction: ArrayLike = 1.0, *, theta: ArrayLike = 0.0, strategy: str = "hard"
) -> Any:
    """The law that the error of `solve` approaches as alpha_prune grows at fixed keep_fraction.

    error = C / (alpha_prune d): only examples at the teacher's boundary still matter there, and d is their density
    relative to no pruning, P(kept | on the boundary) / keep_fraction. For the hardest,
    d = (2 Phi(gamma / sin(theta)) - 1) / keep_fraction, at most 1 / sin(theta); C = 0.50049 is the classical constant.
    """
    alpha, f = positive("alpha_prune", alpha_prune), fraction("keep_fraction", keep_fraction)
    sine = np.sin(np.radians(probe_angle(theta)))
    if strategy == "hard":
        lower, upper = np.zeros(()), folded_quantile(1 - f)
    elif strategy == "easy":
        lower, upper = folded_quantile(f), np.full((), np.inf)
    else:
        raise PareError(f"large_alpha_error knows the strategies 'hard' and 'easy', got {strategy!r}.")
    with np.errstate(divide="ignore", invalid="ignore"):
        edges = [np.where(edge == 0, 0.0, edge / sine) for edge in (lower, upper)]
        law = classical_constant() * f / (alpha * mass_between(edges[0], edges[1]))
    return as_given(law, law.ndim == 0)


def classical_constant() -> float:
    """C in error = C / alpha without pruning: 3 / (pi sqrt(2/pi) Psi_3(k)) at 3 k Psi_2(k) = Psi_3(k)."""

    def psi3(k: float) -> float:
        _, one, two = psi(np.asarray(k))
        return float(k * two + 2 * one)

    k = bracketed_root(lambda x: 3 * x * float(psi(np.asarray(x))[2]) - psi3(x), 0.1, 2.0)
    return 3 / (np.sqrt(2 * np.pi) * psi3(k))
