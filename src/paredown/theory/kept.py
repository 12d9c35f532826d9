"""The examples that pruning kept, as quadrature rules for averages over them.

A kept example enters the theory through its field u along the in-plane part of the student and its field v across it,
both multiplied by its label. Every average then has the form < v^j F(u) >, so each class below turns "what was kept"
into nodes u and into weights that already hold the v-integral: for pruning by thresholds that integral is closed, which
makes the theory one-dimensional at every probe angle.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from paredown.theory.gaussian import Array, Index, interval_moments, normal_pdf
from paredown.theory.quadrature import composite_rule, transition

# exp(-REACH_SQUARED / 2) is 6e-19: nothing beyond this many squared units past the nearest kept point counts.
REACH_SQUARED = 84.0
# Psi_2(-12) is 1e-34: examples with a field this far above the margin do not pull on the student.
SLACK = 12.0
# Where a density given by the user has to be over.
FAR = 40.0
_BODY = (1.5, 3.0, 4.5, 7.0)  # resolves the Gaussian itself
_BOTH_SIDES = np.array([*(-b for b in _BODY), 0.0, *_BODY])
_TAIL = np.array([10.0, 14.0, 20.0, 28.0])  # a given density may be wider than the Gaussian
_SMALLEST_SINE = 1e-300  # keeps a boundary parallel to v finite: the division then gives "infinitely far"


class Rule(NamedTuple):
    """Nodes, and weights times the v-moments of order 0, 1, 2; each of shape (points, nodes).

    `offset` is u - anchor, kept apart from u because x = slack - w * offset must not lose digits when w is huge.
    """

    offset: Array
    weight: Array
    weight_v: Array
    weight_vv: Array


@dataclass(frozen=True)
class OnTeacher:
    """A probe that is the teacher (theta = 0): kept if lower < |z| < upper, with z the teacher's own field."""

    lower: Array  # where the kept examples begin, shape (points,)
    upper: Array  # where they end, may be infinite
    mass: Array  # twice the integral of `density` over (lower, upper)
    density: Callable[[Array], Array] = normal_pdf  # the density along the teacher before normalisation
    breaks: tuple[float, ...] = _BODY  # where a given density is not smooth
    turns = False

    @property
    def anchor(self) -> Array:
        return self.lower

    def take(self, index: Index) -> OnTeacher:
        return replace(self, lower=self.lower[index], upper=self.upper[index], mass=self.mass[index])

    def rule(self, w: Array, eta: Array, slack: Array, *, order: int) -> Rule:
        """Nodes in u = |z|; v is an independent standard normal."""
        length = np.minimum(self.upper - self.lower, np.maximum((slack + SLACK) / w, 0.0))
        if self.density is normal_pdf:
            length = np.minimum(length, np.sqrt(self.lower**2 + REACH_SQUARED) - self.lower)
        body = np.broadcast_to(self.breaks, (len(w), len(self.breaks)))
        breaks = np.concatenate([transition(slack / w, 1 / w), body], axis=-1)
        offset, weight = composite_rule(breaks, np.zeros_like(w), length, order=order)
        weight = 2 * weight * self.density(self.lower[:, None] + offset) / self.mass[:, None]
        return Rule(offset, weight, np.zeros_like(weight), weight)


@dataclass(frozen=True)
class OffTeacher:
    """A probe at an angle: kept if the probe's field z lies in one of the strips (from, to).

    In the plane of teacher and probe, with the label turned positive, an example is kept if it lies in a strip and on
    the teacher's positive side. A line of constant u cuts that region in one interval of v.
    """

    start: Array  # lower edges of the strips, shape (points, strips)
    end: Array  # upper edges
    mass: Array  # P(kept) of the unpruned Gaussian, shape (points,)
    theta: Array  # angle from teacher to probe in radians
    # where u is measured from; the smallest kept |z| suits a student aligned with the probe (u = |z|), zero one
    # that is aligned with the teacher
    anchor: Array
    turns = True

    @classmethod
    def between(cls, lower: Array, upper: Array, mass: Array, theta: Array, anchor: Array) -> OffTeacher:
        """Keep lower < |z| < upper: one strip when lower is zero, else one on each side."""
        if not lower.any():
            return cls(-upper[:, None], upper[:, None], mass, theta, anchor)
        return cls(np.stack([lower, -upper], axis=1), np.stack([upper, -lower], axis=1), mass, theta, anchor)

    def take(self, index: Index) -> OffTeacher:
        return OffTeacher(*(part[index] for part in (self.start, self.end, self.mass, self.theta, self.anchor)))

    def rule(self, w: Array, eta: Array, slack: Array, *, order: int) -> Rule:
        """Nodes in u; the v-integral over the kept interval is closed."""
        shape = self.start.shape
        columns = (w, eta, slack, self.theta, self.anchor)
        w, eta, slack, theta, anchor = (np.broadcast_to(column[:, None], shape) for column in columns)
        delta = theta - eta
        cos_eta, sin_eta = np.cos(eta), _away_from_zero(np.sin(eta))
        cos_delta, sin_delta = np.cos(delta), _away_from_zero(np.sin(delta))

        nearest = np.where(self.start * self.end > 0, np.minimum(np.abs(self.start), np.abs(self.end)), 0.0)
        reach = np.sqrt(nearest**2 + REACH_SQUARED)
        start, end = np.clip(self.start, -FAR, FAR), np.clip(self.end, -FAR, FAR)
        blur = np.abs(sin_delta / _away_from_zero(cos_delta))
        corner = sin_eta / np.sin(theta)  # u where the teacher's boundary meets the edge of a strip, per unit of z
        breaks = np.concatenate(
            [
                transition(anchor + slack / w, 1 / w),
                transition(np.zeros(shape), np.abs(sin_eta / _away_from_zero(cos_eta))),
                transition(start / _away_from_zero(cos_delta), blur),
                transition(end / _away_from_zero(cos_delta), blur),
                (start * corner)[..., None],
                (end * corner)[..., None],
                np.broadcast_to(_BOTH_SIDES, (*shape, len(_BOTH_SIDES))),
            ],
            axis=-1,
        )
        u, weight = composite_rule(breaks, -reach, np.clip(anchor + (slack + SLACK) / w, -reach, reach), order=order)

        across = u * cos_delta[..., None]
        first, second = ((edge[..., None] - across) / sin_delta[..., None] for edge in (start, end))
        lower, upper = np.minimum(first, second), np.maximum(first, second)
        teacher, teacher_above = u * (cos_eta / sin_eta)[..., None], (sin_eta > 0)[..., None]
        lower = np.where(teacher_above, lower, np.maximum(lower, teacher))
        upper = np.where(teacher_above, np.minimum(upper, teacher), upper)
        moments = interval_moments(lower, upper)

        weight = 2 * weight * normal_pdf(u) / self.mass[:, None, None]
        rows = (len(u), -1)
        return Rule((u - anchor[..., None]).reshape(rows), *((weight * moment).reshape(rows) for moment in moments))


@dataclass(frozen=True)
class FarDensity:
    """A probe at an angle and any density p(z) along it: the v-integral has no closed form, so the rule is planar."""

    density: Callable[[Array], Array]  # p(z) for z >= 0 before normalisation; taken as even
    mass: float  # twice its integral
    breaks: Array  # where it is not smooth
    theta: Array  # angle from teacher to probe in radians, shape (points,)
    turns = True

    @property
    def anchor(self) -> Array:
        return np.zeros_like(self.theta)

    def take(self, index: Index) -> FarDensity:
        return replace(self, theta=self.theta[index])

    def rule(self, w: Array, eta: Array, slack: Array, *, order: int) -> Rule:
        """Nodes in the probe's field z and in the field t across the probe."""
        delta = self.theta - eta
        cos_delta, sin_delta = _away_from_zero(np.cos(delta)), _away_from_zero(np.sin(delta))
        ones = np.ones_like(w)
        breaks = np.concatenate(
            [
                transition(slack / (w * cos_delta), np.hypot(1 / w, sin_delta) / np.abs(cos_delta)),
                transition(0 * ones, np.abs(np.tan(self.theta))),
                ones[:, None] * np.concatenate([-self.breaks, self.breaks]),
            ],
            axis=-1,
        )
        z, weight_z = composite_rule(breaks, -FAR * ones, FAR * ones, order=order)
        weight_z = 2 * weight_z * self.density(np.abs(z)) / self.mass

        # The teacher's positive side is t > -z / tan(theta).
        reach = np.sqrt(REACH_SQUARED)
        floor = np.clip(-z / _away_from_zero(np.tan(self.theta))[:, None], -reach, reach)
        centre = (slack[:, None] / w[:, None] - z * cos_delta[:, None]) / sin_delta[:, None]
        width = np.broadcast_to((1 / (w * np.abs(sin_delta)))[:, None], z.shape)
        body = np.broadcast_to(_BOTH_SIDES, (*z.shape, len(_BOTH_SIDES)))
        t, weight_t = composite_rule(
            np.concatenate([transition(centre, width), body], axis=-1), floor, np.full(z.shape, reach), order=order
        )
        weight = weight_z[..., None] * weight_t * normal_pdf(t)
        z, cos_delta, sin_delta = z[..., None], cos_delta[:, None, None], sin_delta[:, None, None]
        u, v = z * cos_delta + t * sin_delta, z * sin_delta - t * cos_delta
        rows = (len(w), -1)
        return Rule(*(a.reshape(rows) for a in (u, weight, weight * v, weight * v * v)))


# Of a batch of points: `anchor` is where u is measured from, `turns` whether the student can leave the teacher's
# direction within the teacher-probe plane; `take` gives the same for some of the points, and `rule` a rule that
# resolves the student given by (w, eta, slack).
KeptExamples = OnTeacher | OffTeacher | FarDensity


def _away_from_zero(x: Array) -> Array:
    return np.where(np.abs(x) < _SMALLEST_SINE, _SMALLEST_SINE, x)
