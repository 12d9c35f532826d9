"""Images, tars and parts of files in object stores: several requests at a time, ahead of need.

An answer takes some ten to a hundred milliseconds however little is asked for, and a store answers many at once. What
is read lies in memory as bytes, a few objects or blocks at a time.
"""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import chain, groupby
from pathlib import Path
from threading import Lock
from typing import IO, Any, NamedTuple, cast

from paredown.errors import PareError
from paredown.places import as_place, is_remote
from paredown.reading import damaged, reading
from paredown.sources.image_decoding import Skipped, fetch_image
from paredown.workers import work_ahead

_AT_ONCE = 16  # requests for images, or for parts of files
_AHEAD = 32  # images that wait, undecoded
_BLOCKS = 8  # of a tar that are asked for at once
_BLOCK = 2**22  # bytes of one, at most, unless a single image has more
_GAP = 2**18  # bytes that are passed over by reading them: cheaper than another request
_SMALL, _LARGE = 2**16, 2**23  # bytes of a request of a `RemoteWindow`


def fetched(files: Iterable[tuple[Path | bytes, str]]) -> Iterator[tuple[Path | bytes | Skipped, str]]:
    """Undecoded images as they are, but those in object stores as their bytes, or why there are none."""
    waiting = iter(files)
    for first in waiting:
        every = chain([first], waiting)
        yield from every if not is_remote(first[0]) else work_ahead(_fetch, every, workers=_AT_ONCE, ahead=_AHEAD)


def _fetch(item: tuple[Path | bytes, str]) -> tuple[Path | bytes | Skipped, str]:
    file, name = item
    return (fetch_image(file, name) if is_remote(file) else file), name


# --- parts of a large file -----------------------------------------------------------------------------------------


class _Block(NamedTuple):
    """Bytes of a file that are asked for together, and the parts of them that are wanted."""

    start: int
    end: int
    parts: tuple[tuple[int, int], ...]  # offset and size


def read_parts(file: str | Path, parts: Iterable[tuple[int, int]], what: str) -> Iterator[bytes]:
    """Parts of a file by their offset and size, in the order given; near ones in an object store in one request."""
    place = as_place(file)
    if not is_remote(place):
        with reading(place, what), place.open("rb") as stream:
            for offset, size in parts:
                stream.seek(offset)
                yield _whole(stream.read(size), size, place)
        return
    with reading(place, what):
        yield from _fetch_parts([(place, parts)], what, at_once=_BLOCKS)


def read_files(wanted: Iterable[tuple[Path, Iterable[tuple[int, int]]]]) -> Iterator[bytes]:
    """Parts of files by their offset and size, in the order given; of objects in a store, many requests at once."""
    for remote, some in groupby(wanted, key=lambda item: is_remote(item[0])):
        if remote:
            yield from _fetch_parts(some, "file", at_once=_AT_ONCE)
            continue
        for file, parts in some:
            with file.open("rb") as stream:
                for offset, size in parts:
                    stream.seek(offset)
                    yield stream.read(size)


class _Object:
    """An object in a store, opened by whichever thread first reads of it."""

    def __init__(self, place: Path, what: str) -> None:
        self.place, self._what, self._lock = place, what, Lock()
        self._stream: Any = None

    def fetch(self, block: _Block) -> bytes:
        with damaged(self.place, self._what):
            with self._lock:
                if self._stream is None:
                    self._stream = self.place.open("rb", buffering=0)
            return self._stream.read_at(block.end - block.start, block.start)


def _fetch_parts(
    wanted: Iterable[tuple[Path, Iterable[tuple[int, int]]]], what: str, *, at_once: int
) -> Iterator[bytes]:
    opened = ((_Object(place, what), parts) for place, parts in wanted)
    blocks = ((place, block) for place, parts in opened for block in _blocks(parts))
    fetch = lambda item: (*item, item[0].fetch(item[1]))
    for source, block, data in work_ahead(fetch, blocks, workers=at_once, ahead=at_once):
        for offset, size in block.parts:
            yield _whole(data[offset - block.start : offset - block.start + size], size, source.place)


def _whole(data: bytes, size: int, file: Path) -> bytes:
    if len(data) < size:
        raise PareError(f"{file}: it is shorter than when the run began; was it changed?")
    return data


def _blocks(parts: Iterable[tuple[int, int]]) -> Iterator[_Block]:
    block: _Block | None = None
    for offset, size in parts:
        end = offset + size
        if block is not None and block.start <= offset <= block.end + _GAP and end - block.start <= _BLOCK:
            block = _Block(block.start, max(block.end, end), (*block.parts, (offset, size)))
            continue
        if block is not None:
            yield block
        block = _Block(offset, end, ((offset, size),))
    if block is not None:
        yield block


# --- from front to back --------------------------------------------------------------------------------------------


def open_stream(file: Path) -> AbstractContextManager[IO[bytes]]:
    """A file to be read from front to back, perhaps with leaps."""
    return cast(AbstractContextManager[IO[bytes]], RemoteWindow(file) if is_remote(file) else file.open("rb"))


class RemoteWindow(io.RawIOBase):
    """A file in an object store, in requests that grow while it is read on and on, and are small after a leap."""

    def __init__(self, place: Any) -> None:
        super().__init__()
        with damaged(place, "file"):
            self._stream = place.open("rb", buffering=0)
            self._size = self._stream.size()
        self._at, self._start, self._held, self._request = 0, 0, b"", _SMALL

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        self._at = offset + {os.SEEK_SET: 0, os.SEEK_CUR: self._at, os.SEEK_END: self._size}[whence]
        return self._at

    def read(self, size: int = -1) -> bytes:
        wanted = self._size - self._at if size < 0 else min(size, self._size - self._at)
        if wanted <= 0:
            return b""
        if not self._start <= self._at <= self._at + wanted <= self._start + len(self._held):
            self._move(wanted)
        data = self._held[self._at - self._start : self._at - self._start + wanted]
        self._at += len(data)
        return data

    def _move(self, wanted: int) -> None:
        """Hold what begins at the present place, and more if it was read up to there."""
        reads_on = self._start <= self._at <= self._start + len(self._held) + _GAP
        kept = self._held[self._at - self._start :] if reads_on else b""  # none of it after a small leap
        self._request = min(4 * self._request, _LARGE) if reads_on else _SMALL
        end = min(self._at + max(wanted, self._request), self._size)
        first = self._at + len(kept)
        self._start, self._held = self._at, kept + self._stream.read_at(end - first, first)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
