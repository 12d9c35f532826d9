"""Pictures from tables. matplotlib is imported only here, and only when a picture is drawn."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from paredown.comparison import MetricComparison
from paredown.comparison.comparison_verdicts import two_digits
from paredown.errors import PareError
from paredown.evaluate import ClassComparison
from paredown.sweeps.summary import curves_by_way
from paredown.text import printable

# A colour-blind-safe palette (Okabe and Ito), random always in grey.
COLORS = ("#0072B2", "#56B4E9", "#D55E00", "#E69F00", "#009E73", "#CC79A7")
RANDOM_COLOR = "#777777"
# The two curves that the paper's theory figures set off from the rest.
FRONTIER_COLOR = "#D7263D"  # the Pareto frontier
OPTIMUM_COLOR = "#9B30C9"  # the best keep_fraction

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
_NAME_LENGTH = 28  # characters of a metric's name
_POINTS: dict[str, Any] = {"marker": "o", "markersize": 4, "capsize": 2, "linewidth": 1.4}  # of curves with error bars


def check_available() -> None:
    """Raise if nothing can be drawn: called before long work."""
    try:
        import matplotlib  # noqa: F401
    except ImportError as error:
        raise PareError("pictures need matplotlib: pip install 'paredown[demo]'.") from error


@contextmanager
def figure(
    path: Path, *, size: tuple[float, float] = (7.0, 4.5), grow: bool = False, **layout: Any
) -> Iterator[tuple[Any, Any]]:
    """Axes to draw on, saved to `path` when the block ends; no window is ever opened.

    With `grow` the picture is made as large as all that is drawn, for squares with long names around them.
    """
    check_available()
    from matplotlib import rc_context
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    with rc_context(_STYLE):
        drawn = Figure(figsize=size, layout="constrained")
        FigureCanvasAgg(drawn)
        yield drawn, drawn.subplots(**layout)
        drawn.savefig(path, bbox_inches="tight" if grow else None)


def error_curves(
    axes: Any, curves: dict[str, list[tuple[float, float, float]]], *, baseline: str | None = None
) -> None:
    """Draw named curves of (x, mean, standard error); the baseline is grey with a band of two standard errors."""
    colors = iter(COLORS * (1 + len(curves) // len(COLORS)))
    for name, points in curves.items():
        x, mean, error = np.array(sorted(points)).T
        if name == baseline:
            axes.fill_between(x, mean - 2 * error, mean + 2 * error, color=RANDOM_COLOR, alpha=0.25, linewidth=0)
            axes.plot(x, mean, color=RANDOM_COLOR, linewidth=2, label=f"{name} (band: 2 standard errors)")
        else:
            axes.errorbar(x, mean, yerr=error, color=next(colors), label=name, **_POINTS)


def draw_classes(axes: Any, comparison: ClassComparison) -> None:
    """One point per class as in the paper's figure: accuracy pruned on x, full on y, and the line of no change.

    Classes that gained or lost significantly are coloured and named. `axes` is matplotlib's (`plots.figure`).
    """
    axes.plot([0, 1], [0, 1], color=RANDOM_COLOR, linewidth=1, zorder=0)
    changed = {"gained": comparison.gained, "lost": comparison.lost}
    rows = {name: row for row, name in enumerate(comparison.classes)}
    plain = [row for name, row in rows.items() if not any(name in group for group in changed.values())]
    axes.scatter(comparison.pruned[plain], comparison.full[plain], s=12, color=COLORS[0], label="no significant change")
    for (what, group), color in zip(changed.items(), (COLORS[4], COLORS[2]), strict=True):
        points = [rows[name] for name in group]
        axes.scatter(comparison.pruned[points], comparison.full[points], s=18, color=color, label=what)
        for row in points:
            axes.annotate(comparison.classes[row], (comparison.pruned[row], comparison.full[row]), fontsize=7)
    axes.set(xlabel="class accuracy after pruning", ylabel="class accuracy on the full set", xlim=(0, 1), ylim=(0, 1))
    axes.legend()


def fraction_color(keep_fraction: float) -> Any:
    """The colour of a keep_fraction: dark blue for 1, lighter and greener as less is kept."""
    from matplotlib import colormaps

    return colormaps["YlGnBu"](0.33 + 0.67 * keep_fraction)


def fraction_bar(drawn: Any, axes: Any, fractions: ArrayLike) -> None:
    """A key to `fraction_color` beside the axes, one patch per fraction."""
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import BoundaryNorm, ListedColormap

    values = np.sort(np.asarray(fractions, dtype=float))
    patches = BoundaryNorm(np.arange(len(values) + 1) - 0.5, len(values))
    key = ScalarMappable(patches, ListedColormap([fraction_color(f) for f in values]))
    bar = drawn.colorbar(key, ax=axes, ticks=range(len(values)), label="keep_fraction f", aspect=30, pad=0.015)
    bar.ax.set_yticklabels([f"{f:.2g}" for f in values])
    bar.ax.minorticks_off()
    bar.ax.tick_params(length=0)
    bar.outline.set_visible(False)


def plain_axis(axis: Any, ticks: Sequence[float]) -> None:
    """Plain numbers on a logarithmic axis."""
    axis.set_ticks(ticks, [f"{tick:g}" for tick in ticks])
    axis.set_ticks([], minor=True)


def panel_letter(axes: Any, letter: str, title: str = "") -> None:
    """A bold letter and a title, flush left above a panel."""
    from matplotlib import rcParams

    size = rcParams["axes.titlesize"]
    axes.set_title(f"$\\bf{{{letter}}}$  {title}".rstrip(), loc="left", fontsize=size)


def sweep_picture(table: Any, path: Path) -> Path | None:
    """Test error against the number kept: a panel for every way of pruning, a curve for every fraction kept.

    Random subsets are grey. Unpruned sets are black, with a dotted line at the error of the largest. Returns None, and
    draws nothing, if a sweep has no pruned run or matplotlib is missing.
    """
    ways = curves_by_way(table)
    chance = ways.pop("random", {})
    try:
        check_available()
    except PareError:
        return None
    if not ways:
        return None
    columns = min(len(ways), 4)
    rows = -(-len(ways) // columns)
    size = (4.6 * columns + 1.2, 4.2 * rows)
    with figure(path, size=size, ncols=columns, nrows=rows, squeeze=False, sharey=True) as (_, grid):
        for spare in grid.flat[len(ways) :]:
            spare.set_axis_off()
        pooled = [point for fraction, points in chance.items() for point in points if fraction < 1]
        for axes, (way, curves) in zip(grid.flat, ways.items(), strict=False):
            if pooled:
                axes.errorbar(*_columns(pooled), color=RANDOM_COLOR, fmt=".", capsize=2, label="random")
            if whole := sorted(chance.get(1.0, [])):
                axes.errorbar(*_columns(whole), color="black", fmt="D", markersize=4, capsize=2, label="unpruned")
                axes.axhline(100 * whole[-1][1], color="black", linewidth=0.8, linestyle=":")
            for fraction, points in sorted(curves.items()):
                axes.errorbar(
                    *_columns(points), color=fraction_color(fraction), label=f"keep {100 * fraction:g} %", **_POINTS
                )
            axes.set(xscale="log", yscale="log", xlabel="examples kept")
            axes.set_title(printable(way), loc="left", parse_math=False)  # a metric's name is anyone's
            axes.legend()
            for axis in (axes.xaxis, axes.yaxis):
                plain_ticks(axis)
        for axes in grid[:, 0]:
            axes.set_ylabel("test error, %")
    return path


def comparison_picture(comparison: MetricComparison, path: Path) -> None:
    """Rank correlations of metrics, alike ones side by side, and how much of what they keep is the same.

    Every pair is a curve in the colour that it has in the map; the mean of all pairs is black, and chance dotted.
    """
    count = len(comparison.metrics)
    side = min(3.2 + 0.5 * count, 12.0)
    beside = max(5.0, 0.7 * side)
    names = 0.05 * max(len(_short_name(name)) for name in comparison.metrics)  # as high as they are written
    size, layout = (side + beside + 0.6, max(4.6, side - 1.5 + names)), {"width_ratios": (side, beside)}
    with figure(path, size=size, grow=True, ncols=2, gridspec_kw=layout) as (drawn, (left, right)):
        image = _correlation_map(left, comparison)
        drawn.colorbar(image, ax=left, label="Spearman's rank correlation", shrink=0.75, pad=0.02)
        _overlap_curves(right, comparison, image)


def _correlation_map(axes: Any, comparison: MetricComparison) -> Any:
    order = comparison.order
    matrix = comparison.spearman[np.ix_(order, order)]
    names = [_short_name(comparison.metrics[place]) for place in order]
    image = axes.imshow(matrix, cmap="RdBu_r", vmin=-1, vmax=1)
    size = 9 if len(order) <= 8 else 7 if len(order) <= 14 else 5
    for row, column in np.ndindex(*matrix.shape):
        rho = float(matrix[row, column])
        text = two_digits(rho) if np.isfinite(rho) else "-"
        color = "white" if abs(rho) > 0.65 else "black"
        axes.text(column, row, text, ha="center", va="center", fontsize=size, color=color)
    marks = {"rotation": 40, "ha": "right", "rotation_mode": "anchor", "parse_math": False}
    axes.set_xticks(range(len(names)), names, **marks)
    axes.set_yticks(range(len(names)), names, parse_math=False)
    axes.grid(visible=False)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    axes.set_title(f"Rank correlation, {comparison.examples:,} examples", loc="left")
    return image


def _short_name(metric: str) -> str:
    """A metric's name, which is anyone's, as far as there is room for it."""
    text = printable(metric)
    return text if len(text) <= _NAME_LENGTH else f"{text[: _NAME_LENGTH - 1]}…"


def _overlap_curves(axes: Any, comparison: MetricComparison, image: Any) -> None:
    fractions = np.array(comparison.keep_fractions)
    thin = 1.3 if len(comparison.metrics) <= 8 else 0.6
    pairs = sorted(comparison.pairs, key=lambda pair: -comparison.overlaps[:, *pair].sum())
    for a, b in pairs:
        rho = comparison.spearman[a, b]
        color = image.cmap(image.norm(rho)) if np.isfinite(rho) else "#bbbbbb"
        named = f"{_short_name(comparison.metrics[a])}, {_short_name(comparison.metrics[b])}".replace("$", r"\$")
        label = {pairs[0]: f"most: {named}", pairs[-1]: f"least: {named}"}.get((a, b))
        style = {"linewidth": thin, "marker": ".", "markersize": 4, "label": label}
        axes.plot(fractions, comparison.overlaps[:, a, b], color="#999999", linewidth=thin + 0.4)  # 0 is white
        axes.plot(fractions, comparison.overlaps[:, a, b], color=color, **style)
    axes.plot(fractions, comparison.mean_overlaps, color="black", linewidth=2.4, label="mean of all pairs")
    axes.plot([0, 1], [0, 1], color=RANDOM_COLOR, linestyle=":", linewidth=1.6, label="chance")
    axes.set(xlim=(0, 1), ylim=(0, 1.02), xlabel="keep_fraction", ylabel="share of the kept examples in common")
    axes.set_box_aspect(1)
    axes.set_title(f"Overlap of what two metrics keep ({comparison.selection['strategy']})", loc="left")
    axes.legend(loc="upper left", bbox_to_anchor=(-0.02, -0.14))


def _columns(points: Sequence[tuple[float, float, float]]) -> tuple[Any, ...]:
    """Sizes, and errors with their standard errors in per cent."""
    size, error, stderr = np.array(sorted(points)).T
    return size, 100 * error, 100 * stderr


def plain_ticks(axis: Any) -> None:
    """1, 2, 5, 10, ... written out on a logarithmic axis, or 1, 10, ... on a long one; call it after drawing."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    low, high = axis.get_view_interval()
    axis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 150 * low else (1,)))
    axis.set_minor_locator(LogLocator(subs=range(1, 10)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}" if value < 1e6 else f"{value:.0e}"))
    axis.set_minor_formatter(NullFormatter())
