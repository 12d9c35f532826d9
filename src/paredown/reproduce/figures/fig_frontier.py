"""Appendix figure 'Scaling of the Pareto frontier', panel A: functional forms fitted to the theory's frontier.

Claim: the frontier of the perceptron falls at least exponentially, and faster: a factorial fits better than an
exponential, and that better than a power law.

    paredown reproduce fig_frontier

Expected: 5 seconds at any size; theory only. The order holds for a perfect probe, keep_fraction >= 0.1 and alpha_prune
up to 3. Both limits matter, and the paper does not state its own: without the first the frontier is zero at
alpha_prune = 2, and with it the frontier ends in the curve of the smallest fraction, so that over a long range the
power law fits best. Panel B shows which form wins for which range: exponential to 2, factorials to 3.6, exponential to
6.5, power law beyond.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paredown.plots import COLORS, OPTIMUM_COLOR, figure, panel_letter, plain_axis
from paredown.reproduce.base import Claim, FigureTable, pick
from paredown.reproduce.setup import Setup
from paredown.theory import fit_frontier, pareto_frontier

_CUT_OFF = 0.1  # smallest keep_fraction, that of the paper's curves
START, END = 0.1, 3.0  # range of alpha_prune fitted
_LONGEST = 10.0
# The paper's colours: blue, orange, red, purple.
_COLORS = {
    "power law": COLORS[0],
    "exponential": COLORS[3],
    "factorial": "#D7263D",
    "iterated factorial": OPTIMUM_COLOR,
}


def measure(setup: Setup) -> FigureTable:
    """The frontier, the four fits, and how well each fits as the range grows."""
    table = FigureTable()
    longest = np.linspace(START, _LONGEST, 100 + 2 * setup.size.points)
    frontier = pareto_frontier(longest, min_keep_fraction=_CUT_OFF)
    table.add(
        "frontier",
        **pick(frontier, "alpha_prune", "keep_fraction", "test_error"),
        at_cut_off=frontier.at_limit.astype(int),
    )
    inside = longest <= END
    for form, fit in fit_frontier(longest[inside], frontier.test_error[inside]).items():
        table.add("fit", form=form, alpha_prune=longest[inside], test_error=fit.predicted)
        goodness = pick(fit, "r_squared", "rms_log_error", "amplitude", "rate")
        table.add("goodness", form=form, alpha_prune=END, **goodness)
    ends = np.geomspace(1.0, _LONGEST, 5 + setup.size.points // 2)
    for end in setup.track(ends, "fitting", total=len(ends)):
        part = longest <= end + 1e-9
        for form, fit in fit_frontier(longest[part], frontier.test_error[part]).items():
            table.add("range", form=form, alpha_prune=end, rms_log_error=fit.rms_log_error)
    free = pareto_frontier(2.0)
    table.add("frontier without cut-off", alpha_prune=2.0, keep_fraction=0.0, test_error=free.test_error)
    return table


def judge(table: FigureTable) -> list[Claim]:
    """At least exponential, and faster."""
    error = {row["form"]: row["rms_log_error"] for row in table.where(kind="goodness").rows}
    explained = {row["form"]: row["r_squared"] for row in table.where(kind="goodness").rows}
    order = sorted(error, key=lambda form: error[form])
    numbers = ", ".join(f"{form} {error[form]:.3f} (r^2 {explained[form]:.3f})" for form in order)
    over = f"alpha_prune {START:g} to {END:g}, keep_fraction >= {_CUT_OFF:g}"
    free = float(table.where(kind="frontier without cut-off")["test_error"][0])
    return [
        Claim.exact(
            "An exponential fits the Pareto frontier better than a power law.",
            error["exponential"] < error["power law"],
            f"Root mean square residuals of log error over {over}: {numbers}.",
        ),
        Claim.exact(
            "The frontier falls faster than exponentially: a factorial fits better still.",
            min(error["factorial"], error["iterated factorial"]) < error["exponential"],
            f"Over {over}, {order[0]} fits best. Which form fits best depends on the range; by its end: "
            f"{_best_by_range(table)}. Without a limit on keep_fraction the frontier is {free:g} at alpha_prune = 2, "
            "which no such form describes.",
        ),
    ]


def _best_by_range(table: FigureTable) -> str:
    """Which form fits best, for ranges from START to where."""
    ranges = table.where(kind="range")
    ends = ranges.values("alpha_prune")
    residuals = np.array([ranges.where(form=form)["rms_log_error"] for form in _COLORS])
    best = np.array(list(_COLORS))[np.argmin(residuals, axis=0)]
    stretches = np.split(np.arange(len(ends)), np.flatnonzero(best[1:] != best[:-1]) + 1)
    return "; ".join(f"{ends[part[0]]:.2g} to {ends[part[-1]]:.2g} {best[part[0]]}" for part in stretches)


def draw(table: FigureTable, path: Path) -> None:
    """A: frontier and fits. B: goodness against the range."""
    with figure(path, size=(10.6, 4.4), ncols=2) as (_, (left, right)):
        frontier = table.where(kind="frontier")
        alpha, error = frontier.columns("alpha_prune", "test_error")
        shown, style = alpha <= 1.25 * END, {"color": "black", "linewidth": 3.2, "alpha": 0.85}
        left.plot(alpha[shown], error[shown], **style, label=f"frontier, f ≥ {_CUT_OFF:g}")
        for form, color in _COLORS.items():
            fit, ranges = table.where(kind="fit", form=form), table.where(kind="range", form=form)
            left.plot(*fit.columns("alpha_prune", "test_error"), color=color, linewidth=1.7, label=form)
            right.plot(*ranges.columns("alpha_prune", "rms_log_error"), color=color, linewidth=2, label=form)
        held_up = alpha[frontier["at_cut_off"] == 1]
        if len(held_up):
            left.axvline(held_up[0], color="black", linewidth=0.8, linestyle=":")
            left.annotate(f"f = {_CUT_OFF:g} from here", (held_up[0] + 0.05, 0.36), fontsize=9)
        left.set(yscale="log", xlim=(0, 1.25 * END), ylim=(0.008, 0.6))
        left.set(xlabel=r"kept examples per weight $\alpha_{\rm prune}$", ylabel=r"test error $\varepsilon$")
        left.legend(loc="lower left")
        right.axvline(END, color="black", linewidth=0.8, linestyle=":")
        right.annotate("panel A", (END * 1.03, 0.02), fontsize=9)
        right.set(xscale="log", xlim=(1, _LONGEST), ylim=(0, None))
        right.set(xlabel=r"fitted up to $\alpha_{\rm prune}$", ylabel="rms residual of log error")
        plain_axis(right.xaxis, [1, 2, 3, 5, 10])
        right.legend(loc="upper left")
        panel_letter(left, "A", f"fits up to $\\alpha_{{\\rm prune}}$ = {END:g}")
        panel_letter(right, "B", "which form fits depends on the range")
