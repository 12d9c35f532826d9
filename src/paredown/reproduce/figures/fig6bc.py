"""Fig. 6B and C: the easiest and hardest images of one class, by prototypes and by memorization.

Claims: easy examples are images that resemble each other, hard ones are outliers that do not.

    paredown reproduce fig6bc

Expected: two minutes of a core for memorization, which figures on metrics share (`--size paper`: 2,000 trainings of a
ResNet-50 on 70 % of ImageNet). Among the birds of CIFAR-10 the mean cosine of the images shown is 0.82 at the easy and
0.16 at the hard end of prototypes, but 0.17 and 0.15 for memorization: many images tie as its easiest.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from paredown.laws import better_than
from paredown.plots import figure, panel_letter
from paredown.reproduce import extreme_images as extremes
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.extreme_images import SHOWN_TITLES, class_name
from paredown.reproduce.judging import PLAIN, judge_points
from paredown.reproduce.setup import FigurePlan, Setup

NEEDS = extremes.NEEDS
_METRICS = ("prototypes", "memorization")
_SHOWN = 4
CATEGORY = {"imagenet": 100}  # black swan, the paper's class
_JUDGED = (200, 300, 500)  # others that the paper shows in its appendix
_ALIKE = 0.1  # of mean cosine, that "resemble each other more" is about
_OTHER = 2  # of ten classes, a bird of CIFAR-10


def plan(setup: Setup) -> FigurePlan:
    """Scores by both metrics."""
    return extremes.plan_scores(setup, _METRICS)


def measure(setup: Setup) -> FigureTable:
    """The images, and how alike those of each end are."""
    table = FigureTable()
    data = extremes.images_of(setup)
    shown = CATEGORY.get(data.name, _OTHER)
    classes = range(data.classes) if setup.scale != "paper" else (shown, *_JUDGED)
    classes = [shown, *(code for code in classes if code != shown)]
    name = extremes.add_each(table, setup, _METRICS, classes, shown=_SHOWN).classes[shown]
    return FigureTable(row for row in table.rows if row["kind"] == "alike" or row["category"] == name)


def judge(table: FigureTable) -> list[Claim]:
    """By the mean cosine of the embeddings of the images at each end, over classes."""
    claim = "The easiest images of a class resemble each other more than the hardest."
    return [judge_likeness(table, _METRICS, claim, counted_in="fig_extremes")]


def judge_likeness(
    table: FigureTable, metrics: Sequence[str], claim: str, note: str = "", counted_in: str = ""
) -> Claim:
    """For every metric, the ends of every class."""
    alike = table.where(kind="alike")
    rows = {metric: alike.where(metric=metric) for metric in metrics}
    classes = len(alike.values("category"))
    return judge_points(
        claim,
        {SHOWN_TITLES[name]: better_than(part["hard"] - part["easy"], points=len(rows)) for name, part in rows.items()},
        rule="below",
        over="classes",
        effect=_ALIKE,
        unit=PLAIN,
        about=f"{alike.rows[0]['data']}, mean cosine between the embeddings of the hardest images minus that of the "
        f"easiest, over {classes} classes",
        note=note,
        counted_in=counted_in,
    )


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
