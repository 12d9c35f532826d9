"""`info`: find out what a path is, and collect the facts about it."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from paredown.describing.fact_lines import fact_lines
from paredown.describing.origins import as_time, modified, origin
from paredown.describing.output_facts import OUTPUT_FACTS, resume_advice
from paredown.describing.table_summary import TableSummary, summarize_table
from paredown.display import Introduced
from paredown.embeddings.store import replacement_of
from paredown.errors import PareError
from paredown.files import MARK, lock_file, lock_is_held, parts_folder
from paredown.output_kinds import Output, find_output
from paredown.places import arrow_input, as_place, is_remote, nothing_at
from paredown.progress import Track, silent
from paredown.reading import damaged
from paredown.records import read_record
from paredown.score_files import (
    SCORES_FOLDER,
    is_complete,
    is_scores,
    keep_column,
    manifest_file,
    provenance_in,
    score_columns,
    score_files,
)
from paredown.selection.streamed import ScoreTable, open_table
from paredown.sources import VectorSource, named_dataset, open_source

_SWEEP_TABLES = ("results.parquet", "timings.parquet")  # which say little without the other files of their sweep
_ROWS = 131_072  # of a block of a table
_REMEDY = "See what `paredown verify` says of it."
_BUSY = "a run is writing it at this moment"


@dataclass(frozen=True, repr=False)
class Info(Introduced):
    """What `info` found.

    Attributes:
        path: that was looked at.
        kind: what it is: `manifest`, `scores`, `store of embeddings`, `image folder`, ...
        facts: by name, as plain values: `examples`, `classes`, `metrics`, `kept`, `source`, `complete`, ...
    """

    path: Path
    kind: str
    facts: dict[str, Any]

    def introduce(self) -> dict[str, str]:
        return {"kind": self.kind} | fact_lines(self.facts)


def info(path: str | Path, *, extremes: int = 5, track: Track = silent) -> Info:
    """What a file or folder is: anything that paredown writes, finished or not, or a source of data.

    A table of scores is read in blocks, so that its size does not matter.

    Args:
        path: an output, or anything that `open_source` takes.
        extremes: how many of the hardest and easiest examples to name where there are scores.
        track: reports progress.

    Raises:
        PareError: if there is nothing, or nothing that can be read.
    """
    where = as_place(path)
    if not where.exists() and named_dataset(path) is None:
        return _missing(where)
    found = find_output(where) if where.exists() else None
    if where.name in _SWEEP_TABLES and (sweep := find_output(where.parent)) is not None and sweep.kind == "sweep":
        found = sweep
    kind, facts = _look(path, found, extremes, track)
    if _is_being_written(where):
        facts |= {"complete": False, "advice": _BUSY}
    elif facts.get("complete") is False:
        facts |= {"advice": resume_advice(where)}
    described = Info(where, kind, {name: value for name, value in facts.items() if value is not None})
    with damaged(where, "output of paredown", remedy=_REMEDY):
        described.introduce()  # which fails where a record has something else in the place of a number
    return described


def _look(path: str | Path, found: Output | None, extremes: int, track: Track) -> tuple[str, dict[str, Any]]:
    whole = found is not None and found.kind == SCORES_FOLDER and is_complete(found.path)
    if found is not None and found.kind in OUTPUT_FACTS and not whole:
        with damaged(path, found.kind, remedy=_REMEDY):
            return found.kind, OUTPUT_FACTS[found.kind](found)
    table = as_place(path) if found is None else found.path
    if is_scores(table):
        with damaged(path, "table of scores", remedy=_REMEDY):
            return _scores(table, extremes, track)
    if found is not None and found.kind == "export" and not found.changed:
        return "export", _export(found)
    if found is not None and found.changed:
        raise PareError(f"{path}: it was changed or damaged since paredown wrote it; export it again.")
    return _source(path)


# --- scores and manifests ------------------------------------------------------------------------------------------


def _scores(path: Path, extremes: int, track: Track) -> tuple[str, dict[str, Any]]:
    """Scores by one or several metrics, or a manifest."""
    file = score_files(path)[0]
    with damaged(file, "table of scores"):
        schema = pq.read_schema(arrow_input(file))
    is_manifest = "keep" in schema.names
    columns = ["score"] if is_manifest and "score" in schema.names else score_columns(schema)
    tables = [open_table(path, metric=column) for column in columns] or [open_table(path)]  # which says what it lacks
    record = provenance_in(file)
    records = [*record.get("metrics", {}).values(), record]
    selection = record.get("selection", {})
    seed = selection.get("seed", 0)
    found = [summarize_table(table, extremes=extremes, seed=seed, track=track) for table in tables]
    groups = {"label": "classes", "cluster": "clusters"}.get(found[0].grouped_by or "")
    facts: dict[str, Any] = {"examples": found[0].examples}
    if groups is not None:
        facts |= {groups: found[0].groups, "balance_score": {"before": found[0].balance_score}}
    if is_manifest:
        facts["kept"] = selection | {"kept": _count_kept(tables[0])}
        beside = read_record(manifest_file(path).with_suffix(".json")) or {}  # which has b before and after
        facts["balance_score"] = beside.get("balance_score") or facts.get("balance_score")
    facts["metrics"] = [_metric_facts(each) for each in found]
    warnings = [text for each in records for text in [*each.get("warnings", ()), *each.get("notes", ())]]
    return "manifest" if is_manifest else "scores", facts | {
        "source": origin(records[0].get("source"), modified(file)),
        "seed": records[0].get("seed"),
        "paredown": records[0].get("paredown"),
        "written": as_time(modified(file)),
        "complete": True,
        "warnings": list(dict.fromkeys(warnings)),
    }


def _metric_facts(found: TableSummary) -> dict[str, Any]:
    extremes = {name: [asdict(one) for one in getattr(found, name)] for name in ("hardest", "easiest")}
    return {name: getattr(found, name) for name in ("metric", "lowest", "median", "highest")} | extremes


def _count_kept(table: ScoreTable) -> int:
    blocks = table.blocks(["keep"], _ROWS)
    return sum(keep_column(block.columns.column("keep"), block.file).true_count for block in blocks)


# --- sources, exports and what is not there -------------------------------------------------------------------------


def _source(path: str | Path) -> tuple[str, dict[str, Any]]:
    """Data that others made, as `open_source` sees them."""
    source = open_source(path)
    return source.kind, {
        "examples": len(source),
        "classes": None if source.labels is None else len(source.labels.classes),
        "dimensions": source.dim if isinstance(source, VectorSource) else None,
        "skipped": len(source.skipped) or None,
        "warnings": list(source.warnings),
    }


def _export(found: Output) -> dict[str, Any]:
    """How many files an export has and, where it can be read as a source, what is in it."""
    inside = [file for file in found.path.rglob("*") if file.is_file()] if found.path.is_dir() else [found.path]
    files = [file for file in inside if file.name != MARK]
    facts: dict[str, Any] = {"files": {"number": len(files), "bytes": sum(file.stat().st_size for file in files)}}
    try:
        kind, read = _source(found.path)
        facts |= {"form": kind} | {name: read[name] for name in ("examples", "classes", "dimensions")}
    except PareError:  # a list of ids, for instance, is no source
        facts["form"] = found.path.suffix.removeprefix(".") or None
    return facts | {
        "paredown": found.mark.get("paredown"),
        "written": as_time(modified(found.path)),
        "complete": True,
    }


def _missing(path: Path) -> Info:
    """What an interrupted run left of an output that is not there yet."""
    parts = [place for place in (parts_folder(path), replacement_of(path)) if place.is_dir()]
    if _is_being_written(path):
        advice = _BUSY
    elif parts:
        advice = resume_advice(path)
    else:
        raise nothing_at(path)
    done = sum(1 for place in parts for _ in place.rglob("*.np[yz]"))
    return Info(
        path, "unfinished output", {"parts": {"what": "parts", "done": done}, "complete": False, "advice": advice}
    )


def _is_being_written(path: Path) -> bool:
    return not is_remote(path) and bool(path.resolve().name) and lock_is_held(lock_file(path))
