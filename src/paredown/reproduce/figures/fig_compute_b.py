"""Appendix figure: compute, panels B and C; learning curves at a fixed number of epochs, by keep_fraction.

Claims: trained for the same number of epochs, networks converge equally quickly whatever the fraction kept, so that a
smaller set costs proportionally less compute; for the same compute the hardest examples then give a lower error than
random ones.

    paredown reproduce fig_compute_b

Expected: 2 minutes of two cores with MNIST (`--size paper`: 27 ResNet-18s on CIFAR-10 and 18 ResNet-50s on ImageNet).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paredown.evaluate import count_training_flops
from paredown.plots import COLORS, RANDOM_COLOR, figure, fraction_bar, fraction_color, panel_letter, plain_ticks
from paredown.reproduce.base import Claim, FigureTable, means
from paredown.reproduce.data_folders import SMALL_IMAGES, by_size
from paredown.reproduce.drawing import percent_bars
from paredown.reproduce.rehearsal import network_cost
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.reproduce.theory_checks import floats
from paredown.standard_errors import standard_error
from paredown.sweeps import read_settings

NEEDS = {
    "main": by_size(SMALL_IMAGES, "cifar10"),
    "second": {"paper": ("imagenet",)},
}
_NEAR = 1.1  # converged: within this factor of the error at the end
_SIMILAR = 1.5  # times as many epochs


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
    return {
        "data": data.images() if setup.scale == "paper" else data.features(),
        "grid": {
            "initial_size": [data.examples],
            "keep_fraction": [0.5, 1.0] if setup.scale == "tiny" else [0.2, 0.4, 0.6, 0.8, 1.0],
            "metric": ["memorization" if data.name == "imagenet" else "el2n"],
            "balance": [0.0],
            "matched_iterations": [0.0],
            "seed": setup.seeds(2 if setup.scale == "tiny" or data.name == "imagenet" else 3),
        },
        "student": {"recipe": recipe, "test_every_epoch": True, **changes},
        "probe": {"members": setup.choose(tiny=2, cpu=3, paper=10)},
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
            soon = [1 + np.argmax(run <= _NEAR * run[-1]) for run in errors]
            flops = count_training_flops(forward, kept, len(epochs))
            table.add("run", **what, converged=np.mean(soon), **means(test_error=errors[:, -1]), flops=flops)
    return table


def judge(table: FigureTable) -> list[Claim]:
    """For every data set: epochs to converge, and error for equal compute."""
    return [claim for data in table.values("data") for claim in _judge_data(table.where(kind="run", data=data), data)]


def _judge_data(runs: FigureTable, data: str) -> list[Claim]:
    pruned = FigureTable(row for row in runs.rows if row["metric"] != "random" or row["keep_fraction"] == 1)
    epochs = pruned["converged"]
    full = runs.where(keep_fraction=1.0).rows[0]
    hard = [row for row in pruned.rows if row["keep_fraction"] < 1]
    chance = [runs.where(metric="random", keep_fraction=row["keep_fraction"]).rows[0] for row in hard]
    told = "; ".join(
        f"{row['flops'] / full['flops']:.0%} of the compute: {100 * row['test_error']:.2f} % (random subset "
        f"{100 * other['test_error']:.2f} %)"
        for row, other in zip(hard, chance, strict=True)
    )
    return [
        Claim.judged(
            "At equal epochs networks converge equally quickly, whatever the fraction kept.",
            bool(epochs.max() <= _SIMILAR * epochs.min()),
            f"{data}: epochs until the test error is within {100 * (_NEAR - 1):.0f} % of its last value, at "
            f"keep_fraction {floats(pruned['keep_fraction'])}: {floats(epochs)}.",
        ),
        Claim.judged(
            "For the same compute the hardest examples give a lower error than random ones.",
            all(row["test_error"] < other["test_error"] for row, other in zip(hard, chance, strict=True)),
            f"{data}: all examples {100 * full['test_error']:.2f} % error with {full['flops']:.2g} FLOPs; {told}.",
        ),
    ]


def draw(table: FigureTable, path: Path) -> None:
    """Learning curves on the left, error against FLOPs on the right, for every data set."""
    titles = table.values("data")
    with figure(path, size=(10.6, 4.3 * len(titles)), ncols=2, nrows=len(titles), squeeze=False) as (drawn, grid):
        for (left, right), data in zip(grid, titles, strict=True):
            part = table.where(data=data)
            fractions = sorted(part.values("keep_fraction"))
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
