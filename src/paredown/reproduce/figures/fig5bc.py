"""Fig. 5B and C, and Table 1: test accuracy after keeping the hardest examples by every metric.

Claims: only a few metrics match the full set at keep_fraction 0.8; most metrics beat random pruning; self-supervised
prototypes match the best supervised metric, memorization, until 70 to 80 % are kept.

    paredown reproduce fig5bc

Expected: 6 minutes of two cores with 10,000 embeddings of CIFAR-10, 3 of them for the scores (`--size paper`: 225
trainings of a ResNet-50 on ImageNet and those behind the scores). At keep_fraction 0.8 seven of eight metrics that are
not noise lose less than half a point to the full set, so not only a few; over 0.9 to 0.6 all eight beat random subsets,
by up to 0.8 points. Prototypes equal memorization down to 0.8, and keeping 80 % costs nothing by either of them. At
0.2 keeping the hardest is 8 to 29 points worse than random subsets by every metric that is not noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paredown.laws import better_than, no_worse_than
from paredown.plots import RANDOM_COLOR, figure, panel_letter
from paredown.reproduce import metric_comparison as benchmark
from paredown.reproduce.base import Claim, FigureTable, means
from paredown.reproduce.data_folders import SMALL_TAUGHT, Dataset
from paredown.reproduce.drawing import break_axis, percent_bars
from paredown.reproduce.judging import judge_points, mean_over, seeds_of
from paredown.reproduce.metric_comparison import FLOOR, METRIC_TITLES, PAPER_FRACTIONS
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.reproduce.theory_checks import floats

NEEDS = {**benchmark.NEEDS, "teacher": SMALL_TAUGHT}
_AT = 0.8  # the fraction at which the paper compares with the full set
_UNTIL = 0.8  # "until only 70-80 % of the data is kept"
_MARGIN = 0.005  # of accuracy, up to which two trainings match; about three standard deviations of one
_GAIN = 0.003  # of accuracy over the fractions of Table 1, that "beats random" is about
_FREE = ("memorization", "supervised_prototypes", "prototypes")  # the best of the paper's Table 1
_FULL_COLOR = "#222222"
PANELS = {"supervised metrics": benchmark.SUPERVISED, "memorization and prototypes": benchmark.PROTOTYPES}


def plan(setup: Setup) -> FigurePlan:
    """The same on both kinds of labels."""
    return benchmark.plan_students(setup, datasets=[setup.dataset(role) for role in setup.needs])


def measure(setup: Setup) -> FigureTable:
    """Accuracies with differences to random and to the full set, seed by seed; top-5 with 1,000 classes."""
    return benchmark.measure_each(setup, _measure_one)


def _measure_one(setup: Setup, data: Dataset) -> FigureTable:
    swept, table = benchmark.train_students(setup, plan(setup), data)
    benchmark.add_accuracies(table, swept, top=benchmark.top(setup), balance=FLOOR)
    measured = benchmark.accuracies(swept, benchmark.top(setup))
    for fraction in table.where(kind="random")["keep_fraction"]:
        ahead = measured["prototypes", fraction, FLOOR] - measured["memorization", fraction, FLOOR]
        table.add("prototypes - memorization", keep_fraction=fraction, **means(difference=ahead))
        ahead = {"difference": ahead}
        table.add_seeds("prototypes - memorization by seed", keep_fraction=fraction, columns=ahead)
    return table


def judge(table: FigureTable) -> list[Claim]:
    """All claims for every kind of labels."""
    return [claim for data in table.values("data") for claim in judge_arm(table.where(data=data))]


def judge_arm(table: FigureTable) -> list[Claim]:
    """Every metric against everything and against random subsets, seed by seed; what is noise is left out."""
    names, seeds = benchmark.steady_metrics(table), table.where(kind="seed")
    against = table.where(kind="prototypes - memorization by seed")
    fractions = seeds.values("keep_fraction")
    about, data = f"{benchmark.name_data(table)}, accuracy", table.where(kind="data").rows[0]["data"]
    each: dict[str, Any] = {"points": len(names), "all_must_hold": None}
    lost = {name: -seeds_of(seeds, "full_difference", metric=name, keep_fraction=_AT) for name in names}
    listed = [fraction for fraction in PAPER_FRACTIONS if fraction in fractions]
    gained = {
        name: mean_over([seeds_of(seeds, "difference", metric=name, keep_fraction=f) for f in listed]) for name in names
    }
    until = [fraction for fraction in fractions if fraction >= _UNTIL]
    behind = {f"{f:g}": -seeds_of(against, "difference", keep_fraction=f) for f in until}
    match = {METRIC_TITLES[name]: no_worse_than(values, _MARGIN, **each) for name, values in lost.items()}
    note = benchmark.left_out(table)
    free = [name for name in _FREE if name in lost]
    return [
        judge_points(
            f"{data}: only a few metrics, at most half, match training on everything when {_AT:.0%} are kept.",
            match,
            rule="no worse than",
            effect=_MARGIN,
            least=1,
            most=len(names) // 2,
            about=f"{about} lost to all examples",
            note=note,
        ),
        judge_points(
            f"{data}: most metrics beat random pruning.",
            {METRIC_TITLES[name]: better_than(-values, **each) for name, values in gained.items()},
            rule="better than",
            effect=_GAIN,
            least=len(names) // 2 + 1,
            about=f"{about} of random subsets minus that of a metric, over keep_fraction {floats(listed)}",
            note=note,
        ),
        judge_points(
            f"{data}: self-supervised prototypes match or exceed memorization, until 70 to 80 % are kept.",
            {f: no_worse_than(values, _MARGIN, points=len(until)) for f, values in behind.items()},
            rule="no worse than",
            effect=_MARGIN,
            about=f"{about} of memorization minus that of prototypes, by keep_fraction",
        ),
        judge_points(
            f"{data}: keeping {_AT:.0%} by {' or '.join(METRIC_TITLES[name] for name in free)} costs nothing.",
            {METRIC_TITLES[name]: no_worse_than(lost[name], _MARGIN, points=len(free)) for name in free},
            rule="no worse than",
            effect=_MARGIN,
            about=f"{about} lost to all examples",
            note=note,
        ),
    ]


def draw(table: FigureTable, path: Path) -> None:
    """Accuracy over the fraction kept: B the metrics there were before, C prototypes compared with memorization.

    A row of panels for each kind of labels.
    """
    titles = table.values("data")
    layout: dict[str, Any] = {"nrows": len(titles), "ncols": 2, "sharey": "row", "squeeze": False}
    with figure(path, size=(11.4, 6.0 * len(titles)), **layout) as (drawn, rows):
        for panels, data in zip(rows, titles, strict=True):
            part = table.where(data=data)
            for axes, letter, (title, names) in zip(panels, "BC", PANELS.items(), strict=True):
                accuracy_panel(axes, part, names)
                panel_letter(axes, letter, title)
            top = part.where(kind="full")["top"][0]
            panels[0].set_ylabel(f"{data}\ntop-{top:.0f} test accuracy, % (bars: two standard errors)")
        what = benchmark.name_data(table.where(data=titles[0]))
        drawn.suptitle(f"Keeping the hardest of {what}; every class keeps at least half its share", x=0.02, ha="left")


def draw_full_set(axes: Any, full: Mapping[str, Any]) -> float:
    """The accuracy of the full set and two standard deviations around it, in per cent; returns where they end."""
    level, margin = 100 * full["accuracy"], 200 * full["deviation"]
    axes.axhline(level, color=_FULL_COLOR, linestyle="--", linewidth=1.2, label="all examples (± 2 std. dev.)")
    axes.axhspan(level - margin, level + margin, color=_FULL_COLOR, alpha=0.08, linewidth=0)
    return level + margin


def accuracy_panel(axes: Any, table: FigureTable, names: Sequence[str]) -> None:
    """Curves of some metrics over random's band and the line of the full set."""
    chance = table.where(kind="random")
    end = draw_full_set(axes, table.where(kind="full").rows[0])
    middle, error = 100 * chance["accuracy"], 200 * chance["stderr"]
    kept = chance["keep_fraction"]
    axes.fill_between(kept, middle - error, middle + error, color=RANDOM_COLOR, alpha=0.3, linewidth=0)
    axes.plot(kept, middle, color=RANDOM_COLOR, linewidth=2.5, label="random")
    shift = 0.006 * (np.arange(len(names)) - (len(names) - 1) / 2)
    for name, aside in zip(names, shift, strict=True):
        curve = table.where(kind="metric", metric=name)
        style = {"markersize": 4.5, "linewidth": 1.3, "elinewidth": 0.9, **benchmark.metric_style(name)}
        x = curve["keep_fraction"] + (aside if len(curve) > 1 else 0)
        percent_bars(axes, curve, x, "accuracy", label=METRIC_TITLES[name], **style)
    axes.set_xticks(kept, [f"{value:g}" for value in kept])
    axes.set(xlabel="keep_fraction", xlim=(max(kept) + 0.04, min(kept) - 0.04))
    every = 100 * table.where(kind="metric")["accuracy"]
    break_axis(axes, min(every), min(middle - error) - 2.5, max(*every, end) + 0.3)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.12), ncols=2, fontsize=7.5)
