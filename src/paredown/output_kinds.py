"""What an output is: the one place that tells the kinds apart, by mark, record or name."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from paredown.files import file_mark, mark_of
from paredown.score_files import MANIFEST
from paredown.sources.arrays import RECORD

# Folders that grow over several runs, by the kind that their mark names.
GrowingKind = Literal["sweep", "folder of scores", "set of figures", "unfinished run", "unfinished training"]
OutputKind = Literal[
    "store of embeddings", GrowingKind, "manifest folder", "export", "table", "model", "recording", "encoder"
]


@dataclass(frozen=True)
class Output:
    """Something that paredown wrote, or a Parquet table, which anyone may have written.

    Attributes:
        path: of the output; of the table where the JSON file next to it was named.
        kind: what it is.
        mark: what it says of itself; empty if nothing.
        changed: whether it was changed since, which is known at once of a file whose mark lies next to it.
    """

    path: Path
    kind: OutputKind
    mark: dict[str, Any] = field(default_factory=dict)
    changed: bool = False


def find_output(path: Path) -> Output | None:
    """What is at a path that exists; None if paredown did not write it, or if its mark is gone."""
    mark = mark_of(path)
    if path.is_dir() and path.name != MANIFEST:
        return _find_folder(path, mark)
    if mark is None and file_mark(path).exists():
        return Output(path, "export", changed=True)
    table = path.with_suffix(".parquet")
    if path.suffix in (".parquet", ".json") and table.exists() and not _has_companion(mark):
        return Output(table, "table", mark or {})
    return None if mark is None else Output(path, _kind_of_file(path, mark), mark)


def _has_companion(mark: dict[str, Any] | None) -> bool:
    """Whether a mark lies next to its file, with digests of it: so are exports marked, and no tables of scores."""
    return isinstance((mark or {}).get("sha256"), list)


def _find_folder(path: Path, mark: dict[str, Any] | None) -> Output | None:
    kind = (mark or {}).get("kind", "")
    if (path / RECORD).exists() or kind == "store of embeddings":
        return Output(path, "store of embeddings", mark or {})
    if mark is None:
        return None
    if kind in get_args(GrowingKind):
        return Output(path, kind, mark)
    if "files" not in mark and "count" not in mark:
        return None
    return Output(path, "manifest folder" if (path / MANIFEST).exists() else "export", mark)


def _kind_of_file(path: Path, mark: dict[str, Any]) -> OutputKind:
    """A model or recording names its format; what carries its mark next to it is an export."""
    if "format" in mark:
        return "model" if "model" in mark["format"] else "recording"
    return "encoder" if path.suffix == ".onnx" else "export"
