"""Settings on record: written as canonical JSON, compared on the next run, and then resumed or refused.

Every result depends on settings, and every run that may be resumed, reused or merged must first find out whether it was
made under the same ones. This is the only place that knows how: `digest` names settings by their content, `changes`
says what differs, and `read_record` takes a damaged record for a missing one, so that the work is done again. A record
ends with a digest of its own bytes, so that damage which is still valid JSON, such as another digit, is noticed too.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from paredown.errors import PareError, argument
from paredown.files import write_whole
from paredown.places import StorageError

DIGESTS = "digests.json"  # of the files of a finished sweep that do not carry their own, for `paredown verify`
_SHOWN = 80  # characters of a value in a message


def canonical(value: Any) -> str:
    """Settings as JSON that is the same for equal settings: keys in order, paths and numpy numbers as plain values."""
    return json.dumps(value, sort_keys=True, default=_plain)


def _plain(value: Any) -> Any:
    if isinstance(value, os.PathLike):
        return str(value)
    if hasattr(value, "tolist"):  # numpy's numbers and arrays
        return value.tolist()
    raise TypeError(f"a setting cannot be recorded: {value!r}")


def digest(value: Any, length: int = 16) -> str:
    """A short hash of settings, by which they are known again."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()[:length]


def json_values(value: Any) -> Any:
    """Settings as they will be read back: tuples are lists, keys are text."""
    return json.loads(canonical(value))


def tuples(values: Mapping[str, Any]) -> dict[str, Any]:
    """Settings out of JSON, which has no tuples, as the frozen dataclasses take them."""
    return {name: tuple(value) if isinstance(value, list) else value for name, value in values.items()}


# --- what differs --------------------------------------------------------------------------------------------------


class Change(NamedTuple):
    """A setting that differs between a record and the present run."""

    name: str  # `options.k` for one inside another
    before: Any
    now: Any

    def __str__(self) -> str:
        """In the words of a message to the user: part of a `PareError`, as it may name an argument."""
        if self.name in _CONTENT:
            return f"{_CONTENT[self.name]} have changed"
        if self.name.startswith(_MODEL):
            return "the model is a different one"
        name = _NAMES.get(self.name, self.name)
        if self.name.startswith(_OPTIONS):
            name = argument(self.name.removeprefix(_OPTIONS))
        if self.before is None:
            return f"{name} was not given then and is now {_short(self.now)}"
        if self.now is None:
            return f"{name} was {_short(self.before)} and is not given now"
        return f"{name} was {_short(self.before)} and is now {_short(self.now)}"


# What the names of settings mean to a user who never saw a record.
_CONTENT = {"source": "the images", "source.fingerprint": "the data"}
_MODEL, _OPTIONS = ("model.", "model_"), "options."
_NAMES = {
    "paredown": "the version of paredown",
    "source.location": "the place of the data",
    "source.examples": "the number of examples",
    "source.kind": "the format of the data",
}


def changes(before: Mapping[str, Any], now: Mapping[str, Any], *, names: Iterable[str] | None = None) -> list[Change]:
    """The settings that differ, in the order of the present ones; those of a group are told one by one.

    `names` are those to be compared; all if not given.
    """
    if names is None:
        names = dict.fromkeys([*now, *before])
    before, now = json_values(before), json_values(now)
    return [change for name in names for change in _compare(str(name), before.get(name), now.get(name))]


def _compare(name: str, before: Any, now: Any) -> list[Change]:
    if before == now:
        return []
    if isinstance(before, dict) and isinstance(now, dict):
        keys = dict.fromkeys([*now, *before])
        return [change for key in keys for change in _compare(f"{name}.{key}", before.get(key), now.get(key))]
    return [Change(name, before, now)]


def check_same(
    what: str, before: Mapping[str, Any], now: Mapping[str, Any], *, advice: str, names: Iterable[str] | None = None
) -> None:
    """Raise unless the settings are the same, naming the first that differs.

    `what` begins the message, such as `swept holds an unfinished sweep`; `advice` ends it.
    """
    differing = changes(before, now, names=names)
    if differing:
        raise PareError(f"{what} made with other settings: {differing[0]}. {advice}")


def _short(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


# --- records on disk -----------------------------------------------------------------------------------------------


def write_json(value: Any, path: Path) -> None:
    """Write a JSON document for people and machines."""
    path.write_bytes(_json_bytes(value))


def _json_bytes(value: Any) -> bytes:
    return (json.dumps(value, indent=2, default=_plain) + "\n").encode()


def write_record(path: Path, record: Mapping[str, Any], *, output: Path | None = None, sealed: bool = True) -> None:
    """Write a record, whole, in place of an earlier one; `output` is what it belongs to, see `write_whole`.

    It ends with its digest, unless `sealed` is False.
    """
    with write_whole(path, output=output) as part:
        part.write_bytes(sealed_bytes(record) if sealed else _json_bytes(record))


def read_record(path: Path) -> dict[str, Any] | None:
    """A record, or None where there is none or a damaged one: what it stood for is then done again."""
    try:
        content = path.read_bytes()
        record = json.loads(content.decode("utf-8"))
    except StorageError:
        raise
    except (OSError, ValueError, RecursionError):  # ValueError: neither JSON nor UTF-8
        return None
    if not isinstance(record, dict) or is_intact(content) is False:
        return None
    record.pop(SEAL, None)
    return record


# The last entry of a record: the SHA-256 of what the file would be without it.
SEAL = "record_sha256"
_SEAL_START, _SEAL_END = f',\n  "{SEAL}": "'.encode(), b'"\n}\n'
_SEAL_SIZE = len(_SEAL_START) + 64 + len(_SEAL_END)


def sealed_bytes(record: Mapping[str, Any]) -> bytes:
    """A record that is not empty as JSON that ends with its digest."""
    content = _json_bytes(record)
    seal = hashlib.sha256(content).hexdigest().encode()
    return content.removesuffix(b"\n}\n") + _SEAL_START + seal + _SEAL_END


def is_intact(content: bytes) -> bool | None:
    """Whether the bytes of a record are those that were written; None for a record without a digest."""
    seal, body = content[-_SEAL_SIZE:], content[:-_SEAL_SIZE] + b"\n}\n"
    start, end = seal[: len(_SEAL_START)], seal[-len(_SEAL_END) :]
    differing = sum(a != b for a, b in zip(start + end, _SEAL_START + _SEAL_END, strict=False))
    if len(seal) < _SEAL_SIZE or differing > 3:  # fewer are a damaged digest, not a record without one
        return None
    return not differing and hashlib.sha256(body).hexdigest().encode() == seal[len(_SEAL_START) : -len(_SEAL_END)]
