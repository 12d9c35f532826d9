"""Artefacts on disk: scores and manifests as Parquet with their provenance, and writes that never leave half a file."""

from __future__ import annotations

import errno
import json
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from paredown.data import Labels, Scores, id_array
from paredown.errors import PareError

__all__ = [
    "check_output",
    "is_scores",
    "manifest_table",
    "new_output",
    "read_manifest",
    "read_scores",
    "score_columns",
    "scores_table",
    "write_json",
    "write_scores",
    "write_table",
]

_PROVENANCE_KEY = b"paredown"
_RESERVED = ("id", "label", "cluster", "keep")


# --- tables --------------------------------------------------------------------------------------------------------


def scores_table(scores: Scores) -> pa.Table:
    """`id`, one column named by the metric, and `label` and `cluster` where there are any."""
    return _with_provenance(_columns(scores, scores.metric), scores.provenance | {"metric": scores.metric})


def manifest_table(scores: Scores, keep: NDArray[np.bool_], provenance: dict[str, Any]) -> pa.Table:
    """`id`, `keep`, `score`, and `label` and `cluster` where there are any; every example has a row."""
    columns = _columns(scores, "score")
    columns = {"id": columns["id"], "keep": pa.array(keep)} | columns
    return _with_provenance(columns, provenance | {"metric": scores.metric})


def _columns(scores: Scores, score_name: str) -> dict[str, Any]:
    columns: dict[str, Any] = {"id": pa.array(scores.ids), score_name: pa.array(scores.values)}
    if scores.labels is not None:
        codes, names = scores.labels.codes.astype(np.int32), list(scores.labels.classes)
        columns["label"] = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names, pa.string()))
    if scores.clusters is not None:
        columns["cluster"] = pa.array(scores.clusters.astype(np.int32))
    return columns


def _with_provenance(columns: dict[str, Any], provenance: dict[str, Any]) -> pa.Table:
    return pa.table(columns).replace_schema_metadata({_PROVENANCE_KEY: json.dumps(provenance).encode()})


def _provenance(table: pa.Table) -> dict[str, Any]:
    return json.loads((table.schema.metadata or {}).get(_PROVENANCE_KEY, b"{}"))


def read_scores(path: str | Path, *, metric: str | None = None) -> Scores:
    """Scores from a Parquet file with `id` and score columns: one that paredown wrote, or anyone's.

    A manifest is scores too. With several score columns, `metric` says which.
    """
    table = _read_table(Path(path))
    present = score_columns(path)
    if "id" not in table.column_names or not present:
        held = ", ".join(table.column_names)
        raise PareError(f"{path}: not a table of scores; it needs an 'id' and a score column, it has {held}.")
    column = metric if metric in present else present[0] if metric is None and len(present) == 1 else None
    column = "score" if column is None and metric is None and "score" in present else column
    if column is None:
        raise PareError(f"{path}: which column holds the scores? It has {', '.join(present)}; name it with --metric.")
    provenance = _provenance(table)
    return Scores(
        values=table[column].to_numpy(),
        ids=id_array(table["id"].to_numpy()),
        metric=provenance.get("metric", column) if column == "score" else column,
        labels=_read_labels(table["label"]) if "label" in table.column_names else None,
        clusters=table["cluster"].to_numpy().astype(np.int64) if "cluster" in table.column_names else None,
        provenance=provenance,
    )


def read_manifest(path: str | Path) -> tuple[Scores, NDArray[np.bool_]]:
    """The scores in a manifest and which examples it keeps. `path` is the file, or the folder `prune` wrote."""
    file = Path(path) / "manifest.parquet" if Path(path).is_dir() else Path(path)
    table = _read_table(file)
    if "keep" not in table.column_names:
        raise PareError(f"{file}: not a manifest; it has no 'keep' column. Make one with `paredown prune`.")
    return read_scores(file), table["keep"].to_numpy()


def is_scores(path: str | Path) -> bool:
    """Whether a path is a table of scores or a manifest, or a folder that `prune` wrote.

    A table of scores is a Parquet file that paredown wrote, or any with an `id` and a number column and neither
    embeddings nor image paths.
    """
    file = Path(path) / "manifest.parquet" if Path(path).is_dir() else Path(path)
    if file.suffix != ".parquet" or not file.is_file():
        return False
    try:
        schema = pq.read_schema(file)
    except (pa.ArrowException, OSError):
        return False
    if _PROVENANCE_KEY in (schema.metadata or {}):
        return True
    has_list = any(pa.types.is_nested(field.type) for field in schema)
    has_text = any(pa.types.is_string(field.type) for field in schema if field.name not in _RESERVED)
    return "id" in schema.names and not has_list and not has_text and bool(score_columns(file))


def score_columns(path: str | Path) -> list[str]:
    """The names of the columns of a Parquet file that can be scores."""
    numbers = (pa.types.is_floating, pa.types.is_integer)
    schema = pq.read_schema(path)
    return [f.name for f in schema if f.name not in _RESERVED and any(is_number(f.type) for is_number in numbers)]


def _read_table(path: Path) -> pa.Table:
    if not path.exists():
        raise PareError(f"{path}: there is no such file.")
    try:
        return pq.read_table(path)
    except (pa.ArrowException, OSError) as error:
        raise PareError(f"{path}: not a readable Parquet file ({str(error).splitlines()[0]}).") from error


def _read_labels(column: pa.ChunkedArray) -> Labels:
    if not pa.types.is_dictionary(column.type):
        return Labels.of(column.to_numpy())
    column = column.unify_dictionaries().combine_chunks()
    names = column.dictionary.to_pylist()
    return Labels(column.indices.to_numpy().astype(np.int64), tuple(names))


def write_scores(scores: Scores, path: str | Path, *, overwrite: bool = False) -> None:
    """Write scores as Parquet, with their provenance inside and as JSON beside."""
    check_table_name(Path(path))
    write_table(scores_table(scores), path, overwrite=overwrite)


def write_table(table: pa.Table, path: str | Path, *, overwrite: bool = False) -> None:
    """Write a table with its provenance, whole or not at all."""
    with new_output(Path(path), overwrite=overwrite) as part:
        pq.write_table(table, part, compression="zstd")
    with new_output(Path(path).with_suffix(".json"), overwrite=True) as part:
        write_json(_provenance(table), part)


def check_table_name(path: Path) -> None:
    """Raise unless a table's name ends in .parquet, by which it is known again."""
    if path.suffix != ".parquet":
        raise PareError(f"scores are written as Parquet; name the output {path.name}.parquet.")


def write_json(value: Any, path: Path) -> None:
    """Write a JSON document for people and machines."""
    path.write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


# --- outputs that appear whole or not at all -----------------------------------------------------------------------


@contextmanager
def new_output(path: Path, *, overwrite: bool = False, folder: bool = False) -> Iterator[Path]:
    """Give a temporary place beside `path` to write to; it becomes `path` when the block ends without an error.

    An existing output is refused unless `overwrite`, and is then replaced only once the new one is complete.
    """
    check_output(path, overwrite=overwrite, folder=folder)
    with _clear_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        workspace = Path(tempfile.mkdtemp(prefix=f".{path.name}.", dir=path.parent))
        try:
            part = workspace / path.name
            if folder:
                part.mkdir()
            yield part
            _put_in_place(part, path, aside=workspace / "replaced")
        finally:
            shutil.rmtree(workspace, ignore_errors=True)


def check_output(path: Path, *, overwrite: bool = False, folder: bool = False) -> None:
    """Raise if `path` could not be written, without writing anything: called before long work."""
    if path.exists() and not overwrite:
        raise PareError(f"{path} exists already; choose another output, or replace it with --overwrite.")
    if path.exists() and path.is_dir() != folder:
        is_, needed = ("file", "folder") if folder else ("folder", "file")
        raise PareError(f"{path} is a {is_}, but a {needed} would be written there; choose another output.")
    parent = next(p for p in path.absolute().parents if p.exists())
    if not parent.is_dir():
        raise PareError(f"cannot write {path}: {parent} is not a folder; choose another output with -o.")
    if not os.access(parent, os.W_OK):
        raise PareError(f"cannot write {path}: {parent} is read-only; choose another output with -o.")


def _put_in_place(part: Path, path: Path, *, aside: Path) -> None:
    if part.is_dir() and path.exists():  # a folder cannot be renamed over another one
        os.rename(path, aside)
        try:
            os.rename(part, path)
        except OSError:
            os.rename(aside, path)
            raise
    else:
        os.replace(part, path)


_REASONS: dict[int, str] = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EACCES: "writing there is not permitted",
    errno.EPERM: "writing there is not permitted",
    errno.EROFS: "the file system is read-only",
    errno.ENOTDIR: "a part of the path is not a folder",
}


@contextmanager
def _clear_errors(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if isinstance(error, FileNotFoundError) or error.errno not in _REASONS:
            raise
        message = f"cannot write {path}: {_REASONS[error.errno]}; nothing was changed. Choose another output with -o."
        raise PareError(message) from error
