"""Newton's method for the hardest part of the max-margin problem: finding which examples support the margin.

The problem is min |w|^2 / 2 subject to A w >= 1, with one row of A per signed example y_i x_i. Its augmented Lagrangian
with multipliers `lam >= 0` and penalty `sigma`,

    L(w) = |w|^2 / 2 + sigma / 2 * sum_i (lam_i / sigma + 1 - A_i w)_+^2 ,

is strongly convex and piecewise quadratic: Newton's method with an exact line search ends after finitely many steps,
each of which costs one Gram matrix of the rows that are short of their target and one Cholesky factorisation.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

__all__ = ["minimise_augmented_lagrangian", "solve_active"]

Array = NDArray[np.float64]

MAX_NEWTON_STEPS = 200  # far above the 5 to 30 that are needed; a guard against cycling by rounding
REFINEMENTS = 2

_factor, _solve_factored, _solve = get_lapack_funcs(("potrf", "potrs", "posv"), dtype=np.float64)


def minimise_augmented_lagrangian(rows: Array, lam: Array, w: Array, sigma: float) -> tuple[Array, Array, int]:
    """Minimise L(w) from the start `w`; return the minimiser, the updated multipliers and the number of steps."""
    outputs = rows @ w
    active = None
    steps = 0
    while steps < MAX_NEWTON_STEPS:
        shortfall = lam / sigma + 1 - outputs
        previous, active = active, np.flatnonzero(shortfall > 0)
        if previous is not None and np.array_equal(previous, active):
            break  # the step stayed within one quadratic piece, hence ended at its minimum
        target = shortfall[active] + outputs[active]
        direction = _ridge_solution(rows[active], target, 1 / sigma) - w
        change = rows @ direction
        length = _line_minimum(w, direction, shortfall, change, sigma)
        w = w + length * direction
        outputs = outputs + length * change
        steps += 1
    return w, np.maximum(lam + sigma * (1 - outputs), 0), steps


def _ridge_solution(rows: Array, target: Array, ridge: float) -> Array:
    """The w that minimises |rows w - target|^2 + ridge |w|^2, through the smaller of the two Gram matrices."""
    count, n_features = rows.shape
    if count == 0:
        return np.zeros(n_features)
    wide = count <= n_features
    gram = rows @ rows.T if wide else rows.T @ rows
    gram.flat[:: len(gram) + 1] += ridge
    right = target if wide else target @ rows
    # Both Gram matrices are symmetric, so their transposes are themselves in the order LAPACK wants.
    _, solution, info = _solve(gram.T, right, overwrite_a=True)
    if info != 0:  # the ridge is lost in rounding: rows repeat and sigma is very large
        return np.linalg.lstsq(rows, target, rcond=None)[0].astype(np.float64)
    return solution @ rows if wide else solution


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


def solve_active(rows: Array) -> tuple[Array, Array] | None:
    """The shortest w with `rows @ w = 1` and its multipliers, `w = lam @ rows`; None if the rows are dependent."""
    count, n_features = rows.shape
    if count == 0 or count > n_features:
        return None
    factor, info = _factor((rows @ rows.T).T, lower=True, overwrite_a=True)
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
