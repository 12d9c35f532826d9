"""What kind of value a setting takes, as its annotation says; another is refused before anything is done with it."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from numbers import Integral, Real
from typing import Any

from paredown.errors import PareError

__all__ = ["check_kind", "name_kind"]

_NAMES = {"int": "a whole number", "float": "a number", "str": "text", "bool": "true or false"}
_LISTS = {"int": "whole numbers", "float": "numbers", "str": "texts"}


def check_kind(setting: str, value: Any, annotation: str) -> None:
    """Raise unless a value is of the kind that an annotation such as `int | None` names; others than plain ones fit."""
    kinds = annotation.split(" | ")
    if not any(_fits(value, kind) for kind in kinds):
        wanted = " or ".join(name_kind(kind) for kind in kinds if kind != "None")
        raise PareError(f"{setting} is {wanted}, got {list(value) if isinstance(value, tuple) else value!r}.")


def name_kind(kind: str) -> str:
    """What to call a kind of value."""
    if kind.startswith("Literal["):
        return "one of " + ", ".join(map(repr, _choices(kind)))
    if kind.startswith("tuple["):
        return f"a list of {_LISTS[_items(kind)]}"
    return "a table of settings" if kind.startswith("Mapping[") else _NAMES.get(kind, kind)


def _fits(value: Any, kind: str) -> bool:
    if kind == "None":
        return value is None
    if kind in ("int", "float"):
        return isinstance(value, Integral if kind == "int" else Real) and not isinstance(value, bool)
    if kind in ("str", "bool"):
        return isinstance(value, str if kind == "str" else bool)
    if kind.startswith("Literal["):
        return value in _choices(kind)
    if kind.startswith("tuple["):
        return isinstance(value, tuple | list) and all(_fits(item, _items(kind)) for item in value)
    return isinstance(value, Mapping) if kind.startswith("Mapping[") else True


def _choices(kind: str) -> list[Any]:
    return ast.literal_eval(kind.removeprefix("Literal"))


def _items(kind: str) -> str:
    return kind.removeprefix("tuple[").split(",")[0]
