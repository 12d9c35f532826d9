"""Nearest centroid among those of the nearest groups: approximate, for more centroids than rows can be compared with.

The centroids are themselves grouped by direction. A row is compared with the middle of every group, and then with the
centroids of the `probes` groups whose middles are nearest. Both are exact to the last bit, as in all kernels, so that
the answer for a row does not depend on the rows around it; but a centroid of another group may be nearer, most often
for the rows that are far from all. `measure_agreement` says how often.

To rule groups out for certain by the triangle inequality helps little: of real embeddings in 128 dimensions, a row is
so far from its nearest of 50,000 centroids that 83 % of the centroids are in groups that could hold a nearer one.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels.cosines import (
    Indices,
    Rows,
    lengths,
    pair_cosines,
    product_error,
    round_down,
    rows_at_once,
    settle,
)
from paredown.threads import blas_threads, one_blas_thread

EXACT_MOST = 10_000  # centroids that every row is compared with, unless `probes` are given
PROBES = 64  # groups, of about 4 sqrt(k); enough for real embeddings of 128 dimensions at k = 50,000
WANTED_AGREEMENT = 0.99  # that probes are chosen for
LEAST_AGREEMENT = 0.98  # below which there is a warning
HARDEST = 0.2  # share of the rows whose selection is compared
_FEWEST_PROBES, _MOST_SHARE = 16, 4  # to choose from: 16, 32, ... up to a quarter of the groups
_BLOCK_ROWS = 8_192  # compared at once: enough for each group to be compared with many


class GroupedSearch:
    """A search among the centroids of the nearest groups. The centroids of a group follow one another."""

    name = "grouped"

    def __init__(self, centroids: Rows, starts: Indices, middles: Rows, probes: int) -> None:
        """Prepare the search.

        Args:
            centroids: group by group.
            starts: the first centroid of each group.
            middles: the direction of each group.
            probes: groups that a row is compared with; all of them is the exact search.
        """
        self.centroids = np.ascontiguousarray(centroids, np.float32)
        self.starts, self.middles = starts, np.ascontiguousarray(middles, np.float32)
        self.probes = min(probes, len(middles))
        sizes = np.diff(starts, append=len(centroids))
        if len(starts) != len(middles) or starts[0] != 0 or sizes.min() < 1 or probes < 1:
            raise ValueError("the groups of its centroids are not what they should be")
        self._groups = np.split(self.centroids, starts[1:])
        error = 2 * product_error(centroids.shape[1])  # of a product and of a cosine
        self._error = error * float(lengths(self.centroids).max())
        self._middle_error = error * float(lengths(self.middles).max())

    def __call__(self, block: Rows) -> tuple[Indices, NDArray[np.float32]]:
        """For unit rows, the index of the centroid with the largest cosine in the nearest groups, and that cosine."""
        block = np.ascontiguousarray(block)
        index, cosine = np.empty(len(block), np.int64), np.empty(len(block), np.float32)

        def search(first: int) -> None:
            part = slice(first, first + _BLOCK_ROWS)
            index[part], cosine[part] = self._search(block[part])

        threads = blas_threads()
        with one_blas_thread(), ThreadPoolExecutor(threads) as pool:  # the products are too small to share
            list(pool.map(search, range(0, len(block), _BLOCK_ROWS)))
        return index, cosine

    def _search(self, rows: Rows) -> tuple[Indices, NDArray[np.float32]]:
        """Products with one group after the other; what is close to the largest one is settled pair by pair."""
        length = lengths(rows)
        row, bounds = self._pairs(rows, length)
        best = np.empty(len(row), np.float32)
        for centroids, first, last in zip(self._groups, bounds, bounds[1:], strict=False):
            # This way round the largest is found for many rows at once.
            np.max(centroids @ rows[row[first:last]].T, axis=0, out=best[first:last])
        lead = np.full(len(rows), -np.inf, np.float32)
        np.maximum.at(lead, row, best)
        threshold = round_down(lead.astype(np.float64) - 2 * self._error * length)
        close = np.flatnonzero(best >= threshold[row])
        ends = np.searchsorted(close, bounds)
        index, cosine = np.zeros(len(rows), np.int64), np.full(len(rows), -np.inf, np.float32)
        for number in np.flatnonzero(np.diff(ends)).tolist():
            some = row[close[ends[number] : ends[number + 1]]]
            rival, which = np.nonzero(self._groups[number] @ rows[some].T >= threshold[some])
            settle(rows, self.centroids, index, cosine, some[which], self.starts[number] + rival)
        return index, cosine

    def _pairs(self, rows: Rows, length: NDArray[np.float64]) -> tuple[Indices, list[int]]:
        """The rows that are compared with each group, group after group, and where those of each begin."""
        near = np.ascontiguousarray(self._nearest_groups(rows, length).T)
        group, row = np.divmod(np.flatnonzero(near), len(rows))
        return row, np.searchsorted(group, np.arange(len(self.middles) + 1)).tolist()

    def _nearest_groups(self, rows: Rows, length: NDArray[np.float64]) -> NDArray[np.bool_]:
        """For every row and group, whether its middle is among the nearest: by cosine, then by number."""
        groups = len(self.middles)
        if self.probes == groups:
            return np.ones((len(rows), groups), bool)
        products = rows @ self.middles.T
        last = np.partition(products, groups - self.probes, axis=1)[:, groups - self.probes].astype(np.float64)
        # The last cosine that counts is within the error of the last product, and so is every cosine of its own.
        margin = 2 * self._middle_error * length
        near = products >= round_down(last - margin)[:, None]
        doubtful = np.flatnonzero(near.sum(axis=1) > self.probes)
        if len(doubtful):
            sure = products[doubtful] > -round_down(-(last + margin)[doubtful])[:, None]
            row, group = np.nonzero(near[doubtful] & ~sure)
            cosine = pair_cosines(rows, doubtful[row], self.middles, group)
            order = np.lexsort((group, -cosine, row))
            row, group = row[order], group[order]
            rank = np.arange(len(row)) - np.searchsorted(row, np.arange(len(doubtful)))[row]
            near[doubtful[row], group] = rank < (self.probes - sure.sum(axis=1))[row]
        return near


def group_count(k: int) -> int:
    """Into how many groups k centroids are put: more than the root of k, so that those probed are small."""
    return max(1, min(k // 4, round(4 * math.sqrt(k))))


# What comparing a row takes among groups, in products of a row with a vector among many: finding the nearest middles,
# and products with the few centroids of a group, which are less efficient; and copying the row for each group.
_PER_MIDDLE, _PER_CENTROID, _PER_PROBE = 4, 2, 50


def search_work(k: int, probes: int) -> float:
    """With how many vectors a row could be compared by the exact search in the time that this one takes.

    Fitted to measurements with 20,000 and 50,000 centroids of 128 to 768 dimensions, most of which it meets within a
    tenth (benchmarks/README.md).
    """
    groups = group_count(k)
    probes = min(probes, groups)
    return _PER_MIDDLE * groups + probes * (_PER_CENTROID * k / groups + _PER_PROBE)


@dataclass(frozen=True)
class SearchAgreement:
    """How well a search among some groups agrees with the exact one on sample rows.

    `assignments` is the share of rows with the same centroid, `hardest` how much of the hardest 20 % by exact scores
    is also among the hardest 20 % by approximate ones.
    """

    rows: int
    probes: int
    groups: int
    assignments: float
    hardest: float

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def warning(self) -> str | None:
        """What is wrong, and what to do about it."""
        if min(self.assignments, self.hardest) >= LEAST_AGREEMENT:
            return None
        return (
            f"the approximate search finds the nearest prototype for {self.assignments:.1%} of the sample rows, and "
            f"{self.hardest:.1%} of their hardest {HARDEST:.0%}; both should be at least {LEAST_AGREEMENT:.0%}. "
            f"Raise the option probes from {self.probes} (all {self.groups} groups would be exact), or take the kernel "
            "float32, which compares with every prototype."
        )


def measure_agreement(search: GroupedSearch, rows: Rows, probes: int | None = None) -> SearchAgreement:
    """Compare the search among some groups with the exact one, on sample rows.

    Unless `probes` are given, the fewest that agree well on half of the rows are taken, and the other half says how
    well these do.
    """
    found = _best_by_probes(search, rows)
    half = len(rows) // 2 if probes is None else 0
    if probes is None:
        probes = _enough_probes(found[:half])
    return _agreement(found[half:], min(probes, len(search.middles)))


def _enough_probes(found: Rows) -> int:
    groups = found.shape[1]
    most = max(groups // _MOST_SHARE, min(_FEWEST_PROBES, groups))
    probes = _FEWEST_PROBES
    while probes < most:
        agreement = _agreement(found, probes)
        if min(agreement.assignments, agreement.hardest) >= WANTED_AGREEMENT:
            return probes
        probes *= 2
    return most


def _agreement(found: Rows, probes: int) -> SearchAgreement:
    exact, approximate = found[:, -1], found[:, probes - 1]
    count = max(1, round(HARDEST * len(found)))
    hardest = (np.argsort(cosine, kind="stable")[:count] for cosine in (exact, approximate))
    same = np.intersect1d(*hardest, assume_unique=True)
    return SearchAgreement(len(found), probes, found.shape[1], float((exact == approximate).mean()), len(same) / count)


def _best_by_probes(search: GroupedSearch, rows: Rows) -> Rows:
    """The largest product of every row among the centroids of its nearest group, of the two nearest, and so on."""
    found = np.empty((len(rows), len(search.middles)), np.float32)
    step = rows_at_once(*search.centroids.shape)
    with one_blas_thread():  # rounding decides what is counted, and with it how many groups are probed
        for first in range(0, len(rows), step):
            part = rows[first : first + step]
            nearest_first = np.argsort(-(part @ search.middles.T), axis=1, kind="stable")
            best = np.maximum.reduceat(part @ search.centroids.T, search.starts, axis=1)
            found[first : first + step] = np.take_along_axis(best, nearest_first, axis=1)
    return np.maximum.accumulate(found, axis=1)
