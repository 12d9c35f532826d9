"""`compare`: several metrics of the same examples side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.comparison.aligned_scores import align_scores, collect_scores
from paredown.comparison.comparison_result import MetricComparison
from paredown.comparison.comparison_verdicts import NEARLY_ALIKE, comparison_notes, conclusions
from paredown.comparison.disputed_examples import disputed_examples
from paredown.comparison.kept_overlaps import kept_overlaps, own_ties
from paredown.comparison.metric_facts import metric_facts
from paredown.correlations import centred_ranks, rank_correlations
from paredown.errors import PareError, argument, check_least
from paredown.ids import hash_ids
from paredown.scores import Labels, Scores
from paredown.selection import SelectionSettings, default_balance

KEEP_FRACTIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def compare(
    *scores: str | Path | Scores | Mapping[str, Any],
    keep_fractions: Sequence[float] = KEEP_FRACTIONS,
    strategy: str = "hard",
    balance: float | None = None,
    top: int = 20,
    metrics: Sequence[str] | None = None,
    ids: ArrayLike | None = None,
    labels: ArrayLike | Labels | None = None,
    seed: int = 0,
) -> MetricComparison:
    """Compare difficulty metrics of the same examples: how alike they rank, what they would keep, what they cost.

    Examples are matched by id; those that some metric has no score for are left out.

    Args:
        *scores: tables of scores, in which every score column is a metric, manifests, or the folder that `prune` wrote;
            `Scores`; or dictionaries of `Scores`, arrays or tables by name, such as what `score_all` returns.
        keep_fractions: at which the kept examples are compared, each in (0, 1].
        strategy: which examples are kept; see `select`.
        balance: the floor of every class; see `select`. Defaults to 0.5 where there are labels. The labels are those of
            the first scores that have any.
        top: how many of the examples that the metrics disagree on most are listed.
        metrics: names of the metrics to compare, if not all.
        ids, labels: of plain arrays, one per row; ids are row numbers if not given.
        seed: decides ties.
    """
    settings = check_comparison(keep_fractions, strategy=strategy, balance=balance, top=top, seed=seed)
    aligned = align_scores(collect_scores(scores, ids=ids, labels=labels, metrics=metrics))
    floor = default_balance(balance, groups=aligned.labels is not None)
    if floor > 0 and aligned.labels is None:
        raise PareError(f"a floor needs labels, and these scores have none; use {argument('balance', 0)} for no floor.")
    settings = [SelectionSettings(each.keep_fraction, strategy, floor, seed=seed) for each in settings]

    ties = hash_ids(aligned.ids, seed=seed)
    ranks = [centred_ranks(values) for values in aligned.values]
    spearman = rank_correlations(ranks)
    order, groups = _clustered(spearman)
    facts = tuple(
        metric_facts(name, given, largest_tie=_largest_tie(rank))
        for name, given, rank in zip(aligned.names, aligned.scores, ranks, strict=True)
    )
    return MetricComparison(
        metrics=aligned.names,
        order=order,
        examples=len(aligned.ids),
        left_out=aligned.left_out,
        spearman=spearman,
        keep_fractions=tuple(each.keep_fraction for each in settings),
        overlaps=kept_overlaps(aligned.values, [own_ties(ties, each) for each in ranks], aligned.labels, settings),
        selection={"strategy": strategy, "balance": floor, "seed": seed},
        disputed=disputed_examples(ranks, aligned.ids, aligned.labels, ties, top=top),
        facts=facts,
        notes=comparison_notes(aligned, facts),
        conclusions=conclusions(aligned.names, spearman, groups),
    )


def check_comparison(
    keep_fractions: Sequence[float], *, strategy: str, balance: float | None, top: int, seed: int
) -> list[SelectionSettings]:
    """The selections at ascending fractions; raise at a setting that cannot be, before anything is read."""
    if not len(keep_fractions):
        raise PareError(f"{argument('keep_fractions')} must name at least one fraction, got none.")
    for fraction in keep_fractions:
        SelectionSettings(fraction, strategy, balance or 0.0, seed=seed).check()
    if strategy == "random":
        raise PareError(
            "strategy 'random' does not look at the scores, so that every metric would keep the same examples; choose "
            "another one."
        )
    check_least(0, top=top)
    return [SelectionSettings(float(fraction), strategy, seed=seed) for fraction in sorted(set(keep_fractions))]


def _clustered(spearman: NDArray[np.float64]) -> tuple[tuple[int, ...], list[int]]:
    """The places of the metrics with alike ones side by side, and a number for each that alike ones share.

    Average linkage of 1 - rho, in the order of its leaves that puts the most alike side by side. Of this order and its
    reverse it is the one that has the first metric nearer to its beginning. Undefined correlations count as 0.
    """
    from scipy.cluster.hierarchy import fcluster, leaves_list, linkage, optimal_leaf_ordering
    from scipy.spatial.distance import squareform

    distances = np.clip(1 - np.nan_to_num(spearman), 0, None)
    np.fill_diagonal(distances, 0)
    condensed = squareform(distances, checks=False)
    tree = linkage(condensed, method="average")
    order: list[int] = leaves_list(optimal_leaf_ordering(tree, condensed)).tolist()
    groups: list[int] = fcluster(tree, t=1 - NEARLY_ALIKE, criterion="distance").tolist()
    nearer_the_end = order.index(0) > (len(order) - 1) / 2
    return tuple(order[::-1] if nearer_the_end else order), groups


def _largest_tie(ranks: NDArray[np.int64]) -> int:
    """How many examples share the rank that most of them share."""
    return int(np.bincount(ranks + len(ranks) - 1).max())
