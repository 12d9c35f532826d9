"""A Hugging Face dataset folder (what `Dataset.save_to_disk` writes), as images or embeddings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown import columns as arrow_columns
from paredown.errors import PareError, argument
from paredown.ids import name_rows
from paredown.reading import check_regular, damaged
from paredown.scores import Labels
from paredown.sources.base import ImageSource, Options, VectorSource
from paredown.sources.table_files import EMBEDDING_COLUMNS, ID_COLUMNS, LABEL_COLUMNS, pick_column


def load_dataset_folder(path: Path, *, split: str | None = None) -> Any:
    """The `datasets.Dataset` in a folder; of several splits the named one, or `train`."""
    try:
        import datasets
    except ImportError as error:
        raise PareError(f"{path}: Hugging Face datasets need an extra: pip install 'paredown[hf]'.") from error
    for file in path.rglob("*"):
        if not file.is_dir():
            check_regular(file)
    with damaged(path, "Hugging Face dataset folder"):
        dataset = datasets.load_from_disk(os.path.abspath(path))  # which workers that run in another folder find, too
    if isinstance(dataset, datasets.DatasetDict):
        wanted = split or "train"
        if wanted not in dataset:
            raise PareError(
                f"{path}: there is no split {wanted!r}; it has {', '.join(map(str, dataset))}; choose one with "
                f"{argument('split', ...)}."
            )
        dataset = dataset[wanted]
    with damaged(path, "Hugging Face dataset folder"):
        # Its files are mapped into memory as they are: an offset that is damaged would lead anywhere.
        dataset.data.table.validate(full=True)
    return dataset


def open_dataset_folder(path: Path, options: Options) -> HuggingFaceImages | HuggingFaceVectors:
    """Embeddings if there is a column of lists of numbers and none of images, otherwise images."""
    dataset = load_dataset_folder(path, split=options.split)
    import datasets

    images = [name for name, feature in dataset.features.items() if isinstance(feature, datasets.Image)]
    vectors = [name for name, feature in dataset.features.items() if _is_vector(feature)]
    names = list(dataset.features)
    ids, labels, columns = options.ids, options.labels, options.columns
    if ids is None:
        id_column = pick_column(path, "id", columns, names, ID_COLUMNS, required=False)
        ids = (
            np.arange(len(dataset)) if id_column is None else _column(path, dataset, id_column, arrow_columns.id_column)
        )
    if labels is None:
        name = pick_column(path, "label", columns, names, LABEL_COLUMNS, required=False)
        labels = None if name is None else _labels(path, dataset, name)
    if columns.get("embedding") or (vectors and not images):
        column = pick_column(path, "embedding", columns, names, EMBEDDING_COLUMNS, only=vectors)
        return HuggingFaceVectors(path, dataset, column, ids=ids, labels=labels)
    column = pick_column(path, "image", columns, names, ("image", "img"), only=images)
    return HuggingFaceImages(path, dataset, column, ids=ids, labels=labels)


class HuggingFaceVectors(VectorSource):
    """A column of embeddings of a Hugging Face dataset."""

    def __init__(self, path: Path, dataset: Any, column: str, *, ids: Any, labels: Any) -> None:
        self.dataset = dataset
        self._vectors = dataset.select_columns([column]).with_format("numpy")
        self._column = column
        with damaged(path, "Hugging Face dataset folder"):
            start = dataset.select_columns([column]).with_format(None)[:1][column]
            self.dim = len(start[0] or ()) if len(dataset) else 0
        if len(dataset) and not self.dim:
            raise PareError(f"{path}: the first embedding in {column!r} is empty or null; fix or drop such rows.")
        self._describe(str(path), "Hugging Face dataset", ids=ids, labels=labels)

    def blocks(self, rows: int) -> Iterator[NDArray[Any]]:
        for first in range(0, len(self._vectors), rows):
            with damaged(self.location, "Hugging Face dataset folder"):
                block = np.asarray(self._vectors[first : first + rows][self._column])
            if block.ndim != 2 or block.shape[1] != self.dim:
                raise PareError(
                    f"{self.location}: embeddings differ in dimension: expected {self.dim} in column "
                    f"{self._column!r}, but rows from {first} on have others."
                )
            yield block

    def disk_files(self) -> Iterable[Path]:
        return [Path(file["filename"]) for file in self.dataset.cache_files]


class HuggingFaceImages(ImageSource):
    """A column of images of a Hugging Face dataset."""

    def __init__(self, path: Path, dataset: Any, column: str, *, ids: Any, labels: Any) -> None:
        import datasets

        self.dataset = dataset
        # Undecoded, so that one broken image is one broken image and not the end of the run.
        # The format that the folder asks for may leave the column out.
        plain = dataset.select_columns([column]).with_format(None)
        self._images = plain.cast_column(column, datasets.Image(decode=False))
        self._column = column
        self._describe(str(path), "Hugging Face dataset", ids=ids, labels=labels)

    def files(self, first: int = 0) -> Iterator[tuple[Path | bytes, str]]:
        rows = self._images.select(range(first, len(self)))
        for name, row in zip(self.ids[first:], rows, strict=True):
            stored = row[self._column] or {}  # None where the image is null
            yield stored.get("bytes") or Path(stored.get("path") or ""), str(name)

    def pick(self, rows: Iterable[int]) -> Iterator[tuple[int, Path | bytes, str]]:
        for row in rows:
            stored = self._images[row][self._column] or {}
            yield row, stored.get("bytes") or Path(stored.get("path") or ""), str(self.ids[row])

    def part(self, rows: range) -> HuggingFaceImages:
        here = slice(rows.start, rows.stop)
        some = self.dataset.select(rows)  # which is sent as the names of its files and the rows
        known = {"ids": self.ids[here], "labels": self.labels_of(here)}
        return HuggingFaceImages(Path(self.location), some, self._column, **known)

    def disk_files(self) -> Iterable[Path]:
        return [Path(file["filename"]) for file in self.dataset.cache_files]


def _is_vector(feature: Any) -> bool:
    inner = getattr(feature, "feature", None)
    return getattr(inner, "dtype", "").startswith(("float", "int"))


def _labels(path: Path, dataset: Any, name: str) -> Labels:
    column = _column(path, dataset, name)
    names = getattr(dataset.features[name], "names", None)
    if names is None or column.null_count:
        return arrow_columns.label_column(column, path, name)  # which refuses the nulls
    codes = column.to_numpy()
    outside = np.flatnonzero((codes < 0) | (codes >= len(names)))
    if len(outside):
        code = codes[outside[0]]
        why = "Hugging Face marks unlabelled examples by -1" if code == -1 else f"there are {len(names)} classes"
        raise PareError(
            f"{path}: column {name!r} is {code} at {name_rows(outside)}, and {why}; leave such rows out "
            f"(Dataset.filter), or give a label for every example with {argument('labels', ...)}."
        )
    return Labels.of(np.array(names, np.dtypes.StringDType())[codes])


def _column(path: Path, dataset: Any, name: str, read: Callable[..., Any] = lambda column, *_: column) -> Any:
    """A column as Arrow holds it, or as a function of (column, path, name) reads it."""
    with damaged(path, "Hugging Face dataset folder"):
        return read(dataset.select_columns([name]).with_format("arrow")[:][name], path, name)
