"""Fig. 3: beating the power law in practice.

Claims: at a fixed keep_fraction error falls as a power law with the exponent of random subsets; the frontier over
fractions lies below the curve of random subsets, and falls faster than any power law.

    paredown reproduce fig3

Expected: 6 minutes of two cores with MNIST and embeddings of CIFAR-10, after those of `fig1d` (`--size paper`: 408
ResNet-18s each on SVHN and CIFAR-10, 102 ResNet-50s on ImageNet, and their probes). On MNIST exponents grow from 0.36
(random) to 0.60 as less is kept, over sizes that include the crossing; the frontier lies below the random curve and
falls faster by 0.13 in exponent, up to the size from which on the initial set limits it.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paredown.plots import figure, fraction_color, panel_letter
from paredown.reproduce import scaling
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.data_folders import SMALL_FEATURES, SMALL_IMAGES, SMALL_TAUGHT, by_size
from paredown.reproduce.drawing import draw_frontier, log_axes
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.theory import pareto_frontier, solve

NEEDS = {
    "main": by_size(SMALL_IMAGES, "svhn"),
    "second": by_size(SMALL_FEATURES, "cifar10"),
    "third": {"paper": ("imagenet",)},
    "teacher": SMALL_TAUGHT,
}
_FRACTIONS = (0.2, 0.4, 0.6, 0.8, 1.0)  # of the theory, as in the paper's panel


def plan(setup: Setup) -> FigurePlan:
    """A sweep for every data set that is there; two roles may fall to the same."""
    datasets = {setup.dataset(role).name: role for role in reversed(list(setup.needs))}
    metric = {"imagenet": "memorization"}
    sweeps = {
        name: scaling.scaling_sweep(setup, role, metric=[metric.get(name, "el2n")])
        for name, role in reversed(list(datasets.items()))
    }
    if setup.scale == "cpu":
        sweeps = {name: scaling.with_sizes_between(config) for name, config in sweeps.items()}
    return FigurePlan(sweeps=sweeps, datasets=tuple(setup.dataset(role) for role in datasets.values()))


def measure(setup: Setup) -> FigureTable:
    """The theory's curves, and for every data set its curves, exponents and laws."""
    table = FigureTable()
    alpha = np.geomspace(0.2, 5, setup.size.points)
    for fraction in _FRACTIONS:
        table.add("theory", keep_fraction=fraction, alpha_prune=alpha, test_error=solve(alpha, fraction).test_error)
    frontier = pareto_frontier(alpha, min_keep_fraction=_FRACTIONS[0])
    table.add("theory frontier", alpha_prune=alpha, test_error=frontier.test_error)
    work = plan(setup)
    for config in work.sweeps.values():
        title, metric = work.dataset(config["data"]).title, config["grid"]["metric"][0]
        scaling.add_laws(table, setup.sweep(config).table, title, metric=metric)
    return table


def judge(table: FigureTable) -> list[Claim]:
    """Three claims for every data set."""
    parts = [table.where(data=data) for data in table.values("data")]
    judges = (scaling.judge_exponents, scaling.judge_level, scaling.judge_frontier)
    return [judged(part) for judged in judges for part in parts]


def draw(table: FigureTable, path: Path) -> None:
    """The theory, and a panel for every data set."""
    titles = table.values("data")
    with figure(path, size=(4.4 * (1 + len(titles)), 4.3), ncols=1 + len(titles)) as (_, panels):
        theory = panels[0]
        for fraction in _FRACTIONS:
            alpha, error = table.where(kind="theory", keep_fraction=fraction).columns("alpha_prune", "test_error")
            theory.plot(alpha, 100 * error, color=fraction_color(fraction), label=f"hardest {100 * fraction:g} %")
        draw_frontier(theory, *table.where(kind="theory frontier").columns("alpha_prune", "test_error"))
        log_axes(
            theory,
            xlabel=r"examples per weight kept, $\alpha_{\rm prune}$",
            ylabel="test error, %  (bars: two standard errors)",
        )
        theory.legend(fontsize=8)
        panel_letter(theory, "A", "perceptron, theory")
        for letter, axes, title in zip("BCD", panels[1:], titles, strict=False):
            scaling.draw_scaling(axes, table.where(data=title), title)
            panel_letter(axes, letter, title)
