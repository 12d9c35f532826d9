"""`select`: the arrow from scores to kept examples.

A strategy is a total order of the examples, best first; the first ones are kept. A floor first reserves some places
for the best of each class (or cluster), and the order fills the rest.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.engines import Engine
from paredown.errors import PareError, argument
from paredown.ids import id_array
from paredown.places import is_path
from paredown.progress import Track, silent
from paredown.score_files import read_scores
from paredown.score_table import ScoreTable, open_table
from paredown.score_warnings import Tie, constant_warning, score_warnings, tie_warning
from paredown.scores import Labels, Scores
from paredown.selection.floors import Quota, best_of_each, class_notes, default_balance, first_allowed, keep_in_order
from paredown.selection.selection import RowsInMemory, Selection
from paredown.selection.selection_settings import SelectionSettings
from paredown.selection.strategies import MERITS, STRATEGIES
from paredown.selection.streamed.streaming import select_streamed
from paredown.units import parse_size

DEFAULT_MEMORY = "1GiB"


def select(
    scores: Scores | ScoreTable | ArrayLike | str | Path,
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
    metric: str | None = None,
    memory: str | float = DEFAULT_MEMORY,
    track: Track = silent,
    engine: Engine | None = None,
) -> Selection:
    """Keep exactly `round(keep_fraction * n)` examples (at least one).

    Args:
        scores: `Scores`, one number per example (higher is harder), or a path: a Parquet file of scores, a folder of
            them, or what `prune` wrote. A table that would need more than `memory` is streamed, in constant memory; the
            same examples are kept.
        keep_fraction: the fraction kept, in (0, 1].
        strategy: `hard` (highest scores), `easy` (lowest), `random`, `window` (the hardest after leaving out the
            `drop_hardest` fraction), `stratified` (leave out the `drop_hardest` fraction, then equal budgets over score
            bins, at random inside a bin), `moderate` (closest to the median score).
        labels: classes for the floor or quota. Without them these use the classes that came with the scores, or else
            the clusters.
        balance: every class keeps at least `balance * keep_fraction` of its own examples, rounded up where the total
            allows. Defaults to the paper's 0.5 where there are labels or clusters, and to 0 (no floor) otherwise.
        quota: `proportional` gives every class the same fraction, `equal` the same number (as far as it has them), in
            place of a floor.
        drop_hardest: see `window` and `stratified`.
        mix_random: this fraction of the kept examples is drawn at random from what the strategy left.
        ids: ids of plain scores; row numbers if not given. Ties are broken by a seeded hash of the id.
        seed: decides ties and everything random.
        metric: which column of a table holds the scores, if it has several.
        memory: how much selecting from a table may take, such as `512MiB` or `4GiB`, before it is streamed.
        track: reports progress.
        engine: makes the passes over a table, which is then streamed whatever its size; see `engines.open_engine`.
    """
    given = {
        "keep_fraction": keep_fraction,
        "strategy": strategy,
        "quota": quota,
        "drop_hardest": drop_hardest,
        "mix_random": mix_random,
        "seed": seed,
    }
    SelectionSettings(**given, balance=0.0 if balance is None else balance).check()  # before anything is read
    budget = parse_size(memory)
    if is_path(scores):
        scores = open_table(scores, metric=metric)
    if isinstance(scores, Scores | ScoreTable) and ids is not None:
        raise PareError("these scores carry their own ids; give ids only with plain numbers.")
    if isinstance(scores, ScoreTable):
        if engine is not None or scores.in_memory_bytes > budget:
            return select_streamed(scores, labels=labels, balance=balance, track=track, engine=engine, **given)
        scores = read_scores(scores.path, metric=scores.column)
    if not isinstance(scores, Scores):
        scores = _as_scores(scores, ids)
    if labels is not None:
        scores = scores.with_labels(Labels.of(labels, length=len(scores)))
    groups = scores.labels is not None or scores.clusters is not None
    floor = default_balance(balance, groups=groups and quota == "none")
    return _select_in_memory(scores, SelectionSettings(**given, balance=floor))


def _select_in_memory(scores: Scores, options: SelectionSettings) -> Selection:
    _, dropped = options.kept_and_dropped(len(scores))
    order = STRATEGIES[options.strategy](scores.values, scores.hashes(options.seed), dropped)
    return select_in_order(scores, options, order)


def select_in_order(scores: Scores, options: SelectionSettings, order: NDArray[np.int64]) -> Selection:
    """`select`, given the order of the strategy: the rows of all examples, best first."""
    n, seed, strategy = len(scores), options.seed, options.strategy
    groups, grouped_by = _groups(scores) if options.grouped else (Labels(np.zeros(n, np.int64), ("",)), None)
    places, short = options.places(groups.counts)
    n_keep, dropped = options.kept_and_dropped(n)
    keep = keep_in_order(order, groups.codes, places.floors, places.total)
    by_order = keep.copy()
    if places.random_total:
        shuffled = np.argsort(scores.hashes(seed + 1))
        keep[best_of_each(shuffled, groups.codes, places.random_floors, ~keep)] = True
        keep[first_allowed(shuffled, ~keep, n_keep - int(np.count_nonzero(keep)))] = True

    known = scores.provenance.get("warnings", ())
    notes = [] if strategy == "random" else [text for text in score_warnings(scores.values) if text not in known]
    notes += options.window_notes(n) + short
    hardest = order[n - dropped :] if strategy == "window" else order[:0]
    notes += _tie_notes(scores.values, strategy, by_order, hardest, groups)
    if options.grouped:
        notes += class_notes(groups.classes, groups.counts, groups[keep].counts)
    rows = RowsInMemory(scores, keep)
    return Selection(rows, options.recipe(n, grouped_by), tuple(notes), again=partial(select, scores))


def _tie_notes(
    values: NDArray[np.floating],
    strategy: str,
    keep: NDArray[np.bool_],
    hardest: NDArray[np.int64],
    groups: Labels,
) -> list[str]:
    """Warnings of ties at the cuts of a selection: the one below what is kept, and that below the hardest dropped."""
    if strategy not in MERITS or constant_warning(float(values.min()), float(values.max()), len(values)):
        return []
    merits = MERITS[strategy](values)
    dropped = np.zeros(len(keep), bool)
    dropped[hardest] = True
    at, kept, left = _at_the_cut(merits, keep | dropped, dropped, groups.codes, len(groups.classes))
    scores = at if strategy in ("hard", "window") else -at if strategy == "easy" else np.full(len(at), np.nan)
    notes = [tie_warning(Tie.of(kept, left, scores), int(np.count_nonzero(keep)))]
    if len(hardest):
        at, out, left = _at_the_cut(merits, dropped, np.zeros_like(dropped), np.zeros(len(keep), np.int64), 1)
        notes.append(tie_warning(Tie.of(out, left, at), len(hardest), dropping=True))
    return [note for note in notes if note is not None]


def _at_the_cut(
    merits: NDArray[np.floating],
    inside: NDArray[np.bool_],
    apart: NDArray[np.bool_],
    codes: NDArray[np.int64],
    n_groups: int,
) -> tuple[NDArray[np.floating], NDArray[np.int64], NDArray[np.int64]]:
    """The worst merit inside of every group, and how many examples with just that are in and out, but for some."""
    worst = np.full(n_groups, np.inf, merits.dtype)
    np.minimum.at(worst, codes[inside], merits[inside])
    equal = (merits == worst[codes]) & ~apart
    kept, left = (np.bincount(codes[equal & which], minlength=n_groups) for which in (inside, ~inside))
    return worst, kept, left


def _as_scores(scores: ArrayLike, ids: ArrayLike | None) -> Scores:
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
    raise PareError(
        f"a floor or quota needs labels or clusters, and these scores have neither; use "
        f"{argument('balance', 0)} for no floor."
    )
