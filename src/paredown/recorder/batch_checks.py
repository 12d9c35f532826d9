"""A batch as users have it (arrays, tensors of any framework, lists) as checked numpy arrays."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.ids import name_rows
from paredown.metrics.error_norms import lengths_with_one

_LARGEST_LOGIT = 1e30  # far beyond any network, and sums of a row's squares stay finite


class ArrayBatch(NamedTuple):
    """A checked batch, in arrays of its own."""

    indices: NDArray[np.int64]
    logits: NDArray[np.float64]
    labels: NDArray[np.int64]
    feature_lengths: NDArray[np.float64]  # of [h, 1]; NaN where there are no features

    def rows(self, chosen: NDArray[np.int64]) -> ArrayBatch:
        """Some rows of the batch."""
        return ArrayBatch._make(part[chosen] for part in self)

    @classmethod
    def joined(cls, batches: list[ArrayBatch]) -> ArrayBatch:
        """Several batches as one."""
        return batches[0] if len(batches) == 1 else cls._make(map(np.concatenate, zip(*batches, strict=True)))


def to_array(value: Any) -> NDArray[Any]:
    """Anything array-like as numpy; torch tensors also in low precision, on a device or inside a graph."""
    if hasattr(value, "detach"):  # a torch tensor, without importing torch
        value = value.detach()
        if value.is_floating_point() and value.element_size() < 4:
            value = value.float()  # numpy has no bfloat16
        value = value.cpu().numpy()
    return np.asarray(value)


def read_count(value: Any, name: str, *, least: int) -> int:
    """A whole number of at least `least`, or an error that names it."""
    try:
        number = operator.index(value)
    except TypeError:
        raise PareError(f"{name} must be a whole number, got {value!r}.") from None
    if number < least:
        raise PareError(f"{name} must be at least {least}, got {number}.")
    return number


def read_batch(
    given: tuple[Any, Any, Any, Any], *, n_examples: int, n_classes: int, where: str, name: Callable[[Any], str]
) -> ArrayBatch:
    """Check a batch (indices, logits, labels, features) and bring it to the types that the statistics use.

    `where` begins every message, and `name` says which examples some indices are.
    """
    indices, logits, labels, features = given
    index = _whole_numbers(indices, "indices", where)
    label = _whole_numbers(labels, "labels", where)
    logit = to_array(logits)
    if logit.ndim != 2 or logit.shape[1] != n_classes:
        one = " One logit z for two classes is the pair (0, z)." if n_classes == 2 else ""
        raise PareError(f"{where}: logits must have shape (batch, {n_classes}), got {logit.shape}.{one}")
    if not len(index) == len(label) == len(logit):
        raise PareError(
            f"{where}: a batch needs one index, one row of logits and one label per example, got {len(index)}, "
            f"{len(logit)} and {len(label)} of them."
        )
    _in_range(index, n_examples, "index", f"examples are numbered 0 to {n_examples - 1}", where)
    _in_range(label, n_classes, "label", f"classes are numbered 0 to {n_classes - 1}", where)
    logit = _numbers(logit, "logits", index, where, name)
    lengths = np.full(len(index), np.nan)
    if features is not None:
        lengths = lengths_with_one(_features(features, index, where, name))
    return ArrayBatch(index, logit, label, lengths)


def name_examples(indices: NDArray[Any], *, ids: NDArray[Any] | None = None) -> str:
    """A short list such as `examples 3, 7, 9 and 12 more`, with ids where they differ from the index."""
    return name_rows(indices, ids=ids, what="example")


def _whole_numbers(value: Any, name: str, where: str) -> NDArray[np.int64]:
    array = to_array(value)
    if array.ndim != 1:
        hint = "; give classes, not one-hot or mixed labels" if name == "labels" and array.ndim == 2 else ""
        raise PareError(f"{where}: {name} must be one-dimensional, got shape {array.shape}{hint}.")
    if array.dtype.kind not in "iu" and array.size:
        raise PareError(f"{where}: {name} must be whole numbers, got {array.dtype}.")
    return array.astype(np.int64)


def _in_range(values: NDArray[np.int64], end: int, name: str, meaning: str, where: str) -> None:
    if values.size and (values.min() < 0 or values.max() >= end):
        bad = np.flatnonzero((values < 0) | (values >= end))
        raise PareError(
            f"{where}: {name} {values[bad[0]]} in {name_rows(bad)} of the batch is out of range; {meaning}."
        )


def _numbers(
    values: NDArray[Any], what: str, index: NDArray[np.int64], where: str, name: Callable[[Any], str]
) -> NDArray[np.float64]:
    if values.dtype.kind in "OSUTbcmM":
        raise PareError(f"{where}: {what} must be numbers, got {values.dtype}.")
    numbers = np.array(values, dtype=np.float64, order="C")  # a copy: the caller may use the memory again
    if numbers.size and not np.abs(numbers).max() <= _LARGEST_LOGIT:  # NaN compares as false
        bad = np.flatnonzero(~(np.abs(numbers).max(axis=1) <= _LARGEST_LOGIT))
        raise PareError(
            f"{where}: {what} hold NaN, infinite or enormous values for {len(bad)} of {len(index)}, "
            f"{name(index[bad])}. Nothing of this update was recorded; the training has probably diverged: lower its "
            f"learning rate, or leave those examples out of the update."
        )
    return numbers


def _features(features: Any, index: NDArray[np.int64], where: str, name: Callable[[Any], str]) -> NDArray[np.float64]:
    array = to_array(features)
    if array.ndim != 2 or len(array) != len(index):
        raise PareError(f"{where}: features must have shape ({len(index)}, width), got {array.shape}.")
    return _numbers(array, "features", index, where, name)
