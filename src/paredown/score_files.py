"""Scores and manifests on disk: Parquet tables that carry their provenance, with a copy of it as JSON beside them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from paredown.columns import cluster_column, id_column, label_column
from paredown.errors import PareError, argument, located
from paredown.files import (
    check_output,
    file_digest,
    is_damaged,
    is_own,
    is_unfinished,
    locked,
    mark_of,
    mv,
    new_output,
)
from paredown.ids import natural_order
from paredown.places import StorageError, arrow_input, as_place, nothing_at
from paredown.provenance import sound_record
from paredown.reading import damaged, read_parquet
from paredown.records import json_values, read_record, write_record
from paredown.scores import Scores
from paredown.text import few
from paredown.version import __version__

# Pages carry checksums, which every reader of paredown verifies: a flipped bit is not taken for a score.
PARQUET_OPTIONS: dict[str, Any] = {"compression": "zstd", "write_page_checksum": True}
SCORES_FOLDER = "folder of scores"  # the kind of a folder that grows by a table for each range of rows
MANIFEST = "manifest.parquet"  # in a folder that `prune` wrote: a file, or a folder of shards
# What a folder of scores holds beside tables. pyarrow, and pandas with it, read all that is in a folder whose name does
# not begin with `_` or a dot.
COMPLETE, SCORES_SETTINGS = "_complete.json", "_settings.json"  # that all tables are there; what they were made with
_PROVENANCE_KEY = b"paredown"
_RESERVED = ("id", "label", "cluster", "keep")
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")  # row numbers that pandas writes along, which nobody asked for


# --- tables --------------------------------------------------------------------------------------------------------


def scores_table(*scores: Scores) -> pa.Table:
    """`id`, a column named by each metric, and `label` and `cluster` where there are any.

    Scores by several metrics are of the same examples in the same order; each keeps its own record.
    """
    first = scores[0]
    for each in scores:
        if each.metric in _RESERVED:
            raise PareError(f"scores cannot be called {each.metric!r}, which names another column; rename the metric.")
    columns, records = _columns(first, first.metric), {first.metric: first.provenance | {"metric": first.metric}}
    for other in scores[1:]:
        if other.metric in columns:
            raise PareError(f"two columns of scores would be called {other.metric!r}; give each metric once.")
        if len(other) != len(first) or np.any(other.ids != first.ids):
            raise PareError(
                f"scores by {first.metric} and by {other.metric} are for different examples, or in another order; "
                "write them to separate files."
            )
        columns |= {name: column for name, column in _columns(other, other.metric).items() if name not in columns}
        records[other.metric] = other.provenance | {"metric": other.metric}
    record = records[first.metric] if len(scores) == 1 else {"metrics": records}
    if "request" in first.provenance:
        record["request"] = first.provenance["request"]
    return pa.table(columns).replace_schema_metadata(provenance_metadata(record))


def manifest_table(scores: Scores, keep: NDArray[np.bool_]) -> pa.Table:
    """`id`, `keep`, `score`, and `label` and `cluster` where there are any; every example has a row."""
    columns = _columns(scores, "score")
    return pa.table({"id": columns["id"], "keep": pa.array(keep)} | columns)


def manifest_schema(id_type: pa.DataType, dtype: np.dtype[Any], *, label: bool, cluster: bool) -> pa.Schema:
    """The columns of a manifest of such ids and scores."""
    fields = [("id", id_type), ("keep", pa.bool_()), ("score", pa.from_numpy_dtype(dtype))]
    fields += [("label", pa.dictionary(pa.int32(), pa.string()))] if label else []
    return pa.schema(fields + ([("cluster", pa.int32())] if cluster else []))


def _columns(scores: Scores, score_name: str) -> dict[str, Any]:
    columns: dict[str, Any] = {"id": pa.array(scores.ids), score_name: pa.array(scores.values)}
    if scores.labels is not None:
        codes, names = scores.labels.codes.astype(np.int32), list(scores.labels.classes)
        columns["label"] = pa.DictionaryArray.from_arrays(pa.array(codes), pa.array(names, pa.string()))
    if scores.clusters is not None:
        columns["cluster"] = pa.array(scores.clusters.astype(np.int32))
    return columns


def provenance_metadata(provenance: dict[str, Any]) -> dict[bytes, bytes]:
    """A record as a table carries it in its Parquet metadata."""
    return {_PROVENANCE_KEY: json.dumps(provenance).encode()}


def provenance_of(schema: pa.Schema, column: str | None = None) -> dict[str, Any]:
    """The record a table carries, of one of its columns of scores if it has a record for each; empty if it has none."""
    record = sound_record(json.loads((schema.metadata or {}).get(_PROVENANCE_KEY, b"{}")))
    return dict(record.get("metrics", {}).get(column, record))


def provenance_in(path: Path) -> dict[str, Any]:
    """The whole record that a table carries."""
    with damaged(path, "table of scores"):
        return provenance_of(pq.read_schema(arrow_input(next(iter(score_files(path, partial=True)), path))))


def read_scores(path: str | Path, *, metric: str | None = None) -> Scores:
    """Scores from a Parquet file, or a folder of them, with `id` and score columns: paredown's own, or anyone's.

    A manifest is scores too. With several score columns, `metric` says which.
    """
    table = _read_table(as_place(path))
    return scores_in(table, pick_score_column(path, table.schema, metric), path)


def read_score_columns(path: str | Path) -> list[Scores]:
    """The scores in every score column of a table, which `read_scores` reads one of."""
    table = _read_table(as_place(path))
    columns = score_columns(table.schema)
    pick_score_column(path, table.schema, next(iter(columns), None))  # is it a table of scores?
    return [scores_in(table, column, path) for column in columns]


def scores_in(table: pa.Table, column: str, path: str | Path) -> Scores:
    """The scores in a column of a table that was read."""
    with damaged(path, "table of scores"):
        provenance = provenance_of(table.schema, column)
        values = table[column].to_numpy()
        values = values if values.dtype.kind == "f" else values.astype(np.float64)  # unsigned ones cannot be negated
        ids = id_column(table["id"], path)
        labels = label_column(table["label"], path, with_unused=True) if "label" in table.column_names else None
        clusters = cluster_column(table["cluster"], path) if "cluster" in table.column_names else None
        name = str(provenance.get("metric", column)) if column == "score" else column
    with located(path if len(score_columns(table.schema)) == 1 else f"{path}, column {column!r}"):
        return Scores(values, ids, name, labels, clusters, provenance)


def read_manifest(path: str | Path, *, metric: str | None = None) -> tuple[Scores, NDArray[np.bool_]]:
    """The scores in a manifest and which examples it keeps. `path` is the file, or the folder `prune` wrote.

    With several score columns, `metric` says which.
    """
    file = manifest_file(path)
    if file != as_place(path) and not file.exists():
        raise PareError(f"{path}: not an output of `paredown prune`; there is no manifest.parquet in it.")
    table = _read_table(file)
    if "keep" not in table.column_names:
        raise PareError(f"{file}: not a manifest; it has no 'keep' column. Make one with `paredown prune`.")
    keep = keep_column(table["keep"], file)
    return scores_in(table, pick_score_column(file, table.schema, metric), file), keep.to_numpy(zero_copy_only=False)


def keep_column(column: pa.ChunkedArray | pa.Array, path: str | Path) -> pa.ChunkedArray | pa.Array:
    """What a manifest keeps, checked to be true or false in every row."""
    if not pa.types.is_boolean(column.type) or column.null_count:
        raise PareError(f"{path}: not a manifest; its 'keep' column must be true or false in every row.")
    return column


def manifest_file(path: str | Path) -> Path:
    """The table of a manifest, a file or a folder of shards: itself, or the one in the folder that `prune` wrote."""
    path = as_place(path)
    return path / MANIFEST if path.is_dir() and path.name != MANIFEST else path


def is_manifest(path: str | Path) -> bool:
    """Whether a table of scores says which examples are kept."""
    file = manifest_file(path)
    with damaged(file, "Parquet file"):
        files = score_files(file, partial=True)
        return bool(files) and files[0].is_file() and "keep" in pq.read_schema(arrow_input(files[0])).names


def is_scores(path: str | Path) -> bool:
    """Whether a path is a table of scores or a manifest, a folder of such tables, or one that `prune` wrote.

    A table of scores is a Parquet file that paredown wrote, or any with an `id` and a number column and neither
    embeddings nor image paths.
    """
    files = score_files(path, partial=True)
    if not files or files[0].suffix != ".parquet" or not files[0].is_file():
        return False
    try:
        with damaged(files[0], "Parquet file"):
            schema = pq.read_schema(arrow_input(files[0]))
    except StorageError:
        raise
    except PareError:
        return False
    if _PROVENANCE_KEY in (schema.metadata or {}):
        return True
    has_list = any(pa.types.is_nested(field.type) for field in schema)
    has_text = any(pa.types.is_string(field.type) for field in schema if field.name not in _RESERVED)
    return "id" in schema.names and not has_list and not has_text and bool(score_columns(schema))


def score_files(path: str | Path, *, partial: bool = False) -> list[Path]:
    """The Parquet files behind a path: itself, those of the manifest in what `prune` wrote, or a folder's shards.

    Shards of a manifest that are gone are an error, unless those that are left will do (`partial`).
    """
    path = as_place(path)
    if not path.is_dir():
        return [path]
    manifest = path / MANIFEST
    if is_unfinished(path):
        raise PareError(f"{path}: this output is incomplete; run the command again that was writing it.")
    if _grows(path) and not is_complete(path):
        raise PareError(
            f"{path}: these scores are incomplete; run the same `paredown score` command again first, or `paredown "
            "merge` if they were made in shares."
        )
    if manifest.exists():
        return score_files(manifest, partial=partial)
    files = sorted(path.glob("*.parquet"), key=natural_order)
    if path.name == MANIFEST and not partial:
        _check_shards(path, files)
    return files


def _check_shards(manifest: Path, files: Sequence[Path]) -> None:
    """Raise if shards of a manifest are missing, by the JSON beside it: what is left would pass for all of it."""
    noted = (read_record(manifest.with_suffix(".json")) or {}).get("sha256")
    missing = sorted(noted.keys() - {file.name for file in files}) if isinstance(noted, dict) else []
    if missing:
        raise PareError(
            f"{manifest}: {few(missing)} {'is' if len(missing) == 1 else 'are'} missing; put the files back, or run "
            f"`paredown prune` again with {argument('overwrite', True)}."
        )


def _grows(folder: Path) -> bool:
    """Whether a folder is one of scores that grows, by its mark or, where a copy lost that, by its own records."""
    if (mark_of(folder) or {}).get("kind") == SCORES_FOLDER:
        return True
    begun, ended = (read_record(beside_tables(folder, name)) or {} for name in (SCORES_SETTINGS, COMPLETE))
    return "metric" in begun or ("request" in ended and "tables" in ended)


def is_complete(folder: Path) -> bool:
    """Whether all tables of a folder that grows are there, in their number."""
    record = read_record(beside_tables(folder, COMPLETE))
    return record is not None and record.get("tables") == len(list(folder.glob("*.parquet")))


def beside_tables(folder: Path, name: str) -> Path:
    """Where something else than a table is in a folder of scores; the first ones had it without the `_`."""
    earlier = folder / name.removeprefix("_")
    return earlier if earlier.exists() and not (folder / name).exists() else folder / name


def pick_score_column(path: str | Path, schema: pa.Schema, metric: str | None) -> str:
    """The column that holds the scores: the one named, or the only candidate."""
    twice = sorted({name for name in schema.names if schema.names.count(name) > 1})
    if twice:
        raise PareError(f"{path}: column {twice[0]!r} occurs more than once; rename all but one of them.")
    present = score_columns(schema)
    if "id" not in schema.names or not present:
        held = ", ".join(schema.names)
        raise PareError(f"{path}: not a table of scores; it needs an 'id' and a score column, it has {held}.")
    column = metric if metric in present else present[0] if metric is None and len(present) == 1 else None
    column = "score" if column is None and metric is None and "score" in present else column
    if column is None:
        raise PareError(
            f"{path}: which column holds the scores? It has {', '.join(present)}; choose one with "
            f"{argument('metric', ...)}."
        )
    return column


def score_columns(schema: pa.Schema) -> list[str]:
    """The names of the columns that can be scores."""
    return [
        field.name
        for field in schema
        if field.name not in _RESERVED
        and not _PANDAS_INDEX.fullmatch(field.name)
        and (pa.types.is_floating(field.type) or pa.types.is_integer(field.type))
    ]


def _read_table(path: Path) -> pa.Table:
    if not path.exists():
        raise nothing_at(path, "file")
    tables = [read_parquet(file, memory=None) for file in score_files(path)]
    if len(tables) == 1:
        return tables[0]
    with damaged(path, "table of scores", remedy="The files have different columns; all must have the same."):
        return pa.concat_tables(tables, promote_options="permissive")


def write_scores(
    scores: Scores | Sequence[Scores],
    path: str | Path,
    *,
    overwrite: bool = False,
    sources: Iterable[str | Path] = (),
) -> None:
    """Write scores as Parquet, a column for each metric, with their provenance inside and as JSON beside."""
    check_table_name(as_place(path))
    several = [scores] if isinstance(scores, Scores) else scores
    write_table(scores_table(*several), path, overwrite=overwrite, sources=sources)


def write_table(
    table: pa.Table, path: str | Path, *, overwrite: bool = False, sources: Iterable[str | Path] = ()
) -> None:
    """Write a table with its provenance, whole or not at all."""
    record = provenance_of(table.schema)
    with new_table(as_place(path), record, overwrite=overwrite, sources=sources) as part:
        pq.write_table(table, part, **PARQUET_OPTIONS)


@contextmanager
def new_table(
    path: Path, record: dict[str, Any], *, overwrite: bool = False, sources: Iterable[str | Path] = ()
) -> Iterator[Path]:
    """Give a temporary place for a table that carries `record`, which is written as JSON beside it.

    The JSON is a copy for people of what the table carries. An old one is removed before its table is replaced: a kill
    may leave a table without it, for the next run to write, but never with that of another table.
    """
    sidecar = path.with_suffix(".json")
    sources = tuple(sources)
    check_table_output(path, overwrite=overwrite, sources=sources)
    with locked(path):
        with new_output(path, overwrite=overwrite, sources=sources) as part:
            yield part
            check_table_output(path, overwrite=overwrite, sources=sources)
            if is_damaged(path):  # and only its JSON says that it is paredown's
                path.unlink()
            sidecar.unlink(missing_ok=True)
        write_sidecar(path, record)


def check_table_output(path: Path, *, overwrite: bool = False, sources: Iterable[str | Path] = ()) -> None:
    """Raise if a table or the JSON beside it could not be written, without writing anything."""
    sidecar = path.with_suffix(".json")
    beside = [] if _is_copy(sidecar, path) else [sidecar]
    check_output(path, overwrite=overwrite, sources=sources, beside=beside)
    if is_changed(path) and not is_damaged(path, contents=True):
        raise PareError(
            f"{path} was changed since paredown wrote it, by the digest in {sidecar.name}, and is never replaced; move "
            f"it away{mv(path)}, or choose another output."
        )


def is_changed(path: Path) -> bool:
    """Whether a table is another than the one that the JSON beside it was written with."""
    noted = (read_record(path.with_suffix(".json")) or {}).get("sha256")
    return noted is not None and path.is_file() and noted != file_digest(path)


def write_sidecar(path: Path, record: dict[str, Any]) -> None:
    """Write the JSON beside a table, unless it is there already."""
    content = {"paredown": __version__, "sha256": file_digest(path)} | record
    if read_record(path.with_suffix(".json")) != json_values(content):
        check_table_output(path, overwrite=True)
        # Without a digest of its own: it repeats what the table carries, and is compared with that.
        write_record(path.with_suffix(".json"), content, output=path, sealed=False)


def _is_copy(sidecar: Path, table: Path) -> bool:
    """Whether a JSON document repeats the record of a table, as those from before they had a mark do."""
    return is_own(table) and read_record(sidecar) == provenance_in(table)


def check_table_name(path: Path) -> None:
    """Raise unless a table's name ends in .parquet, by which it is known again."""
    if path.suffix != ".parquet":
        raise PareError(f"scores are written as Parquet; name the output {path.with_suffix('.parquet').name}.")
