"""Appendix figure on extreme images: the easiest and hardest of several classes by every metric.

Claims: by every metric easy examples of a class resemble each other and hard ones do not.

    paredown reproduce fig_extremes

Expected: five minutes of a core for the scores, which figures on metrics share (`--size paper`: those of Fig. 5, above
all 2,000 trainings of a ResNet-50 on 70 % of ImageNet). On CIFAR-10 it holds clearly for prototypes of both kinds,
EL2N, active learning, DDD and memorization; not for forgetting, where many images tie at zero, nor for influence.
"""

from __future__ import annotations

from pathlib import Path

from paredown.metrics.reliability import NOISY
from paredown.plots import figure
from paredown.reproduce import extreme_images as extremes
from paredown.reproduce import metric_comparison as benchmark
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.extreme_images import SHOWN_TITLES, class_name
from paredown.reproduce.figures.fig6bc import judge_likeness
from paredown.reproduce.setup import FigurePlan, Setup

NEEDS = extremes.NEEDS
_SHOWN = 8
_DRAWN = 3  # classes
PAPER = (100, 200, 300, 500)  # black swan and the others that the paper shows


def plan(setup: Setup) -> FigurePlan:
    """Scores by every metric."""
    return extremes.plan_scores(setup, list(SHOWN_TITLES))


def measure(setup: Setup) -> FigureTable:
    """The images of the classes that are drawn, and for every class how alike those of each end are."""
    data = extremes.images_of(setup)
    drawn = list(PAPER) if setup.scale == "paper" else list(range(2, 2 + _DRAWN))
    table = FigureTable()
    classes = drawn if setup.scale == "paper" else [*drawn, *(c for c in range(data.classes) if c not in drawn)]
    found = extremes.add_each(table, setup, list(SHOWN_TITLES), classes, shown=_SHOWN)
    benchmark.add_reliability(table, found.scores)
    shown = {found.classes[code] for code in drawn}
    return FigureTable(row for row in table.rows if row["kind"] != "image" or row["category"] in shown)


def judge(table: FigureTable) -> list[Claim]:
    """Every metric that is not noise, over classes."""
    noise = benchmark.noise_metrics(table)
    metrics = [name for name in table.where(kind="alike").values("metric") if name not in noise]
    left_out = ", ".join(SHOWN_TITLES[name] for name in noise)
    note = f"Left out as noise (reliability below {NOISY}): {left_out}." if noise else ""
    claim = "By every metric the easiest images of a class resemble each other more than the hardest."
    return [judge_likeness(table, metrics, claim, note=note)]


def draw(table: FigureTable, path: Path) -> None:
    """A strip for each metric and class: the easiest above, the hardest below."""
    images = table.where(kind="image")
    metrics, classes = images.values("metric"), images.values("category")
    size = (3.1 * len(classes) + 1.2, 0.86 * len(metrics) + 0.6)
    with figure(path, size=size, nrows=len(metrics), ncols=len(classes), squeeze=False) as (drawn, panels):
        for line, metric in zip(panels, metrics, strict=True):
            for axes, category in zip(line, classes, strict=True):
                extremes.show_images(axes, images.where(metric=metric, category=category))
            line[0].set_ylabel(SHOWN_TITLES[metric].replace(" ", "\n"), rotation=0, ha="right", va="center", fontsize=8)
        for axes, category in zip(panels[0], classes, strict=True):
            axes.set_title(class_name(category), fontsize=10)
        title = f"{images.rows[0]['data']}: {_SHOWN} easiest (top row) and hardest (bottom row) by each metric"
        drawn.suptitle(title, fontsize=10)
