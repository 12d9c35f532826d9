"""The nearest examples of every example, for viewers: all compared with all where they are few, otherwise in cells.

Above `EXACT_ROWS` the rows are put into cells of about 256 by direction, and those of a cell are compared with about
4,096 rows of the nearest cells. The time grows with the number of rows, and not with its square; a few neighbours of
another cell are missed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.lloyd import group_in_two_levels
from paredown.progress import Track
from paredown.threads import one_blas_thread

EXACT_ROWS = 8_192
_CELL, _COMPARED, _MOST = 256, 8_192, 32_768  # rows of a cell; rows that one is compared with, about and at most
_SAMPLED, _ITERATIONS = 32, 5  # rows for each cell to find the cells with
_BLOCK = 1_024

Rows = NDArray[np.float32]
Indices = NDArray[np.int64]


def near_examples(vectors: Rows, number: int, *, track: Track) -> tuple[Indices, Rows]:
    """Rows that are nearest to each by cosine distance, itself first and the lowest of equals, and their distances."""
    number = min(number, len(vectors))
    found = np.empty((len(vectors), number), np.int64), np.empty((len(vectors), number), np.float32)
    with one_blas_thread():
        cells = len(vectors) // _CELL if len(vectors) > EXACT_ROWS else 1
        groups = _in_cells(vectors, cells) if cells > 1 else iter([(np.arange(len(vectors)), np.arange(len(vectors)))])
        for rows, others in track(groups, "finding neighbours", total=cells):
            reference = vectors[others]
            for first in range(0, len(rows), _BLOCK):
                some = rows[first : first + _BLOCK]
                for all_rows, of_some in zip(found, _nearest(vectors, some, reference, others, number), strict=True):
                    all_rows[some] = of_some
    return found


def _nearest(vectors: Rows, rows: Indices, reference: Rows, others: Indices, number: int) -> tuple[Indices, Rows]:
    """Of some rows among others, which are in ascending order and hold these."""
    apart = 1 - vectors[rows] @ reference.T
    np.maximum(apart, 0, out=apart)
    apart[np.arange(len(rows)), np.searchsorted(others, rows)] = -1  # before its copies
    near = np.argpartition(apart, number - 1, axis=1)[:, :number]
    last = np.take_along_axis(apart, near, axis=1).max(axis=1, keepdims=True)
    for row in np.flatnonzero((apart <= last).sum(axis=1) > number):  # of more that are equally far, any were taken
        nearer = np.flatnonzero(apart[row] < last[row])
        near[row] = np.append(nearer, np.flatnonzero(apart[row] == last[row])[: number - len(nearer)])
    near.sort(axis=1)
    distances = np.take_along_axis(apart, near, axis=1)
    order = np.argsort(distances, axis=1, kind="stable")
    return others[np.take_along_axis(near, order, axis=1)], np.maximum(np.take_along_axis(distances, order, axis=1), 0)


def _in_cells(vectors: Rows, cells: int) -> Iterator[tuple[Indices, Indices]]:
    """The rows of each cell, and those that they are compared with, these among them."""
    sample = vectors[:: max(1, len(vectors) // (_SAMPLED * cells))]
    middles = group_in_two_levels(sample, cells, np.random.default_rng(0), _ITERATIONS).centroids
    blocks = range(0, len(vectors), _BLOCK)
    of_row = np.concatenate([(vectors[first : first + _BLOCK] @ middles.T).argmax(axis=1) for first in blocks])
    sizes = np.bincount(of_row, minlength=len(middles))
    members = np.split(np.argsort(of_row, kind="stable"), np.cumsum(sizes)[:-1])
    for cell, rows in enumerate(members):
        nearest_first = np.argsort(-(middles @ middles[cell]), kind="stable")
        nearest_first = nearest_first[nearest_first != cell]
        enough = 1 + int(np.searchsorted(sizes[nearest_first].cumsum(), _COMPARED - len(rows)))
        others = np.concatenate([rows, *(members[other] for other in nearest_first[:enough].tolist())])
        for first in range(0, len(rows), _MOST):  # of a cell of copies, only some are compared with one another
            some = rows[first : first + _MOST]
            step = -(-len(others) // _MOST)
            yield some, np.unique(np.concatenate([some, others[::step]]))
