"""HTML as values: what is text is escaped, and only what `tag` made is markup."""

from __future__ import annotations

import html

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


def _attribute(key: str, value: object) -> str:
    if value is None or value is False:
        return ""
    name = key.removesuffix("_").replace("_", "-")
    return f" {name}" if value is True else f' {name}="{escaped(value)}"'
