"""What a selection from a table comes to: one threshold per class."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.selection.streamed.order import Rows, Scan

__all__ = ["Cut", "Equals"]


class Equals(NamedTuple):
    """The examples of every class at the cut: their merit, and how many of them are in and out."""

    merit: NDArray[Any]
    inside: NDArray[np.int64]
    outside: NDArray[np.int64]


@dataclass(frozen=True)
class Cut:
    """The last example of every class that is in: those that come no later in the order are."""

    merit: NDArray[Any]
    tie: NDArray[np.uint64]
    place: NDArray[np.int64]
    split: NDArray[np.bool_]  # whether only some of the examples with this merit are in
    kept: NDArray[np.int64]  # how many of each class are in
    equals: Equals
    many_ties: bool = False  # so many equals that ids are better read along than looked up

    def keep(self, rows: Rows, scan: Scan) -> NDArray[np.bool_]:
        """Which rows of a block are in."""
        merit = self.merit[rows.codes]
        keep = rows.merits >= merit
        equal = np.flatnonzero(rows.merits == merit)
        equal = equal[self.split[rows.codes[equal]]]
        if len(equal):
            codes, ties = rows.codes[equal], scan.ties(rows, equal)
            places = scan.order.places(rows.block.first + equal)
            same = (ties == self.tie[codes]) & (places >= self.place[codes])
            keep[equal] = (ties > self.tie[codes]) | same
        return keep
