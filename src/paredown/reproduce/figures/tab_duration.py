"""Appendix table: pruning and training duration; the matched-iterations factor.

Claims: training longer on the pruned set improves it slightly, and a factor of 0.4 to 0.6 is enough.

    paredown reproduce tab_duration

Expected: 2 minutes of two cores with embeddings of CIFAR-10 (`--size paper`: 52 ResNet-50s on ImageNet). 0 trains the
pruned set for as many epochs as the whole, 1 for as many iterations.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paredown.laws import above, no_worse_than
from paredown.plots import COLORS, RANDOM_COLOR, figure
from paredown.reproduce.base import Claim, FigureTable, means
from paredown.reproduce.data_folders import SMALL_FEATURES, by_size
from paredown.reproduce.drawing import percent_bars
from paredown.reproduce.judging import judge_points, mean_over, seeds_of
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.reproduce.theory_checks import floats

NEEDS = {"main": by_size(SMALL_FEATURES, "imagenet")}
FACTORS = (0.0, 0.2, 0.4, 0.6, 0.8, 1.0)
_KEEP_FRACTION = 0.8
_GAIN = 0.002  # of accuracy: "slightly"; the paper's table has 0.2 to 0.6 points
_MARGIN = 0.002  # of accuracy, up to which less than a factor of 1 is enough


def plan(setup: Setup) -> FigurePlan:
    """80 % kept by self-supervised prototypes, without class balance, as in the paper."""
    data = setup.dataset()
    changes = {} if setup.scale == "paper" else {"epochs": setup.choose(tiny=4, cpu=6, paper=0)}
    config: dict[str, Any] = {
        "data": data.images("swav") if setup.scale == "paper" else data.features(),
        "grid": {
            "initial_size": [data.examples],
            "keep_fraction": [_KEEP_FRACTION, 1.0],
            "metric": ["prototypes"],
            "balance": [0.0],
            "matched_iterations": list(FACTORS) if setup.scale != "tiny" else [0.0, 0.4, 1.0],
            "seed": setup.seeds(setup.choose(tiny=2, cpu=4, paper=4)),
        },
        "student": {"recipe": "resnet50" if setup.scale == "paper" else "mlp", **changes},
        "probe": {"k": data.classes},
    }
    return FigurePlan(sweeps={"factors": config}, datasets=(data,))


def measure(setup: Setup) -> FigureTable:
    """Accuracy by factor, and its difference to the factor 0, seed by seed."""
    rows = setup.sweep(plan(setup).sweeps["factors"]).table.to_pylist()
    top = "top5_error" if setup.scale == "paper" else "test_error"
    table = FigureTable()
    accuracy: dict[tuple[str, float], list[float]] = {}
    for row in sorted(rows, key=lambda row: row["seed"]):
        name = "all examples" if row["keep_fraction"] == 1 else row["metric"]
        accuracy.setdefault((name, row["matched_iterations"]), []).append(1 - row[top])
    for (name, factor), values in sorted(accuracy.items()):
        what = {"data": setup.dataset().title, "examples": name, "matched_iterations": factor}
        gain = np.array(values) - np.array(accuracy.get((name, 0.0), values))
        table.add("accuracy", **what, **means(accuracy=values, gain=gain), seeds=len(values))
        where = {"examples": name, "matched_iterations": factor}
        table.add_seeds("seed", **where, columns={"accuracy": values, "gain": gain})
    return table


def judge(table: FigureTable) -> list[Claim]:
    """Whether longer is better, and whether the middle is as good as the end, seed by seed."""
    seeds, pruned = table.where(kind="seed", examples="prototypes"), table.where(kind="accuracy", examples="prototypes")
    last = seeds_of(seeds, "accuracy", matched_iterations=1.0)
    middle = [factor for factor in seeds.values("matched_iterations") if 0.4 <= factor <= 0.6]
    missed = last - mean_over([seeds_of(seeds, "accuracy", matched_iterations=factor) for factor in middle])
    listed = f"at factors {floats(pruned['matched_iterations'])}: {floats(100 * pruned['accuracy'], 4)} %"
    return [
        judge_points(
            "Training longer on the pruned set improves it.",
            {"1 - 0": above(seeds_of(seeds, "gain", matched_iterations=1.0), 0.0)},
            rule="above",
            effect=_GAIN,
            about=f"{pruned.rows[0]['data']}, accuracy at factor 1 minus that at 0",
            note=f"Accuracy {listed}.",
        ),
        judge_points(
            "A matched-iterations factor of 0.4 to 0.6 is enough.",
            {f"1 - mean of {floats(middle)}": no_worse_than(missed, _MARGIN)},
            rule="no worse than",
            effect=_MARGIN,
            about=f"accuracy at factor 1 minus the mean at {floats(middle)}",
        ),
    ]


def draw(table: FigureTable, path: Path) -> None:
    """Accuracy against the factor, the pruned sets and random ones of the same size."""
    with figure(path, size=(6.6, 4.2)) as (_, axes):
        for name, color, label in (
            ("random", RANDOM_COLOR, "random 80 %"),
            ("prototypes", COLORS[0], "hardest 80 % by prototypes"),
        ):
            percent_bars(
                axes,
                table.where(kind="accuracy", examples=name),
                "matched_iterations",
                "accuracy",
                color=color,
                label=label,
            )
        full = table.where(kind="accuracy", examples="all examples").rows[0]
        axes.axhline(100 * full["accuracy"], color="black", linewidth=1, linestyle="--", label="all examples")
        axes.set(xlabel="matched-iterations factor (0: equal epochs, 1: equal iterations)")
        axes.set_ylabel("test accuracy, %\n(bars: two standard errors)")
        axes.set_title(f"{full['data']}: training longer on less", loc="left")
        axes.legend()
