"""The perceptron of the paper's theory, simulated: teacher, probe, pruning and the exact max-margin student."""

from __future__ import annotations

from paredown.perceptron.max_margin_solver import MaxMargin, max_margin
from paredown.perceptron.sampling import Draw, Setting
from paredown.perceptron.simulation import Simulation, simulate
from paredown.perceptron.solver_cost import SolveTimes, solve_times

__all__ = ["Draw", "MaxMargin", "Setting", "Simulation", "SolveTimes", "max_margin", "simulate", "solve_times"]
