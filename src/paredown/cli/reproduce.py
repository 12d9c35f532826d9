"""`paredown reproduce`: the paper's figures, and whether their claims held."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paredown.cli.app import JsonOption, app, emit, progress_bar, say
from paredown.errors import PareError

if TYPE_CHECKING:
    from paredown.reproduce import Reproduced


@app.command(epilog="Example: `paredown reproduce fig1a fig2 --size cpu -o reproduced`")
def reproduce(
    figures: Annotated[list[str] | None, typer.Argument(help="Names of figures; a wrong one lists them.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Make all figures.")] = False,
    size: Annotated[
        str, typer.Option(help="cpu (10 draws), paper (the paper's N = 200 and 100 draws) or tiny (does it run?).")
    ] = "cpu",
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for pictures, data and verdicts.")] = Path(
        "reproduced"
    ),
    seed: Annotated[int, typer.Option(help="Seed of the simulations.")] = 0,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Make again what is there already.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Make figures of the paper: picture, data as CSV, and whether each claim behind them held.

    A figure that is complete already is not made again, so that a stopped run goes on where it was.
    """
    from paredown.reproduce import FIGURES, reproduce_figures

    if bool(figures) == every:
        listed = "\n".join(f"  {name:<14} {shows}" for name, shows in FIGURES.items())
        raise PareError(f"give names of figures, or --all:\n{listed}")
    results = reproduce_figures(
        FIGURES if every else figures or [], size=size, out=out, seed=seed, overwrite=overwrite, track=progress_bar
    )
    emit({"figures": [_as_dict(result) for result in results]}, as_json=as_json, show=lambda: _show(results))


def _as_dict(result: Reproduced) -> dict[str, Any]:
    return {
        "figure": result.name,
        "made": result.made,
        "seconds": result.seconds,
        "png": str(result.png),
        "csv": str(result.csv),
        "json": str(result.json),
        "settings": result.settings,
        "claims": [claim._asdict() for claim in result.claims],
    }


def _show(results: list[Reproduced]) -> None:
    from rich.markup import escape

    for result in results:
        how = f"made in {result.seconds:.0f} s" if result.made else "there already"
        say(f"[bold]{result.name}[/]: {escape(str(result.png))} ({how})")
        for claim in result.claims:
            verdict = "[green]held[/]" if claim.held else "[red]did not hold[/]"
            say(f"  {verdict}: {escape(claim.claim)}\n    {escape(claim.evidence)}")
