"""Fig. 5B and C, and Table 1: test accuracy after keeping the hardest examples by every metric.

Claims: only a few metrics match the full set at keep_fraction 0.8; most metrics beat random pruning; self-supervised
prototypes match the best supervised metric, memorization, until 70 to 80 % are kept.

    paredown reproduce fig5bc

Expected: 6 minutes of two cores with 10,000 embeddings of CIFAR-10, 3 of them for the scores (`--size paper`: 225
trainings of a ResNet-50 on ImageNet and those behind the scores). At keep_fraction 0.8 nine of ten metrics are within
two standard deviations of the full set (83.55 ± 0.34 %), so not only a few; over 0.9 to 0.6 nine beat random, by 0.2
(influence max) to 0.8 points (DDD). Prototypes equal memorization down to 0.7 and are half a point behind at 0.6. At
0.2 keeping the hardest is 8 to 29 points worse than random subsets by every metric that is not noise.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paredown.plots import RANDOM_COLOR, figure, panel_letter
from paredown.reproduce import metric_comparison as benchmark
from paredown.reproduce.base import Claim, FigureTable, in_points, means
from paredown.reproduce.drawing import percent_bars
from paredown.reproduce.metric_comparison import FLOOR, METRIC_TITLES
from paredown.reproduce.setup import Setup

NEEDS, plan = benchmark.NEEDS, benchmark.plan_students
_AT = 0.8  # the fraction at which the paper compares with the full set
_UNTIL = 0.8  # "until only 70-80 % of the data is kept"
_FULL_COLOR = "#222222"
PANELS = {"supervised metrics": benchmark.SUPERVISED, "memorization and prototypes": benchmark.PROTOTYPES}


def measure(setup: Setup) -> FigureTable:
    """Accuracies with differences to random and to the full set, seed by seed; top-5 with 1,000 classes."""
    swept, table = benchmark.train_students(setup, plan(setup))
    benchmark.add_accuracies(table, swept, top=benchmark.top(setup), balance=FLOOR)
    measured = benchmark.accuracies(swept, benchmark.top(setup))
    for fraction in table.where(kind="random")["keep_fraction"]:
        ahead = measured["prototypes", fraction, FLOOR] - measured["memorization", fraction, FLOOR]
        table.add("prototypes - memorization", keep_fraction=fraction, **means(difference=ahead))
    return table


def judge(table: FigureTable) -> list[Claim]:
    """The paper's yardstick for "matches": two standard deviations of a training on the full set."""
    full = table.where(kind="full").rows[0]
    margin = 2 * full["deviation"]
    at = {row["metric"]: row for row in table.where(kind="metric", keep_fraction=_AT).rows}
    matching = [name for name, row in at.items() if row["accuracy"] >= full["accuracy"] - margin]
    over = table.where(kind="mean").rows
    better = [row["metric"] for row in over if row["difference"] > 2 * row["difference_stderr"]]
    worse = [row["metric"] for row in over if row["difference"] < -2 * row["difference_stderr"]]
    against = table.where(kind="prototypes - memorization").rows
    compared = [row for row in against if row["keep_fraction"] >= _UNTIL]
    return [
        Claim.judged(
            f"Only a few metrics match training on everything when {_AT:.0%} are kept.",
            0 < len(matching) <= len(at) / 2,
            f"All {benchmark.name_data(table)}: top-{full['top']:.0f} accuracy {100 * full['accuracy']:.2f} %, two "
            f"standard deviations of a training are {100 * margin:.2f} points. {len(matching)} of {len(at)} metrics "
            f"are within them at {_AT:g}: {benchmark.name_metrics(matching)}. Differences from all examples, in "
            "points: "
            + "; ".join(f"{METRIC_TITLES[name]} {in_points(row, 'full_difference')}" for name, row in at.items())
            + ".",
            matching=matching,
        ),
        Claim.judged(
            "Most metrics beat random pruning.",
            2 * len(better) > len(over),
            f"Over the fractions of Table 1 (0.9 to 0.6), by more than two standard errors: {len(better)} of "
            f"{len(over)} better ({benchmark.name_metrics(better)}), {len(worse)} worse "
            f"({benchmark.name_metrics(worse)}). In points of accuracy: "
            + "; ".join(f"{METRIC_TITLES[row['metric']]} {in_points(row, 'difference')}" for row in over)
            + ".",
        ),
        Claim.judged(
            "Self-supervised prototypes match or exceed memorization, until 70 to 80 % are kept.",
            all(row["difference"] >= -margin for row in compared),
            "Prototypes less memorization, in points of accuracy: "
            + "; ".join(f"{in_points(row, 'difference')} at {row['keep_fraction']:g}" for row in against)
            + f" (two standard deviations of a training: {100 * margin:.2f}).",
        ),
    ]


def draw(table: FigureTable, path: Path) -> None:
    """Accuracy over the fraction kept: B the metrics there were before, C prototypes compared with memorization."""
    with figure(path, size=(11.4, 5.4), ncols=2, sharey=True) as (drawn, panels):
        for axes, letter, (title, names) in zip(panels, "BC", PANELS.items(), strict=True):
            accuracy_panel(axes, table, names)
            panel_letter(axes, letter, title)
        top = table.where(kind="full")["top"][0]
        panels[0].set_ylabel(f"top-{top:.0f} test accuracy, % (bars: two standard errors)")
        title = f"Keeping the hardest of {benchmark.name_data(table)}; every class keeps at least half its share"
        drawn.suptitle(title, x=0.02, ha="left")


def draw_full_set(axes: Any, full: Mapping[str, Any]) -> float:
    """The accuracy of the full set and two standard deviations around it, in per cent; returns where they end."""
    level, margin = 100 * full["accuracy"], 200 * full["deviation"]
    axes.axhline(level, color=_FULL_COLOR, linestyle="--", linewidth=1.2, label="all examples (± 2 std. dev.)")
    axes.axhspan(level - margin, level + margin, color=_FULL_COLOR, alpha=0.08, linewidth=0)
    return level + margin


def accuracy_panel(axes: Any, table: FigureTable, names: Sequence[str]) -> None:
    """Curves of some metrics over random's band and the line of the full set; what is far below is told in words."""
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
    bottom, top = min(middle - error) - 2.5, max(*every, end) + 0.3
    axes.set_ylim(bottom, top)
    axes.legend(loc="lower left", fontsize=8)
    lines = [
        f"{100 * row['accuracy']:.1f} {METRIC_TITLES[name]} at {row['keep_fraction']:g}"
        for name in names
        for row in table.where(kind="metric", metric=name).rows
        if 100 * row["accuracy"] < bottom
    ]
    if lines:
        text = "\n".join(["below the picture:", *lines])
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
        place: dict[str, Any] = {"transform": axes.transAxes, "ha": "right", "va": "bottom", "bbox": box}
        axes.text(0.99, 0.02, text, fontsize=7, color="#444444", **place)
