"""The main job in one call: from any source to a folder with the manifest, its provenance and a table of classes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from paredown.checkpoint import remove_parts
from paredown.errors import PareError
from paredown.files import check_apart, check_output, finished_request, is_own, locked, new_output
from paredown.ids import hash_ids
from paredown.progress import Track, silent
from paredown.records import changes, read_record, write_json
from paredown.score_files import is_scores, provenance_in, read_scores, score_columns, score_files, write_table
from paredown.scores import Labels, Scores
from paredown.scoring import open_members, request_digest, score
from paredown.selection import PAPER_BALANCE, Selection, balance_of_counts, balance_score, select
from paredown.selection.streamed import ScoreTable, StreamedSelection, open_table, select_streamed
from paredown.sources import Source
from paredown.sources.base import files_fingerprint
from paredown.units import parse_size

__all__ = [
    "DEFAULT_MEMORY",
    "check_finished",
    "class_table",
    "digest_of_scores",
    "in_memory_bytes",
    "open_scores",
    "prune",
    "write_selection",
]

DEFAULT_MEMORY = "1GiB"
# Of a table read and selected from in memory, measured at its peak: arrays, orders and hashes, and objects for text.
_ROW_BYTES, _TEXT_ROW_BYTES = 170, 400


def prune(
    source: str | Path | ArrayLike | Source | Scores | Sequence[Source],
    *,
    keep_fraction: float,
    out: str | Path | None = None,
    overwrite: bool = False,
    metric: str | None = None,
    strategy: str = "hard",
    balance: float | None = None,
    labels: ArrayLike | Labels | None = None,
    seed: int = 0,
    track: Track = silent,
    memory: str | int = DEFAULT_MEMORY,
    scoring: dict[str, Any] | None = None,
    **selecting: Any,
) -> Selection | StreamedSelection:
    """Score a source, keep the wanted fraction, and write the result to the folder `out` if it is given.

    Scores, a score file or the output of an earlier `prune` are taken as they are and only selected from again. A table
    of scores that would need more than `memory` is streamed: the same examples are kept, and what is returned holds
    the cut rather than the rows.

    Args:
        source: anything `open_source` takes, opened sources, or scores.
        keep_fraction, strategy, labels, **selecting: see `select`.
        out: a folder that will hold `manifest.parquet`, `manifest.json` and `classes.csv`.
        overwrite: replace an existing `out`.
        metric: a name in `METRICS`; `prototypes` unless a model in `scoring` says otherwise.
        balance: the floor; defaults to the paper's 0.5 wherever there are labels or clusters to balance.
        seed: decides samples, ties and everything random.
        track: reports progress.
        memory: how much selecting from a table of scores may take, such as `512MiB` or `1GiB`.
        scoring: further options of `score`, such as `{"k": 100}` or `{"model": "model.npz"}`. A `checkpoint` stays
            until `out` is complete.
    """
    # Settings are checked on a tiny selection first: a mistake must not wait for the scoring to end.
    selecting |= {"keep_fraction": keep_fraction, "strategy": strategy, "seed": seed}
    select(np.zeros(1), labels=[0], balance=balance, **selecting)

    budget = parse_size(memory)
    if out is not None and (overwrite or not is_own(Path(out))):  # one's own may be finished by the same run, see below
        check_output(Path(out), overwrite=overwrite, folder=True)
    options = dict(scoring or {})
    table = None
    if isinstance(source, Scores) or (isinstance(source, str | Path) and is_scores(source)):
        for name in ("model", "start", "save_model"):
            if options.get(name) is not None:
                option = {"start": "warm-start"}.get(name, name.replace("_", "-"))
                raise PareError(f"scores are not made again; leave out {name} (--{option}), or give the embeddings.")
    if isinstance(source, str | Path) and is_scores(source):
        table = open_scores(source, metric=metric)
        read, data = [Path(source)], {"table": files_fingerprint(score_files(source)), "column": table.column}
    elif isinstance(source, Scores):
        read, data = [], {"scores": digest_of_scores(source)}
    else:
        members = open_members(source, labels=labels, ids=options.pop("ids", None), on_error=_on_error(options))
        source, read = members, [place for member in members for place in member.places()]
        data = {"sources": [member.identity() for member in members]}
    data |= {"labels": None if labels is None else _labels_digest(labels)}
    request = request_digest(data, metric=metric, balance=balance, options=options, selecting=selecting)
    if out is None:
        return _select(source, table, metric, labels, balance, budget, options, track, selecting)
    out = Path(out)
    check_apart(out, read)
    checkpoint = options.get("checkpoint")
    if checkpoint is not None:
        options["keep_checkpoint"] = True
    with locked(out):
        done = not overwrite and request is not None and finished_request(out) == request
        if not done and not overwrite and is_own(out):
            raise PareError(
                f"{out} exists already, made of other data or with other settings; choose another output, or replace "
                "it with --overwrite."
            )
        if not done:
            check_output(out, overwrite=overwrite, folder=True)
        if done and table is None:
            source = read_scores(out)
        kept = _select(source, table, metric, labels, balance, budget, options, track, selecting)
        if done:
            kept = replace(kept, already=True)
        else:
            with new_output(out, overwrite=overwrite, folder=True, sources=read, request=request) as folder:
                write_selection(kept, folder)
        if checkpoint is not None:
            remove_parts(Path(checkpoint), output=out)
    return kept


def _select(
    source: Any,
    table: ScoreTable | None,
    metric: str | None,
    labels: Any,
    balance: float | None,
    budget: int,
    options: dict[str, Any],
    track: Track,
    selecting: dict[str, Any],
) -> Selection | StreamedSelection:
    """Score what is not scored yet, and select: in memory, or in streams where the table would not fit."""
    if table is not None and in_memory_bytes(table) > budget:
        if labels is not None:
            raise PareError(
                f"{table.path}: labels given apart from the table need all {len(table):,} rows in memory; "
                "put them into the table as a column 'label', or allow more memory (--memory)."
            )
        return select_streamed(table, balance=balance, track=track, **selecting)
    if table is not None:
        scores = read_scores(table.path, metric=table.column)
    elif isinstance(source, Scores):
        scores = source
    else:
        scores = score(source, metric=metric, labels=labels, seed=selecting["seed"], track=track, **options)
    groupable = scores.labels is not None or scores.clusters is not None or labels is not None
    floor = (PAPER_BALANCE if groupable else 0.0) if balance is None else balance
    return select(scores, labels=labels, balance=floor, **selecting)


def check_finished(out: Path, settings: dict[str, Any]) -> None:
    """Raise if there is an output of other settings, by what its manifest says: before anything costly is done."""
    if not (out / "manifest.parquet").is_file():
        return
    record = provenance_in(out / "manifest.parquet")
    before = {"metric": record.get("metric"), **record.get("selection", {})}
    for change in changes(before, settings, names=[name for name in settings if name in before]):
        raise PareError(
            f"{out} exists already, with other settings: {change}; choose another output, or replace it with "
            "--overwrite."
        )


def _on_error(options: dict[str, Any]) -> Any:
    return options.get("on_error", "raise")


def _labels_digest(labels: Any) -> str:
    given = Labels.of(labels)
    return hashlib.sha256("\0".join(given.classes).encode() + given.codes.tobytes()).hexdigest()[:16]


def digest_of_scores(scores: Scores) -> str:
    """A hash of scores with their ids, labels and clusters."""
    known = hashlib.sha256(scores.values.tobytes() + hash_ids(scores.ids, seed=0).tobytes())
    for groups in (None if scores.labels is None else scores.labels.codes, scores.clusters):
        known.update(b"-" if groups is None else groups.tobytes())
    return known.hexdigest()[:16]


def open_scores(path: str | Path, *, metric: str | None) -> ScoreTable:
    """Open a table of scores without reading its rows; the metric names its column only where there is such a one."""
    return open_table(path, metric=_metric_column(path, metric))


def in_memory_bytes(table: ScoreTable) -> int:
    """About what reading a table and selecting from it in memory takes at its peak."""
    return len(table) * (_TEXT_ROW_BYTES if table.text_ids else _ROW_BYTES)


def write_selection(kept: Selection | StreamedSelection, folder: Path) -> None:
    """Write `manifest.parquet`, `manifest.json` and `classes.csv` into a folder."""
    if isinstance(kept, StreamedSelection):
        kept.write(folder / "manifest.parquet")
    else:
        write_table(kept.manifest(), folder / "manifest.parquet")
    table, b = class_table(kept)
    if table is not None:
        pyarrow.csv.write_csv(table, folder / "classes.csv")
    beside = read_record(folder / "manifest.json") or {}  # as it was written with the table, with its digest
    write_json(beside | kept.provenance() | {"balance_score": b}, folder / "manifest.json")


def _metric_column(source: str | Path, metric: str | None) -> str | None:
    """The metric if the table has a column of that name; the default metric is not asked of anyone's table."""
    metric = metric or "prototypes"
    return metric if metric in score_columns(pq.read_schema(score_files(source)[0])) else None


def class_table(kept: Selection | StreamedSelection) -> tuple[pa.Table | None, dict[str, float]]:
    """Per class (or cluster, without labels): examples, kept, score range; and the balance score b before and after.

    A streamed selection has no medians, which would need another sorting.
    """
    if isinstance(kept, StreamedSelection):
        return _streamed_class_table(kept)
    scores = kept.scores
    groups, name = scores.labels, "class"
    if groups is None and scores.clusters is not None:
        groups, name = Labels.of(scores.clusters), "cluster"
    if groups is None:
        return None, {}
    counts, left = groups.counts, groups[kept.keep].counts
    order = np.lexsort((scores.values, groups.codes))
    ends = np.cumsum(counts)
    ordered = scores.values[order]
    columns = {
        name: pa.array(groups.classes),
        "examples": counts,
        "kept": left,
        "kept_fraction": left / np.maximum(counts, 1),
        "score_min": ordered[np.minimum(ends - counts, len(ordered) - 1)],
        "score_median": ordered[np.minimum(ends - counts + counts // 2, len(ordered) - 1)],
        "score_max": ordered[ends - 1],
    }
    return pa.table(columns), {"before": balance_score(groups), "after": balance_score(groups[kept.keep])}


def _streamed_class_table(kept: StreamedSelection) -> tuple[pa.Table | None, dict[str, float]]:
    if kept.scores.grouped_by is None:
        return None, {}
    seen = kept.counts > 0  # a class that only its dictionary names has no scores
    columns = {
        "class" if kept.scores.grouped_by == "label" else "cluster": pa.array(kept.classes),
        "examples": kept.counts,
        "kept": kept.kept,
        "kept_fraction": kept.kept / np.maximum(kept.counts, 1),
        "score_min": pa.array(kept.score_min, mask=~seen),
        "score_max": pa.array(kept.score_max, mask=~seen),
    }
    return pa.table(columns), {"before": balance_of_counts(kept.counts), "after": balance_of_counts(kept.kept)}
