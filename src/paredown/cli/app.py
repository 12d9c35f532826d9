"""The typer application every verb registers with."""

from __future__ import annotations

from typing import Annotated

import typer

from paredown.cli.terminal import say
from paredown.version import __version__

__all__ = ["JsonOption", "app"]

app = typer.Typer(
    name="paredown",
    help="Pare a training set down to the examples worth training on.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode="markdown",
)

JsonOption = Annotated[bool, typer.Option("--json", help="Print the result as JSON and nothing else.")]


def _print_version(wanted: bool) -> None:
    if wanted:
        say("{}", __version__)
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback behind an error.")] = False,
) -> None:
    """Pare a training set down to the examples worth training on."""
