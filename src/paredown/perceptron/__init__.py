"""The perceptron of the paper's theory, simulated: teacher, probe, pruning and the exact max-margin student."""

from __future__ import annotations

from paredown.perceptron.compute import SolveTimes, solve_times
from paredown.perceptron.draw import Draw, Setting
from paredown.perceptron.simulation import Simulation, simulate
from paredown.perceptron.solver import MaxMargin, max_margin

__all__ = ["Draw", "MaxMargin", "Setting", "Simulation", "SolveTimes", "max_margin", "simulate", "solve_times"]
