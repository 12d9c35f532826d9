"""Appendix figure on the optimal pruning policy: from easy to hard as alpha_prune grows.

Claims: switching from easy to hard lowers the Pareto frontier where data are few; the best window of margins lies below
both and slides from easy to hard; if one single margin could be chosen, its place would move from infinity to zero, and
the student would recover the teacher at every alpha_prune.

    paredown reproduce fig_policy

Expected: 25 seconds (`--size paper`: 1 minute). The claims on switching and on windows hold. Those on a single margin
do not: below alpha_prune = 2 the error falls as the margin grows and is zero only in the limit, and from 2 on every
place is as good as any other. The paper drew the frontier of windows by hand; here it is solved and simulated.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from paredown.plots import COLORS, FRONTIER_COLOR, OPTIMUM_COLOR, RANDOM_COLOR, figure, panel_letter, plain_axis
from paredown.reproduce.base import Claim, FigureTable, pick
from paredown.reproduce.drawing import alpha_axis, draw_dots
from paredown.reproduce.setup import Setup
from paredown.reproduce.theory_checks import add_dots, agreement, crossing, floats
from paredown.theory import optimal_delta, optimal_window, pareto_frontier, solve

_CUT_OFF = 0.1  # smallest keep_fraction allowed; all three frontiers get below any error without one
DELTA_ALPHAS = (0.25, 0.5, 1.0, 1.5, 1.9, 2.0, 3.0)
_TAIL = 5  # of the largest margins, from which the fall of the error is read
_AS_ONE_OVER = 0.05  # deviation of its exponent from -1
_POSITIONS = np.geomspace(0.1, 100, 31)  # of the single margin
_NAMES = {"hard": "keep hard", "easy": "keep easy", "window": "best window"}
_COLORS = {"hard": FRONTIER_COLOR, "easy": OPTIMUM_COLOR, "window": COLORS[0]}
_LINES = {"hard": "-", "easy": "--", "window": "-"}
_TICKS = [0.1, 0.2, 0.5, 1, 2, 5, 10]  # of alpha_prune


def measure(setup: Setup) -> FigureTable:
    """Three frontiers, the best windows along one of them, and the errors of single margins."""
    table = FigureTable()
    coarse, turn = np.geomspace(0.1, 10, 2 * setup.size.points // 3), np.linspace(1.6, 2.6, setup.size.points // 3)
    alpha = np.unique(np.concatenate([coarse, turn]))
    table.add("random", keep_fraction=1.0, alpha_prune=alpha, test_error=solve(alpha, 1.0).test_error)
    for end in ("hard", "easy"):
        best = pareto_frontier(alpha, strategy=end, min_keep_fraction=_CUT_OFF)
        table.add("frontier", strategy=end, **pick(best, "keep_fraction", "alpha_prune", "test_error"))
    # A narrower window is never worse: the best one is as narrow as allowed (checked at twice the width by `judge`).
    for a in setup.track(alpha, "windows", total=len(alpha)):
        for fraction in (_CUT_OFF, 2 * _CUT_OFF):
            best = optimal_window(float(a), fraction)
            table.add(
                "frontier" if fraction == _CUT_OFF else "wider window",
                strategy="window",
                keep_fraction=fraction,
                alpha_prune=a,
                test_error=best.test_error,
                lower=best.window[0],
                upper=best.window[1],
            )
    for a in DELTA_ALPHAS:
        delta = optimal_delta(a)
        errors = [delta.error_at(float(z)) for z in _POSITIONS]
        table.add("delta", alpha_prune=a, position=_POSITIONS, test_error=errors, best_position=delta.position)
    points: list[dict[str, Any]] = [
        {"alpha_prune": a, "strategy": "window", "window": optimal_window(a, _CUT_OFF).window}
        for a in np.geomspace(0.3, 8, setup.size.dots).tolist()
    ]
    add_dots(table, setup, points)
    return table


def judge(table: FigureTable) -> list[Claim]:
    """Switching, windows and single margins."""
    hard, easy, window = (table.where(kind="frontier", strategy=name) for name in _NAMES)
    alpha = hard["alpha_prune"]
    crossings = crossing(alpha, easy["test_error"] - hard["test_error"])
    wider = table.where(kind="wider window")["test_error"]
    gain = window["test_error"] / np.minimum(hard["test_error"], easy["test_error"])
    most = int(np.argmin(gain))
    centre = window["lower"]
    deltas = [table.where(kind="delta", alpha_prune=a) for a in DELTA_ALPHAS]
    places = [float(delta["best_position"][0]) for delta in deltas]
    finite = [float(delta["test_error"].min()) for delta in deltas]
    return [
        Claim.exact(
            "Switching from easy to hard as alpha_prune grows lowers the Pareto frontier where data are few.",
            len(crossings) == 1 and bool(easy["test_error"][0] < hard["test_error"][0]),
            f"Keeping at least {_CUT_OFF:g}, easy is better below alpha_prune = {floats(crossings)}; at "
            f"{alpha[0]:g} its error is {easy['test_error'][0]:.3f} against {hard['test_error'][0]:.3f}.",
        ),
        Claim.exact(
            "The best window lies below both ends and slides from easy to hard.",
            bool((gain <= 1 + 1e-9).all() and gain[most] < 0.99 and (np.diff(centre) <= 1e-3).all())
            and bool((window["test_error"] <= wider).all()),
            f"At best its error is {gain[most]:.2f} times the better end's, at alpha_prune = {alpha[most]:.2g}; its "
            f"lower edge moves from |z| = {centre[0]:.2f} to {centre[-1]:.2f}; twice as wide a window is "
            f"better at {int((wider < window['test_error']).sum())} of {len(wider)} points.",
        ),
        agreement(table.where(kind="simulation")),
        Claim.exact(
            "The best single margin moves from infinity to zero as alpha_prune grows.",
            bool(np.isfinite(places).all() and (np.diff(places) <= 0).all()),
            f"Best margin at alpha_prune = {floats(DELTA_ALPHAS)}: {floats(places)} (infinite: the error "
            "keeps falling as the margin grows; nan: every margin gives zero error).",
        ),
        _recovered(deltas, finite),
    ]


def _recovered(deltas: list[FigureTable], finite: list[float]) -> Claim:
    """Zero error at some margin, or errors that keep falling to zero as the margin grows, as one over it."""
    falling = []
    for delta in deltas:
        last = np.log(delta["test_error"][-_TAIL:]) if delta["test_error"][-1] > 0 else None
        slope = None if last is None else float(np.polyfit(np.log(delta["position"][-_TAIL:]), last, 1)[0])
        falling.append(slope is None or abs(slope + 1) < _AS_ONE_OVER)
    reached = [error < 1e-12 for error in finite]
    claim = Claim.exact(
        "With the best single margin the student recovers the teacher at every alpha_prune.",
        all(falling)
        and all(zero or not np.isfinite(d["best_position"][0]) for zero, d in zip(reached, deltas, strict=True)),
        f"At alpha_prune = {floats(DELTA_ALPHAS)} the best margin up to {_POSITIONS[-1]:g} leaves an error of "
        f"{floats(finite, 2)}; where it is not zero it falls as one over the margin, and is zero in the limit alone.",
    )
    return claim if all(reached) or not claim.held else replace(claim, qualifier="in the limit")


def draw(table: FigureTable, path: Path) -> None:
    """A: frontiers. B: errors of a single margin. C: the best window."""
    with figure(path, size=(12.6, 4.3), ncols=3, width_ratios=[1.15, 1, 1]) as (_, panels):
        _frontiers(panels[0], table)
        _deltas(panels[1], table)
        _windows(panels[2], table)
        panel_letter(panels[0], "A", f"Pareto frontiers, f ≥ {_CUT_OFF:g}")
        panel_letter(panels[1], "B", "one single margin $|z| = z^*$")
        panel_letter(panels[2], "C", f"best window of margins, f = {_CUT_OFF:g}")


def _frontiers(axes: Any, table: FigureTable) -> None:
    random, dots = table.where(kind="random"), table.where(kind="simulation")
    axes.plot(*random.columns("alpha_prune", "test_error"), color=RANDOM_COLOR, linewidth=1.5, label="random")
    for name, label in _NAMES.items():
        curve = table.where(kind="frontier", strategy=name).columns("alpha_prune", "test_error")
        axes.plot(*curve, _LINES[name], color=_COLORS[name], linewidth=2, label=label)
    label = f"best window, simulated, N = {dots['n_features'][0]:g}"
    draw_dots(axes, dots, _COLORS["window"], markersize=5, label=label)
    alpha_axis(axes, _TICKS)
    axes.set(yscale="log", ylabel=r"test error $\varepsilon$")
    axes.legend(loc="lower left")


def _deltas(axes: Any, table: FigureTable) -> None:
    from matplotlib import colormaps

    scarce = [a for a in DELTA_ALPHAS if a < 2]
    for number, a in enumerate(scarce):
        delta = table.where(kind="delta", alpha_prune=a)
        color = colormaps["YlGnBu"](0.35 + 0.65 * number / (len(scarce) - 1))
        axes.plot(*delta.columns("position", "test_error"), color=color, linewidth=1.8, label=f"{a:g}")
    axes.plot([], [], linestyle="none", label="2 and more: zero")
    axes.set(xscale="log", yscale="log", xlim=(0.1, 100), ylim=(1e-4, 0.6))
    axes.set(xlabel="margin kept $z^*$", ylabel=r"test error $\varepsilon$")
    plain_axis(axes.xaxis, [0.1, 1, 10, 100])
    axes.legend(title=r"$\alpha_{\rm prune}$", loc="lower left", alignment="left")


def _windows(axes: Any, table: FigureTable) -> None:
    for kind, fraction, alpha in (("wider window", 2 * _CUT_OFF, 0.25), ("frontier", _CUT_OFF, 0.6)):
        x, lower, upper = table.where(kind=kind, strategy="window").columns("alpha_prune", "lower", "upper")
        style = {"color": _COLORS["window"], "alpha": alpha, "linewidth": 0, "label": f"f = {fraction:g}"}
        axes.fill_between(x, lower, np.minimum(upper, 40), **style)
    alpha_axis(axes, _TICKS)
    axes.set(ylim=(0, 3.5), ylabel="margin $|z|$")
    axes.annotate("easy", (0.97, 0.95), xycoords="axes fraction", ha="right", color=RANDOM_COLOR)
    axes.annotate("hard", (0.03, 0.02), xycoords="axes fraction", color=RANDOM_COLOR)
    axes.legend(loc="center right")
