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
from paredown.engines import Engine, InProcess, open_engine
from paredown.errors import PareError, argument
from paredown.files import (
    check_apart,
    check_output,
    damaged_output,
    damages,
    finished_request,
    is_own,
    locked,
    new_output,
    parts_folder,
    remove_folder,
)
from paredown.metrics import DEFAULT_METRIC
from paredown.metrics.registry import check_ranged
from paredown.places import absolute, arrow_input, as_place, is_path
from paredown.progress import Track, silent
from paredown.records import changes, read_record, write_json
from paredown.score_files import (
    MANIFEST,
    is_scores,
    provenance_in,
    provenance_of,
    read_scores,
    score_columns,
    score_files,
)
from paredown.score_table import bytes_in_memory
from paredown.scores import Labels, Scores
from paredown.scoring import open_members, request_digest, score
from paredown.scoring.ranged_scoring import score_ranges
from paredown.scoring.saved_models import FittedModel, read_model
from paredown.scoring.scoring import WORK_OPTIONS
from paredown.selection import DEFAULT_MEMORY, ScoreTable, Selection, open_table, select
from paredown.selection.floors import default_balance
from paredown.selection.manifest_shards import read_from, take_shards, write_shards
from paredown.selection.rows_on_disk import RowsOnDisk
from paredown.selection.selection_settings import SelectionSettings
from paredown.selection.streamed.streaming import check_streams
from paredown.sources import Source
from paredown.sources.base import files_fingerprint
from paredown.sources.row_ranges import RangedSource
from paredown.units import parse_size, with_bytes
from paredown.version import __version__


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
        engine, address, workers: where the work is done, see `engines.open_engine`. On other engines than `local`
            `source` is a path, scored or to be scored by `scoring.ranged_scoring.score_ranges`; `out` is needed, and
            its `manifest.parquet` is a folder of shards, each written by a worker.
    """
    # Settings are checked on a tiny selection first: a mistake must not wait for the scoring to end.
    selecting |= {"keep_fraction": keep_fraction, "strategy": strategy, "seed": seed}
    select(np.zeros(1), labels=[0], balance=balance, **selecting)

    budget = parse_size(memory)
    out = None if out is None else as_place(out)
    if out is not None and (overwrite or not is_own(out)):  # one's own may be finished by the same run, see below
        check_output(out, overwrite=overwrite, folder=True)
    options = with_bytes(scoring or {})
    if engine != "local":
        _check_ranged(source, out, labels)
    opened, read, data = _open(source, metric, labels, options, ranged=engine != "local")
    if isinstance(opened, RangedSource):
        _check_streams(opened, metric, options.get("model"), balance, budget, selecting)
    data |= {"labels": None if labels is None else _labels_digest(labels)}
    request = request_digest(data, metric=metric, balance=balance, options=options, selecting=selecting)

    def scored(running: Engine) -> Any:
        """The scores, made now unless they are there."""
        if isinstance(opened, Scores | ScoreTable):
            return opened
        how = {"metric": metric, "seed": seed, "track": track}
        if isinstance(opened, list):
            return score(opened, labels=labels, **how, **options)
        without = {*WORK_OPTIONS, "encoder"} - {"trust_source"}  # which ranges of embeddings have no place for
        known = {name: value for name, value in options.items() if name not in without and value is not None}
        return score_ranges(opened.location, out=parts / "scores", engine=running, **how, **known)

    def selected(scores: Any, running: Engine | None = None) -> Selection:
        passes = None if running is None or _in_one_piece(scores, balance, budget, selecting) else running
        return select(scores, labels=labels, balance=balance, memory=budget, track=track, engine=passes, **selecting)

    if out is None:
        return selected(scored(InProcess()))
    check_apart(out, read)
    checkpoint = options.get("checkpoint")
    parts = absolute(checkpoint or parts_folder(out))  # workers may run in another folder
    growing = parts / f"manifest-{request}"
    if checkpoint is not None:
        options["keep_checkpoint"] = True
    with locked(out):
        if not overwrite and _is_finished(out, request):
            read_again = read_scores if engine == "local" else open_table
            kept = replace(selected(opened if isinstance(opened, ScoreTable) else read_again(out)), already=True)
        else:
            check_output(out, overwrite=overwrite, folder=True)
            shards: dict[str, str] | None = None
            if engine == "local":
                kept = selected(scored(InProcess()))
            else:
                claim_parts(parts)
                with open_engine(engine, address=address, workers=workers) as running:
                    kept = selected(scored(running), running)
                    if isinstance(kept.rows, RowsOnDisk):
                        if request is None:  # nothing says what earlier shards were made from
                            remove_folder(growing)
                        growing.mkdir(exist_ok=True)
                        running.check_places([str(absolute(kept.rows.path))], str(growing))
                        shards = write_shards(kept, growing, running, track=track)
                    kept.class_table()  # while there is an engine for its pass
            with new_output(out, overwrite=overwrite, folder=True, sources=read, request=request) as folder:
                if shards is not None:
                    take_shards(growing, folder / MANIFEST, shards)
                write_selection(kept, folder, shards)
            if shards is not None:
                kept = read_from(kept, out)
        if checkpoint is not None or engine != "local":
            remove_parts(parts, output=out)
    return kept


def _open(
    source: Any, metric: str | None, labels: Any, options: dict[str, Any], *, ranged: bool
) -> tuple[Scores | ScoreTable | RangedSource | list[Source], list[Path], dict[str, Any]]:
    """What is selected from, or scored before that; the places where it is; and what it is known again by."""
    table = source if is_path(source) and is_scores(source) else None
    if table is not None or isinstance(source, Scores):
        for name in options:
            if options[name] is not None and name not in WORK_OPTIONS:
                raise PareError(f"these are already scores; leave out {argument(name)}, or give the data to score.")
    if table is not None:
        opened = open_scores(table, metric=metric)
        return opened, [as_place(table)], {"table": files_fingerprint(score_files(table)), "column": opened.column}
    if isinstance(source, Scores):
        return source, [], {"scores": digest_of_scores(source)}
    if ranged:
        whole = RangedSource(source)
        return whole, [as_place(source), *whole.disk_files()], {"sources": [[whole.fingerprint()]]}
    ids = options.pop("ids", None)  # from here on those of the opened sources
    members = open_members(source, labels=labels, ids=ids, on_error=options.get("on_error", "raise"))
    places = [place for member in members for place in member.places()]
    return members, places, {"sources": [member.identity() for member in members]}


def _is_finished(out: Path, request: str | None) -> bool:
    """Whether an earlier run of the same request wrote an output; raise if there is one of another."""
    if request is not None and finished_request(out) == request:
        return True
    if not is_own(out):
        return False
    if broken := damages(out):
        raise damaged_output(out, broken)
    raise PareError(
        f"{out} already exists, made from other data or with other settings; choose another output, or replace it with "
        f"{argument('overwrite', True)}."
    )


def _check_streams(
    source: RangedSource, metric: str | None, model: Any, balance: float | None, budget: int, selecting: dict[str, Any]
) -> None:
    """Raise before embeddings are scored if their scores, of which there may be many, could not be selected from."""
    fitted: FittedModel | None = read_model(model) if is_path(model) else model
    name = metric or (DEFAULT_METRIC if fitted is None else fitted.metric)
    first = source.first_row()
    grouped = first.labels is not None or check_ranged(name).clusters
    floor = default_balance(balance, groups=grouped and selecting.get("quota", "none") == "none")
    settings = SelectionSettings(**selecting, balance=floor)
    if bytes_in_memory(len(source), text_ids=first.ids.dtype.kind not in "iu") > budget:
        check_streams(source.location, len(source), settings, grouped=grouped)


def _in_one_piece(scores: Any, balance: float | None, budget: int, selecting: dict[str, Any]) -> bool:
    """Whether scores that fit in memory are selected from there whatever the engine, as no passes could do it."""
    if not isinstance(scores, ScoreTable) or selecting["strategy"] != "stratified" or scores.in_memory_bytes > budget:
        return not isinstance(scores, ScoreTable)
    quota = selecting.get("quota", "none")
    return quota != "none" or default_balance(balance, groups=scores.grouped_by is not None) > 0


def _check_ranged(source: Any, out: str | Path | None, labels: Any) -> None:
    """Raise unless a source can be pruned on an engine of several machines."""
    if out is None or not is_path(source) or labels is not None:
        raise PareError(
            f"{argument('engine')} other than 'local' takes a path, writes to {argument('out', ...)}, and finds labels "
            "in the table of scores, or in labels.npy in the folder of the embeddings."
        )


def check_finished(out: Path, settings: dict[str, Any]) -> None:
    """Raise if there is an output of other settings, by what its manifest says: before anything costly is done."""
    if out.is_dir() and (broken := damages(out, contents=False)):
        raise damaged_output(out, broken)
    if not (out / MANIFEST).exists():
        return
    record = provenance_in(out / MANIFEST)
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


def write_selection(kept: Selection, folder: Path, shards: dict[str, str] | None = None) -> None:
    """Write `manifest.parquet`, `manifest.json` and `classes.csv` into a folder.

    With `shards`, digests by name, the first is there already.
    """
    if shards is None:
        kept.write(folder / MANIFEST)
    table = kept.class_table()
    if table is not None:
        pyarrow.csv.write_csv(table, folder / "classes.csv")
    beside = {"paredown": __version__, "sha256": shards} | kept.record()
    if shards is None:
        beside = read_record(folder / "manifest.json") or {}  # as it was written with the table, with its digest
    write_json(beside | kept.provenance() | {"balance_score": kept.balance_scores()}, folder / "manifest.json")


def _metric_column(source: str | Path, metric: str | None) -> str | None:
    """The column that a metric stands for in a table of scores, which must be of that metric; any if none is named."""
    if metric is None:
        return None
    schema = pq.read_schema(arrow_input(score_files(source)[0]))
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
