"""What the pictures of several figures share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from paredown.plots import FRONTIER_COLOR, fraction_color, plain_axis, plain_ticks
from paredown.reproduce.base import FigureTable, error_column


def percent_bars(axes: Any, rows: FigureTable, x: str | ArrayLike, y: str, **style: Any) -> None:
    """A column in per cent with bars of two standard errors, against another column or given places."""
    places = rows[x] if isinstance(x, str) else x
    error = 200 * np.nan_to_num(rows[error_column(y)].astype(float))
    axes.errorbar(places, 100 * rows[y], yerr=error, **{"marker": "o", "capsize": 2, **style})


def log_axes(axes: Any, **labels: str) -> None:
    """Plain numbers on two logarithmic axes; call it after drawing."""
    axes.set(xscale="log", yscale="log", **labels)
    plain_ticks(axes.xaxis)
    plain_ticks(axes.yaxis)


def points_axis(axes: Any, ticks: Sequence[int]) -> None:
    """A logarithmic axis of differences in points, of both signs; call it after drawing."""
    axes.set_yscale("symlog", linthresh=2)
    axes.set_yticks(ticks, [f"{tick:+d}" if tick else "0" for tick in ticks])


def draw_dots(axes: Any, dots: FigureTable, color: Any, **style: Any) -> None:
    """Simulated test errors with their standard errors, as points on a curve of the theory."""
    style = {"markersize": 4.2, "markeredgewidth": 0.4, "elinewidth": 1, **style}
    style |= {"fmt": "o", "color": color, "markeredgecolor": "white", "zorder": 5}
    axes.errorbar(dots["alpha_prune"], dots["test_error"], yerr=dots["stderr"], **style)


def draw_theory(axes: Any, table: FigureTable, fractions: Sequence[float]) -> None:
    """Test error against alpha_prune: a curve of the theory for every fraction, with its simulated dots."""
    for fraction in fractions:
        curve, dots = (table.where(kind=kind, keep_fraction=fraction) for kind in ("theory", "simulation"))
        color = fraction_color(fraction)
        axes.plot(*curve.columns("alpha_prune", "test_error"), color=color, linewidth=1.5)
        draw_dots(axes, dots, color)


def alpha_axis(axes: Any, ticks: Sequence[float]) -> None:
    """A logarithmic axis of alpha_prune from the first tick to the last."""
    axes.set(xscale="log", xlim=(ticks[0], ticks[-1]), xlabel=r"kept examples per weight $\alpha_{\rm prune}$")
    plain_axis(axes.xaxis, ticks)


def draw_frontier(axes: Any, size: Any, test_error: Any) -> None:
    """The lowest error at each size, as a broad red line behind the curves it is made of."""
    style = {"color": FRONTIER_COLOR, "linewidth": 5, "alpha": 0.3, "zorder": 0}
    axes.plot(size, 100 * test_error, label="frontier", **style)


def mark_limits(axes: Any, bound: FigureTable) -> None:
    """Rings around points of a frontier at which the smallest fraction is the best, so that the initial set binds."""
    style = {"facecolors": "none", "edgecolors": FRONTIER_COLOR, "s": 90, "linewidths": 1.3, "zorder": 6}
    if len(bound):
        axes.scatter(bound["kept"], 100 * bound["test_error"], label="limited: no smaller fraction", **style)


def break_axis(axes: Any, lowest: float, at: float, top: float) -> None:
    """A linear vertical axis up to `top` whose part below `at`, if anything is there, is pressed into a strip."""
    if lowest >= at:
        axes.set_ylim(at, top)
        return
    from matplotlib.ticker import MaxNLocator

    bottom = lowest - 0.06 * (at - lowest)
    press = _STRIP * (top - at) / (at - bottom)
    axes.set_yscale(
        "function",
        functions=(
            lambda y: np.where(y < at, at + press * (y - at), y),
            lambda y: np.where(y < at, at + (y - at) / press, y),
        ),
    )
    axes.set_ylim(bottom, top)
    above, below = MaxNLocator(7).tick_values(at, top), MaxNLocator(3).tick_values(bottom, at)
    gap = 0.04 * (top - at) / press
    ticks = [*(y for y in below if bottom <= y < at - gap), *(y for y in above if at <= y <= top)]
    axes.set_yticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.axhline(at, color="#444444", linewidth=1, linestyle=(0, (1, 3)))
    place = {"transform": axes.get_yaxis_transform(), "ha": "left", "va": "top", "fontsize": 7, "color": "#444444"}
    axes.text(0.01, at, f"below: scale 1 : {1 / press:.2g}", **place)


_STRIP = 0.3  # height of what is pressed together, as a share of the rest
