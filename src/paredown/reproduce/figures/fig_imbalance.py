"""Appendix figure on class balance: how unequal pruning makes the classes, by metric, end and floor.

Beside ten equal classes stand ten on a long tail, 10:1.

Claims: pruning amplifies class imbalance for every metric but random, whether easy or hard examples are pruned; a floor
of half a class's share limits it.

    paredown reproduce fig_imbalance

Expected: after the scores of `fig5a` those of the long tail, as many again (`--size paper`: the trainings behind the
scores). On equal classes every metric keeps less balanced sets than chance from both ends, by 0.04 to 0.42 in b
with four fifths pruned. On a long tail the hardest by most metrics are more balanced than all examples, and the easiest
less. The floor raises the lowest b by 0.16 and 0.24.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from paredown.laws import above, better_than
from paredown.plots import COLORS, RANDOM_COLOR, figure
from paredown.reproduce import metric_comparison as benchmark
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.data_folders import SMALL_TAILED, Dataset
from paredown.reproduce.judging import PLAIN, judge_points, seeds_of
from paredown.reproduce.metric_comparison import COMPARED_METRICS, FLOOR, METRIC_TITLES
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.scores import Labels, Scores
from paredown.selection import balance_of_counts, select

NEEDS = {**benchmark.NEEDS, "tail": SMALL_TAILED}
PRUNED = tuple(round(0.1 * tenth, 1) for tenth in range(10))
_DRAWS = 20  # random subsets behind the grey band
_AT = 0.8  # pruned, where claims are judged
_SOLVABLE = 20  # classes
_LESS = 0.1  # of b, that "amplifies class imbalance" and "limits it" are about


def plan(setup: Setup) -> FigurePlan:
    """Scores of a set of equal classes, and of one on a long tail."""
    return benchmark.plan_scores(setup, benchmark.datasets_of(setup))


def measure(setup: Setup) -> FigureTable:
    """The balance score b of what is kept by each metric from both ends, with and without the floor."""
    return benchmark.measure_each(setup, _measure_one)


def _measure_one(setup: Setup, data: Dataset) -> FigureTable:
    scores = benchmark.score_benchmark(setup, data)
    table = FigureTable()
    first = scores["random"]
    labels = first.labels
    assert isinstance(labels, Labels)
    bound = lowest_balance(len(labels.classes), FLOOR * float(labels.counts.min() / len(first)))
    about = {"data": data.title, "examples": len(first), "classes": len(labels.classes)}
    table.add("data", **about, b=balance_of_counts(labels.counts), lowest_with_floor=bound)
    benchmark.add_reliability(table, scores)
    _add_parts(table, setup, data, labels)
    for pruned in PRUNED:
        options = {"keep_fraction": 1 - pruned, "strategy": "random", "balance": 0.0}
        subsets = [select(first, seed=setup.seed + draw, **options).keep for draw in range(_DRAWS)]
        drawn = [balance_of_counts(_counts(labels, keep)) for keep in subsets]
        spread = float(np.std(drawn, ddof=1))
        table.add("random", metric="random", pruned=pruned, b=float(np.mean(drawn)), deviation=spread, draws=_DRAWS)
        for metric, floor, strategy in product(COMPARED_METRICS, (0.0, FLOOR), ("hard", "easy")):
            options = {"keep_fraction": 1 - pruned, "strategy": strategy, "balance": floor}
            counts = _counts(labels, select(scores[metric], labels=labels, seed=setup.seed, **options).keep)
            smallest = float((counts / (labels.counts * (1 - pruned))).min())
            found = {"pruned": pruned, "b": balance_of_counts(counts), "smallest_share": smallest}
            table.add("metric", metric=metric, strategy=strategy, floor=floor, **found)
    return table


def _add_parts(table: FigureTable, setup: Setup, data: Dataset, labels: Labels) -> None:
    """In every part of the examples, how much less balanced metrics keep them than chance does, at `_AT` pruned."""
    for part in benchmark.parts_of(setup, data):
        own = Labels(labels.codes[part.rows], labels.classes)

        def b(name: str, strategy: str, floor: float, seed: int, own: Labels = own, part: Any = part) -> float:
            scored = part.scores[name]
            chosen = Scores(scored.values[part.rows], scored.ids[part.rows], name, own)
            options = {"keep_fraction": 1 - _AT, "strategy": strategy, "balance": floor, "seed": seed}
            return balance_of_counts(_counts(own, select(chosen, labels=own, **options).keep))

        draws = range(setup.seed, setup.seed + _DRAWS)
        chance = float(np.mean([b("random", "random", 0.0, seed) for seed in draws]))
        for metric, floor, strategy in product(COMPARED_METRICS, (0.0, FLOOR), ("hard", "easy")):
            found = b(metric, strategy, floor, setup.seed)
            values = {"seed": part.number, "over": part.over}
            table.add("part", metric=metric, strategy=strategy, floor=floor, **values, b=found, less=found - chance)


def _counts(labels: Labels, keep: NDArray[np.bool_]) -> NDArray[np.int64]:
    return np.bincount(labels.codes[keep], minlength=len(labels.classes))


def lowest_balance(classes: int, least: float) -> float:
    """The lowest balance score of classes of which each has at least the share `least` of all examples.

    With k_1 <= ... <= k_C the score is the mean of k_i / k_j over i < j. In u = log k that is convex, and so is the
    condition sum_j exp(u_j - u_1) <= 1 / least: a geometric program, solved in the steps of u. NaN for more classes
    than are solved in a second.
    """
    if classes < 2 or classes > _SOLVABLE:
        return 1.0 if classes < 2 else np.nan
    smaller, larger = np.triu_indices(classes, 1)

    def sizes(steps: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.exp(np.concatenate([[0.0], np.cumsum(steps)]))

    solved = minimize(
        lambda steps: float((sizes(steps)[smaller] / sizes(steps)[larger]).mean()),
        np.full(classes - 1, 0.1),
        bounds=[(0, None)] * (classes - 1),
        constraints={"type": "ineq", "fun": lambda steps: 1 / least - sizes(steps).sum()},
        method="SLSQP",
        options={"maxiter": 500},
    )
    return float(solved.fun)


def judge(table: FigureTable) -> list[Claim]:
    """Both claims for every data set."""
    return [claim for data in table.values("data") for claim in judge_arm(table.where(data=data))]


def judge_arm(table: FigureTable) -> list[Claim]:
    """Balance scores against random subsets, and with the floor against without, over scorings."""
    parts, names = table.where(kind="part"), benchmark.steady_metrics(table)
    ways = {
        f"{METRIC_TITLES[name]}, {strategy} kept": {"metric": name, "strategy": strategy}
        for name in names
        for strategy in ("hard", "easy")
    }
    lost = {title: seeds_of(parts, "less", floor=0.0, **way) for title, way in ways.items()}
    worst = {
        floor: np.min([seeds_of(parts, "b", floor=floor, **way) for way in ways.values()], axis=0)
        for floor in (0.0, FLOOR)
    }
    about = table.where(kind="data").rows[0]
    bound = about.get("lowest_with_floor", np.nan)
    pruned = table.where(kind="metric", pruned=_AT)
    smallest = {
        floor: [pruned.where(floor=floor, **way)["smallest_share"].min() for way in ways.values()]
        for floor in (0.0, FLOOR)
    }
    acting = sum(share < FLOOR for share in smallest[0.0])
    return [
        judge_points(
            f"{about['data']}: pruning amplifies class imbalance for every metric but random, from both ends.",
            {title: better_than(values, points=len(lost)) for title, values in lost.items()},
            rule="less than",
            over=benchmark.parts_over(parts),
            effect=_LESS,
            unit=PLAIN,
            about=f"balance score b with {_AT:.0%} pruned minus that of random subsets",
            note=f"All examples have {about['b']:.2f}. {benchmark.left_out(table)}".strip(),
        ),
        judge_points(
            f"{about['data']}: a floor of {FLOOR:g} limits it.",
            {"lowest b": above(worst[FLOOR] - worst[0.0], 0.0)},
            rule="more than",
            over=benchmark.parts_over(parts),
            effect=_LESS,
            unit=PLAIN,
            about=f"lowest balance score of all ways with {_AT:.0%} pruned, with the floor minus without",
            note=f"The floor acts in {acting} of {len(ways)} ways, where a class would keep as little as "
            f"{min(smallest[0.0]):.2f} of an equal share; with it none keeps less than {min(smallest[FLOOR]):.2f}"
            + (f", so that b cannot be below {bound:.2f}." if np.isfinite(bound) else "."),
        ),
    ]


def draw(table: FigureTable, path: Path) -> None:
    """Balance over the fraction pruned, a panel for every metric; dashed lines with the floor."""
    titles = table.values("data")
    layout: dict[str, Any] = {"nrows": 3 * len(titles), "ncols": 4, "sharex": True, "sharey": True}
    with figure(path, size=(11.4, 6.6 * len(titles)), **layout) as (drawn, grid):
        for number, data in enumerate(titles):
            _draw_arm(grid[3 * number : 3 * number + 3], table.where(data=data))
        drawn.supxlabel("fraction pruned", fontsize=10)
        drawn.supylabel("class balance score b", fontsize=10)
        drawn.suptitle("Class balance after pruning", x=0.02, ha="left", fontsize=11)


def _draw_arm(grid: Any, table: FigureTable) -> None:
    """Three rows of panels, the last panel of which has the key."""
    colors = {"hard": COLORS[4], "easy": COLORS[3]}
    chance, about = table.where(kind="random"), table.where(kind="data").rows[0]
    bound = about.get("lowest_with_floor", np.nan)
    for axes, metric in zip(grid.flat, ("random", *COMPARED_METRICS), strict=False):
        band = 2 * chance["deviation"]
        axes.fill_between(chance["pruned"], chance["b"] - band, chance["b"] + band, color=RANDOM_COLOR, alpha=0.3)
        axes.plot(chance["pruned"], chance["b"], color=RANDOM_COLOR, linewidth=1.5, label="random, ± 2 std. dev.")
        if np.isfinite(bound) and metric != "random":
            axes.axhline(bound, color="#444444", linestyle=":", linewidth=1, label=f"lowest with floor {FLOOR:g}")
        for strategy, color in colors.items() if metric != "random" else ():
            for floor, line in ((0.0, "-"), (FLOOR, "--")):
                curve = table.where(kind="metric", metric=metric, strategy=strategy, floor=floor)
                pruned = {"hard": "easy", "easy": "hard"}[strategy]
                name = f"{pruned} pruned" + (f", floor {floor:g}" if floor else "")
                axes.plot(curve["pruned"], curve["b"], color=color, linestyle=line, linewidth=1.5, label=name)
        axes.set_title(METRIC_TITLES[metric], loc="left", fontsize=9.5)
        axes.set(ylim=(0, 1.03), xticks=(0, 0.3, 0.6, 0.9))
    key = grid.flat[-1]
    key.set_axis_off()
    title = f"{about['data']}:\n{about['examples']:,.0f} examples of {about['classes']:.0f} classes"
    key.legend(*grid[0, 1].get_legend_handles_labels(), loc="center left", fontsize=9, title=title, title_fontsize=9.5)
