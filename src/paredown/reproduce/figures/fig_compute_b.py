"""Appendix figure: compute, panels B and C; learning curves at a fixed number of epochs, by keep_fraction.

Claims: trained for the same number of epochs, networks converge equally quickly whatever the fraction kept, so that a
smaller set costs proportionally less compute; for the same compute the hardest examples then give a lower error than
random ones.

    paredown reproduce fig_compute_b

Expected: 3 minutes of two cores with MNIST (`--size paper`: 27 ResNet-18s on CIFAR-10 and 18 ResNet-50s on ImageNet).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.evaluate import count_training_flops
from paredown.laws import better_than, equivalent_to
from paredown.plots import COLORS, RANDOM_COLOR, figure, fraction_bar, fraction_color, panel_letter, plain_ticks
from paredown.reproduce.base import Claim, FigureTable, means
from paredown.reproduce.data_folders import SMALL_IMAGES, by_size
from paredown.reproduce.drawing import percent_bars
from paredown.reproduce.judging import Unit, judge_points, seeds_of
from paredown.reproduce.metric_comparison import MEMORIZATION_NETWORKS
from paredown.reproduce.rehearsal import network_cost
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.standard_errors import standard_error
from paredown.sweeps import read_settings

NEEDS = {
    "main": by_size(SMALL_IMAGES, "cifar10"),
    "second": {"paper": ("imagenet",)},
}
_NEAR = 1.1  # converged: within this factor of the error at the end
_SIMILAR = 1.5  # times as many epochs
_LOWER = 0.003  # of test error, that "a lower error" is about


def plan(setup: Setup) -> FigurePlan:
    """Equal epochs: the matched-iterations factor is 0."""
    return FigurePlan(
        sweeps={role: _config(setup, role) for role in setup.needs},
        datasets=tuple(setup.dataset(role) for role in setup.needs),
    )


def _config(setup: Setup, role: str) -> dict[str, Any]:
    data = setup.dataset(role)
    recipe = {"cifar10": "resnet18", "imagenet": "resnet50"}.get(data.name, "mlp")
    changes = {} if setup.scale == "paper" else {"epochs": setup.choose(tiny=6, cpu=8, paper=0)}
    members = setup.choose(tiny=2, cpu=3, paper=MEMORIZATION_NETWORKS if data.name == "imagenet" else 10)
    return {
        "data": data.images() if setup.scale == "paper" else data.features(),
        "grid": {
            "initial_size": [data.examples],
            "keep_fraction": [0.5, 1.0] if setup.scale == "tiny" else [0.2, 0.4, 0.6, 0.8, 1.0],
            "metric": ["memorization" if data.name == "imagenet" else "el2n"],
            "balance": [0.0],
            "matched_iterations": [0.0],
            "seed": setup.seeds(2 if data.name == "imagenet" else setup.choose(tiny=2, cpu=5, paper=3)),
        },
        "student": {"recipe": recipe, "test_every_epoch": True, **changes},
        "probe": {"members": members},
    }


def measure(setup: Setup) -> FigureTable:
    """Mean test error after every epoch, how soon it is near its end, and the FLOPs of each run."""
    table = FigureTable()
    for role, config in plan(setup).sweeps.items():
        recipe = read_settings(config).student.resolve()
        forward = network_cost(recipe, setup.dataset(role)).flops
        rows = setup.sweep(config).table.to_pylist()
        groups: dict[tuple[str, float], list[dict[str, Any]]] = {}
        for row in rows:
            groups.setdefault((row["metric"], row["keep_fraction"]), []).append(row)
        for (metric, fraction), group in sorted(groups.items()):
            errors = np.array([row["epoch_errors"] for row in group])
            title, kept = setup.dataset(role).title, group[0]["kept"]
            what = {"data": title, "metric": metric, "keep_fraction": fraction, "kept": kept}
            epochs = 1 + np.arange(errors.shape[1])
            table.add("curve", **what, epoch=epochs, test_error=errors.mean(axis=0), stderr=standard_error(errors))
            soon = [epochs_to(run, _NEAR * run[-1]) for run in errors]
            flops = count_training_flops(forward, kept, len(epochs))
            seeds = [row["seed"] for row in group]
            table.add_seeds("seed", **what, seeds=seeds, columns={"converged": soon, "test_error": errors[:, -1]})
            table.add("run", **what, converged=np.mean(soon), **means(test_error=errors[:, -1]), flops=flops)
    return table


def epochs_to(errors: NDArray[np.float64], level: float) -> float:
    """After how many epochs an error is first down to a level, in parts of epochs."""
    first = int(np.argmax(errors <= level))
    if first == 0:
        return 1.0
    return float(first + (errors[first - 1] - level) / (errors[first - 1] - errors[first]))


def judge(table: FigureTable) -> list[Claim]:
    """For every data set: epochs to converge, and error for equal compute, seed by seed."""
    seeds, runs = table.where(kind="seed"), table.where(kind="run")
    judged = [_judge_data(seeds.where(data=data), runs.where(data=data), data) for data in table.values("data")]
    return [claim for claims in judged for claim in claims]


def _judge_data(seeds: FigureTable, runs: FigureTable, data: str) -> list[Claim]:
    metric = next(name for name in seeds.values("metric") if name != "random")
    fractions = sorted(fraction for fraction in seeds.values("keep_fraction") if fraction < 1)
    points: dict[str, Any] = {"points": len(fractions)}
    whole = np.log(seeds_of(seeds, "converged", keep_fraction=1.0))
    full = runs.where(keep_fraction=1.0).rows[0]
    slower, apart = {}, {}
    for fraction in fractions:
        hard = {"metric": metric, "keep_fraction": fraction}
        error, chance = (seeds_of(seeds, "test_error", **way) for way in (hard, hard | {"metric": "random"}))
        slower[f"{fraction:g}"] = np.log(seeds_of(seeds, "converged", **hard)) - whole
        apart[f"{fraction:g}"] = error - chance
    return [
        judge_points(
            "At equal epochs networks converge equally quickly, whatever the fraction kept.",
            {f: equivalent_to(values, math.log(_SIMILAR), **points) for f, values in slower.items()},
            rule="equivalent to",
            effect=math.log(_SIMILAR),
            unit=Unit("log ratio"),
            about=f"{data}, log of epochs until the error is within {100 * (_NEAR - 1):.0f} % of its last, relative to "
            "all examples, by keep_fraction",
            note=f"Epochs with everything: {np.exp(whole.mean()):.1f}.",
        ),
        judge_points(
            "For the same compute the hardest examples give a lower error than random ones.",
            {f: better_than(values, **points) for f, values in apart.items()},
            rule="better than",
            effect=_LOWER,
            about=f"{data}, test error of the hardest minus that of random subsets, by keep_fraction",
            note=f"All examples: {100 * full['test_error']:.2f} % with {full['flops']:.2g} FLOPs.",
        ),
    ]


def draw(table: FigureTable, path: Path) -> None:
    """Learning curves on the left, error against FLOPs on the right, for every data set."""
    titles = table.values("data")
    with figure(path, size=(10.6, 4.3 * len(titles)), ncols=2, nrows=len(titles), squeeze=False) as (drawn, grid):
        for (left, right), data in zip(grid, titles, strict=True):
            part = table.where(data=data)
            fractions = sorted(part.where(kind="run").values("keep_fraction"))
            for fraction in fractions:
                metric = "random" if fraction == 1 else next(m for m in part.values("metric") if m != "random")
                curve = part.where(kind="curve", keep_fraction=fraction, metric=metric)
                percent_bars(left, curve, "epoch", "test_error", color=fraction_color(fraction), marker=None)
            left.set(yscale="log", xlabel="epoch", ylabel="test error, %  (bars: two standard errors)")
            plain_ticks(left.yaxis)
            panel_letter(left, "B", f"{data}, keep the hardest, equal epochs")
            fraction_bar(drawn, left, fractions)
            runs = sorted(part.where(kind="run").rows, key=lambda row: row["flops"])
            for random, color, label in (
                (True, RANDOM_COLOR, "random subset"),
                (False, COLORS[0], "hardest examples"),
            ):
                shown = (row for row in runs if (row["metric"] == "random") == random or row["keep_fraction"] == 1)
                style = {"color": color, "markersize": 4, "label": label}
                percent_bars(right, FigureTable(shown), "flops", "test_error", **style)
            right.set(xscale="log", yscale="log", xlabel="FLOPs of training", ylabel="test error, %")
            plain_ticks(right.yaxis)
            panel_letter(right, "C", "the same runs by compute")
            right.legend()
