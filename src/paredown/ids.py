"""Ids of examples: read as they were written, checked, found again, and hashed. numpy only.

Everything that must not depend on the order of files or rows (ties, samples, random choices) is decided by
`hash_ids`, a seeded hash of the id itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path, PurePath
from typing import Any
from uuid import UUID

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError, argument
from paredown.text import encodable

TEXT = np.dtypes.StringDType()
_HASH_ROWS = 65_536  # rows hashed at once,
_HASH_WORDS = 2**22  # and words of two code points in them: bounds the memory of the padded table
_DENSE = 8  # whole numbers are dense if there are fewer than so many to each that is used


def id_array(values: ArrayLike) -> NDArray[Any]:
    """Ids as 64-bit whole numbers where they are whole numbers and as variable-width strings otherwise.

    What was given comes back: text stays as written (`007` is not `7`), unsigned 64-bit numbers stay unsigned, and
    anything that has no exact form as a number or as text is refused with its row.
    """
    ids = exact_array(values, "ids")
    if ids.dtype.kind == "u" and ids.dtype.itemsize == 8:
        return ids.astype(np.uint64, copy=False)
    if ids.dtype.kind in "iu":
        return ids.astype(np.int64, copy=False)
    if ids.dtype.kind == "T":
        missing = np.flatnonzero(ids == "")  # whose length numpy takes for that of a NUL, too
        if len(missing):
            raise PareError(f"ids are missing at {name_rows(missing)}; every example needs an id.")
        return ids
    raise PareError(f"ids must be whole numbers or text, got {ids.dtype}; convert them to text.")


def join_ids(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    """The ids of several parts one after the other, none changed by it."""
    parts = [part for part in parts if len(part)] or parts[:1]
    kinds = {part.dtype for part in parts}
    if len(kinds) > 1 and TEXT in kinds:
        raise PareError("some ids are whole numbers and others are text; write all of them as text.")
    if len(kinds) > 1:  # int64 and uint64, which numpy would turn into floating-point numbers
        lowest, highest = min(int(part.min()) for part in parts), max(int(part.max()) for part in parts)
        if lowest < 0 and highest >= 2**63:
            raise PareError(f"ids from {lowest} to {highest} do not fit in 64 bits; write them as text.")
        parts = [part.astype(np.int64 if highest < 2**63 else np.uint64) for part in parts]
    return np.concatenate(parts)


def check_ids(ids: NDArray[Any], hashes: NDArray[np.uint64] | None = None) -> None:
    """Raise if any id occurs twice, naming the first few; `hashes` with any seed save the time to make them."""
    if ids.dtype.kind in "iu" and np.all(ids[1:] > ids[:-1]):  # row numbers, mostly: no need to sort them
        return
    if ids.dtype.kind in "iu" and _all_differ(ids):
        return
    hashes = hash_ids(ids, seed=0) if hashes is None else hashes
    ordered = np.sort(hashes)
    repeated = ordered[1:][ordered[1:] == ordered[:-1]]
    # Equal hashes are almost surely equal ids; compare the ids themselves to be sure.
    seen: dict[Any, list[int]] = {}
    for row in np.flatnonzero(np.isin(hashes, repeated)) if len(repeated) else ():
        seen.setdefault(ids[row : row + 1].tolist()[0], []).append(int(row))
    twice = {key: rows for key, rows in seen.items() if len(rows) > 1}
    if twice:
        key, rows = next(iter(twice.items()))
        count = "1 id occurs" if len(twice) == 1 else f"{len(twice):,} ids occur"
        raise PareError(f"{count} more than once, e.g. {key!r} at {name_rows(rows)}; ids must be unique.")


def _all_differ(ids: NDArray[Any]) -> bool:
    """Whether whole numbers are all different: by ticking them off if they are dense, otherwise by sorting them."""
    lowest, highest = int(ids.min()), int(ids.max())
    if highest - lowest < _DENSE * len(ids):
        seen = np.zeros(highest - lowest + 1, bool)
        seen[ids if lowest == 0 else ids - ids.dtype.type(lowest)] = True
        return int(np.count_nonzero(seen)) == len(ids)
    ordered = np.sort(ids)
    return bool(np.all(ordered[1:] != ordered[:-1]))


def find_ids(ids: NDArray[Any], wanted: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Where each wanted id is among the ids, and which of the wanted are not there."""
    if (ids.dtype.kind == "T") != (wanted.dtype.kind == "T") or len(ids) == 0:
        return np.zeros(len(wanted), np.int64), np.arange(len(wanted))
    hashes, sought = hash_ids(ids, seed=0), hash_ids(wanted, seed=0)
    order = np.argsort(hashes)
    rows = order[np.minimum(np.searchsorted(hashes[order], sought), len(order) - 1)]
    return rows, np.flatnonzero(ids[rows] != wanted)


def hash_ids(ids: NDArray[Any], *, seed: int) -> NDArray[np.uint64]:
    """A seeded 64-bit hash of each id, the same on every machine and in any row order."""
    if not 0 <= seed < 2**64:
        raise PareError(f"{argument('seed')} must be a whole number from 0 to 2^64 - 1, got {seed}.")
    start = _mix(np.uint64((seed + 0x9E3779B97F4A7C15) % 2**64))
    if ids.dtype.kind in "iu":
        hashes = ids.astype(np.uint64)
        for first in range(0, len(hashes), _HASH_ROWS):  # as many as stay in the processor's cache
            block = hashes[first : first + _HASH_ROWS]
            block[:] = _mix(block ^ start)
        return hashes
    hashes = np.empty(len(ids), np.uint64)
    for first in range(0, len(ids), _HASH_ROWS):
        text = ids[first : first + _HASH_ROWS]
        widths = np.strings.str_len(text) // 2 + 1  # two code points to a word
        for rows in _alike_in_width(widths):
            hashes[first : first + _HASH_ROWS][rows] = _hash_text(text[rows], int(widths[rows].max()), start)
    return hashes


def _hash_text(text: NDArray[Any], width: int, start: np.uint64) -> NDArray[np.uint64]:
    words = text.astype(f"U{2 * width}").view(np.uint64).reshape(len(text), width)
    value = np.full(len(text), start)
    for column in words.T:
        value = np.where(column != 0, _mix(value ^ column), value)  # padding leaves the hash alone
    return value


def _alike_in_width(widths: NDArray[Any]) -> Iterator[Any]:
    """Rows to hash together: all of them, or those of like width where padding to the widest would fill the memory."""
    if len(widths) * int(widths.max()) <= _HASH_WORDS:
        yield slice(None)
        return
    order = np.argsort(widths, kind="stable")
    while len(order):
        ends = np.arange(1, len(order) + 1) * widths[order]  # words that the narrowest rows take when padded
        fitting = max(1, int(np.searchsorted(ends, _HASH_WORDS, side="right")))
        yield order[:fitting]
        order = order[fitting:]


def exact_array(values: Any, what: str) -> NDArray[Any]:
    """A one-dimensional array that holds what was given and nothing else: text as `StringDType`, numbers as they are.

    A list goes through Python's own types, since numpy would turn `[1, "a"]` into text and `[-1, 2**63]` into
    floating-point numbers. `what` says what the values are, for messages.
    """
    if isinstance(values, list | tuple):
        return _of_objects(list(values), what)
    array = np.asarray(values)
    if array.ndim != 1:
        raise PareError(f"{what} must be one-dimensional, got shape {array.shape}.")
    masked = np.flatnonzero(np.ma.getmaskarray(values)) if isinstance(values, np.ma.MaskedArray) else ()
    if len(masked):
        raise PareError(f"{what} are missing at {name_rows(masked)}; every example needs one.")
    if array.dtype.kind in "OSU" or (array.dtype.kind == "T" and array.dtype != TEXT):
        return _of_objects(array.tolist(), what)
    return array


def _of_objects(values: list[Any], what: str) -> NDArray[Any]:
    """The array of some Python objects that are all text, all whole numbers, or all of another kind of number."""
    missing = [row for row, value in enumerate(values) if _is_missing(value)]
    if missing:
        raise PareError(f"{what} are missing at {name_rows(missing)}; fill them in or drop those rows.")
    kind_of = {type_: _kind(type_) for type_ in set(map(type, values))}
    kinds = set(kind_of.values())
    if len(kinds) > 1:
        first = kind_of[type(values[0])]
        row = next(row for row, value in enumerate(values) if kind_of[type(value)] != first)
        raise PareError(
            f"{what} must all be of one kind, but row 0 is {first} ({values[0]!r}) and row {row} is "
            f"{kind_of[type(values[row])]} ({values[row]!r}); convert all of them to text."
        )
    kind = kinds.pop() if kinds else "text"
    if kind == "a whole number":
        return _whole_numbers([int(value) for value in values], what)
    if kind == "a number":
        return np.array(values, np.float64)
    if kind == "true or false":
        return np.array(values, np.bool_)
    if kind == "bytes":
        return _text([_decoded(value, row, what) for row, value in enumerate(values)], what)
    if kind == "text":
        return _text([str(value) for value in values], what)
    raise PareError(f"{what} must be whole numbers or text, and row 0 is {kind} ({values[0]!r}); convert them to text.")


def _is_missing(value: Any) -> bool:
    """None, NaN, and the NaT and NA of numpy and pandas, whose comparisons are neither true nor false."""
    if value is None or type(value).__name__ in ("NAType", "NaTType"):
        return True
    return (isinstance(value, float | np.floating) and bool(value != value)) or (
        isinstance(value, np.datetime64 | np.timedelta64) and bool(np.isnat(value))
    )


def _kind(type_: type) -> str:
    if issubclass(type_, str | PurePath | UUID):
        return "text"
    if issubclass(type_, bytes):
        return "bytes"
    if issubclass(type_, bool | np.bool_):
        return "true or false"
    if issubclass(type_, int | np.integer):
        return "a whole number"
    if issubclass(type_, float | np.floating):
        return "a number"
    return f"of type {type_.__name__}"


def _whole_numbers(values: list[int], what: str) -> NDArray[Any]:
    if not values or -(2**63) <= min(values) <= max(values) < 2**63:
        return np.array(values, np.int64)
    if min(values) >= 0 and max(values) < 2**64:
        return np.array(values, np.uint64)
    row = next(row for row, value in enumerate(values) if not -(2**63) <= value < 2**63)
    raise PareError(f"{what} must fit in 64 bits, and row {row} is {values[row]}; write all of them as text.")


def _text(values: list[str], what: str) -> NDArray[Any]:
    try:
        return np.array(values, TEXT)
    except UnicodeEncodeError:
        row = next(row for row, value in enumerate(values) if encodable(value) != value)
        raise PareError(f"{what} must be valid Unicode, and {values[row]!r} at row {row} is not; rename it.") from None


def _decoded(value: bytes, row: int, what: str) -> str:
    try:
        return value.decode("utf-8")
    except UnicodeDecodeError:
        raise PareError(f"{what} must be text in UTF-8, and row {row} is {value!r}; convert them to text.") from None


def _mix(x: Any) -> Any:
    """The finaliser of splitmix64: every input bit reaches every output bit. Wrapping is meant."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


def name_rows(rows: Sequence[int] | NDArray[Any], *, ids: NDArray[Any] | None = None, what: str = "row") -> str:
    """A short human list such as `rows 3, 7, 9 and 12 more`, with ids where they differ from the row number."""
    shown = [int(row) for row in rows[:3]]
    texts = [str(row) for row in shown]
    if ids is not None and any(str(name) != text for name, text in zip(ids[:3], texts, strict=False)):
        texts = [f"{text} (id {name})" for text, name in zip(texts, ids[:3], strict=False)]
    more = len(rows) - len(shown)
    tail = f" and {more} more" if more else ""
    return f"{what if len(rows) == 1 else f'{what}s'} {', '.join(texts)}{tail}"


def natural_order(path: Path) -> list[tuple[int, int | str]]:
    """A sort key that puts shard-2 before shard-10."""
    parts = re.split(r"(\d+)", path.name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]
