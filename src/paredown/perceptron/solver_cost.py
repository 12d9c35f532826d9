"""Clock time of training against the size of the pruned dataset."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.perceptron.simulation import Simulation, simulate
from paredown.progress import Track, silent


@dataclass(frozen=True)
class SolveTimes:
    """Mean seconds of one max-margin solution at each `alpha_prune`, and the line T = slope * alpha_prune + intercept.

    `r_squared` is the part of the variance between the points that the line explains.
    """

    alpha_prune: NDArray[np.float64]
    seconds: NDArray[np.float64]
    stderr: NDArray[np.float64]
    slope: float
    intercept: float
    r_squared: float
    simulations: tuple[Simulation, ...] = field(repr=False)


def solve_times(
    alpha_prune: Sequence[float],
    *,
    draws: int = 10,
    track: Track = silent,
    **setting: Any,
) -> SolveTimes:
    """Time the student's training and regress the time on alpha_prune, T = slope * alpha_prune + intercept.

    Appendix "Breaking compute scaling laws via data pruning", which found T = 0.96 alpha_prune + 0.80 seconds with
    CVXPY on its machine. Draws run one after the other on one core, so that they do not slow each other down; for
    `setting` see `simulate`.
    """
    alphas = np.asarray(alpha_prune, dtype=np.float64)
    if alphas.ndim != 1 or len(np.unique(alphas)) < 2:
        raise PareError(f"a line needs at least two different values of alpha_prune, got {alphas.tolist()}.")
    simulations = tuple(
        simulate(float(alpha), draws=draws, workers=1, **setting) for alpha in track(alphas, "alpha_prune", len(alphas))
    )
    seconds = np.array([simulation.seconds for simulation in simulations])
    slope, intercept = np.polyfit(alphas, seconds, 1)
    residual = seconds - (slope * alphas + intercept)
    return SolveTimes(
        alpha_prune=alphas,
        seconds=seconds,
        stderr=np.array([simulation.stderr_of("seconds") for simulation in simulations]),
        slope=float(slope),
        intercept=float(intercept),
        r_squared=float(1 - residual.var() / seconds.var()),
        simulations=simulations,
    )
