"""A store of embeddings on disk: shards that appear whole, and the record that says how they were made.

A store is a folder of `00000.npy`, `00001.npy`, ... with the ids and labels of the same rows in `00000.parquet`, ...,
and the record, `embed.json`, which comes first. A shard's `.npy` comes last and whole: the mark that the shard is done.
The table beside it carries a hash of the settings, so that a shard of another run is never taken for this one's, and a
digest of the `.npy`, by which `paredown verify` finds a flipped bit.

A store that replaces another one grows beside it under a hidden name, and takes its place when it is complete.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paredown.display import Introduced
from paredown.embeddings.encoders import Encoder
from paredown.embeddings.encoders.pipeline import Encoded, nothing_readable, unreadable
from paredown.errors import PareError, argument
from paredown.files import (
    MARK,
    TEMPORARY,
    check_output,
    claim_folder,
    clear_temporaries,
    exchange_folder,
    file_digest,
    is_own,
    locked,
    mark_of,
    write_whole,
)
from paredown.places import StorageError, arrow_input, as_place, is_remote, is_storage_error, storage_error
from paredown.reading import read_arrays, read_npy_header, stream_size
from paredown.records import Change, changes, digest, read_record, sealed_bytes, write_record
from paredown.score_files import PARQUET_OPTIONS
from paredown.sources import ImageSource, OnError, Skipped, Source, open_source
from paredown.sources.arrays import RECORD
from paredown.sources.base import FINGERPRINT
from paredown.version import __version__
from paredown.workers import work_ahead

T = TypeVar("T")

STATE = "encoder.npz"  # what an encoder that is fitted to the images has learnt
_KIND = "store of embeddings"
_AT_ONCE = 16  # shards in an object store that are looked at together
_SHARD_KEY = b"paredown.shard"
_SKIPPED_KEY = b"paredown.skipped"
_STORE_FILE = re.compile(rf"\d{{5,}}\.(npy|parquet)|{re.escape(RECORD)}|{re.escape(STATE)}|{re.escape(MARK)}")


@dataclass(frozen=True, repr=False)
class Store(Introduced):
    """A store of embeddings."""

    path: Path
    examples: int
    dim: int
    skipped: tuple[Skipped, ...]
    already: int  # examples in shards that an earlier run had finished
    provenance: dict[str, Any]
    complete: bool = True  # not after one share of the work; the numbers are then those of what is there

    def introduce(self) -> dict[str, str]:
        facts = {"path": str(self.path), "examples": f"{self.examples:,}", "dimensions": f"{self.dim:,}"}
        facts |= {"encoder": str(self.provenance.get("encoder"))}
        facts |= {"skipped": f"{len(self.skipped):,}"} if self.skipped else {}
        return facts if self.complete else facts | {"state": "unfinished"}

    def open(self) -> Source:
        """The embeddings, to be scored."""
        return open_source(self.path)


# --- settings ------------------------------------------------------------------------------------------------------


class StoreRecord(NamedTuple):
    """What the record of a store says."""

    settings: dict[str, Any]
    complete: bool
    state: dict[str, str]  # of the images, see `Source.state`
    encoder: str  # its summary
    identity: dict[str, Any] | None  # of the encoder, see `encoder_identity`
    warnings: tuple[str, ...]  # of the encoder


def read_store_record(folder: Path) -> StoreRecord | None:
    """What is noted of a store, finished or not; None where there is none. A folder of anything else is refused."""
    check_output(folder.with_name(f"{folder.name}.new"), folder=True)  # whether anything can be written there
    record = read_record(folder / RECORD)
    if record is None and (folder / RECORD).exists() and not is_own(folder):
        raise PareError(f"{folder / RECORD}: not a readable record of embeddings; choose another output.")
    if folder.exists():
        claim_store(folder)
    return look_at_store(folder)


def look_at_store(folder: Path) -> StoreRecord | None:
    """The record of a store, without a check of anything else; None where there is none, or a damaged one."""
    record = read_record(folder / RECORD)
    if record is None or not isinstance(record.get("settings"), dict):
        return None  # damaged: the shards say by themselves what they belong to
    return StoreRecord(
        record["settings"],
        bool(record.get("complete")),
        record.get("state", {}),
        str(record.get("encoder")),
        record.get("encoder_identity"),
        tuple(record.get("encoder_warnings", ())),
    )


def difference(before: StoreRecord, now: dict[str, Any]) -> Change | None:
    """The first setting that differs; those that a store of an earlier version did not note are not compared."""
    names = [name for name in now if name in before.settings]
    if not str(before.settings.get("source", "")).startswith(FINGERPRINT):
        names = [name for name in names if name != "source"]
    return next(iter(changes(before.settings, now, names=names)), None)


# --- writing -------------------------------------------------------------------------------------------------------


def claim_store(folder: Path) -> None:
    """Make a folder a store that is begun, or raise if it is anything else."""
    claim_folder(folder, _KIND, earlier=[RECORD])


def start_store(
    folder: Path, images: ImageSource, encoder: Encoder, settings: dict[str, Any], *, shared: bool = False
) -> dict[str, Any]:
    """Note how the store is made before any shard, and return the record.

    One that is `shared` with other runs keeps the record of whoever was first. In any other, what a killed run was
    writing is cleared away.
    """
    claim_store(folder)
    if not shared:
        clear_temporaries(folder)
    record = {
        "paredown": __version__,
        "complete": False,
        "encoder": encoder.summary,
        "settings": settings,
        "state": images.state(),
        "images": images.provenance(),
        "classes": [] if images.labels is None else list(images.labels.classes),
        "warnings": [*images.warnings, *encoder.warnings],
        "encoder_identity": encoder.identity,
        "encoder_warnings": list(encoder.warnings),
        "skipped": [list(item) for item in images.skipped],
    }
    if read_record(folder / RECORD) is None:
        replace = not shared or (folder / RECORD).exists()  # a damaged one
        with _first(folder / RECORD, replace=replace) as part:
            part.write_bytes(sealed_bytes(record))
    return record if not shared else read_record(folder / RECORD) or record


@contextmanager
def _first(file: Path, *, replace: bool) -> Iterator[Path]:
    """Write a file, whole; one that another run put there in the meantime stays, unless it is to be replaced."""
    try:
        with write_whole(file, replace=replace) as part:
            yield part
    except StorageError:
        raise
    except PareError:
        if replace or not file.exists():
            raise


def keep_state(folder: Path, encoder: Encoder, fitted_to: str) -> Path:
    """Write what an encoder has learnt, unless another run was first, and return the file, which all runs then take.

    So that several runs that share the work have the same encoder to the last bit, whatever machines they fitted it on.
    """
    file = folder / STATE
    for replace in (False, True):  # what is there may be of other images, from a run that did not get to its record
        with _first(file, replace=replace) as part, part.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **encoder.state, fitted_to=np.array(fitted_to))  # type: ignore[arg-type]
        if is_fitted_to(folder, fitted_to):
            break
    return file


def is_fitted_to(folder: Path, fitted_to: str) -> bool:
    """Whether what an encoder has learnt is in a store, and from these images."""
    try:
        return str(read_arrays(folder / STATE, memory=None).get("fitted_to")) == fitted_to
    except StorageError:
        raise
    except PareError:
        return False


def _shard(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.npy"


def missing_shards(
    folder: Path, numbers: Iterable[int], settings: dict[str, Any], *, before: StoreRecord | None = None
) -> list[int]:
    """Those of some shards that are not done: absent, damaged, or made under other settings.

    A complete store of an earlier version has shards that do not say their settings; its record speaks for them.
    """
    expected = digest(settings)
    vouched = before is not None and before.complete and not before.state

    def done(found: dict[str, Any] | None) -> bool:
        return found is not None and (found.get("settings") == expected or (vouched and "settings" not in found))

    numbers = list(numbers)
    shards = _each(read_shard, [_shard(folder, number) for number in numbers])
    return [number for number, found in zip(numbers, shards, strict=True) if not done(found)]


def _each(look: Callable[[Path], T], files: Sequence[Path]) -> Iterator[T]:
    """What is found in some files, in order; in an object store, several of them are asked for at once."""
    if not any(map(is_remote, files[:1])):
        return map(look, files)
    return work_ahead(look, files, workers=_AT_ONCE, ahead=_AT_ONCE)


def read_shard(file: Path) -> dict[str, Any] | None:
    """What the table beside a shard says of it: `rows`, `dim` and, if a version that noted them wrote it, `settings`,
    `sha256` and `skipped`. None if the shard is not there or not whole, or is a copy of another."""  # noqa: D205, D209
    try:
        table = pq.read_metadata(arrow_input(file.with_suffix(".parquet")))
        with file.open("rb") as stream:
            header = read_npy_header(stream, stream_size(stream))
        metadata = table.metadata or {}
        noted = json.loads(metadata.get(_SHARD_KEY, b"{}"))
        skipped = json.loads(metadata.get(_SKIPPED_KEY, b"[]"))
    except StorageError:
        raise
    except (PareError, pa.ArrowException, OSError, ValueError) as error:
        if is_storage_error(error):
            raise storage_error(file, error) from error
        return None
    if len(header.shape) != 2 or header.shape[0] != table.num_rows or noted.pop("shard", file.name) != file.name:
        return None
    return {"rows": table.num_rows, "dim": header.shape[1], "skipped": skipped} | noted


def write_shard(
    folder: Path, number: int, encoded: Encoded, images: ImageSource, kind: np.dtype[Any], settings: dict[str, Any]
) -> None:
    """Write the vectors of some images and their table.

    The vectors take their place last, as the mark that the shard is done.
    """
    ids = images.ids[encoded.readable]
    with np.errstate(over="ignore"):
        vectors = encoded.vectors.astype(kind)
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        too_large = np.isfinite(encoded.vectors[bad[0]]).all()
        what = (
            f"values too large for {kind}; use {argument('dtype', 'float32')}"
            if too_large
            else "NaN or infinite values"
        )
        raise PareError(f"{images.location}: the embedding of image {ids[bad[0]]} has {what}.")
    columns: dict[str, Any] = {"id": pa.array(ids)}
    if images.labels is not None:
        columns["label"] = pa.array(images.labels[encoded.readable].names.tolist(), pa.string())
    file = _shard(folder, number)
    with write_whole(file, output=folder) as part:
        with part.open("wb") as stream:
            np.save(stream, vectors)
        noted = {"shard": file.name, "settings": digest(settings), "sha256": file_digest(part)}
        noted |= {"skipped": encoded.skipped}
        table = pa.table(columns).replace_schema_metadata({_SHARD_KEY: json.dumps(noted).encode()})
        with write_whole(file.with_suffix(".parquet"), output=folder) as beside:
            pq.write_table(table, beside, **PARQUET_OPTIONS)


def shard_rows(settings: dict[str, Any]) -> list[range]:
    """The rows of every shard."""
    examples, size = settings["examples"], settings["shard_size"]
    return [range(first, min(first + size, examples)) for first in range(0, examples, size)]


def finish_store(
    folder: Path, record: dict[str, Any], *, location: str, on_error: OnError = "skip", already: int = 0
) -> Store:
    """Check that the shards belong together, and note that the store is complete and what it leaves out."""
    files = [_shard(folder, number) for number in range(len(shard_rows(record["settings"])))]
    found = list(_each(read_shard, files))
    whole = [shard for shard in found if shard is not None]
    if len(whole) < len(files):
        raise PareError(f"{files[found.index(None)]}: this shard is missing or damaged; run the same command again.")
    skipped = [Skipped(*item) for shard in whole for item in shard["skipped"]]
    examples = sum(shard["rows"] for shard in whole)
    if skipped and on_error == "raise":
        raise unreadable(location, skipped[0])
    if examples == 0:
        raise nothing_readable(location, record["settings"]["examples"])
    dims = {shard["dim"] for shard in whole}
    if len(dims) > 1:
        raise PareError(f"{folder}: the shards differ in dimension: {sorted(dims)}; remove it and embed again.")
    unopened = [Skipped(*item) for item in record["skipped"][: record["images"]["skipped"]]]  # such as damaged tars
    skipped = unopened + skipped
    dim = dims.pop()
    digests = {file.name: shard["sha256"] for file, shard in zip(files, whole, strict=True) if "sha256" in shard}
    tables = [file.with_suffix(".parquet") for file in files]
    digests |= {table.name: found for table, found in zip(tables, _each(file_digest, tables), strict=True)}
    record |= {"complete": True, "examples": examples, "dim": dim, "shards": len(files)}
    record |= {"skipped": [list(item) for item in skipped], "sha256": digests}
    write_record(folder / RECORD, record)
    return Store(folder, examples, dim, tuple(skipped), already, record)


def unfinished_store(folder: Path, record: dict[str, Any], *, already: int) -> Store:
    """A store to which other runs have yet to add their shards."""
    found = list(_each(read_shard, [_shard(folder, number) for number in range(len(shard_rows(record["settings"])))]))
    there = [shard for shard in found if shard is not None]
    skipped = tuple(Skipped(*item) for shard in there for item in shard["skipped"])
    dim = max((shard["dim"] for shard in there), default=0)
    return Store(folder, sum(shard["rows"] for shard in there), dim, skipped, already, record, complete=False)


def merge_store(folder: str | Path) -> Store:
    """End work that was done in shares: check that every shard is there, and complete the store."""
    folder = as_place(folder)
    with locked(folder):
        before, record = look_at_store(folder), read_record(folder / RECORD)
        if before is None or record is None:
            raise PareError(f"{folder}: no embeddings were begun there by `paredown embed --shard`.")
        numbers = range(len(shard_rows(before.settings)))
        missing = missing_shards(folder, numbers, before.settings, before=before)
        if missing:
            some = ", ".join(_shard(folder, number).name for number in missing[:3])
            raise PareError(
                f"{folder}: {len(missing):,} of {len(numbers):,} shards are missing, such as {some}; rerun the shares "
                "that did not finish."
            )
        clear_temporaries(folder)  # of killed shares: none is left to do
        return finish_store(folder, record, location=record["images"]["location"])


def is_store(folder: Path) -> bool:
    """Whether a folder is a store of embeddings, finished or not."""
    return (mark_of(folder) or {}).get("kind") == _KIND


# --- one store in place of another ---------------------------------------------------------------------------------


def replacement_of(home: Path) -> Path:
    """Where a store grows that shall take the place of the one at `home`."""
    return home.with_name(f".{home.name}.new")


def check_only_store(home: Path) -> None:
    """Raise if a folder that is to be replaced holds anything but a store."""
    foreign = [
        item.name
        for item in sorted(home.iterdir() if home.is_dir() else ())
        if not _STORE_FILE.fullmatch(item.name) and not TEMPORARY.fullmatch(item.name)
    ]
    if foreign:
        raise PareError(
            f"{home} contains files that paredown did not write ({', '.join(foreign[:3])}); move them away, "
            "or choose another output."
        )


def put_in_place(home: Path) -> None:
    """Put the finished replacement where the old store is, and remove that one."""
    check_only_store(home)
    exchange_folder(replacement_of(home), home)
