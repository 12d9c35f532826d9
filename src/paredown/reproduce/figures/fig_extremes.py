"""Appendix figure on extreme images: the easiest and hardest of several classes by every metric.

Claims: by every metric easy examples of a class resemble each other and hard ones do not.

    paredown reproduce fig_extremes

Expected: five minutes of a core for the scores, which figures on metrics share (`--size paper`: those of Fig. 5, above
all 2,000 trainings of a ResNet-50 on 70 % of ImageNet). On CIFAR-10 it holds clearly for prototypes of both kinds,
EL2N, active learning, DDD and memorization; not for forgetting, where many images tie at zero, nor for influence.
"""

from __future__ import annotations

from pathlib import Path

from paredown.plots import figure
from paredown.reproduce import extreme_images as extremes
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.extreme_images import SHOWN_TITLES, class_name
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.standard_errors import standard_error

NEEDS = extremes.NEEDS
_SHOWN = 8
_CERTAIN = 2.0  # standard errors over classes
_DRAWN = 3  # classes
PAPER = (100, 200, 300, 500)  # black swan and the others that the paper shows


def plan(setup: Setup) -> FigurePlan:
    """Scores by every metric."""
    return extremes.plan_scores(setup, list(SHOWN_TITLES))


def measure(setup: Setup) -> FigureTable:
    """The images of the classes that are drawn, and for every class how alike those of each end are."""
    found = extremes.find_images(setup, list(SHOWN_TITLES))
    drawn = list(PAPER) if setup.scale == "paper" else list(range(2, 2 + _DRAWN))
    table = FigureTable()
    classes = drawn if setup.scale == "paper" else [*drawn, *(c for c in range(found.data.classes) if c not in drawn)]
    extremes.add_extremes(table, found, classes, shown=_SHOWN)
    shown = {found.classes[code] for code in drawn}
    return FigureTable(row for row in table.rows if row["kind"] == "alike" or row["category"] in shown)


def judge(table: FigureTable) -> list[Claim]:
    """Every metric by itself, over classes."""
    alike = table.where(kind="alike")
    told, held = [], []
    for metric in alike.values("metric"):
        rows = alike.where(metric=metric)
        apart = rows["easy"] - rows["hard"]
        error = standard_error(apart)
        held.append(apart.mean() > _CERTAIN * error)
        told.append(f"{SHOWN_TITLES[metric]} {apart.mean():+.3f} ± {error:.3f}")
    lacking = [metric for metric, enough in zip(alike.values("metric"), held, strict=True) if not enough]
    count = len(alike.values("category"))
    return [
        Claim.judged(
            "By every metric the easiest images of a class resemble each other more than the hardest.",
            all(held),
            f"{alike.rows[0]['data']}, {_SHOWN} images at each end of {count} classes, mean cosine between their "
            f"embeddings, easy minus hard: {', '.join(told)}"
            + (f"; not clearly above 0: {', '.join(SHOWN_TITLES[metric] for metric in lacking)}." if lacking else "."),
            lacking=lacking,
        )
    ]


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
