"""A manifest that no process holds: a folder of Parquet shards, each written whole by whoever has its rows.

The folder grows. A shard in it is the mark that its rows are done: it carries the record of the manifest, and is made
again if that is another one.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from paredown.engines import Engine
from paredown.errors import PareError
from paredown.files import file_digest, write_whole
from paredown.places import arrow_input, as_place, is_remote, is_storage_error, storage_error
from paredown.progress import Track, silent
from paredown.score_table import open_table
from paredown.selection.rows_on_disk import RowsOnDisk
from paredown.selection.selection import Selection, write_manifest
from paredown.selection.streamed.streaming import select_streamed

_JOB_MEMORY = 2**29


class WrittenShard(NamedTuple):
    """What a worker tells of a shard."""

    name: str
    kept: int
    sha256: str


def write_shards(kept: Selection, folder: Path, engine: Engine, *, track: Track = silent) -> dict[str, str]:
    """Write the manifest of a streamed selection as the shards of a folder; their digests, by name.

    Shards that are there, of the same selection, are left as they are.
    """
    assert isinstance(kept.rows, RowsOnDisk)
    parts: Sequence[dict[str, Any]] = kept.rows.parts()
    common = {"rows": kept.rows.apart(), "schema": kept.written_schema(), "folder": str(folder)}
    outcomes = engine.run_jobs(f"{__name__}:write_shard", parts, common=common, memory=_JOB_MEMORY)
    shards: list[WrittenShard] = []
    failed: list[tuple[int, str]] = []
    for outcome in track(outcomes, "writing the manifest", total=len(parts)):
        if outcome.error is None:
            shards.append(outcome.value)
        else:
            failed.append((outcome.job, outcome.error))
    if failed:
        job, reason = min(failed)
        more = f" {len(failed) - 1} more shards failed, too." if len(failed) > 1 else ""
        raise PareError(f"{parts[job]['name']}: {reason}{more} Run the same command again to finish.")
    if sum(shard.kept for shard in shards) != len(kept):
        raise PareError(f"{kept.rows.path}: it changed while it was read; run again when it is complete.")
    return {shard.name: shard.sha256 for shard in sorted(shards)}


def write_shard(common: dict[str, Any], part: dict[str, Any]) -> WrittenShard:
    """What a worker does: write a shard, unless it is there."""
    folder, schema = as_place(common["folder"]), common["schema"]
    file, number = folder / f"{part['number']:06d}.parquet", sum(group.rows for group in part["groups"])
    kept = _kept_in(file, schema, number)
    if kept is None:
        with write_whole(file, output=folder) as growing:
            write_manifest(growing, schema, common["rows"].of(part).batches(schema.names))
        kept = _kept_in(file, schema, number)
        assert kept is not None
    return WrittenShard(file.name, kept, file_digest(file))


def _kept_in(file: Path, schema: pa.Schema, rows: int) -> int | None:
    """How many rows a shard keeps; None unless it is there, whole and of this manifest."""
    if not file.exists():
        return None
    try:
        with pq.ParquetFile(arrow_input(file), page_checksum_verification=True) as shard:
            if shard.schema_arrow.metadata != schema.metadata or shard.metadata.num_rows != rows:
                return None
            return sum(batch["keep"].true_count for batch in shard.iter_batches())  # all pages, by their checksums
    except (OSError, pa.ArrowException) as error:
        if is_storage_error(error):
            raise storage_error(file, error) from error
        return None


def take_shards(growing: Path, folder: Path, names: Iterable[str]) -> None:
    """Move finished shards, and nothing else, to where their manifest is put together, on this machine."""
    folder.mkdir()
    for name in names:
        if is_remote(growing):
            (folder / name).write_bytes((growing / name).read_bytes())
        else:
            shutil.move(growing / name, folder / name)


def read_from(kept: Selection, manifest: Path) -> Selection:
    """The same selection, its rows read from the manifest that was written of them."""
    assert isinstance(kept.rows, RowsOnDisk)
    table = open_table(manifest)
    return replace(kept, rows=kept.rows.in_manifest(table), again=partial(select_streamed, table))
