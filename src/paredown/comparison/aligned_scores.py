"""Scores by several metrics, each under a name of its own, brought to the same examples in the same order."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.display import shorten
from paredown.errors import PareError, argument, unknown_name
from paredown.ids import find_ids, hash_ids, id_array
from paredown.places import as_place, is_path, nothing_at
from paredown.score_files import read_score_columns, read_scores, score_files
from paredown.scores import Labels, Scores


class NamedScores(NamedTuple):
    """Scores, and what they are called in a comparison."""

    name: str
    scores: Scores


class AlignedScores(NamedTuple):
    """The examples that every metric has scored, in an order that depends on their ids alone."""

    names: tuple[str, ...]
    scores: tuple[Scores, ...]  # as they were given
    values: tuple[NDArray[np.floating], ...]  # of the examples in common, a column for each metric
    ids: NDArray[Any]
    labels: Labels | None
    left_out: tuple[int, ...]  # examples of each metric that another has no score for


# --- names ---------------------------------------------------------------------------------------------------------


def collect_scores(
    given: Iterable[Any],
    *,
    ids: ArrayLike | None = None,
    labels: ArrayLike | Labels | None = None,
    metrics: Sequence[str] | None = None,
) -> list[NamedScores]:
    """All scores in tables, objects and dictionaries by name, under names that are all different.

    A metric has its own name. Metrics of the same name have the name of their file behind it, or of as many folders
    as are needed, and scores without a file the place in which they were given.
    """
    found: list[tuple[str, tuple[str, ...], Scores]] = []  # the metric, where it is from, and its scores
    seen: dict[str, Any] = {}
    for place, each in enumerate(given, 1):
        if isinstance(each, Mapping):
            found += [(str(name), (str(place),), _as_scores(name, value, ids, labels)) for name, value in each.items()]
        elif isinstance(each, Scores):
            found.append((each.metric, (str(place),), each))
        elif is_path(each):
            real = os.path.realpath(each)
            if real in seen:
                raise PareError(f"{each} is given twice; give every table once.")
            seen[real] = each
            _check_table(as_place(each))
            found += [(scores.metric, _parts(as_place(each)), scores) for scores in read_score_columns(each)]
        else:
            raise PareError(
                f"cannot compare {type(each).__name__}; give tables, scores, or arrays by name such as {{'el2n': x}}."
            )
    named = [NamedScores(*pair) for pair in zip(_distinct_names(found), (row[2] for row in found), strict=True)]
    return named if metrics is None else _chosen(named, metrics)


def _as_scores(name: str, value: Any, ids: ArrayLike | None, labels: ArrayLike | Labels | None) -> Scores:
    if isinstance(value, Scores):
        return value
    if is_path(value):
        _check_table(as_place(value))
        return read_scores(value)
    numbers = np.asarray(value)
    if numbers.ndim != 1 or numbers.dtype.kind not in "fiub":
        raise PareError(f"{name}: scores must be a one-dimensional array of numbers, got shape {numbers.shape}.")
    rows = np.arange(len(numbers)) if ids is None else id_array(ids)
    classes = None if labels is None else Labels.of(labels, length=len(numbers))
    return Scores(numbers if numbers.dtype.kind == "f" else numbers.astype(np.float64), rows, str(name), classes)


def _check_table(path: Path) -> None:
    if not path.exists():
        raise nothing_at(path, "file")
    files = score_files(path)
    if not files or files[0].suffix != ".parquet":
        raise PareError(
            f"{path}: not a table of scores. Give Parquet files with an id and score columns, folders of them, or what "
            "`paredown prune` wrote; `paredown score --from FILE` makes such a table of other formats."
        )


def _parts(path: Path) -> tuple[str, ...]:
    """What a table may be called by: its name, and the folders it is in; a manifest is called by its folder."""
    absolute = Path(os.path.abspath(path))
    absolute = absolute.parent if absolute.name == "manifest.parquet" else absolute
    return (*absolute.parts[1:-1], absolute.stem if absolute.is_file() else absolute.name)


def _distinct_names(found: Sequence[tuple[str, tuple[str, ...], Scores]]) -> list[str]:
    metrics = [metric for metric, _, _ in found]
    names = []
    for metric, parts, _ in found:
        others = [other for same, other, _ in found if same == metric]
        depth = next((d for d in range(1, len(parts)) if sum(o[-d:] == parts[-d:] for o in others) == 1), len(parts))
        names.append(metric if metrics.count(metric) == 1 else f"{metric} ({'/'.join(parts[-depth:])})")
    return names


def _chosen(named: Sequence[NamedScores], metrics: Sequence[str]) -> list[NamedScores]:
    """Those whose name, or whose metric's name, is asked for."""
    for metric in metrics:
        if not any(metric in (each.name, each.scores.metric) for each in named):
            raise unknown_name("metric", metric, {each.name for each in named})
    return [each for each in named if each.name in metrics or each.scores.metric in metrics]


# --- examples ------------------------------------------------------------------------------------------------------


def align_scores(named: Sequence[NamedScores]) -> AlignedScores:
    """The scores of the examples that all metrics have, in the order of the hash of their ids.

    Labels are those of the first scores that have any.
    """
    if len(named) < 2:
        held = f"only {named[0].name}" if named else "none"
        raise PareError(
            f"a comparison needs at least two metrics, got {held}; add another table, or score several metrics at once "
            f"with {argument('metric', 'el2n,prototypes')} of `paredown score`."
        )
    names, scores = tuple(each.name for each in named), tuple(each.scores for each in named)
    order = np.argsort(hash_ids(scores[0].ids, seed=0))
    common = scores[0].ids[order]
    rows = [order] + [np.empty(0, np.int64)] * (len(scores) - 1)
    for place, other in enumerate(scores[1:], 1):
        twin = next((row for row in range(place) if np.array_equal(scores[row].ids, other.ids)), None)
        if twin is not None:  # columns of one table, mostly
            rows[place] = rows[twin]
            continue
        found, missing = find_ids(other.ids, common)
        here = np.ones(len(common), bool)
        here[missing] = False
        common = common[here]
        rows = [each[here] if at < place else each for at, each in enumerate(rows)]
        rows[place] = found[here]
    _check_common(named, len(common))
    labels = (each.labels[row] for each, row in zip(scores, rows, strict=True) if each.labels is not None)
    return AlignedScores(
        names,
        scores,
        tuple(each.values[row] for each, row in zip(scores, rows, strict=True)),
        common,
        next(labels, None),
        tuple(len(each) - len(common) for each in scores),
    )


def _check_common(named: Sequence[NamedScores], common: int) -> None:
    if common > 1:
        return
    what = "no example has" if common == 0 else "only one example has"
    samples = "; ".join(f"{each.name}: {shorten(each.scores.ids[:4].tolist(), 3)}" for each in named[:3])
    raise PareError(
        f"{what} a score by all {len(named)} metrics, so there is nothing to compare: examples are matched by id. "
        f"Ids are for example {samples}. Give scores of the same examples."
    )
