"""The examples that metrics disagree on most: hard for some, easy for others."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.scores import Labels


class DisputedExample(NamedTuple):
    """An example, and where each metric ranks it.

    Attributes:
        id: of the example.
        label: its class, if it has one.
        spread: the standard deviation of its percentiles over the metrics.
        percentiles: for each metric the share of the other examples that are easier, ties counting half: 0 for the
            easiest example, 1 for the hardest.
    """

    id: int | str
    label: str | None
    spread: float
    percentiles: tuple[float, ...]


def disputed_examples(
    ranks: Sequence[NDArray[np.int64]],
    ids: NDArray[Any],
    labels: Labels | None,
    ties: NDArray[np.uint64],
    *,
    top: int,
) -> tuple[DisputedExample, ...]:
    """The examples with the largest spread of their percentiles, largest first.

    Args:
        ranks: the `centred_ranks` of the examples by each metric.
        ids, labels: of the examples.
        ties: a hash of each example, which decides between equal spreads.
        top: how many.
    """
    count, n = len(ranks), len(ids)
    # Whole numbers where they fit, so that spreads which are equal are a tie.
    kind = np.int64 if (count * n) ** 2 < 2**63 else np.float64
    total, squares = np.zeros(n, kind), np.zeros(n, kind)
    for rank in ranks:
        total += rank
        squares += rank.astype(kind) ** 2
    variation = count * squares - total**2  # the variance of the ranks, but for a factor
    rows = np.lexsort((ties, -variation))[:top]
    places = np.stack([rank[rows] for rank in ranks], axis=1)
    names = [None] * len(rows) if labels is None else labels[rows].names.tolist()
    scale = 2 * (n - 1)
    return tuple(
        DisputedExample(id_, name, math.sqrt(spread) / (count * scale), tuple((each + n - 1) / scale for each in place))
        for id_, name, spread, place in zip(
            ids[rows].tolist(), names, variation[rows].tolist(), places.tolist(), strict=True
        )
    )
