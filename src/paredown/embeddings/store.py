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
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

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
    write_whole,
)
from paredown.reading import read_npy_header
from paredown.records import Change, changes, digest, read_record, write_record
from paredown.score_files import PARQUET_OPTIONS
from paredown.sources import ImageSource, OnError, Skipped, Source, open_source
from paredown.sources.arrays import RECORD
from paredown.sources.base import FINGERPRINT
from paredown.version import __version__

STATE = "encoder.npz"  # what an encoder that is fitted to the images has learnt
_KIND = "store of embeddings"
_SHARD_KEY = b"paredown.shard"
_SKIPPED_KEY = b"paredown.skipped"
_STORE_FILE = re.compile(rf"\d{{5,}}\.(npy|parquet)|{re.escape(RECORD)}|{re.escape(STATE)}|{re.escape(MARK)}")


@dataclass(frozen=True)
class Store:
    """A finished store of embeddings."""

    path: Path
    examples: int
    dim: int
    skipped: tuple[Skipped, ...]
    already: int  # examples in shards that an earlier run had finished
    provenance: dict[str, Any]

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
        claim_folder(folder, _KIND, earlier=[RECORD])
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


def start_store(folder: Path, images: ImageSource, encoder: Encoder, settings: dict[str, Any]) -> dict[str, Any]:
    """Note how the store is made before anything else, and clear away what a killed run was writing."""
    claim_folder(folder, _KIND, earlier=[RECORD])
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
    }
    if read_record(folder / RECORD) is None:
        write_record(folder / RECORD, record)
    if encoder.state and not (folder / STATE).exists():
        with write_whole(folder / STATE) as part, part.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **encoder.state)  # type: ignore[arg-type]
    return record


def _shard(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.npy"


def missing_shards(folder: Path, shards: int, settings: dict[str, Any], *, before: StoreRecord | None) -> list[int]:
    """The numbers of the shards that are not done: absent, damaged, or made under other settings.

    A complete store of an earlier version has shards that do not say their settings; its record speaks for them.
    """
    expected = digest(settings)
    vouched = before is not None and before.complete and not before.state

    def done(number: int) -> bool:
        found = read_shard(_shard(folder, number))
        return found is not None and (found.get("settings") == expected or (vouched and "settings" not in found))

    return [number for number in range(shards) if not done(number)]


def read_shard(file: Path) -> dict[str, Any] | None:
    """What the table beside a shard says of it: `rows`, `dim` and, if a version that noted them wrote it, `settings`,
    `sha256` and `skipped`. None if the shard is not there or not whole."""  # noqa: D205, D209
    try:
        table = pq.read_metadata(file.with_suffix(".parquet"))
        with file.open("rb") as stream:
            header = read_npy_header(stream, file.stat().st_size)
        metadata = table.metadata or {}
        noted = json.loads(metadata.get(_SHARD_KEY, b"{}"))
        skipped = json.loads(metadata.get(_SKIPPED_KEY, b"[]"))
    except (PareError, pa.ArrowException, OSError, ValueError):
        return None
    if len(header.shape) != 2 or header.shape[0] != table.num_rows:
        return None
    return {"rows": table.num_rows, "dim": header.shape[1], "skipped": skipped} | noted


def write_shard(
    folder: Path,
    number: int,
    rows: range,
    encoded: Encoded,
    images: ImageSource,
    kind: np.dtype[Any],
    settings: dict[str, Any],
) -> None:
    """Write the vectors and their table; the vectors take their place last, as the mark that the shard is done."""
    at = slice(rows.start, rows.stop)
    ids = images.ids[at][encoded.readable]
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
        columns["label"] = pa.array(images.labels[at][encoded.readable].names.tolist(), pa.string())
    file = _shard(folder, number)
    with write_whole(file, output=folder) as part:
        with part.open("wb") as stream:
            np.save(stream, vectors)
        noted = {"settings": digest(settings), "sha256": file_digest(part), "skipped": encoded.skipped}
        table = pa.table(columns).replace_schema_metadata({_SHARD_KEY: json.dumps(noted).encode()})
        with write_whole(file.with_suffix(".parquet"), output=folder) as beside:
            pq.write_table(table, beside, **PARQUET_OPTIONS)


def finish_store(
    folder: Path, images: ImageSource, record: dict[str, Any], shards: int, *, already: int, on_error: OnError
) -> Store:
    """Check that the shards belong together, and note that the store is complete and what it leaves out."""
    files = [_shard(folder, number) for number in range(shards)]
    found = [read_shard(file) for file in files]
    whole = [shard for shard in found if shard is not None]
    if len(whole) < shards:
        missing = next(file for file, shard in zip(files, found, strict=True) if shard is None)
        raise PareError(f"{missing}: this shard is missing or damaged; run the same command again.")
    skipped = [Skipped(*item) for shard in whole for item in shard["skipped"]]
    examples = sum(shard["rows"] for shard in whole)
    if skipped and on_error == "raise":
        raise unreadable(images, skipped[0])
    if examples == 0:
        raise nothing_readable(images)
    dims = {shard["dim"] for shard in whole}
    if len(dims) > 1:
        raise PareError(f"{folder}: the shards differ in dimension: {sorted(dims)}; remove it and embed again.")
    skipped = images.skipped + skipped
    dim = dims.pop()
    digests = {file.name: shard["sha256"] for file, shard in zip(files, whole, strict=True) if "sha256" in shard}
    digests |= {table.name: file_digest(table) for table in (file.with_suffix(".parquet") for file in files)}
    record |= {"complete": True, "examples": examples, "dim": dim, "shards": shards}
    record |= {"skipped": [list(item) for item in skipped], "sha256": digests}
    write_record(folder / RECORD, record)
    return Store(folder, examples, dim, tuple(skipped), already, record)


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
