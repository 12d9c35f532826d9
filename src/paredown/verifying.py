"""Is everything on disk as it was written?

`verify` reads an output in full and compares it with the checksums and digests that were written with it; a flipped
bit, a missing file or a foreign one is a `Problem`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from paredown.embeddings.store import STATE, read_shard
from paredown.errors import PareError
from paredown.files import file_digest, foreign_files, is_unfinished
from paredown.output_kinds import Output, find_output
from paredown.places import arrow_input, as_place, nothing_at
from paredown.progress import Track, silent
from paredown.reading import check_rows, damaged, read_array, read_arrays, reading
from paredown.recorder.storage import read_recording
from paredown.records import DIGESTS, is_intact, json_values, read_record
from paredown.score_files import (
    COMPLETE,
    SCORES_FOLDER,
    SCORES_SETTINGS,
    beside_tables,
    is_manifest,
    provenance_in,
    score_files,
)
from paredown.scoring.saved_models import read_model
from paredown.sources.arrays import RECORD

_CHANGED = "changed since it was written: its checksum differs"


@dataclass(frozen=True)
class Problem:
    """Something that is not as it was written."""

    path: Path
    what: str


@dataclass(frozen=True)
class Verified:
    """What `verify` found.

    Attributes:
        path: that was looked at.
        kind: what it is: `manifest`, `scores`, `store of embeddings`, ...
        files: how many files were read and compared.
        problems: what is wrong; none if all is well.
        unchecked: files that were written without a digest, of which only their presence, or that they can be read, is
            known.
    """

    path: Path
    kind: str
    files: int
    problems: tuple[Problem, ...]
    unchecked: int = 0


@dataclass
class _Findings:
    """What was found so far, file by file."""

    files: int = 0
    problems: list[Problem] = field(default_factory=list)
    unchecked: int = 0

    def add(self, path: Path, what: str) -> None:
        """Add a problem."""
        self.problems.append(Problem(path, what))

    def compare(self, file: Path, digest: str | None, changed: str = _CHANGED) -> None:
        """Compare a file with the digest that was written with it, if there was one."""
        if digest is None:
            self.unchecked += 1
            return
        self.files += 1
        if not file.exists() or file_digest(file) != digest:
            self.add(file, changed)

    def count_record(self, record: Path) -> None:
        """Count a record that could be read: it ends with its own digest, unless an earlier version wrote it."""
        if is_intact(record.read_bytes()) is None:
            self.unchecked += 1
        else:
            self.files += 1

    def read(self, file: Path, read: Callable[[Path], Any]) -> None:
        """Add a problem if a file cannot be read."""
        try:
            with damaged(file, "file"):
                read(file)
        except PareError as error:
            self.add(file, str(error).removeprefix(f"{file}: "))

    def include(self, parts: Iterable[Verified]) -> None:
        """Add what was found of parts of the output."""
        for part in parts:
            self.files += part.files
            self.problems += part.problems
            self.unchecked += part.unchecked

    def of(self, path: Path, kind: str) -> Verified:
        """The findings as the result for an output."""
        return Verified(path, kind, self.files, tuple(self.problems), self.unchecked)


def verify(path: str | Path, *, track: Track = silent) -> Verified:
    """Read an output in full and compare it with the checksums and digests that were written with it.

    Args:
        path: a store, scores, a manifest, the folder of `prune`, an export, a model, a recording, a sweep, or figures.
        track: reports progress.

    Raises:
        PareError: if there is nothing, or nothing that paredown wrote.
    """
    path = as_place(path)
    if not path.exists():
        raise nothing_at(path)
    found = find_output(path)
    if found is None:
        raise PareError(
            f"{path} was not written by paredown, or its mark is gone, so there is nothing to compare it with."
        )
    if found.changed:
        what = "changed or damaged since it was written: its checksum differs"
        return Verified(path, "export", 1, (Problem(path, what),))
    if found.kind == "store of embeddings":
        return _verify_store(path, track)
    if found.kind in _GROWING:
        return _GROWING[found.kind](path, found.kind, track)
    if found.kind == "table":
        return _verify_table(found.path)
    return _verify_folder(path, found.mark, track) if path.is_dir() else _verify_file(found)


# --- files ---------------------------------------------------------------------------------------------------------


def _verify_table(path: Path) -> Verified:
    """Every page of a table against its checksum, and the table against the digest in the JSON beside it."""
    files = score_files(path, partial=True)
    found = _Findings(files=len(files))
    for file in files:
        found.read(file, _read_pages)
    if found.problems:
        return found.of(path, "table")
    kind = "manifest" if is_manifest(path) else "scores"
    sidecar = path.with_suffix(".json")
    beside = read_record(sidecar)
    if beside is None:
        what = "missing" if not sidecar.exists() else "damaged"
        found.add(sidecar, f"the copy of the record is {what}; the table contains it as well")
        return found.of(path, kind)
    found.files += 1
    noted = beside.get("sha256", {})
    digests = (
        {path / name: digest for name, digest in noted.items()} if path.is_dir() else {path: noted} if noted else {}
    )
    for file in sorted(digests.keys() | set(files) if path.is_dir() else digests):
        if not file.exists():
            found.add(file, "missing")
        elif file not in digests:
            found.add(file, "paredown did not write this")
        elif digests[file] != file_digest(file):
            found.add(file, "changed since it was written: its checksum is not the one in the JSON file next to it")
    if any(beside.get(name) != value for name, value in json_values(provenance_in(path)).items()):
        found.add(sidecar, "disagrees with the record in the table")
    return found.of(path, kind)


def _read_pages(path: Path) -> None:
    with reading(path, "Parquet file"), pq.ParquetFile(arrow_input(path), page_checksum_verification=True) as file:
        check_rows(file, path)
        for batch in file.iter_batches():
            batch.validate(full=True)
    provenance_in(path)


def _verify_file(output: Output) -> Verified:
    """A model, recording or encoder; or a file whose digest, compared already, is in the mark beside it."""
    found = _Findings(files=1)
    if output.kind in _READERS:
        found.read(output.path, _READERS[output.kind])
    else:
        found.unchecked = int("sha256" not in output.mark)
    return found.of(output.path, output.kind)


_READERS: dict[str, Callable[[Path], Any]] = {"model": read_model, "recording": read_recording}


# --- folders -------------------------------------------------------------------------------------------------------


def _verify_folder(folder: Path, mark: dict[str, Any], track: Track) -> Verified:
    """The output of `prune` or `export`: every file against its size and digest in the mark."""
    table = folder / "manifest.parquet"
    kind = "manifest" if table.exists() else "export"
    if is_unfinished(folder):
        what = "incomplete: a run was stopped while it sent it; run the same command again"
        return Verified(folder, kind, 0, (Problem(folder, what),), unchecked=len(mark["files"]))
    if "count" in mark:
        present = sum(1 for file in folder.rglob("*") if not file.is_dir() or file.is_symlink())
        missing = mark["count"] + 1 - present
        what = [f"{missing:,} of its {mark['count']:,} files are missing"] if missing > 0 else []
        what = what or [f"holds {these}" for these in foreign_files(folder, mark)]
        return Verified(folder, kind, 0, tuple(Problem(folder, each) for each in what), unchecked=mark["count"])
    found = _Findings()
    for name in foreign_files(folder, mark):
        found.add(folder / name, "paredown did not write this")
    for name, noted in track(mark["files"].items(), "verifying", total=len(mark["files"])):
        file = folder / name
        if not (file.exists() or file.is_symlink()):
            found.files += 1
            found.add(file, "missing")
        elif "bytes" in noted and file.lstat().st_size != noted["bytes"]:
            found.files += 1
            found.add(file, f"has {file.lstat().st_size:,} bytes; {noted['bytes']:,} were written")
        else:
            found.compare(file, noted.get("sha256"))
    if table.exists() and not any(
        problem.path in (table, *score_files(table, partial=True)) for problem in found.problems
    ):
        found.problems += _verify_pages(table)
    return found.of(folder, kind)


def _verify_pages(table: Path) -> list[Problem]:
    return [problem for problem in _verify_table(table).problems if problem.path.suffix == ".parquet"]


def _verify_store(folder: Path, track: Track) -> Verified:
    record = read_record(folder / RECORD)
    kind = "store of embeddings"
    if record is None or "settings" not in record:
        return Verified(folder, kind, 0, (Problem(folder / RECORD, "the record is missing or damaged"),))
    found, rows = _Findings(), 0
    found.count_record(folder / RECORD)
    shards = sorted(folder.glob("[0-9]*.npy"))
    if "shards" in record:
        shards = [folder / f"{number:05d}.npy" for number in range(record["shards"])]
    digests: dict[str, str] = record.get("sha256", {})
    for shard in track(shards, "verifying shards", total=len(shards)):
        noted = read_shard(shard)
        if noted is None:
            found.files += 2
            found.add(shard, "missing, truncated, or without a readable table next to it")
            continue
        rows += noted["rows"]
        table = shard.with_suffix(".parquet")
        found.compare(shard, digests.get(shard.name, noted.get("sha256")))
        found.compare(table, digests.get(table.name))
    if (folder / STATE).exists():
        found.read(folder / STATE, partial(read_arrays, memory=None))
    if record.get("complete") and not found.problems and rows != record.get("examples"):
        found.add(folder, f"has {rows:,} embeddings; {record.get('examples'):,} were written")
    return found.of(folder, kind if record.get("complete") else f"unfinished {kind}")


def _verify_sweep(folder: Path, kind: str, track: Track) -> Verified:
    found = _Findings()
    runs = sorted((folder / "runs").glob("*.json"))
    data = sorted((folder / "data").glob("*/data.json"))
    for file in track([folder / "settings.json", *data, *runs], "verifying runs", total=len(runs) + len(data) + 1):
        record = read_record(file)
        if record is None or (file in runs and not {"run", "status"} <= set(record)):
            what = "missing" if not file.exists() else "the record is damaged"
            found.add(file, f"{what}; running the sweep again restores it")
        else:
            found.count_record(file)
    digests = {file.parent: (read_record(file) or {}).get("sha256", {}) for file in data}
    if (folder / DIGESTS).exists():
        digests[folder] = (read_record(folder / DIGESTS) or {}).get("sha256", {})
        found.files += 1
        if not digests[folder]:
            found.add(folder / DIGESTS, "the checksums are damaged; running the sweep again restores them")
    digested = {place / name: digest for place, noted in digests.items() for name, digest in noted.items()}
    for file, digest in digested.items():
        found.compare(file, digest, "changed since it was written; remove it and run the sweep again")
    others = {*folder.glob("scores/*.npy"), *folder.glob("*.parquet"), *folder.glob("runs/*.pt")}
    for file in sorted(others - digested.keys()):
        found.unchecked += 1
        if file.suffix == ".npy":
            found.read(file, partial(read_array, memory=None))
        elif file.suffix == ".parquet":
            found.problems += _verify_pages(file)
    return found.of(folder, kind)


def _verify_figures(folder: Path, kind: str, track: Track) -> Verified:
    """Figures with their records, the page that is made of these, and the parts that figures share."""
    from paredown.reproduce.results_page import SUMMARY, summary
    from paredown.reproduce.runner import FIGURES

    found, again = _Findings(), "running the same command again restores it"
    records = sorted(folder.glob("*.json"))
    for record in track([*records, *sorted(folder.glob("parts/jobs-*/*.json"))], "verifying figures"):
        noted = read_record(record)
        if noted is None:
            found.add(record, f"the record is damaged; {again}")
            continue
        found.count_record(record)
        for name, digest in noted.get("files", {}).items():
            found.compare(folder / name, digest, f"changed since it was written; {again}")
    page = folder / SUMMARY
    if page.exists() and not found.problems:
        found.files += 1
        if page.read_bytes() != summary(folder, FIGURES).encode():
            found.add(page, f"disagrees with the records; {again}")
    found.include(_verify_sweep(part, kind, track) for part in sorted(folder.glob("parts/sweep-*")))
    found.include(_verify_table(table) for table in sorted(folder.glob("parts/scores-*/scores.parquet")))
    return found.of(folder, kind)


def _verify_parts(folder: Path, kind: str, track: Track) -> Verified:
    parts = sorted(folder.rglob("*.npz"))
    found = _Findings(files=len(parts))
    for file in track(parts, "verifying parts", total=len(parts)):
        found.read(file, partial(read_arrays, memory=None))
    return found.of(folder, kind)


def _verify_score_tables(folder: Path, kind: str, track: Track) -> Verified:
    """Scores by ranges of rows: a record of the settings, a table for each range, and whether all are there."""
    found, again = _Findings(), "run the same command again"
    complete = beside_tables(folder, COMPLETE)
    for file in [beside_tables(folder, SCORES_SETTINGS), *([complete] if complete.exists() else [])]:
        if read_record(file) is None:
            found.add(file, f"the record is missing or damaged; {again}")
        else:
            found.count_record(file)
    tables = sorted(folder.glob("*.parquet"))
    for table in track(tables, "verifying tables", total=len(tables)):
        found.files += 1
        found.problems += _verify_pages(table)
    noted = (read_record(complete) or {}).get("tables")
    if noted is not None and type(noted) is not int:
        found.add(complete, f"the record is damaged; {again}")
    elif noted is not None and noted != len(tables):
        found.add(folder, f"has {len(tables):,} tables; {noted:,} were written. {again.capitalize()}")
    for model in folder.glob("*.npz"):
        found.files += 1
        found.read(model, read_model)
    return found.of(folder, kind if noted is not None else f"unfinished {kind}")


_GROWING: dict[str, Callable[[Path, str, Track], Verified]] = {
    "sweep": _verify_sweep,
    SCORES_FOLDER: _verify_score_tables,
    "set of figures": _verify_figures,
    "unfinished run": _verify_parts,
    "unfinished training": _verify_parts,
}
