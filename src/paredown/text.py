"""Text that came from data, made fit to be shown: nothing in it can steer a terminal or pass unseen."""

from __future__ import annotations

import os
from unicodedata import category

TYPE_CHECKING = False  # typing and collections.abc would take longer to import than all of this
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_FEW = 3  # names that a message lists


def printable(value: object) -> str:
    r"""The text of a value on one line, with everything that is not visible written out.

    Control characters, line breaks, marks that turn the direction of writing and bytes that are not UTF-8 are shown as
    Python writes them: `\x1b`, `\n`, `\u202e`, `\xff`. Letters of any script and spaces stay as they are.
    """
    text = str(value)
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or category(c) == "Zs" else _written_out(c) for c in text)


def encodable(text: str) -> str:
    r"""Text that can be written as UTF-8: bytes of a file's name that are not UTF-8 are shown as `\xff`."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return "".join(_written_out(c) if category(c) == "Cs" else c for c in text)
    return text


def quoted(argument: object) -> str:
    r"""An argument as a shell reads it; one with characters that cannot be seen as `$'...'`, as bash and zsh do."""
    from shlex import quote

    text = str(argument)
    if printable(text) == text:
        return quote(text)
    return "$'" + "".join(_QUOTED.get(byte, f"\\x{byte:02x}") for byte in os.fsencode(text)) + "'"


def either(names: Iterable[str]) -> str:
    """`one, two or three`."""
    *most, last = names
    return f"{', '.join(most)} or {last}"


def with_article(noun: str) -> str:
    """`an image folder`, `a table`."""
    return f"{'an' if noun[0] in 'aeiou' else 'a'} {noun}"


_QUOTED = {byte: chr(byte) for byte in range(0x20, 0x7F)} | {ord("'"): "\\'", ord("\\"): "\\\\"}


def _written_out(character: str) -> str:
    byte = ord(character) - 0xDC00  # how Python holds a byte of a file's name that is not UTF-8
    return f"\\x{byte:02x}" if 0x80 <= byte <= 0xFF else character.encode("unicode_escape").decode("ascii")


def few(names: Sequence[str]) -> str:
    """The first names of some, and how many more there are."""
    return ", ".join(names[:_FEW]) + (f" and {len(names) - _FEW:,} more" if len(names) > _FEW else "")
