"""`paredown info`: what a file or folder is."""

from __future__ import annotations

from typing import Annotated

from paredown.cli.app import JsonOption, app, positional
from paredown.cli.terminal import emit, progress_bar, say


@app.command(epilog="Example: `paredown info pruned`")
def info(
    path: Annotated[str, positional("PATH", "An output of any command, finished or not, or a source of data.")],
    as_json: JsonOption = False,
) -> None:
    """Say what a file or folder is, in about ten lines.

    Scores are read in blocks, so that tables of any size can be looked at.
    """
    from paredown.describing import info as describe

    found = describe(path, track=progress_bar)

    def show() -> None:
        lines = found.introduce()
        say("[bold]{}[/] ({})", path, lines.pop("kind"))
        width = max((len(heading) for heading in lines), default=0)
        for heading, text in lines.items():
            say("  [dim]{}[/]  {}", heading.ljust(width), text)

    emit({"path": path, "kind": found.kind} | found.facts, as_json=as_json, show=show)
