"""Pictures from tables. matplotlib is imported only here, and only when a picture is drawn."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from paredown.errors import PareError

__all__ = ["COLORS", "error_curves", "figure"]

# A colour-blind-safe palette (Okabe and Ito), random always in grey.
COLORS = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73", "#CC79A7")
RANDOM_COLOR = "#777777"

_STYLE: dict[Any, Any] = {
    "figure.dpi": 150,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.grid": True,
    "grid.alpha": 0.25,
    "font.size": 10,
    "legend.frameon": False,
    "legend.fontsize": 9,
}


@contextmanager
def figure(path: Path, *, size: tuple[float, float] = (7.0, 4.5), **layout: Any) -> Iterator[tuple[Any, Any]]:
    """Axes to draw on, saved to `path` when the block ends; no window is ever opened."""
    try:
        from matplotlib import rc_context
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError as error:
        raise PareError("pictures need matplotlib: pip install 'paredown[demo]'.") from error
    with rc_context(_STYLE):
        drawn = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(drawn)
        yield drawn, drawn.subplots(**layout)
        drawn.savefig(path)


def error_curves(
    axes: Any, curves: dict[str, list[tuple[float, float, float]]], *, baseline: str | None = None
) -> None:
    """Draw named curves of (x, mean, standard error); the baseline is grey with a band of two standard errors."""
    colors = iter(COLORS * (1 + len(curves) // len(COLORS)))
    for name, points in curves.items():
        x, mean, error = zip(*sorted(points), strict=True)
        if name == baseline:
            low = [m - 2 * e for m, e in zip(mean, error, strict=True)]
            high = [m + 2 * e for m, e in zip(mean, error, strict=True)]
            axes.fill_between(x, low, high, color=RANDOM_COLOR, alpha=0.25, linewidth=0)
            axes.plot(x, mean, color=RANDOM_COLOR, linewidth=2, label=f"{name} (band: 2 standard errors)")
        else:
            axes.errorbar(
                x, mean, yerr=error, color=next(colors), marker="o", markersize=4, linewidth=1.4, capsize=2, label=name
            )
