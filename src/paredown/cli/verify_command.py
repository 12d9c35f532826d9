"""`paredown verify` and `paredown clean`: what is on disk, and what should not be."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from paredown.cli.app import JsonOption, app, positional
from paredown.cli.terminal import emit, progress_bar, say
from paredown.errors import PareError

_SHOWN = 20  # problems on screen; --json has all


@app.command(epilog="Example: `paredown verify pruned`")
def verify(
    paths: Annotated[
        list[Path],
        positional("PATH", "Embedding stores, scores, manifests, exports, models, recordings, sweeps or figures."),
    ],
    as_json: JsonOption = False,
) -> None:
    """Check that outputs are unchanged since paredown wrote them.

    Reads them in full and compares checksums. Exits with code 1 if anything differs.
    """
    from paredown.verifying import verify as verify_output

    found, refused = [], []
    for path in paths:
        try:
            found.append(verify_output(path, track=progress_bar))
        except PareError as error:
            refused.append(error)

    def show() -> None:
        for result in found:
            if result.problems:
                problems = "1 problem" if len(result.problems) == 1 else f"{len(result.problems):,} problems"
                say("[bold]{}[/] ({}): [red]{}[/].", result.path, result.kind, problems)
            else:
                say("[bold]{}[/] ({}): [green]unchanged[/].", result.path, result.kind)
            for problem in result.problems[:_SHOWN]:
                say("  {}: {}", problem.path, problem.what)
            if len(result.problems) > _SHOWN:
                say("  and {} more", len(result.problems) - _SHOWN)
            if result.unchecked:
                have = "file has" if result.unchecked == 1 else "files have"
                say("  {:,} {} no checksum: only presence and readability were checked.", result.unchecked, have)

    results = [
        {
            "path": str(result.path),
            "kind": result.kind,
            "files": result.files,
            "unchecked": result.unchecked,
            "problems": [{"path": str(problem.path), "what": problem.what} for problem in result.problems],
        }
        for result in found
    ]
    emit({"verified": results}, as_json=as_json, show=show)
    if refused:
        raise PareError("\n".join(error.message for error in refused))
    if any(result.problems for result in found):
        raise typer.Exit(1)


@app.command(epilog="Example: `paredown clean .`")
def clean(
    path: Annotated[Path, positional("PATH", "An output, or a folder with outputs.")],
    unfinished: Annotated[
        bool, typer.Option("--unfinished", help="Also remove finished parts that an interrupted run would resume from.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only list what would be removed.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Remove temporary files that killed runs left behind.

    Only files with paredown's own temporary names are removed, and each one is listed.
    """
    from paredown.cleaning import clean as clean_up

    found = clean_up(path, unfinished=unfinished, dry_run=dry_run)

    def show() -> None:
        for leftover in found:
            if leftover.removed:
                say("removed [bold]{}[/]: {}", leftover.path, leftover.what)
            elif dry_run and (unfinished or not leftover.resumable):
                say("would remove [bold]{}[/]: {}", leftover.path, leftover.what)
            else:
                say("kept [bold]{}[/]: {}; rerun the command that wrote it to resume", leftover.path, leftover.what)
        if not found:
            say("[bold]{}[/]: no leftovers of killed runs.", path)
        elif not unfinished and any(leftover.resumable for leftover in found):
            say("Use --unfinished to remove finished parts as well.")

    result = [{"path": str(item.path), "what": item.what, "removed": item.removed} for item in found]
    emit({"leftovers": result}, as_json=as_json, show=show)
