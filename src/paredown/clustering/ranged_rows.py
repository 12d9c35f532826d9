"""Embeddings that no process reads as a whole: samples, sums and passes of k-means by ranges of rows on an engine.

The functions here that take `(common, rows)` are what the workers do. They return counts, sums and the rows of samples,
so that what is held in one place does not grow with the number of rows.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels import CentroidSearch, load_search, search_arrays
from paredown.clustering.lloyd import Rows
from paredown.clustering.passes import ClusterSums, Indices, coordinates, merge_sums
from paredown.engines import Engine, fold
from paredown.errors import PareError
from paredown.ids import hash_ids
from paredown.progress import Track, silent
from paredown.scores import Labels, class_order, unit_rows
from paredown.sources.row_ranges import RangedSource, RangeRows, RowRange

_HASH_BITS = 16  # of a hash that decide its bin, when the smallest ones are sought
_THIS = "paredown.clustering.ranged_rows"


class RangedEmbeddings:
    """Embeddings in ranges of rows and the engine that reads them; metrics are fitted to it as to a source."""

    def __init__(self, source: RangedSource, engine: Engine) -> None:
        self.source, self.engine = source, engine
        self.dim, self.location = source.dim, source.location
        self.ranges = source.ranges()

    def __len__(self) -> int:
        return len(self.source)

    def fold(self, function: str, combine: str, track: Track = silent, label: str = "", **common: Any) -> Any:
        """`function(common, rows)` of every range, combined in a fixed order."""
        common |= {"location": self.location, "columns": self.source.columns}
        memory = 2**28 + 8 * common.get("numbers", 0)
        value = None
        for _ in track(range(1), label, total=1):
            value = fold(self.engine, function, combine, self.ranges, common=common, memory=memory)
        return value

    @cached_property
    def labels(self) -> Labels | None:
        """The classes; no row is in it."""
        names = self.fold(f"{_THIS}:class_names", f"{_THIS}:unite")
        if names is None:
            return None
        known = self.source.known_classes
        ordered = [name for name in known if name in names] if names <= set(known) else sorted(names)
        if not names <= set(known):
            ordered = [ordered[place] for place in class_order(ordered).tolist()]
        return Labels(np.empty(0, np.int64), tuple(ordered))

    def smallest_hashes(self, size: int, *, seed: int) -> NDArray[np.uint64]:
        """The `size` smallest hashes of all ids, in order."""
        counts = self.fold(f"{_THIS}:count_hashes", f"{_THIS}:add", seed=seed)
        enough = int(np.searchsorted(np.cumsum(counts), size))
        limit = np.uint64((enough + 1) * 2 ** (64 - _HASH_BITS) - 1)
        hashes = self.fold(f"{_THIS}:hashes_up_to", f"{_THIS}:append", seed=seed, limit=limit)
        return np.sort(hashes)[:size]

    def sample(self, size: int, *, seed: int) -> Rows:
        """As `VectorSource.sample`: the unit vectors with the smallest hashes, in the order of these."""
        size = min(size, len(self))
        limit = self.smallest_hashes(size, seed=seed)[-1]
        hashes, vectors = self.fold(
            f"{_THIS}:sampled_rows", f"{_THIS}:append_rows", silent, "sampling", seed=seed, limit=limit
        )
        order = np.argsort(hashes)[:size]
        return vectors[order]

    def fitting_rows(self, size: int, *, seed: int) -> RangedRows:
        """The rows with the smallest hashes, to be read in every pass."""
        size = min(size, len(self))
        limit = None if size == len(self) else self.smallest_hashes(size, seed=seed)[-1]
        return RangedRows(self, size, seed, limit)


class RangedRows:
    """The rows of ranged embeddings whose hashes are up to a limit."""

    def __init__(self, embeddings: RangedEmbeddings, size: int, seed: int, limit: np.uint64 | None) -> None:
        self.embeddings, self.size = embeddings, size
        self.chosen = {"seed": seed, "limit": limit}

    def __len__(self) -> int:
        return self.size

    def lloyd_sums(self, search: CentroidSearch, track: Track, label: str) -> ClusterSums:
        """See `FittingRows`."""
        k, dim = search.centroids.shape
        how = {"kernel": search.name, "centroids": search.centroids, "arrays": search_arrays(search)}
        return self._sums(f"{_THIS}:partial_sums", k * dim, track, label, **how)

    def group_sums(self, index: Indices, k: int, dim: int, track: Track) -> ClusterSums:
        """See `FittingRows`."""
        known = {"hashes": self._hashes, "index": index, "k": k}
        return self._sums(f"{_THIS}:known_sums", k * dim, track, "centroids", **known)

    def project(self, basis: Rows, track: Track) -> Rows:
        """See `FittingRows`."""
        of = {"basis": basis, **self.chosen}
        hashes, low = self.embeddings.fold(
            f"{_THIS}:projected_rows", f"{_THIS}:append_rows", track, "leading dimensions", **of
        )
        return low[np.argsort(hashes)]

    @cached_property
    def _hashes(self) -> NDArray[np.uint64]:
        return self.embeddings.smallest_hashes(self.size, seed=self.chosen["seed"])

    def _sums(self, function: str, numbers: int, track: Track, label: str, **common: Any) -> ClusterSums:
        return self.embeddings.fold(
            function, f"{_THIS}:join_sums", track, label, numbers=numbers, **self.chosen, **common
        )


# --- what workers do -----------------------------------------------------------------------------------------------


def open_range(common: dict[str, Any], rows: RowRange) -> RangeRows:
    """The rows of a range."""
    return RangeRows(common["location"], rows, common["columns"])


def class_names(common: dict[str, Any], rows: RowRange) -> set[str] | None:
    """The classes that occur in a range; None if it has no labels."""
    labels = open_range(common, rows).labels
    return None if labels is None else {labels.classes[code] for code in np.unique(labels.codes).tolist()}


def unite(left: set[str] | None, right: set[str] | None) -> set[str] | None:
    """The classes of both."""
    if left is None or right is None:
        if left is not right:
            raise PareError("some of the embeddings have labels and others have none; label all, or none.")
        return None
    return left | right


def count_hashes(common: dict[str, Any], rows: RowRange) -> NDArray[np.int64]:
    """How many ids have their hashes in each of equal bins."""
    hashes = hash_ids(open_range(common, rows).ids, seed=common["seed"])
    return np.bincount((hashes >> np.uint64(64 - _HASH_BITS)).astype(np.int64), minlength=2**_HASH_BITS)


def add(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """Both counts."""
    return left + right


def hashes_up_to(common: dict[str, Any], rows: RowRange) -> NDArray[np.uint64]:
    """The hashes of ids up to a limit."""
    hashes = hash_ids(open_range(common, rows).ids, seed=common["seed"])
    return hashes[hashes <= common["limit"]]


def append(left: NDArray[Any], right: NDArray[Any]) -> NDArray[Any]:
    """One after the other."""
    return np.concatenate([left, right])


def append_rows(left: tuple[Any, Any], right: tuple[Any, Any]) -> tuple[Any, Any]:
    """Hashes and rows, one after the other."""
    return append(left[0], right[0]), append(left[1], right[1])


def sampled_rows(common: dict[str, Any], rows: RowRange) -> tuple[NDArray[np.uint64], Rows]:
    """The unit rows whose hashes are up to a limit, with their hashes."""
    found = list(_chosen(common, rows))
    if not found:
        return np.empty(0, np.uint64), np.empty((0, open_range(common, rows).dim), np.float32)
    return np.concatenate([hashes for hashes, _ in found]), np.concatenate([block for _, block in found])


def projected_rows(common: dict[str, Any], rows: RowRange) -> tuple[NDArray[np.uint64], Rows]:
    """The coordinates of such rows in a few directions."""
    basis = common["basis"]
    parts = [(hashes, coordinates(block, basis)) for hashes, block in _chosen(common, rows)]
    parts.append((np.empty(0, np.uint64), np.empty((0, basis.shape[1]), np.float32)))
    return np.concatenate([hashes for hashes, _ in parts]), np.concatenate([low for _, low in parts])


def partial_sums(common: dict[str, Any], rows: RowRange) -> ClusterSums:
    """The sums of such rows by their nearest centroid."""
    search = load_search(common["kernel"], common["centroids"], common["arrays"])
    sums = ClusterSums(*common["centroids"].shape)
    for _, block in _chosen(common, rows):
        sums.add(block, *search(block))
    return sums


def known_sums(common: dict[str, Any], rows: RowRange) -> ClusterSums:
    """The sums of such rows by groups that are known by the hashes."""
    sums: ClusterSums | None = None
    for hashes, block in _chosen(common, rows):
        sums = sums or ClusterSums(common["k"], block.shape[1])
        index = common["index"][np.searchsorted(common["hashes"], hashes)]
        sums.add(block, index, np.zeros(len(block), np.float32))
    return sums or ClusterSums(common["k"], open_range(common, rows).dim)


def join_sums(left: ClusterSums, right: ClusterSums) -> ClusterSums:
    """Both sums."""
    return merge_sums(left, right)


def _chosen(common: dict[str, Any], rows: RowRange) -> Any:
    """The unit rows of a range with hashes up to the limit, if there is one, block by block, with the hashes."""
    source, first, limit = open_range(common, rows), 0, common["limit"]
    hashes = hash_ids(source.ids, seed=common["seed"])
    for block in source.blocks(source.block_rows):
        here = slice(first, first + len(block))
        chosen = np.ones(len(block), bool) if limit is None else hashes[here] <= limit
        ids = source.ids[here][chosen]
        if len(ids):
            where = rows.start + first
            yield hashes[here][chosen], unit_rows(block[chosen], ids=ids, first=where, where=source.location)
        first += len(block)
