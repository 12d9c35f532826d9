"""The arrow from scores to kept examples, and the only place that knows fractions, strategies, ties and floors.

A strategy is a total order of the examples, best first; the first ones are kept. A floor first reserves some places
for the best of each class (or cluster), and the order fills the rest.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError, fraction_hint, unknown_name
from paredown.ids import hash_ids, id_array
from paredown.score_warnings import Tie, constant_warning, score_warnings, tie_warning
from paredown.scores import Labels, Scores
from paredown.selection.floors import (
    PAPER_BALANCE,
    Quota,
    best_of_each,
    class_floors,
    class_notes,
    class_quotas,
    first_allowed,
)
from paredown.selection.strategies import MERITS, STRATEGIES

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["Selection", "check_settings", "kept_and_dropped", "make_recipe", "select", "window_notes"]

_REPEATABLE = ("strategy", "balance", "quota", "drop_hardest", "mix_random", "seed")


@dataclass(frozen=True)
class Selection:
    """Which examples are kept, and how they were chosen."""

    scores: Scores
    keep: NDArray[np.bool_]
    groups: Labels | None  # what the floor or quota was held for: classes, or clusters
    recipe: dict[str, Any] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    already: bool = False  # found finished by `prune`, which wrote nothing

    @property
    def indices(self) -> NDArray[np.int64]:
        """Row numbers of the kept examples, ascending."""
        return np.flatnonzero(self.keep)

    @property
    def ids(self) -> NDArray[Any]:
        """Ids of the kept examples, in row order."""
        return self.scores.ids[self.keep]

    def __len__(self) -> int:
        return int(np.count_nonzero(self.keep))

    def at(self, keep_fraction: float) -> Selection:
        """The same recipe at another keep_fraction, from the same scores."""
        options = {name: self.recipe[name] for name in _REPEATABLE}
        return select(self.scores, keep_fraction=keep_fraction, **options)

    def manifest(self) -> pa.Table:
        """Every example with `id`, `keep` and `score` (and label and cluster), the recipe in the table's metadata."""
        from paredown.score_files import manifest_table

        return manifest_table(self.scores, self.keep, self.provenance())

    def provenance(self) -> dict[str, Any]:
        """The record of the scores with the recipe of the selection."""
        return self.scores.provenance | {"selection": self.recipe, "notes": list(self.notes)}


def select(
    scores: Scores | ArrayLike,
    *,
    keep_fraction: float,
    strategy: str = "hard",
    labels: ArrayLike | Labels | None = None,
    balance: float | None = None,
    quota: Quota = "none",
    drop_hardest: float = 0.05,
    mix_random: float = 0.0,
    ids: ArrayLike | None = None,
    seed: int = 0,
) -> Selection:
    """Keep exactly `round(keep_fraction * n)` examples (at least one).

    Args:
        scores: `Scores`, or one number per example (higher is harder).
        keep_fraction: the fraction kept, in (0, 1].
        strategy: `hard` (highest scores), `easy` (lowest), `random`, `window` (the hardest after leaving out the
            `drop_hardest` fraction), `stratified` (leave out the `drop_hardest` fraction, then equal budgets over score
            bins, at random inside a bin), `moderate` (closest to the median score).
        labels: classes for the floor or quota. Without them `balance` uses the classes that came with the scores, or
            else the clusters.
        balance: every class keeps at least `balance * keep_fraction` of its own examples, rounded up where the total
            allows. Defaults to the paper's 0.5 if labels are given here and to 0 (no floor) otherwise.
        quota: `proportional` gives every class the same fraction, `equal` the same number (as far as it has them).
        drop_hardest: see `window` and `stratified`.
        mix_random: this fraction of the kept examples is drawn at random from what the strategy left.
        ids: ids of plain scores; row numbers if not given. Ties are broken by a seeded hash of the id.
        seed: decides ties and everything random.
    """
    scores = _as_scores(scores, ids)
    n = len(scores)
    balance = (0.0 if labels is None else PAPER_BALANCE) if balance is None else float(balance)
    check_settings(keep_fraction, strategy, balance, quota, drop_hardest, mix_random, seed)
    if labels is not None:
        scores = scores.with_labels(Labels.of(labels, length=n))
    groups, grouped_by = _groups(scores) if balance > 0 or quota != "none" else (None, None)

    n_keep, dropped = kept_and_dropped(n, keep_fraction, drop_hardest)
    order = STRATEGIES[strategy](scores.values, hash_ids(scores.ids, seed=seed), dropped)
    # Looked at only for the examples that are drawn at random.
    shuffled = np.argsort(hash_ids(scores.ids, seed=seed + 1)) if mix_random > 0 else order
    notes = [text for text in score_warnings(scores.values) if text not in scores.provenance.get("warnings", ())]
    notes = [] if strategy == "random" else notes
    notes += window_notes(n, dropped, strategy, drop_hardest)
    keep = np.zeros(n, bool)
    if groups is not None and quota != "none":
        numbers = class_quotas(groups.counts, n_keep, quota)
        ordered = numbers - np.rint(mix_random * numbers).astype(np.int64)
        keep[best_of_each(order, groups.codes, ordered)] = True
        by_score = keep.copy()
        keep[best_of_each(shuffled, groups.codes, numbers - groups[keep].counts, ~keep)] = True
    else:
        if groups is not None:
            floors, short = class_floors(groups.counts, balance * keep_fraction, n_keep)
            notes += short
            keep[best_of_each(order, groups.codes, floors)] = True
        free = n_keep - int(np.count_nonzero(keep))
        n_random = min(round(mix_random * n_keep), free)
        keep[first_allowed(order, ~keep, free - n_random)] = True
        by_score = keep.copy()
        keep[first_allowed(shuffled, ~keep, n_random)] = True
    recipe = make_recipe(
        keep_fraction=keep_fraction,
        kept=n_keep,
        strategy=strategy,
        balance=balance,
        quota=quota,
        drop_hardest=drop_hardest,
        mix_random=mix_random,
        seed=seed,
        grouped_by=grouped_by,
    )
    hardest = order[n - dropped :] if strategy == "window" else order[:0]
    notes += _tie_notes(scores.values, strategy, by_score, hardest, groups)
    if groups is not None:
        notes += class_notes(groups.classes, groups.counts, groups[keep].counts)
    return Selection(scores, keep, groups, recipe, tuple(notes))


def _tie_notes(
    values: NDArray[np.floating],
    strategy: str,
    keep: NDArray[np.bool_],
    hardest: NDArray[np.int64],
    groups: Labels | None,
) -> list[str]:
    """Warnings of ties at the cuts of a selection: the one below what is kept, and that below the hardest dropped."""
    if strategy not in MERITS or constant_warning(float(values.min()), float(values.max()), len(values)):
        return []
    merits = MERITS[strategy](values)
    dropped = np.zeros(len(keep), bool)
    dropped[hardest] = True
    at, equal = _at_the_cut(merits, keep | dropped, groups)
    scores = at if strategy in ("hard", "window") else -at if strategy == "easy" else np.full(len(at), np.nan)
    lower = _count(equal, keep & ~dropped, groups), _count(equal, ~keep & ~dropped, groups)
    notes = [tie_warning(Tie.of(*lower, scores), int(np.count_nonzero(keep)))]
    if len(hardest):
        at, equal = _at_the_cut(merits, dropped, None)
        upper = _count(equal, dropped, None), _count(equal, ~dropped, None)
        notes.append(tie_warning(Tie.of(*upper, at), len(hardest), dropping=True))
    return [note for note in notes if note is not None]


def _at_the_cut(
    merits: NDArray[Any], inside: NDArray[np.bool_], groups: Labels | None
) -> tuple[NDArray[Any], NDArray[np.int64]]:
    """The worst merit inside of every group, and which examples have just that."""
    if groups is None:
        worst = merits[inside].min(initial=np.inf, keepdims=True)
        return worst, np.flatnonzero(merits == worst)
    worst = np.full(len(groups.classes), np.inf, merits.dtype)
    np.minimum.at(worst, groups.codes[inside], merits[inside])
    return worst, np.flatnonzero(merits == worst[groups.codes])


def _count(equal: NDArray[np.int64], which: NDArray[np.bool_], groups: Labels | None) -> NDArray[np.int64]:
    """How many of some examples are in each group."""
    chosen = equal[which[equal]]
    codes = np.zeros(len(chosen), np.int64) if groups is None else groups.codes[chosen]
    return np.bincount(codes, minlength=1 if groups is None else len(groups.classes))


def kept_and_dropped(n: int, keep_fraction: float, drop_hardest: float) -> tuple[int, int]:
    """How many of n examples are kept, and how many of the hardest `window` and `stratified` leave out first."""
    n_keep = max(1, round(keep_fraction * n))
    return n_keep, min(round(drop_hardest * n), n - n_keep)


def window_notes(n: int, dropped: int, strategy: str, drop_hardest: float) -> list[str]:
    """What a user should know where fewer of the hardest can be left out than was asked for."""
    if strategy not in ("window", "stratified") or dropped == round(drop_hardest * n):
        return []
    return [
        f"only the hardest {dropped / n:.3g} are left out, not {drop_hardest:g} (drop_hardest), as the kept ones would "
        "not fit into what is left; keep fewer, or leave out fewer."
    ]


def make_recipe(
    *,
    keep_fraction: float,
    kept: int,
    strategy: str,
    balance: float,
    quota: str,
    drop_hardest: float,
    mix_random: float,
    seed: int,
    grouped_by: str | None,
) -> dict[str, Any]:
    """How a selection was made, as its manifest records it."""
    return {
        "keep_fraction": keep_fraction,
        "kept": kept,
        "strategy": strategy,
        "balance": balance,
        "quota": quota,
        "drop_hardest": drop_hardest,
        "mix_random": mix_random,
        "seed": seed,
        "grouped_by": grouped_by,
    }


def _as_scores(scores: Scores | ArrayLike, ids: ArrayLike | None) -> Scores:
    if isinstance(scores, Scores):
        if ids is not None:
            raise PareError("these scores carry their own ids; give ids only with plain numbers.")
        return scores
    values = np.asarray(scores)
    if values.ndim != 1 or values.dtype.kind not in "fiub" or len(values) == 0:
        raise PareError(f"scores must be a non-empty one-dimensional array of numbers, got shape {values.shape}.")
    names = np.arange(len(values)) if ids is None else id_array(ids)
    return Scores(values.astype(np.float64) if values.dtype.kind != "f" else values, names)


def _groups(scores: Scores) -> tuple[Labels, str]:
    if scores.labels is not None:
        return scores.labels, "label"
    if scores.clusters is not None:
        return Labels.of(scores.clusters), "cluster"
    raise PareError("a floor or quota needs labels or clusters, and these scores have neither; use balance=0 for none.")


def check_settings(
    keep_fraction: float,
    strategy: str,
    balance: float,
    quota: str,
    drop_hardest: float,
    mix_random: float,
    seed: int,
) -> None:
    """Raise at the first setting of a selection that cannot be."""
    if not 0 < keep_fraction <= 1:
        raise PareError(f"keep_fraction must be in (0, 1], got {keep_fraction:g}.{fraction_hint(keep_fraction)}")
    if strategy not in STRATEGIES:
        raise unknown_name("strategy", strategy, STRATEGIES)
    if not 0 <= balance <= 1:
        raise PareError(f"balance must be in [0, 1], got {balance:g}.{fraction_hint(balance)}")
    if quota not in ("none", "proportional", "equal"):
        raise unknown_name("quota", quota, ("none", "proportional", "equal"))
    if not 0 <= drop_hardest < 1:
        raise PareError(f"drop_hardest must be in [0, 1), got {drop_hardest:g}.{fraction_hint(drop_hardest)}")
    if not 0 <= mix_random <= 1:
        raise PareError(f"mix_random must be in [0, 1], got {mix_random:g}.{fraction_hint(mix_random)}")
    if seed < 0:
        raise PareError(f"seed must not be negative, got {seed}.")
