"""Order parameters and test error of the max-margin student trained on a pruned set.

Appendix sections 'Main result and overview' (the boxed equations for any probe angle), 'Perfect teacher-probe overlap'
(theta = 0) and 'Optimal pruning policy' (windows). `margin` explains how they are solved.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from paredown.errors import PareError, argument, check_known
from paredown.theory.gaussian import Array, folded_quantile, mass_between
from paredown.theory.kept import FAR, FarDensity, KeptExamples, OffTeacher, OnTeacher
from paredown.theory.margin import maximise_margin
from paredown.theory.quadrature import composite_rule
from paredown.theory.validation import as_given, fraction, positive, probe_angle

THEORY_STRATEGIES = {
    "hard": "keep the smallest |z|, z the field of the probe",
    "easy": "keep the largest |z|",
    "random": "keep examples without looking at them",
    "window": "keep a < |z| < b",
    "density": "keep examples so that z has a given density",
}
LARGEST_RESIDUAL = 1e-8
SMALLEST_FRACTION = 1e-12  # of the examples in a window; below it the threshold itself is lost to rounding
_DENSITY_BREAKS = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 6.0, 7.5, 10.0, 14.0, 20.0, 28.0)


@dataclass(frozen=True)
class Solution:
    """The max-margin student of one point or of a grid of them.

    Numbers are Python floats if every input was a scalar and arrays of one common shape otherwise.
    """

    alpha_prune: Any  # kept examples per weight
    keep_fraction: Any  # fraction kept; NaN for a given density, which does not say
    alpha_tot: Any  # examples per weight before pruning, alpha_prune / keep_fraction
    theta: Any  # angle between probe and teacher in degrees
    strategy: str  # which examples were kept
    window: tuple[Any, Any]  # (a, b) such that a < |z| < b was kept
    R: Any  # overlap of the student with the teacher
    rho: Any  # overlap of the student with the probe
    kappa: Any  # margin of the unit student
    test_error: Any  # arccos(R) / pi, computed without cancellation as R goes to 1
    # how far the saddle-point equations are from holding, relative to the size of their terms and measured with a
    # finer quadrature than the solution was found with
    residual: Any


def solve(
    alpha_prune: ArrayLike | None = None,
    keep_fraction: ArrayLike | None = None,
    *,
    alpha_tot: ArrayLike | None = None,
    theta: ArrayLike = 0.0,
    strategy: str | None = None,
    window: tuple[ArrayLike, ArrayLike] | None = None,
    density: Callable[[Array], Array] | None = None,
    breaks: Sequence[float] = (),
) -> Solution:
    """Solve for the student that separates the kept examples with the largest margin.

    Boxed equations of the appendix section 'Main result and overview', for R, rho and kappa. Inputs broadcast against
    each other, and a whole grid costs little more than its slowest point.

    Args:
        alpha_prune: kept examples per weight; or give `alpha_tot`.
        keep_fraction: fraction of examples kept, in (0, 1]. Needed for "hard" and "easy"; a window implies it.
        alpha_tot: examples per weight before pruning, instead of `alpha_prune`.
        theta: angle between probe and teacher in degrees, 0 to 90.
        strategy: one of `THEORY_STRATEGIES`; by default "window" or "density" if one is given, else "hard".
        window: (a, b) in units of |z| for the strategy "window"; b may be infinite.
        density: for the strategy "density", the density of |z| among the kept examples up to a factor, as a function
            of an array. It must be finite and over by |z| = 40.
        breaks: where `density` jumps or bends.

    Raises:
        PareError: for impossible input, and where no solution of the promised accuracy was found.
    """
    strategy = _strategy(strategy, window, density)
    angle = probe_angle(theta)
    lower, upper, mass = _thresholds(strategy, keep_fraction, window)
    alpha, total = _alphas(alpha_prune, alpha_tot, mass, strategy)
    shape = np.broadcast_shapes(alpha.shape, mass.shape, lower.shape, upper.shape, angle.shape)
    flat = [np.broadcast_to(a, shape).reshape(-1) for a in (alpha, lower, upper, mass, np.radians(angle))]
    if strategy == "density":
        assert density is not None
        student = _solve_density(flat[0], flat[4], density, breaks)
    else:
        student = _solve_thresholds(*flat)
    _refuse_unsolved(student[4], flat[0], np.broadcast_to(mass, shape), np.broadcast_to(angle, shape), strategy)

    scalar = shape == ()
    R, rho, kappa, test_error, residual = (as_given(a.reshape(shape), scalar) for a in student)
    alpha, mass, total, angle, lower, upper = (
        as_given(np.broadcast_to(a, shape), scalar) for a in (alpha, mass, total, angle, lower, upper)
    )
    return Solution(alpha, mass, total, angle, strategy, (lower, upper), R, rho, kappa, test_error, residual)


def _strategy(name: str | None, window: object, density: object) -> str:
    given = {"window": window is not None, "density": density is not None}
    if name is None:
        name = next((n for n, is_given in given.items() if is_given), "hard")
    check_known("strategy", name, THEORY_STRATEGIES)
    for option, is_given in given.items():
        if is_given != (name == option):
            wrong = f"strategy {name!r} takes no {option}" if is_given else f"strategy {name!r} needs {option}="
            raise PareError(f"{wrong}; give {option}= together with strategy={option!r} and with no other.")
    return name


def _thresholds(strategy: str, keep_fraction: ArrayLike | None, window: Any) -> tuple[Array, Array, Array]:
    """The kept interval of |z| and the fraction of examples inside it."""
    zero, infinity = np.zeros(()), np.full((), np.inf)
    if strategy == "window":
        return _window(window, keep_fraction)
    if strategy in ("random", "density"):
        unknown = 1.0 if strategy == "random" else np.nan
        f = np.asarray(unknown) if keep_fraction is None else fraction("keep_fraction", keep_fraction)
        return zero, infinity, f
    if keep_fraction is None:
        raise PareError(f"strategy {strategy!r} needs keep_fraction=, the fraction of examples to keep, in (0, 1].")
    f = fraction("keep_fraction", keep_fraction)
    if strategy == "easy":
        return np.where(f < 1, folded_quantile(f), 0.0), infinity, f
    return zero, folded_quantile(1 - f), f


def _window(window: Any, keep_fraction: ArrayLike | None) -> tuple[Array, Array, Array]:
    try:
        lower, upper = (np.asarray(edge, dtype=float) for edge in window)
        lower, upper = np.broadcast_arrays(lower, upper)
    except (TypeError, ValueError):
        raise PareError(f"{argument('window')} must be a pair (a, b) with 0 <= a < b, got {window!r}.") from None
    bad = ~((lower >= 0) & (upper > lower) & np.isfinite(lower))
    if bad.any():
        given = f"({lower[bad].flat[0]:g}, {upper[bad].flat[0]:g})"
        raise PareError(f"{argument('window')} must have 0 <= a < b, got {given}.")
    mass = np.asarray(mass_between(lower, upper))
    if (mass < SMALLEST_FRACTION).any():
        raise PareError(f"the window holds a fraction {mass.min():g} of the examples; widen it or move it inwards.")
    if keep_fraction is not None:
        f = fraction("keep_fraction", keep_fraction)
        differs = np.abs(f - mass) > 1e-6 * mass
        if differs.any():
            f, held = np.broadcast_arrays(f, mass)
            raise PareError(
                f"{argument('keep_fraction')} is {f[differs].flat[0]:g} but the window holds a fraction "
                f"{held[differs].flat[0]:g} of the examples; leave that out, or choose a window that holds it."
            )
    return lower, upper, mass


def _alphas(prune: ArrayLike | None, total: ArrayLike | None, mass: Array, strategy: str) -> tuple[Array, Array]:
    if (prune is None) == (total is None):
        raise PareError("give either alpha_prune (kept examples per weight) or alpha_tot (before pruning).")
    if prune is not None:
        alpha = positive("alpha_prune", prune)
        return alpha, alpha / mass
    if np.isnan(mass).any():
        raise PareError(f"strategy {strategy!r} with alpha_tot needs keep_fraction= as well; or give alpha_prune.")
    alpha_tot = positive("alpha_tot", total if total is not None else np.nan)
    return alpha_tot * mass, alpha_tot


def _solve_thresholds(alpha: Array, lower: Array, upper: Array, mass: Array, theta: Array) -> Array:
    """R, rho, kappa, test error and residual of every point, shape (5, points)."""
    everything = (lower == 0) & np.isinf(upper)  # the probe's angle drops out when nothing is pruned
    on_teacher = (theta == 0) | everything
    one_strip = (lower == 0) & ~on_teacher
    outcome = np.full((5, len(alpha)), np.nan)
    for group in (on_teacher, one_strip, ~on_teacher & ~one_strip):
        index = np.flatnonzero(group)
        if not len(index):
            continue
        a, low, up, f, angle = (x[index] for x in (alpha, lower, upper, mass, theta))
        w, eta = _first_guess(a, low, up, f, angle * ~on_teacher[index])
        if on_teacher[index].all():
            kept: KeptExamples = OnTeacher(low, up, np.where(everything[index], 1.0, f))
        else:
            kept = OffTeacher.between(low, up, f, angle, np.where(eta > 0, low, 0.0))
        outcome[:, index] = _order_parameters(a, kept, (w, eta), angle)
    return outcome


def _first_guess(alpha: Array, lower: Array, upper: Array, mass: Array, theta: Array) -> tuple[Array, Array]:
    """Length and angle of the student's in-plane part, from what fixes its boundary.

    Classically the error is near 1 / (2 + 2 alpha). Pruning multiplies alpha by the density of kept examples where
    they meet the boundary: the teacher's if enough lie there, else the near edge of the window, along the probe.
    """
    sine = np.maximum(np.sin(theta), 1e-12)
    at_teacher = mass_between(np.minimum(lower / sine, FAR), np.minimum(upper / sine, FAR)) / mass
    at_edge = np.exp(-0.5 * lower**2) / mass
    by_teacher = (lower == 0) | (alpha * at_teacher > 5)
    gain = np.where(by_teacher, np.where(lower == 0, np.maximum(at_teacher, 1), at_teacher), np.maximum(at_edge, 1))
    # Below alpha near 2 the student overfits hard examples and gains nothing from them.
    w = gain ** np.clip(alpha - 1.5, 0, 1) / np.tan(np.pi / (2 + 2 * alpha))
    return w, np.where(by_teacher, 0.0, theta)


def _solve_density(alpha: Array, theta: Array, density: Callable[[Array], Array], breaks: Sequence[float]) -> Array:
    inner = tuple(sorted({*_DENSITY_BREAKS, *(float(b) for b in breaks)}))
    if not all(0 <= b <= FAR for b in inner):
        raise PareError(f"breaks must lie between 0 and {FAR:g}, the largest |z| a density may reach, got {breaks!r}.")
    mass = _density_mass(density, inner)
    outcome = np.full((5, len(alpha)), np.nan)
    for on_teacher in (True, False):
        index = np.flatnonzero((theta == 0) == on_teacher)
        if len(index):
            a, angle = alpha[index], theta[index]
            near = OnTeacher(0 * a, FAR + 0 * a, mass + 0 * a, density, inner)
            kept = near if on_teacher else FarDensity(density, mass, np.array(inner), angle)
            outcome[:, index] = _order_parameters(a, kept, (1 / np.tan(np.pi / (2 + 2 * a)), 0 * a), angle)
    return outcome


def _density_mass(density: Callable[[Array], Array], breaks: tuple[float, ...]) -> float:
    """Twice the integral of the density, after checking that it is one."""
    z, weight = composite_rule(np.array(breaks), np.asarray(0.0), np.asarray(FAR), order=12)
    values = np.asarray(density(z), dtype=float)
    if values.shape != z.shape:
        raise PareError(f"density must return one value for each |z|: given {z.shape}, it returned {values.shape}.")
    if not np.isfinite(values).all() or (values < 0).any() or not (values > 0).any():
        raise PareError("density must be finite, nowhere negative and somewhere positive for |z| between 0 and 40.")
    mass = 2 * float(values @ weight)
    if float(values[-1]) * FAR > 1e-12 * mass:
        raise PareError(f"density is not over by |z| = {FAR:g}; cut it off there or rescale |z|.")
    return mass


def _order_parameters(alpha: Array, kept: KeptExamples, guess: tuple[Array, Array], theta: Array) -> Array:
    student, residual = maximise_margin(alpha, kept, guess)
    along, across = student.w * np.cos(student.eta), student.w * np.sin(student.eta)
    length = np.sqrt(1 + student.w**2)
    rho = student.w * np.cos(theta - student.eta) / length
    error = np.arctan2(np.sqrt(1 + across**2), along) / np.pi
    return np.stack([along / length, rho, student.kappa, error, residual])


def _refuse_unsolved(residual: Array, alpha: Array, mass: Array, theta: Array, strategy: str) -> None:
    bad = np.flatnonzero(~(residual < LARGEST_RESIDUAL))
    if len(bad):
        i = bad[0]
        raise PareError(
            f"no solution to the promised accuracy at alpha_prune={alpha[i]:g}, keep_fraction={mass.flat[i]:g}, "
            f"theta={theta.flat[i]:g}, strategy={strategy!r}: the equations hold only to {residual[i]:.1g} "
            f"(needed {LARGEST_RESIDUAL:g}; {len(bad)} such point(s)). Move away from the extreme values"
            + (", or name the jumps of the density in breaks=." if strategy == "density" else ".")
        )
