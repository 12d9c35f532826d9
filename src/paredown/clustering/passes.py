"""Passes of k-means over unit rows block by block, whether the rows are held in memory or read again each time.

Sums over many rows are made chunk by chunk and combined in a tree (`engines.base.combined`): whoever makes the sums of
the chunks, this process or the workers of a cluster, their total has the same bits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice
from typing import NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels import CentroidSearch
from paredown.clustering.lloyd import Rows
from paredown.engines.base import combined
from paredown.ids import hash_ids
from paredown.progress import Track, silent
from paredown.scores import unit_rows
from paredown.sources import VectorSource
from paredown.sources.base import CHUNK_BLOCKS
from paredown.threads import one_blas_thread

Indices = NDArray[np.int64]

_HELD_ROWS = 4_096  # of rows in memory in one block
_SPARE = 256  # worst rows remembered in a pass, for clusters that lose all their rows
_BATCH_ROWS = 8_192  # of a mini-batch, at least
_BEGIN_WEIGHT = 32  # rows that the centroids before a mini-batch pass count for
_NOTHING = 1e-6  # a sum of unit rows shorter than this has no direction


class Clustering(NamedTuple):
    """Unit centroids (k, dim), and the mean cosine of the rows to their nearest one before the last small step."""

    centroids: Rows
    mean_cosine: float


class FittingRows(Protocol):
    """Unit rows that a clustering is fitted to, numbered in the order of the seeded hash of their ids."""

    def __len__(self) -> int: ...

    def lloyd_sums(self, search: CentroidSearch, track: Track, label: str) -> ClusterSums:
        """The sums of all rows by their nearest centroid."""
        ...

    def group_sums(self, index: Indices, k: int, dim: int, track: Track) -> ClusterSums:
        """The sums of all rows by groups that are known: one for the number of each row."""
        ...

    def project(self, basis: Rows, track: Track) -> Rows:
        """The coordinates of all rows in a few directions, in the order of their numbers."""
        ...


Block = tuple[Indices, Rows]  # some rows, with their numbers


class _RowsHere(ABC):
    """Rows that this process goes through."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def chunks(self, track: Track, label: str) -> Iterator[Iterable[Block]]:
        """All rows, in blocks of any order, some blocks at a time; a chunk is to be read before the next."""

    def lloyd_sums(self, search: CentroidSearch, track: Track, label: str) -> ClusterSums:
        k, dim = search.centroids.shape

        def summed(chunk: Iterable[Block]) -> ClusterSums:
            sums = ClusterSums(k, dim)
            for _, block in chunk:
                sums.add(block, *search(block))
            return sums

        return combined(merge_sums, map(summed, self.chunks(track, label)))

    def group_sums(self, index: Indices, k: int, dim: int, track: Track) -> ClusterSums:
        def summed(chunk: Iterable[Block]) -> ClusterSums:
            sums = ClusterSums(k, dim)
            for number, block in chunk:
                sums.add(block, index[number], np.zeros(len(block), np.float32))
            return sums

        return combined(merge_sums, map(summed, self.chunks(track, "centroids")))

    def project(self, basis: Rows, track: Track) -> Rows:
        low = np.empty((len(self), basis.shape[1]), np.float32)
        for chunk in self.chunks(track, "leading dimensions"):
            for number, block in chunk:
                low[number] = coordinates(block, basis)
        return low


class HeldRows(_RowsHere):
    """Rows in memory."""

    def __init__(self, vectors: Rows) -> None:
        self.vectors = vectors

    def __len__(self) -> int:
        return len(self.vectors)

    def chunks(self, track: Track, label: str) -> Iterator[Iterable[Block]]:
        starts = range(0, len(self), _HELD_ROWS)
        parts = (self.vectors[first : first + _HELD_ROWS] for first in starts)
        yield ((np.arange(first, first + len(part)), part) for first, part in zip(starts, parts, strict=True))


class StreamedRows(_RowsHere):
    """The rows of a source with the smallest hashes, read from it in every pass and in its own order."""

    def __init__(self, source: VectorSource, size: int, *, seed: int) -> None:
        self.source, self.size = source, min(size, len(source))
        hashes = hash_ids(source.ids, seed=seed)
        chosen = np.argpartition(hashes, self.size - 1)[: self.size]
        self._number = np.full(len(source), -1, np.int64)
        self._number[chosen[np.argsort(hashes[chosen])]] = np.arange(self.size)

    def __len__(self) -> int:
        return self.size

    def chunks(self, track: Track, label: str) -> Iterator[Iterable[Block]]:
        source = self.source
        blocks = track(source.blocks(source.block_rows), label, total=source.n_blocks)
        for number, first in enumerate(blocks):
            yield self._chosen(chain([first], islice(blocks, CHUNK_BLOCKS - 1)), number * CHUNK_BLOCKS)

    def _chosen(self, blocks: Iterable[NDArray[np.generic]], number: int) -> Iterator[Block]:
        source, first = self.source, number * self.source.block_rows
        for block in blocks:
            numbers = self._number[first : first + len(block)]
            chosen = numbers >= 0
            ids = source.ids[first : first + len(block)][chosen]
            first += len(block)
            if len(ids):  # only these are scaled: bad rows elsewhere were found when the first sample was taken
                yield numbers[chosen], unit_rows(block[chosen], ids=ids, first=first, where=source.location)


class ClusterSums:
    """Sums of rows by cluster in double precision, so that the order of rows hardly rounds them differently."""

    def __init__(self, k: int, dim: int) -> None:
        self.sums, self.counts, self.total = np.zeros((k, dim)), np.zeros(k, np.int64), 0.0
        self._worst, self._worst_cosine = np.empty((0, dim), np.float32), np.empty(0, np.float32)
        self._spare = max(_SPARE, k // 8)

    def add(self, rows: Rows, index: Indices, cosine: NDArray[np.float32]) -> Indices:
        """Add rows to their clusters; which clusters that changed."""
        from scipy.sparse import csr_array

        present, member = np.unique(index, return_inverse=True)
        n = len(rows)
        members = csr_array((np.ones(n), member, np.arange(n + 1)), shape=(n, len(present)))
        self.sums[present] += members.T @ rows
        self.counts[present] += np.bincount(member)
        self.total += float(cosine.sum(dtype=np.float64))
        bad = np.argpartition(cosine, self._spare)[: self._spare] if n > self._spare else np.arange(n)
        self._keep_worst(rows[bad], cosine[bad])
        return present

    def merge(self, other: ClusterSums) -> None:
        """Add the sums of rows that come after these."""
        self.sums += other.sums
        self.counts += other.counts
        self.total += other.total
        self._keep_worst(other._worst, other._worst_cosine)

    def _keep_worst(self, rows: Rows, cosine: NDArray[np.float32]) -> None:
        both = np.concatenate([self._worst_cosine, cosine])
        worst = np.argsort(both, kind="stable")[: self._spare]
        self._worst, self._worst_cosine = np.concatenate([self._worst, rows])[worst], both[worst]

    def directions(self, previous: Rows | None) -> Rows:
        """Unit sums; a cluster without a direction moves to a row that fits badly, or stays while there is none."""
        lengths = _lengths(self.sums)
        lost = np.flatnonzero((lengths < _NOTHING) | (self.counts == 0))
        lengths[lost] = 1
        centroids = (self.sums / lengths[:, None]).astype(np.float32)
        if len(lost):
            moved = lost[: len(self._worst)]
            centroids[lost] = 0 if previous is None else previous[lost]
            centroids[moved] = self._worst[: len(moved)]
        return centroids


def _lengths(sums: NDArray[np.float64]) -> NDArray[np.float64]:
    """The lengths of rows; BLAS would share long ones between threads, and round them by their number."""
    return np.sqrt(np.square(sums).sum(axis=1))


def sums_memory(k: int, dim: int) -> int:
    """Bytes of `ClusterSums`."""
    return 8 * k * (dim + 1) + 4 * max(_SPARE, k // 8) * (dim + 1)


def merge_sums(left: ClusterSums, right: ClusterSums) -> ClusterSums:
    """Both sums in the left one."""
    left.merge(right)
    return left


def coordinates(rows: Rows, basis: Rows) -> Rows:
    """The coordinates of rows in a few directions."""
    with one_blas_thread():  # clusters are sought among these numbers, to their last bits
        return rows @ basis


def lloyd_pass(rows: FittingRows, search: CentroidSearch, track: Track = silent, label: str = "") -> Clustering:
    """One iteration of spherical k-means: every row to its nearest centroid, every centroid to its rows."""
    sums = rows.lloyd_sums(search, track, label)
    return Clustering(sums.directions(search.centroids), sums.total / len(rows))


def minibatch_pass(
    source: VectorSource,
    centroids: Rows,
    prepare: Callable[[Rows], CentroidSearch],
    *,
    memory: int,
    track: Track = silent,
    label: str = "",
) -> Clustering:
    """One pass over a source that moves the centroids after every mini-batch (after Sculley 2010, on the sphere).

    A centroid is the direction of the sum of its rows so far, so that a row counts for less the later it comes. The
    centroids at the beginning count for 32 rows.
    """
    sums, centroids = ClusterSums(*centroids.shape), centroids.copy()
    sums.sums += _BEGIN_WEIGHT * centroids
    most = max(1, min(max(_BATCH_ROWS, source.block_rows), memory // (8 * 4 * source.dim)))
    first = 0
    for block in track(source.blocks(most), label, total=-(-len(source) // most)):
        part = slice(first, first + len(block))
        rows = unit_rows(block, ids=source.ids[part], first=first, where=source.location)
        first += len(block)
        moved = sums.add(rows, *prepare(centroids)(rows))
        lengths = _lengths(sums.sums[moved])[:, None]
        centroids[moved] = sums.sums[moved] / np.maximum(lengths, _NOTHING)
    return Clustering(sums.directions(centroids), sums.total / len(source))
