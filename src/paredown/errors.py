"""The one exception type a user of paredown needs to catch, and how its messages name what a user can change."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from difflib import get_close_matches

# Characters of no text, which enclose an argument in a message.
_START, _VALUE, _END = "\ufdd1", "\ufdd2", "\ufdd3"
_ARGUMENT = re.compile(f"{_START}([a-z_]+)(?:{_VALUE}([^{_END}]*))?{_END}")


class PareError(ValueError):
    """Something the user can fix: the message says what was wrong, what was given and what to do.

    The command line prints the message alone and exits with code 2; `--debug` shows the traceback.
    """

    def __str__(self) -> str:
        """The message for Python, in which an `argument` reads `overwrite=True`."""
        return self.with_arguments(lambda name, value: name if value is None else f"{name}={value}")

    @property
    def message(self) -> str:
        """The message to put into that of another `PareError`: its arguments stay arguments."""
        return super().__str__()

    def with_arguments(self, write: Callable[[str, str | None], str]) -> str:
        """The message with every `argument` as `write(name, value)` has it; the value is as Python writes it."""
        return _ARGUMENT.sub(lambda found: write(found[1], found[2]), self.message)


def argument(name: str, value: object = None) -> str:
    """An argument named in a message: `on_error='skip'` in Python, `--on-error skip` on the command line.

    With `...` for a value that is the user's: `labels=...` and `--labels`. Without one, its name: `seed` and `--seed`.
    """
    written = "..." if value is ... else repr(value)
    return f"{_START}{name}{'' if value is None else f'{_VALUE}{written}'}{_END}"


def fraction_hint(given: float) -> str:
    """What to add to the error for a fraction above one: a percentage may have been meant."""
    return f" Did you mean {given / 100:g}?" if 5 <= given <= 100 else ""


def check_least(least: int, **given: int | None) -> None:
    """Raise if an argument that is given is too small: `check_least(1, epochs=epochs)`."""
    for name, value in given.items():
        if value is not None and value < least:
            raise PareError(f"{argument(name)} must be at least {least}, got {value}.")


def check_known(kind: str, given: str, known: Collection[str], *, aliases: Mapping[str, str] | None = None) -> None:
    """Raise `unknown_name` for a name that does not exist."""
    if given not in known:
        raise unknown_name(kind, given, known, aliases=aliases)


def unknown_name(kind: str, given: str, known: Iterable[str], *, aliases: Mapping[str, str] | None = None) -> PareError:
    """An error for a misspelt name that lists what exists and suggests the nearest; `aliases` are known to mean one."""
    names = sorted(known)
    near = near_name(given, names, aliases=aliases)
    hint = f" Did you mean {near!r}?" if near else ""
    return PareError(f"unknown {kind} {given!r}; available: {', '.join(names)}.{hint}")


def near_name(given: str, known: Iterable[str], *, aliases: Mapping[str, str] | None = None) -> str | None:
    """The name that was meant by a misspelt one, also of an alias, if any is near."""
    meant = {**(aliases or {}), **{name.lower(): name for name in known}}
    near = get_close_matches(given.lower(), meant, n=1)
    return meant[near[0]] if near else None


@contextmanager
def located(where: object) -> Iterator[None]:
    """Put the place of a mistake in front of the message of a `PareError`."""
    try:
        yield
    except PareError as error:
        raise PareError(f"{where}: {error.message}") from error
