"""Appendix figure: functional forms fitted to a measured Pareto frontier.

Claims: an exponential fits the measured frontier better than a power law.

    paredown reproduce fig_frontier_practice

Expected: 3 minutes of two cores with MNIST, after those of `fig1d` (`--size paper`: 340 ResNet-18s on SVHN more than
in `fig3`). Stated with an information criterion, with and without an asymptote, and where the sizes do not decide it
the answer is "cannot tell".
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np

from paredown.plots import COLORS, FRONTIER_COLOR, RANDOM_COLOR, figure
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.data_folders import SMALL_IMAGES, by_size
from paredown.reproduce.drawing import log_axes
from paredown.reproduce.scaling import add_laws, judge_level, scaling_sweep
from paredown.reproduce.setup import FigurePlan, Setup

NEEDS = {"main": by_size(SMALL_IMAGES, "svhn")}


def plan(setup: Setup) -> FigurePlan:
    """The sweep of the other figures with a size between every two of its sizes."""
    config = scaling_sweep(setup)
    sizes = config["grid"]["initial_size"]
    between = [round(float(np.sqrt(a * b))) for a, b in pairwise(sizes)]
    config["grid"]["initial_size"] = sorted(sizes if setup.scale == "tiny" else [*sizes, *between])
    return FigurePlan(sweeps={"frontier": config}, datasets=(setup.dataset(),))


def measure(setup: Setup) -> FigureTable:
    """The frontier and the laws on it."""
    table = FigureTable()
    add_laws(table, setup.sweep(plan(setup).sweeps["frontier"]).table, setup.dataset().title)
    return table


def judge(table: FigureTable) -> list[Claim]:
    """By AICc, and whether that is decided."""
    laws = {row["law"]: row for row in table.where(kind="law").rows}
    if not laws:
        sentence = table.where(kind="verdict").rows[0]["sentence"]
        return [Claim.judged("An exponential fits the frontier better than a power law.", None, sentence)]
    power, exponential = (
        min((row for name, row in laws.items() if name.startswith(form)), key=lambda row: row["aicc"])
        for form in ("power", "exponential")
    )
    ahead = power["aicc"] - exponential["aicc"]
    plain = laws["power"]["aicc"] - laws["exponential"]["aicc"]
    frontier = table.where(kind="frontier")
    return [
        Claim.judged(
            "An exponential fits the frontier better than a power law.",
            ahead >= 6,  # an Akaike weight of 0.95
            f"{table.rows[0]['data']}, {len(frontier)} sizes from {min(frontier['kept']):,.0f} to "
            f"{max(frontier['kept']):,.0f}: the best power law ({power['law']}) against the best exponential "
            f"({exponential['law']}): {ahead:+.1f} in AICc, above zero for the exponential; without asymptotes "
            f"{plain:+.1f}. Errors of predicting left-out sizes: {power['left_out_error']:.2f} and "
            f"{exponential['left_out_error']:.2f} in log error.",
        ),
        judge_level(table),
    ]


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
        low = 100 * min(frontier["test_error"].min(), random["test_error"].min())
        axes.set(yscale="log", ylim=(0.6 * low, None))
        log_axes(axes, xlabel="examples kept (numbers: keep_fraction)", ylabel="test error, %")
        axes.set_title(f"{table.rows[0]['data']}: which law does the frontier follow?", loc="left")
        axes.legend()
