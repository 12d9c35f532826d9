"""Appendix table on the number of clusters: test accuracy of prototypes at keep_fraction 0.8 against k.

Claims: k within an order of magnitude of the number of classes does not matter much; very small and very large k do
worse.

    paredown reproduce tab_k

Expected: a minute of two cores with embeddings of CIFAR-10, beside the random and full sets that it shares with
`fig5bc` (`--size paper`: 65 trainings of a ResNet-50 on ImageNet, beside those). From k = 2 to 100 with ten classes the
accuracies lie within 0.4 points; k = 1 is 0.7 points worse than 10, but 1,000, ten examples to a cluster, is not.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paredown.laws import better_than, equivalent_to
from paredown.plots import COLORS, RANDOM_COLOR, figure, plain_axis
from paredown.reproduce import metric_comparison as benchmark
from paredown.reproduce.base import Claim, FigureTable, means
from paredown.reproduce.drawing import percent_bars
from paredown.reproduce.figures.fig5bc import draw_full_set
from paredown.reproduce.judging import judge_points, seeds_of
from paredown.reproduce.setup import FigurePlan, Setup

NEEDS = benchmark.NEEDS
_AT = 0.8
_NEAR = 10  # an order of magnitude
_MARGIN = 0.005  # of accuracy, up to which k does not matter much
_LOSS = 0.005  # that "impair performance" is about


def clusters(setup: Setup) -> tuple[int, ...]:
    """The paper's numbers of clusters, or those of the same size against ten classes."""
    return setup.choose(
        tiny=(1, 10, 100),
        cpu=(1, 2, 5, 10, 20, 50, 100, 200, 500, 1000),
        paper=(1, 5, 10, 50, 100, 200, 400, 600, 800, 1000, 5000, 10_000, 50_000),
    )


def plan(setup: Setup) -> FigurePlan:
    """One metric with many k, no class balancing; random subsets and the full set are those of Fig. 5B and C."""
    config = benchmark.benchmark_sweep(setup, balance=[0.0], fractions=[_AT])
    probes = {f"k{k}": {"metric": "prototypes", "k": k} for k in clusters(setup)}
    config |= {"grid": config["grid"] | {"metric": list(probes)}, "probe": probes}
    return FigurePlan(sweeps={"k": config}, datasets=(benchmark.training_set(setup),))


def measure(setup: Setup) -> FigureTable:
    """Accuracies with differences to random, to the full set and to k = the number of classes, seed by seed."""
    swept = setup.sweep(plan(setup).sweeps["k"]).table
    table, top = FigureTable(), benchmark.top(setup)
    measured = benchmark.accuracies(swept, top)
    full, chance = measured["random", 1.0, 0.0], measured["random", _AT, 0.0]
    data = setup.dataset()
    for kind, values in (("full", full), ("random", chance)):
        known = {"data": data.title, "classes": data.classes, "top": top, "seeds": len(values)}
        table.add(kind, **means(accuracy=values), deviation=benchmark.deviation(values), **known)
    usual = measured[f"k{data.classes}", _AT, 0.0]
    for k in clusters(setup):
        own = measured[f"k{k}", _AT, 0.0]
        table.add("k", k=k, **means(accuracy=own, difference=own - chance, change=own - usual))
        table.add_seeds("seed", k=k, columns={"change": own - usual})
    return table


def judge(table: FigureTable) -> list[Claim]:
    """Every k against k = the number of classes, seed by seed."""
    full, seeds = table.where(kind="full").rows[0], table.where(kind="seed")
    classes, known = full["classes"], seeds.values("k")
    # A single cluster is very small, even where there are only ten classes.
    near = [k for k in known if classes / _NEAR <= k <= classes * _NEAR and 1 < k != classes]
    ends = (known[0], known[-1])
    about = f"{full['data']}, {_AT:.0%} kept, accuracy minus that with k = {classes:.0f}"
    return [
        judge_points(
            "Within an order of magnitude of the number of classes, k does not matter much.",
            {f"k = {k:.0f}": equivalent_to(seeds_of(seeds, "change", k=k), _MARGIN, points=len(near)) for k in near},
            rule="equivalent to",
            effect=_MARGIN,
            about=about,
        ),
        judge_points(
            "Very small and very large k impair performance.",
            {f"k = {k:.0f}": better_than(seeds_of(seeds, "change", k=k), points=len(ends)) for k in ends},
            rule="below",
            effect=_LOSS,
            about=about,
        ),
    ]


def draw(table: FigureTable, path: Path) -> None:
    """The table as a curve over k, its numbers below it."""
    full, chance, rows = (table.where(kind=kind) for kind in ("full", "random", "k"))
    with figure(path, size=(8.6, 4.8)) as (_, axes):
        draw_full_set(axes, full.rows[0])
        level, error = 100 * chance["accuracy"][0], 200 * chance["stderr"][0]
        axes.axhline(level, color=RANDOM_COLOR, linewidth=2.5, label="random (band: two standard errors)")
        axes.axhspan(level - error, level + error, color=RANDOM_COLOR, alpha=0.3, linewidth=0)
        accuracy, error = 100 * rows["accuracy"], 200 * rows["stderr"]
        style = {"color": COLORS[4], "capsize": 3, "linewidth": 1.5}
        percent_bars(axes, rows, "k", "accuracy", label="prototypes (bars: two standard errors)", **style)
        for x, y, above in zip(rows["k"], accuracy, error, strict=True):
            place = {"xytext": (0, 4), "textcoords": "offset points", "ha": "center", "fontsize": 8}
            axes.annotate(f"{y:.2f}", (x, y + (above if np.isfinite(above) else 0)), **place)
        classes = full["classes"][0]
        axes.axvspan(max(1.4, classes / _NEAR), classes * _NEAR, color=COLORS[4], alpha=0.06, linewidth=0)
        axes.set(xscale="log", xlabel="number of clusters k (shaded: an order of magnitude around that of the classes)")
        plain_axis(axes.xaxis, rows["k"].tolist())
        axes.set_ylabel(f"top-{full['top'][0]:.0f} test accuracy, %")
        axes.set_title(f"{_AT:.0%} kept, no class balancing ({full['data'][0]})", loc="left")
        axes.legend(loc="best", fontsize=8)
