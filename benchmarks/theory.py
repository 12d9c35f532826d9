"""How much faster is `paredown.theory.solve` than nested quadrature and a root finder on the printed equations?

The peer is the obvious program: the boxed equations of the paper for R, rho and kappa, their two nested integrals by
`scipy.integrate.quad`, the root by `scipy.optimize.fsolve`. Cold, it starts from the textbook solution without pruning;
warm, from the solution for 5 % more examples. Its relative error is shown beside its time: an error above 1e-6 is a
failure that fsolve did not mend. CPU seconds, one run.
"""

from __future__ import annotations

import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.integrate import quad
from scipy.optimize import fsolve
from scipy.special import ndtri

from paredown.theory import Solution, solve

THETA = 10.0
POINTS = [(2.0, 0.5), (3.0, 0.4), (1.0, 0.6), (4.0, 0.3), (2.5, 0.8)]  # (alpha_prune, keep_fraction)
TOLERANCE = 1e-9


def naive(alpha: float, f: float, theta: float, start: np.ndarray) -> float:
    """Test error from the printed equations 'Main result and overview' at theta > 0."""
    cos, sin2 = math.cos(theta), math.sin(theta) ** 2
    gamma = -float(ndtri((1 - f) / 2))

    def upper_tail(x: float) -> float:
        return 0.5 * math.erfc(x / math.sqrt(2))

    def equations(unknowns: np.ndarray) -> list[float]:
        R, rho, kappa = (float(x) for x in unknowns)
        lam = math.sqrt(max(sin2 - R * R - rho * rho + 2 * rho * R * cos, 1e-12))
        s = math.sqrt(max(1 - rho * rho, 1e-12))

        def average(integrand: Callable[[float, float], float]) -> float:
            def inner(z: float) -> float:
                low = min(rho * z, kappa) - 10
                value = quad(integrand, low, kappa, args=(z,), epsabs=TOLERANCE, epsrel=TOLERANCE, limit=200)[0]
                return value * math.exp(-z * z / 2) / math.sqrt(2 * math.pi) / f

            return quad(inner, -gamma, gamma, epsabs=TOLERANCE, epsrel=TOLERANCE, limit=200)[0]

        def edge(t: float, z: float) -> float:
            delta = z * z * (rho * rho + cos * cos - 2 * rho * R * cos) + 2 * t * z * (R * cos - rho) + t * t * sin2
            return math.exp(min(-delta / (2 * lam * lam), 50)) * (kappa - t)  # fsolve strays where lam is not real

        def bulk(t: float, z: float) -> float:
            side = z * (rho * R - cos) - t * (R - rho * cos)
            density = math.exp(-((t - rho * z) ** 2) / (2 * s * s)) / (math.sqrt(2 * math.pi) * s)
            return density * upper_tail(side / (s * lam)) * (kappa - t)

        at_edge = average(edge)
        third = average(lambda t, z: bulk(t, z) * (z - rho * t) / (s * s))
        return [
            (R - rho * cos) / sin2 - alpha / (math.pi * lam) * at_edge,
            1
            - (rho * rho + R * R - 2 * rho * R * cos) / sin2
            - 2 * alpha * average(lambda t, z: bulk(t, z) * (kappa - t)),
            (rho - R * cos) / sin2 - 2 * alpha * (third + (rho * R - cos) / (s * s) / (2 * math.pi * lam) * at_edge),
        ]

    root = fsolve(equations, start, xtol=TOLERANCE)
    return math.acos(float(root[0])) / math.pi


def cpu_seconds(function: Callable[[], Any], repeat: int = 1) -> float:
    start = time.process_time()
    for _ in range(repeat):
        function()
    return (time.process_time() - start) / repeat


def run_naive(alpha: float, f: float, near: Solution) -> tuple[float, float]:
    """CPU seconds, and the relative error of the test error."""
    begin = time.process_time()
    error = naive(alpha, f, math.radians(THETA), np.array([near.R, near.rho, near.kappa]))
    seconds = time.process_time() - begin
    return seconds, abs(error / solve(alpha, f, theta=THETA).test_error - 1)


def main() -> None:
    warnings.simplefilter("ignore")  # the naive integrals warn wherever fsolve strays
    solve(2.0, 0.5, theta=THETA)  # imports and first-call costs are nobody's
    cold = [run_naive(alpha, f, solve(alpha, 1.0, theta=THETA)) for alpha, f in POINTS]
    warm = [run_naive(alpha, f, solve(1.05 * alpha, f, theta=THETA)) for alpha, f in POINTS]
    five = sum(seconds for seconds, _ in warm)

    solved = [(seconds, point) for (seconds, error), point in zip(cold, POINTS, strict=True) if error < 1e-6]
    quickest, easiest = min(solved)
    ours_cold = cpu_seconds(lambda: [solve(*point, theta=THETA) for _, point in solved], repeat=10) / len(solved)
    ours_easiest = cpu_seconds(lambda: solve(*easiest, theta=THETA), repeat=20)
    alphas, fractions = np.linspace(0.1, 10, 100), np.linspace(0.1, 1, 10)
    grid = cpu_seconds(lambda: solve(alphas, fractions[:, None], theta=THETA)) / 1000
    curves = cpu_seconds(lambda: solve(alphas, fractions[:, None]))
    for name, runs in (("cold", cold), ("warm", warm)):
        listed = ", ".join(f"{seconds:.2f} s ({error:.0e})" for seconds, error in runs)
        print(f"naive, {name}, five points: {listed}")
    print(f"{'question':<58}{'ours, ms':>10}{'naive, ms':>12}{'ratio':>9}{'goal':>7}")
    rows = [
        (f"one cold point, theta = {THETA:g}, mean of those it solves", ours_cold, np.mean([t for t, _ in solved]), 50),
        ("  of these, the one where its start is nearest", ours_easiest, quickest, 0),
        (f"a point of a grid call (10 x 100), theta = {THETA:g}", grid, five / 5, 200),
        ("Fig. 1A, 1000 points at theta = 0 : five naive points", curves, five, 1),
    ]
    for question, ours, theirs, goal in rows:
        print(f"{question:<58}{1e3 * ours:>10.2f}{1e3 * theirs:>12.1f}{theirs / ours:>9.0f}{goal or '':>7}")


if __name__ == "__main__":
    main()
