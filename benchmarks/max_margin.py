"""How much faster is `paredown.perceptron.max_margin` than general QP solvers, and how exact is each?

Prints one table per dimension N: time of every peer divided by ours, and how far the margin it attains stays below the
best one known, on the same data, one thread each, in the same run. A peer that needs minutes is left out ("-").

Run: python benchmarks/max_margin.py [--quick]
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib.metadata import version
from statistics import median
from time import perf_counter
from typing import Any, TypeVar

import clarabel
import cvxpy
import daqp
import numpy as np
import osqp
import piqp
import quadprog
from numpy.typing import NDArray
from scipy import sparse
from scipy.optimize import nnls
from threadpoolctl import threadpool_limits

import paredown as pdn

Array = NDArray[np.float64]
T = TypeVar("T")


def mirrored(signed: Array) -> tuple[Array, Array]:
    """Half of the rows y_i x_i turned around, because the public function wants both classes; margins do not change."""
    y = np.where(np.arange(len(signed)) % 2, -1.0, 1.0)
    return y[:, None] * signed, y


def with_cvxpy(signed: Array) -> Array:
    w = cvxpy.Variable(signed.shape[1])
    cvxpy.Problem(cvxpy.Minimize(cvxpy.sum_squares(w)), [signed @ w >= 1]).solve()
    assert isinstance(w.value, np.ndarray)
    return w.value


def with_daqp(signed: Array) -> Array:
    p, n = signed.shape
    return daqp.solve(np.eye(n), np.zeros(n), signed, np.full(p, 1e30), np.ones(p), np.zeros(p, dtype=np.int32))[0]


def with_piqp(signed: Array) -> Array:
    p, n = signed.shape
    solver = piqp.DenseSolver()
    solver.settings.eps_abs = solver.settings.eps_rel = 1e-10
    solver.setup(np.eye(n), np.zeros(n), None, None, np.asfortranarray(signed), np.ones(p), np.full(p, np.inf))
    solver.solve()
    return solver.result.x


def with_quadprog(signed: Array) -> Array:
    p, n = signed.shape
    return quadprog.solve_qp(np.eye(n), np.zeros(n), np.ascontiguousarray(signed.T), np.ones(p))[0]


def with_nnls(signed: Array) -> Array:
    p, n = signed.shape
    multipliers, _ = nnls(np.vstack([signed.T, np.ones(p)]), np.append(np.zeros(n), 1.0), maxiter=100 * p)
    return multipliers @ signed


def with_clarabel(signed: Array) -> Array:
    p, n = signed.shape
    solver: Any = clarabel  # compiled, without type information
    settings = solver.DefaultSettings()
    settings.verbose = False
    cones = [solver.NonnegativeConeT(p)]
    quadratic, constraints = sparse.eye_array(n, format="csc"), sparse.csc_array(-signed)
    problem = (sparse.csc_matrix(quadratic), np.zeros(n), sparse.csc_matrix(constraints), -np.ones(p))
    return np.array(solver.DefaultSolver(*problem, cones, settings).solve().x)


def with_osqp(signed: Array) -> Array:
    p, n = signed.shape
    solver = osqp.OSQP()
    solver.setup(
        sparse.csc_matrix(np.eye(n)),
        np.zeros(n),
        sparse.csc_matrix(signed),
        np.ones(p),
        np.full(p, np.inf),
        verbose=False,
        eps_abs=1e-9,
        eps_rel=1e-9,
        max_iter=20_000,
        polishing=True,
    )
    return solver.solve().x


PEERS: dict[str, tuple[Callable[[Array], Array], int]] = {  # the largest P * N each is asked to solve
    "cvxpy": (with_cvxpy, 400_000),
    "clarabel": (with_clarabel, 400_000),
    "osqp": (with_osqp, 120_000),
    "quadprog": (with_quadprog, 2_000_000),
    "nnls": (with_nnls, 400_000),
    "daqp": (with_daqp, 4_000_000),
    "piqp": (with_piqp, 4_000_000),
}


def signed_examples(n_examples: int, n_features: int, keep_fraction: float) -> Array:
    """Rows y_i x_i of a teacher's hardest `keep_fraction`."""
    rng = np.random.default_rng(0)
    teacher = rng.standard_normal(n_features)
    x = rng.standard_normal((round(n_examples / keep_fraction), n_features))
    fields = x @ teacher
    x *= np.where(fields < 0, -1.0, 1.0)[:, None]
    return np.ascontiguousarray(x[np.sort(np.argsort(np.abs(fields))[:n_examples])])


def attained(signed: Array, w: Array) -> float:
    return float((signed @ w).min() / np.linalg.norm(w))


def timed(solve: Callable[..., T], *problem: Array) -> tuple[float, T]:
    start = perf_counter()
    result = solve(*problem)
    return perf_counter() - start, result


def against(peer: Callable[[Array], Array], signed: Array) -> tuple[float, float]:
    """The peer's time / ours and the margin it attains.

    Each run of the peer is compared with runs of ours just before and after it, because a shared machine changes its
    speed; the ratio is the median of up to 15 such comparisons, fewer where the peer is slow.
    """
    x, y = mirrored(signed)
    ratios: list[float] = []
    spent = 0.0
    while True:
        before, _ = timed(pdn.perceptron.max_margin, x, y)
        seconds, w = timed(peer, signed)
        after, _ = timed(pdn.perceptron.max_margin, x, y)
        ratios.append(2 * seconds / (before + after))
        spent += seconds
        if len(ratios) == 15 or spent > 5:
            return median(ratios), attained(signed, w)


def row(n_examples: int, n_features: int, keep_fraction: float) -> str:
    signed = signed_examples(n_examples, n_features, keep_fraction)
    result = pdn.perceptron.max_margin(*mirrored(signed))
    peers = {name: against(peer, signed) for name, (peer, size) in PEERS.items() if n_examples * n_features <= size}
    best = max([result.margin, *(margin for _, margin in peers.values())])
    short = lambda margin: f"{max(0.0, 1 - margin / best):.0e}"
    cells = [f"{n_features}", f"{n_examples}", f"{keep_fraction:g}", short(result.margin), f"{result.gap:.0e}"]
    times = lambda ratio: f"{ratio:.0f}" if ratio >= 10 else f"{ratio:.2g}"
    for name in PEERS:
        cells.append(f"{times(peers[name][0])} ({short(peers[name][1])})" if name in peers else "-")
    return "| " + " | ".join(cells) + " |"


def main() -> None:
    versions = ", ".join(f"{name} {version(name)}" for name in ("numpy", "scipy", *(p for p in PEERS if p != "nnls")))
    print(f"Time of each peer / ours (how far its margin stays below the best known, relatively). {versions}\n")
    header = ["N", "P", "keep_fraction", "ours: margin", "ours: gap", *PEERS]
    print("| " + " | ".join(header) + " |\n|" + "---|" * len(header), flush=True)
    sizes = [(100, 200, 1.0), (200, 200, 1.0), (600, 200, 1.0), (600, 200, 0.2), (2000, 200, 1.0)]
    if "--quick" not in sys.argv:
        sizes += [
            (10_000, 200, 1.0),
            (20_000, 200, 1.0),
            (100, 50, 1.0),
            (5000, 50, 1.0),
            (800, 800, 1.0),
            (3200, 800, 1.0),
        ]
    with threadpool_limits(1):
        for size in sizes:
            print(row(*size), flush=True)


if __name__ == "__main__":
    main()
