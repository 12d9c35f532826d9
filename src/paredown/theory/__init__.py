"""The theory of data pruning for the perceptron, exact in the limit of many weights.

Angles are in degrees, alphas in examples per weight, and `keep_fraction` is the fraction kept.
"""

from __future__ import annotations

from paredown.theory.frontier_fits import FrontierFit, fit_frontier
from paredown.theory.information import GibbsStudent, entropy, gibbs, information_gain
from paredown.theory.phase_diagram import (
    Frontier,
    FrontierRow,
    PhaseDiagram,
    classical_constant,
    large_alpha_error,
    pareto_frontier,
    phase_diagram,
)
from paredown.theory.policy import (
    BestKeep,
    Choice,
    DeltaOptimum,
    OptimalWindow,
    best_keep_fraction,
    better_strategy,
    gardner_margin,
    minimum_keep_fraction,
    optimal_delta,
    optimal_window,
)
from paredown.theory.saddle import THEORY_STRATEGIES, Solution, solve

__all__ = [
    "THEORY_STRATEGIES",
    "BestKeep",
    "Choice",
    "DeltaOptimum",
    "Frontier",
    "FrontierFit",
    "FrontierRow",
    "GibbsStudent",
    "OptimalWindow",
    "PhaseDiagram",
    "Solution",
    "best_keep_fraction",
    "better_strategy",
    "classical_constant",
    "entropy",
    "fit_frontier",
    "gardner_margin",
    "gibbs",
    "information_gain",
    "large_alpha_error",
    "minimum_keep_fraction",
    "optimal_delta",
    "optimal_window",
    "pareto_frontier",
    "phase_diagram",
    "solve",
]
