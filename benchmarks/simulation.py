"""Does the simulation agree with the theory, at the paper's size?

N = 200 and 100 draws over a grid of alpha_prune, keep_fraction, theta and strategy: for each point the simulated test
error, the theory's, and the difference in standard errors; at the end the root mean square of these z-scores, about 1
if nothing but chance tells the two apart. The theory holds for infinitely many features: a z-score beyond 3 must
shrink as N grows, so such points are run again at N = 800. Then the clock time of a solution against alpha_prune.

Run: python benchmarks/simulation.py [draws]
"""

from __future__ import annotations

import math
import sys
from itertools import product

import paredown as pdn
from paredown.perceptron import Simulation

ALPHAS = (0.5, 1.0, 2.0, 5.0)
KEEP_FRACTIONS = (0.8, 0.4, 0.2)
THETAS = (0.0, 5.0, 20.0)
STRATEGIES = ("hard", "easy")


def points() -> list[dict]:
    """Every combination with pruning, and for each alpha one without, where neither angle nor strategy matters."""
    grid = product(ALPHAS, KEEP_FRACTIONS, THETAS, STRATEGIES)
    names = ("alpha_prune", "keep_fraction", "theta", "strategy")
    pruned = [dict(zip(names, point, strict=True)) for point in grid]
    whole = [dict(zip(names, (alpha, 1.0, 0.0, "hard"), strict=True)) for alpha in ALPHAS]
    return whole + pruned


def z_score(simulation: Simulation, theory: float) -> float:
    return (simulation.test_error - theory) / simulation.stderr


def compare(point: dict, draws: int, n_features: int) -> float:
    """Print one row of the table and return its z-score."""
    theory = float(pdn.theory.solve(**point).test_error)
    simulation = pdn.perceptron.simulate(**point, n_features=n_features, draws=draws, seed=0)
    z = z_score(simulation, theory)
    given = " | ".join(f"{value:g}" if isinstance(value, float) else value for value in point.values())
    print(
        f"| {n_features} | {given} | {simulation.test_error:.5f} ± {simulation.stderr:.5f} | {theory:.5f} | {z:+.2f} |",
        flush=True,
    )
    return z


def main() -> None:
    draws = int(sys.argv[1]) if len(sys.argv) > 1 else 100
    print("| N | alpha_prune | keep_fraction | theta | strategy | simulation | theory | z |\n|" + "---|" * 8)
    scores = [(compare(point, draws, 200), point) for point in points()]
    far = [point for z, point in scores if abs(z) > 3]
    rms = math.sqrt(sum(z**2 for z, _ in scores) / len(scores))
    print(f"\n{len(scores)} points, {draws} draws each: rms z = {rms:.2f}, |z| > 3 at {len(far)}; these at N = 800:\n")
    for point in far:
        compare(point, draws, 800)
    times = pdn.perceptron.solve_times([0.5, 1, 2, 3, 5, 7, 10], draws=5)
    print(
        f"\nclock time of one solution, N = 200: T = {times.slope:.3g} alpha_prune + {times.intercept:.2g} s "
        f"(r^2 = {times.r_squared:.3f}); in the paper, with CVXPY: T = 0.96 alpha_prune + 0.80 s"
    )


if __name__ == "__main__":
    main()
