"""Sweeps: a student for every point of a grid, resumable, with a random baseline for each."""

from __future__ import annotations

from paredown.sweeps.grid import Run, expand
from paredown.sweeps.settings import Settings, read_settings
from paredown.sweeps.summary import advice, compare_with_random
from paredown.sweeps.sweep_results import SweepOnDisk, read_sweep
from paredown.sweeps.sweeping import SweepPlan, SweepResult, plan_sweep, sweep, sweep_plan

__all__ = [
    "Run",
    "Settings",
    "SweepOnDisk",
    "SweepPlan",
    "SweepResult",
    "advice",
    "compare_with_random",
    "expand",
    "plan_sweep",
    "read_settings",
    "read_sweep",
    "sweep",
    "sweep_plan",
]
