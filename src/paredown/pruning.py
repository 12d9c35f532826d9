"""The main job in one call: from any source to a folder with the manifest, its provenance and a table of classes."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.csv
import pyarrow.parquet as pq
from numpy.typing import ArrayLike

from paredown.checkpoint import claim_parts, remove_parts
from paredown.engines import Engine, open_engine
from paredown.errors import PareError, argument
from paredown.files import check_apart, check_output, finished_request, is_own, locked, new_output, parts_folder
from paredown.progress import Track, silent
from paredown.records import changes, read_record, write_json
from paredown.score_files import is_scores, provenance_in, provenance_of, read_scores, score_columns, score_files
from paredown.scores import Labels, Scores
from paredown.scoring import open_members, request_digest, score
from paredown.scoring.ranged_scoring import score_ranges
from paredown.selection import DEFAULT_MEMORY, ScoreTable, Selection, open_table, select
from paredown.sources import Source
from paredown.sources.base import files_fingerprint
from paredown.sources.row_ranges import RangedSource
from paredown.units import parse_size, with_bytes

# Options of `score` that may be given for what is already scored.
_HARMLESS = ("checkpoint", "keep_checkpoint", "on_error", "overwrite", "track", "trust_source")


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
    memory: str | float = DEFAULT_MEMORY,
    scoring: dict[str, Any] | None = None,
    engine: str | Engine = "local",
    address: str | None = None,
    workers: int | None = None,
    **selecting: Any,
) -> Selection:
    """Score a source, keep the wanted fraction, and write the result to the folder `out` if it is given.

    Scores, a score file or the output of an earlier `prune` are taken as they are and only selected from again. A table
    of scores that would need more than `memory` is streamed: the same examples are kept, and the result is used alike.

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
        engine, address, workers: where the scoring is done, see `engines.open_engine`. On other engines than `local`
            `source` is a path and `out` is needed; see `scoring.ranged_scoring.score_ranges`.
    """
    # Settings are checked on a tiny selection first: a mistake must not wait for the scoring to end.
    selecting |= {"keep_fraction": keep_fraction, "strategy": strategy, "seed": seed}
    select(np.zeros(1), labels=[0], balance=balance, **selecting)

    budget = parse_size(memory)
    if out is not None and (overwrite or not is_own(Path(out))):  # one's own may be finished by the same run, see below
        check_output(Path(out), overwrite=overwrite, folder=True)
    options = with_bytes(scoring or {})
    table = None
    ranged = engine != "local" and isinstance(source, str | Path) and not is_scores(source)
    if engine != "local":
        _check_ranged(source, out, labels)
    if isinstance(source, Scores) or (isinstance(source, str | Path) and is_scores(source)):
        for name in options:
            if options[name] is not None and name not in _HARMLESS:
                raise PareError(f"these are already scores; leave out {argument(name)}, or give the data to score.")
    if isinstance(source, str | Path) and is_scores(source):
        table = open_scores(source, metric=metric)
        read, data = [Path(source)], {"table": files_fingerprint(score_files(source)), "column": table.column}
    elif isinstance(source, Scores):
        read, data = [], {"scores": digest_of_scores(source)}
    elif ranged:
        assert isinstance(source, str | Path)
        whole = RangedSource(source)
        read, data = [Path(source), *whole.disk_files()], {"sources": [[whole.fingerprint()]]}
    else:
        members = open_members(
            source, labels=labels, ids=options.pop("ids", None), on_error=options.get("on_error", "raise")
        )
        source, read = members, [place for member in members for place in member.places()]
        data = {"sources": [member.identity() for member in members]}
    data |= {"labels": None if labels is None else _labels_digest(labels)}
    request = request_digest(data, metric=metric, balance=balance, options=options, selecting=selecting)

    def selected(source: Any) -> Selection:
        """Score what is not scored yet, and select."""
        if table is not None:
            source = table
        elif ranged and not isinstance(source, ScoreTable):
            place = Path(options.get("checkpoint") or parts_folder(Path(out or "")))
            known = {
                name: value for name, value in options.items() if name not in _OF_CHECKPOINTS and value is not None
            }
            claim_parts(place)
            with open_engine(engine, address=address, workers=workers) as running:
                source = score_ranges(
                    source, out=place / "scores", metric=metric, seed=seed, engine=running, track=track, **known
                )
        elif not isinstance(source, Scores | ScoreTable):
            source = score(source, metric=metric, labels=labels, seed=seed, track=track, **options)
        return select(source, labels=labels, balance=balance, memory=budget, track=track, **selecting)

    if out is None:
        return selected(source)
    out = Path(out)
    check_apart(out, read)
    checkpoint = options.get("checkpoint")
    if checkpoint is not None:
        options["keep_checkpoint"] = True
    with locked(out):
        done = not overwrite and request is not None and finished_request(out) == request
        if not done and not overwrite and is_own(out):
            raise PareError(
                f"{out} already exists, made from other data or with other settings; choose another output, or replace "
                f"it with {argument('overwrite', True)}."
            )
        if not done:
            check_output(out, overwrite=overwrite, folder=True)
        written = (open_table if ranged else read_scores)(out) if done and table is None else None
        kept = selected(source if written is None else written)
        if done:
            kept = replace(kept, already=True)
        else:
            with new_output(out, overwrite=overwrite, folder=True, sources=read, request=request) as folder:
                write_selection(kept, folder)
        if ranged and not done:  # the scores that it was made from go with the finished parts
            kept = replace(selected(open_table(out)), notes=kept.notes)
        if checkpoint is not None or ranged:
            remove_parts(Path(checkpoint or parts_folder(out)), output=out)
    return kept


# Options of `score` that say where finished parts are, and have no place in ranges.
_OF_CHECKPOINTS = ("checkpoint", "keep_checkpoint", "on_error", "encoder", "overwrite")


def _check_ranged(source: Any, out: str | Path | None, labels: Any) -> None:
    """Raise unless a source can be pruned on an engine of several machines."""
    if out is None or not isinstance(source, str | Path) or labels is not None:
        raise PareError(
            f"{argument('engine')} other than 'local' takes a path, writes to {argument('out', ...)}, and finds labels "
            "in labels.npy in the folder of the embeddings."
        )


def check_finished(out: Path, settings: dict[str, Any]) -> None:
    """Raise if there is an output of other settings, by what its manifest says: before anything costly is done."""
    if not (out / "manifest.parquet").is_file():
        return
    record = provenance_in(out / "manifest.parquet")
    before = {"metric": record.get("metric"), **record.get("selection", {})}
    for change in changes(before, settings, names=[name for name in settings if name in before]):
        raise PareError(
            f"{out} already exists, made with other settings: {change}; choose another output, or replace it with "
            f"{argument('overwrite', True)}."
        )


def _labels_digest(labels: Any) -> str:
    given = Labels.of(labels)
    return hashlib.sha256("\0".join(given.classes).encode() + given.codes.tobytes()).hexdigest()[:16]


def digest_of_scores(scores: Scores) -> str:
    """A hash of scores with their ids, labels and clusters."""
    known = hashlib.sha256(scores.values.tobytes() + scores.hashes(0).tobytes())
    for groups in (None if scores.labels is None else scores.labels.codes, scores.clusters):
        known.update(b"-" if groups is None else groups.tobytes())
    return known.hexdigest()[:16]


def open_scores(path: str | Path, *, metric: str | None) -> ScoreTable:
    """Open a table of scores without reading its rows; the metric names its column only where there is such a one."""
    return open_table(path, metric=_metric_column(path, metric))


def write_selection(kept: Selection, folder: Path) -> None:
    """Write `manifest.parquet`, `manifest.json` and `classes.csv` into a folder."""
    kept.write(folder / "manifest.parquet")
    table = kept.class_table()
    if table is not None:
        pyarrow.csv.write_csv(table, folder / "classes.csv")
    beside = read_record(folder / "manifest.json") or {}  # as it was written with the table, with its digest
    write_json(beside | kept.provenance() | {"balance_score": kept.balance_scores()}, folder / "manifest.json")


def _metric_column(source: str | Path, metric: str | None) -> str | None:
    """The column that a metric stands for in a table of scores, which must be of that metric; any if none is named."""
    if metric is None:
        return None
    schema = pq.read_schema(score_files(source)[0])
    columns = score_columns(schema)
    if metric in columns:
        return metric
    made_by = provenance_of(schema).get("metric")
    if columns != ["score"] or made_by != metric:
        held = made_by if columns == ["score"] and made_by else ", ".join(columns)
        raise PareError(
            f"{source} holds scores by {held}, not by {metric}; leave out {argument('metric')}, or give the data to be "
            "scored."
        )
    return None
