"""Scores that were computed elsewhere: published tables, arrays and tensors become `Scores`.

Whoever made a file knows whether its high numbers mean hard or easy examples, and no file says so: the direction is
stated by the user and kept in the provenance.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute
import pyarrow.csv
from numpy.typing import ArrayLike, NDArray

from paredown.columns import as_written, id_column, label_column
from paredown.errors import PareError, argument, located
from paredown.ids import check_ids, find_ids, id_array, name_rows
from paredown.places import as_place
from paredown.reading import check_memory, check_regular, damaged, read_array, read_arrays, read_parquet, reading
from paredown.scores import Labels, Scores
from paredown.sources import Source
from paredown.sources.base import files_fingerprint
from paredown.version import __version__

pc: Any = pyarrow.compute  # its functions are made at import, where type checkers do not see them

HigherIs = Literal["harder", "easier"]

# Names tried in turn, written as `_plain_name` writes them.
_ID_NAMES = ("id", "uid", "key", "path", "filename", "imagename", "imagepath", "image", "file", "name", "index")
_LABEL_NAMES = ("label", "labels", "class", "target")


@dataclass(frozen=True)
class _Columns:
    """What a file holds: candidates for the scores by name, and ids and labels where it has them."""

    numbers: dict[str, NDArray[Any]]
    ids: NDArray[Any] | None = None
    labels: NDArray[Any] | Labels | None = None
    names: tuple[str, ...] = field(default=())  # of all columns, for messages


def import_scores(
    path: str | Path,
    *,
    higher_is: HigherIs,
    metric: str | None = None,
    column: str | None = None,
    source: Source | None = None,
    ids: ArrayLike | None = None,
    labels: ArrayLike | Labels | None = None,
) -> Scores:
    """Scores from a `.csv`, `.npy`, `.npz`, `.pt` or `.parquet` file made elsewhere.

    Args:
        path: a table with an id (`image name`, `path`, ...) and a score column, with or without a heading; an array; or
            a tensor, a dictionary of tensors or one from ids to numbers, saved by torch.
        higher_is: what a high number in the file means. Where it is `easier`, the numbers change their sign, as higher
            is harder everywhere in paredown.
        metric: what the scores are called from now on; the name of the column or of the file if not given.
        column: which column, array or key holds the scores, if there are several.
        source: the examples the scores belong to. Scores are put into its order by id, or by file name where the ids of
            the file are bare names; an array has no ids and must be in the source's order. Labels come from it too.
        ids, labels: one per score, in place of those in the file.
    """
    file = as_place(path)
    if higher_is not in ("harder", "easier"):
        raise PareError(f"{argument('higher_is')} must be 'harder' or 'easier', got {higher_is!r}.")
    check_regular(file)
    if file.suffix.lower() not in _READERS:
        raise PareError(f"{file}: scores are imported from {', '.join(_READERS)} files.")
    held = _READERS[file.suffix.lower()](file)
    chosen = _pick(file, held, column, metric)
    values = held.numbers[chosen].astype(np.float64)
    bad = np.flatnonzero(~np.isfinite(values))
    if len(bad):
        raise PareError(f"{file}: scores must be finite numbers; {chosen!r} is not at {name_rows(bad)}.")
    # Adding zero turns -0.0 into 0.0, so that both directions agree about what is zero.
    values = (values if higher_is == "harder" else -values) + 0.0
    own_ids = held.ids if ids is None else id_array(ids)
    own_labels = held.labels if labels is None else labels
    if own_ids is not None:
        with located(file):
            own_ids = id_array(own_ids)
            check_ids(own_ids)
    if source is not None:
        rows = _rows_of(source, own_ids, len(values), file)
        values, own_ids = values[rows], source.ids
        given = None if own_labels is None else Labels.of(own_labels, length=len(rows))[rows]
        own_labels = source.labels if given is None else given
    with located(file):
        return Scores(
            values,
            np.arange(len(values)) if own_ids is None else own_ids,
            metric or (chosen if chosen != _ONLY else file.stem),
            labels=None if own_labels is None else Labels.of(own_labels, length=len(values)),
            provenance={
                "paredown": __version__,
                "imported": {
                    "file": str(file.absolute()),
                    "fingerprint": files_fingerprint([file]),
                    "column": None if chosen == _ONLY else chosen,
                    "higher_is": higher_is,
                },
                **({} if source is None else {"source": source.provenance()}),
            },
        )


def _pick(file: Path, held: _Columns, column: str | None, metric: str | None) -> str:
    """The name of the scores in a file: the one asked for, or the only one."""
    names = list(held.numbers)
    if not names:
        raise PareError(f"{file}: it has no column of numbers that could be scores; it has {', '.join(held.names)}.")
    if column is not None:
        if column not in names:
            raise PareError(f"{file}: there are no scores {column!r}; it has {', '.join(names)}.")
        return column
    for candidate in (metric, "score", "scores"):
        if candidate in names:
            return candidate
    if len(names) > 1:
        raise PareError(
            f"{file}: which column holds the scores? It has {', '.join(names)}; choose one with "
            f"{argument('column', 'NAME')}."
        )
    return names[0]


def _rows_of(source: Source, ids: NDArray[Any] | None, length: int, file: Path) -> NDArray[np.int64]:
    """For every example of a source, the row of the file that is its score."""
    if ids is None:
        if length != len(source):
            raise PareError(
                f"{file}: it holds {length} scores without ids, and {source.location} has {len(source)} examples; "
                f"give the ids of the scores with {argument('ids', ...)}."
            )
        return np.arange(length)
    wanted = source.ids
    if (wanted.dtype.kind == "T") != (ids.dtype.kind == "T"):
        wanted, ids = (id_array([str(name) for name in some.tolist()]) for some in (wanted, ids))
    rows, missing = find_ids(ids, wanted)
    if len(missing) == len(wanted) and wanted.dtype.kind == "T":  # perhaps bare file names
        wanted, ids = (id_array([str(name).rsplit("/", 1)[-1] for name in some.tolist()]) for some in (wanted, ids))
        for some, where in ((wanted, source.location), (ids, str(file))):
            try:
                check_ids(some)
            except PareError:
                raise PareError(
                    f"{file}: none of its ids is an id of {source.location}, and file names alone do not identify the "
                    f"examples of {where} apart; give the ids of the scores with {argument('ids', ...)}."
                ) from None
        rows, missing = find_ids(ids, wanted)
    if len(missing):
        raise PareError(
            f"{file}: it has no score for {len(missing)} of the {len(wanted)} examples of {source.location}, e.g. "
            f"{name_rows(missing, ids=source.ids[missing])}; scores and data must be of the same examples."
        )
    return rows


# --- one reader per kind of file -------------------------------------------------------------------------------------

_ONLY = ""  # the name of scores that have none


def _read_csv(file: Path) -> _Columns:
    with reading(file, "CSV file"):
        check_memory(file, file.stat().st_size)
        with file.open(encoding="utf-8-sig", newline="") as stream:
            first = [cell.strip() for cell in next(csv.reader(stream), [])]
        headless = any(_is_number(cell) for cell in first)
        names = [f"column {number}" for number in range(1, len(first) + 1)] if headless else first
        written = (_id_column(names, headless=headless), _label_column(names, headless=headless))
        table = pyarrow.csv.read_csv(
            file,
            read_options=pyarrow.csv.ReadOptions(column_names=names, skip_rows=0 if headless else 1),
            # Ids and labels are read as they are written: 007 is not 7.
            convert_options=pyarrow.csv.ConvertOptions(column_types={name: pa.string() for name in written if name}),
        )

    def cells(column: Any, file: Path, name: str) -> NDArray[Any]:
        return as_written(pc.utf8_trim_whitespace(column), file, name)

    return _from_table(file, table, read_ids=cells, read_labels=cells, headless=headless)


def _read_parquet(file: Path) -> _Columns:
    return _from_table(file, read_parquet(file), read_ids=id_column, read_labels=label_column)


def _from_table(
    file: Path,
    table: pa.Table,
    *,
    read_ids: Callable[..., NDArray[Any]],
    read_labels: Callable[..., NDArray[Any] | Labels],
    headless: bool = False,
) -> _Columns:
    """What a table holds; ids and labels are read by functions of (column, file, name)."""
    names = table.column_names
    if len(set(names)) < len(names):
        raise PareError(f"{file}: two columns have the same name; it has {', '.join(names)}.")
    id_name = _id_column(names, headless=headless)
    label_name = _label_column(names, headless=headless)
    with damaged(file, "table of scores"):
        numbers = {
            name: _numbers(file, name, table[name])
            for name in names
            if name not in (id_name, label_name) and _holds_numbers(table[name])
        }
        return _Columns(
            numbers if not (headless and len(numbers) == 1) else {_ONLY: next(iter(numbers.values()))},
            ids=None if id_name is None else read_ids(table[id_name], file, id_name),
            labels=None if label_name is None else read_labels(table[label_name], file, label_name),
            names=tuple(names),
        )


def _id_column(names: Sequence[str], *, headless: bool) -> str | None:
    """The column of ids: by its name, or the first of two, whatever it is called, if the other is not of labels."""
    found = None if headless else _first_of(_ID_NAMES, names)
    pair = len(names) == 2 and _label_column(names, headless=headless) is None
    return names[0] if found is None and (pair or (headless and len(names) > 1)) else found


def _label_column(names: Sequence[str], *, headless: bool) -> str | None:
    return None if headless else _first_of(_LABEL_NAMES, names)


def _first_of(usual: Sequence[str], names: Sequence[str]) -> str | None:
    by_plain_name = {_plain_name(name): name for name in reversed(names)}
    return next((by_plain_name[name] for name in usual if name in by_plain_name), None)


def _holds_numbers(column: pa.ChunkedArray) -> bool:
    return pa.types.is_floating(column.type) or pa.types.is_integer(column.type) or pa.types.is_decimal(column.type)


def _numbers(file: Path, name: str, column: pa.ChunkedArray) -> NDArray[Any]:
    if column.null_count:
        rows = np.flatnonzero(column.is_null().to_numpy())
        raise PareError(f"{file}: scores are missing in column {name!r} at {name_rows(rows)}; fill in or drop them.")
    return column.to_numpy()


def _read_npz(file: Path) -> _Columns:
    held = read_arrays(file)
    ids = next((held.pop(name) for name in ("ids", "id") if name in held), None)
    labels = next((held.pop(name) for name in ("labels", "label") if name in held), None)
    return _named(held, file, ids=ids, labels=labels)


def _read_torch(file: Path) -> _Columns:
    try:
        import torch
    except ImportError as error:
        raise PareError(f"{file}: reading it needs torch; install paredown[train], or save it as .npy.") from error
    remedy = (
        "Nothing but tensors and plain values is read, as it could run code; save the scores as a tensor, or as .npy."
    )
    with reading(file, "file of tensors saved by torch", remedy=remedy):
        held = torch.load(file, map_location="cpu", weights_only=True)
        if isinstance(held, dict) and held and all(isinstance(value, int | float) for value in held.values()):
            return _named({_ONLY: np.array(list(held.values()))}, file, ids=id_array(list(held)))
        named = held if isinstance(held, dict) else {_ONLY: held}
        arrays = {str(name): _to_array(file, str(name), value) for name, value in named.items()}
        ids = next((arrays.pop(name) for name in ("ids", "id") if name in arrays), None)
        return _named(arrays, file, ids=ids)


def _to_array(file: Path, name: str, value: Any) -> NDArray[Any]:
    """A tensor as an array; what is not a plain one of numbers is refused."""
    import torch

    if not isinstance(value, torch.Tensor):
        return np.asarray(value)
    what = f"{file}: tensor {name!r}" if name else f"{file}: the tensor"
    if value.layout != torch.strided or value.is_quantized or value.device.type != "cpu":
        raise PareError(f"{what} is sparse, quantized or empty of data; save it as a dense one (tensor.to_dense()).")
    if value.numel() * value.element_size() > value.untyped_storage().nbytes():
        raise PareError(f"{what} repeats its elements; save it as a plain one (tensor.contiguous()).")
    value = value.detach().resolve_conj().resolve_neg()
    return (value.double() if value.is_floating_point() else value).numpy()  # numpy has no bfloat16


def _named(arrays: dict[str, NDArray[Any]], file: Path, *, ids: Any = None, labels: Any = None) -> _Columns:
    numbers = {name: array for name, array in arrays.items() if array.ndim == 1 and array.dtype.kind in "fiu"}
    if not numbers:
        shapes = ", ".join(f"{name or 'it'} is {array.dtype} of shape {array.shape}" for name, array in arrays.items())
        raise PareError(f"{file}: scores are one number per example, a one-dimensional array; {shapes}.")
    return _Columns(numbers, ids=ids, labels=labels, names=tuple(arrays))


_READERS: dict[str, Callable[[Path], _Columns]] = {
    ".csv": _read_csv,
    ".npy": lambda file: _named({_ONLY: read_array(file, "array of numbers")}, file),
    ".npz": _read_npz,
    ".pt": _read_torch,
    ".pth": _read_torch,
    ".parquet": _read_parquet,
}


def _plain_name(name: str) -> str:
    return "".join(letter for letter in name.lower() if letter.isalnum())


def _is_number(cell: str) -> bool:
    try:
        float(cell)
    except ValueError:
        return False
    return True
