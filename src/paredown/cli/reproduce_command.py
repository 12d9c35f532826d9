"""`paredown reproduce`: the paper's figures, and whether their claims held."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paredown.cli.announced_outputs import current
from paredown.cli.app import JsonOption, app, positional
from paredown.cli.terminal import TextTable, compose, emit, progress_bar, say
from paredown.errors import PareError, check_least

if TYPE_CHECKING:
    from paredown.reproduce import FigureResult, PlannedTraining


@app.command(epilog="Example: `paredown reproduce fig1a fig2 --size cpu -o reproduced`")
def reproduce(
    figures: Annotated[list[str] | None, positional("FIGURE", "Names of figures. Without one, all are listed.")] = None,
    every: Annotated[bool, typer.Option("--all", help="Make all figures.")] = False,
    size: Annotated[
        str,
        typer.Option(help="How much work goes into a figure:\n{sizes}\n"),
    ] = "cpu",
    data: Annotated[
        Path | None,
        typer.Option(help="Folder with a folder for every data set: mnist, cifar10, ...", show_default="only digits"),
    ] = None,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for pictures, data and verdicts.")] = Path(
        "reproduced"
    ),
    seed: Annotated[int, typer.Option(help="Seed of simulations and trainings.")] = 0,
    workers: Annotated[
        int | None, typer.Option(help="Processes, one thread each.", show_default="one per core")
    ] = None,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Only check: build every network, run one batch, count the work."),
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Make figures again that are already there.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Reproduce figures of the paper, and check their claims.

    Writes a picture, its data as CSV and the verdict on every claim. Figures that are complete are not made again, so
    the same command resumes an interrupted run.
    """
    from paredown.reproduce import FIGURES, rehearse_figures, reproduce_figures

    if figures and every:
        raise PareError("give names of figures or --all, not both.")
    if not figures and not every:
        emit({"figures": {name: figure.shows for name, figure in FIGURES.items()}}, as_json=as_json, show=_list_figures)
        return
    names = list(FIGURES) if every else figures or []
    if dry_run:
        rehearsed = rehearse_figures(names, size=size, track=progress_bar)
        listing = {name: [vars(part) for part in parts] for name, parts in rehearsed.items()}
        emit({"size": size, "figures": listing}, as_json=as_json, show=lambda: _show_rehearsed(rehearsed, names))
        return
    current.grows(out, "finished figures and their parts")
    check_least(1, workers=workers)
    results = reproduce_figures(
        names,
        size=size,
        out=out,
        data=data,
        seed=seed,
        workers=workers,
        overwrite=overwrite,
        track=progress_bar,
    )
    emit({"figures": [_as_dict(result) for result in results]}, as_json=as_json, show=lambda: _show(results))


def _list_figures() -> None:
    from paredown.reproduce import FIGURES

    for name, (_, shows) in FIGURES.items():
        say("  [bold]{:<22}[/] {}", name, shows)
    say("Give some of these names, or --all.")


def _as_dict(result: FigureResult) -> dict[str, Any]:
    return {
        "figure": result.name,
        "made": result.made,
        "seconds": result.seconds,
        "cpu_seconds": result.cpu_seconds,
        "png": str(result.png),
        "csv": str(result.csv),
        "json": str(result.json),
        "settings": result.settings,
        "claims": [claim.record() for claim in result.claims],
    }


def _show(results: list[FigureResult]) -> None:
    for result in results:
        took = f"made in {result.seconds:.0f} s, {result.cpu_seconds:.0f} CPU seconds"
        how = took if result.made else "already there"
        say("[bold]{}[/]: {} ({})", result.name, result.png, how)
        for claim in result.claims:
            if claim.held:
                shown = compose("[green]{}[/]", claim.told)
            else:
                contradicted = claim.verdict.value == "contradicted"
                shown = compose("[red]{}[/]" if contradicted else "[yellow]{}[/]", claim.told)
            say("  {}: {}\n    {}", shown, claim.claim, claim.evidence)
    say("All on one page: [bold]{}[/]", results[0].png.with_name("results.md"))


def _show_rehearsed(rehearsed: dict[str, list[PlannedTraining]], names: list[str]) -> None:
    texts, numbers = ("figure", "data", "recipe", "as"), ("weights", "trainings", "FLOPs")
    shown = TextTable(
        compose("what would be trained; every network was built and took a step"),
        {**dict.fromkeys(texts, "left"), **dict.fromkeys(numbers, "right")},
    )
    for name, parts in rehearsed.items():
        for part in parts:
            flops = "" if part.flops is None else f"{part.flops:.1e}"
            count = f"{part.weights:,}"
            shown.add(name, part.data, part.recipe, part.role, count, f"{part.trainings:,}", flops)
    shown.show()
    simulated = [name for name in names if name not in rehearsed]
    if simulated:
        say("Theory and simulation only, nothing to build: {}", ", ".join(simulated))
