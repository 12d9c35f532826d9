"""Appendix figure 'Breaking compute scaling laws via data pruning', panel A: test error against the time to train.

Claims: the time to find the max-margin student grows linearly with alpha_prune across all fractions (the paper, with
CVXPY: 0.96 alpha_prune + 0.80 seconds), so that pruning also beats the power law in compute.

    paredown reproduce fig_compute_a

Expected: 20 seconds (`--size paper`: 4 minutes). Times are this machine's, so they differ from run to run; they are taken
on one core. The pruned sets take up to twice as long as unpruned ones of the same size, because more of their examples
touch the margin, yet in the time that unpruned data need for an error of 0.06 the hardest 10 % reach about 0.01.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paredown.plots import FRONTIER_COLOR, figure, fraction_bar, fraction_color, panel_letter
from paredown.progress import Track
from paredown.reproduce.base import Claim, Size, Table
from paredown.reproduce.measures import add_dots
from paredown.theory import pareto_frontier, solve

FRACTIONS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1)


def measure(size: Size, seed: int, track: Track) -> Table:
    """Timed dots, the line through them, and the theory's curves at the times of the line."""
    table = Table()
    points = [
        {"alpha_prune": float(a), "keep_fraction": f} for a in np.linspace(0.5, 8, max(4, size.dots)) for f in FRACTIONS
    ]
    add_dots(table, points, size=size, seed=seed, track=track, timed=True)
    dots = table.where(kind="simulation")
    slope, intercept = np.polyfit(dots["alpha_prune"], dots["seconds"], 1)
    residual = dots["seconds"] - slope * dots["alpha_prune"] - intercept
    r_squared = 1 - residual.var() / dots["seconds"].var()
    table.add("line", slope=slope, intercept=intercept, r_squared=r_squared)
    alpha = np.linspace(0.5, 8, size.points)
    for fraction in FRACTIONS:
        error = solve(alpha, fraction).test_error
        seconds = slope * alpha + intercept
        table.add("theory", keep_fraction=fraction, alpha_prune=alpha, seconds=seconds, test_error=error)
    best = pareto_frontier(alpha, min_keep_fraction=min(FRACTIONS))
    table.add(
        "frontier",
        keep_fraction=best.keep_fraction,
        alpha_prune=alpha,
        seconds=slope * alpha + intercept,
        test_error=best.test_error,
    )
    return table


def judge(table: Table) -> list[Claim]:
    """A line, and less error in equal time."""
    line, dots = table.where(kind="line").rows[0], table.where(kind="simulation")
    unpruned, pruned = dots.where(keep_fraction=1.0), dots.where(keep_fraction=min(FRACTIONS))
    budget, without = float(unpruned["seconds"][-1]), float(unpruned["test_error"][-1])
    order = np.argsort(pruned["seconds"])
    reached = float(np.exp(np.interp(budget, pruned["seconds"][order], np.log(pruned["test_error"][order]))))
    slower = float(pruned["seconds"][-1] / unpruned["seconds"][-1])
    return [
        Claim(
            "The time to train grows linearly with alpha_prune across all fractions.",
            line["r_squared"] > 0.9,
            f"T = {1000 * line['slope']:.2g} alpha_prune {1000 * line['intercept']:+.2g} milliseconds explains "
            f"{100 * line['r_squared']:.0f} % of the variance between dots; at alpha_prune = "
            f"{pruned['alpha_prune'][-1]:.2g} keeping {min(FRACTIONS):g} takes {slower:.1f} times as long as no pruning.",
        ),
        Claim(
            "Pruning beats the power law in compute too.",
            reached < 0.5 * without,
            f"In the {1000 * budget:.0f} milliseconds in which unpruned data reach a test error of {without:.4f}, the "
            f"hardest {100 * min(FRACTIONS):g} % reach {reached:.4f}. The time to score the examples is not counted.",
        ),
    ]


def draw(table: Table, path: Path) -> None:
    """A: times and the line. B: errors over time."""
    line = table.where(kind="line").rows[0]
    with figure(path, size=(10.8, 4.5), ncols=2) as (drawn, (left, right)):
        for fraction in FRACTIONS:
            color = fraction_color(fraction)
            dots, curve = (table.where(kind=kind, keep_fraction=fraction) for kind in ("simulation", "theory"))
            style = {"color": color, "markersize": 4.5, "markeredgecolor": "white", "markeredgewidth": 0.4}
            left.plot(dots["alpha_prune"], 1000 * dots["seconds"], "o", **style)
            right.plot(1000 * curve["seconds"], curve["test_error"], color=color, linewidth=1.5)
            right.plot(1000 * dots["seconds"], dots["test_error"], "o", zorder=5, **style)
        x = np.array([0.0, table.where(kind="theory")["alpha_prune"].max()])
        label = f"{1000 * line['slope']:.2g} $\\alpha_{{\\rm prune}}$ {1000 * line['intercept']:+.2g} ms"
        left.plot(
            x,
            1000 * (line["slope"] * x + line["intercept"]),
            color="black",
            linewidth=1.6,
            label=f"{label}, $r^2$ = {line['r_squared']:.2f}",
        )
        left.set(xlim=(0, None), ylim=(0, None), xlabel=r"kept examples per weight $\alpha_{\rm prune}$")
        left.set_ylabel("time to train (ms)")
        left.legend(loc="upper left")
        frontier = table.where(kind="frontier")
        label = f"Pareto frontier, f ≥ {min(FRACTIONS):g}"
        right.plot(1000 * frontier["seconds"], frontier["test_error"], color=FRONTIER_COLOR, linewidth=2, label=label)
        right.plot([], [], color="black", linewidth=1.5, label="theory, time from the line in A")
        right.plot([], [], "o", color="black", markersize=4.5, label="simulation, measured time")
        right.set(xscale="log", yscale="log", xlabel="time to train (ms)", ylabel=r"test error $\varepsilon$")
        right.legend(loc="lower left")
        panel_letter(left, "A", "time of one max-margin solution")
        panel_letter(right, "B", "test error against compute")
        fraction_bar(drawn, right, FRACTIONS)
