"""Fig. 5A: rank correlations of all pairs of metrics, clustered.

Claims: EL2N, DDD and memorization correlate by more than 0.7; beyond that the metrics are diverse.

    paredown reproduce fig5a

Expected: 3 minutes of a core with 10,000 embeddings of CIFAR-10 for the scores, which the other figures on metrics
share (`--size paper`: 2,091 trainings of a ResNet-50 on ImageNet, years of a GPU). EL2N and DDD correlate by 0.98, both
with memorization by 0.83. The others are alike too, 16 of 25 pairs above 0.7: all metrics that train look at one small
perceptron. DDD mixes depths and widths of that, one of them linear; with class means, a discriminant and nearest
neighbours in place of some it correlates by 0.92 with DDD and with EL2N (one scoring). Convnets on
pixels were not tried.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.correlations import centred_ranks, rank_correlations
from paredown.laws import correlated_above, correlated_below
from paredown.metrics.reliability import NOISY
from paredown.plots import figure
from paredown.reproduce import metric_comparison as benchmark
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.data_folders import Dataset
from paredown.reproduce.judging import CORRELATION, judge_points, seeds_of
from paredown.reproduce.metric_comparison import MIXED, TITLES
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.scores import Scores

NEEDS = benchmark.NEEDS
ALIKE = 0.7  # the paper's bound for "fairly similar"
_TRIO = ("el2n_20", "ddd", "memorization")
_ALIKE_CLAIM = f"EL2N, DDD and memorization are alike: rank correlations above {ALIKE}."
_MIXED_CLAIM = f"They are also with models of other families in DDD: rank correlations above {ALIKE}."
_STRONGER = 0.05  # of a correlation, beyond the paper's bound, that should be seen


def plan(setup: Setup) -> FigurePlan:
    """The scores of the benchmark, and DDD with members of several families."""
    planned = benchmark.plan_scores(setup)
    mixed = {f"mixed families, {repeat}": benchmark.mixed_scoring(setup, repeat) for repeat in benchmark.repeats(setup)}
    return replace(planned, scorings={**planned.scorings, **{name: own for name, own in mixed.items() if own}})


def _score(setup: Setup, whole: Dataset | None = None, repeat: int = 0) -> dict[str, Scores]:
    scores, mixed = benchmark.score_benchmark(setup, whole, repeat), benchmark.mixed_scoring(setup, repeat)
    return scores if mixed is None else {**scores, MIXED: setup.score(mixed)["ddd"]}


def measure(setup: Setup) -> FigureTable:
    """Spearman's correlation of every pair, and the reliability of each metric's own scores."""
    scores = _score(setup)
    table = FigureTable()
    for name, scored in scores.items():
        report = scored.provenance.get("report", {})
        known = {key: float(report[key]) for key in ("models", "split_half", "reliability") if key in report}
        table.add("metric", metric=name, examples=len(scored.values), data=setup.dataset().title, **known)
    correlation = rank_correlations([centred_ranks(scored.values) for scored in scores.values()], constant=0.0)
    np.fill_diagonal(correlation, 1.0)  # also of constant scores, such as influence from few models
    for row, name in enumerate(scores):
        table.add("correlation", metric=name, other=list(scores), spearman=correlation[row])
    for part in benchmark.parts_of(setup, score=_score):
        own = rank_correlations([centred_ranks(s.values[part.rows]) for s in part.scores.values()], constant=0.0)
        for (first, name), (second, other) in combinations(enumerate(scores), 2):
            values = {"seed": part.number, "over": part.over, "spearman": own[first, second]}
            table.add("part", metric=name, other=other, **values)
    return table


def _matrix(table: FigureTable) -> tuple[list[str], NDArray[np.float64]]:
    pairs = table.where(kind="correlation")
    return pairs.values("metric"), pairs.grid("spearman", "metric", "other")


def judge(table: FigureTable) -> list[Claim]:
    """The three that the paper names, DDD of other families beside the other two, and the median of all other pairs."""
    names, matrix = _matrix(table)
    known, parts = table.where(kind="metric"), table.where(kind="part")
    noise = benchmark.noise_metrics(known)
    trio = list(combinations((name for name in names if name in _TRIO), 2))
    mixed = [(name, MIXED) for name in _TRIO if name != "ddd"] if MIXED in names else []
    compared = [name for name in names if name not in ("random", MIXED)]
    others = [pair for pair in combinations(compared, 2) if pair not in trio]
    steady = [pair for pair in others if not set(pair) & set(noise)]  # noise differs from everything, and says nothing
    alike = [(a, b) for a, b in steady if matrix[names.index(a), names.index(b)] > ALIKE]
    values = {pair: seeds_of(parts, "spearman", metric=pair[0], other=pair[1]) for pair in (*trio, *mixed, *steady)}
    title = lambda pair: f"{TITLES[pair[0]]} and {TITLES[pair[1]]}"
    about = f"{known.rows[0]['data']}, {known.rows[0]['examples']:,.0f} examples in parts, "

    def alike_by(claim: str, pairs: list[tuple[str, str]], note: str = "") -> Claim:
        unreliable = sorted({name for pair in pairs for name in pair} & set(noise))
        if unreliable:
            return Claim.not_testable(claim, f"Scores are noise: {benchmark.name_metrics(unreliable)}.")
        return judge_points(
            claim,
            {title(pair): correlated_above(values[pair], ALIKE, points=len(pairs)) for pair in pairs},
            rule="correlated above",
            over=benchmark.parts_over(parts),
            effect=_STRONGER,
            unit=CORRELATION,
            about=f"{about}rank correlation",
            note=note,
        )

    middle = np.median([values[pair] for pair in steady], axis=0)
    claims = [alike_by(_ALIKE_CLAIM, trio)]
    if mixed:
        both = matrix[names.index("ddd"), names.index(MIXED)]
        claims.append(alike_by(_MIXED_CLAIM, mixed, f"The two kinds of DDD correlate by {both:.2f}."))
    return [
        *claims,
        judge_points(
            f"Apart from these there is much diversity: fewer than half of the other pairs correlate above {ALIKE}.",
            {"median pair": correlated_below(middle, ALIKE)},
            rule="correlated below",
            over=benchmark.parts_over(parts),
            effect=_STRONGER,
            unit=CORRELATION,
            about=f"{about}median rank correlation of {len(steady)} pairs",
            note=f"{len(alike)} of them are above. {benchmark.left_out(known)}".strip(),
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
        noise = {name for name, value in reliability.items() if value < NOISY}
        titles = [TITLES[names[leaf]] + ("*" if names[leaf] in noise else "") for leaf in order]
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
            drawn.text(0.01, 0.01, f"* noise: reliability below {NOISY}", fontsize=8, color="#555555")
