"""Check settings against their type annotations, and parse settings that are given as text.

Annotations are resolved by the standard library and compared here, rather than by msgspec or cattrs. msgspec ignores
unknown keys of dataclasses; cattrs takes 5.0, True and "5" for an int. Neither message has the value that was given, so
both would need about as many lines to translate them, and 35 to 50 ms to import.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from functools import cache
from numbers import Integral, Real
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from paredown.errors import PareError
from paredown.text import with_article

_NAMES = {int: "a whole number", float: "a number", str: "text", bool: "true or false", Mapping: "a table of settings"}
_TRUTH = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_PARSERS: dict[Any, Callable[[str], Any]] = {int: int, float: float, str: str, bool: lambda text: _TRUTH[text.lower()]}


def check_fields(values: Any, where: str) -> None:
    """Raise unless every field of a dataclass is of the type it is annotated with; `where` begins the message."""
    types = _hints(type(values))
    for entry in fields(values):
        check_value(f"{where} {entry.name}", getattr(values, entry.name), types[entry.name])


def check_value(setting: str, value: Any, wanted: Any) -> None:
    """Raise unless a value is of a type such as `int | None`, `Literal["a", "b"]` or `tuple[float, ...]`."""
    if not any(_fits(value, kind) for kind in _members(wanted)):
        raise _wrong(setting, wanted, list(value) if isinstance(value, tuple) else value)


def parse_value(setting: str, text: str, wanted: Any) -> Any:
    """The value that a text stands for: the first type of a union that it can be read as, or None for "none"."""
    kinds = _members(wanted)
    if text.lower() == "none" and NoneType in kinds:
        return None
    for kind in kinds:
        try:
            return _PARSERS[kind](text)
        except (KeyError, ValueError):  # a type that text cannot be read as, or the wrong text
            continue
    raise _wrong(setting, wanted, text)


_hints = cache(get_type_hints)


def _members(wanted: Any) -> tuple[Any, ...]:
    return get_args(wanted) if get_origin(wanted) in (Union, UnionType) else (wanted,)


def _wrong(setting: str, wanted: Any, given: Any) -> PareError:
    names = [_name(kind) for kind in _members(wanted) if kind is not NoneType]
    return PareError(f"{setting} is {' or '.join(names)}, got {given!r}.")


def _name(kind: Any) -> str:
    origin = get_origin(kind) or kind
    if origin is Literal:
        return "one of " + ", ".join(map(repr, get_args(kind)))
    if origin is tuple:
        return f"a list of {_name(get_args(kind)[0]).removeprefix('a ')}s"
    return _NAMES.get(origin) or with_article(origin.__name__)


def _fits(value: Any, kind: Any) -> bool:
    if kind is Any:
        return True
    if kind in (int, float):
        return isinstance(value, Integral if kind is int else Real) and not isinstance(value, bool)
    origin = get_origin(kind) or kind
    if origin is Literal:
        return value in get_args(kind)
    if origin is tuple:
        return isinstance(value, tuple | list) and all(_fits(item, get_args(kind)[0]) for item in value)
    return isinstance(value, origin)
