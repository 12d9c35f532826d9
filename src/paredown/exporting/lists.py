"""Exports that are one file of the manifest alone: lists, arrays, and a table for spreadsheets."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv

from paredown.errors import PareError
from paredown.exporting.content import ExportContent
from paredown.score_files import manifest_table


def write_ids(content: ExportContent, out: Path) -> None:
    """The kept ids, one per line."""
    _write_lines([str(name) for name in content.kept_ids.tolist()], out, "id")


def write_paths(content: ExportContent, out: Path) -> None:
    """The absolute paths of the kept images, one per line."""
    files, _ = content.image_files()
    _write_lines([str(file) for file in files], out, "path")


def _write_lines(lines: list[str], out: Path, what: str) -> None:
    broken = next((line for line in lines if "\n" in line or "\r" in line), None)
    if broken is not None:
        raise PareError(
            f"{what} {broken!r} holds a line break, so a list with one {what} per line would be misread; "
            "export 'indices' instead, or read the manifest itself."
        )
    out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def write_indices(content: ExportContent, out: Path) -> None:
    """The rows of the manifest that are kept."""
    with out.open("wb") as stream:
        np.save(stream, np.flatnonzero(content.keep))


def write_uids(content: ExportContent, out: Path) -> None:
    """DataComp's subset files: 128-bit hexadecimal uids as pairs of unsigned 64-bit numbers, sorted."""
    names = [str(name) for name in content.kept_ids]
    wrong = next((name for name in names if not re.fullmatch(r"[0-9a-fA-F]{32}", name)), None)
    if wrong is not None:
        raise PareError(f"DataComp uids are 32 hexadecimal digits, and id {wrong!r} is not; export 'ids' instead.")
    pairs = np.array([(int(name[:16], 16), int(name[16:], 16)) for name in names], np.dtype("u8,u8"))
    with out.open("wb") as stream:
        np.save(stream, np.sort(pairs))


def write_csv(content: ExportContent, out: Path) -> None:
    """Every example with what the manifest says of it: `id`, `keep`, `score`, and `label` and `cluster` if any.

    Text is in quotes throughout, so that line breaks, commas and quotes in ids survive.
    """
    table = manifest_table(content.scores, content.keep)
    pyarrow.csv.write_csv(_plain_text(table), out)


def _plain_text(table: pa.Table) -> pa.Table:
    """A table whose dictionaries are text, which CSV writes in quotes."""
    fields = [field.with_type(pa.string()) if pa.types.is_dictionary(field.type) else field for field in table.schema]
    return table.cast(pa.schema(fields))
