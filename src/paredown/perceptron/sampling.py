"""One draw of the teacher-student experiment: a teacher, a probe, a pruned dataset and the student trained on it."""

from __future__ import annotations

import math
from dataclasses import dataclass
from time import perf_counter
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError, argument, check_known, check_least
from paredown.perceptron.max_margin_solver import max_margin_signed
from paredown.theory.validation import fraction
from paredown.threads import one_blas_thread

Array = NDArray[np.float64]


class Draw(NamedTuple):
    """What one draw measured, with w the student, T the teacher and J the probe, all of unit length."""

    test_error: float  # arccos(R) / pi, exactly: the inputs are isotropic
    R: float  # w.T
    rho: float  # w.J
    kappa: float  # min over kept examples of y w.x
    theta: float  # degrees between J and T
    n_support: int
    seconds: float  # clock time of the max-margin solution alone


SIMULATED_STRATEGIES = ("hard", "easy", "window", "random")
PROBE_KINDS = {"angle": "at exactly the angle theta", "trained": "trained on the unpruned examples"}
HARDNESS = {"field": "|z|, as the theory does", "margin": "y z, mistakes first"}


@dataclass(frozen=True)
class Setting:
    """Everything that defines the experiment but the seed; checked when made.

    `n_total` examples are drawn and `n_kept` of them kept, P_tot = round(alpha_prune / keep_fraction * N) and
    round(keep_fraction * P_tot): exact numbers, not thresholds, so that draws differ by their data alone.
    """

    alpha_prune: float
    keep_fraction: float
    theta: float | None = None
    strategy: str = "hard"
    window: tuple[float, float] | None = None
    n_features: int = 200
    probe: str = "angle"
    probe_epochs: int = 1
    hardness: str = "field"

    def __post_init__(self) -> None:
        check_known("strategy", self.strategy, SIMULATED_STRATEGIES)
        check_known("probe", self.probe, PROBE_KINDS)
        check_known("hardness", self.hardness, HARDNESS)
        if not (math.isfinite(self.alpha_prune) and self.alpha_prune > 0):
            raise PareError(f"{argument('alpha_prune')} must be a positive number, got {self.alpha_prune}.")
        fraction("keep_fraction", self.keep_fraction)
        check_least(2, n_features=self.n_features)
        if self.theta is not None and not 0 <= self.theta <= 90:
            raise PareError(f"{argument('theta')} must be in [0, 90] degrees, got {self.theta}.")
        if self.theta is not None and self.probe == "trained":
            raise PareError(
                f"{argument('theta', self.theta)} was given with {argument('probe', 'trained')}, whose angle follows "
                f"from its training. Leave it out and set {argument('probe_epochs')}, or use "
                f"{argument('probe', 'angle')}."
            )
        check_least(1, probe_epochs=self.probe_epochs)
        if (self.window is None) == (self.strategy == "window"):
            raise PareError(
                f"{argument('strategy', self.strategy)} was given {'without' if self.window is None else 'with'} "
                f"{argument('window')}: a window belongs to {argument('strategy', 'window')}, and to it alone."
            )
        if self.window is not None and not math.isclose(_mass(*self.window), self.keep_fraction, abs_tol=1e-6):
            raise PareError(
                f"window {self.window} holds a fraction {_mass(*self.window):.6g} of all examples, but "
                f"{argument('keep_fraction')} is {self.keep_fraction}. Leave that out, or change the window."
            )
        if self.n_kept < 1:
            raise PareError(
                f"{argument('alpha_prune', self.alpha_prune)} with {argument('n_features', self.n_features)} keeps no "
                "example. Increase either, so that their product is at least 1."
            )

    @property
    def n_total(self) -> int:
        """Examples before pruning, P_tot."""
        return round(self.alpha_prune / self.keep_fraction * self.n_features)

    @property
    def n_kept(self) -> int:
        """Examples after pruning, P_prune."""
        return round(self.keep_fraction * self.n_total)


def window_mass(window: tuple[float, float]) -> float:
    """The fraction of examples with a < |z| < b for a standard normal z, after checking the window."""
    if len(window) != 2 or not 0 <= window[0] < window[1]:
        raise PareError(f"window must be (a, b) with 0 <= a < b, in units of |z|, got {window}.")
    return _mass(*window)


def _mass(a: float, b: float) -> float:
    return math.erfc(a / math.sqrt(2)) - math.erfc(b / math.sqrt(2))


def run_draw(setting: Setting, seed: int, index: int) -> Draw:
    """Run draw number `index`; the result depends on nothing but the three arguments."""
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(index,)))
    with one_blas_thread():
        teacher = _unit(rng.standard_normal(setting.n_features))
        prune = _with_trained_probe if setting.probe == "trained" else _with_probe_at_angle
        probe, signed = prune(setting, teacher, rng)
        start = perf_counter()
        student = max_margin_signed(signed)
        seconds = perf_counter() - start
        return Draw(
            test_error=_angle(student.weights, teacher) / math.pi,
            R=float(student.weights @ teacher),
            rho=float(student.weights @ probe),
            kappa=student.margin,
            theta=math.degrees(_angle(probe, teacher)),
            n_support=student.n_support,
            seconds=seconds,
        )


def _with_probe_at_angle(setting: Setting, teacher: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """A probe cos(theta) T + sin(theta) e with e random and orthogonal to T, and the signed examples it keeps.

    What is kept depends on an example only through its fields a = T.x and b = e.x, two independent standard normals.
    They are drawn for all examples, the N - 2 other directions only for those kept: the same distribution at a cost
    that does not grow as keep_fraction falls.
    """
    radians = math.radians(setting.theta or 0.0)
    across = rng.standard_normal(setting.n_features)
    across = _unit(across - (across @ teacher) * teacher)
    probe = math.cos(radians) * teacher + math.sin(radians) * across
    a, b = rng.standard_normal((2, setting.n_total))
    labels = np.where(a < 0, -1.0, 1.0)
    kept = _kept(setting, (math.cos(radians) * a + math.sin(radians) * b) * labels)
    x = rng.standard_normal((setting.n_kept, setting.n_features))
    plane = np.stack([teacher, across])
    x += (np.stack([a[kept], b[kept]], axis=1) - x @ plane.T) @ plane
    return probe, labels[kept, None] * x


def _with_trained_probe(setting: Setting, teacher: Array, rng: np.random.Generator) -> tuple[Array, Array]:
    """A probe trained by the perceptron rule for a few epochs on all examples, and the signed examples it keeps.

    The theory takes the probe as independent of the examples but for its angle. A trained one is not: the examples
    near its boundary are those that shaped it, and keeping them serves the student better than the angle alone says
    (0.142 against 0.222 at alpha_prune = 2, keep_fraction = 0.4, three epochs, 23 degrees).
    """
    x = rng.standard_normal((setting.n_total, setting.n_features))
    x *= np.where(x @ teacher < 0, -1.0, 1.0)[:, None]
    probe = np.zeros(setting.n_features)
    for _ in range(setting.probe_epochs):
        for i in rng.permutation(setting.n_total):
            if probe @ x[i] <= 0:
                probe += x[i]
    probe = _unit(probe)
    return probe, x[_kept(setting, x @ probe)]


def _kept(setting: Setting, margins: Array) -> NDArray[np.intp]:
    """Indices of the kept examples, ranked by hardness given their margins y J.x.

    The theory keeps examples by |z| = |J.x|, how near they lie to the probe's boundary on either side; that is
    hardness="field". The text of section "An analytic theory of data pruning" ranks by the margin y z, which puts the
    examples the probe gets wrong before all others; that is hardness="margin". At theta = 0 the two are the same; at
    theta = 20 degrees, keep_fraction = 0.4 and alpha_prune = 2 the errors are 0.208 and 0.225 (standard error 0.004),
    and the theory says 0.214.
    """
    if setting.strategy == "random":
        return np.arange(setting.n_kept)  # the examples are independent
    ease = np.abs(margins) if setting.hardness == "field" else margins
    if setting.strategy == "hard":
        first = 0
    elif setting.strategy == "easy":
        first = setting.n_total - setting.n_kept
    else:
        assert setting.window is not None
        first = min(round(_mass(0, setting.window[0]) * setting.n_total), setting.n_total - setting.n_kept)
    return np.sort(np.argsort(ease)[first : first + setting.n_kept])


def _unit(v: Array) -> Array:
    return v / np.linalg.norm(v)


def _angle(u: Array, v: Array) -> float:
    """Radians between unit vectors; unlike arccos it keeps all digits of a small angle."""
    return 2 * math.atan2(float(np.linalg.norm(u - v)), float(np.linalg.norm(u + v)))
