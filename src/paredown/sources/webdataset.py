"""WebDataset tars: files that share a key are one example, and the key is its id."""

from __future__ import annotations

import tarfile
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator
from itertools import groupby
from pathlib import Path, PurePosixPath
from typing import IO, Any, NamedTuple

from paredown.errors import PareError, argument
from paredown.ids import natural_order
from paredown.places import absolute, as_place, is_remote, is_storage_error, storage_error
from paredown.reading import MEMORY, check_memory, check_regular, explain
from paredown.scores import Labels
from paredown.sources.base import ImageSource, Options, Skipped
from paredown.sources.image_files import IMAGE_SUFFIXES
from paredown.sources.object_reading import open_stream, read_parts
from paredown.workers import work_ahead

_TARS = 8  # in an object store that are looked through at once


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


def read_members(
    tar: Path, *, memory: int | None = MEMORY, wanted: Callable[[str], bool] = lambda suffix: True
) -> Iterator[tuple[Member, bytes]]:
    """The regular files of a tar in order, with the bytes of those whose suffix is wanted; others are passed over.

    Names that leave the archive are refused.

    Nothing is ever extracted by name, but a member such as `../x` is either an attack or a mistake. Sparse members,
    which unpack to any size from none, are refused too.
    """
    size = check_regular(tar).st_size
    try:
        with open_stream(tar) as stream:
            _check_start(tar, stream.read(6))
            stream.seek(0)
            archive = tarfile.TarFile(fileobj=_Bounded(stream, size))  # type: ignore[arg-type]
            for info in archive:
                _check_member(tar, info, memory)
                if not info.isfile():
                    continue
                key, suffix = split_name(info.name)
                stream = archive.extractfile(info) if wanted(suffix) else None
                data = b"" if stream is None else stream.read()
                if info.offset_data + info.size > size:
                    raise tarfile.ReadError(f"{info.name} ends early")
                yield Member(info, key, suffix), data
            _check_end(size, archive)
    except PareError:
        raise
    except Exception as error:  # tarfile and the decompressors raise many types
        if is_storage_error(error):
            raise storage_error(tar, error) from error
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


class _TarIndex(NamedTuple):
    """What is in a tar: the images with their places, the classes, and what ended the reading too early."""

    keys: list[str]
    offsets: array[int]
    sizes: array[int]
    classes: dict[str, str]
    damage: _Unreadable | None


class WebDataset(ImageSource):
    """Images (and `.cls` labels) in one tar or a folder of tars, shards in natural order."""

    def __init__(self, path: Path, options: Options) -> None:
        self.tars = sorted(path.glob("*.tar"), key=natural_order) if path.is_dir() else [path]
        self._memory = options.memory
        self.skipped, keys, classes = [], [], {}
        self._starts: list[int] = []  # row of the first image of each tar
        self._offsets, self._sizes = array("q"), array("q")  # where each image is in its tar
        self._absolute = [str(absolute(tar)) for tar in self.tars]  # workers may run in another folder
        for tar, found in zip(self.tars, self._look_through(), strict=True):
            self._starts.append(len(keys))
            keys += found.keys
            self._offsets += found.offsets
            self._sizes += found.sizes
            classes |= found.classes
            if found.damage is not None:
                if options.on_error == "raise":
                    raise PareError(
                        f"{found.damage.message}; replace it, or keep what can be read with "
                        f"{argument('on_error', 'skip')}."
                    ) from found.damage
                self.skipped.append(Skipped(tar.name, str(found.damage)))
        ids = keys if options.ids is None else options.ids
        labels = self._labels(keys, classes) if options.labels is None else options.labels
        self._describe(str(path), "webdataset", ids=ids, labels=labels)

    def _look_through(self) -> Iterator[_TarIndex]:
        """What is in every tar, in their order."""
        if not any(map(is_remote, self.tars)):
            return map(self._index, self.tars)
        return work_ahead(self._index, self.tars, workers=_TARS, ahead=_TARS)

    def _index(self, tar: Path) -> _TarIndex:
        found = _TarIndex([], array("q"), array("q"), {}, None)
        try:
            for member, data in read_members(tar, memory=self._memory, wanted=lambda suffix: suffix == ".cls"):
                if member.suffix in IMAGE_SUFFIXES:
                    found.keys.append(member.key)
                    found.offsets.append(member.info.offset_data)
                    found.sizes.append(member.info.size)
                elif member.suffix == ".cls":
                    found.classes[member.key] = data.decode("utf-8", "replace").strip()
        except _Unreadable as error:
            return found._replace(damage=error)
        return found

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

    def members(self) -> Iterator[tuple[Member, bytes]]:
        """All files of all tars; what follows damage in a tar was reported when the source was opened."""
        for tar in self.tars:
            try:
                yield from read_members(tar, memory=self._memory)
            except _Unreadable:
                continue

    def files(self, first: int = 0) -> Iterator[tuple[Path | bytes, str]]:
        return ((data, name) for _, data, name in self.pick(range(first, len(self))))

    def file(self, row: int) -> tuple[Path | bytes, str]:
        ((_, data, name),) = self.pick([row])
        return data, name

    def pick(self, rows: Iterable[int]) -> Iterator[tuple[int, Path | bytes, str]]:
        """Each image is read at its place, and no tar is looked through again."""
        for number, some in groupby(rows, key=lambda row: bisect_right(self._starts, row) - 1):
            here = list(some)
            places = ((self._offsets[row], self._sizes[row]) for row in here)
            for row, data in zip(here, read_parts(self.tars[number], places, "tar"), strict=True):
                yield row, data, str(self.ids[row])

    def part(self, rows: range) -> TarMembers:
        here = slice(rows.start, rows.stop)
        tars = [self._absolute[bisect_right(self._starts, row) - 1] for row in rows]
        places = list(zip(tars, self._offsets[here], self._sizes[here], strict=True))
        return TarMembers(self.location, self.kind, places, ids=self.ids[here], labels=self.labels_of(here))

    def disk_files(self) -> Iterable[Path]:
        return self.tars


class TarMembers(ImageSource):
    """Some images of tars that were read through before; each is read at its place."""

    def __init__(
        self, location: str, kind: str, places: list[tuple[str, int, int]], *, ids: Any, labels: Labels | None
    ) -> None:
        self._places = places  # tar, offset and size of each
        self._describe(location, kind, ids=ids, labels=labels)

    def files(self, first: int = 0) -> Iterator[tuple[Path | bytes, str]]:
        names = (str(name) for name in self.ids[first:])
        for tar, some in groupby(self._places[first:], key=lambda place: place[0]):
            for data in read_parts(tar, ((offset, size) for _, offset, size in some), "tar"):
                yield data, next(names)

    def part(self, rows: range) -> TarMembers:
        here = slice(rows.start, rows.stop)
        return TarMembers(self.location, self.kind, self._places[here], ids=self.ids[here], labels=self.labels_of(here))

    def disk_files(self) -> Iterable[Path]:
        return [as_place(tar) for tar in dict.fromkeys(tar for tar, _, _ in self._places)]
