"""HTML as values: what is text is escaped, and only what `tag` made is markup."""

from __future__ import annotations

import html
from collections.abc import Mapping

from paredown.errors import PareError
from paredown.text import printable

_EMPTY = frozenset({"input", "meta", "br"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def tag(name: str, /, *children: object, **attributes: object) -> Markup:
    """An element; children that are not markup are escaped, and what cannot be seen in them is written out.

    Attributes are named as in Python: `class_`, `aria_label`. True is an attribute without a value; None and False are
    none at all.
    """
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _EMPTY:
        return Markup(f"<{name}{given}>")
    return Markup(f"<{name}{given}>{join(*children)}</{name}>")


def join(*children: object) -> Markup:
    """Elements and texts one after the other."""
    return Markup("".join(child if isinstance(child, Markup) else escaped(child) for child in children))


def escaped(value: object) -> Markup:
    """Any text, harmless wherever it stands."""
    return Markup(html.escape(printable(str(value))))


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


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.removesuffix("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escaped(value)}"'


def told(error: PareError) -> str:
    """An error as a page tells it: options as the command line names them, and a capital at the start."""
    text = error.with_arguments(lambda name, _: f"--{name.replace('_', '-')}")
    return text[:1].upper() + text[1:]
