"""Appendix figure 'Breaking compute scaling laws via data pruning', panel A: test error against the time to train.

Claims: the time to find the max-margin student grows linearly with alpha_prune across all fractions (the paper, with
CVXPY: 0.96 alpha_prune + 0.80 seconds), so that pruning also beats the power law in compute.

    paredown reproduce fig_compute_a

Expected: 20 seconds (`--size paper`: 4 minutes). Times are this machine's, so they differ from run to run; they are
taken on one core, and on a busy machine mean little. Each fraction has a line of its own: pruned sets take up to twice
as long as unpruned ones of equal size, because more of their examples touch the margin, and one line for all explains
about 80 %. Yet in the time that unpruned data need for an error of 0.06 the hardest 10 % reach about 0.01.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paredown.laws import better_than
from paredown.plots import FRONTIER_COLOR, figure, fraction_bar, fraction_color, panel_letter
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.judging import PERCENT, judge_points
from paredown.reproduce.setup import Setup
from paredown.reproduce.theory_checks import add_dots, floats
from paredown.theory import solve

_FRACTIONS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1)
_HALF = float(np.log(2))  # "beats": half the error in equal time, and a half of that should be seen


def measure(setup: Setup) -> FigureTable:
    """Timed dots, the line through them, and the theory's curves at the times of the line."""
    table = FigureTable()
    points = [
        {"alpha_prune": float(a), "keep_fraction": f}
        for a in np.linspace(1.5, 8, max(4, setup.size.dots))
        for f in _FRACTIONS
    ]
    add_dots(table, setup, points, timed=True)
    _add_line(table, "line of all", table.where(kind="simulation"))
    alpha = np.linspace(1.5, 8, setup.size.points)
    for fraction in _FRACTIONS:
        line = _add_line(table, "line", table.where(kind="simulation", keep_fraction=fraction), keep_fraction=fraction)
        error = solve(alpha, fraction).test_error
        table.add("theory", keep_fraction=fraction, alpha_prune=alpha, seconds=line(alpha), test_error=error)
    # Whoever has a time may also stop before it, so the best within a time never gets worse, however noisy the lines.
    measured = table.where(kind="simulation")["seconds"]
    seconds = np.geomspace(measured.min(), measured.max(), 4 * setup.size.points)
    errors = [_error_at(seconds, table.where(kind="theory", keep_fraction=fraction)) for fraction in _FRACTIONS]
    table.add("frontier", seconds=seconds, test_error=np.minimum.accumulate(np.min(errors, axis=0)))
    return table


def _error_at(seconds: NDArray[np.float64], curve: FigureTable) -> NDArray[np.float64]:
    order = np.argsort(curve["seconds"])
    return np.interp(seconds, curve["seconds"][order], curve["test_error"][order], left=0.5)


def _add_line(table: FigureTable, kind: str, dots: FigureTable, **columns: float) -> np.poly1d:
    """Regress seconds on alpha_prune and add the line to the table."""
    line = np.poly1d(np.polyfit(dots["alpha_prune"], dots["seconds"], 1))
    residual = dots["seconds"] - line(dots["alpha_prune"])
    r_squared = float(1 - residual.var() / dots["seconds"].var())
    table.add(kind, **columns, slope=float(line[1]), intercept=float(line[0]), r_squared=r_squared)
    return line


def judge(table: FigureTable) -> list[Claim]:
    """Less error in equal time; the line is that of a solver, and told but not judged."""
    common, lines = table.where(kind="line of all").rows[0], table.where(kind="line")
    return [
        Claim.not_testable(
            "The time to train grows linearly with alpha_prune, one line for all fractions.",
            "It is a claim about the solver that the paper used (CVXPY), not about pruning. With ours, "
            f"T = {1000 * common['slope']:.2g} alpha_prune {1000 * common['intercept']:+.2g} milliseconds explains "
            f"{100 * common['r_squared']:.0f} % of the variance between all dots. A line for each keep_fraction "
            f"{floats(_FRACTIONS)} has slope {floats(1000 * lines['slope'], 2)} and r^2 "
            f"{floats(lines['r_squared'], 2)}.",
        ),
        judge_points(
            "Pruning beats the power law in compute too.",
            {f"keep_fraction {min(_FRACTIONS):g}": better_than(_in_equal_time(table), least=_HALF)},
            rule="better than",
            effect=_HALF,
            unit=PERCENT,
            over="draws",
            about="log of the test error that pruned data reach in the time of the largest unpruned set, relative to "
            "that set's",
            note="The time to score the examples is not counted.",
        ),
    ]


def _in_equal_time(table: FigureTable) -> NDArray[np.float64]:
    """Draw by draw, the log of the error of the smallest fraction in equal time over the unpruned one."""
    draws = table.where(kind="draw")
    found = []
    for draw in draws.values("seed"):
        whole, pruned = (draws.where(seed=draw, keep_fraction=f) for f in (1.0, min(_FRACTIONS)))
        last = int(np.argmax(whole["alpha_prune"]))
        order = np.argsort(pruned["seconds"])
        reached = np.interp(whole["seconds"][last], pruned["seconds"][order], np.log(pruned["test_error"][order]))
        found.append(reached - np.log(whole["test_error"][last]))
    return np.array(found)


def draw(table: FigureTable, path: Path) -> None:
    """A: times and the lines. B: errors over time."""
    common = table.where(kind="line of all").rows[0]
    x = np.array([0.0, 8.0])
    with figure(path, size=(10.8, 4.5), ncols=2) as (drawn, (left, right)):
        for fraction in _FRACTIONS:
            color = fraction_color(fraction)
            dots, curve = (table.where(kind=kind, keep_fraction=fraction) for kind in ("simulation", "theory"))
            style = {"color": color, "markersize": 4.5, "markeredgecolor": "white", "markeredgewidth": 0.4}
            line = table.where(kind="line", keep_fraction=fraction).rows[0]
            left.plot(x, _milliseconds(line, x), color=color, linewidth=1)
            left.plot(dots["alpha_prune"], 1000 * dots["seconds"], "o", zorder=5, **style)
            right.plot(1000 * curve["seconds"], curve["test_error"], color=color, linewidth=1.5)
            right.plot(1000 * dots["seconds"], dots["test_error"], "o", zorder=5, **style)
        label = (
            f"all: {1000 * common['slope']:.2g} $\\alpha_{{\\rm prune}}$ {1000 * common['intercept']:+.2g} ms, "
            f"$r^2$ = {common['r_squared']:.2f}"
        )
        left.plot(x, _milliseconds(common, x), "--", color="black", linewidth=1.8, label=label)
        left.set(xlim=(0, None), ylim=(0, None), xlabel=r"kept examples per weight $\alpha_{\rm prune}$")
        left.set_ylabel("time to train (ms)")
        left.legend(loc="upper left")
        seconds, error = table.where(kind="frontier").columns("seconds", "test_error")
        label = f"best of f ≥ {min(_FRACTIONS):g} in this time"
        learnt = error < 0.5  # in less time than any solution takes there is only guessing
        right.plot(1000 * seconds[learnt], error[learnt], color=FRONTIER_COLOR, linewidth=2, label=label)
        right.plot([], [], color="black", linewidth=1.5, label="theory, time from the lines in A")
        right.plot([], [], "o", color="black", markersize=4.5, label="simulation, measured time")
        right.set(xscale="log", yscale="log", xlabel="time to train (ms)", ylabel=r"test error $\varepsilon$")
        right.legend(loc="lower left")
        panel_letter(left, "A", "time of one max-margin solution")
        panel_letter(right, "B", "test error against compute")
        fraction_bar(drawn, right, _FRACTIONS)


def _milliseconds(line: dict[str, float], alpha: NDArray[np.float64]) -> NDArray[np.float64]:
    return 1000 * (line["slope"] * alpha + line["intercept"])
