"""Fig. 1E: test accuracy over keep_fraction and alpha_prune, and the best keep_fraction.

Claims: at each alpha_prune there is an optimal keep_fraction, and it falls as alpha_prune grows.

    paredown reproduce fig1e

Expected: 5 seconds at any size; theory only. The optimum is inside below alpha_prune = 2. From there on the exact
solution has none: the error falls all the way as less is kept, and the best fraction is the smallest one allowed.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paredown.plots import OPTIMUM_COLOR, figure, plain_axis
from paredown.reproduce.base import Claim, FigureTable, pick
from paredown.reproduce.drawing import alpha_axis
from paredown.reproduce.setup import Setup
from paredown.reproduce.theory_checks import floats
from paredown.theory import pareto_frontier, solve

_CUT_OFF = 0.01  # smallest keep_fraction drawn
_LEVELS = (0.6, 0.7, 0.8, 0.9, 0.95, 0.99)  # of accuracy, drawn as lines


def measure(setup: Setup) -> FigureTable:
    """Accuracy on a grid, and the frontier along it."""
    table = FigureTable()
    turn = np.linspace(1.5, 2.2, 1 + setup.size.points // 2)  # the best fraction falls off a cliff here
    alpha = np.unique(np.concatenate([np.geomspace(0.1, 10, setup.size.points), turn, [2.0]]))
    fractions = np.geomspace(_CUT_OFF, 1, setup.size.points)
    accuracy = 1 - solve(alpha[:, None], fractions).test_error
    table.add("theory", keep_fraction=fractions, alpha_prune=alpha[:, None], accuracy=accuracy)
    best = pareto_frontier(alpha, min_keep_fraction=_CUT_OFF)
    columns = pick(best, "keep_fraction", "alpha_prune")
    table.add("best", **columns, accuracy=1 - best.test_error, at_cut_off=best.at_limit.astype(int))
    return table


def judge(table: FigureTable) -> list[Claim]:
    """Is there always an optimum inside, and does it fall?"""
    best = table.where(kind="best")
    alpha, fractions, held_up = best["alpha_prune"], best["keep_fraction"], best["at_cut_off"] == 1
    first = float(alpha[held_up].min()) if held_up.any() else np.inf
    places = [1.0, 1.5, 1.8]
    told = np.interp(places, alpha, fractions)
    return [
        Claim.exact(
            "The optimal keep_fraction falls as alpha_prune grows.",
            bool((np.diff(fractions) <= 1e-4).all() and fractions[-1] < fractions[0]),
            f"It is {floats(told)} at alpha_prune = {floats(places)} and {fractions[-1]:.3g} at {alpha[-1]:g}.",
        ),
        _refined(
            "For every alpha_prune there is an optimal keep_fraction.",
            held_up,
            first,
            f"There is one below alpha_prune = {first:.3g}. From there on the best is the smallest fraction allowed, "
            f"here {_CUT_OFF:g}: the less is kept, the lower the error."
            if held_up.any()
            else f"Inside ({_CUT_OFF:g}, 1] for every alpha_prune up to {alpha[-1]:g}.",
        ),
    ]


def _refined(claim: str, held_up: NDArray[np.bool_], first: float, evidence: str) -> Claim:
    """True below some alpha_prune: then the claim is not wrong so much as in need of that condition."""
    judged = Claim.exact(claim, not held_up.any(), evidence)
    if judged.held or held_up.all():
        return judged
    return replace(judged, qualifier=f"refined: only below alpha_prune = {first:.3g}")


def draw(table: FigureTable, path: Path) -> None:
    """Accuracy as a heat map, the optimum in purple."""
    theory, best = table.where(kind="theory"), table.where(kind="best")
    accuracy = theory.grid("accuracy", "alpha_prune", "keep_fraction")
    with figure(path, size=(6.8, 4.8)) as (drawn, axes):
        alpha, fractions = theory.values("alpha_prune"), theory.values("keep_fraction")
        picture = axes.pcolormesh(alpha, fractions, accuracy.T, cmap="YlGnBu_r", vmin=0.5, vmax=1, shading="gouraud")
        tones = ["#FFFFFF"] * 2 + ["#444444"] * 4  # seen on the dark and on the light part
        lines = axes.contour(alpha, fractions, accuracy.T, _LEVELS, colors=tones, linewidths=0.9)
        label = r"best fraction $f_{\rm opt}$" + f", f ≥ {_CUT_OFF:g}"
        axes.plot(*best.columns("alpha_prune", "keep_fraction"), color=OPTIMUM_COLOR, linewidth=3, label=label)
        alpha_axis(axes, [0.1, 0.2, 0.5, 1, 2, 5, 10])
        axes.set(yscale="log", ylim=(_CUT_OFF * 0.97, 1.04), ylabel="keep_fraction f")
        axes.set_title("Test accuracy of keeping the hardest, perfect probe", loc="left")
        axes.grid(False)
        plain_axis(axes.yaxis, [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1])
        axes.legend(loc="lower left", frameon=True, framealpha=0.9)
        bar = drawn.colorbar(picture, ax=axes, label="test accuracy", pad=0.015, aspect=30)
        bar.add_lines(lines)
        bar.set_ticks([0.5, *_LEVELS], labels=[f"{level:g}" for level in (0.5, *_LEVELS)])
