"""Embeddings that no process reads as a whole: samples, sums and passes of k-means by ranges of rows on an engine.

The functions here that take `(common, rows)` are what the workers do. They return counts, sums and the rows of samples,
so that what is held in one place does not grow with the number of rows.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels import CentroidSearch, load_search, search_arrays
from paredown.clustering.lloyd import Rows
from paredown.clustering.passes import ClusterSums, Indices, coordinates, merge_sums, sums_memory
from paredown.engines import Engine, fold
from paredown.engines.base import find_function, group_size, groups_of, most_values
from paredown.errors import PareError
from paredown.ids import hash_ids
from paredown.progress import Track, silent
from paredown.scores import Labels, class_order, unit_rows
from paredown.sources.row_ranges import RangedSource, RangeRows, RowRange

_HASH_BITS = 16  # of a hash that decide its bin, when the smallest ones are sought
_FOLD_MEMORY = 2**28  # of a range of rows that is read, beside the sums
_MORE_THAN_FAIR = 1.25  # times the mean that a group of ranges may have of a sample
_THIS = "paredown.clustering.ranged_rows"


class RangedEmbeddings:
    """Embeddings in ranges of rows and the engine that reads them; metrics are fitted to it as to a source."""

    def __init__(self, source: RangedSource, engine: Engine) -> None:
        self.source, self.engine = source, engine
        self.dim, self.location = source.dim, source.location
        self.ranges = source.ranges()

    def __len__(self) -> int:
        return len(self.source)

    def fold(
        self,
        function: str,
        combine: str,
        track: Track = silent,
        label: str = "",
        *,
        value_bytes: int = 0,
        **common: Any,
    ) -> Any:
        """`function(common, rows)` of every range, combined in a fixed order; a value takes so many bytes."""
        common |= {"location": self.location, "columns": self.source.columns}
        memory = _FOLD_MEMORY + value_bytes * most_values(len(self.ranges), self.engine.workers)
        value = None
        for _ in track(range(1), label, total=1):
            value = fold(self.engine, function, combine, self.ranges, common=common, memory=memory)
        return value

    def gather(
        self, function: str, track: Track = silent, label: str = "", *, total_bytes: int, **common: Any
    ) -> list[Any]:
        """The parts that `function(common, rows)` gives for every range, in order; `total_bytes` is what all take.

        They come here as they are: joined by the workers, all of them would be before one worker in the end, twice.
        """
        common |= {"location": self.location, "columns": self.source.columns, "function": function}
        groups = groups_of(self.ranges, self.engine.workers)
        jobs = [{"name": _name(group), "ranges": group} for group in groups]
        memory = _FOLD_MEMORY + gathered_bytes(total_bytes, len(self.ranges), self.engine.workers)
        outcomes = self.engine.run_jobs(f"{_THIS}:parts_of_ranges", jobs, common=common, memory=memory)
        found: list[list[Any]] = [[] for _ in jobs]
        for outcome in track(outcomes, label, total=len(jobs)):
            if outcome.error is not None:
                raise PareError(outcome.error)
            found[outcome.job] = outcome.value
        return [part for parts in found for part in parts]

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
        of = {"seed": seed, "limit": np.uint64((enough + 1) * 2 ** (64 - _HASH_BITS) - 1)}
        hashes = self.gather(f"{_THIS}:hashes_up_to", total_bytes=8 * int(counts[: enough + 1].sum()), **of)
        return np.sort(np.concatenate(hashes))[:size]

    def sample(self, size: int, *, seed: int) -> Rows:
        """As `VectorSource.sample`: the unit vectors with the smallest hashes, in the order of these."""
        size = min(size, len(self))
        limit = self.smallest_hashes(size, seed=seed)[-1]
        of = {"seed": seed, "limit": limit, "total_bytes": 4 * self.dim * size}
        return _in_order(self.gather(f"{_THIS}:sampled_rows", silent, "sampling", **of), size, self.dim)

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
        return self._sums(f"{_THIS}:partial_sums", sums_memory(k, dim), track, label, **how)

    def group_sums(self, index: Indices, k: int, dim: int, track: Track) -> ClusterSums:
        """See `FittingRows`."""
        known = {"hashes": self._hashes, "index": index, "k": k}
        return self._sums(f"{_THIS}:known_sums", sums_memory(k, dim), track, "centroids", **known)

    def project(self, basis: Rows, track: Track) -> Rows:
        """See `FittingRows`."""
        width = basis.shape[1]
        of = {"basis": basis, **self.chosen, "total_bytes": (4 * width + 8) * self.size}
        parts = self.embeddings.gather(f"{_THIS}:projected_rows", track, "leading dimensions", **of)
        return _in_order(parts, self.size, width)

    @cached_property
    def _hashes(self) -> NDArray[np.uint64]:
        return self.embeddings.smallest_hashes(self.size, seed=self.chosen["seed"])

    def _sums(self, function: str, value_bytes: int, track: Track, label: str, **common: Any) -> ClusterSums:
        join = f"{_THIS}:join_sums"
        return self.embeddings.fold(function, join, track, label, value_bytes=value_bytes, **self.chosen, **common)


def _name(ranges: Sequence[RowRange]) -> str:
    return ranges[0].name + (f", or one of the next {len(ranges) - 1}" if len(ranges) > 1 else "")


def gathered_bytes(total: int, ranges: int, workers: int) -> int:
    """What a worker holds of parts that are gathered, at most: a range may have a few more than its share."""
    return math.ceil(_MORE_THAN_FAIR * total * group_size(ranges, workers) / ranges)


def _in_order(parts: list[tuple[NDArray[np.uint64], Rows]], size: int, dim: int) -> Rows:
    """The rows of all parts with the smallest hashes, in the order of these; parts are given up as they are used."""
    hashes = np.concatenate([hashes for hashes, _ in parts])
    place = np.full(len(hashes), size)
    place[np.argsort(hashes)[:size]] = np.arange(size)
    found = np.empty((size, dim), np.float32)
    first = 0
    parts.reverse()
    while parts:
        _, rows = parts.pop()
        here = place[first : first + len(rows)]
        found[here[here < size]] = rows[here < size]
        first += len(rows)
    return found


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
    """Both counts, in the left one."""
    left += right
    return left


def parts_of_ranges(common: dict[str, Any], job: dict[str, Any]) -> list[Any]:
    """What the function that is named gives for each range of a job."""
    return [part for rows in job["ranges"] for part in find_function(common["function"])(common, rows)]


def hashes_up_to(common: dict[str, Any], rows: RowRange) -> list[NDArray[np.uint64]]:
    """The hashes of ids up to a limit."""
    hashes = hash_ids(open_range(common, rows).ids, seed=common["seed"])
    return [hashes[hashes <= common["limit"]]]


def sampled_rows(common: dict[str, Any], rows: RowRange) -> Iterator[tuple[NDArray[np.uint64], Rows]]:
    """The unit rows whose hashes are up to a limit, with their hashes, block by block."""
    return _chosen(common, rows)


def projected_rows(common: dict[str, Any], rows: RowRange) -> Iterator[tuple[NDArray[np.uint64], Rows]]:
    """The coordinates of such rows in a few directions."""
    return ((hashes, coordinates(block, common["basis"])) for hashes, block in _chosen(common, rows))


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


def _chosen(common: dict[str, Any], rows: RowRange) -> Iterator[tuple[NDArray[np.uint64], Rows]]:
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
