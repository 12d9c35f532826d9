"""Appendix figure on fairness: accuracy class by class, trained on 80 % against trained on everything.

Claims: the accuracy of every class stays about the same; the classes that are predicted worst lose slightly more.

    paredown reproduce fig_fairness

Expected: seconds after `fig5bc`, whose students it looks at (`--size paper`: the same). With embeddings of CIFAR-10 the
classes correlate by 0.995 and more and change by 0.2 to 0.5 points; the worst third of them lose more, 0.3 points, by
prototypes alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paredown.laws import below, better_than, correlated_above
from paredown.plots import COLORS, RANDOM_COLOR, figure, panel_letter
from paredown.reproduce import metric_comparison as benchmark
from paredown.reproduce.base import Claim, FigureTable, means
from paredown.reproduce.judging import CORRELATION, judge_points, seeds_of
from paredown.reproduce.metric_comparison import FLOOR, METRIC_TITLES, class_accuracies
from paredown.reproduce.setup import Setup

NEEDS, plan = benchmark.NEEDS, benchmark.plan_students  # the students of Fig. 5B and C
_SHOWN = ("el2n_20", "memorization", "prototypes")
_AT = 0.8
SIMILAR = 0.9  # least correlation over classes, and
CHANGE = 0.02  # most mean change of a class's accuracy, that count as "quite similar"
_LOSS = 0.005  # of accuracy more than other classes, that "slightly more" is about


def measure(setup: Setup) -> FigureTable:
    """Accuracies of every class with both training sets, and whether the worst third of the classes lost more.

    How well a class is predicted is the mean of both accuracies: sorted by one of them alone, the noise in it would
    make its worst classes look as if they gained (regression to the mean).
    """
    swept, table = benchmark.train_students(setup, plan(setup))
    full = class_accuracies(swept, "random", 1.0, 0.0)
    runs = {metric: class_accuracies(swept, metric, _AT, FLOOR) for metric in _SHOWN}
    runs["random"] = class_accuracies(swept, "random", _AT, 0.0)
    for metric, pruned in runs.items():
        change = pruned - full
        for code in range(full.shape[1]):
            own = means(pruned=pruned[:, code], full=full[:, code], change=change[:, code])
            table.add("class", metric=metric, name=setup.dataset().class_name(code), **own)
        order = np.argsort((pruned + full).mean(axis=0), kind="stable")
        third = max(1, len(order) // 3)
        worst, rest = change[:, order[:third]].mean(axis=1), change[:, order[third:]].mean(axis=1)
        by_seed = {
            "correlation": [float(np.corrcoef(a, b)[0, 1]) for a, b in zip(pruned, full, strict=True)],
            "size_of_change": np.abs(change).mean(axis=1),
            "worst_less_rest": worst - rest,
        }
        table.add_seeds("seed", metric=metric, columns=by_seed)
        x, y = pruned.mean(axis=0), full.mean(axis=0)
        slope, intercept = np.polyfit(x, y, 1)
        table.add(
            "metric",
            metric=metric,
            correlation=float(np.corrcoef(x, y)[0, 1]),
            **means(mean_change=change.mean(axis=1)),
            size_of_change=float(np.abs(change.mean(axis=0)).mean()),
            worst_classes=third,
            **means(worst_change=worst, worst_less_rest=worst - rest),
            slope=slope,
            intercept=intercept,
        )
    return table


def judge(table: FigureTable) -> list[Claim]:
    """Similarity over classes, and the difference between the worst third and the others, seed by seed."""
    seeds, noise = table.where(kind="seed"), benchmark.noise_metrics(table)
    names = [name for name in _SHOWN if name not in noise]

    def by_metric(column: str) -> dict[str, Any]:
        return {METRIC_TITLES[name]: seeds_of(seeds, column, metric=name) for name in names}

    points: dict[str, Any] = {"points": len(names)}
    similar = f"the accuracy after training on {_AT:.0%} is similar to that of the full set"
    return [
        judge_points(
            f"Class by class, {similar}: it correlates over classes.",
            {name: correlated_above(values, SIMILAR, **points) for name, values in by_metric("correlation").items()},
            rule="correlated above",
            effect=0.05,
            unit=CORRELATION,
            about="correlation over classes",
        ),
        judge_points(
            f"Class by class, {similar}: it changes by less than {100 * CHANGE:g} points on average.",
            {name: below(values, CHANGE, **points) for name, values in by_metric("size_of_change").items()},
            rule="below",
            effect=CHANGE / 2,
            about="mean absolute change of a class, noise of both trainings included",
        ),
        judge_points(
            "The classes that are predicted worst lose slightly more.",
            {name: better_than(values, **points) for name, values in by_metric("worst_less_rest").items()},
            rule="better than",
            effect=_LOSS,
            about="change of the worst third of the classes minus that of the others",
        ),
    ]


def draw(table: FigureTable, path: Path) -> None:
    """One point per class: pruned across, full up, the line of no change and the line through the points."""
    points = table.where(kind="class")
    shown = np.concatenate([points["pruned"], points["full"]])
    span = (max(0.0, shown.min() - 0.03), min(1.005, shown.max() + 0.03))
    with figure(path, size=(12.2, 4.6), ncols=3, sharey=True) as (drawn, panels):
        for axes, metric, letter in zip(panels, _SHOWN, "ABC", strict=True):
            _scatter(axes, points.where(metric=metric), table.where(kind="metric", metric=metric).rows[0], span)
            panel_letter(axes, letter, METRIC_TITLES[metric])
        panels[0].set_ylabel("accuracy of the class, trained on everything")
        panels[0].legend(loc="upper left", fontsize=8)
        data = table.where(kind="data").rows[0]
        about = f"{data['data']}, {data['examples']:,.0f} examples; bars: two standard errors over seeds"
        drawn.suptitle(f"Accuracy class by class, {_AT:.0%} kept ({about})", x=0.02, ha="left", fontsize=11)


def _scatter(axes: Any, points: FigureTable, line: dict[str, float], span: tuple[float, float]) -> None:
    axes.plot(span, span, color=COLORS[2], linewidth=1.2, label="no change")
    ends = np.array([points["pruned"].min(), points["pruned"].max()])
    axes.plot(ends, line["intercept"] + line["slope"] * ends, color=COLORS[0], linewidth=1.8, label="least squares")
    many = len(points) > 50
    style: dict[str, Any] = {"fmt": "o", "markersize": 2 if many else 5, "color": "#444444", "ecolor": RANDOM_COLOR}
    axes.errorbar(
        points["pruned"],
        points["full"],
        xerr=None if many else 2 * points["pruned_stderr"],
        yerr=None if many else 2 * points["full_stderr"],
        elinewidth=1,
        label="a class",
        **style,
    )
    for row in () if many else points.rows:
        place = {"xytext": (5, -9), "textcoords": "offset points"}
        axes.annotate(row["name"], (row["pruned"], row["full"]), fontsize=8, **place)
    text = f"change {100 * line['mean_change']:+.2f} points\nworst third {100 * line['worst_change']:+.2f}"
    axes.text(0.97, 0.04, text, transform=axes.transAxes, ha="right", fontsize=9)
    axes.set(xlim=span, ylim=span, aspect="equal", xlabel=f"accuracy of the class, trained on {_AT:.0%}")
