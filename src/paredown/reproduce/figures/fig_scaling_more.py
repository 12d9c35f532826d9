"""Appendix figure: scaling with other metrics, EL2N with and without class balance, prototypes and memorization.

Claims: each metric beats the power law of random subsets, less so than the best one. Memorization is ImageNet's metric
in Fig. 3D; here it has a panel on the data that the others have, from ten networks for each initial set.

    paredown reproduce fig_scaling_more

Expected: 4 minutes of two cores with embeddings of CIFAR-10, after those of `fig3` (`--size paper`: 198 ResNet-50s on
ImageNet, and their probes). Of memorization only the largest set was measured: the harder half of 50,000 is 0.4 points
better than a random half, a quarter 0.2 to 0.3 better, and the hardest eighth 13 points worse.
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
_NETWORKS = 10  # behind memorization of each initial set; reliable to 0.8 from 3,000 examples on
WAYS = {
    "EL2N": ("el2n", 0.0),
    "EL2N, class balance 0.5": ("el2n", 0.5),
    "prototypes, class balance 0.5": ("prototypes", 0.5),
    "memorization": ("memorization", 0.0),  # at `paper` it is Fig. 3D
}


def plan(setup: Setup) -> FigurePlan:
    """EL2N with and without a floor, prototypes with it, memorization; the first are the runs of Fig. 3.

    Memorization of an initial set is measured by a few networks that see nothing else. At `paper` ImageNet's is the
    metric of Fig. 3 and comes from 2,000; there this figure has the other ways.
    """
    data = setup.dataset()
    sweeps = {
        "el2n": scaling_sweep(setup, metric=["el2n"], balance=[0.0, 0.5]),
        "prototypes": scaling_sweep(setup, metric=["prototypes"], balance=[0.5]),
    }
    sweeps["prototypes"]["probe"]["prototypes"] = {"k": data.classes}
    if setup.scale != "paper":
        sweeps["memorization"] = scaling_sweep(setup, metric=["memorization"])
        sweeps["memorization"]["probe"]["memorization"] = {"metric": "memorization", "members": _NETWORKS}
    if setup.scale == "cpu":
        sweeps = {name: with_sizes_between(config) for name, config in sweeps.items()}
    return FigurePlan(sweeps=sweeps, datasets=(data,))


def measure(setup: Setup) -> FigureTable:
    """Curves, exponents and laws of each way of pruning."""
    table = FigureTable()
    results = {metric: setup.sweep(config).table for metric, config in plan(setup).sweeps.items()}
    for metric, balance in WAYS.values():
        if metric in results:
            add_laws(table, results[metric], setup.dataset().title, metric=metric, balance=balance)
    return table


def judge(table: FigureTable) -> list[Claim]:
    """Level and law for each; EL2N without a floor is Fig. 3's where both have the same data."""
    parts = _parts(table).values()
    same = table.rows[0]["data"] != DATA["imagenet"].title  # there Fig. 3 prunes by memorization
    counted = ["fig3" if same and title == "EL2N" else "" for title in _parts(table)]
    return [
        judged(part, counted_in=name)
        for judged in (judge_level, judge_frontier)
        for part, name in zip(parts, counted, strict=True)
    ]


def _parts(table: FigureTable) -> dict[str, FigureTable]:
    """The rows of each way of pruning that was measured."""
    found = {title: table.where(metric=metric, balance=balance) for title, (metric, balance) in WAYS.items()}
    return {title: part for title, part in found.items() if len(part)}


def draw(table: FigureTable, path: Path) -> None:
    """A panel for each way of pruning."""
    parts = _parts(table)
    with figure(path, size=(4.4 * len(parts), 4.3), ncols=len(parts), sharey=True) as (_, panels):
        for letter, axes, (title, part) in zip("ABCD", panels, parts.items(), strict=False):
            draw_scaling(axes, part, title)
            panel_letter(axes, letter, title)
        panels[0].set_ylabel(f"test error, %, {table.rows[0]['data']}\n(bars: two standard errors)")
