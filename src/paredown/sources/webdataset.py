"""WebDataset tars: files that share a key are one example, and the key is its id."""

from __future__ import annotations

import tarfile
from bisect import bisect_right
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from paredown.errors import PareError, argument
from paredown.ids import natural_order
from paredown.reading import MEMORY, check_memory, check_regular, explain
from paredown.scores import Labels
from paredown.sources.base import ImageSource, Options, Skipped
from paredown.sources.image_files import IMAGE_SUFFIXES


class Member(NamedTuple):
    """One file inside a tar, with the key of the example it belongs to."""

    info: tarfile.TarInfo
    key: str
    suffix: str  # ".jpg", ".cls", ...


def split_name(name: str) -> tuple[str, str]:
    """`dir/0001.seg.png` -> (`dir/0001`, `.seg.png`): the key ends at the first dot of the last part."""
    path = PurePosixPath(name)
    stem, dot, rest = path.name.partition(".")
    return (path.parent / stem).as_posix().removeprefix("./"), f"{dot}{rest}".lower()


def read_members(tar: Path, *, memory: int | None = MEMORY) -> Iterator[tuple[Member, bytes]]:
    """The regular files of a tar in order, with their bytes; names that leave the archive are refused.

    Nothing is ever extracted by name, but a member such as `../x` is either an attack or a mistake. Sparse members,
    which unpack to any size from none, are refused too.
    """
    size = check_regular(tar).st_size
    try:
        with tar.open("rb") as stream:
            _check_start(tar, stream.read(6))
            stream.seek(0)
            archive = tarfile.TarFile(fileobj=_Bounded(stream, size))  # type: ignore[arg-type]
            for info in archive:
                _check_member(tar, info, memory)
                if not info.isfile():
                    continue
                key, suffix = split_name(info.name)
                stream = archive.extractfile(info)
                data = b"" if stream is None else stream.read()
                if len(data) != info.size:
                    raise tarfile.ReadError(f"{info.name} ends early")
                yield Member(info, key, suffix), data
            _check_end(size, archive)
    except PareError:
        raise
    except Exception as error:  # tarfile and the decompressors raise many types
        raise _Unreadable(f"{tar}: truncated or damaged tar ({explain(error)})") from error


def _check_member(tar: Path, info: tarfile.TarInfo, memory: int | None) -> None:
    try:
        info.name.encode()
    except UnicodeEncodeError:
        name = info.name.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
        raise PareError(f"{tar}: the member name {name} is not UTF-8; write the tar again with UTF-8 names.") from None
    if info.name.startswith("/") or ".." in info.name.split("/"):
        raise PareError(f"{tar}: unsafe member name {info.name!r}; it points outside the archive.")
    if info.issparse():
        raise PareError(f"{tar}: {info.name!r} is a sparse file; write the tar again without --sparse.")
    if memory is not None and info.size > memory:
        check_memory(f"{tar}: {info.name}", info.size, memory)


class _Bounded:
    """A file that makes no room for more bytes than it has, whatever size a header in it declares."""

    def __init__(self, stream: IO[bytes], size: int) -> None:
        self._stream, self._size = stream, size
        self.seek, self.tell = stream.seek, stream.tell

    def read(self, size: int) -> bytes:
        return self._stream.read(min(size, self._size))


_COMPRESSED = {"gzip": b"\x1f\x8b", "bzip2": b"BZh", "xz": b"\xfd7zXZ\x00", "zstd": b"\x28\xb5\x2f\xfd"}


def _check_start(tar: Path, start: bytes) -> None:
    for name, magic in _COMPRESSED.items():
        if start.startswith(magic):
            raise PareError(f"{tar}: compressed by {name}; decompress it first (images do not get smaller by it).")


def _check_end(size: int, archive: tarfile.TarFile) -> None:
    """A tar cut exactly between two members reads cleanly; its missing end-of-archive block gives it away."""
    if size < archive.offset + tarfile.BLOCKSIZE:
        raise tarfile.ReadError("the end-of-archive mark is missing")


class _Unreadable(PareError):
    """A tar that cannot be read to its end."""


class WebDataset(ImageSource):
    """Images (and `.cls` labels) in one tar or a folder of tars, shards in natural order."""

    def __init__(self, path: Path, options: Options) -> None:
        self.tars = sorted(path.glob("*.tar"), key=natural_order) if path.is_dir() else [path]
        self._memory = options.memory
        self.skipped, keys, classes = [], [], {}
        self._starts: list[int] = []  # row of the first image of each tar
        for tar in self.tars:
            self._starts.append(len(keys))
            try:
                for member, data in read_members(tar, memory=options.memory):
                    if member.suffix in IMAGE_SUFFIXES:
                        keys.append(member.key)
                    elif member.suffix == ".cls":
                        classes[member.key] = data.decode("utf-8", "replace").strip()
            except _Unreadable as error:
                if options.on_error == "raise":
                    message = (
                        f"{error.message}; replace it, or keep what can be read with {argument('on_error', 'skip')}."
                    )
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
        return Labels.of([classes[key] for key in keys])

    def members(self, first_tar: int = 0) -> Iterator[tuple[Member, bytes]]:
        """All files of all tars; what follows damage in a tar was reported when the source was opened."""
        for tar in self.tars[first_tar:]:
            try:
                yield from read_members(tar, memory=self._memory)
            except _Unreadable:
                continue

    def files(self, first: int = 0) -> Iterator[tuple[Path | bytes, str]]:
        tar = bisect_right(self._starts, first) - 1  # whole tars before `first` are not even read
        images = ((data, m.key) for m, data in self.members(tar) if m.suffix in IMAGE_SUFFIXES)
        return islice(images, first - self._starts[tar], None)

    def pick(self, rows: Iterable[int]) -> Iterator[tuple[int, Path | bytes, str]]:
        """Tars are read from front to back, so a single pass over those that hold any of the rows."""
        wanted = list(rows)
        ends = [*self._starts[1:], len(self)]
        for first, end in zip(self._starts, ends, strict=True):
            here = {row - first: row for row in wanted if first <= row < end}
            if here:
                for place, (file, name) in enumerate(islice(self.files(first), max(here) + 1)):
                    if place in here:
                        yield here[place], file, name

    def disk_files(self) -> Iterable[Path]:
        return self.tars
