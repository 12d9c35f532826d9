"""Pieces that all pages are made of."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from paredown.errors import PareError
from paredown.markup import Markup, join, tag
from paredown.text import printable


def clipped(value: object, most: int = 80) -> str:
    """A name as a page shows it: everything visible, the middle of a long one left out."""
    text = printable(str(value))
    return text if len(text) <= most else f"{text[: most - 12]}…{text[-11:]}"


def card(title: str, *children: object, hint: str = "", anchor: str | None = None) -> Markup:
    """A section of a page."""
    about = tag("p", hint, class_="hint") if hint else Markup("")
    return tag("section", tag("h2", title), about, *children, class_="card", id=anchor)


def facts(pairs: Mapping[str, object]) -> Markup:
    """Names and values side by side."""
    return tag("dl", *(join(tag("dt", name), tag("dd", value)) for name, value in pairs.items()), class_="facts")


def numbers(pairs: Mapping[str, object]) -> Markup:
    """The few large numbers at the top of a page."""
    return tag(
        "dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in pairs.items()), class_="numbers"
    )


def listed(warnings: Iterable[str]) -> Markup:
    """Warnings one below the other; nothing if there are none."""
    items = [tag("li", text) for text in warnings]
    return tag("ul", *items, class_="warnings") if items else Markup("")


def warning_card(warnings: Sequence[str]) -> Markup:
    """What whoever trusts the page should know first; nothing if there is nothing."""
    return card("Before you trust it", listed(warnings)) if warnings else Markup("")


def scroll(table: Markup, name: str) -> Markup:
    """A table that may be wider or longer than the page."""
    return tag("div", table, class_="scroll", tabindex="0", role="region", aria_label=name)


def heat_table(
    name: str,
    columns: Iterable[str],
    rows: Iterable[tuple[str, Iterable[Markup]]],
    *,
    corner: str | None = None,
    class_: str = "heat",
) -> Markup:
    """A table of shaded cells with a heading for every row and column."""
    first = tag("td") if corner is None else tag("th", corner)
    head = tag("tr", first, *(tag("th", column, scope="col") for column in columns))
    body = (tag("tr", tag("th", heading, scope="row"), *cells) for heading, cells in rows)
    return scroll(tag("table", tag("thead", head), tag("tbody", *body), class_=class_), name)


def shade(color: str, percent: float) -> str:
    """The style of a cell in one of the colours of the style sheet."""
    return f"background:color-mix(in srgb,var(--{color}) {percent:.0f}%,transparent)"


def told(error: PareError) -> str:
    """An error as a page tells it: options as the command line names them, and a capital at the start."""
    text = error.with_arguments(lambda name, _: f"--{name.replace('_', '-')}")
    return text[:1].upper() + text[1:]
