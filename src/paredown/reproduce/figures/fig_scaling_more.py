"""Appendix figure: scaling with other metrics, EL2N with and without class balance and self-supervised prototypes.

Claims: each metric beats the power law of random subsets, less so than the best one.

    paredown reproduce fig_scaling_more

Expected: 4 minutes of two cores with embeddings of CIFAR-10, after those of `fig3` (`--size paper`: 198 ResNet-50s on
ImageNet, and their probes).
"""

from __future__ import annotations

from pathlib import Path

from paredown.plots import figure, panel_letter
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.data_folders import DATA, SMALL_FEATURES, by_size
from paredown.reproduce.scaling import (
    add_laws,
    draw_scaling,
    judge_frontier,
    judge_level,
    scaling_sweep,
    with_sizes_between,
)
from paredown.reproduce.setup import FigurePlan, Setup

NEEDS = {"main": by_size(SMALL_FEATURES, "imagenet")}
WAYS = {
    "EL2N": ("el2n", 0.0),
    "EL2N, class balance 0.5": ("el2n", 0.5),
    "prototypes, class balance 0.5": ("prototypes", 0.5),
}


def plan(setup: Setup) -> FigurePlan:
    """EL2N with and without a floor, prototypes with it; the first are the runs of Fig. 3 where that has the data."""
    data = setup.dataset()
    sweeps = {
        "el2n": scaling_sweep(setup, metric=["el2n"], balance=[0.0, 0.5]),
        "prototypes": scaling_sweep(setup, metric=["prototypes"], balance=[0.5]),
    }
    sweeps["prototypes"]["probe"]["prototypes"] = {"k": data.classes}
    if setup.scale == "cpu":
        sweeps = {name: with_sizes_between(config) for name, config in sweeps.items()}
    return FigurePlan(sweeps=sweeps, datasets=(data,))


def measure(setup: Setup) -> FigureTable:
    """Curves, exponents and laws of each way of pruning."""
    table = FigureTable()
    results = {metric: setup.sweep(config).table for metric, config in plan(setup).sweeps.items()}
    for metric, balance in WAYS.values():
        add_laws(table, results[metric], setup.dataset().title, metric=metric, balance=balance)
    return table


def judge(table: FigureTable) -> list[Claim]:
    """Level and law for each; EL2N without a floor is Fig. 3's where both have the same data."""
    parts = [table.where(metric=metric, balance=balance) for metric, balance in WAYS.values()]
    same = table.rows[0]["data"] != DATA["imagenet"].title  # there Fig. 3 prunes by memorization
    counted = ["fig3" if same and number == 0 else "" for number in range(len(parts))]
    return [
        judged(part, counted_in=name)
        for judged in (judge_level, judge_frontier)
        for part, name in zip(parts, counted, strict=True)
    ]


def draw(table: FigureTable, path: Path) -> None:
    """A panel for each way of pruning."""
    with figure(path, size=(4.4 * len(WAYS), 4.3), ncols=len(WAYS), sharey=True) as (_, panels):
        for letter, axes, (title, (metric, balance)) in zip("ABC", panels, WAYS.items(), strict=True):
            draw_scaling(axes, table.where(metric=metric, balance=balance), title)
            panel_letter(axes, letter, title)
        panels[0].set_ylabel(f"test error, %, {table.rows[0]['data']}\n(bars: two standard errors)")
