"""Where examples come from: one `open_source` for arrays, tables, image folders, datasets and tars."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from numpy.typing import ArrayLike

from paredown.errors import PareError, argument, check_known, near_name
from paredown.places import as_place, is_path, is_remote, nothing_at
from paredown.reading import MEMORY, check_name, damaged
from paredown.scores import Labels
from paredown.sources.arrays import ArraySource, NpySource, load_column
from paredown.sources.base import ImageSource, OnError, Options, Skipped, Source, VectorSource
from paredown.sources.source_formats import FORMATS, SourceFormat, find_format
from paredown.sources.standard_datasets import DATASETS, ArrayImages, named_dataset, open_dataset
from paredown.units import parse_size

__all__ = [
    "DATASETS",
    "FORMATS",
    "ArrayImages",
    "ArraySource",
    "ImageSource",
    "NpySource",
    "OnError",
    "Options",
    "Skipped",
    "Source",
    "SourceFormat",
    "VectorSource",
    "load_column",
    "named_dataset",
    "open_source",
]

COLUMN_ROLES = ("id", "label", "embedding", "path", "image")


def open_source(
    data: str | Path | ArrayLike | Source,
    *,
    ids: ArrayLike | None = None,
    labels: ArrayLike | Labels | None = None,
    columns: Mapping[str, str] | None = None,
    split: str | None = None,
    on_error: OnError = "raise",
    memory: str | float | None = MEMORY,
) -> Source:
    """Open examples wherever they are: an array, a file or a folder; the format is detected automatically.

    Args:
        data: a (rows, dimensions) array; an `.npy`, `.npz`, `.parquet`, `.csv` or `.tar` file; or a folder of `.npy`
            shards, Parquet files, tars, images, or one written by Hugging Face's `save_to_disk`. `NAME:FOLDER` is a
            standard data set, such as `cifar10:FOLDER` or `fashion_mnist:FOLDER`; see `paredown.sources.DATASETS`.
        ids, labels: one per example, in place of those the source has.
        columns: which column of a table holds the `id`, `label`, `embedding`, `path` or `image`, where their names
            leave it open, e.g. `{"label": "species"}`.
        split: which split of a Hugging Face dataset or of a standard data set, `train` if it has several; or which
            folder of an image folder that holds `train`, `val` and the like.
        on_error: `raise` at the first unreadable file, or `skip` and list it in `source.skipped`.
        memory: what cannot be read in blocks (ids, labels, an `.npz`, a member of a tar) may take so much, in bytes or
            as `512MiB`; a file that declares more is refused. None for any number.
    """
    if on_error not in ("raise", "skip"):
        raise PareError(f"{argument('on_error')} must be 'raise' or 'skip', got {on_error!r}.")
    memory = None if memory is None else parse_size(memory)
    if isinstance(data, Source):
        return data
    if not is_path(data):
        return ArraySource(data, ids=ids, labels=labels)
    path = as_place(data)
    if is_remote(path):
        path = path.listed_once()  # type: ignore[attr-defined]
    check_name(path)
    named = None if path.exists() or is_remote(path) else named_dataset(data)
    if named is None and not path.exists():
        name, colon, folder = str(data).partition(":")
        near = near_name(name, DATASETS) if colon else None
        raise nothing_at(path, hint=f" Did you mean '{near}:{folder}'?" if near else "")
    columns = dict(columns or {})
    for role in columns:
        check_known("column role", role, COLUMN_ROLES)
    options = Options(ids=ids, labels=labels, columns=columns, split=split, on_error=on_error, memory=memory)
    if named is not None:
        source: Source = open_dataset(*named, options)
    else:
        with damaged(path, "source"):  # a folder that may not be listed
            found = find_format(path)
        if is_remote(path) and not found.remote:
            raise PareError(
                f"{path}: a {found.summary} is not read from object stores; copy it to this machine first, or store "
                "its images as files or in tars, or their embeddings as .npy."
            )
        if split is not None and not found.splits:
            raise PareError(f"{path}: it has no splits; leave out {argument('split', split)}.")
        if columns and not found.columns:
            raise PareError(f"{path}: it has no columns to choose from; leave out {argument('columns')}.")
        source = found.open(path, options)
    source.opened_with = {"columns": columns, "split": split} | ({} if memory == MEMORY else {"memory": memory})
    if on_error == "skip" and isinstance(source, VectorSource):
        return source.without_unusable()
    return source
