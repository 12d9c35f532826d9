"""Fig. 1A: test error against alpha_prune with a perfect probe, theory and simulation.

Claims: the theory matches simulations at N = 200; a fixed keep_fraction ends in the power law error ~ 1 / alpha_prune;
keeping the hardest examples is worse than random pruning when data are scarce and better when they are abundant;
choosing keep_fraction anew for each alpha_prune beats every power law.

    paredown reproduce fig1a

Expected: 30 seconds (`--size paper`: 5 minutes). Dots on the curves, all exponents near -1 at alpha_prune = 1000,
crossings between 0.97 and 1.87. The red frontier depends on how little may be kept: it falls to zero error at
alpha_prune = 2 if there is no limit, and becomes the curve of the smallest keep_fraction if there is one.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paredown.plots import FRONTIER_COLOR, RANDOM_COLOR, figure, fraction_bar
from paredown.reproduce.base import Claim, FigureTable, pick
from paredown.reproduce.drawing import alpha_axis, draw_theory
from paredown.reproduce.setup import Setup
from paredown.reproduce.theory_checks import add_dots, agreement, crossing, exponent, floats
from paredown.theory import classical_constant, pareto_frontier, solve

_FRACTIONS = (1.0, 0.9, 0.8, 0.7, 0.6, 0.5, 0.4, 0.3, 0.2, 0.1)
CUT_OFFS = (0.1, 0.01)  # smallest keep_fraction allowed on the frontier; the first is the smallest curve drawn
_FAR = (1000.0, 2000.0)  # where the power law is read off


def measure(setup: Setup) -> FigureTable:
    """Curves and far ends for every fraction, frontiers for two cut-offs, and the dots."""
    table = FigureTable()
    alpha = np.geomspace(0.1, 10, setup.size.points)
    for fraction in _FRACTIONS:
        for kind, at in (("theory", alpha), ("far", np.array(_FAR))):
            table.add(kind, keep_fraction=fraction, alpha_prune=at, test_error=solve(at, fraction).test_error)
    # Points where the frontier turns, which a coarse curve would miss.
    fine = np.unique(np.concatenate([alpha, np.linspace(1.6, 2.4, 5 + setup.size.points // 2)]))
    for cut_off in CUT_OFFS:
        frontier = pareto_frontier(fine, min_keep_fraction=cut_off)
        columns = pick(frontier, "keep_fraction", "alpha_prune", "alpha_tot", "test_error")
        table.add("frontier", **columns, cut_off=cut_off)
    free = pareto_frontier(2.0)
    table.add("frontier without cut-off", keep_fraction=free.keep_fraction, alpha_prune=2.0, test_error=free.test_error)
    points = [
        {"alpha_prune": float(a), "keep_fraction": f} for f in _FRACTIONS for a in np.geomspace(0.3, 8, setup.size.dots)
    ]
    add_dots(table, setup, points)
    return table


def judge(table: FigureTable) -> list[Claim]:
    """The four claims."""
    curves, far = table.where(kind="theory"), table.where(kind="far")
    slopes = [float(exponent(_FAR, far.where(keep_fraction=f)["test_error"])[0]) for f in _FRACTIONS]
    random = curves.where(keep_fraction=1.0)
    crossings = {
        f: crossing(random["alpha_prune"], curves.where(keep_fraction=f)["test_error"] - random["test_error"])
        for f in _FRACTIONS[1:]
    }
    once = all(len(at) == 1 for at in crossings.values())
    worse_first = all(curves.where(keep_fraction=f)["test_error"][0] > random["test_error"][0] for f in crossings)
    places = [at[0] for at in crossings.values() if at]
    frontier = table.where(kind="frontier", cut_off=CUT_OFFS[0])
    steepest = float(exponent(frontier["alpha_prune"], frontier["test_error"]).min())
    last = float(exponent(frontier["alpha_prune"], frontier["test_error"])[-1])
    free = float(table.where(kind="frontier without cut-off")["test_error"][0])
    return [
        agreement(table.where(kind="simulation")),
        Claim.exact(
            "At a fixed keep_fraction the error ends in the power law 1 / alpha_prune.",
            bool(np.abs(np.array(slopes) + 1).max() < 0.02),
            f"Exponents at alpha_prune = 1000 for keep_fraction {floats(_FRACTIONS)}: {floats(slopes, 4)}.",
        ),
        Claim.exact(
            "Keeping the hardest is worse than random when data are scarce and better when they are abundant.",
            once and worse_first,
            f"The curves for keep_fraction {floats(_FRACTIONS[1:])} cross the unpruned one at alpha_prune = "
            f"{floats(places)}.",
        ),
        Claim.exact(
            "The Pareto frontier beats every power law.",
            free == 0.0 and steepest < -1.1,
            f"Without a limit on keep_fraction the frontier is {free:g} at alpha_prune = 2. Where at least "
            f"{CUT_OFFS[0]:g} must be kept its local exponent falls to {steepest:.1f} near 2 and is back at {last:.2f} "
            "at alpha_prune = 10: every fixed limit ends in the power law.",
        ),
    ]


def draw(table: FigureTable, path: Path) -> None:
    """Curves from dark (all kept) to light, the frontier in red."""
    with figure(path, size=(7.2, 5.0)) as (drawn, axes):
        draw_theory(axes, table, _FRACTIONS)
        for cut_off, line in zip(CUT_OFFS, ("-", "--"), strict=True):
            frontier = table.where(kind="frontier", cut_off=cut_off)
            style = {"color": FRONTIER_COLOR, "linewidth": 2.2, "alpha": 0.9, "zorder": 4}
            label = f"Pareto frontier, f ≥ {cut_off:g}"
            axes.plot(*frontier.columns("alpha_prune", "test_error"), line, **style, label=label)
        x = np.array([2.5, 10.0])
        axes.plot(x, 1.35 * classical_constant() / x, ":", color=RANDOM_COLOR, linewidth=1.3)
        axes.annotate(r"$\propto 1/\alpha_{\rm prune}$", (5.6, 0.135), color=RANDOM_COLOR)
        dots = table.where(kind="simulation").rows[0]
        axes.plot([], [], "-", color="black", linewidth=1.5, label="theory")
        simulated = f"simulation, N = {dots['n_features']:g}, {dots['draws']:g} draws"
        axes.plot([], [], "o", color="black", markersize=4.2, label=simulated)
        alpha_axis(axes, [0.1, 0.2, 0.5, 1, 2, 5, 10])
        axes.set(yscale="log", ylim=(4e-4, 0.6), ylabel=r"test error $\varepsilon$")
        axes.set_title("Keeping the hardest fraction f, perfect probe", loc="left")
        axes.legend(loc="lower left")
        fraction_bar(drawn, axes, _FRACTIONS)
