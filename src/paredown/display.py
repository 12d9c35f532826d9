"""How objects introduce themselves: a short line in a terminal, a small table in a notebook, a data frame if wanted."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from paredown.errors import PareError
from paredown.markup import Markup, join, tag
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
    left = "text-align:left"
    rows = (tag("tr", tag("th", name, style=left), tag("td", value, style=left)) for name, value in facts.items())
    items = [tag("li", note) for note in notes]
    return join(tag("table", tag("caption", title), *rows), tag("ul", *items) if items else Markup(""))


def html_grid(title: str, rows: Sequence[object], columns: Sequence[object], cells: Sequence[Sequence[object]]) -> str:
    """A table with a name for every row and column; everything that comes from data is escaped."""
    head = tag("tr", tag("th"), *(tag("th", column) for column in columns))
    body = (
        tag("tr", tag("th", name, style="text-align:left"), *(tag("td", cell) for cell in line))
        for name, line in zip(rows, cells, strict=True)
    )
    return tag("table", tag("caption", title), head, *body)


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
