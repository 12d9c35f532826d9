"""A data set whose items say which example they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from paredown.errors import PareError


class _MapStyle(Protocol):
    def __len__(self) -> int: ...
    def __getitem__(self, index: Any, /) -> Any: ...


class Indexed:
    """Items with their index: `(x, y)` becomes `(x, y, index)`, a dictionary gets an `index` entry.

    Anything else becomes `(item, index)`. It works with torch's `DataLoader`, in worker processes too.
    """

    def __init__(self, dataset: _MapStyle) -> None:
        self.dataset = dataset

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> Any:
        item = self.dataset[index]
        if isinstance(item, Mapping):
            return {**item, "index": index}
        if isinstance(item, tuple | list):
            return (*item, index)
        return item, index


def with_indices(dataset: _MapStyle) -> Indexed:
    """The same data set, whose items also carry their index, as `Recorder.update` needs it."""
    if not hasattr(dataset, "__len__") or not hasattr(dataset, "__getitem__"):
        raise PareError(
            f"with_indices needs a data set with a length and numbered items, got {type(dataset).__name__}; "
            "let an iterable data set yield its own indices."
        )
    return Indexed(dataset)
