"""The values that flow from source to manifest: labels, batches and scores. numpy only."""

from __future__ import annotations

import copy
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.display import Introduced, data_frame, shorten
from paredown.errors import PareError, argument
from paredown.ids import TEXT, check_ids, exact_array, hash_ids, id_array, name_rows

if TYPE_CHECKING:
    import pandas as pd

_PLAIN_LENGTHS = (2.0**-100, 2.0**127)  # of rows that float32 divides by; others need float64
# Of numbers in half precision, moved to where single precision has sign, exponent and mantissa.
_HALF_BITS, _HALF_BIAS, _HALF_INFINITY = np.int32(0x8FFFE000 - 2**32), np.float32(2.0**112), 2.0**16
_SMALLEST = np.float32(2.0**-149)
_HALF_ROWS = 64  # at once: they stay in the cache
_EXACT_FLOAT = 2**53  # above it neighbouring whole numbers are the same floating-point number


@dataclass(frozen=True, repr=False)
class Labels(Introduced):
    """One class per example: `codes` index into the sorted `classes`."""

    codes: NDArray[np.int64]
    classes: tuple[str, ...]

    @classmethod
    def of(cls, values: ArrayLike | Labels, *, length: int | None = None) -> Labels:
        """Labels from any array of whole numbers or text; checked against the number of examples if given."""
        labels = values if isinstance(values, Labels) else cls._encode(exact_array(values, "labels"))
        if length is not None and len(labels) != length:
            raise PareError(f"there are {len(labels)} labels for {length} examples; give one label per example.")
        return labels

    @classmethod
    def _encode(cls, array: NDArray[Any]) -> Labels:
        if array.dtype.kind == "T":
            texts = array.tolist()
            place = {name: code for code, name in enumerate(dict.fromkeys(texts))}
            return cls.numbered(np.fromiter(map(place.__getitem__, texts), np.int64, len(texts)), list(place))
        if array.dtype.kind == "f":
            bad = np.flatnonzero(~np.isfinite(array))
            if len(bad):
                raise PareError(f"labels are missing at {name_rows(bad)}; label them or drop those rows.")
            bad = np.flatnonzero(array != np.round(array))
            if len(bad):
                raise PareError(
                    f"labels must be classes (whole numbers or text), got fractional numbers, e.g. {array[bad[0]]} "
                    f"at row {bad[0]}."
                )
            bad = np.flatnonzero(np.abs(array) > _EXACT_FLOAT)
            if len(bad):
                raise PareError(
                    f"label {array[bad[0]]} at {name_rows(bad)} is too large for a floating-point number to be exact; "
                    "give labels as whole numbers or text."
                )
            array = array.astype(np.int64)
        elif array.dtype.kind not in "iub":
            raise PareError(f"labels must be classes (whole numbers or text), got {array.dtype}; convert them to text.")
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
        return self.numbered_like(tuple(name for name in classes if name in set(self.classes)))

    def numbered_like(self, classes: tuple[str, ...]) -> Labels:
        """The same labels with other classes, among which are all of these."""
        place = {name: code for code, name in enumerate(classes)}
        return Labels(np.array([place[name] for name in self.classes], np.int64)[self.codes], classes)

    @property
    def counts(self) -> NDArray[np.int64]:
        """How many examples each class has."""
        return np.bincount(self.codes, minlength=len(self.classes))

    @property
    def names(self) -> NDArray[Any]:
        """The class name of every example, which is also what `np.asarray(labels)` gives."""
        return np.array(self.classes, dtype=TEXT)[self.codes]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        if copy is False:
            raise ValueError("class names are looked up by code, which always makes a copy")
        return self.names if dtype is None else self.names.astype(dtype)

    def introduce(self) -> dict[str, str]:
        return {"examples": f"{len(self):,}", "classes": f"{len(self.classes):,} ({shorten(self.classes)})"}


def class_order(names: Sequence[str]) -> NDArray[np.int64]:
    """The order in which classes are numbered: as numbers if all are whole numbers, otherwise as text.

    Rounding gives what is left over to the first classes, so their order must not depend on how labels are stored.
    """
    whole = all(re.fullmatch(r"0|-?[1-9]\d*", name, re.ASCII) for name in names)
    keys: list[Any] = [int(name) for name in names] if whole else list(names)
    return np.array(sorted(range(len(keys)), key=keys.__getitem__), np.int64)


def join_labels(parts: Sequence[Labels]) -> Labels:
    """The labels of several parts one after the other, classes being the same where they have the same name."""
    place = {name: code for code, name in enumerate(dict.fromkeys(name for part in parts for name in part.classes))}
    codes = [np.array([place[name] for name in part.classes], np.int64)[part.codes] for part in parts]
    return Labels.numbered(np.concatenate(codes), list(place))


class Batch(NamedTuple):
    """What a fitted metric scores: some rows of a source, in source order."""

    ids: NDArray[Any]
    vectors: NDArray[np.float32]  # unit length, (rows, dim)
    labels: NDArray[np.int64] | None  # class codes


class Scored(NamedTuple):
    """What a fitted metric returns for a batch: higher is harder."""

    values: NDArray[np.floating]
    clusters: NDArray[np.int64] | None = None


@dataclass(frozen=True, repr=False)
class Scores(Introduced):
    """One finite score per example (higher is harder), with what is needed to select and to explain."""

    values: NDArray[np.floating]
    ids: NDArray[Any]
    metric: str = "score"
    labels: Labels | None = None
    clusters: NDArray[np.int64] | None = None
    provenance: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "ids", id_array(self.ids))
        object.__setattr__(self, "values", np.asarray(self.values))
        if self.labels is not None:  # an array of classes is taken, too
            object.__setattr__(self, "labels", Labels.of(self.labels))
        if len(self.values) != len(self.ids):
            raise PareError(f"there are {len(self.values)} scores for {len(self.ids)} ids; give one score per id.")
        for name, given in (("labels", self.labels), ("clusters", self.clusters)):
            if given is not None and len(given) != len(self.ids):
                raise PareError(f"there are {len(given)} {name} for {len(self.ids)} scores; give one per score.")
        check_clusters(self.clusters)
        # Hashing text takes a good part of a selection, and is needed again for ties.
        hashes = hash_ids(self.ids, seed=0) if self.ids.dtype == TEXT else None
        object.__setattr__(self, "_hashes", hashes)
        check_ids(self.ids, hashes)
        bad = np.flatnonzero(~np.isfinite(self.values))
        if len(bad):
            raise PareError(f"scores must be finite; {len(bad)} are not, at {name_rows(bad)}.")

    def hashes(self, seed: int) -> NDArray[np.uint64]:
        """Seeded hashes of the ids, as `hash_ids` makes them."""
        known = self.__dict__["_hashes"] if seed == 0 else None
        return hash_ids(self.ids, seed=seed) if known is None else known

    def with_labels(self, labels: Labels) -> Scores:
        """The same scores with these labels; ids and values, checked before, are not checked again."""
        other = copy.copy(self)
        object.__setattr__(other, "labels", labels)
        return other

    def __len__(self) -> int:
        return len(self.values)

    def introduce(self) -> dict[str, str]:
        facts = {"metric": self.metric, "examples": f"{len(self):,}"}
        if len(self):
            low, middle, high = (f"{value:.4g}" for value in np.quantile(self.values, [0, 0.5, 1]))
            facts["scores"] = f"{low} to {high} (median {middle})"
        if self.labels is not None:
            facts["classes"] = f"{len(self.labels.classes):,}"
        if self.clusters is not None:
            facts["clusters"] = f"{len(np.unique(self.clusters)):,}"
        return facts

    def to_pandas(self) -> pd.DataFrame:
        """A data frame with columns `id`, the metric's name and, where there are any, `label` and `cluster`."""
        columns: dict[str, Any] = {"id": self.ids, self.metric: self.values}
        columns |= {} if self.labels is None else {"label": self.labels.names}
        columns |= {} if self.clusters is None else {"cluster": self.clusters}
        return data_frame({name: _plain_text(values) for name, values in columns.items()})

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> NDArray[Any]:
        return np.array(self.values, dtype=dtype, copy=copy)


def _plain_text(values: NDArray[Any]) -> NDArray[Any]:
    """Text as Python's own, which pandas knows."""
    return values.astype(object) if values.dtype.kind == "T" else values


def check_clusters(clusters: NDArray[Any] | None) -> None:
    """Raise unless clusters are whole numbers of 32 bits, as tables of scores hold them."""
    if clusters is None:
        return
    if clusters.ndim != 1 or clusters.dtype.kind not in "iu":
        raise PareError(f"clusters must be one whole number per example, got {clusters.dtype} of {clusters.shape}.")
    limits = np.iinfo(np.int32)
    bad = np.flatnonzero((clusters < limits.min) | (clusters > limits.max))
    if len(bad):
        raise PareError(
            f"cluster {clusters[bad[0]]} at {name_rows(bad)} does not fit in 32 bits; number the clusters from 0 on."
        )


def unit_rows(block: NDArray[Any], *, ids: NDArray[Any], first: int, where: str) -> NDArray[np.float32]:
    """Rows scaled to unit length, or an error that names the rows that cannot be.

    `ids` are the block's own ids and `first` is the row number of its first row, for the message.
    """
    vectors = as_float32(block)
    norms = _norms(vectors)
    bad = np.flatnonzero(~_usable(norms))
    if len(bad):
        what = "only zeros" if norms[bad[0]] == 0 else "NaN or infinite values"
        raise PareError(
            f"{where}: embedding {name_rows(bad + first, ids=ids[bad])} hold{'s' * (len(bad) == 1)} {what}; "
            f"fix the embeddings, or leave such rows out with {argument('on_error', 'skip')}."
        )
    units = vectors / np.clip(norms, *_PLAIN_LENGTHS)[:, None].astype(np.float32)
    odd = np.flatnonzero((norms < _PLAIN_LENGTHS[0]) | (norms > _PLAIN_LENGTHS[1]))
    units[odd] = vectors[odd].astype(np.float64) / norms[odd, None]
    return units


def usable_rows(block: NDArray[Any]) -> NDArray[np.bool_]:
    """Which rows have a direction: not NaN, not infinite, not all zero."""
    return _usable(_norms(as_float32(block)))


def as_float32(block: NDArray[Any]) -> NDArray[np.float32]:
    """Numbers in single precision, those in half precision by their bits: numpy's own way takes three times as long."""
    block = np.asarray(block)
    if block.dtype != np.float16 or not block.dtype.isnative or not _multiplies_subnormals():
        return np.asarray(block, dtype=np.float32)
    wide = np.empty(block.shape, np.float32)
    for first in range(0, len(block), _HALF_ROWS):
        some, half = wide[first : first + _HALF_ROWS], block[first : first + _HALF_ROWS]
        bits = some.view(np.int32)
        np.left_shift(
            half.view(np.int16), 13, out=bits, dtype=np.int32
        )  # sign, exponent and mantissa where they belong
        np.bitwise_and(bits, _HALF_BITS, out=bits)
        np.multiply(some, _HALF_BIAS, out=some)
        if not -_HALF_INFINITY < some.min(initial=0) <= some.max(initial=0) < _HALF_INFINITY:  # infinite or NaN
            some[:] = half
    return wide


def _multiplies_subnormals() -> bool:
    """Whether this thread does: some libraries have the processor take them for zero."""
    return bool(_SMALLEST * _HALF_BIAS > 0)


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
