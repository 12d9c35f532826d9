"""The typer application every verb registers with, and how verbs talk to people and to machines."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, TypeVar

import typer
from rich.console import Console

from paredown import __version__

__all__ = ["JsonOption", "app", "console", "emit", "error_console", "progress_bar", "say"]

T = TypeVar("T")

app = typer.Typer(
    name="paredown",
    help="Pare a training set down to the examples worth training on.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
)

console = Console()  # results, for people
error_console = Console(stderr=True)  # progress and errors, so that stdout stays clean for --json

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback behind an error.")] = False,
) -> None:
    """Pare a training set down to the examples worth training on."""


def emit(result: dict[str, Any], *, as_json: bool, show: Callable[[], None]) -> None:
    """Print `result` as one JSON document for machines, or call `show` for people."""
    if as_json:
        sys.stdout.write(json.dumps(result, indent=2) + "\n")
    else:
        show()


def say(text: str) -> None:
    """Print a sentence for people: the terminal folds it, a file keeps it on one line."""
    console.print(text, soft_wrap=not console.is_terminal, highlight=False)


def progress_bar(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """A `paredown.progress.Track` that draws a bar with the speed and the time left on stderr."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    class Speed(ProgressColumn):
        """Items per second."""

        def render(self, task: Task) -> str:
            return "" if not task.speed else f"{task.speed:,.1f}/s"

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Speed(), TimeLeft())
    quiet = not error_console.is_terminal  # a log file needs no bar
    with Progress(*columns, console=error_console, transient=True, disable=quiet) as bar:
        yield from bar.track(items, total=total, description=label)
