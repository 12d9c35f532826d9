"""Fig. 1D: which end to keep on real data, by how much of it there is.

Claims: keeping the hardest examples does worse than random subsets when the initial set is small and better when it is
large; keeping the easiest does not win when it is large.

    paredown reproduce fig1d

Expected: 7 minutes of two cores with MNIST, one with the digits (`--size paper`: 600 ResNet-18s on CIFAR-10 and 240
probes, weeks of a GPU). At keep_fraction 0.25 keep-hard is several points worse than random subsets from 1,000 examples
and more than a point better from 60,000.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paredown.plots import RANDOM_COLOR, figure, fraction_color, plain_axis
from paredown.reproduce.base import Claim, FigureTable, pick
from paredown.reproduce.data_folders import SMALL_IMAGES, by_size
from paredown.reproduce.drawing import percent_bars, points_axis
from paredown.reproduce.scaling import DECIDED, scaling_sweep
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.reproduce.theory_checks import floats
from paredown.sweeps.summary import compare_with_random

NEEDS = {"main": by_size(SMALL_IMAGES, "cifar10")}
_COLUMNS = ("initial_size", "keep_fraction", "strategy", "kept", "seeds", "test_error", "stderr", "random_error")
_COLUMNS += ("random_stderr", "difference", "difference_stderr", "z")


def plan(setup: Setup) -> FigurePlan:
    """Both ends of EL2N, compared with random subsets."""
    return FigurePlan(sweeps={"ends": scaling_sweep(setup, strategy=["hard", "easy"])}, datasets=(setup.dataset(),))


def measure(setup: Setup) -> FigureTable:
    """The difference of each end to chance, seed by seed."""
    table = FigureTable()
    for row in compare_with_random(setup.sweep(plan(setup).sweeps["ends"]).table):
        table.add("difference", data=setup.dataset().title, **pick(row, *_COLUMNS))
    return table


def judge(table: FigureTable) -> list[Claim]:
    """The signs at the smallest and the largest initial set."""
    smallest, largest = min(table["initial_size"]), max(table["initial_size"])
    hard = table.where(strategy="hard")
    z_small, z_large = (hard.where(initial_size=size)["z"] for size in (smallest, largest))
    easy = table.where(strategy="easy", initial_size=largest)
    return [
        Claim.judged(
            "Keeping the hardest does worse than random subsets from a small initial set and better from a large one.",
            bool(((z_small >= DECIDED) & (z_large <= -DECIDED)).any()),
            f"{table.rows[0]['data']}: hard minus random, in points of test error: "
            + "; ".join(
                f"keep_fraction {fraction:g}: "
                + " and ".join(
                    f"{_told(hard.where(keep_fraction=fraction, initial_size=size))} from {size:,.0f}"
                    for size in (smallest, largest)
                )
                for fraction in hard.values("keep_fraction")
            )
            + ".",
        ),
        Claim.judged(
            "With much data the easiest are not the ones to keep.",
            bool((easy["z"] > -DECIDED).all()),
            f"Easy minus random from {largest:,.0f} examples, in standard errors, at keep_fraction "
            f"{floats(easy['keep_fraction'])}: {floats(easy['z'])}.",
        ),
    ]


def _told(rows: FigureTable) -> str:
    row = rows.rows[0]
    return f"{100 * row['difference']:+.2f} ({row['z']:+.1f} standard errors)"


def draw(table: FigureTable, path: Path) -> None:
    """Differences to random subsets over the initial size, a panel for each end; below zero pruning helped."""
    with figure(path, size=(9.6, 4.2), ncols=2, sharey=True) as (_, panels):
        for axes, strategy in zip(panels, ("hard", "easy"), strict=True):
            rows = table.where(strategy=strategy)
            axes.axhline(0, color=RANDOM_COLOR, linewidth=1.5)
            for fraction in rows.values("keep_fraction"):
                curve, style = rows.where(keep_fraction=fraction), {"color": fraction_color(fraction)}
                percent_bars(axes, curve, "initial_size", "difference", label=f"keep_fraction {fraction:g}", **style)
            axes.set(xscale="log", xlabel="examples before pruning")
            points_axis(axes, [-20, -10, -5, -2, -1, 0, 1, 2, 5, 10, 20, 50])
            plain_axis(axes.xaxis, sorted(np.unique(table["initial_size"])))
            axes.set_title({"hard": "keep the hardest", "easy": "keep the easiest"}[strategy], loc="left")
        panels[0].set_ylabel("test error, pruned − random, in points\n(bars: two standard errors)")
        panels[0].legend()
        panels[0].text(0.02, 0.02, "pruning helps", transform=panels[0].transAxes, color=RANDOM_COLOR)
