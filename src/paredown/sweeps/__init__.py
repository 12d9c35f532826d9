"""Sweeps: a student for every point of a grid, resumable, with a random baseline always beside it."""

from __future__ import annotations

from paredown.sweeps.grid import Run, expand
from paredown.sweeps.settings import Settings, read_settings
from paredown.sweeps.sweeping import Plan, Swept, plan_sweep, sweep, sweep_plan

__all__ = [
    "Plan",
    "Run",
    "Scoring",
    "Settings",
    "Swept",
    "expand",
    "plan_sweep",
    "read_settings",
    "sweep",
    "sweep_plan",
]
