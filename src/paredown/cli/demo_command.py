"""`paredown demo`: the main job on real data in under a minute."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paredown.cli.announced_outputs import current
from paredown.cli.app import JsonOption, app
from paredown.cli.terminal import TextTable, compose, emit, progress_bar, say
from paredown.errors import PareError

if TYPE_CHECKING:
    from rich.text import Text

    from paredown.demo import DemoRow


_REQUEST = "demo"  # the mark of its output


@app.command(epilog="Example: `paredown demo --repeats 20`")
def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the plot and table.")] = Path("paredown-demo"),
    repeats: Annotated[int, typer.Option(help="Train/test splits to average over.")] = 10,
    seed: Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Decides the splits and random subsets.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Prune scikit-learn's digits and compare with random subsets.

    Takes under a minute; draws the test accuracy of a classifier against the number of examples kept.
    """
    from paredown.demo import load_digits, run_demo
    from paredown.files import finished_request, locked, new_output
    from paredown.plots import check_available
    from paredown.pruning import prune

    check_available()
    current.writes(out, overwrite=finished_request(out) == _REQUEST, folder=True)
    with locked(out):
        again = finished_request(out) == _REQUEST  # an earlier demo is replaced, and nothing else
        if out.exists() and not again:
            raise PareError(f"{out} already exists and is not an earlier demo; choose another folder with -o.")
        rows = run_demo(repeats=repeats, seed=seed, track=progress_bar)
        with new_output(out, overwrite=again, folder=True, request=_REQUEST) as folder:
            _draw(rows, folder / "demo.png")
            with (folder / "demo.csv").open("w", newline="") as stream:
                writer = csv.writer(stream)
                writer.writerow(rows[0]._fields)
                writer.writerows(rows)
            images, digits = load_digits()
            prune(images, labels=digits, keep_fraction=0.6, out=folder / "pruned", seed=seed)

    def show() -> None:
        _show(rows, repeats)
        files = (out / "demo.png", out / "demo.csv", out / "pruned")
        say("Plot: [bold]{}[/]; table: {}; an example of what prune writes: {}", *files)

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
    cells = {(row.method, row.keep_fraction): row for row in rows}
    full = next(row for row in rows if row.method == "full")
    fractions = sorted({row.keep_fraction for row in rows if row.method != "full"})
    table = TextTable(
        compose("Test accuracy in %, {} splits; with all {} examples {}", repeats, full.kept, _percent(full)),
        {"keep_fraction": "left", **{f"{fraction:g}": "right" for fraction in fractions}},
        caption=compose(
            "Below random: difference from random subsets of the same size, in points. ± is one standard error; "
            "green is better and red worse by more than two."
        ),
    )
    table.add("random", *(_percent(cells["random", f]) for f in fractions), end_section=True)
    for method in dict.fromkeys(row.method for row in rows if row.method not in ("full", "random")):
        table.add(method, *(_difference(cells[method, f]) for f in fractions))
    table.show()
    _sum_up([row for row in rows if row.method not in ("full", "random")])


def _sum_up(compared: list[DemoRow]) -> None:
    """Say in words where pruning won and where it lost."""
    wins = [row for row in compared if row.difference > 2 * row.difference_stderr]
    losses = [row for row in compared if row.difference < -2 * row.difference_stderr]
    say(
        "Compared with random subsets of the same size, of {} pruned sets {} gave a significantly lower test error, {} "
        "a higher one, and {} made no significant difference.",
        len(compared),
        len(wins),
        len(losses),
        len(compared) - len(wins) - len(losses),
    )
    for rows, best, word in ((wins, max, "gain"), (losses, min, "loss")):
        if rows:
            row = best(rows, key=lambda row: row.difference)
            points = 100 * abs(row.difference)
            say(
                "Largest {}: [bold]{}[/] at --keep-fraction {:g}, {:.1f} points.",
                word,
                row.method,
                row.keep_fraction,
                points,
            )


def _percent(row: DemoRow) -> str:
    return f"{100 * row.accuracy:.1f}±{100 * row.stderr:.1f}"


def _difference(row: DemoRow) -> Text:
    significant = abs(row.difference) > 2 * row.difference_stderr
    numbers = compose("{:+.1f}±{:.1f}", 100 * row.difference, 100 * row.difference_stderr)
    if not significant:
        return compose("[dim]{}[/]", numbers)
    return compose("[green]{}[/]" if row.difference > 0 else "[red]{}[/]", numbers)
