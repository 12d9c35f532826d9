"""The max-margin student: its direction and margin, found by maximising the margin that the theory allows.

In units of the student's component outside the teacher-probe plane, let w be the length and eta the angle (from the
teacher, towards the probe) of its in-plane part, and k its margin. An example with fields u along and v across the
in-plane part pulls on the student by the amount x = k - w u falls short, and with Psi_n(x) = E (x - g)_+^n the margin
is the largest that allows

    alpha < Psi_2(x) > = 1,        kappa = k / sqrt(1 + w^2).

This is the boxed result of the appendix section 'Main result and overview' before any integral is eliminated. Written
for the student divided by its margin it minimises a norm over a convex set, so the maximum is unique.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from paredown.theory.gaussian import Array, Index, psi
from paredown.theory.kept import KeptExamples

ORDER = 10  # Gauss-Legendre nodes in a panel while solving
CHECK_ORDER = 13  # and for the residual that is reported, so that it shows errors of quadrature too
CONVERGED = 1e-12  # relative size of a Newton step
MOST_STEPS = 200
_SHORT = 0.02  # a Newton step below this is near the end
_TINY = 1e-290  # averages below this have underflowed: no example pulls at all
_QUARTER = 0.5 * np.pi - 1e-9  # the in-plane part of the student always has a positive overlap with the teacher
_CHUNK_NODES = 40_000  # keeps the temporaries of one batch inside the processor's cache


class Averages(NamedTuple):
    """Averages over kept examples, shape (points,): the number is the order of Psi, `o` the offset u - anchor."""

    one0: Array
    o0: Array
    oo0: Array
    v0: Array
    ov0: Array
    vv0: Array
    one1: Array
    o1: Array
    v1: Array
    x1: Array
    one2: Array
    size_x1: Array
    size_v1: Array


@dataclass(frozen=True)
class StudentBatch:
    """Where a batch of students stands: arrays of shape (points,).

    `slack` is k - w * anchor, the shortfall of an example at the anchor; `averages` has one row for each point.
    """

    w: Array
    eta: Array
    slack: Array
    averages: Array
    anchor: Array

    def take(self, index: Index) -> StudentBatch:
        """Some of the points."""
        return StudentBatch(self.w[index], self.eta[index], self.slack[index], self.averages[index], self.anchor[index])

    def put(self, index: Index, other: StudentBatch) -> None:
        """Replace some of the points in place."""
        self.w[index], self.eta[index], self.slack[index] = other.w, other.eta, other.slack
        self.averages[index] = other.averages

    @property
    def mean(self) -> Averages:
        """The averages by name."""
        return Averages(*self.averages.T)

    @property
    def kappa(self) -> Array:
        """The margin of the unit student."""
        return (self.slack + self.w * self.anchor) / np.sqrt(1 + self.w**2)


def _evaluate(kept: KeptExamples, w: Array, eta: Array, slack: Array, *, order: int = ORDER) -> StudentBatch:
    rows = np.empty((len(w), len(Averages._fields)))
    start, chunk = 0, 1
    while start < len(w):
        part = slice(start, start + chunk)
        rule = kept.take(part).rule(w[part], eta[part], slack[part], order=order)
        rows[part] = _averages(*rule, w[part, None], slack[part, None])
        start += chunk
        chunk = max(1, _CHUNK_NODES // rule.offset.shape[1])
    return StudentBatch(w, eta, slack, rows, kept.anchor)


def _averages(o: Array, weight: Array, weight_v: Array, weight_vv: Array, w: Array, slack: Array) -> Array:
    x = slack - w * o
    psi0, psi1, psi2 = psi(x)
    weighted1 = weight * psi1
    weighted0 = weight * psi0
    columns = Averages(
        one0=weighted0.sum(axis=1),
        o0=_dot(weighted0, o),
        oo0=_dot(weighted0 * o, o),
        v0=_dot(weight_v, psi0),
        ov0=_dot(weight_v * o, psi0),
        vv0=_dot(weight_vv, psi0),
        one1=weighted1.sum(axis=1),
        o1=_dot(weighted1, o),
        v1=_dot(weight_v, psi1),
        x1=_dot(weighted1, x),
        one2=_dot(weight, psi2),
        size_x1=_dot(weighted1, np.abs(x)),
        size_v1=_dot(np.abs(weight_v), psi1),
    )
    return np.stack(columns, axis=1)


def _dot(a: Array, b: Array) -> Array:
    return np.einsum("ij,ij->i", a, b)


def residual(alpha: Array, student: StudentBatch) -> Array:
    """How far the three conditions are from holding, each relative to the size of its own terms.

    They are alpha <Psi_2> = 1, <u Psi_1> = w <x Psi_1> (length) and <v Psi_1> = 0 (direction).
    """
    m, w = student.mean, student.w
    u1 = student.anchor * m.one1 + m.o1
    with np.errstate(divide="ignore"):
        volume = np.abs(np.log(alpha * m.one2))
    length = np.abs(u1 - w * m.x1) / (np.abs(u1) + w * m.size_x1)
    direction = np.abs(m.v1) / (np.abs(u1) + m.size_v1)
    return np.maximum(np.maximum(volume, length), direction)


def _newton_step(alpha: Array, student: StudentBatch, turns: bool) -> Array:
    """Step in (log w, eta, slack) from the Jacobian of the three conditions; shape (points, 3)."""
    m, w, anchor, slack = student.mean, student.w, student.anchor, student.slack
    u1 = anchor * m.one1 + m.o1
    u0, ou0, uv0 = anchor * m.one0 + m.o0, anchor * m.o0 + m.oo0, anchor * m.v0 + m.ov0
    x0, xo0, xv0 = slack * m.one0 - w * m.o0, slack * m.o0 - w * m.oo0, slack * m.v0 - w * m.ov0
    value = np.stack([np.log(alpha * m.one2), u1 - w * m.x1, m.v1], axis=1)
    jacobian = np.empty((len(w), 3, 3))
    jacobian[:, 0, 0] = -2 * w * m.o1 / m.one2
    jacobian[:, 0, 1] = -2 * w * m.v1 / m.one2
    jacobian[:, 0, 2] = 2 * m.one1 / m.one2
    jacobian[:, 1, 0] = w * (-ou0 - m.x1 + w * m.o1 + w * xo0)
    jacobian[:, 1, 1] = m.v1 - w * uv0 + w**2 * (m.v1 + xv0)
    jacobian[:, 1, 2] = u0 - w * (m.one1 + x0)
    jacobian[:, 2, 0] = -w * m.ov0
    jacobian[:, 2, 1] = -u1 - w * m.vv0
    jacobian[:, 2, 2] = m.v0
    if not turns:
        value[:, 2] = 0
        jacobian[:, 2] = [0, 1, 0]
    # Rows differ by many orders of magnitude at large alpha; scaling them keeps the elimination accurate.
    scale = np.abs(jacobian).max(axis=2, keepdims=True)
    return np.linalg.solve(jacobian / scale, -value[..., None] / scale)[..., 0]


def _slack_correction(alpha: Array, student: StudentBatch) -> Array:
    """Newton's step in the slack towards alpha <Psi_2> = 1, taken on its root, which is convex in the slack."""
    m = student.mean
    root = np.sqrt(alpha * m.one2)
    pulls = m.one2 > _TINY
    return np.where(pulls, root * (1 - root) / np.where(pulls, alpha * m.one1, 1), np.inf)


def _attained_margin(alpha: Array, student: StudentBatch) -> Array:
    """The margin that this direction attains, corrected to first order for alpha <Psi_2> not being 1 yet."""
    return student.kappa + _slack_correction(alpha, student) / np.sqrt(1 + student.w**2)


def _evaluate_feasible(
    alpha: Array, kept: KeptExamples, w: Array, eta: Array, slack: Array, tolerance: Array
) -> StudentBatch:
    """Evaluate a direction with the slack moved until alpha <Psi_2> = 1 gives the margin to a relative tolerance."""
    student = _evaluate(kept, w, eta, slack)
    for attempt in range(60):
        correction = _slack_correction(alpha, student)
        margin = np.abs(student.slack + student.w * student.anchor)
        off = np.flatnonzero(~(np.abs(correction) <= tolerance * np.minimum(margin, 1) + 1e-15))
        if not len(off):
            break
        part = student.take(off)
        # Left of the root the convex function is flat and Newton overshoots; right of it Newton never crosses the root.
        most = 2.0 * 2.0**attempt
        student.put(off, _evaluate(kept.take(off), part.w, part.eta, part.slack + np.minimum(correction[off], most)))
    return student


def maximise_margin(alpha: Array, kept: KeptExamples, guess: tuple[Array, Array]) -> tuple[StudentBatch, Array]:
    """Find the max-margin student of every point by Newton's method with a line search, from a guess of (w, eta).

    Returns the students, and the residual of each, measured with a finer quadrature than the one that found it.
    """
    student = _evaluate_feasible(
        alpha, kept, guess[0].copy(), guess[1].copy(), np.sqrt(1 / alpha + 0.4), 1e-3 + 0 * alpha
    )
    active, last_length = np.arange(len(alpha)), np.full(len(alpha), np.inf)
    for _ in range(MOST_STEPS):
        here = student.take(active)
        step = _ascent_step(alpha[active], here, kept.turns)
        length = np.maximum(np.abs(step[:, :2]).max(axis=1), np.abs(step[:, 2]) / (1 + np.abs(here.slack)))
        # A step that no longer shrinks has met the rounding of the averages.
        done = (length < CONVERGED) | ((length < 1e-7) & (length > 0.25 * last_length[active]))
        last_length[active] = length
        active, step, length = active[~done], step[~done], length[~done]
        if not len(active):
            break
        student.put(active, _line_search(alpha[active], kept.take(active), student.take(active), step, length))
    check = _evaluate(kept, student.w, student.eta, student.slack, order=CHECK_ORDER)
    return student, residual(alpha, check)


def _ascent_step(alpha: Array, student: StudentBatch, turns: bool) -> Array:
    """Newton's step, or half a unit along the gradient of the margin where Newton would lower it; never a long one."""
    step = _newton_step(alpha, student, turns)
    m, w = student.mean, student.w
    gradient = np.stack([(student.anchor * m.one1 + m.o1 - w * m.x1) / (1 + w**2), m.v1 * turns], axis=1)
    slope = (step[:, :2] * gradient).sum(axis=1)
    # Until the slack is exact the gradient is too rough to judge a short step by; the line search judges it.
    long = np.abs(step[:, :2]).max(axis=1) > _SHORT
    wrong = ~(slope > 0) & (residual(alpha, student) > 1e-6) & long
    size = np.abs(gradient).max(axis=1, keepdims=True)
    step[wrong, :2] = (0.5 * gradient / np.where(size > 0, size, 1))[wrong]
    step[wrong, 2] = 0
    excess = np.maximum(np.abs(step[:, :2]) / np.array([1.5, 0.5]), 1).max(axis=1, keepdims=True)
    return step / excess


def _line_search(alpha: Array, kept: KeptExamples, start: StudentBatch, step: Array, length: Array) -> StudentBatch:
    """Shorten the steps until each raises the margin or halves the residual; short steps are Newton's own and taken."""
    # Near alpha = 2 and small keep_fraction the margin is flat to the rounding of the slack, hence the allowance.
    rounding = 1e-13 * (1 + np.abs(start.slack)) / np.sqrt(1 + start.w**2)
    margin, before = _attained_margin(alpha, start) - rounding, residual(alpha, start)
    reached = start.take(np.arange(len(alpha)))
    pending, scale = np.arange(len(alpha)), np.ones(len(alpha))
    # The margin need not be known better than the step will change it.
    tolerance = np.clip(1e-2 * length**2, 1e-7, 1e-3)
    for _ in range(40):
        move = scale[pending, None] * step[pending]
        w, eta = start.w[pending] * np.exp(move[:, 0]), start.eta[pending] + move[:, 1]
        slack = start.slack[pending] + move[:, 2]
        eta = np.clip(eta, -_QUARTER, _QUARTER)
        trial = _evaluate_feasible(alpha[pending], kept.take(pending), w, eta, slack, tolerance[pending])
        better = _attained_margin(alpha[pending], trial) > margin[pending]
        better |= residual(alpha[pending], trial) < 0.5 * before[pending]
        better |= length[pending] < 1e-5
        reached.put(pending[better], trial.take(better))
        pending = pending[~better]
        if not len(pending):
            break
        scale[pending] *= 0.3
    if len(pending):
        # No step helps: the direction is as good as the slack, known only roughly so far, can tell.
        w, eta, slack = (x[pending] for x in (start.w, start.eta, start.slack))
        exact = np.full(len(pending), 1e-10)
        reached.put(pending, _evaluate_feasible(alpha[pending], kept.take(pending), w, eta, slack, exact))
    return reached
