"""Appendix figure on pruning without class balancing: test accuracy of keeping the hardest, whatever their class.

Claims: without class balancing the results are worse than with the floor of 50 % (Fig. 5B and C).

    paredown reproduce fig_unbalanced

Expected: 2 minutes of two cores with embeddings of CIFAR-10 after `fig5bc`, whose runs it shares (`--size paper`: 200
more trainings of a ResNet-50 on ImageNet). Ten equal classes mostly stay above the floor; in the 4 of
40 cases where they do not, it adds 0.9 points.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from paredown.laws import better_than
from paredown.plots import RANDOM_COLOR, figure, fraction_color
from paredown.reproduce import metric_comparison as benchmark
from paredown.reproduce.base import Claim, FigureTable, in_points, means
from paredown.reproduce.data_folders import SMALL_TAILED, Dataset
from paredown.reproduce.figures.fig5bc import PANELS, accuracy_panel
from paredown.reproduce.judging import judge_points, seeds_of
from paredown.reproduce.metric_comparison import COMPARED_METRICS, FLOOR, METRIC_TITLES
from paredown.reproduce.setup import FigurePlan, Setup

NEEDS = {**benchmark.NEEDS, "tail": SMALL_TAILED}
_GAIN = 0.005  # of accuracy, that the floor should be worth where it acts


def plan(setup: Setup) -> FigurePlan:
    """Students without and with the floor."""
    fractions = setup.choose(tiny=(0.8, 0.6), cpu=(0.8, 0.6, 0.4, 0.2), paper=benchmark.PAPER_FRACTIONS)
    datasets = benchmark.datasets_of(setup)
    return benchmark.plan_students(setup, balance=[0.0, FLOOR], fractions=fractions, datasets=datasets)


def measure(setup: Setup) -> FigureTable:
    """Accuracies without the floor, and what the floor adds, seed by seed."""
    return benchmark.measure_each(setup, _measure_one)


def _measure_one(setup: Setup, data: Dataset) -> FigureTable:
    swept, table = benchmark.train_students(setup, plan(setup), data)
    benchmark.add_accuracies(table, swept, top=benchmark.top(setup), balance=0.0)
    measured = benchmark.accuracies(swept, benchmark.top(setup))
    fractions = table.where(kind="random")["keep_fraction"]
    gains = {
        (metric, fraction): measured[metric, fraction, FLOOR] - measured[metric, fraction, 0.0]
        for metric in COMPARED_METRICS
        for fraction in fractions
    }
    acting = [key for key in gains if not _same_kept(swept, *key)]
    for (metric, fraction), values in gains.items():
        acts = int((metric, fraction) in acting)
        table.add("floor", metric=metric, keep_fraction=fraction, **means(gain=values), acts=acts)
    for fraction in fractions:
        of_all = np.mean([gains[metric, fraction] for metric in COMPARED_METRICS], axis=0)
        table.add("floor, all metrics", keep_fraction=fraction, **means(gain=of_all))
    where = np.mean([gains[key] for key in acting], axis=0) if acting else [0.0, 0.0]
    table.add("floor, where it acts", **means(gain=where), acts=len(acting))
    table.add_seeds("floor by seed", columns={"gain": where})
    return table


def _same_kept(swept: pa.Table, metric: str, fraction: float) -> bool:
    """Whether as many of each class are kept without the floor as with it: then the same examples are."""
    kept: dict[int, list[list[int]]] = {}
    for row in swept.to_pylist():
        if (row["metric"], row["keep_fraction"]) == (metric, fraction):
            kept.setdefault(row["seed"], []).append(row["class_kept"])
    return all(free == held for free, held in kept.values())


def judge(table: FigureTable) -> list[Claim]:
    """What the floor adds where it changes what is kept, seed by seed, on every data set."""
    return [judge_arm(table.where(data=data)) for data in table.values("data")]


def judge_arm(table: FigureTable) -> Claim:
    """The claim on one data set."""
    claim = f"{table.rows[0]['data']}: without class balancing the results are worse."
    over = table.where(kind="floor, where it acts").rows[0]
    cells = table.where(kind="floor")
    if not over["acts"]:
        return Claim.not_testable(claim, f"The floor of {FLOOR:g} changes nothing in {len(cells)} cases.")
    most = max(cells.rows, key=lambda row: row["gain"])
    gains = benchmark.over_scorings(table, seeds_of(table, "gain", kind="floor by seed"))
    return judge_points(
        claim,
        {"where it acts": better_than(-gains)},
        rule="better than",
        over="scorings" if len(gains) < len(table.where(kind="floor by seed")) else "seeds",
        effect=_GAIN,
        about=f"{benchmark.name_data(table)}, accuracy without the floor of {FLOOR:g} minus that with it",
        note=f"It changes what is kept in {over['acts']:.0f} of {len(cells)} cases; most for "
        f"{METRIC_TITLES[most['metric']]} at {most['keep_fraction']:g}, {in_points(most, 'gain')} points.",
    )


def draw(table: FigureTable, path: Path) -> None:
    """The panels of Fig. 5 without the floor, and what the floor adds to each metric."""
    titles = table.values("data")
    layout: dict[str, Any] = {"nrows": len(titles), "ncols": 3, "squeeze": False}
    with figure(path, size=(16.5, 5.4 * len(titles)), **layout) as (drawn, rows):
        for panels, data in zip(rows, titles, strict=True):
            part = table.where(data=data)
            panels[1].sharey(panels[0])
            for axes, (title, names) in zip(panels, PANELS.items(), strict=False):
                accuracy_panel(axes, part, names)
                axes.set_title(f"{title}, no floor", loc="left")
            top = part.where(kind="full")["top"][0]
            panels[0].set_ylabel(
                f"{benchmark.name_data(part)}\ntop-{top:.0f} test accuracy, % (bars: two standard errors)"
            )
            _gains(panels[2], part)
        drawn.suptitle("Keeping the hardest, classes as they come", x=0.02, ha="left")


def _gains(axes: Any, table: FigureTable) -> None:
    """A row for every metric, a dot for every fraction."""
    axes.axvline(0, color=RANDOM_COLOR, linewidth=1.5)
    fractions = table.where(kind="floor").values("keep_fraction")
    for number, fraction in enumerate(fractions):
        dots = table.where(kind="floor", keep_fraction=fraction)  # those on the line: the floor changes nothing
        height = np.arange(len(dots)) + 0.1 * (number - (len(fractions) - 1) / 2)
        style: dict[str, Any] = {"fmt": "o", "markersize": 4.5, "elinewidth": 1, "color": fraction_color(fraction)}
        error = 200 * dots["gain_stderr"]
        axes.errorbar(100 * dots["gain"], height, xerr=error, label=f"keep_fraction {fraction:g}", **style)
    names = table.where(kind="floor").values("metric")
    axes.set_yticks(range(len(names)), [METRIC_TITLES[name] for name in names])
    axes.set(ylim=(len(names) - 0.5, -0.5), xscale="symlog")
    axes.xaxis.set_major_formatter(lambda value, _: f"{value:+g}" if value else "0")
    axes.set_xlabel(f"accuracy with the floor of {FLOOR:g} − without, in points")
    axes.set_title("what the floor adds", loc="left")
    axes.legend(loc="upper right", fontsize=8)
