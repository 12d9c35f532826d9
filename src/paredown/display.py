"""How objects introduce themselves: a short line in a terminal, a small table in a notebook, a data frame if wanted."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paredown.errors import PareError
from paredown.text import printable

if TYPE_CHECKING:
    import pandas as pd


class Introduced:
    """An object whose `introduce` gives the few facts that its `repr` and its notebook view show, title first."""

    def introduce(self) -> dict[str, str]:
        """Facts by name, such as `{"metric": "el2n", "examples": "1,797"}`; values are plain text."""
        raise NotImplementedError

    def __repr__(self) -> str:
        facts = ", ".join(f"{name} {value}" for name, value in self.introduce().items())
        return printable(f"<{type(self).__name__}: {facts}>")

    def _repr_html_(self) -> str:
        return html_card(type(self).__name__, self.introduce())


def html_card(title: str, facts: Mapping[str, object], notes: Iterable[str] = ()) -> str:
    """A table of facts, and a list of notes below it; everything that comes from data is escaped."""
    rows = "".join(
        f"<tr><th style='text-align:left'>{_escaped(name)}</th><td style='text-align:left'>{_escaped(value)}</td></tr>"
        for name, value in facts.items()
    )
    items = "".join(f"<li>{_escaped(note)}</li>" for note in notes)
    return f"<table><caption>{_escaped(title)}</caption>{rows}</table>" + (f"<ul>{items}</ul>" if items else "")


def html_grid(title: str, rows: Sequence[object], columns: Sequence[object], cells: Sequence[Sequence[object]]) -> str:
    """A table with a heading for every row and column; everything that comes from data is escaped."""
    head = "".join(f"<th>{_escaped(name)}</th>" for name in columns)
    body = "".join(
        f"<tr><th style='text-align:left'>{_escaped(name)}</th>"
        + "".join(f"<td>{_escaped(cell)}</td>" for cell in line)
        + "</tr>"
        for name, line in zip(rows, cells, strict=True)
    )
    return f"<table><caption>{_escaped(title)}</caption><tr><td></td>{head}</tr>{body}</table>"


def _escaped(value: object) -> str:
    return html.escape(printable(str(value)))


def shorten(names: Iterable[object], most: int = 4) -> str:
    """The first few names of many: `cat, dog, hen, owl and 6 more`."""
    texts = [str(name) for name in names]
    shown = ", ".join(texts[:most])
    return shown if len(texts) <= most else f"{shown} and {len(texts) - most} more"


def data_frame(columns: Mapping[str, Any]) -> pd.DataFrame:
    """Columns as a pandas data frame; pandas is not needed for anything else."""
    try:
        import pandas as pd
    except ImportError:
        raise PareError("to_pandas() needs pandas: pip install pandas.") from None
    return pd.DataFrame(dict(columns))
