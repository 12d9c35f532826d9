"""Fig. 1C: keeping the hardest against keeping the easiest, over alpha_tot and keep_fraction.

Claims: for every keep_fraction the easy end is better below some amount of data and the hard end above it, and the
transition is sharper the less is kept.

    paredown reproduce fig1c

Expected: 30 seconds (`--size paper`: 2 minutes). One crossing for each keep_fraction, at alpha_prune = 7.73, 2.96,
2.30, 2.07 and 2.01 for keep_fraction 0.8, 0.6, 0.4, 0.2 and 0.1; simulated winners on the right side of the boundary.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paredown.plots import figure, plain_axis
from paredown.reproduce.base import Claim, FigureTable, pick
from paredown.reproduce.setup import Setup
from paredown.reproduce.theory_checks import add_dots, crossing, floats
from paredown.theory import phase_diagram

TOLD = (0.1, 0.2, 0.4, 0.6, 0.8)  # fractions whose crossing is reported and checked by simulation
_SIDES = (0.6, 1.6)  # simulated at these multiples of the crossing


def measure(setup: Setup) -> FigureTable:
    """Errors of both ends on a grid, the boundary between them, and simulations on either side of it."""
    table = FigureTable()
    alpha_tot = np.geomspace(0.5, 100, 2 * setup.size.points)
    fractions = np.linspace(0.05, 0.95, setup.size.points)
    diagram = phase_diagram(alpha_tot, fractions)
    table.add(
        "theory",
        keep_fraction=fractions,
        alpha_tot=alpha_tot[:, None],
        **pick(diagram, "hard_error", "easy_error"),
        hard_minus_easy=-diagram.difference,
    )
    along = np.geomspace(0.5, 200, 8 * setup.size.points)
    all_fractions = np.unique(np.concatenate([np.linspace(0.05, 0.95, setup.size.points), TOLD]))
    differences = -phase_diagram(along, all_fractions).difference
    for fraction, difference in zip(all_fractions, differences.T, strict=True):
        places = crossing(along, difference)
        slope = np.gradient(difference, np.log(along))
        table.add(
            "boundary",
            keep_fraction=fraction,
            alpha_tot=places or np.nan,
            alpha_prune=fraction * np.array(places or np.nan),
            crossings=len(places),
            sharpness=-float(np.interp(np.log(places[0]), np.log(along), slope)) if places else np.nan,
        )
    points = [
        {"alpha_prune": side * fraction * float(alpha_tot), "keep_fraction": fraction, "strategy": end}
        for fraction in TOLD
        for alpha_tot in table.where(kind="boundary", keep_fraction=fraction)["alpha_tot"][:1]
        for side in _SIDES
        for end in ("hard", "easy")
    ]
    add_dots(table, setup, points)
    return table


def judge(table: FigureTable) -> list[Claim]:
    """One crossing each, confirmed by simulation; sharper as less is kept."""
    boundary = table.where(kind="boundary")
    told = [boundary.where(keep_fraction=f).rows[0] for f in TOLD]
    won = _winners(table)
    hard, easy = (table.where(kind="simulation", strategy=end) for end in ("hard", "easy"))
    predicted = np.where(hard["theory_error"] < easy["theory_error"], "hard", "easy")
    wins, decided = int((won == predicted).sum()), int((won != "").sum())
    sharpness = np.array([row["sharpness"] for row in told])
    return [
        Claim.exact(
            "The easy end is better with little data and the hard end with much, for every keep_fraction.",
            bool((boundary["crossings"] == 1).all()) and wins >= 0.9 * decided,
            f"One crossing at {int((boundary['crossings'] == 1).sum())} of {len(boundary)} fractions; for "
            f"keep_fraction {floats(TOLD)} it lies at alpha_prune = {floats([row['alpha_prune'] for row in told])}. Of "
            f"{len(won)} simulations at {floats(_SIDES)} times the crossing {decided} were decided by more than two "
            f"standard errors, {wins} of them as the theory says.",
        ),
        Claim.exact(
            "The transition is sharper the less is kept.",
            bool((np.diff(sharpness) < 0).all()),
            "Change of the difference in test error per factor e of alpha_tot, at the crossing, for keep_fraction "
            f"{floats(TOLD)}: {floats(sharpness)}.",
        ),
    ]


def _winners(table: FigureTable) -> NDArray[np.str_]:
    """The end that won each pair of simulations by more than two standard errors; "" where neither did."""
    hard, easy = (table.where(kind="simulation", strategy=end) for end in ("hard", "easy"))
    z = (easy["test_error"] - hard["test_error"]) / np.hypot(easy["stderr"], hard["stderr"])
    return np.where(z > 2, "hard", np.where(z < -2, "easy", ""))


def draw(table: FigureTable, path: Path) -> None:
    """Green where hard is better, blue where easy is, as the regions of Fig. 1B."""
    from matplotlib.colors import LinearSegmentedColormap, SymLogNorm

    theory, boundary = table.where(kind="theory"), table.where(kind="boundary")
    difference = theory.grid("hard_minus_easy", "alpha_tot", "keep_fraction")
    colors = LinearSegmentedColormap.from_list("hard or easy", ["#00523A", "#4DBB96", "#FAFAFA", "#5AA5D8", "#003E6B"])
    with figure(path, size=(6.8, 4.8)) as (drawn, axes):
        picture = axes.pcolormesh(
            theory.values("alpha_tot"),
            theory.values("keep_fraction"),
            difference.T,
            cmap=colors,
            norm=SymLogNorm(0.003, linscale=0.5, vmin=-0.4, vmax=0.4),  # hard gains little beside what it can lose
            shading="gouraud",
        )
        axes.plot(boundary["alpha_tot"], boundary["keep_fraction"], color="black", linewidth=1.8, label="equal errors")
        won, dots = _winners(table), table.where(kind="simulation", strategy="hard")
        for name, marker, color in (("hard", "^", "#00523A"), ("easy", "v", "#003E6B"), ("", "D", "#777777")):
            axes.plot(
                dots["alpha_tot"][won == name],
                dots["keep_fraction"][won == name],
                marker,
                color=color,
                markeredgecolor="white",
                markersize=8 if name else 6,
                label=f"simulated: {name} won" if name else "simulated: undecided",
            )
        axes.set(xscale="log", xlim=(0.5, 100), ylim=(0.05, 0.95))
        axes.set(xlabel=r"examples per weight before pruning $\alpha_{\rm tot}$", ylabel="keep_fraction f")
        axes.set_title("Which end to keep", loc="left")
        axes.grid(False)
        plain_axis(axes.xaxis, [0.5, 1, 2, 5, 10, 20, 50, 100])
        axes.legend(loc="lower left", frameon=True, framealpha=0.9)
        bar = drawn.colorbar(picture, ax=axes, label="test error, keep hard − keep easy", pad=0.015, aspect=30)
        plain_axis(bar.ax.yaxis, [-0.3, -0.1, -0.03, -0.01, 0, 0.01, 0.03, 0.1, 0.3])
