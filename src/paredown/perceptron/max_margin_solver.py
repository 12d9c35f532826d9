"""The max-margin perceptron, exactly, with a certificate of how exact."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError
from paredown.perceptron.exchange import MOST_EXAMPLES_PER_FEATURE, exchange_support
from paredown.perceptron.newton import ActiveRows, minimise_augmented_lagrangian, solve_active
from paredown.threads import one_blas_thread

Array = NDArray[np.float64]

GAP_TOLERANCE = 1e-10  # relative primal-dual gap at which the search stops
ACCEPTED_GAP = 1e-9  # a larger gap is an error, never a result
ZERO = 1e-10  # a convex combination this short, relative to the examples' lengths, is the origin

# Measured at N = 200 and P = 200 to 20000, each flat within a factor of 3: a stiffer start or a larger factor takes
# more Newton steps in a round, a softer one more rounds.
FIRST_SIGMA, SIGMA_FACTOR = 300.0, 3.0
MAX_ROUNDS = 60
ROWS_PER_FEATURE = 4  # size of the working set: no more than N rows support a margin in general position


@dataclass(frozen=True)
class MaxMargin:
    """The unit vector with the largest margin, and the proof that no other has a larger one.

    `multipliers` are the weights of a convex combination of the signed examples `y[support] * x[support]`. The length
    of any such combination bounds the margin of every unit vector from above; `gap` is how far, relatively, `margin`
    stays below that bound. `steps` counts linear systems solved on the way.
    """

    weights: Array = field(repr=False)
    margin: float
    gap: float
    support: NDArray[np.intp] = field(repr=False)
    multipliers: Array = field(repr=False)
    steps: int

    @property
    def n_support(self) -> int:
        """Number of examples with a positive multiplier."""
        return len(self.support)


def max_margin(x: ArrayLike, y: ArrayLike) -> MaxMargin:
    """Find the unit vector w that maximises min_i y_i w.x_i (no bias), to a proven relative gap of at most 1e-9.

    The "max-margin separating solution" of the paper's section on the perceptron in the teacher-student setting, which
    used CVXPY. Here the support is found by exchanging examples (P up to about N) or by the method of multipliers with
    Newton steps, and its equations are solved exactly. No solver library is needed.

    Args:
        x: examples, shape (P, N).
        y: labels, -1 or +1, shape (P,), both present.

    Raises:
        PareError: bad shapes or values, a single class, or examples that no plane through the origin separates.
    """
    with one_blas_thread():
        return max_margin_signed(_signed_examples(x, y))


def max_margin_signed(signed: Array) -> MaxMargin:
    """`max_margin` for checked rows y_i x_i, which are scaled in place; a single class is as good as two here."""
    scale = _normalise(signed)
    bracket, steps = _search(signed)
    if bracket.gap > ACCEPTED_GAP:
        raise _failure(signed, bracket)
    support = np.flatnonzero(bracket.multipliers)
    return MaxMargin(
        weights=bracket.weights,
        margin=bracket.margin * scale,
        gap=bracket.gap,
        support=support,
        multipliers=bracket.multipliers[support],
        steps=steps,
    )


def _normalise(signed: Array) -> float:
    """Divide all rows by their root-mean-square length, the common scale of every tolerance below; return it."""
    with np.errstate(over="ignore", under="ignore"):
        length = math.sqrt(float(np.vdot(signed, signed)) / len(signed))
    if 1e-100 < length < 1e100:
        signed /= length
        return length
    peak = float(np.abs(signed).max())
    if peak == 0:
        return 1.0
    signed /= peak  # first, so that no square overflows or vanishes
    return peak * _normalise(signed)


class _Bracket:
    """The best feasible points seen so far on either side: margin <= largest margin <= bound."""

    def __init__(self, signed: Array) -> None:
        n_examples, n_features = signed.shape
        self.signed = signed
        self.weights, self.margin = np.zeros(n_features), 0.0
        self.multipliers, self.bound = np.zeros(n_examples), np.inf

    def offer_weights(self, w: Array) -> None:
        """Any direction bounds the largest margin from below."""
        length = float(np.linalg.norm(w))
        if length > 0:
            unit = w / length
            margin = float((self.signed @ unit).min())
            if margin > self.margin:
                self.weights, self.margin = unit, margin

    def offer_multipliers(self, rows: NDArray[np.intp], lam: Array) -> None:
        """Any convex combination of signed examples bounds it from above by its length; negative weights are cut."""
        convex = np.maximum(lam, 0)
        total = float(convex.sum())
        if total > 0:
            convex /= total
            bound = float(np.linalg.norm(convex @ self.signed[rows]))
            if bound < self.bound:
                self.multipliers, self.bound = np.zeros(len(self.signed)), bound
                self.multipliers[rows] = convex

    def offer_support(self, support: NDArray[np.intp], gram: Array | None = None) -> None:
        """Put these examples exactly on the margin; a point on either side if they are independent."""
        exact = solve_active(self.signed[support], gram)
        if exact is not None:
            self.offer_weights(exact[0])
            self.offer_multipliers(support, exact[1])

    @property
    def gap(self) -> float:
        """(bound - margin) / bound, rounding never reported as less than nothing; infinite without a separating w."""
        return max(0.0, (self.bound - self.margin) / self.bound) if self.margin > 0 else np.inf

    @property
    def settled(self) -> bool:
        """Solved, or proven to have no solution: the origin is a convex combination of the signed examples."""
        return self.gap <= GAP_TOLERANCE or (self.margin <= 0 and self.bound <= ZERO)


def _search(signed: Array) -> tuple[_Bracket, int]:
    """Look for the support the quick way where that is likely to work, else the sure way."""
    bracket, steps = _Bracket(signed), 0
    if len(signed) <= MOST_EXAMPLES_PER_FEATURE * signed.shape[1]:
        gram = signed @ signed.T
        support, steps = exchange_support(gram, most=signed.shape[1])
        if support is not None:
            bracket.offer_support(support, gram[np.ix_(support, support)])
    return bracket, steps if bracket.settled else steps + _iterate(bracket)


def _iterate(bracket: _Bracket) -> int:
    """Alternate the method of multipliers with an exact solution on the support it proposes; return the Newton steps.

    The first round sees every example. Later ones see a working set, those with the smallest margins, to which
    examples that fall short are added: it only grows, so the search ends as it would with all of them.
    """
    signed = bracket.signed
    n_examples, n_features = signed.shape
    mean = signed.mean(axis=0)
    w = mean / max(float(mean @ mean), np.finfo(float).eps)  # so long that its mean output meets the target 1
    sigma, newton_steps = FIRST_SIGMA, 0
    working, rows, lam = np.arange(n_examples), ActiveRows(signed), np.zeros(n_examples)
    for round_number in range(MAX_ROUNDS):
        w, lam, steps = minimise_augmented_lagrangian(rows, lam, w, sigma)
        newton_steps += steps
        bracket.offer_support(working[np.flatnonzero(lam)])
        if not bracket.settled:  # degenerate or not separable: the rounds themselves converge, only more slowly
            bracket.offer_weights(w)
            bracket.offer_multipliers(working, lam)
        if bracket.settled:
            break
        outputs = signed @ w
        missing = np.setdiff1d(np.flatnonzero(outputs < 1), working)
        if len(missing) == 0:
            sigma *= SIGMA_FACTOR
        if round_number == 0 and n_examples > ROWS_PER_FEATURE * n_features:
            nearest = np.argpartition(outputs - lam / sigma, ROWS_PER_FEATURE * n_features)
            working = np.sort(nearest[: ROWS_PER_FEATURE * n_features])
            rows, lam = ActiveRows(signed[working]), lam[working]
        elif len(missing):
            working = np.concatenate([working, missing])
            rows, lam = ActiveRows(signed[working]), np.concatenate([lam, np.zeros(len(missing))])
    return newton_steps


def _failure(signed: Array, bracket: _Bracket) -> PareError:
    """What to tell the user when no separating plane was found, or none to the promised precision."""
    if bracket.margin > 0 or bracket.bound > ZERO:
        return PareError(
            f"the margin could only be enclosed between {bracket.margin:.3g} and {bracket.bound:.3g} times the "
            f"examples' root-mean-square length, a relative gap of {bracket.gap:.1e} (at most {ACCEPTED_GAP:.0e} is "
            "promised): they are separated by too little for double precision. Look for nearly contradictory or badly "
            "scaled rows."
        )
    combination = _sparsest_combination(signed, bracket.multipliers)
    rows = np.flatnonzero(combination)
    heaviest = rows[np.argsort(-combination[rows], kind="stable")][:5]
    return PareError(
        f"the examples are not separable by a plane through the origin: a convex combination of {len(rows)} of the "
        f"signed examples y_i x_i has length {np.linalg.norm(combination @ signed):.1e} relative to theirs, so no w "
        f"has a margin above that (heaviest rows: {', '.join(map(str, heaviest))}). Remove contradictory examples, or "
        "append a constant feature to x if a bias is meant."
    )


def _sparsest_combination(signed: Array, multipliers: Array) -> Array:
    """Sharpen a convex combination near the origin, by nonnegative least squares on its own rows."""
    from scipy.optimize import nnls  # slow to import, and needed only on the way to an error

    rows = np.flatnonzero(multipliers)
    system = np.vstack([signed[rows].T, np.ones(len(rows))])
    target = np.append(np.zeros(signed.shape[1]), 1.0)
    try:
        solution, _ = nnls(system, target, maxiter=30 * len(rows))
    except RuntimeError:  # out of iterations: the combination we have is evidence enough
        return multipliers
    solution[solution < 1e-9 * solution.max()] = 0
    sharper = np.zeros(len(signed))
    sharper[rows] = solution / solution.sum()
    return sharper


def _signed_examples(x: ArrayLike, y: ArrayLike) -> Array:
    """Check the input once and return a new array with rows y_i x_i."""
    examples, labels = _as_floats("x", x), _as_floats("y", y)
    if examples.ndim != 2 or labels.ndim != 1 or len(examples) != len(labels):
        raise PareError(
            f"x must have shape (P, N) and y shape (P,) with the same P, got {examples.shape} and {labels.shape}."
        )
    if 0 in examples.shape:
        raise PareError(f"x must have at least one example and one feature, got shape {examples.shape}.")
    broken = np.flatnonzero(~np.isfinite(examples).all(axis=1))
    if len(broken):
        raise PareError(
            f"x must be finite; {len(broken)} of its {len(examples)} rows hold NaN or infinity, the first is row "
            f"{broken[0]}. Remove or fix them."
        )
    wrong = np.flatnonzero(np.abs(labels) != 1)
    if len(wrong):
        raise PareError(
            f"labels must be -1 or +1, got {labels[wrong[0]]:g} in row {wrong[0]}. For labels 0 and 1 pass 2 * y - 1."
        )
    if np.all(labels == labels[0]):
        raise PareError(
            f"y holds a single class: all {len(labels)} labels are {labels[0]:+g}. A separating plane needs both -1 "
            "and +1; if one class is meant, append a mirrored example (-x, -y), which changes no margin."
        )
    return labels[:, None] * examples


def _as_floats(name: str, values: ArrayLike) -> Array:
    try:
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise PareError(f"{name} must be an array of real numbers: {error}.") from error
