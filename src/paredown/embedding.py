"""The arrow from images to a store of embeddings on disk, shard by shard, that a killed run can be finished from.

A store is a folder of `00000.npy`, `00001.npy`, ... with the ids and labels of the same rows in `00000.parquet`, ...,
and `embed.json`, which says how they were made. A shard's `.npy` appears last and whole: it is the mark that
the shard is done.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import ArrayLike, DTypeLike

from paredown import __version__
from paredown.data import Labels
from paredown.encoders import Encoder, load_encoder
from paredown.encoders.pipeline import Encoded, default_workers, encode_images, prepared_images, unreadable
from paredown.errors import PareError
from paredown.io import check_output, new_output, write_json
from paredown.progress import Track, silent
from paredown.sources import ImageSource, OnError, Skipped, Source, open_source
from paredown.sources.arrays import RECORD

__all__ = ["Store", "embed"]

_STATE = "encoder.npz"  # what an encoder that is fitted to the images has learnt
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


def embed(
    source: str | Path | Source,
    *,
    out: str | Path,
    encoder: str | Encoder | Callable[..., Any] = "auto",
    dtype: DTypeLike = "float16",
    shard_size: int = 10_000,
    workers: int | None = None,
    weights: str | Path | None = None,
    image_size: int | None = None,
    runtime: Any = "auto",
    download: bool = False,
    labels: ArrayLike | Labels | None = None,
    ids: ArrayLike | None = None,
    seed: int = 0,
    on_error: OnError = "raise",
    overwrite: bool = False,
    track: Track = silent,
) -> Store:
    """Embed every image of a source into the folder `out`, which `score`, `prune` and `open_source` then take.

    The same call again finishes a run that was stopped, doing over at most the shard that was under way, and ends with
    the same bytes; on a finished store it does nothing. With other settings it is refused.

    Args:
        source: a folder of images, a list of paths, a Hugging Face dataset folder, WebDataset tars, or one opened.
        out: the folder to write.
        encoder, weights, image_size, runtime, download: see `paredown.encoders.load_encoder`.
        dtype: `float16` or `float32`.
        shard_size: images per shard.
        workers: threads that decode; by default one per core. They do not change the result.
        labels, ids: one per image, in place of the source's own.
        seed: decides which images `pixels` is fitted to.
        on_error: `raise` at the first unreadable image, or `skip` and list them.
        overwrite: throw away a store that was made with other settings.
        track: reports progress.
    """
    kind, folder = _checked_dtype(dtype), Path(out)
    if shard_size < 1:
        raise PareError(f"shard_size must be at least 1, got {shard_size}.")
    images = _images(source, labels=labels, ids=ids, on_error=on_error)
    workers = default_workers() if workers is None else workers
    before = _record(folder)
    known = {
        "source": images.fingerprint(),
        "examples": len(images),
        "ids": _digest(images),
        "dtype": kind.name,
        "shard_size": shard_size,
    }
    if overwrite and before and _difference(before["settings"], known):
        before = _throw_away(folder)
    _refuse_others(folder, before, known)

    loaded = load_encoder(
        encoder,
        source=images,
        seed=seed,
        on_error=on_error,
        workers=workers,
        weights=weights,
        image_size=image_size,
        runtime=runtime,
        download=download,
        saved=folder / _STATE,
        track=track,
    )
    settings = known | {"encoder": loaded.name, "batch_size": loaded.batch_size} | dict(loaded.settings)
    if overwrite and before and _difference(before["settings"], settings):
        before = _throw_away(folder)
    _refuse_others(folder, before, settings)

    record = _start(folder, images, loaded, settings)
    shards = [range(first, min(first + shard_size, len(images))) for first in range(0, len(images), shard_size)]
    missing = [number for number in range(len(shards)) if not _shard(folder, number).exists()]
    rows = (row for number in missing for row in shards[number])
    prepared = prepared_images(images, loaded.prepare, rows=rows, workers=workers)
    total = sum(len(shards[number]) for number in missing)
    tracked = track(prepared, f"embedding images ({loaded.name})", total=total)
    for number in missing:
        encoded = encode_images(tracked, len(shards[number]), loaded, source=images, on_error=on_error)
        _write_shard(folder, number, shards[number], encoded, images, kind)
    return _finish(folder, images, record, shards, already=len(images) - total, on_error=on_error)


# --- settings ------------------------------------------------------------------------------------------------------


def _checked_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.float16, np.float32):
        raise PareError(f"dtype must be 'float16' or 'float32', got {str(dtype)!r}.")
    return kind


def _images(source: Any, **options: Any) -> ImageSource:
    opened = open_source(source, **options)
    if not isinstance(opened, ImageSource):
        raise PareError(f"{opened.location}: these are embeddings already ({opened.kind}); score or prune them.")
    return opened


def _digest(images: ImageSource) -> str:
    """A hash of ids and labels, which the fingerprint of the files does not cover."""
    digest = hashlib.sha256()
    for name in images.ids.tolist():
        digest.update(f"{name}\0".encode())
    if images.labels is not None:
        digest.update(images.labels.codes.tobytes())
        digest.update("\0".join(images.labels.classes).encode())
    return digest.hexdigest()[:16]


def _record(folder: Path) -> dict[str, Any] | None:
    """What an earlier run noted, finished or not; None where there was none."""
    check_output(folder, overwrite=True, folder=True)
    file = folder / RECORD
    if file.exists():
        try:
            record = json.loads(file.read_text(encoding="utf-8"))
            return record if isinstance(record["settings"], dict) else None
        except (ValueError, KeyError, TypeError) as error:
            raise PareError(f"{file}: not a readable record of embeddings; remove {folder} to start anew.") from error
    if folder.exists() and any(not item.name.startswith(".") for item in folder.iterdir()):
        raise PareError(f"{folder} exists already and is not a store of embeddings; choose another output.")
    return None


def _difference(before: dict[str, Any], now: dict[str, Any]) -> str | None:
    """The first setting that differs, in words."""
    for name, value in now.items():
        value = json.loads(json.dumps(value))  # tuples are lists in a file
        if before.get(name) != value:
            return f"{name} was {before.get(name)!r} and is now {value!r}"
    return None


def _refuse_others(folder: Path, before: dict[str, Any] | None, now: dict[str, Any]) -> None:
    difference = None if before is None else _difference(before["settings"], now)
    if before is not None and difference:
        state = "finished" if before.get("complete") else "begun"
        raise PareError(
            f"{folder}: embedding was {state} with other settings: {difference}. Use the same settings, choose another "
            "output, or throw it away with --overwrite."
        )


def _throw_away(folder: Path) -> None:
    """Remove a store, its record last, so that what is left of it is never taken for something else."""
    for file in [*folder.glob("*.npy"), *folder.glob("*.parquet"), folder / _STATE, folder / RECORD]:
        file.unlink(missing_ok=True)


# --- the store -----------------------------------------------------------------------------------------------------


def _start(folder: Path, images: ImageSource, encoder: Encoder, settings: dict[str, Any]) -> dict[str, Any]:
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
        "warnings": list(encoder.warnings),
    }
    if not (folder / RECORD).exists():
        _write_record(folder, record)
    if encoder.state and not (folder / _STATE).exists():
        with new_output(folder / _STATE) as part, part.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **encoder.state)  # type: ignore[arg-type]
    return record


def _write_record(folder: Path, record: dict[str, Any]) -> None:
    with new_output(folder / RECORD, overwrite=True) as part:
        write_json(record, part)


def _shard(folder: Path, number: int) -> Path:
    return folder / f"{number:05d}.npy"


def _write_shard(
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


def _finish(
    folder: Path, images: ImageSource, record: dict[str, Any], shards: list[range], *, already: int, on_error: OnError
) -> Store:
    """Check that the shards belong together, and note that the store is complete and what it leaves out."""
    tables = [pq.read_metadata(_shard(folder, number).with_suffix(".parquet")) for number in range(len(shards))]
    skipped = [Skipped(*item) for table in tables for item in json.loads((table.metadata or {})[_SKIPPED_KEY])]
    examples = sum(table.num_rows for table in tables)
    if skipped and on_error == "raise":
        raise unreadable(images, skipped[0])
    if examples == 0:
        raise PareError(f"{images.location}: none of its {len(images)} images could be read.")
    dims = {np.load(_shard(folder, number), mmap_mode="r").shape[1] for number in range(len(shards))}
    if len(dims) > 1:
        raise PareError(f"{folder}: the shards differ in dimension: {sorted(dims)}; remove it and embed again.")
    skipped = images.skipped + skipped
    dim = dims.pop()
    record |= {"complete": True, "examples": examples, "dim": dim, "shards": len(shards)}
    record |= {"skipped": [list(item) for item in skipped]}
    _write_record(folder, record)
    return Store(folder, examples, dim, tuple(skipped), already, record)
