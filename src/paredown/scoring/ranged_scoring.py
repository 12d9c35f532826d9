"""Scores of embeddings that no process holds: a fit by sums over ranges of rows, then one table per range.

The output is a folder. A table in it is the mark that its range is done: it appears whole, and carries the digest of
the settings. So a run that was stopped, by whatever, is finished by the same call; and several runs may each do a share
(`shard`), which needs nothing but a file system that they share.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from paredown.checkpoint import Checkpoint, keep_settings
from paredown.clustering.ranged_rows import RangedEmbeddings, open_range
from paredown.engines import Engine, open_engine
from paredown.engines.shares import Share
from paredown.errors import PareError, argument
from paredown.files import (
    MARK,
    TEMPORARY,
    check_apart,
    claim_folder,
    clear_temporaries,
    is_damaged,
    is_own,
    locked,
    locked_together,
    remove_folder,
    write_whole,
)
from paredown.metrics import DEFAULT_METRIC
from paredown.metrics.registry import METRICS, check_options, check_ranged
from paredown.places import (
    StorageError,
    absolute,
    arrow_input,
    as_place,
    is_remote,
    is_storage_error,
    nothing_at,
    storage_error,
)
from paredown.progress import Track, silent
from paredown.records import digest, json_values, read_record, write_record
from paredown.score_files import (
    COMPLETE,
    PARQUET_OPTIONS,
    SCORES_FOLDER,
    SCORES_SETTINGS,
    beside_tables,
    is_complete,
    provenance_in,
    scores_table,
)
from paredown.score_table import ScoreTable, open_table
from paredown.scores import Scores
from paredown.scoring.saved_models import FittedModel, can_be_saved, read_model, write_model
from paredown.scoring.scoring_job import recorded_options
from paredown.sources.base import FINGERPRINT
from paredown.sources.row_ranges import RangedSource, RowRange
from paredown.text import few
from paredown.units import with_bytes
from paredown.version import __version__

_MODEL = "_model.npz"
_TABLE = re.compile(r"[0-9]{6,}\.parquet")
_RANGE_KEY = b"paredown_range"  # in the metadata of a table: its own name
_FITTING = "_fitting"  # folder of the passes of k-means that are done
_RECORDS = (SCORES_SETTINGS, SCORES_SETTINGS.removeprefix("_"))  # by which a folder is known whose mark is damaged
_JOB_MEMORY = 2**29  # of a range of rows that is scored, with its kernel


def score_ranges(
    source: str | Path,
    *,
    out: str | Path,
    metric: str | None = None,
    seed: int = 0,
    engine: str | Engine = "local",
    address: str | None = None,
    workers: int | None = None,
    shard: str | None = None,
    model: str | Path | FittedModel | None = None,
    overwrite: bool = False,
    trust_source: bool = False,
    track: Track = silent,
    tell: Callable[[int], object] = lambda _: None,
    **options: Any,
) -> ScoreTable | None:
    """Score embeddings by ranges of rows into a folder of tables, the same scores as `score` gives.

    Args:
        source: an `.npy` file, a folder of them, or what `embed` wrote.
        out: the folder. The same call finishes what a stopped one began.
        metric: a name in `METRICS` that is `ranged`; `prototypes`, or that of the model, unless given.
        seed: decides samples and ties.
        engine, address, workers: see `engines.open_engine`.
        shard: `i/n` for the i-th of n shares of the work; `merge` ends the work when all are done.
        model: a model fitted before, or its file.
        overwrite: replace an existing folder of scores.
        trust_source: go on although the files of the source were modified since.
        track: reports progress.
        tell: called with the number of ranges that are scored now, as they were not there.
        **options: the metric's own.

    Returns:
        The table, opened; None after a share, unless it was the last.
    """
    out, options = absolute(out), with_bytes(options)  # workers may run in another folder
    given = model if isinstance(model, FittedModel | None) else read_model(model)
    name = metric or (given.metric if given is not None else DEFAULT_METRIC)
    _check(name, given, options)
    share = None if shard is None else Share.parse(shard, overwrite=overwrite)
    opened = RangedSource(source)
    check_apart(out, [opened.location, *opened.disk_files()])
    state = opened.state()
    settings = {
        "paredown": __version__,
        "metric": name,
        "options": recorded_options(options),
        "seed": seed,
        "source": opened.provenance(fingerprint=_known_fingerprint(out, opened, state)),
        **({} if given is None else {"model": given.summary()}),
    }
    # Shares are written side by side; a whole run excludes them, and other whole runs.
    with ExitStack() as running_until_the_end, locked(out) if share is None else locked_together(out):
        replaced = overwrite and _is_begun(out)
        if replaced or not is_own(out):
            # A cluster that does not answer, or does not see the data, costs no earlier scores, and leaves no folder.
            engine = running_until_the_end.enter_context(open_engine(engine, address=address, workers=workers))
            engine.check_places([opened.location], None)
        if replaced:
            _clear(out)
        claim_folder(out, SCORES_FOLDER, earlier=_RECORDS)
        if share is None:
            clear_temporaries(out)
        kept_in = beside_tables(out, SCORES_SETTINGS).name
        keep_settings(out, {**settings, "source_state": state}, kind=SCORES_FOLDER, trusted=trust_source, name=kept_in)
        if is_complete(out):
            tell(0)
            return open_table(out)
        ranges = opened.ranges(large=True)
        mine = ranges if share is None else share.of(ranges)
        missing = [rows for rows in mine if not _is_done(out, rows, digest(settings))]
        if missing:
            with open_engine(engine, address=address, workers=workers) as running:
                running.check_places([opened.location], str(out))
                embeddings = RangedEmbeddings(opened, running)
                fitted = _fit(embeddings, out, name, given, options, settings, track)
                _score(embeddings, fitted, missing, out, settings, track)
        tell(len(missing))
        if share is not None and any(not _is_done(out, rows, digest(settings)) for rows in ranges):
            return None
        return finish(out, ranges, digest(settings))


def _known_fingerprint(out: Path, source: RangedSource, state: dict[str, str]) -> str | None:
    """The fingerprint that an earlier run or share noted of the same objects in a store, which says when they changed.

    Reading parts of them takes a while there, and every share would do it. What is on a disk is always looked at, where
    times can be set to anything.
    """
    if not is_remote(as_place(source.location)):
        return None
    record = read_record(beside_tables(out, SCORES_SETTINGS)) or {}
    noted = record.get("source")
    if not isinstance(noted, dict) or noted.get("location") != source.location or record.get("source_state") != state:
        return None
    found = str(noted.get("fingerprint"))
    return found if found.startswith(FINGERPRINT) else None


def merge(out: str | Path) -> ScoreTable:
    """End work that was done in shares: check that every range is there, and open the table.

    `out` is the folder that the shares were written to.
    """
    out = as_place(out)
    if not out.exists():
        raise nothing_at(out, "folder; name the one that the shares were written to")
    with locked(out):
        return _merge(out)


def _merge(out: Path) -> ScoreTable:
    record = read_record(beside_tables(out, SCORES_SETTINGS)) or {}
    if "source" not in record:
        raise PareError(f"{out}: nothing was begun there by `paredown score --shard` or `paredown embed --shard`.")
    record.pop("source_state", None)
    ranges = RangedSource(record["source"]["location"]).ranges(large=True)
    done = digest(record)
    missing = [rows for rows in ranges if not _is_done(out, rows, done)]
    if missing:
        some = ", ".join(rows.name for rows in missing[:3]) + (", ..." if len(missing) > 3 else "")
        raise PareError(
            f"{out}: {len(missing):,} of {len(ranges):,} ranges are missing ({some}); rerun the shares that did not "
            "finish."
        )
    clear_temporaries(out)  # of killed shares: none is at work
    return finish(out, ranges, done)


def _is_begun(out: Path) -> bool:
    """Whether a folder is one of scores, by its mark or, if that is damaged, by the record of its settings."""
    return is_own(out) or any(read_record(out / name) is not None for name in _RECORDS)


def finish(out: Path, ranges: list[RowRange], request: str) -> ScoreTable:
    """Note that all ranges are there, and nothing that would pass for another one."""
    expected = {_table(out, each).name for each in ranges}
    others = sorted(file.name for file in out.glob("*.parquet") if file.name not in expected)
    if others:
        raise PareError(
            f"{out} also holds {few(others)}, which is none of its {len(ranges):,} tables; move it away, and run the "
            "same command again."
        )
    rows = sum(piece.rows for each in ranges for piece in each.pieces)
    remove_folder(beside_tables(out, _FITTING))
    noted = {"paredown": __version__, "request": request, "tables": len(ranges), "rows": rows}
    write_record(beside_tables(out, COMPLETE), noted)
    return open_table(out)


def _check(metric: str, model: FittedModel | None, options: dict[str, Any]) -> None:
    check_options([metric], options)
    check_ranged(metric)
    if model is not None and model.metric != metric:
        raise PareError(
            f"the model is of metric {model.metric!r}, but {metric!r} was given; leave out {argument('metric')}."
        )
    if model is not None:
        model.check_options(options)


def _clear(out: Path) -> None:
    """Remove earlier scores from their folder, or raise if anything else is in it."""
    claim_folder(out, SCORES_FOLDER, earlier=_RECORDS)
    others = (SCORES_SETTINGS, COMPLETE, _MODEL, _FITTING)
    own = {MARK, *others, *(name.removeprefix("_") for name in others)}
    items = [item for item in out.iterdir() if not TEMPORARY.fullmatch(item.name)]
    foreign = sorted(item.name for item in items if item.name not in own and not _is_own_table(item))
    if foreign:
        raise PareError(
            f"{out} also holds {few(foreign)}, which paredown did not write and which would be lost; move them away, "
            "or choose another output."
        )
    remove_folder(out)


def _is_own_table(item: Path) -> bool:
    """Whether a file is a table that paredown wrote, or the damaged rest of one."""
    return _TABLE.fullmatch(item.name) is not None and (is_own(item) or is_damaged(item))


def _table(out: Path, rows: RowRange) -> Path:
    return out / f"{rows.number:06d}.parquet"


def _is_done(out: Path, rows: RowRange, request: str) -> bool:
    """Whether the table of a range is there, whole and of these settings."""
    file = _table(out, rows)
    try:
        if not file.exists() or provenance_in(file).get("request") != request:
            return False
        found = pq.read_metadata(arrow_input(file))
        of_range = (found.metadata or {}).get(_RANGE_KEY) == file.name.encode()  # not a copy of another
        return of_range and found.num_rows == sum(piece.rows for piece in rows.pieces)
    except StorageError:
        raise
    except (PareError, OSError, ValueError) as error:
        if is_storage_error(error):
            raise storage_error(file, error) from error
        return False


# --- fitting -------------------------------------------------------------------------------------------------------


def _fit(
    embeddings: RangedEmbeddings,
    out: Path,
    metric: str,
    given: FittedModel | None,
    options: dict[str, Any],
    settings: dict[str, Any],
    track: Track,
) -> FittedModel:
    """The model: the one given, that of an earlier run, or one that is fitted now."""
    if given is not None:
        given.check_dim(embeddings.dim, embeddings.location)
        return given.with_options(options)
    entry, kept = METRICS[metric], beside_tables(out, _MODEL)
    if entry.load is not None and kept.exists():
        try:
            found = read_model(kept)
            if found.provenance == json_values(settings):
                return found
        except StorageError:
            raise
        except PareError:
            pass  # damaged: it is fitted again
    if "labels" in entry.needs and embeddings.labels is None:
        where = embeddings.location
        raise PareError(f"metric {metric!r} needs labels, but {where} has none; {_where_labels_go(where)}.")
    more: dict[str, Any] = {}
    if "checkpoint" in entry.fit.__code__.co_varnames:  # type: ignore[attr-defined]
        more["checkpoint"] = Checkpoint(beside_tables(out, _FITTING), settings)
    model = entry.fit(embeddings, seed=settings["seed"], track=track, **options, **more)
    classes = embeddings.labels.classes if "labels" in entry.needs and embeddings.labels is not None else None
    fitted = FittedModel(metric, model, embeddings.dim, classes, json_values(settings))
    if entry.load is not None:
        can_be_saved(metric)
        with write_whole(kept, output=out) as part:
            write_model(fitted, part)
    return fitted


def _where_labels_go(location: str) -> str:
    """What to do for labels."""
    if as_place(location).is_dir():
        return "put them into the folder as labels.npy, one per row"
    name = as_place(location).name
    return f"put {name} into a folder of its own, with labels.npy beside it, one per row, and give that folder"


# --- scoring -------------------------------------------------------------------------------------------------------


def _score(
    embeddings: RangedEmbeddings,
    fitted: FittedModel,
    missing: list[RowRange],
    out: Path,
    settings: dict[str, Any],
    track: Track,
) -> None:
    entry = METRICS[fitted.metric]
    report = fitted.model.report()
    warnings = [*embeddings.source.warnings, *report.get("warnings", ())]
    record = {**settings, "report": report, "warnings": warnings, "skipped": [], "request": digest(settings)}
    common = {
        "location": embeddings.location,
        "columns": embeddings.source.columns,
        "out": str(out),
        "metric": fitted.metric,
        "model": (fitted.arrays, report) if entry.load is not None else fitted.model,
        "classes": fitted.classes,
        "record": record,
    }
    memory = _JOB_MEMORY + (sum(array.nbytes for array in fitted.arrays.values()) if entry.load is not None else 0)
    outcomes = embeddings.engine.run_jobs(f"{__name__}:score_range", missing, common=common, memory=memory)
    failed: list[tuple[RowRange, str]] = []
    for outcome in track(outcomes, "scoring ranges", total=len(missing)):
        if outcome.error is not None:
            failed.append((missing[outcome.job], outcome.error))
    if failed:
        rows, reason = min(failed)
        more = f" {len(failed) - 1} more ranges failed, too." if len(failed) > 1 else ""
        raise PareError(
            f"{embeddings.location}, {rows.name}: {reason}{more} What is done stays in {out}; run the same command "
            "again to finish."
        )


def score_range(common: dict[str, Any], rows: RowRange) -> int:
    """What a worker does: score a range and write its table; how many rows that was."""
    source = open_range(common, rows)
    entry = METRICS[common["metric"]]
    model = common["model"]
    if entry.load is not None:
        model = entry.load(*model)
    plain = source.labels
    if common["classes"] is not None and plain is not None:
        source.labels = plain.numbered_like(common["classes"])
    scored = [model.score(batch) for batch in _batches(source, entry.needs)]
    clusters = [part.clusters for part in scored if part.clusters is not None]
    scores = Scores(
        np.concatenate([part.values for part in scored]),
        source.ids,
        common["metric"],
        plain,
        np.concatenate(clusters) if clusters else None,
        common["record"],
    )
    out = as_place(common["out"])
    file = _table(out, rows)
    with write_whole(file, output=out) as part:
        table = scores_table(scores)
        named = {**(table.schema.metadata or {}), _RANGE_KEY: file.name.encode()}
        pq.write_table(table.replace_schema_metadata(named), part, **PARQUET_OPTIONS)
    return len(scores)


def _batches(source: Any, needs: tuple[str, ...]) -> Iterable[Any]:
    from paredown.scores import Batch

    if "embeddings" in needs:
        return source.batches()
    return [Batch(source.ids, np.empty((len(source), 0), np.float32), None)]
