"""Fig. 1D: which end to keep on real data, by how much of it there is.

Claims: keeping the hardest examples does worse than random subsets when the initial set is small and better when it is
large; keeping the easiest does not win when it is large.

    paredown reproduce fig1d

Expected: 7 minutes of two cores with MNIST, one with the digits (`--size paper`: 600 ResNet-18s on CIFAR-10 and 240
probes, weeks of a GPU). At keep_fraction 0.25 keep-hard is several points worse than random subsets from 1,000 examples
and more than a point better from 60,000. With CIFAR-10, about 9 minutes more for small convnets on its pixels, which
err on about a third: there the gain that could be seen is 1 to 2 points.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paredown.laws import above, better_than
from paredown.plots import RANDOM_COLOR, figure, fraction_color, plain_axis
from paredown.reproduce.base import Claim, FigureTable, means, pick
from paredown.reproduce.data_folders import SMALL_IMAGES, by_size
from paredown.reproduce.drawing import percent_bars, points_axis
from paredown.reproduce.from_scratch import ARM, PIXELS, Arm, pixel_arm, plan_arms
from paredown.reproduce.judging import judge_points, seeds_of
from paredown.reproduce.scaling import scaling_sweep
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.sweeps.summary import compare_with_random

NEEDS = {"main": by_size(SMALL_IMAGES, "cifar10"), ARM: PIXELS}
_LOSS = 0.05  # of test error, that "does worse" is about
_GAIN = 0.005  # the same of "better from a large one", where errors are small
_RELATIVE_GAIN = 0.05  # of the error of random subsets, where that is more
_COLUMNS = ("initial_size", "keep_fraction", "strategy", "kept", "seeds", "test_error", "stderr", "random_error")
_COLUMNS += ("random_stderr", "difference", "difference_stderr", "z")


def _arms(setup: Setup) -> dict[str, Arm]:
    data, ends = setup.dataset(), ["hard", "easy"]
    main = Arm(scaling_sweep(setup, strategy=ends), data, data.title)
    return {"ends": main, **pixel_arm(setup, strategy=ends)}


def plan(setup: Setup) -> FigurePlan:
    """Both ends of EL2N, compared with random subsets."""
    return plan_arms(_arms(setup))


def measure(setup: Setup) -> FigureTable:
    """The difference of each end to chance, seed by seed."""
    table = FigureTable()
    for arm in _arms(setup).values():
        for row in compare_with_random(setup.sweep(arm.config).table):
            table.add("difference", data=arm.title, **pick(row, *_COLUMNS), unpruned_error=row.unpruned_error)
            way = pick(row, "initial_size", "keep_fraction", "strategy")
            table.add_seeds("seed", data=arm.title, **way, columns={"difference": row.seed_differences})
    return table


def judge(table: FigureTable) -> list[Claim]:
    """Three claims for every data set."""
    return [claim for data in table.values("data") for claim in _judge_data(table.where(data=data), data)]


def _judge_data(table: FigureTable, data: str) -> list[Claim]:
    """The signs at the smallest and the largest initial set, seed by seed."""
    seeds = table.where(kind="seed")
    smallest, largest = min(seeds["initial_size"]), max(seeds["initial_size"])
    fractions = seeds.values("keep_fraction")
    hardest = table.where(kind="difference", initial_size=largest, strategy="hard")
    random = hardest["random_error"]
    gain = max(_GAIN, _RELATIVE_GAIN * float(random.mean())) if len(hardest) else _GAIN

    def at(strategy: str, size: float) -> dict[str, Any]:
        where = {"strategy": strategy, "initial_size": size}
        return {f"{f:g}": seeds_of(seeds, "difference", keep_fraction=f, **where) for f in fractions}

    one: dict[str, Any] = {"points": len(fractions), "all_must_hold": False}
    every: dict[str, Any] = {"points": len(fractions)}
    return [
        judge_points(
            f"{data}: from a small initial set ({smallest:,.0f}), keeping the hardest does worse than random subsets.",
            {f: above(values, 0.0, **one) for f, values in at("hard", smallest).items()},
            rule="worse than",
            effect=_LOSS,
            least=1,
            about="test error of the hardest minus that of random subsets, by keep_fraction",
        ),
        judge_points(
            f"{data}: from a large initial set ({largest:,.0f}), keeping the hardest does better than random subsets.",
            {f: better_than(values, **one) for f, values in at("hard", largest).items()},
            rule="better than",
            effect=gain,
            least=1,
            about="test error of the hardest minus that of random subsets, by keep_fraction",
            note=_without_pruning(hardest),
        ),
        judge_points(
            f"{data}: from a large initial set ({largest:,.0f}), keeping the easiest does worse than random subsets.",
            {f: above(values, 0.0, **every) for f, values in at("easy", largest).items()},
            rule="worse than",
            effect=_LOSS,
            about="test error of the easiest minus that of random subsets, by keep_fraction",
        ),
    ]


def _without_pruning(hardest: FigureTable) -> str:
    """What leaving out examples at random costs, which says whether students were trained for long enough."""
    if not len(hardest) or "unpruned_error" not in hardest.rows[0]:  # as in tables of earlier versions
        return ""
    random = [f"{row['random_error']:.2%} (keep_fraction {row['keep_fraction']:g})" for row in hardest.rows]
    return f"Everything has an error of {hardest.rows[0]['unpruned_error']:.2%}, random subsets {', '.join(random)}."


def draw(table: FigureTable, path: Path) -> None:
    """Differences to random subsets over the initial size, a panel for each end, and one end less the other."""
    titles = table.values("data")
    with figure(path, size=(13.8, 4.2 * len(titles)), nrows=len(titles), ncols=3, sharey="row", squeeze=False) as (
        _,
        rows,
    ):
        for title, panels in zip(titles, rows, strict=True):
            _draw_data(panels, table.where(data=title), title)


def _draw_data(panels: Any, table: FigureTable, title: str) -> None:
    seeds, table = table.where(kind="seed"), table.where(kind="difference")
    for axes, strategy in zip(panels, ("hard", "easy"), strict=False):
        rows = table.where(strategy=strategy)
        for fraction in rows.values("keep_fraction"):
            curve, style = rows.where(keep_fraction=fraction), {"color": fraction_color(fraction)}
            percent_bars(axes, curve, "initial_size", "difference", label=f"keep_fraction {fraction:g}", **style)
        axes.set_title({"hard": "keep the hardest", "easy": "keep the easiest"}[strategy], loc="left")
    for fraction in seeds.values("keep_fraction"):
        apart = FigureTable()
        for size in sorted(seeds.values("initial_size")):
            where = {"initial_size": size, "keep_fraction": fraction}
            ends = [seeds_of(seeds, "difference", strategy=strategy, **where) for strategy in ("hard", "easy")]
            apart.add("apart", initial_size=size, **means(difference=ends[0] - ends[1]))
        percent_bars(panels[2], apart, "initial_size", "difference", color=fraction_color(fraction))
    panels[2].set_title("hardest − easiest: below zero keep the hardest", loc="left")
    for axes in panels:
        axes.axhline(0, color=RANDOM_COLOR, linewidth=1.5)
        axes.set(xscale="log", xlabel="examples before pruning")
        points_axis(axes, [-20, -10, -5, -2, -1, 0, 1, 2, 5, 10, 20, 50])
        plain_axis(axes.xaxis, sorted(np.unique(table["initial_size"])))
    panels[0].set_ylabel(f"{title}\ntest error, pruned − random, in points\n(bars: two standard errors)")
    panels[0].legend()
    panels[0].text(0.02, 0.02, "pruning helps", transform=panels[0].transAxes, color=RANDOM_COLOR)
