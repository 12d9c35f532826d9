"""Appendix figure: functional forms fitted to a measured Pareto frontier.

Claims: an exponential fits the measured frontier better than a power law.

    paredown reproduce fig_frontier_practice

Expected: 3 minutes of two cores with MNIST, after those of `fig1d` (`--size paper`: 340 ResNet-18s on SVHN more than
in `fig3`). Stated with an information criterion, with and without an asymptote, and where the sizes do not decide it
the answer is "cannot tell".
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paredown.plots import COLORS, FRONTIER_COLOR, RANDOM_COLOR, figure
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.data_folders import SMALL_IMAGES, by_size
from paredown.reproduce.drawing import log_axes, mark_limits
from paredown.reproduce.scaling import (
    add_laws,
    bound_points,
    judge_exponential,
    judge_level,
    scaling_sweep,
    with_sizes_between,
)
from paredown.reproduce.setup import FigurePlan, Setup

NEEDS = {"main": by_size(SMALL_IMAGES, "svhn")}


def plan(setup: Setup) -> FigurePlan:
    """The sweep of the other figures with a size between every two of its sizes."""
    config = scaling_sweep(setup)
    config = config if setup.scale == "tiny" else with_sizes_between(config)
    return FigurePlan(sweeps={"frontier": config}, datasets=(setup.dataset(),))


def measure(setup: Setup) -> FigureTable:
    """The frontier and the laws on it."""
    table = FigureTable()
    add_laws(table, setup.sweep(plan(setup).sweeps["frontier"]).table, setup.dataset().title)
    return table


def judge(table: FigureTable) -> list[Claim]:
    """The two laws seed by seed, where the initial set does not limit the frontier; and its level, as in Fig. 3."""
    return [judge_exponential(table), judge_level(table, counted_in="fig3")]


def draw(table: FigureTable, path: Path) -> None:
    """The frontier with its intervals and the fitted laws."""
    frontier, random = table.where(kind="frontier"), table.where(kind="random")
    colors = {"power": COLORS[0], "exponential": COLORS[3]}
    with figure(path, size=(7.0, 4.8)) as (_, axes):
        axes.plot(random["kept"], 100 * random["test_error"], ".-", color=RANDOM_COLOR, label="random subsets")
        for number, law in enumerate(table.where(kind="law").values("law")):
            kept, error = table.where(kind="fitted", law=law).columns("kept", "test_error")
            style = {"color": colors[law.split(" ")[0]], "linestyle": ":" if "asymptote" in law else "-"}
            label = f"{law} (ΔAICc {table.where(kind='law', law=law).rows[0]['aicc']:.1f})"
            axes.plot(kept, 100 * error, linewidth=1.6, label=label, zorder=number, **style)
        error = 100 * frontier["test_error"]
        limits = [error - 100 * frontier["low"], 100 * frontier["high"] - error]
        style = {"fmt": "o", "color": FRONTIER_COLOR, "capsize": 2, "zorder": 9}
        bars = np.maximum(np.nan_to_num(limits), 0)
        axes.errorbar(frontier["kept"], error, yerr=bars, label="frontier (bars: 95 %)", **style)
        for row in frontier.rows:
            place = {"textcoords": "offset points", "xytext": (4, 7), "fontsize": 8, "color": FRONTIER_COLOR}
            axes.annotate(f"{row['keep_fraction']:g}", (row["kept"], 100 * row["test_error"]), **place)
        mark_limits(axes, bound_points(table))
        low = 100 * min(frontier["test_error"].min(), random["test_error"].min())
        axes.set(yscale="log", ylim=(0.6 * low, None))
        log_axes(axes, xlabel="examples kept (numbers: keep_fraction)", ylabel="test error, %")
        axes.set_title(f"{table.rows[0]['data']}: which law does the frontier follow?", loc="left")
        axes.legend()
