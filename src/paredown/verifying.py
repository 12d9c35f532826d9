"""Is everything on disk as it was written, and what did killed runs leave behind?

`verify` reads an output in full and compares it with the checksums and digests that were written with it; a flipped
bit, a missing file or a foreign one is a `Problem`. `clean` removes what is left under paredown's own temporary names,
and nothing else.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

from paredown.embeddings.store import STATE, read_shard, replacement_of
from paredown.errors import PareError
from paredown.files import (
    LOCK_SUFFIX,
    MARK,
    TEMPORARY,
    file_digest,
    file_mark,
    foreign_files,
    is_busy,
    is_file_mark,
    lock_file,
    lock_is_held,
    locked,
    mark_of,
    parts_folder,
    remove_folder,
)
from paredown.output_kinds import Output, find_output
from paredown.progress import Track, silent
from paredown.reading import check_rows, damaged, read_array, read_arrays, reading
from paredown.recorder.storage import read_recording
from paredown.records import DIGESTS, is_intact, json_values, read_record
from paredown.score_files import provenance_in
from paredown.scoring.saved_models import read_model
from paredown.sources.arrays import RECORD


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


def verify(path: str | Path, *, track: Track = silent) -> Verified:
    """Read an output in full and compare it with the checksums and digests that were written with it.

    Args:
        path: a store, scores, a manifest, the folder of `prune`, an export, a model, a recording, a sweep, or figures.
        track: reports progress.

    Raises:
        PareError: if there is nothing, or nothing that paredown wrote.
    """
    path = Path(path)
    if not path.exists():
        raise PareError(f"{path}: there is no such file or folder.")
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
    if path.is_dir():
        return _verify_folder(path, found.mark, track)
    return _verify_table(found.path) if found.kind == "table" else _verify_file(found)


# --- files ---------------------------------------------------------------------------------------------------------


def _verify_table(path: Path) -> Verified:
    """Every page of a table against its checksum, and the table against the digest in the JSON beside it."""
    problems: list[Problem] = []
    try:
        with reading(path, "Parquet file"), pq.ParquetFile(path, page_checksum_verification=True) as file:
            check_rows(file, path)
            for batch in file.iter_batches():
                batch.validate(full=True)
            kind = "manifest" if "keep" in file.schema_arrow.names else "scores"
        record = provenance_in(path)
    except PareError as error:
        return Verified(path, "table", 1, (Problem(path, _without_path(error, path)),))
    sidecar = path.with_suffix(".json")
    beside = read_record(sidecar)
    if beside is None:
        what = "missing" if not sidecar.exists() else "damaged"
        problems.append(Problem(sidecar, f"the copy of the record is {what}; the table contains it as well"))
        return Verified(path, kind, 1, tuple(problems), unchecked=0)
    if "sha256" in beside and beside["sha256"] != file_digest(path):
        problems.append(
            Problem(path, "changed since it was written: its checksum is not the one in the JSON file next to it")
        )
    expected = json_values(record)
    if any(beside.get(name) != value for name, value in expected.items()):
        problems.append(Problem(sidecar, "disagrees with the record in the table"))
    return Verified(path, kind, 2, tuple(problems))


def _verify_file(output: Output) -> Verified:
    """A model, recording or encoder; or a file whose digest, compared already, is in the mark beside it."""
    if output.kind not in _READERS:
        return Verified(output.path, output.kind, 1, (), int("sha256" not in output.mark))
    return Verified(output.path, output.kind, 1, tuple(_unless_readable(output.path, _READERS[output.kind])))


_READERS: dict[str, Callable[[Path], Any]] = {"model": read_model, "recording": read_recording}


# --- folders -------------------------------------------------------------------------------------------------------


def _verify_folder(folder: Path, mark: dict[str, Any], track: Track) -> Verified:
    """The output of `prune` or `export`: every file against its size and digest in the mark."""
    kind = "manifest" if (folder / "manifest.parquet").exists() else "export"
    if "count" in mark:
        missing = mark["count"] + 1 - sum(1 for _ in _files_in(folder))
        found = [f"{missing:,} of its {mark['count']:,} files are missing"] if missing > 0 else []
        found = found or [f"holds {what}" for what in foreign_files(folder, mark)]
        return Verified(folder, kind, 0, tuple(Problem(folder, what) for what in found), unchecked=mark["count"])
    problems = [Problem(folder / name, "paredown did not write this") for name in foreign_files(folder, mark)]
    unchecked = 0
    for name, noted in track(mark["files"].items(), "verifying", total=len(mark["files"])):
        file = folder / name
        if not (file.exists() or file.is_symlink()):
            problems.append(Problem(file, "missing"))
        elif "bytes" in noted and file.lstat().st_size != noted["bytes"]:
            problems.append(Problem(file, f"has {file.lstat().st_size:,} bytes; {noted['bytes']:,} were written"))
        elif "sha256" not in noted:
            unchecked += 1
        elif file_digest(file) != noted["sha256"]:
            problems.append(Problem(file, "changed since it was written: its checksum differs"))
    table = folder / "manifest.parquet"
    if table.exists() and not any(problem.path == table for problem in problems):
        problems += _verify_pages(table)
    return Verified(folder, kind, len(mark["files"]) - unchecked, tuple(problems), unchecked)


def _verify_pages(table: Path) -> list[Problem]:
    return [problem for problem in _verify_table(table).problems if problem.path == table]


def _verify_store(folder: Path, track: Track) -> Verified:
    record = read_record(folder / RECORD)
    kind = "store of embeddings"
    if record is None or "settings" not in record:
        return Verified(folder, kind, 0, (Problem(folder / RECORD, "the record is missing or damaged"),))
    if not record.get("complete"):
        kind = "unfinished store of embeddings"
    problems: list[Problem] = []
    shards = sorted(folder.glob("[0-9]*.npy")) if "shards" not in record else _shards(folder, record["shards"])
    digests: dict[str, str] = record.get("sha256", {})
    rows, unchecked = 0, 0 if _has_digest(folder / RECORD) else 1
    for shard in track(shards, "verifying shards", total=len(shards)):
        noted = read_shard(shard)
        if noted is None:
            problems.append(Problem(shard, "missing, truncated, or without a readable table next to it"))
            continue
        rows += noted["rows"]
        for file, expected in ((shard, digests.get(shard.name, noted.get("sha256"))), (_table_of(shard), None)):
            expected = digests.get(file.name, expected)
            if expected is None:
                unchecked += 1
            elif file_digest(file) != expected:
                problems.append(Problem(file, "changed since it was written: its checksum differs"))
    if (folder / STATE).exists():
        problems += _unless_readable(folder / STATE, lambda file: read_arrays(file, memory=None))
    if record.get("complete") and not problems and rows != record.get("examples"):
        problems.append(Problem(folder, f"has {rows:,} embeddings; {record.get('examples'):,} were written"))
    return Verified(folder, kind, 2 * len(shards) + 1 - unchecked, tuple(problems), unchecked)


def _shards(folder: Path, number: int) -> list[Path]:
    return [folder / f"{shard:05d}.npy" for shard in range(number)]


def _table_of(shard: Path) -> Path:
    return shard.with_suffix(".parquet")


def _has_digest(record: Path) -> bool:
    """Whether a record, which could be read, ends with a digest; earlier versions wrote none."""
    return is_intact(record.read_bytes()) is not None


def _verify_sweep(folder: Path, kind: str, track: Track) -> Verified:
    problems: list[Problem] = []
    compared = unchecked = 0
    runs = sorted((folder / "runs").glob("*.json"))
    data = sorted((folder / "data").glob("*/data.json"))
    for file in track([folder / "settings.json", *data, *runs], "verifying runs", total=len(runs) + len(data) + 1):
        record = read_record(file)
        if record is None or (file in runs and not {"run", "status"} <= set(record)):
            what = "missing" if not file.exists() else "the record is damaged"
            problems.append(Problem(file, f"{what}; running the sweep again restores it"))
        elif _has_digest(file):
            compared += 1
        else:
            unchecked += 1
    noted = [(file.parent, read_record(file)) for file in data]
    if (folder / DIGESTS).exists():
        noted.append((folder, read_record(folder / DIGESTS)))
        compared += 1
        if not (noted[-1][1] or {}).get("sha256"):
            problems.append(
                Problem(folder / DIGESTS, "the checksums are damaged; running the sweep again restores them")
            )
    for place, record in noted:
        for name, expected in (record or {}).get("sha256", {}).items():
            compared += 1
            if not (place / name).exists() or file_digest(place / name) != expected:
                problems.append(
                    Problem(place / name, "changed since it was written; remove it and run the sweep again")
                )
    digested = {place / name for place, record in noted for name in (record or {}).get("sha256", {})}
    for file in sorted({*folder.glob("scores/*.npy"), *folder.glob("*.parquet"), *folder.glob("runs/*.pt")} - digested):
        unchecked += 1
        if file.suffix == ".npy":
            problems += _unless_readable(file, lambda file: read_array(file, memory=None))
        elif file.suffix == ".parquet":
            problems += _verify_pages(file)
    return Verified(folder, kind, compared, tuple(problems), unchecked)


def _verify_figures(folder: Path, kind: str, track: Track) -> Verified:
    """Figures with their records, the page that is made of these, and the parts that figures share."""
    from paredown.reproduce.results_page import SUMMARY, summary
    from paredown.reproduce.runner import FIGURES

    problems: list[Problem] = []
    files = unchecked = 0
    records = sorted(folder.glob("*.json"))
    for record in track([*records, *sorted(folder.glob("parts/jobs-*/*.json"))], "verifying figures"):
        noted = read_record(record)
        if noted is None:
            problems.append(Problem(record, "the record is damaged; running the same command again restores it"))
            continue
        files, unchecked = (files + 1, unchecked) if _has_digest(record) else (files, unchecked + 1)
        for name, expected in noted.get("files", {}).items():
            files += 1
            file = folder / name
            if not file.exists() or file_digest(file) != expected:
                problems.append(
                    Problem(file, "changed since it was written; running the same command again restores it")
                )
    page = folder / SUMMARY
    if page.exists() and not problems:
        files += 1
        if page.read_bytes() != summary(folder, list(FIGURES)).encode():
            problems.append(Problem(page, "disagrees with the records; running the same command again restores it"))
    parts = [_verify_sweep(part, kind, track) for part in sorted(folder.glob("parts/sweep-*"))]
    parts += [_verify_table(table) for table in sorted(folder.glob("parts/scores-*/scores.parquet"))]
    problems += [problem for part in parts for problem in part.problems]
    files += sum(part.files for part in parts)
    unchecked += sum(part.unchecked for part in parts)
    return Verified(folder, kind, files, tuple(problems), unchecked)


def _verify_parts(folder: Path, kind: str, track: Track) -> Verified:
    parts = sorted(folder.rglob("*.npz"))
    problems: list[Problem] = []
    for file in track(parts, "verifying parts", total=len(parts)):
        problems += _unless_readable(file, lambda file: read_arrays(file, memory=None))
    return Verified(folder, kind, len(parts), tuple(problems))


_GROWING: dict[str, Callable[[Path, str, Track], Verified]] = {
    "sweep": _verify_sweep,
    "set of figures": _verify_figures,
    "unfinished run": _verify_parts,
    "unfinished training": _verify_parts,
}


def _unless_readable(file: Path, read: Callable[[Path], Any]) -> list[Problem]:
    try:
        with damaged(file, "file"):
            read(file)
    except PareError as error:
        return [Problem(file, _without_path(error, file))]
    return []


def _without_path(error: PareError, path: Path) -> str:
    return str(error).removeprefix(f"{path}: ")


def _files_in(folder: Path) -> Iterator[Path]:
    return (file for file in folder.rglob("*") if not file.is_dir() or file.is_symlink())


# --- leftovers -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Leftover:
    """Something that a killed run left behind."""

    path: Path
    what: str
    resumable: bool  # the same command would go on from it
    removed: bool


def clean(path: str | Path, *, unfinished: bool = False, dry_run: bool = False) -> list[Leftover]:
    """Remove what killed runs left in a folder, or of one output, under paredown's own names; say what.

    What belongs to a run that is alive is left alone. Finished parts, from which the same command would go on, are
    listed, and removed only if `unfinished`.

    Args:
        path: an output, which need not exist, or a folder that outputs are in.
        unfinished: also remove the finished parts of runs that were interrupted.
        dry_run: only say what would be removed.
    """
    path = Path(path)
    inside = path.is_dir()
    if not inside and not path.parent.is_dir():
        raise PareError(f"{path}: there is no such file or folder.")
    names = (path.name,) if path.name not in ("", "..") else ()
    found = list(_leftovers(path.parent, names)) if names else []
    if inside:
        for root, folders, _ in os.walk(path):
            here = Path(root)
            folders[:] = [] if is_busy(here) else sorted(name for name in folders if not TEMPORARY.fullmatch(name))
            found += [] if is_busy(here) else list(_leftovers(here, None))
    leftovers = []
    for entry, what, resumable in dict.fromkeys(found):
        remove = (unfinished or not resumable) and not dry_run
        if remove:
            _remove(entry)
        leftovers.append(Leftover(entry, what, resumable, remove and not entry.exists()))
    if not leftovers and not path.exists():
        raise PareError(f"{path}: there is no such file or folder, and no leftovers of it.")
    return leftovers


def _leftovers(folder: Path, names: tuple[str, ...] | None) -> Iterator[tuple[Path, str, bool]]:
    """What is left in a folder, of outputs of these names or of any: its path, what it is, whether a run can go on."""
    for entry in sorted(folder.iterdir()):
        name = _output_of(entry)
        if name is None or (names is not None and name not in names):
            continue
        output = folder / name
        if lock_is_held(lock_file(output)):
            continue
        if TEMPORARY.fullmatch(entry.name):
            yield entry, "half-written", False
        elif entry.name.endswith(LOCK_SUFFIX) and entry.is_file() and not entry.is_symlink():
            yield entry, "the lock of a run that has ended", False
        elif entry == file_mark(output) and not output.exists() and is_file_mark(entry):
            yield entry, "the mark of a file that is gone", False
        elif entry == parts_folder(output) and (mark_of(entry) or {}).get("kind") == "unfinished run":
            yield entry, "finished parts of an interrupted run", True
        elif entry == replacement_of(output) and (entry / RECORD).exists():
            yield entry, "a store that was to replace another", True


def _output_of(entry: Path) -> str | None:
    """The name of the output that a hidden entry belongs to, by its name."""
    if not entry.name.startswith(".") or entry.name == MARK:
        return None
    if TEMPORARY.fullmatch(entry.name):
        return entry.name[1:].rsplit(".", 2)[0]
    for suffix in (LOCK_SUFFIX, MARK, ".parts", ".new"):
        if entry.name.endswith(suffix):
            return entry.name[1:].removesuffix(suffix)
    return None


def _remove(entry: Path) -> None:
    name = _output_of(entry)
    assert name is not None
    if TEMPORARY.fullmatch(entry.name) or entry.name.endswith(LOCK_SUFFIX):
        with locked(entry.with_name(name)):  # clears away what is half-written, or finishes an exchange
            pass
    elif entry.is_dir():
        remove_folder(entry)
    else:
        entry.unlink(missing_ok=True)
