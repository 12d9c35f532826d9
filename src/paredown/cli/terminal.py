"""Everything that the command line prints, for people and for machines, goes through here.

File names, class names, ids and the messages about them may hold anything: escape sequences that steer a terminal, or
what looks like markup. So only a template, which is written in the source, has markup; the values that fill it are
shown as they are, with whatever is not visible written out. No other module of the command line imports rich or prints.
"""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from io import TextIOWrapper
from string import Formatter
from typing import IO, Any, Literal, LiteralString, TypeVar

from rich.console import Console
from rich.text import Text

from paredown.text import encodable, printable

T = TypeVar("T")
Side = Literal["left", "right"]  # which a column of a table is flush with
_SLOT = "\ufdd0"  # no character: where a value goes in a template


class _Console(Console):
    """One that goes on in silence where nobody reads any more, as in `paredown ... | head`: the work comes first."""

    def on_broken_pipe(self) -> None:
        _hush(self.file)


_out = _Console()  # results
_err = _Console(stderr=True)  # progress and errors, so that standard output stays clean for --json


def encode_all() -> None:
    """Let no character that the terminal's encoding lacks, and no byte of a file's name, stop what is printed."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")


def flush() -> None:
    """Bring everything printed to where it goes, while an error can still be dealt with."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except BrokenPipeError:
            _hush(stream)


def _hush(stream: IO[str]) -> None:
    """Send what is printed from now on nowhere."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, stream.fileno())
    os.close(nowhere)


def compose(template: LiteralString, *values: object) -> Text:
    """Fill the `{}` of a template, which may have rich's markup, with values, which have none.

    A format such as `{:,}` works as usual. What was composed before may be a value, and keeps its style.
    """
    parsed = list(Formatter().parse(template))
    marked = "".join(literal + (_SLOT if field is not None else "") for literal, field, _, _ in parsed)
    text = Text.from_markup(marked, emoji=False)
    formats = [spec or "" for _, field, spec, _ in parsed if field is not None]
    cuts = [cut for at, character in enumerate(text.plain) if character == _SLOT for cut in (at, at + 1)]
    pieces = text.divide(cuts)
    for number, (value, form) in enumerate(zip(values, formats, strict=True)):
        filled = value.copy() if isinstance(value, Text) else Text(printable(format(value, form)))
        for span in pieces[2 * number + 1].spans:
            filled.stylize_before(span.style)
        pieces[2 * number + 1] = filled
    return Text().join(pieces)


def say(template: LiteralString, *values: object) -> None:
    """Print a sentence for people, see `compose`: the terminal folds it, a file keeps it on one line."""
    _print(_out, compose(template, *values))


def aside(template: LiteralString, *values: object) -> None:
    """Print a sentence on standard error, see `compose`: what is not the result."""
    _print(_err, compose(template, *values))


def _print(console: Console, text: Text) -> None:
    console.print(text, soft_wrap=not console.is_terminal, highlight=False)


class TextTable:
    """A table for people.

    Args:
        title: above it, composed.
        columns: heading -> which side it is flush with.
        caption: below it, composed.
        narrow: many columns, without lines between them.
    """

    def __init__(
        self,
        title: Text,
        columns: Mapping[str, Side],
        *,
        caption: Text | None = None,
        narrow: bool = False,
    ) -> None:
        from rich.box import SIMPLE_HEAD
        from rich.table import Table

        lines: dict[str, Any] = {"box": SIMPLE_HEAD, "show_edge": False, "padding": (0, 1, 0, 0)} if narrow else {}
        self._above = title if narrow else None  # or it would be folded to the width of a table of few columns
        above = None if narrow else title
        self._table = Table(title=above, caption=caption, title_justify="left", caption_justify="left", **lines)
        for heading, side in columns.items():
            self._table.add_column(compose("{}", heading), justify=side)

    def add(self, *cells: object, style: LiteralString = "", end_section: bool = False) -> None:
        """Add a row; cells are values as those of `compose`."""
        self._table.add_row(*(compose("{}", cell) for cell in cells), style=style, end_section=end_section)

    def show(self) -> None:
        """Print it."""
        if self._above is not None:
            _out.print(compose("\n[italic]{}[/]", self._above))
        _out.print(self._table)


def emit(result: dict[str, Any], *, as_json: bool, show: Callable[[], None]) -> None:
    """Print `result` as one JSON document for machines, or call `show` for people."""
    if as_json:
        document = json.dumps(_for_json(result), indent=2, allow_nan=False) + "\n"
        try:
            sys.stdout.write(document)
        except BrokenPipeError:
            _hush(sys.stdout)
    else:
        show()


def _for_json(value: Any) -> Any:
    """What JSON has no word for: numbers that are not finite become null, bytes that are not UTF-8 are written out."""
    if isinstance(value, dict):
        return {_for_json(key): _for_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_for_json(item) for item in value]
    if isinstance(value, str):
        return encodable(value)
    return None if isinstance(value, float) and not math.isfinite(value) else value


def progress_bar(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """A `paredown.progress.Track` that draws a bar with the speed and the time left on stderr."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn
    from rich.progress import TimeRemainingColumn as TimeLeft

    class Speed(ProgressColumn):
        """Items per second."""

        def render(self, task: Task) -> str:
            return "" if not task.speed else f"{task.speed:,.1f}/s"

    description = TextColumn("{task.description}", markup=False)
    columns = (description, BarColumn(), MofNCompleteColumn(), Speed(), TimeLeft())
    quiet = not _err.is_terminal  # a log file needs no bar
    with Progress(*columns, console=_err, transient=True, disable=quiet) as bar:
        yield from bar.track(items, total=total, description=printable(label))
