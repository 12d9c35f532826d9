"""Fig. 3: beating the power law in practice.

Claims: at a fixed keep_fraction error falls as a power law with the exponent of random subsets; the frontier over
fractions lies below the curve of random subsets, and falls faster than any power law.

    paredown reproduce fig3

Expected: 6 minutes of two cores with MNIST and embeddings of CIFAR-10, after those of `fig1d` (`--size paper`: 408
ResNet-18s each on SVHN and CIFAR-10, 102 ResNet-50s on ImageNet, and their probes). On MNIST exponents grow from 0.36
(random) to 0.60 as less is kept, over sizes that include the crossing; the frontier lies below the random curve and
falls faster by 0.13 in exponent, up to the size from which on the initial set limits it. With CIFAR-10, convnets on its
pixels are added from the runs of `fig1d`.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paredown.plots import figure, fraction_color, panel_letter
from paredown.reproduce import scaling
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.data_folders import SMALL_FEATURES, SMALL_IMAGES, SMALL_TAUGHT, by_size
from paredown.reproduce.drawing import draw_frontier, log_axes
from paredown.reproduce.from_scratch import ARM, PIXELS, Arm, pixel_arm, plan_arms
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.theory import pareto_frontier, solve

NEEDS = {
    "main": by_size(SMALL_IMAGES, "svhn"),
    "second": by_size(SMALL_FEATURES, "cifar10"),
    "third": {"paper": ("imagenet",)},
    "teacher": SMALL_TAUGHT,
    ARM: PIXELS,
}
_FRACTIONS = (0.2, 0.4, 0.6, 0.8, 1.0)  # of the theory, as in the paper's panel
_IN_A_ROW = 4  # panels


def _arms(setup: Setup) -> dict[str, Arm]:
    """A sweep for every data set that is there; two roles may fall to the same."""
    roles = [role for role in setup.needs if role != ARM]
    datasets = {setup.dataset(role).name: role for role in reversed(roles)}
    metric = {"imagenet": "memorization"}
    sweeps = {
        name: scaling.scaling_sweep(setup, role, metric=[metric.get(name, "el2n")])
        for name, role in reversed(list(datasets.items()))
    }
    if setup.scale == "cpu":
        sweeps = {name: scaling.with_sizes_between(config) for name, config in sweeps.items()}
    known = {name: setup.dataset(role) for name, role in datasets.items()}
    arms = {name: Arm(config, known[name], known[name].title) for name, config in sweeps.items()}
    return {**arms, **pixel_arm(setup)}


def plan(setup: Setup) -> FigurePlan:
    """Initial sizes by fractions, on every data set."""
    return plan_arms(_arms(setup))


def measure(setup: Setup) -> FigureTable:
    """The theory's curves, and for every data set its curves, exponents and laws."""
    table = FigureTable()
    alpha = np.geomspace(0.2, 5, setup.size.points)
    for fraction in _FRACTIONS:
        table.add("theory", keep_fraction=fraction, alpha_prune=alpha, test_error=solve(alpha, fraction).test_error)
    frontier = pareto_frontier(alpha, min_keep_fraction=_FRACTIONS[0])
    table.add("theory frontier", alpha_prune=alpha, test_error=frontier.test_error)
    for arm in _arms(setup).values():
        scaling.add_laws(table, setup.sweep(arm.config).table, arm.title, metric=arm.config["grid"]["metric"][0])
    return table


def judge(table: FigureTable) -> list[Claim]:
    """Three claims for every data set."""
    parts = [table.where(data=data) for data in table.values("data")]
    judges = (scaling.judge_exponents, scaling.judge_level, scaling.judge_frontier)
    return [judged(part) for judged in judges for part in parts]


def draw(table: FigureTable, path: Path) -> None:
    """The theory, and a panel for every data set; in two rows if they are more than four."""
    titles = table.values("data")
    number = 1 + len(titles)
    rows = 1 if number <= _IN_A_ROW else 2
    columns = -(-number // rows)
    with figure(path, size=(4.4 * columns, 4.3 * rows), nrows=rows, ncols=columns, squeeze=False) as (_, grid):
        theory, *panels = grid.ravel()
        for fraction in _FRACTIONS:
            alpha, error = table.where(kind="theory", keep_fraction=fraction).columns("alpha_prune", "test_error")
            theory.plot(alpha, 100 * error, color=fraction_color(fraction), label=f"hardest {100 * fraction:g} %")
        draw_frontier(theory, *table.where(kind="theory frontier").columns("alpha_prune", "test_error"))
        log_axes(theory, xlabel=r"examples per weight kept, $\alpha_{\rm prune}$")
        theory.legend(fontsize=8)
        panel_letter(theory, "A", "perceptron, theory")
        for letter, axes, title in zip("BCDEF", panels, titles, strict=False):
            scaling.draw_scaling(axes, table.where(data=title), title)
            panel_letter(axes, letter, title)
        for axes in grid[:, 0]:
            axes.set_ylabel("test error, %  (bars: two standard errors)")
        for axes in panels[len(titles) :]:
            axes.set_axis_off()
