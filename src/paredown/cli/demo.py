"""`paredown demo`: the main job on real data in under a minute."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paredown.cli.app import JsonOption, app, console, emit, progress_bar, say

if TYPE_CHECKING:
    from paredown.demo import DemoRow


@app.command(epilog="Example: `paredown demo --repeats 20`")
def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the plot and table.")] = Path("paredown-demo"),
    repeats: Annotated[int, typer.Option(help="Train/test splits to average over.")] = 10,
    seed: Annotated[int, typer.Option(help="Decides the splits and random subsets.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Prune scikit-learn's digits in several ways and see what a classifier makes of it, beside random pruning."""
    from paredown.demo import load_digits, run_demo
    from paredown.io import check_output, new_output
    from paredown.pruning import prune

    check_output(out, overwrite=True, folder=True)
    rows = run_demo(repeats=repeats, seed=seed, track=progress_bar)
    with new_output(out, overwrite=True, folder=True) as folder:
        _draw(rows, folder / "demo.png")
        with (folder / "demo.csv").open("w", newline="") as stream:
            writer = csv.writer(stream)
            writer.writerow(rows[0]._fields)
            writer.writerows(rows)
        images, digits = load_digits()
        prune(images, labels=digits, keep_fraction=0.6, out=folder / "pruned", seed=seed)

    def show() -> None:
        _show(rows, repeats)
        say(f"Plot: [bold]{out / 'demo.png'}[/]; table: {out / 'demo.csv'}; what prune writes: {out / 'pruned'}")

    emit({"rows": [row._asdict() for row in rows], "plot": str(out / "demo.png")}, as_json=as_json, show=show)


def _draw(rows: list[DemoRow], path: Path) -> None:
    from paredown.plots import error_curves, figure

    curves: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        if row.method != "full":
            curves.setdefault(row.method, []).append((row.kept, 100 * (1 - row.accuracy), 100 * row.stderr))
    with figure(path) as (_, axes):
        error_curves(axes, curves, baseline="random")
        full = next(row for row in rows if row.method == "full")
        axes.axhline(100 * (1 - full.accuracy), color="black", linewidth=1, linestyle=":", label=f"all {full.kept}")
        axes.set(xscale="log", yscale="log", xlabel="training examples kept", ylabel="test error (%)")
        axes.set_xticks([row.kept for row in rows if row.method == "random"])
        axes.xaxis.set_major_formatter("{x:.0f}")
        axes.set_yticks([1, 2, 5, 10, 20, 40])
        axes.yaxis.set_major_formatter("{x:g}")
        axes.minorticks_off()
        axes.set_title("Pruning scikit-learn's digits, support vector machine")
        axes.legend()


def _show(rows: list[DemoRow], repeats: int) -> None:
    from rich.table import Table

    cells = {(row.method, row.keep_fraction): row for row in rows}
    full = next(row for row in rows if row.method == "full")
    fractions = sorted({row.keep_fraction for row in rows if row.method != "full"})
    table = Table(
        title=f"Test accuracy in %, {repeats} splits; with all {full.kept} examples {_percent(full)}",
        caption="Below random: points more or less than random subsets of equal size. ± is one standard error; "
        "green wins and red loses by more than two.",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("keep_fraction")
    for fraction in fractions:
        table.add_column(f"{fraction:g}", justify="right", no_wrap=True)
    table.add_row("random", *(_percent(cells["random", f]) for f in fractions), end_section=True)
    for method in dict.fromkeys(row.method for row in rows if row.method not in ("full", "random")):
        table.add_row(method, *(_difference(cells[method, f]) for f in fractions))
    console.print(table)
    _sum_up([row for row in rows if row.method not in ("full", "random")])


def _sum_up(compared: list[DemoRow]) -> None:
    """Say in words where pruning won and where it lost."""
    wins = [row for row in compared if row.difference > 2 * row.difference_stderr]
    losses = [row for row in compared if row.difference < -2 * row.difference_stderr]
    say(
        f"Of {len(compared)} prunings, {len(wins)} beat random subsets of the same size, {len(losses)} lose to them "
        f"and {len(compared) - len(wins) - len(losses)} cannot be told apart."
    )
    for rows, best, word in ((wins, max, "won"), (losses, min, "lost")):
        if rows:
            row = best(rows, key=lambda row: row.difference)
            by = f"{100 * abs(row.difference):.1f} points"
            say(f"Most was {word} by [bold]{row.method}[/] at keep_fraction {row.keep_fraction:g}: {by}.")


def _percent(row: DemoRow) -> str:
    return f"{100 * row.accuracy:.1f}±{100 * row.stderr:.1f}"


def _difference(row: DemoRow) -> str:
    significant = abs(row.difference) > 2 * row.difference_stderr
    color = ("green" if row.difference > 0 else "red") if significant else "dim"
    return f"[{color}]{100 * row.difference:+.1f}±{100 * row.difference_stderr:.1f}[/]"
