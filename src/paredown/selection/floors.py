"""Floors, quotas and balance: how many examples each class (or cluster) keeps."""

from __future__ import annotations

from typing import Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.scores import Labels

PAPER_BALANCE = 0.5  # the appendix on class balance keeps at least half of what equal pruning would

Quota = Literal["none", "proportional", "equal"]


def default_balance(balance: float | None, *, groups: bool) -> float:
    """The floor that was asked for, or else the paper's where there are labels or clusters to hold it for, or else 0.

    The one default of `select`, `prune` and sweeps.
    """
    return float(balance) if balance is not None else PAPER_BALANCE if groups else 0.0


def class_floors(counts: NDArray[np.int64], fraction: float, n_keep: int) -> tuple[NDArray[np.int64], list[str]]:
    """How many examples each group is sure of: `fraction` of its own, rounded up if that fits into `n_keep`."""
    exact = fraction * counts
    up = np.ceil(exact - 1e-9).astype(np.int64)
    if up.sum() <= n_keep:
        return up, []
    down = np.floor(exact + 1e-9).astype(np.int64)
    # Groups that would vanish come first, then those that lose most by rounding down.
    order = np.lexsort((np.arange(len(down)), -(exact - down), down > 0))
    raised = order[(up > down)[order]][: max(0, n_keep - down.sum())]
    down[raised] += 1
    short = int(np.count_nonzero(down < up))
    return down, [
        f"the floor needs {up.sum()} examples rounded up but only {n_keep} are kept: "
        f"{short} of {len(up)} classes or clusters have it rounded down."
    ]


def class_quotas(counts: NDArray[np.int64], n_keep: int, quota: Quota) -> NDArray[np.int64]:
    """Exact numbers per group that add up to `n_keep`."""
    if quota == "proportional":
        # In whole numbers, so that equal remainders are equal and the first classes get what is left over.
        given, remainder = np.divmod(counts.astype(np.int64) * n_keep, int(counts.sum()))
        given[np.lexsort((np.arange(len(counts)), -remainder))[: n_keep - given.sum()]] += 1
        return given
    given = np.minimum(counts, common_level(counts, n_keep))
    given[np.flatnonzero(counts > given)[: n_keep - given.sum()]] += 1
    return given


def common_level(counts: NDArray[np.int64], n_keep: int) -> int:
    """The highest number that all groups, as far as they have so many, can be given out of `n_keep`."""
    level, above = 0, int(counts.max()) + 1
    while above - level > 1:
        middle = (level + above) // 2
        level, above = (middle, above) if np.minimum(counts, middle).sum() <= n_keep else (level, middle)
    return level


def stable_order(codes: NDArray[np.int64], n_groups: int) -> NDArray[np.int64]:
    """Rows sorted by group, those of a group in their order; numpy sorts 16 bits by counting, ten times as fast."""
    return np.argsort(codes.astype(np.uint16) if n_groups < 2**16 else codes, kind="stable")


def best_of_each(
    order: NDArray[np.int64],
    groups: NDArray[np.int64],
    numbers: NDArray[np.int64],
    allowed: NDArray[np.bool_] | None = None,
) -> NDArray[np.int64]:
    """The first `numbers[g]` allowed examples of each group g in the given order."""
    order = order if allowed is None else order[allowed[order]]
    codes = groups[order]
    by_group = stable_order(codes, len(numbers))
    starts = np.searchsorted(codes[by_group], np.arange(len(numbers)))
    place = np.empty(len(order), np.int64)
    place[by_group] = np.arange(len(order)) - starts[codes[by_group]]
    return order[place < numbers[codes]]


def keep_in_order(
    order: NDArray[np.int64], groups: NDArray[np.int64], floors: NDArray[np.int64], total: int
) -> NDArray[np.bool_]:
    """Whether each example is kept: of each group g the first `floors[g]` in the given order, then the first of all."""
    keep = np.zeros(len(order), bool)
    if floors.any():
        keep[best_of_each(order, groups, floors)] = True
    keep[first_allowed(order, ~keep, total - int(floors.sum()))] = True
    return keep


def first_allowed(order: NDArray[np.int64], allowed: NDArray[np.bool_], number: int) -> NDArray[np.int64]:
    """The first `number` allowed examples in the given order."""
    return order[allowed[order]][:number]


def class_notes(classes: tuple[str, ...], counts: NDArray[np.int64], kept: NDArray[np.int64]) -> list[str]:
    """What a user should know of single examples and of classes that are lost."""
    notes = []
    single = [classes[g] for g in np.flatnonzero(counts == 1)]
    if single:
        have = "class or cluster has" if len(single) == 1 else "classes or clusters have"
        notes.append(f"{len(single)} {have} a single example: {_few(single)}.")
    lost = [classes[g] for g in np.flatnonzero((counts > 0) & (kept == 0))]
    if lost:
        keep = "class or cluster keeps" if len(lost) == 1 else "classes or clusters keep"
        notes.append(f"{len(lost)} {keep} no example: {_few(lost)}.")
    return notes


def _few(names: list[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def balance_score(labels: ArrayLike | Labels) -> float:
    """The paper's b in [0, 1]: over random pairs of classes, the mean of the smaller count over the larger.

    Appendix on class balance. Classes without examples count (two of them as wholly unbalanced), which needs `Labels`,
    since plain labels name only the classes that occur. With a single class b is 1.
    """
    return balance_of_counts(Labels.of(labels).counts)


def balance_of_counts(counts: NDArray[np.int64] | NDArray[np.float64]) -> float:
    """`balance_score` of classes with these numbers, or shares, of the examples."""
    ascending = np.sort(counts).astype(np.float64)
    c = len(ascending)
    if c < 2:
        return 1.0
    # Sorted ascending, class j is the larger one of the pairs with all i < j.
    smaller = np.concatenate([[0.0], np.cumsum(ascending)[:-1]])
    ratios = np.divide(smaller, ascending, out=np.zeros(c), where=ascending > 0)  # shares may be below 1
    return float(ratios.sum() / (c * (c - 1) / 2))
