"""The theory of data pruning for the perceptron, exact in the limit of many weights.

Angles are in degrees, alphas in examples per weight, and `keep_fraction` is the fraction kept.
"""

from __future__ import annotations

from paredown.theory.frontier_fits import FrontierFit as FrontierFit
from paredown.theory.frontier_fits import fit_frontier as fit_frontier
from paredown.theory.information import GibbsStudent as GibbsStudent
from paredown.theory.information import entropy as entropy
from paredown.theory.information import gibbs as gibbs
from paredown.theory.information import information_gain as information_gain
from paredown.theory.phase_diagram import Frontier as Frontier
from paredown.theory.phase_diagram import FrontierRow as FrontierRow
from paredown.theory.phase_diagram import PhaseDiagram as PhaseDiagram
from paredown.theory.phase_diagram import classical_constant as classical_constant
from paredown.theory.phase_diagram import large_alpha_error as large_alpha_error
from paredown.theory.phase_diagram import pareto_frontier as pareto_frontier
from paredown.theory.phase_diagram import phase_diagram as phase_diagram
from paredown.theory.policy import BestKeep as BestKeep
from paredown.theory.policy import Choice as Choice
from paredown.theory.policy import DeltaOptimum as DeltaOptimum
from paredown.theory.policy import OptimalWindow as OptimalWindow
from paredown.theory.policy import best_keep_fraction as best_keep_fraction
from paredown.theory.policy import better_strategy as better_strategy
from paredown.theory.policy import gardner_margin as gardner_margin
from paredown.theory.policy import minimum_keep_fraction as minimum_keep_fraction
from paredown.theory.policy import optimal_delta as optimal_delta
from paredown.theory.policy import optimal_window as optimal_window
from paredown.theory.saddle import THEORY_STRATEGIES as THEORY_STRATEGIES
from paredown.theory.saddle import Solution as Solution
from paredown.theory.saddle import solve as solve
