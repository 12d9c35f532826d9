"""What the pictures of several figures share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paredown.plots import FRONTIER_COLOR, fraction_color, plain_axis
from paredown.reproduce.base import FigureTable, error_column


def percent_bars(axes: Any, rows: FigureTable, x: str, y: str, **style: Any) -> None:
    """A column in per cent against another one, with bars of two standard errors."""
    error = 200 * np.nan_to_num(rows[error_column(y)].astype(float))
    axes.errorbar(rows[x], 100 * rows[y], yerr=error, **{"marker": "o", "capsize": 2, **style})


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
