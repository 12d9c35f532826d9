"""`paredown demo`: the main job on real data in half a minute, where pruning loses and where it wins."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paredown.cli.announced_outputs import current
from paredown.cli.app import JsonOption, app
from paredown.cli.terminal import TextTable, compose, emit, progress_bar, say
from paredown.errors import PareError, check_least

if TYPE_CHECKING:
    from rich.text import Text

    from paredown.demo import DemoRow


_REQUEST = "demo"  # the mark of its output


@app.command(epilog="Example: `paredown demo --repeats 20`")
def demo(
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for the plot and table.")] = Path("paredown-demo"),
    repeats: Annotated[int, typer.Option(help="Train/test splits to average over.")] = 10,
    seed: Annotated[int, typer.Option(help="Decides the splits and random subsets.")] = 0,
    as_json: JsonOption = False,
) -> None:
    """Prune scikit-learn's digits, few and many, and compare with random subsets.

    Takes half a minute; draws the test error of a classifier against the number of examples kept. Many digits are
    deformations of the few.
    """
    from paredown.demo import load_digits, run_demo
    from paredown.files import finished_request, locked, new_output
    from paredown.plots import check_available
    from paredown.pruning import prune

    check_available()
    check_least(0, seed=seed)
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

    told = [row._asdict() | {"p_value": row.p_value if row.p_value >= 0 else None} for row in rows]
    emit({"rows": told, "plot": str(out / "demo.png")}, as_json=as_json, show=show)


def _draw(rows: list[DemoRow], path: Path) -> None:
    from paredown.plots import error_curves, figure

    with figure(path, size=(11.0, 4.5), ncols=2) as (_, (few, many)):
        full = next(row for row in rows if row.method == "full")
        _curves(few, [row for row in rows if row.digits == "few" and row.method != "full"], error_curves)
        few.axhline(100 * (1 - full.accuracy), color="black", linewidth=1, linestyle=":", label=f"all {full.kept}")
        few.set_title(f"Few: parts of {full.kept:,} digits")
        _curves(many, [row for row in rows if row.digits == "many"], error_curves)
        many.set_title("Many: digits deformed without end")
        few.set(yticks=[1, 2, 5, 10, 20, 40], ylim=(0.9, 60))
        many.set(yticks=[2, 3, 4, 5, 6, 8])
        for axes in (few, many):
            axes.yaxis.set_major_formatter("{x:g}")
            axes.minorticks_off()
            axes.legend(loc="upper right", fontsize=8)


def _curves(axes: Any, rows: list[DemoRow], error_curves: Any) -> None:
    """Test error against the number kept, on two logarithmic axes."""
    curves: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        pruned = row.digits == "many" and row.method != "random"
        name = f"EL2N, hardest n of {1 / row.keep_fraction:g} n" if pruned else row.method
        curves.setdefault(name, []).append((row.kept, 100 * (1 - row.accuracy), 100 * row.stderr))
    error_curves(axes, curves, baseline="random")
    axes.set(xscale="log", yscale="log", xlabel="training examples kept, n", ylabel="test error (%)")
    axes.set_xticks(sorted({row.kept for row in rows}))
    axes.xaxis.set_major_formatter("{x:.0f}")


def _show(rows: list[DemoRow], repeats: int) -> None:
    cells = {(row.method, row.keep_fraction): row for row in rows if row.digits == "few"}
    full = next(row for row in rows if row.method == "full")
    fractions = sorted({row.keep_fraction for row in rows if row.digits == "few" and row.method != "full"})
    table = TextTable(
        compose("Few: test accuracy in %, {} splits; with all {} digits {}", repeats, full.kept, _percent(full)),
        {"keep_fraction": "left", **{f"{fraction:g}": "right" for fraction in fractions}},
        caption=compose(
            "Below random: difference from random subsets of the same size, in points. ± is one standard error; "
            "green is better and red worse beyond chance (p below 0.05, corrected for all comparisons)."
        ),
    )
    table.add("random", *(_percent(cells["random", f]) for f in fractions), end_section=True)
    for method in dict.fromkeys(method for method, _ in cells if method not in ("full", "random")):
        table.add(method, *(_difference(cells[method, f]) for f in fractions))
    table.show()
    many = {(row.keep_fraction, row.kept): row for row in rows if row.digits == "many"}
    sizes = sorted({kept for _, kept in many})
    table = TextTable(
        compose("Many: test accuracy in % on deformed digits, by the number kept"),
        {"kept": "left", **{f"{kept:,}": "right" for kept in sizes}},
        caption=compose("Hardest by EL2N from growing pools of deformed digits, minus random sets of the same size."),
    )
    table.add("random", *(_percent(many[1.0, kept]) for kept in sizes), end_section=True)
    for fraction in sorted({fraction for fraction, _ in many} - {1.0}, reverse=True):
        table.add(f"hardest 1/{1 / fraction:g}", *(_difference(many[fraction, kept]) for kept in sizes))
    table.show()
    _sum_up(rows, repeats)


def _sum_up(rows: list[DemoRow], repeats: int) -> None:
    """Say in words what the hardest few of few and of many digits are worth, and what follows."""
    from paredown.demo import planned_comparisons

    found = {(row.digits, row.method, row.keep_fraction, row.kept): row for row in rows}
    whole = next(row for row in rows if row.method == "full").kept
    compared = [row for row in rows if row.digits == "few" and row.method not in ("full", "random")]
    better = sum(_significant(row) and row.difference > 0 for row in compared)
    worse = sum(_significant(row) and row.difference < 0 for row in compared)
    say(
        "Few: of {} prunings {} gave a significantly lower test error than a random subset of the same size, {} a "
        "higher one, and {} made no significant difference.",
        len(compared),
        better,
        worse,
        len(compared) - better - worse,
    )
    few, many = planned_comparisons(rows, repeats)
    for row, initial, chance in (
        (few, whole, found["few", "random", few.keep_fraction, few.kept]),
        (many, round(many.kept / many.keep_fraction), found["many", "random", 1.0, many.kept]),
    ):
        say(
            "{}: the hardest {:,} of {:,} have [bold]{} % test error[/], and a random {:,} {} %: {}.",
            row.digits.capitalize(),
            row.kept,
            initial,
            _percent(row, error=True),
            row.kept,
            _percent(chance, error=True),
            _verdict(row, chance),
        )
    if _significant(few) and few.difference < 0 and _significant(many) and many.difference > 0:
        say(
            "With few digits the hardest tenth is a worse training set than a random tenth; with many more digits than "
            "are trained on, the hardest are better. Run `paredown sweep` to see which applies to your data."
        )
    else:
        say("These splits do not show on which side the hardest win; try more of them with --repeats.")


def _verdict(row: DemoRow, chance: DemoRow) -> str:
    if not _significant(row):
        return "no significant difference"
    return f"{abs(row.difference) / (1 - chance.accuracy):.0%} {'fewer' if row.difference > 0 else 'more'} mistakes"


def _significant(row: DemoRow) -> bool:
    from paredown.sweeps.summary import SIGNIFICANT

    return row.p_value <= SIGNIFICANT  # NaN, of repeats that do not differ, is not


def _percent(row: DemoRow, *, error: bool = False) -> str:
    return f"{100 * (1 - row.accuracy if error else row.accuracy):.1f}±{100 * row.stderr:.1f}"


def _difference(row: DemoRow) -> Text:
    numbers = compose("{:+.1f}±{:.1f}", 100 * row.difference, 100 * row.difference_stderr)
    if not _significant(row):
        return compose("[dim]{}[/]", numbers)
    return compose("[green]{}[/]" if row.difference > 0 else "[red]{}[/]", numbers)
