"""`paredown compare`: do metrics agree on which examples are hard?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from paredown.cli.announced_outputs import current
from paredown.cli.app import JsonOption, Overwrite, advanced_option, app, positional, selection_option
from paredown.cli.terminal import emit, say
from paredown.errors import PareError

if TYPE_CHECKING:
    from paredown.comparison import MetricComparison


_SUFFIXES = (".png", ".html")  # of what can be written of a comparison


@app.command(epilog="Example: `paredown compare scores.parquet memorization.parquet -o compared.png`")
def compare(
    tables: Annotated[
        list[Path],
        positional(
            "TABLE",
            "Tables of scores, in which every score column is a metric, or what prune wrote. One table with several "
            "score columns is enough.",
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="FILE", help="Picture (.png) or page (.html) to write.", show_default=False
        ),
    ] = None,
    metric: Annotated[
        str | None, typer.Option(metavar="NAMES", help="Compare only these metrics, separated by commas.")
    ] = None,
    top: Annotated[int, typer.Option(help="How many examples to list that the metrics disagree on most.")] = 20,
    keep_fraction: Annotated[
        list[float] | None,
        selection_option(
            "F",
            "Fraction of the examples to keep, in (0, 1], at which kept sets are compared. Can be repeated.",
            show_default="0.1 to 0.9",
        ),
    ] = None,
    strategy: Annotated[str, selection_option("NAME", "Which examples are kept: {strategies}.")] = "hard",
    balance: Annotated[
        float | None,
        selection_option(
            "SHARE", "Floor of every class, as in prune; 0 means no floor.", show_default="0.5 where there are labels"
        ),
    ] = None,
    seed: Annotated[int, advanced_option("N", "Seed of tie-breaking.")] = 0,
    overwrite: Overwrite = False,
    as_json: JsonOption = False,
) -> None:
    """Compare metrics of the same examples.

    How alike they rank the examples, what each would keep, where they disagree, and what each costs. Examples are
    matched by id.
    """
    from paredown.comparison import KEEP_FRACTIONS
    from paredown.comparison import compare as compare_scores
    from paredown.comparison.metric_comparing import check_comparison

    fractions = keep_fraction or KEEP_FRACTIONS
    check_comparison(fractions, strategy=strategy, balance=balance, top=top, seed=seed)
    if out is not None:
        _check_out(out)
        current.writes(out, overwrite=overwrite, sources=tables)
    comparison = compare_scores(
        *tables,
        keep_fractions=fractions,
        strategy=strategy,
        balance=balance,
        top=top,
        metrics=None if metric is None else [name.strip() for name in metric.split(",")],
        seed=seed,
    )
    already = out is not None and _write(comparison, out, tables, overwrite=overwrite)

    def show() -> None:
        from paredown.cli.comparison_tables import show_comparison

        show_comparison(comparison)
        if out is not None and already:
            say("[bold]{}[/] was already complete; nothing was changed.", out)
        elif out is not None:
            say("{}: [bold]{}[/].", "Picture" if out.suffix == ".png" else "Page", out)

    emit({"out": None if out is None else str(out)} | comparison.to_dict(), as_json=as_json, show=show)


def _check_out(out: Path) -> None:
    from paredown.plots import check_available

    if out.suffix not in _SUFFIXES:
        given = f"unsupported file type {out.suffix!r}" if out.suffix else f"{out} has no file type"
        raise PareError(f"{given}; supported: {', '.join(_SUFFIXES)}. Name the output such as {out.stem}.png.")
    if out.suffix == ".png":
        check_available()


def _write(comparison: MetricComparison, out: Path, tables: list[Path], *, overwrite: bool) -> bool:
    """Write what the suffix says; True if the same comparison was there already, and nothing was written."""
    from paredown.files import finished_request, locked, new_output
    from paredown.records import digest
    from paredown.version import __version__

    request = digest({"paredown": __version__, "comparison": repr(comparison.to_dict())})
    with locked(out):
        if not overwrite and finished_request(out) == request:
            return True
        with new_output(out, overwrite=overwrite, sources=tables, request=request) as part:
            if out.suffix == ".png":
                from paredown.plots import comparison_picture

                comparison_picture(comparison, part)
            else:
                from paredown.report.comparison_page import comparison_page, disputed_pictures

                page = comparison_page(comparison, disputed_pictures(comparison, tables))
                part.write_text(page, encoding="utf-8")
    return False
