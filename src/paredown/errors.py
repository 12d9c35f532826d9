"""The one exception type a user of paredown needs to catch."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches

__all__ = ["PareError", "fraction_hint", "unknown_name"]


class PareError(ValueError):
    """Something the user can mend: the message says what was wrong, what was given and what to do.

    The command line prints the message alone and exits with code 2; `--debug` shows the traceback.
    """


def fraction_hint(given: float) -> str:
    """What to add to the error for a fraction above one: it may be meant as a percentage."""
    return f" Did you mean {given / 100:g}?" if 2 <= given <= 100 else ""


def unknown_name(kind: str, given: str, known: Iterable[str]) -> PareError:
    """An error for a misspelt name that lists what exists, the nearest first suggested."""
    names = sorted(known)
    near = get_close_matches(given, names, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return PareError(f"unknown {kind} {given!r}; available: {', '.join(names)}.{hint}")
