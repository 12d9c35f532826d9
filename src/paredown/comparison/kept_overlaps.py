"""How much of what one metric keeps another keeps too."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.ids import hash_ids
from paredown.scores import Labels
from paredown.selection.floors import keep_in_order
from paredown.selection.selection_settings import SelectionSettings
from paredown.selection.strategies import DROPPING, STRATEGIES


def kept_overlaps(
    values: Sequence[NDArray[np.floating]],
    ties: Sequence[NDArray[np.uint64]],
    labels: Labels | None,
    settings: Sequence[SelectionSettings],
) -> NDArray[np.float64]:
    """Of what one metric keeps, the share that the other keeps: (settings, metrics, metrics).

    Args:
        values: the scores by each metric, of the same examples.
        ties: hashes of the examples that break ties, for each metric; see `own_ties`.
        labels: classes of the floor; may be None where there is none.
        settings: of the selections that are compared.
    """
    groups = Labels(np.zeros(len(values[0]), np.int64), ("",)) if labels is None else labels
    kept = [_kept_sets(scores, hashes, groups, settings) for scores, hashes in zip(values, ties, strict=True)]
    overlaps = np.ones((len(settings), len(values), len(values)))
    for place in range(len(settings)):
        for row in range(len(values)):
            for column in range(row):
                common = int(np.bitwise_count(kept[row][place] & kept[column][place]).sum(dtype=np.int64))
                share = common / int(np.bitwise_count(kept[row][place]).sum(dtype=np.int64))
                overlaps[place, row, column] = overlaps[place, column, row] = share
    return overlaps


def own_ties(ties: NDArray[np.uint64], ranks: NDArray[np.int64]) -> NDArray[np.uint64]:
    """Hashes that break the ties of one metric, which depend on how it ranks the examples.

    With the same ones for all, metrics with many ties would seem to agree, since they would keep the same of them.
    """
    own = int.from_bytes(hashlib.sha256(ranks.tobytes()).digest()[:8], "little")
    return hash_ids(ties, seed=own)


def _kept_sets(
    values: NDArray[Any], ties: NDArray[np.uint64], groups: Labels, settings: Sequence[SelectionSettings]
) -> list[NDArray[np.uint8]]:
    """A bit for each example, for each of the settings, as `select` would keep it; an order is sorted out once."""
    orders: dict[tuple[str, int], NDArray[np.int64]] = {}
    counts = groups.counts
    sets = []
    for options in settings:
        _, dropped = options.kept_and_dropped(len(values))
        key = (options.strategy, dropped if options.strategy in DROPPING else 0)
        if key not in orders:
            orders[key] = STRATEGIES[options.strategy](values, ties, dropped)
        places, _ = options.places(counts)
        sets.append(np.packbits(keep_in_order(orders[key], groups.codes, places.floors, places.total)))
    return sets
