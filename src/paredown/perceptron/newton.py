"""Newton's method for the hardest part of the max-margin problem: finding which examples support the margin.

The problem is min |w|^2 / 2 subject to A w >= 1, with one row of A per signed example y_i x_i. Its augmented Lagrangian
with multipliers `lam >= 0` and penalty `sigma`,

    L(w) = |w|^2 / 2 + sigma / 2 * sum_i (lam_i / sigma + 1 - A_i w)_+^2 ,

is strongly convex and piecewise quadratic: Newton's method with an exact line search ends after finitely many steps,
each of which costs a Cholesky factorisation of the Gram matrix of the rows that are short of their target.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

Array = NDArray[np.float64]

MAX_NEWTON_STEPS = 200  # far above the 5 to 30 of a round; a guard against cycling by rounding
REFINEMENTS = 2

_factor, _solve_factored, _solve = get_lapack_funcs(("potrf", "potrs", "posv"), dtype=np.float64)


def minimise_augmented_lagrangian(
    equations: ActiveRows, lam: Array, w: Array, sigma: float
) -> tuple[Array, Array, int]:
    """Minimise L(w) from the start `w`; return the minimiser, the updated multipliers and the number of steps."""
    rows, target = equations.rows, lam / sigma + 1
    equations.aim(target, 1 / sigma)
    outputs = rows @ w
    steps = 0
    while steps < MAX_NEWTON_STEPS:
        shortfall = target - outputs
        if not equations.activate(shortfall > 0) and steps:
            break  # the last step stayed within one quadratic piece, hence ended at its minimum
        direction = equations.solve() - w
        change = rows @ direction
        length = _line_minimum(w, direction, shortfall, change, sigma)
        w = w + length * direction
        outputs = outputs + length * change
        steps += 1
    return w, np.maximum(lam + sigma * (1 - outputs), 0), steps


class ActiveRows:
    """The w that minimises |A w - target|^2 + ridge |w|^2 over the active rows A, while few of them come and go.

    With few rows all their inner products are computed once, and each solution picks those of the active ones. With
    many, the N x N matrix A'A is kept up to date by the rows that changed.
    """

    def __init__(self, rows: Array) -> None:
        n_rows, n_features = rows.shape
        self.rows = rows
        self.active = np.zeros(n_rows, dtype=np.bool_)
        self.few = n_rows <= 1.5 * n_features
        self.gram = rows @ rows.T if self.few else np.zeros((n_features, n_features))
        self.aim(np.zeros(n_rows), 0.0)

    def aim(self, target: Array, ridge: float) -> None:
        """Set the target, one value per row, and the ridge."""
        self.target, self.ridge = target, ridge
        self.right = (target * self.active) @ self.rows

    def activate(self, active: NDArray[np.bool_]) -> bool:
        """Make these rows the active ones; return whether any changed."""
        changed = np.flatnonzero(active != self.active)
        self.active = active
        if len(changed) and not self.few:
            rows, sign = self.rows[changed], np.where(active[changed], 1.0, -1.0)
            self.gram += rows.T @ (sign[:, None] * rows)
            self.right += (sign * self.target[changed]) @ rows
        return len(changed) > 0

    def solve(self) -> Array:
        """The solution for the active rows."""
        index = np.flatnonzero(self.active)
        if self.few:
            multipliers = np.zeros(len(self.rows))
            solution = self._positive_solution(self.gram[np.ix_(index, index)], self.target[index])
            if solution is not None:
                multipliers[index] = solution
                return multipliers @ self.rows
        elif self.ridge > 1e-9:  # below, A'A of fewer than N rows is singular to precision
            solution = self._positive_solution(self.gram.copy(), self.right)
            if solution is not None:
                return solution
        return np.linalg.lstsq(self.rows[index], self.target[index], rcond=None)[0].astype(np.float64)

    def _positive_solution(self, gram: Array, right: Array) -> Array | None:
        """Solve (gram + ridge) v = right, overwriting the matrix; None if it is not positive definite in rounding."""
        if len(right) == 0:
            return right
        diagonal = gram.reshape(-1)[:: len(gram) + 1]
        diagonal += self.ridge
        # LAPACK wants columns first; the transpose of a symmetric matrix is itself in that order.
        _, solution, info = _solve(gram.T, right, overwrite_a=True)
        return solution if info == 0 else None


def _line_minimum(w: Array, direction: Array, shortfall: Array, change: Array, sigma: float) -> float:
    """The exact minimum of L(w + t * direction) over t > 0, by Newton's method within a bracket."""
    slope_at_zero, curvature = float(w @ direction), float(direction @ direction)
    low, high, t = 0.0, np.inf, 1.0
    for _ in range(50):
        left = shortfall - t * change
        short = left > 0
        moving = change[short]
        slope = slope_at_zero + t * curvature - sigma * float(moving @ left[short])
        step = slope / (curvature + sigma * float(moving @ moving)) if slope else 0.0
        if abs(step) <= 1e-14 * t:
            break
        low, high = (low, t) if slope > 0 else (t, high)
        t = t - step if low < t - step < high else (low + min(high, 4 * t)) / 2
    return t


def solve_active(rows: Array, gram: Array | None = None) -> tuple[Array, Array] | None:
    """The shortest w with `rows @ w = 1` and its multipliers, `w = lam @ rows`; None if the rows are dependent.

    `gram` is `rows @ rows.T` where the caller has it already; it is overwritten.
    """
    count, n_features = rows.shape
    if count == 0 or count > n_features:
        return None
    factor, info = _factor((rows @ rows.T if gram is None else gram).T, lower=True, overwrite_a=True)
    if info != 0:
        return None
    w, lam = np.zeros(n_features), np.zeros(count)
    # The Gram matrix squares the condition number of the rows. Solving again for what is left of the target wins the
    # lost digits back, provided that w is summed up by itself: multipliers are large where w is small.
    for _ in range(1 + REFINEMENTS):
        correction, _ = _solve_factored(factor, 1 - rows @ w, lower=True)
        lam += correction
        w += correction @ rows
    return w, lam
