"""Fig. 1F: information gained per kept example, for several keep_fractions.

Claims: at a fixed keep_fraction the gain decays as 1 / alpha_prune; pruning raises it; and with ever more pruning it
converges to 1 nat per example however many there are, which is why the error can fall exponentially.

    paredown reproduce fig1f

Expected: 15 seconds, twice that at `--size paper`; theory only. The first two claims hold. The third does not: 1 nat
comes from setting q = R (the overlap of two students and that of student and teacher), which pruning by the teacher
breaks. Dashed: that form, where it has a solution at all. Solid: the exact one. As keep_fraction goes to 0 the exact
gain rises beyond 1 below alpha_prune = 2, where it diverges, and falls as 1 / alpha_prune above.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paredown.plots import COLORS, RANDOM_COLOR, figure, fraction_bar, fraction_color, plain_axis
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.drawing import alpha_axis
from paredown.reproduce.setup import Setup
from paredown.reproduce.theory_checks import exponent, floats
from paredown.theory import information_gain

_FRACTIONS = (1.0, 0.8, 0.6, 0.4, 0.2, 0.1, 0.01)
_EXTREME = (0.5, 1.0, 1.5, 3.0, 5.0, 10.0)  # alpha_prune at which the smallest fraction is reported
_FAR = (100.0, 200.0)
_PAPER_COLOR, _DASHES = COLORS[2], (0, (2.5, 1.8))


def measure(setup: Setup) -> FigureTable:
    """Both forms for every fraction."""
    table = FigureTable()
    alpha = np.geomspace(0.1, 20, setup.size.points)
    fine = np.unique(np.concatenate([alpha, np.linspace(1.4, 2.6, setup.size.points // 2)]))  # around the peak
    few = np.unique(np.concatenate([alpha[::3], np.linspace(1.8, 4, setup.size.points // 4), [20.0]]))
    for fraction in setup.track(_FRACTIONS, "solving", total=len(_FRACTIONS)):
        gain = information_gain(fine, fraction)
        table.add("theory", form="exact", keep_fraction=fraction, alpha_prune=fine, info_gain=gain)
        if fraction < 1:  # without pruning q = R is exact
            gain = information_gain(few, fraction, form="paper", missing="nan")
            table.add("theory", form="paper", keep_fraction=fraction, alpha_prune=few, info_gain=gain)
        far = information_gain(np.array(_FAR), fraction)
        table.add("far", form="exact", keep_fraction=fraction, alpha_prune=_FAR, info_gain=far)
    smallest = min(_FRACTIONS)
    gain = information_gain(np.array(_EXTREME), smallest)
    table.add("extreme", form="exact", keep_fraction=smallest, alpha_prune=_EXTREME, info_gain=gain)
    return table


def judge(table: FigureTable) -> list[Claim]:
    """Decay, gain by pruning, and the limit of 1 nat."""
    exact, far, extreme = table.where(kind="theory", form="exact"), table.where(kind="far"), table.where(kind="extreme")
    slopes = [float(exponent(_FAR, far.where(keep_fraction=f)["info_gain"])[0]) for f in _FRACTIONS]
    strong = exact.where(keep_fraction=0.1)["info_gain"]
    unpruned = exact.where(keep_fraction=1.0)["info_gain"]
    raised = [bool((exact.where(keep_fraction=f)["info_gain"] > unpruned).all()) for f in _FRACTIONS[1:]]
    paper = table.where(kind="theory", form="paper")["info_gain"]
    return [
        Claim.exact(
            "At a fixed keep_fraction the information gain decays as 1 / alpha_prune.",
            bool(np.abs(np.array(slopes) + 1).max() < 0.02),
            f"Exponents at alpha_prune = 100 for keep_fraction {floats(_FRACTIONS)}: {floats(slopes, 4)}.",
        ),
        Claim.exact(
            "Pruning raises the information gained per example.",
            all(raised),
            f"The exact gain is above the unpruned one at every alpha_prune for {sum(raised)} of {len(raised)} "
            f"fractions; at alpha_prune = {exact['alpha_prune'][0]:g} it is {strong[0]:.3f} "
            f"for keep_fraction 0.1 and {unpruned[0]:.3f} without pruning.",
        ),
        Claim.exact(
            "With ever more pruning the information gain converges to 1 nat per example.",
            bool(np.abs(extreme["info_gain"] - 1).max() < 0.1),
            f"Exact, for keep_fraction {extreme['keep_fraction'][0]:g} at alpha_prune = "
            f"{floats(extreme['alpha_prune'])}: {floats(extreme['info_gain'])} nats. The form with q = R, "
            "from which 1 nat follows, has no solution at "
            f"{int(np.isnan(paper).sum())} of {len(paper)} points.",
        ),
    ]


def draw(table: FigureTable, path: Path) -> None:
    """Exact curves solid, those with q = R dashed, and the 1 nat that was claimed."""
    with figure(path, size=(7.2, 5.0)) as (drawn, axes):
        for fraction in _FRACTIONS:
            curves = table.where(kind="theory", keep_fraction=fraction)
            exact, paper = (curves.where(form=form) for form in ("exact", "paper"))
            axes.plot(*exact.columns("alpha_prune", "info_gain"), color=fraction_color(fraction), linewidth=1.7)
            solved = ~np.isnan(paper["info_gain"])
            alpha, gain = paper["alpha_prune"][solved], paper["info_gain"][solved]
            axes.plot(alpha, gain, color=_PAPER_COLOR, linestyle=_DASHES, linewidth=1.9, zorder=3)
            if len(alpha) and not solved[0]:  # the branch begins here
                axes.plot(alpha[0], gain[0], "o", color=_PAPER_COLOR, markersize=4.5, zorder=3)
        axes.axhline(1, color=RANDOM_COLOR, linestyle=":", linewidth=1.3)
        axes.annotate("1 nat", (0.105, 1.05), color=RANDOM_COLOR)
        x = np.array([5.0, 20.0])
        axes.plot(x, 1.5 / x, ":", color=RANDOM_COLOR, linewidth=1.3)
        axes.annotate(r"$\propto 1/\alpha_{\rm prune}$", (9.5, 0.18), color=RANDOM_COLOR)
        axes.plot([], [], color="black", linewidth=1.7, label="exact")
        label = "with q = R imposed; no solution left of the dots"
        axes.plot([], [], "o", color=_PAPER_COLOR, linestyle=_DASHES, linewidth=1.9, markersize=4.5, label=label)
        alpha_axis(axes, [0.1, 0.2, 0.5, 1, 2, 5, 10, 20])
        axes.set(yscale="log", ylabel="information gain (nats per example)")
        axes.set_title("Information in one more of the hardest examples", loc="left")
        plain_axis(axes.yaxis, [0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20])
        axes.legend(loc="lower left")
        fraction_bar(drawn, axes, _FRACTIONS)
