"""Convnets from scratch on pixels: one sweep, whose runs Fig. 1D, Fig. 3 and the table on duration share.

The paper trains ResNet-18s on CIFAR-10 for 200 epochs. Here they are small enough for a processor, and trained for
long enough that what is left out is missed: a random half is worse than everything. Each figure asks for a part of the
grid, and finds the runs that another has done.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from paredown.reproduce.data_folders import Dataset
from paredown.reproduce.setup import FigurePlan, Setup

PIXELS = {"tiny": ("digits",), "cpu": ("cifar10", "none")}  # of the role `pixels`; the paper's size has its own data
ARM = "pixels"  # the role, and the name of the sweep
METRIC = "el2n"


class Arm(NamedTuple):
    """One data set of a figure: what is trained on it, and what it is called."""

    config: dict[str, Any]  # of a sweep
    dataset: Dataset
    title: str


def pixel_arm(setup: Setup, **grid: Any) -> dict[str, Arm]:
    """The sweep on pixels, with what the figure wants of the grid; empty where there are no such data.

    A subset is trained for as many steps as the whole initial set, and so for more epochs, unless
    `matched_iterations` says otherwise.
    """
    data = setup.dataset(ARM) if ARM in setup.needs else None
    if data is None or data.name == "none":
        return {}
    parts = setup.choose(tiny=(8, 4, 2, 1), cpu=(16, 8, 4, 1), overnight=(16, 8, 4, 2, 1), paper=())
    student = setup.choose(
        tiny={"recipe": "micro_cnn", "epochs": 2, "network_options": {"width": 4}},
        cpu={"recipe": "micro_cnn"},
        overnight={"recipe": "slim_resnet"},
        paper={},
    )
    common = {
        "initial_size": [data.examples // part for part in parts],
        "keep_fraction": [0.5, 0.8, 1.0],
        "metric": [METRIC],
        "balance": [0.0],
        "seed": setup.seeds(setup.choose(tiny=2, cpu=3, paper=0)),
    }
    config = {
        "data": data.images(),
        "grid": {**common, **grid},
        "student": student,
        "probe": {"members": 2, "epochs": 1} if setup.scale == "tiny" else {"members": 3},
    }
    return {ARM: Arm(config, data, f"{data.title}, convnet")}


def plan_arms(arms: dict[str, Arm]) -> FigurePlan:
    """The sweeps of a figure with all its data."""
    return FigurePlan(
        sweeps={name: arm.config for name, arm in arms.items()}, datasets=tuple(arm.dataset for arm in arms.values())
    )
