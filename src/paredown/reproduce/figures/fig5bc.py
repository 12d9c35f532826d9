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

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paredown.plots import RANDOM_COLOR, figure, panel_letter
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.metric_comparison import (
    FLOOR,
    METRIC_TITLES,
    PROTOTYPES,
    SUPERVISED,
    accuracies,
    add_accuracies,
    benchmark_sweep,
    mean,
    metric_style,
    score_benchmark,
    scorings,
    training_set,
)
from paredown.reproduce.metric_comparison import NEEDS as NEEDS
from paredown.reproduce.setup import FigurePlan, Setup

_AT = 0.8  # the fraction at which the paper compares with the full set
_UNTIL = 0.8  # "until only 70-80 % of the data is kept"
_FULL_COLOR = "#222222"


def plan(setup: Setup) -> FigurePlan:
    """Students on the hardest examples by each metric, every class keeping half its share."""
    sweep = benchmark_sweep(setup, balance=[FLOOR])
    return FigurePlan(sweeps={"floor": sweep}, scorings=scorings(setup), datasets=(training_set(setup),))


def measure(setup: Setup) -> FigureTable:
    """Accuracies with differences to random and to the full set, seed by seed; top-5 with 1,000 classes."""
    score_benchmark(setup)
    swept = setup.sweep(plan(setup).sweeps["floor"]).table
    table, top = FigureTable(), setup.choose(tiny=1, cpu=1, paper=5)
    table.add("data", data=setup.dataset().title, examples=max(swept["initial_size"].to_pylist()))
    add_accuracies(table, swept, top=top, balance=FLOOR)
    measured = accuracies(swept, top)
    for fraction in table.where(kind="random")["keep_fraction"]:
        ahead = mean(measured["prototypes", fraction, FLOOR] - measured["memorization", fraction, FLOOR])
        table.add(
            "prototypes - memorization", keep_fraction=fraction, difference=ahead.value, difference_stderr=ahead.stderr
        )
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
            f"All {_data(table)}: top-{full['top']:.0f} accuracy {100 * full['accuracy']:.2f} %, two standard "
            f"deviations of a training are {100 * margin:.2f} points. {len(matching)} of {len(at)} metrics are within "
            f"them at {_AT:g}: {_list(matching)}. Differences to all examples, in points: "
            + "; ".join(f"{METRIC_TITLES[name]} {_told(row, 'full_difference')}" for name, row in at.items())
            + ".",
        ),
        Claim.judged(
            "Most metrics beat random pruning.",
            2 * len(better) > len(over),
            f"Over the fractions of Table 1 (0.9 to 0.6), by more than two standard errors: {len(better)} of "
            f"{len(over)} better ({_list(better)}), {len(worse)} worse ({_list(worse)}). In points of accuracy: "
            + "; ".join(f"{METRIC_TITLES[row['metric']]} {_told(row, 'difference')}" for row in over)
            + ".",
        ),
        Claim.judged(
            "Self-supervised prototypes match or exceed memorization, until 70 to 80 % are kept.",
            all(row["difference"] >= -margin for row in compared),
            "Prototypes less memorization, in points of accuracy: "
            + "; ".join(f"{_told(row, 'difference')} at {row['keep_fraction']:g}" for row in against)
            + f" (two standard deviations of a training: {100 * margin:.2f}).",
        ),
    ]


def _data(table: FigureTable) -> str:
    row = table.where(kind="data").rows[0]
    return f"{row['examples']:,.0f} examples ({row['data']})"


def _told(row: dict[str, Any], name: str) -> str:
    return f"{100 * row[name]:+.2f} ± {100 * row[f'{name}_stderr']:.2f}"


def _list(names: Sequence[str]) -> str:
    return ", ".join(METRIC_TITLES[name] for name in names) or "none"


def draw(table: FigureTable, path: Path) -> None:
    """Accuracy over the fraction kept: B the metrics there were before, C prototypes compared with memorization."""
    with figure(path, size=(11.4, 5.4), ncols=2, sharey=True) as (drawn, panels):
        for axes, names, letter, title in zip(
            panels,
            (SUPERVISED, PROTOTYPES),
            "BC",
            ("supervised metrics", "memorization and prototypes"),
            strict=True,
        ):
            accuracy_panel(axes, table, names)
            panel_letter(axes, letter, title)
        full = table.where(kind="full").rows[0]
        panels[0].set_ylabel(f"top-{full['top']:.0f} test accuracy, % (bars: two standard errors)")
        drawn.suptitle(
            f"Keeping the hardest of {_data(table)}; every class keeps at least half its share", x=0.02, ha="left"
        )


def accuracy_panel(axes: Any, table: FigureTable, names: Sequence[str]) -> None:
    """Curves of some metrics over random's band and the line of the full set; what is far below is told in words."""
    full = table.where(kind="full").rows[0]
    chance = table.where(kind="random")
    level, margin = 100 * full["accuracy"], 200 * full["deviation"]
    axes.axhline(level, color=_FULL_COLOR, linestyle="--", linewidth=1.2, label="all examples (± 2 std. dev.)")
    axes.axhspan(level - margin, level + margin, color=_FULL_COLOR, alpha=0.08, linewidth=0)
    middle, error = 100 * chance["accuracy"], 200 * chance["stderr"]
    axes.fill_between(
        chance["keep_fraction"], middle - error, middle + error, color=RANDOM_COLOR, alpha=0.3, linewidth=0
    )
    axes.plot(chance["keep_fraction"], middle, color=RANDOM_COLOR, linewidth=2.5, label="random")
    shift = 0.006 * (np.arange(len(names)) - (len(names) - 1) / 2)
    for name, aside in zip(names, shift, strict=True):
        curve = table.where(kind="metric", metric=name)
        style = {"markersize": 4.5, "linewidth": 1.3, "capsize": 2, "elinewidth": 0.9, **metric_style(name)}
        x = curve["keep_fraction"] + (aside if len(curve) > 1 else 0)
        axes.errorbar(x, 100 * curve["accuracy"], yerr=200 * curve["stderr"], label=METRIC_TITLES[name], **style)
    kept = chance["keep_fraction"]
    axes.set_xticks(kept, [f"{value:g}" for value in kept])
    axes.set(xlabel="keep_fraction", xlim=(max(kept) + 0.04, min(kept) - 0.04))
    every = 100 * table.where(kind="metric")["accuracy"]
    bottom, top = min(middle - error) - 2.5, max(*every, level + margin) + 0.3
    axes.set_ylim(bottom, top)
    axes.legend(loc="lower left", fontsize=8)
    below = [row for name in names for row in table.where(kind="metric", metric=name).rows]
    below = [row for row in below if 100 * row["accuracy"] < bottom]
    lines = [f"{100 * row['accuracy']:.1f} {METRIC_TITLES[row['metric']]} at {row['keep_fraction']:g}" for row in below]
    if lines:
        text = "\n".join(["below the picture:", *lines])
        box = {"facecolor": "white", "edgecolor": "none", "alpha": 0.85, "pad": 1.5}
        place: dict[str, Any] = {"transform": axes.transAxes, "ha": "right", "va": "bottom", "bbox": box}
        axes.text(0.99, 0.02, text, fontsize=7, color="#444444", **place)
