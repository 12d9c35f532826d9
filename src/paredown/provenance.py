"""The record that a table of scores carries of its making. Parquet files are anyone's to write, and so are records."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _may_be_text(value: Any) -> bool:
    return value is None or isinstance(value, str)


def _is_number(value: Any) -> bool:
    return type(value) in (int, float) and abs(value) <= sys.float_info.max


def _is_count(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**53


def _is_seed(value: Any) -> bool:
    return type(value) is int and 0 <= value < 2**64


def _is_list(value: Any) -> bool:
    return isinstance(value, list)


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, str) for each in value)


def _are_texts_by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(isinstance(each, str) for each in value.values())


def _are_numbers_by_name(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_is_number, value.values()))


# What entries must be, by name; of others anything is taken.
_Kinds = dict[str, Any]  # of functions that say whether a value will do, and of further kinds for a group of entries
_SOURCE: _Kinds = {
    "location": _may_be_text,
    "kind": _may_be_text,
    "fingerprint": _may_be_text,
    "encoder": _may_be_text,
    "encoder_name": _may_be_text,
    "examples": _is_count,
    "opened_with": {"columns": _are_texts_by_name, "split": _may_be_text},
}
_SOURCE["images"] = _SOURCE
_RECORD: _Kinds = {
    "metric": _is_text,
    "seed": _is_seed,
    "source": _SOURCE,
    "options": {},
    "report": {
        "reliability": _is_number,
        "models": _is_count,
        "folds": _is_count,
        "k_sensitivity": _are_numbers_by_name,
    },
    "selection": {
        "keep_fraction": _is_number,
        "strategy": _is_text,
        "balance": _is_number,
        "quota": _is_text,
        "drop_hardest": _is_number,
        "mix_random": _is_number,
        "seed": _is_seed,
        "grouped_by": _may_be_text,
    },
    "warnings": _are_texts,
    "notes": _are_texts,
    "skipped": _is_list,
}


def sound_record(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record without the entries that paredown would not have written: a damaged entry counts as a missing one."""
    sound = _sound(record, _RECORD)
    if "metrics" in sound:  # a record for each
        named = sound["metrics"] if isinstance(sound["metrics"], dict) else {}
        sound["metrics"] = {name: _sound(each, _RECORD) for name, each in named.items() if isinstance(each, dict)}
    return sound


def _sound(values: Mapping[str, Any], kinds: _Kinds) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in values.items():
        kind: _Kinds | Callable[[Any], bool] | None = kinds.get(name)
        if isinstance(kind, dict):
            if isinstance(value, dict):
                found[name] = _sound(value, kind)
        elif kind is None or kind(value):
            found[name] = value
    return found
