"""Pieces that all pages are made of."""

from __future__ import annotations

from collections.abc import Mapping

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


def told(error: PareError) -> str:
    """An error as a page tells it: options as the command line names them, and a capital at the start."""
    text = error.with_arguments(lambda name, _: f"--{name.replace('_', '-')}")
    return text[:1].upper() + text[1:]
