"""Fig. 6B and C: the easiest and hardest images of one class, by prototypes and by memorization.

Claims: easy examples are images that resemble each other, hard ones are outliers that do not.

    paredown reproduce fig6bc

Expected: two minutes of a core for memorization, which figures on metrics share (`--size paper`: 2,000 trainings of a
ResNet-50 on 70 % of ImageNet). Among the birds of CIFAR-10 the mean cosine of the images shown is 0.82 at the easy and
0.16 at the hard end of prototypes, but 0.17 and 0.15 for memorization: many images tie as its easiest.
"""

from __future__ import annotations

from pathlib import Path

from paredown.plots import figure, panel_letter
from paredown.reproduce import extreme_images as extremes
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.extreme_images import SHOWN_TITLES, class_name
from paredown.reproduce.setup import FigurePlan, Setup

NEEDS = extremes.NEEDS
_METRICS = ("prototypes", "memorization")
_SHOWN = 4
CATEGORY = {"imagenet": 100}  # black swan, the paper's class
_OTHER = 2  # of ten classes, a bird of CIFAR-10


def plan(setup: Setup) -> FigurePlan:
    """Scores by both metrics."""
    return extremes.plan_scores(setup, _METRICS)


def measure(setup: Setup) -> FigureTable:
    """The images, and how alike those of each end are."""
    table = FigureTable()
    found = extremes.find_images(setup, _METRICS)
    extremes.add_extremes(table, found, [CATEGORY.get(found.data.name, _OTHER)], shown=_SHOWN)
    return table


def judge(table: FigureTable) -> list[Claim]:
    """By the mean cosine of the embeddings of the images shown."""
    rows = table.where(kind="alike").rows
    return [
        Claim.judged(
            "The easiest images of a class resemble each other more than the hardest.",
            all(row["easy"] > row["hard"] for row in rows),
            f"{rows[0]['data']}, class {class_name(rows[0]['category'])}, {_SHOWN} of {rows[0]['examples']:.0f} images "
            "at each end, mean cosine between their embeddings: "
            + "; ".join(f"{SHOWN_TITLES[row['metric']]} {row['easy']:.2f} easy, {row['hard']:.2f} hard" for row in rows)
            + ".",
        )
    ]


def draw(table: FigureTable, path: Path) -> None:
    """Easiest above, hardest below."""
    images = table.where(kind="image")
    with figure(path, size=(8.6, 2.6), ncols=len(_METRICS)) as (drawn, panels):
        for axes, metric, letter in zip(panels, _METRICS, "BC", strict=True):
            height = extremes.show_images(axes, images.where(metric=metric))
            axes.set_yticks([0.25 * height, 0.75 * height], ["easiest", "hardest"])
            axes.tick_params(length=0)
            panel_letter(axes, letter, SHOWN_TITLES[metric])
        row = images.rows[0]
        drawn.suptitle(f"{row['data']}, class {class_name(row['category'])}: the most extreme to the left", fontsize=10)
