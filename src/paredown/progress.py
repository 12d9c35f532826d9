"""Progress as one small function, so that no layer below the command line knows about terminals.

A `Track` wraps an iterable and reports how far it has come. Library functions take `track=silent` by default; the
command line passes one that draws a bar.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Protocol, TypeVar

T = TypeVar("T")


class Track(Protocol):
    """Yield the items of an iterable unchanged while reporting progress under a label."""

    def __call__(self, items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
        """Yield every item of `items`; `total` is their number where it is known."""
        ...


def silent(items: Iterable[T], label: str, total: int | None = None) -> Iterator[T]:
    """Report nothing."""
    yield from items
