"""Scores of embeddings that no process holds: a fit by sums over ranges of rows, then one table per range.

The output is a folder. A table in it is the mark that its range is done: it appears whole, and carries the digest of
the settings. So a run that was stopped, by whatever, is finished by the same call; and several runs may each do a share
(`shard`), which needs nothing but a file system that they share.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from contextlib import nullcontext
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from paredown.checkpoint import Checkpoint, keep_settings
from paredown.clustering.ranged_rows import RangedEmbeddings, open_range
from paredown.engines import Engine, open_engine
from paredown.errors import PareError, argument
from paredown.files import check_apart, claim_folder, clear_temporaries, is_own, locked, remove_folder, write_whole
from paredown.metrics import DEFAULT_METRIC
from paredown.metrics.registry import METRICS, check_options
from paredown.progress import Track, silent
from paredown.records import digest, json_values, write_record
from paredown.score_files import COMPLETE, PARQUET_OPTIONS, SCORES_FOLDER, is_complete, provenance_in, scores_table
from paredown.score_table import ScoreTable, open_table
from paredown.scores import Scores
from paredown.scoring.saved_models import FittedModel, can_be_saved, read_model, write_model
from paredown.scoring.scoring_job import recorded_options
from paredown.sources.row_ranges import RangedSource, RowRange
from paredown.units import with_bytes
from paredown.version import __version__

_MODEL = "model.npz"
_FITTING = "fitting"  # folder of the passes of k-means that are done
_JOB_MEMORY = 2**29  # of a range of rows that is scored, with its kernel


class Shard(NamedTuple):
    """Some of the `shares` of the ranges, which are numbered from 1 on."""

    numbers: range
    shares: int

    @classmethod
    def parse(cls, text: str) -> Shard:
        """`i/n`, or `/n` in a job array of Slurm, whose tasks do the n shares in turn."""
        number, _, count = text.partition("/")
        if not re.fullmatch(r"[0-9]*/[0-9]+", text):
            raise PareError(f"{argument('shard')} is I/N, such as 3/64, or /N in a Slurm job array; got {text!r}.")
        n = int(count)
        if not number:
            task, tasks = _slurm_task()
            return cls(range(task, n + 1, tasks), n)
        if not 1 <= int(number) <= n:
            raise PareError(f"{argument('shard')} goes from 1/{n} to {n}/{n}, got {text!r}.")
        return cls(range(int(number), int(number) + 1), n)

    def of(self, ranges: list[RowRange]) -> list[RowRange]:
        """The ranges in these shares: of each, every `shares`-th."""
        return sorted(rows for number in self.numbers for rows in ranges[number - 1 :: self.shares])


def _slurm_task() -> tuple[int, int]:
    """Which task of its array this is, from 1 on, wherever the array begins, and how many there are."""
    found = [os.environ.get(f"SLURM_ARRAY_TASK_{name}", "") for name in ("ID", "MIN", "COUNT")]
    if not all(value.isdigit() for value in found):
        raise PareError(
            f"{argument('shard')} without a number is for Slurm job arrays, and SLURM_ARRAY_TASK_ID, _MIN and _COUNT "
            "are not set here."
        )
    task, first, tasks = map(int, found)
    return task - first + 1, tasks


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
        **options: the metric's own.

    Returns:
        The table, opened; None after a share, unless it was the last.
    """
    out, options = Path(os.path.abspath(out)), with_bytes(options)  # workers may run in another folder
    given = read_model(model) if isinstance(model, str | Path) else model
    name = metric or (given.metric if given is not None else DEFAULT_METRIC)
    _check(name, given, options)
    share = None if shard is None else Shard.parse(shard)
    opened = RangedSource(source)
    check_apart(out, [opened.location, *opened.disk_files()])
    if overwrite and is_own(out) and share is None:
        remove_folder(out)
    settings = {
        "paredown": __version__,
        "metric": name,
        "options": recorded_options(options),
        "seed": seed,
        "source": opened.provenance(),
        **({} if given is None else {"model": given.summary()}),
    }
    # Shares are written side by side; only whole runs exclude each other.
    with nullcontext() if share is not None else locked(out):
        claim_folder(out, SCORES_FOLDER)
        if share is None:
            clear_temporaries(out)
        keep_settings(out, {**settings, "source_state": opened.state()}, kind=SCORES_FOLDER, trusted=trust_source)
        if is_complete(out):
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
        if share is not None and any(not _is_done(out, rows, digest(settings)) for rows in ranges):
            return None
        return finish(out, ranges, digest(settings))


def merge(out: str | Path) -> ScoreTable:
    """End work that was done in shares: check that every range is there, and open the table.

    `out` is the folder that the shares were written to.
    """
    from paredown.records import read_record

    out = Path(out)
    record = read_record(out / "settings.json") or {}
    if "source" not in record:
        raise PareError(f"{out}: no scores were begun there by `paredown score --shard`.")
    record.pop("source_state", None)
    ranges = RangedSource(record["source"]["location"]).ranges(large=True)
    done = digest(record)
    missing = [rows for rows in ranges if not _is_done(out, rows, done)]
    if missing:
        some = ", ".join(rows.name for rows in missing[:3])
        raise PareError(
            f"{out}: {len(missing):,} of {len(ranges):,} ranges are missing, such as {some}; run the shares again that "
            "did not end."
        )
    return finish(out, ranges, done)


def finish(out: Path, ranges: list[RowRange], request: str) -> ScoreTable:
    """Note that all ranges are there."""
    rows = sum(piece.rows for each in ranges for piece in each.pieces)
    remove_folder(out / _FITTING)
    write_record(out / COMPLETE, {"paredown": __version__, "request": request, "tables": len(ranges), "rows": rows})
    return open_table(out)


def _check(metric: str, model: FittedModel | None, options: dict[str, Any]) -> None:
    check_options([metric], options)
    if not METRICS[metric].ranged:
        able = ", ".join(name for name, entry in METRICS.items() if entry.ranged)
        raise PareError(f"metric {metric!r} needs all examples on one machine; by ranges of rows: {able}.")
    if model is not None and model.metric != metric:
        raise PareError(
            f"the model is of metric {model.metric!r}, but {metric!r} was given; leave out {argument('metric')}."
        )
    if model is not None:
        model.check_options(options)


def _table(out: Path, rows: RowRange) -> Path:
    return out / f"{rows.number:06d}.parquet"


def _is_done(out: Path, rows: RowRange, request: str) -> bool:
    """Whether the table of a range is there, whole and of these settings."""
    file = _table(out, rows)
    try:
        return (
            file.exists()
            and provenance_in(file).get("request") == request
            and pq.read_metadata(file).num_rows == sum(piece.rows for piece in rows.pieces)
        )
    except (PareError, OSError, ValueError):
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
    entry, kept = METRICS[metric], out / _MODEL
    if entry.load is not None and kept.exists():
        try:
            found = read_model(kept)
            if found.provenance == json_values(settings):
                return found
        except PareError:
            pass  # damaged: it is fitted again
    if "labels" in entry.needs and embeddings.labels is None:
        raise PareError(
            f"metric {metric!r} needs labels, but {embeddings.location} has none; put labels.npy into the folder."
        )
    more: dict[str, Any] = {}
    if "checkpoint" in entry.fit.__code__.co_varnames:  # type: ignore[attr-defined]
        more["checkpoint"] = Checkpoint(out / _FITTING, settings)
    model = entry.fit(embeddings, seed=settings["seed"], track=track, **options, **more)
    classes = embeddings.labels.classes if "labels" in entry.needs and embeddings.labels is not None else None
    fitted = FittedModel(metric, model, embeddings.dim, classes, json_values(settings))
    if entry.load is not None:
        can_be_saved(metric)
        with write_whole(kept, output=out) as part:
            write_model(fitted, part)
    return fitted


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
    out = Path(common["out"])
    with write_whole(_table(out, rows), output=out) as part:
        pq.write_table(scores_table(scores), part, **PARQUET_OPTIONS)
    return len(scores)


def _batches(source: Any, needs: tuple[str, ...]) -> Iterable[Any]:
    from paredown.scores import Batch

    if "embeddings" in needs:
        return source.batches()
    return [Batch(source.ids, np.empty((len(source), 0), np.float32), None)]
