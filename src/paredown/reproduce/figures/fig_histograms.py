"""Appendix figure on class-conditional scores: how the scores of each metric are spread in each class.

Claims: for many classes most images have very low scores, for others very high ones, which is why pruning by score
prunes some classes more than others.

    paredown reproduce fig_histograms

Expected: seconds after the scores of `fig5a`, 3 minutes of a core with embeddings of CIFAR-10 (`--size paper`: the
trainings behind the scores). 4 % (forgetting) to 14 % (supervised prototypes) of the variance of ranks lies between
classes, 0.09 % by chance; none for influence, which is noise from 120 models.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.stats import rankdata

from paredown.laws import above
from paredown.plots import figure
from paredown.reproduce import metric_comparison as benchmark
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.judging import PERCENT_OF, judge_points, seeds_of
from paredown.reproduce.metric_comparison import COMPARED_METRICS, METRIC_TITLES
from paredown.reproduce.setup import Setup
from paredown.scores import Labels

NEEDS, plan = benchmark.NEEDS, benchmark.plan_scores
_BINS = 24
_CUT = 3  # times as many as in a bin of even spread: higher bars, of many ties, are cut off
_SHOWN = 100  # classes at most: with more of them every tenth or so, as in the paper
_SHARES = (0.25, 0.5, 0.75)
_STRONG = 0.01  # of the variance of ranks, beyond chance: "strongly"
_SEEN = 0.02  # more than that, which should be seen


def measure(setup: Setup) -> FigureTable:
    """Histograms of the ranks of scores class by class, and the share of their variance that lies between classes.

    Scores of different metrics have different units, and some are mostly ties; their ranks, as a share of all
    examples, are 0 for the easiest and 1 for the hardest, and evenly spread in a class like any other.
    """
    scores = benchmark.score_benchmark(setup)
    table = FigureTable()
    labels = scores["random"].labels
    assert isinstance(labels, Labels)
    n, classes = len(labels.codes), len(labels.classes)
    # With classes that do not differ the share between them is expected to be (classes - 1) / (n - 1).
    table.add("data", data=setup.dataset().title, examples=n, classes=classes, by_chance=(classes - 1) / (n - 1))
    shown = range(0, classes, -(-classes // _SHOWN))
    for metric, scored in scores.items():
        ranks = (rankdata(scored.values) - 0.5) / n
        above = np.array([float((ranks[labels.codes == code] > 0.5).mean()) for code in range(classes)])
        known = scored.provenance.get("report", {})
        steady = {"reliability": float(known["reliability"])} if "reliability" in known else {}
        table.add(
            "metric",
            metric=metric,
            **steady,
            between_classes=variance_between(ranks, labels.codes),
            between_classes_raw=variance_between(scored.values, labels.codes),
            least_above_median=above.min(),
            most_above_median=above.max(),
        )
        for code in shown:
            own = ranks[labels.codes == code]
            low, middle, high = np.quantile(own, _SHARES)
            name = _name(setup, labels, code)
            table.add("class", metric=metric, name=name, lower=low, median=middle, upper=high)
            share, edges = np.histogram(own, bins=_BINS, range=(0, 1))
            table.add("histogram", metric=metric, name=name, rank=(edges[:-1] + edges[1:]) / 2, share=share / len(own))
    for part in benchmark.parts_of(setup):
        for metric, scored in part.scores.items():
            explained = variance_explained(rankdata(scored.values)[part.rows] / n, labels.codes[part.rows])
            table.add("part", metric=metric, seed=part.number, over=part.over, between_classes=explained)
    return table


def _name(setup: Setup, labels: Labels, code: int) -> str:
    """The class as the data set calls it; features only have codes."""
    own = str(labels.classes[code])
    return setup.dataset().class_name(int(own)) if own.isdigit() else own


def variance_between(values: NDArray[np.floating], codes: NDArray[Any]) -> float:
    """Eta squared: the variance of class means, weighted by their sizes, over the variance of all; 0 of a constant."""
    counts = np.bincount(codes)
    there = counts > 0
    means = np.bincount(codes, values)[there] / counts[there]
    total = ((values - values.mean()) ** 2).sum()
    return float((counts[there] * (means - values.mean()) ** 2).sum() / total) if total > 0 else 0.0


def variance_explained(values: NDArray[np.floating], codes: NDArray[Any]) -> float:
    """Omega squared: the same without what classes that do not differ explain by chance."""
    share, classes = variance_between(values, codes), len(np.unique(codes))
    within = (1 - share) / max(1, len(values) - classes)
    return (share - (classes - 1) * within) / (1 + within)


def judge(table: FigureTable) -> list[Claim]:
    """The share of variance between classes that is beyond chance, over scorings."""
    names, parts = benchmark.steady_metrics(table), table.where(kind="part")
    about = table.where(kind="data").rows[0]
    values = {name: seeds_of(parts, "between_classes", metric=name) for name in names}
    return [
        judge_points(
            "The scores of every metric differ strongly from class to class.",
            {METRIC_TITLES[name]: above(each, _STRONG, points=len(names)) for name, each in values.items()},
            rule="above",
            over=benchmark.parts_over(parts),
            effect=_SEEN,
            unit=PERCENT_OF,
            about=f"share of the variance of ranks between the {about['classes']:.0f} classes, beyond chance",
            note=benchmark.left_out(table),
        )
    ]


def draw(table: FigureTable, path: Path) -> None:
    """A panel for every metric, in it a row for every class, the class with the lowest median at the bottom."""
    with figure(path, size=(11.4, 8.4), nrows=3, ncols=4, sharex=True) as (drawn, grid):
        for axes, metric in zip(grid.flat, ("random", *COMPARED_METRICS), strict=False):
            _rows(axes, table, metric)
        key = grid.flat[-1]
        key.set_axis_off()
        about = table.where(kind="data").rows[0]
        lines = (
            "A row is the histogram of one class,",
            f"cut off at {_CUT} times an even spread;",
            "the dot is its median, the line its",
            "middle half. Classes are in the order",
            "of their medians.",
            "",
            "Per cent: share of the variance of",
            f"ranks between classes; {about['by_chance']:.2%} by chance.",
        )
        key.text(0, 0.95, "\n".join(lines), va="top", fontsize=9, transform=key.transAxes)
        drawn.supxlabel("rank of the score: 0 easiest, 1 hardest of all examples", fontsize=10)
        drawn.suptitle(f"Scores class by class, {benchmark.name_data(table)}", x=0.02, ha="left", fontsize=11)


def _rows(axes: Any, table: FigureTable, metric: str) -> None:
    color = benchmark.metric_style(metric)["color"]
    classes = sorted(table.where(kind="class", metric=metric).rows, key=lambda row: row["median"])
    all_histograms = table.where(kind="histogram", metric=metric)
    for row, found in enumerate(classes):
        ridge = all_histograms.where(name=found["name"])
        height = row + 0.92 * np.minimum(ridge["share"] * _BINS / _CUT, 1)
        axes.fill_between(ridge["rank"], row, height, step="mid", color=color, alpha=0.6, linewidth=0)
        axes.plot([found["lower"], found["upper"]], [row, row], color="#222222", linewidth=1)
        axes.plot(found["median"], row, "o", color="#222222", markersize=3)
    between = table.where(kind="metric", metric=metric)["between_classes"][0]
    axes.set_title(f"{METRIC_TITLES[metric]}: {between:.1%}", loc="left", fontsize=9.5)
    few = len(classes) <= 20
    axes.set_yticks(range(len(classes)) if few else (), [row["name"] for row in classes] if few else (), fontsize=7)
    axes.set(xlim=(0, 1), xticks=(0, 0.5, 1))
    axes.grid(visible=False)
