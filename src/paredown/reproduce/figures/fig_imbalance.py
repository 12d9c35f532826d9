"""Appendix figure on class balance: how unequal pruning makes the classes, by metric, end and floor.

Claims: pruning amplifies class imbalance for every metric but random, whether easy or hard examples are pruned; a floor
of half a class's share limits it.

    paredown reproduce fig_imbalance

Expected: seconds after the scores of `fig5a`, 3 minutes of a core with embeddings of CIFAR-10 (`--size paper`: the
trainings behind the scores). With four fifths pruned b falls from 0.93 (random) to 0.42 to 0.84, but stays that of
random for influence, which is noise from 120 models. With the floor it is never below 0.58; it could not be below 0.56.
"""

from __future__ import annotations

from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from paredown.plots import COLORS, RANDOM_COLOR, figure
from paredown.reproduce import metric_comparison as benchmark
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.metric_comparison import COMPARED_METRICS, FLOOR, METRIC_TITLES
from paredown.reproduce.setup import Setup
from paredown.scores import Labels
from paredown.selection import balance_of_counts, select

NEEDS, plan = benchmark.NEEDS, benchmark.plan_scores
PRUNED = tuple(round(0.1 * tenth, 1) for tenth in range(10))
_DRAWS = 20  # random subsets behind the grey band
_AT = 0.8  # pruned, where claims are judged
_SOLVABLE = 20  # classes
_NEGLIGIBLE = 0.02  # of b: the places of the smallest class are taken from others, and these may become less equal


def measure(setup: Setup) -> FigureTable:
    """The balance score b of what is kept by each metric from both ends, with and without the floor."""
    scores = benchmark.score_benchmark(setup)
    table = FigureTable()
    first = scores["random"]
    labels = first.labels
    assert isinstance(labels, Labels)
    bound = lowest_balance(len(labels.classes), FLOOR * float(labels.counts.min() / len(first)))
    about = {"data": setup.dataset().title, "examples": len(first), "classes": len(labels.classes)}
    table.add("data", **about, lowest_with_floor=bound)
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
    """Balance scores against random subsets, and with the floor against without, where a fifth is left."""
    chance = table.where(kind="random", pruned=_AT).rows[0]
    lowest_by_chance = chance["b"] - 3 * chance["deviation"]
    rows = table.where(kind="metric", pruned=_AT)
    free, held = rows.where(floor=0.0), rows.where(floor=FLOOR)
    as_random = [row for row in free.rows if row["b"] >= lowest_by_chance]
    worst = min(free.rows, key=lambda row: row["b"])
    worst_held = min(held.rows, key=lambda row: row["b"])
    everywhere = table.where(kind="metric")
    smallest = float(everywhere.where(floor=FLOOR)["smallest_share"].min())
    gain = everywhere.where(floor=FLOOR)["b"] - everywhere.where(floor=0.0)["b"]
    bound = table.where(kind="data").rows[0].get("lowest_with_floor", np.nan)
    return [
        Claim.judged(
            "Pruning amplifies class imbalance for every metric but random, from both ends.",
            not as_random,
            f"Balance score b with {_AT:.0%} pruned: random {chance['b']:.3f} ± {chance['deviation']:.3f} (standard "
            f"deviation); by metric (hard, easy kept): "
            + "; ".join(
                f"{METRIC_TITLES[metric]} {', '.join(f'{b:.2f}' for b in free.where(metric=metric)['b'])}"
                for metric in free.values("metric")
            )
            + f". Not below random by three standard deviations: {'; '.join(map(_name, as_random)) or 'none'}.",
        ),
        Claim.judged(
            f"A floor of {FLOOR:g} limits it.",
            smallest >= FLOOR * (1 - 1e-9) and worst_held["b"] > worst["b"] and not (gain < -_NEGLIGIBLE).any(),
            f"With {_AT:.0%} pruned the lowest b is {worst['b']:.2f} ({_name(worst)}) without and "
            f"{worst_held['b']:.2f} ({_name(worst_held)}) with it; no class keeps less than {smallest:.2f} of an equal "
            f"share. Over all fractions it raises b in {(gain > 0).sum()} of {len(gain)} cases and lowers it in "
            f"{(gain < 0).sum()}, by {max(0.0, -gain.min()):.3f} at most"
            + (f"; b can not be below {bound:.2f} with it." if np.isfinite(bound) else "."),
        ),
    ]


def _name(row: dict[str, str]) -> str:
    return f"{METRIC_TITLES[row['metric']]}, {row['strategy']} kept"


def draw(table: FigureTable, path: Path) -> None:
    """Balance over the fraction pruned, a panel for every metric; dashed lines with the floor."""
    colors = {"hard": COLORS[4], "easy": COLORS[3]}
    with figure(path, size=(11.4, 6.6), nrows=3, ncols=4, sharex=True, sharey=True) as (drawn, grid):
        chance = table.where(kind="random")
        bound = table.where(kind="data").rows[0].get("lowest_with_floor", np.nan)
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
        key.legend(*grid[0, 1].get_legend_handles_labels(), loc="center left", fontsize=9)
        drawn.supxlabel("fraction pruned", fontsize=10)
        drawn.supylabel("class balance score b", fontsize=10)
        row = table.where(kind="data").rows[0]
        about = f"Class balance after pruning {row['examples']:,.0f} examples of {row['classes']:.0f} classes"
        drawn.suptitle(f"{about} ({row['data']})", x=0.02, ha="left", fontsize=11)
