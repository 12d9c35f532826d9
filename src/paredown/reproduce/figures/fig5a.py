"""Fig. 5A: rank correlations of all pairs of metrics, clustered.

Claims: EL2N, DDD and memorization correlate by more than 0.7; beyond that the metrics are diverse.

    paredown reproduce fig5a

Expected: 3 minutes of a core with 10,000 embeddings of CIFAR-10 for the scores, which the other figures on metrics
share (`--size paper`: 2,091 trainings of a ResNet-50 on ImageNet, years of a GPU). EL2N and DDD correlate by 0.98, both
with memorization by 0.83. The others are alike too, 16 of 25 pairs above 0.7: all metrics that train look at one small
perceptron. Influence is noise from 120 models.
"""

from __future__ import annotations

from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.correlations import centred_ranks, rank_correlations
from paredown.plots import figure
from paredown.reproduce import metric_comparison as benchmark
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.metric_comparison import METRIC_TITLES
from paredown.reproduce.setup import Setup

NEEDS, plan = benchmark.NEEDS, benchmark.plan_scores
ALIKE = 0.7  # the paper's bound for "fairly similar"
_TRIO = ("el2n_20", "ddd", "memorization")
_STEADY = 0.3  # below this reliability scores are noise, and correlate with nothing


def measure(setup: Setup) -> FigureTable:
    """Spearman's correlation of every pair, and the reliability of each metric's own scores."""
    scores = benchmark.score_benchmark(setup)
    table = FigureTable()
    for name, scored in scores.items():
        report = scored.provenance.get("report", {})
        known = {key: float(report[key]) for key in ("models", "split_half", "reliability") if key in report}
        table.add("metric", metric=name, examples=len(scored.values), data=setup.dataset().title, **known)
    correlation = rank_correlations([centred_ranks(scored.values) for scored in scores.values()], constant=0.0)
    np.fill_diagonal(correlation, 1.0)  # also of constant scores, such as influence from few models
    for row, name in enumerate(scores):
        table.add("correlation", metric=name, other=list(scores), spearman=correlation[row])
    return table


def _matrix(table: FigureTable) -> tuple[list[str], NDArray[np.float64]]:
    pairs = table.where(kind="correlation")
    return pairs.values("metric"), pairs.grid("spearman", "metric", "other")


def judge(table: FigureTable) -> list[Claim]:
    """The three that the paper names, and the share of all other pairs above its bound."""
    names, matrix = _matrix(table)

    def between(first: str, second: str) -> float:
        return float(matrix[names.index(first), names.index(second)])

    known = table.where(kind="metric")
    noise = [row["metric"] for row in known.rows if row.get("reliability", 1.0) < _STEADY]
    trio = {pair: between(*pair) for pair in combinations(_TRIO, 2)}
    others = [pair for pair in combinations(names, 2) if "random" not in pair and pair not in trio]
    steady = [pair for pair in others if not set(pair) & set(noise)]  # noise differs from everything, and says nothing
    alike = [pair for pair in steady if between(*pair) > ALIKE]
    strengths = sorted(between(*pair) for pair in steady)
    return [
        Claim.judged(
            f"EL2N, DDD and memorization are alike: rank correlations above {ALIKE}.",
            min(trio.values()) > ALIKE,
            f"{known.rows[0]['data']}, {known.rows[0]['examples']:,.0f} examples: "
            + "; ".join(f"{METRIC_TITLES[a]} and {METRIC_TITLES[b]} {value:.2f}" for (a, b), value in trio.items())
            + ".",
        ),
        Claim.judged(
            "Apart from these there is much diversity among the metrics.",
            2 * len(alike) < len(steady),
            f"{len(alike)} of {len(steady)} other pairs are above {ALIKE}; from {strengths[0]:.2f} to "
            f"{strengths[-1]:.2f}, median {np.median(strengths):.2f}. Left out, since two halves of their models do "
            f"not agree: {benchmark.name_metrics(noise)}.",
            pairs=len(steady),
            noise=noise,
        ),
    ]


def draw(table: FigureTable, path: Path) -> None:
    """A heat map in the order of an average-linkage clustering of its rows, the trees beside it."""
    from scipy.cluster.hierarchy import dendrogram, linkage

    names, matrix = _matrix(table)
    tree = linkage(matrix, method="average", metric="euclidean")  # what seaborn's clustermap does
    layout: dict[str, Any] = {"width_ratios": (0.16, 1), "height_ratios": (0.16, 1)}
    with figure(path, size=(8.6, 7.6), nrows=2, ncols=2, gridspec_kw=layout) as (drawn, ((corner, top), (left, main))):
        order: list[int] = []
        for axes, orientation in ((top, "top"), (left, "left")):
            style = {"color_threshold": 0, "above_threshold_color": "#444444"}
            order = dendrogram(tree, ax=axes, orientation=orientation, **style)["leaves"]
            axes.set_axis_off()
        left.invert_yaxis()  # the first leaf at the top, as in the map
        corner.set_axis_off()
        sorted_matrix = matrix[np.ix_(order, order)]
        image = main.imshow(sorted_matrix, cmap="RdBu_r", vmin=-1, vmax=1, aspect="auto")
        for row, column in np.ndindex(*sorted_matrix.shape):
            value = sorted_matrix[row, column]
            style = {"ha": "center", "va": "center", "fontsize": 8, "color": "white" if abs(value) > 0.65 else "black"}
            main.text(column, row, f"{value:.2f}".replace("-0.00", "0.00"), **style)
        reliability = {row["metric"]: row.get("reliability", np.nan) for row in table.where(kind="metric").rows}
        noise = {name for name, value in reliability.items() if value < _STEADY}
        titles = [METRIC_TITLES[names[leaf]] + ("*" if names[leaf] in noise else "") for leaf in order]
        main.set_xticks(range(len(order)), titles, rotation=-40, ha="left", rotation_mode="anchor")
        main.yaxis.tick_right()
        main.set_yticks(range(len(order)), titles)
        main.grid(visible=False)
        main.spines[:].set_visible(False)
        main.tick_params(length=0)
        known = table.where(kind="metric").rows[0]
        about = f"Rank correlation of metrics, {known['data']} ({known['examples']:,.0f} examples)"
        drawn.suptitle(about, x=0.02, ha="left", fontsize=11)
        drawn.colorbar(image, ax=main, orientation="horizontal", shrink=0.5, aspect=40, label="Spearman's correlation")
        if noise:
            drawn.text(0.01, 0.01, f"* noise: reliability below {_STEADY}", fontsize=8, color="#555555")
