"""Reading files that others made: one guard for every reader, and what a file declares checked before it is believed.

Parsing libraries raise dozens of types for a damaged file, allocate whatever a header asks for, and wait forever on a
named pipe. Here all of that becomes a `PareError` that names the file:

- `reading` wraps the call of a parsing library and turns what it raises into a `PareError`;
- `check_regular` refuses pipes, devices and sockets without opening them;
- `check_memory` compares what a file declares with what may be used.

`read_bytes`, `read_text`, `read_json`, `read_array`, `read_arrays` and `read_parquet` put the three together.
"""

from __future__ import annotations

import json
import math
import os
import stat
import zipfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, NamedTuple

from paredown.errors import PareError, argument
from paredown.places import arrow_input, as_place, is_storage_error, nothing_at, storage_error
from paredown.text import with_article
from paredown.units import format_size

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq
    from numpy.typing import NDArray

MEMORY = 2**30  # bytes that the contents of one file may take in memory by default otherwise
_LONGEST_REASON = 200  # characters of a library's message that are passed on
_DEFLATE_RATIO = 1032  # deflate cannot expand a byte to more
_SPECIAL = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


# --- the guard -----------------------------------------------------------------------------------------------------


@contextmanager
def reading(path: str | Path, what: str, *, remedy: str = "Replace it.") -> Iterator[None]:
    """Turn whatever a parsing library raises over a file into a `PareError` that names it.

    The file is checked to be a regular one first. Keep the block to the parsing itself: an own bug inside it would be
    reported as damage to the file.

    Args:
        path: the file being read.
        what: what it should be: `.npy file`, `saved model`.
        remedy: a sentence that says what to do about it.
    """
    check_regular(path)
    with damaged(path, what, remedy=remedy):
        yield


@contextmanager
def damaged(path: str | Path, what: str, *, remedy: str = "Replace it.") -> Iterator[None]:
    """`reading` for what is not one regular file: a folder, or a file that was checked before."""
    try:
        yield
    except (PareError, ImportError):
        raise
    except Exception as error:
        if is_storage_error(error):
            raise storage_error(path, error) from error
        raise PareError(f"{path}: not a readable {what} ({explain(error)}). {remedy}") from error


def explain(error: BaseException) -> str:
    """One short line for what a library raised, without control characters."""
    if isinstance(error, MemoryError):
        return "it needs more memory than is available"
    if isinstance(error, EOFError):
        return "it is truncated"
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, UnicodeDecodeError):
        return f"it is not {error.encoding} text at byte {error.start}"
    if isinstance(error, KeyError):
        return f"it lacks {error}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    line = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
    line = "".join(letter if letter.isprintable() else "?" for letter in line.strip().rstrip("."))
    return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}..."


# --- what may be opened --------------------------------------------------------------------------------------------


def check_regular(path: str | Path) -> os.stat_result:
    """Raise unless a path is a regular file or leads to one; a pipe or device is never opened, as that may not end."""
    check_name(path)
    try:
        found = as_place(path).stat()
    except (FileNotFoundError, NotADirectoryError):
        raise nothing_at(path, "file") from None
    except PareError:
        raise
    except (OSError, ValueError) as error:
        raise PareError(f"{path}: cannot be read ({explain(error)}).") from error
    if stat.S_ISDIR(found.st_mode):
        raise PareError(f"{path}: this is a folder, but a file is needed.")
    if not stat.S_ISREG(found.st_mode):
        kind = _SPECIAL.get(stat.S_IFMT(found.st_mode), "something else")
        link = " (by a link)" if os.path.islink(path) else ""
        raise PareError(f"{path}: {kind}{link}, not a regular file; only regular files are read.")
    return found


def check_name(path: str | Path) -> None:
    """Raise if a name is not UTF-8, which ids, tables and records are written in."""
    try:
        str(path).encode()
    except UnicodeEncodeError:
        name = os.fsencode(path).decode("utf-8", "backslashreplace")
        raise PareError(f"{name}: the name is not UTF-8; rename it (convmv renames many at once).") from None


def check_memory(path: str | Path, needed: int, memory: int | None = MEMORY, *, instead: str = "") -> None:
    """Raise if the contents of a file would take more memory than may be used.

    Args:
        path: the file.
        needed: bytes that its contents take, as the file declares them.
        memory: bytes that may be used; None for any number.
        instead: what else could be done, as a clause: `save the embeddings as .npy, which is read in blocks`.
    """
    if memory is not None and needed > memory:
        raise PareError(
            f"{path}: its contents need {format_size(needed)} of memory, but only {format_size(memory)} may be used; "
            f"allow more with a larger {argument('memory')}{f', or {instead}' if instead else ''}."
        )


# --- bytes, text and JSON --------------------------------------------------------------------------------------------


def read_bytes(
    path: str | Path, what: str = "file", *, memory: int | None = MEMORY, remedy: str = "Replace it."
) -> bytes:
    """All bytes of a file."""
    with reading(path, what, remedy=remedy):
        check_memory(path, as_place(path).stat().st_size, memory)
        return as_place(path).read_bytes()


def read_text(path: str | Path, what: str = "text file", *, remedy: str = "Replace it.") -> str:
    """The text of a UTF-8 file, with or without a byte-order mark."""
    data = read_bytes(path, what, remedy=remedy)
    with damaged(path, what, remedy=remedy):
        return data.decode("utf-8-sig")


def read_json(path: str | Path, what: str = "JSON file", *, remedy: str = "Replace it.") -> dict[str, Any]:
    """The object in a JSON file."""
    text = read_text(path, what, remedy=remedy)
    with damaged(path, what, remedy=remedy):
        value = json.loads(text)
    if not isinstance(value, dict):
        raise PareError(
            f"{path}: not a readable {what} (it holds {with_article(type(value).__name__)}, not an object). {remedy}"
        )
    return value


# --- numpy's files -------------------------------------------------------------------------------------------------


class NpyHeader(NamedTuple):
    """What an `.npy` file says it holds."""

    shape: tuple[int, ...]
    fortran: bool  # stored column by column
    dtype: np.dtype[Any]
    offset: int  # where the data begin

    @property
    def nbytes(self) -> int:
        """Bytes of data."""
        return math.prod(self.shape) * self.dtype.itemsize


def read_npy_header(stream: IO[bytes], size: int, *, where: str | Path = "the array") -> NpyHeader:
    """The header of an `.npy` file of `size` bytes, refused if it promises what the file cannot hold."""
    from numpy.lib import format as npy

    version = npy.read_magic(stream)
    read = npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0
    shape, fortran, dtype = read(stream)
    header = NpyHeader(shape, fortran, dtype, stream.tell())
    if dtype.hasobject:
        raise PareError(f"{where}: it holds Python objects, which could run code; save an array of numbers or text.")
    if any(length < 0 for length in shape):
        raise PareError(f"{where}: damaged; its shape is {shape}.")
    if header.offset + header.nbytes > size:
        needed = header.offset + header.nbytes
        raise PareError(f"{where}: truncated; shape {shape} needs {needed} bytes, {size} found.")
    if max(shape, default=0) > size:  # only where another dimension is 0: nothing vouches for this one
        raise PareError(f"{where}: its shape {shape} is empty.")
    return header


def stream_size(stream: IO[bytes]) -> int:
    """Bytes of an open file; the place in it stays."""
    here = stream.tell()
    size = stream.seek(0, os.SEEK_END)
    stream.seek(here)
    return size


def read_array(path: str | Path, what: str = ".npy file", *, memory: int | None = MEMORY) -> NDArray[Any]:
    """The array in an `.npy` file; never a pickle."""
    import numpy as np

    with reading(path, what), as_place(path).open("rb") as stream:
        header = read_npy_header(stream, stream_size(stream), where=path)
        check_memory(path, header.nbytes, memory)
        stream.seek(0)
        return _checked_text(np.lib.format.read_array(stream, allow_pickle=False), path)


def read_arrays(
    path: str | Path,
    what: str = ".npz file",
    *,
    memory: int | None = MEMORY,
    remedy: str = "Replace it.",
    instead: str = "",
) -> dict[str, NDArray[Any]]:
    """The arrays in an `.npz` file by name; never pickles, and at most `memory` bytes (None: any number)."""
    import numpy as np

    arrays: dict[str, NDArray[Any]] = {}
    with reading(path, what, remedy=remedy), as_place(path).open("rb") as stream, zipfile.ZipFile(stream) as archive:
        members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
        _check_members(path, members, stream_size(stream))
        check_memory(path, sum(member.file_size for member in members), memory, instead=instead)
        for member in members:
            name = member.filename.removesuffix(".npy")
            if name in arrays:
                raise PareError(f"{path}: it holds two arrays named {name!r}. {remedy}")
            with archive.open(member) as data:
                read_npy_header(data, member.file_size, where=f"{path}: {name}")
                data.seek(0)
                array = np.lib.format.read_array(data, allow_pickle=False)
                arrays[name] = _checked_text(array, f"{path}: {name}")
    return arrays


def _checked_text(array: NDArray[Any], where: str | Path) -> NDArray[Any]:
    """An array as it is, unless it is text with characters that there are not, over which Python itself fails."""
    import numpy as np

    if array.dtype.kind == "U" and array.nbytes:
        letters = array.ravel(order="K").view(np.dtype(np.uint32).newbyteorder(array.dtype.byteorder))
        if letters.max() > 0x10FFFF or np.any((letters >= 0xD800) & (letters <= 0xDFFF)):
            raise PareError(f"{where}: damaged; it holds text that is not Unicode.")
    return array


def _check_members(path: str | Path, members: Sequence[zipfile.ZipInfo], size: int) -> None:
    """Raise if a zip declares members that its bytes cannot hold, or that numpy does not write."""
    if sum(member.compress_size for member in members) > size:
        raise PareError(f"{path}: damaged; its members are larger than the file.")
    for member in members:
        if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
            raise PareError(f"{path}: {member.filename} is compressed in a way that numpy does not write.")
        if member.file_size > member.compress_size * _DEFLATE_RATIO:
            raise PareError(f"{path}: damaged; {member.filename} declares more than its compressed bytes can hold.")


# --- Parquet -------------------------------------------------------------------------------------------------------


def read_parquet(
    path: str | Path,
    *,
    columns: Sequence[str] | None = None,
    what: str = "Parquet file",
    memory: int | None = MEMORY,
) -> pa.Table:
    """A Parquet file as a table whose every offset, index and text has been checked; all columns if none are named."""
    import pyarrow.parquet as pq

    with reading(path, what), pq.ParquetFile(arrow_input(path), page_checksum_verification=True) as file:
        check_rows(file, path)
        names = file.schema_arrow.names
        missing = [name for name in columns or () if name not in names]
        if missing:
            raise PareError(f"{path}: there is no column {missing[0]!r}; it has {', '.join(names)}.")
        check_memory(path, _parquet_size(file, columns), memory)
        table = file.read(columns=None if columns is None else list(columns))
        table.validate(full=True)
        return table


def check_rows(file: pq.ParquetFile, path: str | Path) -> None:
    """Raise unless the row groups of a Parquet file add up to its rows; pyarrow makes room for what a group says."""
    groups = [file.metadata.row_group(i).num_rows for i in range(file.num_row_groups)]
    if min(groups, default=0) < 0 or sum(groups) != file.metadata.num_rows:
        raise PareError(f"{path}: damaged; its row groups do not add up to its {file.metadata.num_rows:,} rows.")


def _parquet_size(file: pq.ParquetFile, columns: Sequence[str] | None) -> int:
    """At least how many bytes some columns take in memory, as the file declares them."""
    widths = [_width(field.type) for field in file.schema_arrow if columns is None or field.name in columns]
    groups = [file.metadata.row_group(i) for i in range(file.num_row_groups)]
    whole = 0 if columns else sum(group.total_byte_size for group in groups)
    return max(whole, file.metadata.num_rows * sum(widths))


def _width(kind: pa.DataType) -> int:
    try:
        return max(1, kind.bit_width // 8)
    except ValueError:  # text and lists, which take at least an offset
        return 4
