"""WebDataset tars: files that share a key are one example, and the key is its id."""

from __future__ import annotations

import tarfile
from bisect import bisect_right
from collections.abc import Iterator
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple

from paredown.data import Labels
from paredown.errors import PareError
from paredown.sources.base import ImageSource, Options, Skipped, files_fingerprint, natural_order
from paredown.sources.images import IMAGE_SUFFIXES

__all__ = ["Member", "WebDataset", "read_members", "split_name"]


class Member(NamedTuple):
    """One file inside a tar, with the key of the example it belongs to."""

    tar: Path
    info: tarfile.TarInfo
    key: str
    suffix: str  # ".jpg", ".cls", ...


def split_name(name: str) -> tuple[str, str]:
    """`dir/0001.seg.png` -> (`dir/0001`, `.seg.png`): the key ends at the first dot of the last part."""
    path = PurePosixPath(name)
    stem, dot, rest = path.name.partition(".")
    return (path.parent / stem).as_posix().removeprefix("./"), f"{dot}{rest}".lower()


def read_members(tar: Path) -> Iterator[tuple[Member, bytes]]:
    """The regular files of a tar in order, with their bytes; names that leave the archive are refused.

    Nothing is ever extracted by name, but a member such as `../x` is either an attack or a mistake.
    """
    try:
        with tarfile.open(tar, "r:*") as archive:
            for info in archive:
                if PurePosixPath(info.name).is_absolute() or ".." in PurePosixPath(info.name).parts:
                    raise PareError(f"{tar}: unsafe member name {info.name!r}; it points outside the archive.")
                if not info.isfile():
                    continue
                key, suffix = split_name(info.name)
                stream = archive.extractfile(info)
                data = b"" if stream is None else stream.read()
                if len(data) != info.size:
                    raise tarfile.ReadError(f"{info.name} ends early")
                yield Member(tar, info, key, suffix), data
            _check_end(tar, archive)
    except (tarfile.TarError, EOFError, OSError) as error:
        raise _Unreadable(f"{tar}: truncated or damaged tar ({error})") from error


def _check_end(tar: Path, archive: tarfile.TarFile) -> None:
    """A tar cut exactly between two members reads cleanly; its missing end-of-archive block gives it away."""
    if tar.suffix == ".tar" and tar.stat().st_size < archive.offset + tarfile.BLOCKSIZE:
        raise tarfile.ReadError("the end-of-archive mark is missing")


class _Unreadable(PareError):
    """A tar that cannot be read to its end."""


class WebDataset(ImageSource):
    """Images (and `.cls` labels) in one tar or a folder of tars, shards in natural order."""

    def __init__(self, path: Path, options: Options) -> None:
        self.tars = sorted(path.glob("*.tar"), key=natural_order) if path.is_dir() else [path]
        self.skipped, keys, classes = [], [], {}
        self._starts: list[int] = []  # row of the first image of each tar
        for tar in self.tars:
            self._starts.append(len(keys))
            try:
                for member, data in read_members(tar):
                    if member.suffix in IMAGE_SUFFIXES:
                        keys.append(member.key)
                    elif member.suffix == ".cls":
                        classes[member.key] = data.decode("utf-8", "replace").strip()
            except _Unreadable as error:
                if options.on_error == "raise":
                    message = f"{error}; replace it, or keep what can be read with --on-error skip."
                    raise PareError(message) from error
                self.skipped.append(Skipped(tar.name, str(error)))
        ids = keys if options.ids is None else options.ids
        labels = self._labels(keys, classes) if options.labels is None else options.labels
        self._describe(str(path), "webdataset", ids=ids, labels=labels)

    def _labels(self, keys: list[str], classes: dict[str, str]) -> Any:
        if not classes:
            return None
        unlabelled = [key for key in keys if key not in classes]
        if unlabelled:
            raise PareError(
                f"{len(unlabelled)} of {len(keys)} examples have no .cls label, e.g. {unlabelled[0]!r}; "
                "label all of them or none."
            )
        values = [classes[key] for key in keys]
        return Labels.of(values)

    def members(self, first_tar: int = 0) -> Iterator[tuple[Member, bytes]]:
        """All files of all tars; what follows damage in a tar was reported when the source was opened."""
        for tar in self.tars[first_tar:]:
            try:
                yield from read_members(tar)
            except _Unreadable:
                continue

    def files(self, first: int = 0) -> Iterator[tuple[Path | bytes, str]]:
        tar = bisect_right(self._starts, first) - 1  # whole tars before `first` are not even read
        images = ((data, m.key) for m, data in self.members(tar) if m.suffix in IMAGE_SUFFIXES)
        return islice(images, first - self._starts[tar], None)

    def fingerprint(self) -> str:
        return files_fingerprint(self.tars)
