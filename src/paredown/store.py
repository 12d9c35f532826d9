"""A store of embeddings on disk: shards that appear whole, and the record that says how they were made.

A store is a folder of `00000.npy`, `00001.npy`, ... with the ids and labels of the same rows in `00000.parquet`, ...,
and the record, `embed.json`, which comes first. A shard's `.npy` comes last and whole: the mark that the shard is done.

A store that replaces another one grows beside it under a hidden name, and takes its place when it is complete.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from paredown import __version__
from paredown.encoders import Encoder
from paredown.encoders.pipeline import Encoded, unreadable
from paredown.errors import PareError
from paredown.io import check_output, new_output, write_json
from paredown.sources import ImageSource, OnError, Skipped, Source, open_source
from paredown.sources.arrays import RECORD

__all__ = [
    "STATE",
    "Noted",
    "Store",
    "difference",
    "finish_store",
    "missing_shards",
    "put_in_place",
    "read_noted",
    "replacement_of",
    "restore",
    "start_store",
    "write_shard",
]

STATE = "encoder.npz"  # what an encoder that is fitted to the images has learnt
_SKIPPED_KEY = b"paredown.skipped"


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


class Noted(NamedTuple):
    """What an earlier run noted of a store."""

    settings: dict[str, Any]
    complete: bool


def read_noted(folder: Path) -> Noted | None:
    """What is noted of a store, finished or not; None where there is none. A folder of anything else is refused."""
    check_output(folder, overwrite=True, folder=True)
    file = folder / RECORD
    if file.exists():
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
            return Noted(dict(record["settings"]), bool(record["complete"]))
        except (ValueError, KeyError, TypeError) as error:
            raise PareError(f"{file}: not a readable record of embeddings; remove {folder} to start anew.") from error
    if folder.exists() and any(not item.name.startswith(".") for item in folder.iterdir()):
        raise PareError(f"{folder} exists already and is not a store of embeddings; choose another output.")
    return None


def difference(before: Noted, now: dict[str, Any]) -> str | None:
    """The first setting that differs, in words."""
    for name, value in now.items():
        value, was = json.loads(json.dumps(value)), before.settings.get(name)  # tuples are lists in a file
        if was != value:
            return f"{name} was {was!r} and is now {value!r}"
    return None


# --- writing -------------------------------------------------------------------------------------------------------


def start_store(folder: Path, images: ImageSource, encoder: Encoder, settings: dict[str, Any]) -> dict[str, Any]:
    """Note how the store is made before anything else, and clear away what a killed run was writing."""
    for leftover in folder.glob(".*") if folder.exists() else ():
        shutil.rmtree(leftover, ignore_errors=True)
    record = {
        "paredown": __version__,
        "complete": False,
        "encoder": encoder.summary,
        "settings": settings,
        "images": images.provenance(),
        "classes": [] if images.labels is None else list(images.labels.classes),
        "warnings": [*images.warnings, *encoder.warnings],
    }
    if not (folder / RECORD).exists():
        _write_record(folder, record)
    if encoder.state and not (folder / STATE).exists():
        with new_output(folder / STATE) as part, part.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **encoder.state)  # type: ignore[arg-type]
    return record


def _write_record(folder: Path, record: dict[str, Any]) -> None:
    with new_output(folder / RECORD, overwrite=True) as part:
        write_json(record, part)


def _shard(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.npy"


def missing_shards(folder: Path, shards: int) -> list[int]:
    """The numbers of the shards that are not done."""
    return [number for number in range(shards) if not _shard(folder, number).exists()]


def write_shard(
    folder: Path, number: int, rows: range, encoded: Encoded, images: ImageSource, kind: np.dtype[Any]
) -> None:
    """Write the table and then the vectors, whose file is the mark that the shard is done."""
    at = slice(rows.start, rows.stop)
    ids = images.ids[at][encoded.readable]
    with np.errstate(over="ignore"):
        vectors = encoded.vectors.astype(kind)
    bad = np.flatnonzero(~np.isfinite(vectors).all(axis=1))
    if len(bad):
        too_large = np.isfinite(encoded.vectors[bad[0]]).all()
        what = f"values too large for {kind}; use --dtype float32" if too_large else "NaN or infinite values"
        raise PareError(f"{images.location}: the embedding of image {ids[bad[0]]} has {what}.")
    columns: dict[str, Any] = {"id": pa.array(ids)}
    if images.labels is not None:
        columns["label"] = pa.array(images.labels[at][encoded.readable].names.tolist(), pa.string())
    table = pa.table(columns).replace_schema_metadata({_SKIPPED_KEY: json.dumps(encoded.skipped).encode()})
    with new_output(_shard(folder, number).with_suffix(".parquet"), overwrite=True) as part:
        pq.write_table(table, part, compression="zstd")
    with new_output(_shard(folder, number)) as part, part.open("wb") as stream:
        np.save(stream, vectors)


def finish_store(
    folder: Path, images: ImageSource, record: dict[str, Any], shards: int, *, already: int, on_error: OnError
) -> Store:
    """Check that the shards belong together, and note that the store is complete and what it leaves out."""
    tables = [pq.read_metadata(_shard(folder, number).with_suffix(".parquet")) for number in range(shards)]
    skipped = [Skipped(*item) for table in tables for item in json.loads((table.metadata or {})[_SKIPPED_KEY])]
    examples = sum(table.num_rows for table in tables)
    if skipped and on_error == "raise":
        raise unreadable(images, skipped[0])
    if examples == 0:
        raise PareError(f"{images.location}: none of its {len(images)} images could be read.")
    dims = {np.load(_shard(folder, number), mmap_mode="r").shape[1] for number in range(shards)}
    if len(dims) > 1:
        raise PareError(f"{folder}: the shards differ in dimension: {sorted(dims)}; remove it and embed again.")
    skipped = images.skipped + skipped
    dim = dims.pop()
    record |= {"complete": True, "examples": examples, "dim": dim, "shards": shards}
    record |= {"skipped": [list(item) for item in skipped]}
    _write_record(folder, record)
    return Store(folder, examples, dim, tuple(skipped), already, record)


# --- one store in place of another ---------------------------------------------------------------------------------


def replacement_of(home: Path) -> Path:
    """Where a store grows that shall take the place of the one at `home`."""
    return home.with_name(f".{home.name}.new")


def _replaced(home: Path) -> Path:
    return home.with_name(f".{home.name}.old")


def put_in_place(home: Path) -> None:
    """Put the finished replacement where the old store is, and remove that one.

    A folder cannot be renamed over another one; `restore` mends what a kill between the two renames leaves.
    """
    if home.exists():
        os.rename(home, _replaced(home))
    os.rename(replacement_of(home), home)
    shutil.rmtree(_replaced(home), ignore_errors=True)


def restore(home: Path) -> None:
    """Finish an exchange of stores that was killed half-way: the new one had been complete by then."""
    if not _replaced(home).exists():
        return
    if not home.exists():
        os.rename(replacement_of(home) if replacement_of(home).exists() else _replaced(home), home)
    shutil.rmtree(_replaced(home), ignore_errors=True)
