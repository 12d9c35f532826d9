"""What a page shows of the embeddings: a map of them, and groups of near-duplicates."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.ids import hash_ids
from paredown.progress import Track
from paredown.projection import LANDMARKS, Method, Projection, fit_projection
from paredown.report.packing import pack_numbers
from paredown.report.page_parts import told
from paredown.report.recut_data import RankedRows
from paredown.scored_data import open_scored_vectors
from paredown.sources import VectorSource

MOST_POINTS = 100_000
MOST_COMPARED = 20_000  # rows of which all pairs are compared
NEAR_DUPLICATE = 0.95  # cosine from which two examples count as near-duplicates, as `duplicates` counts them
_GROUPS, _IN_GROUP = 8, 8  # that are shown


@dataclass(frozen=True)
class EmbeddingsShown:
    """Points of some ranks in the plane, and groups of ranks that are alike. `note` says why there is neither."""

    ranks: NDArray[np.int64]
    points: NDArray[np.float32]
    method: str
    duplicates: list[DuplicateGroup]
    compared: bool  # whether near-duplicates were looked for
    note: str = ""

    def packed_points(self) -> dict[str, Any] | None:
        """Points on a square of 65,536 x 65,536, both axes on one scale."""
        if len(self.ranks) == 0:
            return None
        low, high = self.points.min(axis=0), self.points.max(axis=0)
        scale = 65_535 / max(float((high - low).max()), 1e-12)
        square = np.clip((self.points - (low + high) / 2) * scale + 32_767.5, 0, 65_535).astype(np.uint32)
        return {
            "ranks": pack_numbers(self.ranks, delta=True),
            "x": pack_numbers(square[:, 0]),
            "y": pack_numbers(65_535 - square[:, 1]),
        }

    @property
    def shown_duplicates(self) -> NDArray[np.int64]:
        """The ranks of the near-duplicates that are shown."""
        return np.array([rank for group in self.duplicates for rank in group.ranks], np.int64)


@dataclass(frozen=True)
class DuplicateGroup:
    """Examples that are connected by pairs of near-duplicates."""

    ranks: list[int]
    more: int  # members that are not listed
    nearest: float  # the lowest of the cosines that connect the listed ones


NOTHING = EmbeddingsShown(np.empty(0, np.int64), np.empty((0, 2), np.float32), "", [], compared=False)


def look_at_embeddings(
    rows: RankedRows,
    *,
    embeddings: str | Path | None = None,
    moved_to: str | Path | None = None,
    method: Method = "auto",
    trust_source: bool = False,
    seed: int = 0,
    track: Track,
) -> EmbeddingsShown:
    """Open the embeddings behind scores and make a map of them; without embeddings, say why there is none.

    They are looked for where they were when they were scored, then where the data are now: at `moved_to`.
    """
    asked = {"trust_source": trust_source, "what": "scored examples", "option": "embeddings"}
    find = partial(open_scored_vectors, rows.scores.provenance, rows.scores.ids, **asked)
    try:
        try:
            source, places = find(source=embeddings)
        except PareError:
            if embeddings is not None or moved_to is None:
                raise
            source, places = find(source=moved_to)
    except PareError as error:
        if embeddings is not None:
            raise
        return replace(NOTHING, note=told(error))
    chosen = np.argsort(hash_ids(rows.scores.ids, seed=seed), kind="stable")[:MOST_POINTS]
    landmarks = np.sort(chosen[:LANDMARKS])
    vectors = source.gather(places[landmarks])
    layout = fit_projection(vectors, seed=seed, method=method)
    points = np.empty((len(rows.keep), 2), np.float32)
    points[landmarks] = layout.places
    others = np.sort(chosen[LANDMARKS:])
    if len(others):
        _place_others(source, places[others], layout, points, others, track)
    ranks = np.sort(rows.rank[chosen])
    compared = len(rows.keep) <= MOST_COMPARED
    groups = find_duplicates(vectors, rows.rank[landmarks]) if compared else []
    return EmbeddingsShown(ranks, points[rows.row[ranks]], layout.method, groups, compared)


def _place_others(
    source: VectorSource,
    places: NDArray[np.int64],
    layout: Projection,
    points: NDArray[np.float32],
    others: NDArray[np.int64],
    track: Track,
) -> None:
    """Points of the rows that are no landmarks, in one pass over the embeddings."""
    row_at = np.full(len(source), -1, np.int64)
    row_at[places] = others
    first = 0
    for batch in track(source.batches(), "map", total=source.n_blocks):
        here = row_at[first : first + len(batch.ids)]
        if (here >= 0).any():
            points[here[here >= 0]] = layout.place(batch.vectors[here >= 0])
        first += len(batch.ids)


def find_duplicates(vectors: NDArray[np.float32], ranks: NDArray[np.int64]) -> list[DuplicateGroup]:
    """The largest groups of rows that are connected by cosines of `NEAR_DUPLICATE` or more, all pairs compared."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    pairs: list[tuple[NDArray[Any], NDArray[Any], NDArray[Any]]] = []
    for first in range(0, len(vectors), 1024):
        cosines = vectors[first : first + 1024] @ vectors[first:].T
        one, other = np.nonzero(cosines >= NEAR_DUPLICATE)
        apart = other > one
        pairs.append((one[apart] + first, other[apart] + first, cosines[one[apart], other[apart]]))
    one, other, cosine = (np.concatenate(parts) for parts in zip(*pairs, strict=True))
    if len(one) == 0:
        return []
    graph = coo_array((np.ones(len(one), np.int8), (one, other)), shape=(len(vectors), len(vectors)))
    _, group_of = connected_components(graph, directed=False)
    sizes = np.bincount(group_of)
    # The largest first; of equal ones, that with the hardest example.
    hardest = np.full(len(sizes), len(vectors))
    np.minimum.at(hardest, group_of, ranks)
    found = []
    for group in np.lexsort((hardest, -sizes))[:_GROUPS].tolist():
        if sizes[group] < 2:
            break
        members = np.flatnonzero(group_of == group)
        members = members[np.argsort(ranks[members])]
        inside = group_of[one] == group
        found.append(
            DuplicateGroup(
                ranks[members[:_IN_GROUP]].tolist(), max(0, len(members) - _IN_GROUP), float(cosine[inside].min())
            )
        )
    return found
