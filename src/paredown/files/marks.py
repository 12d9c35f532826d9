"""Whose an output is: the mark that paredown leaves in what it writes, and what the mark says of its files.

Folders carry a file `.paredown`; files carry their mark inside, or in `.NAME.paredown` beside them where the format has
no place for it. Only what carries the mark is ever replaced, and only if nothing else came into it. What is damaged
counts as paredown's if something that is left of it, or beside it, says so.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from paredown.errors import PareError
from paredown.files.atomic import MARK, UNFINISHED, beside, write_whole
from paredown.files.damage import holds_record, is_damaged
from paredown.places import StorageError, arrow_input, is_remote, is_storage_error, storage_error
from paredown.text import few, quoted, with_article
from paredown.version import __version__

_LISTED_FILES = 10_000  # files of a folder up to which its mark lists them
_DIGESTED_BYTES = 2**30  # bytes of a folder up to which its mark has digests of its files


def is_own(path: Path) -> bool:
    """Whether paredown wrote a file or folder."""
    mark = mark_of(path)
    return mark is not None and UNFINISHED not in mark


def was_own(path: Path) -> bool:
    """Whether a file is the damaged rest of one that paredown wrote, by its own mark or by what lies beside it."""
    beside_it = [file_mark(path), *([path.with_suffix(".json")] if path.suffix == ".parquet" else [])]
    if not is_damaged(path):
        return False
    # A damaged JSON document is one that begins as paredown's do.
    return path.suffix == ".json" or holds_record(path) or any(read_mark(file) is not None for file in beside_it)


def mark_of(path: Path) -> dict[str, Any] | None:
    """What a file or folder says of having been written by paredown; None if it does not.

    Parquet files, models, recordings and encoders carry the mark inside, JSON documents as a key `paredown`.
    """
    if path.is_dir():
        return read_mark(path / MARK) or _mark_of_earlier_folder(path)
    if not path.is_file():
        return None
    mark = read_mark(file_mark(path))
    digests = [] if mark is None else mark.get("sha256", [])
    if mark is not None and digests and (digest := file_digest(path)) in digests:
        return mark if digest == digests[0] else new_mark(None)  # the old content, if a kill came before the new one
    return _mark_inside(path)


def is_unfinished(path: Path) -> bool:
    """Whether a run was killed while it sent a folder to an object store."""
    return is_remote(path) and path.is_dir() and bool((mark_of(path) or {}).get(UNFINISHED))


def file_mark(path: Path) -> Path:
    """Where the mark of a file is that cannot carry one."""
    return beside(path, MARK)


def file_digest(path: Path) -> str:
    """The SHA-256 of a file's bytes."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def finished_request(path: Path) -> str | None:
    """The `request` of the run that finished an output; None where there is none, or where files of it are gone."""
    mark = mark_of(path) if path.exists() else None
    if mark is None or (path.is_dir() and any(_damages(path, mark))):
        return None
    return mark.get("request")


def damages(path: Path, *, contents: bool = True) -> list[str]:
    """What files of a folder of paredown's are not as they were written, each with how: missing, cut off or changed.

    Contents are compared where the mark has their digests, of up to 1 GiB on a disk; of more, sizes are, and `paredown
    verify` reads it all.
    """
    mark = mark_of(path) if path.is_dir() else None
    return [] if mark is None else list(_damages(path, mark, contents=contents))


def _damages(folder: Path, mark: dict[str, Any], *, contents: bool = True) -> Iterator[str]:
    sizes = _sizes(folder)
    if "names" in mark and _names_digest(sizes) != mark["names"]:
        yield "some of its files are missing, or of another size"
    for name, noted in mark.get("files", {}).items():
        size, digest = sizes.get(name), noted.get("sha256")
        if size is None:
            yield f"{name} is missing"
        elif noted.get("bytes", size) != size:
            yield f"{name} has {size:,} bytes of {noted['bytes']:,}"
        elif contents and digest is not None and not is_remote(folder) and file_digest(folder / name) != digest:
            yield f"{name} has changed"


def is_file_mark(file: Path) -> bool:
    """Whether a file is the mark of another one, and not only named like it."""
    return file.is_file() and "sha256" in (read_mark(file) or {})


def new_mark(request: str | None) -> dict[str, Any]:
    """What a mark says: the version, and which request the output answers."""
    return {"paredown": __version__} | ({} if request is None else {"request": request})


def read_mark(file: Path) -> dict[str, Any] | None:
    """The mark in a file of its own, if it is one."""
    try:
        mark = json.loads(file.read_text(encoding="utf-8"))
    except StorageError:
        raise
    except (OSError, ValueError):
        return None
    return mark if isinstance(mark, dict) and "paredown" in mark else None


def inventory(folder: Path) -> dict[str, Any]:
    """What is in a folder: a size and a digest of every file, as far as they are not too many or too large."""
    files = _files_in(folder)
    sizes = _sizes(folder)
    if len(files) > _LISTED_FILES:
        return {"count": len(files), "names": _names_digest(sizes)}
    digested = sum(sizes.values()) <= _DIGESTED_BYTES
    return {
        "files": {
            name: {"bytes": sizes[name]} | ({"sha256": file_digest(file)} if digested and not file.is_symlink() else {})
            for name, file in zip(sizes, files, strict=True)
        }
    }


def _files_in(folder: Path) -> list[Path]:
    """Every file and link of an output but its mark, in a fixed order."""
    found = (file for file in folder.rglob("*") if not file.is_dir() or file.is_symlink())
    in_order = lambda file: str(file).encode("utf-8", "surrogateescape")
    return sorted((file for file in found if file != folder / MARK), key=in_order)


def _sizes(folder: Path) -> dict[str, int]:
    names = {os.fsencode(file.relative_to(folder)): file for file in _files_in(folder)}
    return {name.decode("utf-8", "backslashreplace"): file.lstat().st_size for name, file in names.items()}


def _names_digest(sizes: dict[str, int]) -> str:
    return hashlib.sha256("".join(f"{name}\0{size}\n" for name, size in sizes.items()).encode()).hexdigest()


def write_companion(path: Path, digests: list[str], request: str | None) -> None:
    """The mark of a file: with the digest of the content and, until that has taken its place, of what it replaces."""
    with write_whole(file_mark(path), output=path) as mark:
        mark.write_text(json.dumps(new_mark(request) | {"sha256": digests}) + "\n", encoding="utf-8")


def check_own(path: Path) -> None:
    """Raise unless paredown wrote what is at `path`, in one run, and nobody added to it or changed it."""
    mark = None if path.is_symlink() else mark_of(path)
    if mark is None and was_own(path):
        return
    move = "move it away" + mv(path)
    if mark is None:
        why = "was not written by paredown"
        if is_file_mark(file_mark(path)):
            why = f"was changed since paredown wrote it, by the digest in {file_mark(path).name}"
        elif is_damaged(path):
            why = "is damaged, and nothing says that paredown wrote it"
        raise PareError(f"{path} {why}, so it is never replaced; {move}, or choose another output.")
    if path.is_dir() and mark.get("kind") is not None:
        raise PareError(
            f"{path} holds {with_article(mark['kind'])}, which nothing else replaces; {move}, or choose another output."
        )
    foreign = [*foreign_files(path, mark), *_changed_files(path, mark)] if path.is_dir() else []
    if foreign:
        raise PareError(
            f"{path} contains files that were added or changed since paredown wrote it ({few(foreign)}), which would "
            "be lost; "
            f"{move}, or choose another output."
        )


def foreign_files(folder: Path, mark: dict[str, Any]) -> list[str]:
    """The files in an output that are not paredown's own, by its mark."""
    present = _sizes(folder)
    if "files" in mark:
        return [name for name in present if name not in mark["files"]]
    if "count" in mark and len(present) > mark["count"]:
        return [f"{len(present) - mark['count']:,} more files than were written"]
    if "names" in mark and _names_digest(present) != mark["names"]:
        return ["files of other names or sizes than were written"]
    return []


def _changed_files(folder: Path, mark: dict[str, Any]) -> list[str]:
    """The files of an output that are not as they were written, and not just damaged: someone's work may be in them."""
    return [
        f"{name}, which was changed"
        for name, size in _sizes(folder).items()
        if (noted := mark.get("files", {}).get(name))
        and (
            noted.get("bytes", size) != size
            or ("sha256" in noted and ((folder / name).is_symlink() or file_digest(folder / name) != noted["sha256"]))
        )
        and not is_damaged(folder / name, contents=True)
    ]


def mv(path: Path) -> str:
    """The command that moves an output away, in parentheses, where there is one for all."""
    return "" if is_remote(path) else f" (`mv {quoted(path)} {quoted(f'{path}.old')}`)"


_EARLIER_MANIFEST = ("manifest.parquet", "manifest.json", "classes.csv")


def _mark_of_earlier_folder(folder: Path) -> dict[str, Any] | None:
    """Folders of `prune` from before there were marks are known by their manifest."""
    manifest = folder / _EARLIER_MANIFEST[0]
    shards = sorted(manifest.glob("[0-9]*.parquet")) if manifest.is_dir() else []
    if not (any(map(is_own, shards)) if shards else is_own(manifest)):
        return None
    there = [folder / name for name in _EARLIER_MANIFEST if (folder / name).is_file()]
    there += [shard for shard in shards if is_own(shard) or is_damaged(shard)]
    return {"paredown": "", "files": {file.relative_to(folder).as_posix(): {} for file in there}}


def _mark_inside(path: Path) -> dict[str, Any] | None:
    """The mark of a format that can carry one."""
    try:
        with path.open("rb") as stream:
            start = stream.read(4)
        if path.suffix == ".json":
            return read_mark(path)
        if start == b"PAR1":
            return _mark_of_table(path)
        if start == b"PK\3\4":
            return _mark_of_arrays(path)
        return _mark_of_encoder(path) if path.suffix == ".onnx" else None
    except StorageError:
        raise
    except Exception as error:  # whatever a library says of a file that it cannot read, the file is not paredown's
        if is_storage_error(error):
            raise storage_error(path, error) from error
        return None


def _mark_of_table(path: Path) -> dict[str, Any] | None:
    import pyarrow.parquet as pq

    record = (pq.read_schema(arrow_input(path)).metadata or {}).get(b"paredown")
    return None if record is None else {"paredown": ""} | json.loads(record)


def _mark_of_arrays(path: Path) -> dict[str, Any] | None:
    """Models and recordings have a JSON document among their arrays that names their format."""
    import numpy as np

    with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:  # numpy leaves a bad zip open
        for name in {"header", "record"} & set(arrays.files):
            record = json.loads(str(arrays[name]))
            if str(record["format"]).startswith("paredown"):
                return {"paredown": ""} | record
    return None


def _mark_of_encoder(path: Path) -> dict[str, Any] | None:
    """An encoder that paredown trained says how in its metadata, which are at the end of the file."""
    with path.open("rb") as stream:
        stream.seek(max(0, path.stat().st_size - 2**20))
        return {"paredown": ""} if b"paredown.training" in stream.read() else None
