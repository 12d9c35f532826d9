"""The theory of data pruning for the perceptron, exact in the limit of many weights."""

from __future__ import annotations

from paredown.theory.saddle import STRATEGIES as STRATEGIES
from paredown.theory.saddle import Solution as Solution
from paredown.theory.saddle import solve as solve
