"""The values that flow from source to manifest: ids, labels, batches and scores. numpy only.

Everything that must not depend on the order of files or rows (ties, samples, random choices) is decided by
`hash_ids`, a seeded hash of the id itself.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError

__all__ = [
    "Batch",
    "Labels",
    "Scored",
    "Scores",
    "check_ids",
    "class_order",
    "hash_ids",
    "id_array",
    "name_rows",
    "natural_order",
    "unit_rows",
    "usable_rows",
]

_STRING = np.dtypes.StringDType()
_HASH_ROWS = 65_536  # rows hashed at once,
_HASH_WORDS = 2**22  # and words of two code points in them: bounds the memory of the padded table


def id_array(values: ArrayLike) -> NDArray[Any]:
    """Ids as int64 where they are whole numbers and as variable-width strings otherwise."""
    ids = np.asarray(values)
    if ids.ndim != 1:
        raise PareError(f"ids must be one-dimensional, got shape {ids.shape}.")
    if ids.dtype.kind in "iu":
        return ids.astype(np.int64)
    if ids.dtype.kind in "UTO":
        missing = [row for row, value in enumerate(ids.tolist()) if value is None or value == "" or value != value]
        if missing:
            raise PareError(f"ids are missing at {name_rows(missing)}; every example needs an id.")
        return ids if ids.dtype.kind == "T" else ids.astype(str).astype(_STRING)
    raise PareError(f"ids must be whole numbers or text, got {ids.dtype}.")


def check_ids(ids: NDArray[Any]) -> None:
    """Raise if any id occurs twice, naming the first few."""
    hashes = hash_ids(ids, seed=0)
    order = np.argsort(hashes, kind="stable")
    repeated = order[1:][hashes[order[1:]] == hashes[order[:-1]]]
    # Equal hashes are almost surely equal ids; compare the ids themselves to be sure.
    seen: dict[Any, list[int]] = {}
    for row in np.flatnonzero(np.isin(hashes, hashes[repeated])) if len(repeated) else ():
        seen.setdefault(ids[row : row + 1].tolist()[0], []).append(int(row))
    twice = {key: rows for key, rows in seen.items() if len(rows) > 1}
    if twice:
        key, rows = next(iter(twice.items()))
        raise PareError(
            f"{len(twice)} ids occur more than once, e.g. {key!r} at {name_rows(rows)}; ids must be unique."
        )


def hash_ids(ids: NDArray[Any], *, seed: int) -> NDArray[np.uint64]:
    """A seeded 64-bit hash of each id, the same on every machine and in any row order."""
    if not 0 <= seed < 2**64:
        raise PareError(f"seed must be a whole number from 0 to 2^64 - 1, got {seed}.")
    start = _mix(np.uint64((seed + 0x9E3779B97F4A7C15) % 2**64))
    if ids.dtype.kind == "i":
        return _mix(ids.astype(np.uint64) ^ start)
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


def _mix(x: Any) -> Any:
    """The finaliser of splitmix64: every input bit reaches every output bit. Wrapping is meant."""
    with np.errstate(over="ignore"):
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))


@dataclass(frozen=True)
class Labels:
    """One class per example: `codes` index into the sorted `classes`."""

    codes: NDArray[np.int64]
    classes: tuple[str, ...]

    @classmethod
    def of(cls, values: ArrayLike | Labels, *, length: int | None = None) -> Labels:
        """Labels from any array of whole numbers or text; checked against the number of examples if given."""
        if isinstance(values, Labels):
            labels = values
        else:
            array = np.asarray(values)
            if array.ndim != 1:
                raise PareError(f"labels must be one-dimensional, got shape {array.shape}.")
            labels = cls._encode(array)
        if length is not None and len(labels) != length:
            raise PareError(f"there are {len(labels)} labels for {length} examples; give one label per example.")
        return labels

    @classmethod
    def _encode(cls, array: NDArray[Any]) -> Labels:
        if array.dtype.kind in "OUT":
            missing = [row for row, value in enumerate(array.tolist()) if value is None or value != value]
            if missing:
                raise PareError(f"labels are missing at {name_rows(missing)}; label them or drop those rows.")
            if array.dtype.kind == "O":
                array = np.asarray(array.tolist())
        elif array.dtype.kind == "f":
            bad = np.flatnonzero(~np.isfinite(array))
            if len(bad):
                raise PareError(f"labels are missing at {name_rows(bad)}; label them or drop those rows.")
            if np.any(array != np.round(array)):
                raise PareError("labels must be classes (whole numbers or text), got fractional numbers.")
            array = array.astype(np.int64)
        classes, codes = np.unique(array, return_inverse=True)
        return cls.numbered(codes, [str(name) for name in classes.tolist()])

    @classmethod
    def numbered(cls, codes: NDArray[Any], names: Sequence[str]) -> Labels:
        """Labels from codes into names in any order."""
        order = class_order(names)
        place = np.empty(len(order), np.int64)
        place[order] = np.arange(len(order))
        return cls(place[codes], tuple(str(names[old]) for old in order.tolist()))

    def __len__(self) -> int:
        return len(self.codes)

    def __getitem__(self, rows: Any) -> Labels:
        return Labels(self.codes[rows], self.classes)

    def in_order_of(self, classes: Sequence[str]) -> Labels:
        """The same labels with their classes in a known order, if that has all of them."""
        if not set(self.classes) <= set(classes):
            return self
        ordered = tuple(name for name in classes if name in set(self.classes))
        place = {name: code for code, name in enumerate(ordered)}
        return Labels(np.array([place[name] for name in self.classes])[self.codes], ordered)

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many examples each class has."""
        return np.bincount(self.codes, minlength=len(self.classes))

    @property
    def names(self) -> NDArray[Any]:
        """The class name of every example."""
        return np.array(self.classes, dtype=_STRING)[self.codes]


def class_order(names: Sequence[str]) -> NDArray[np.int64]:
    """The order in which classes are numbered: as numbers if all are whole numbers, otherwise as text.

    Rounding gives what is left over to the first classes, so their order must not depend on how labels are stored.
    """
    whole = all(re.fullmatch(r"0|-?[1-9]\d*", name, re.ASCII) for name in names)
    keys: list[Any] = [int(name) for name in names] if whole else list(names)
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


class Batch(NamedTuple):
    """What a fitted metric scores: some rows of a source, in source order."""

    ids: NDArray[Any]
    vectors: NDArray[np.float32]  # unit length, (rows, dim)
    labels: NDArray[np.int64] | None  # class codes


class Scored(NamedTuple):
    """What a fitted metric returns for a batch: higher is harder."""

    values: NDArray[np.floating]
    clusters: NDArray[np.int64] | None = None


@dataclass(frozen=True)
class Scores:
    """One finite score per example (higher is harder), with what is needed to select and to explain."""

    values: NDArray[np.floating]
    ids: NDArray[Any]
    metric: str = "score"
    labels: Labels | None = None
    clusters: NDArray[np.int64] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if len(self.values) != len(self.ids):
            raise PareError(f"there are {len(self.values)} scores for {len(self.ids)} ids; give one score per id.")
        bad = np.flatnonzero(~np.isfinite(self.values))
        if len(bad):
            raise PareError(f"scores must be finite; {len(bad)} are not, at {name_rows(bad)}.")

    def __len__(self) -> int:
        return len(self.values)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)


def unit_rows(block: NDArray[Any], *, ids: NDArray[Any], first: int, where: str) -> NDArray[np.float32]:
    """Rows scaled to unit length, or an error that names the rows that cannot be.

    `ids` are the block's own ids and `first` is the row number of its first row, for the message.
    """
    vectors = np.asarray(block, dtype=np.float32)
    norms = _norms(vectors)
    bad = np.flatnonzero(~_usable(norms))
    if len(bad):
        what = "only zeros" if norms[bad[0]] == 0 else "NaN or infinite values"
        raise PareError(
            f"{where}: embedding {name_rows(bad + first, ids=ids[bad])} holds {what}; "
            f"mend the embeddings, or leave such rows out with on_error='skip' (--on-error skip)."
        )
    return vectors / norms[:, None].astype(np.float32)


def usable_rows(block: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows have a direction: not NaN, not infinite, not all zero."""
    return _usable(_norms(np.asarray(block, dtype=np.float32)))


def _usable(norms: NDArray[np.float64]) -> NDArray[np.bool_]:
    return np.isfinite(norms) & (norms > 0)


def _norms(vectors: NDArray[np.float32]) -> NDArray[np.float64]:
    """Lengths of float32 rows; in float64 where a float32 square overflows or vanishes."""
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        squares = np.vecdot(vectors, vectors).astype(np.float64)
        again = np.flatnonzero(~np.isfinite(squares) | (squares < 1e-30))
        wide = vectors[again].astype(np.float64)
        squares[again] = np.vecdot(wide, wide)
    return np.sqrt(squares)


def name_rows(rows: Sequence[int] | NDArray[Any], *, ids: NDArray[Any] | None = None) -> str:
    """A short human list such as `rows 3, 7, 9 and 12 more`, with ids where they differ from the row number."""
    shown = [int(row) for row in rows[:3]]
    texts = [str(row) for row in shown]
    if ids is not None and any(str(name) != text for name, text in zip(ids[:3], texts, strict=False)):
        texts = [f"{text} (id {name})" for text, name in zip(texts, ids[:3], strict=False)]
    more = len(rows) - len(shown)
    tail = f" and {more} more" if more else ""
    return f"{'row' if len(rows) == 1 else 'rows'} {', '.join(texts)}{tail}"


def natural_order(path: Path) -> list[tuple[int, int | str]]:
    """A sort key that puts shard-2 before shard-10."""
    parts = re.split(r"(\d+)", path.name)
    return [(0, int(part)) if part.isdecimal() else (1, part) for part in parts if part]
