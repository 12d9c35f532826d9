"""What a source is: examples with stable ids in one fixed order, as vectors or as images."""

from __future__ import annotations

import hashlib
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.display import Introduced
from paredown.errors import PareError, located
from paredown.ids import check_ids, hash_ids, id_array
from paredown.places import StorageError
from paredown.reading import MEMORY
from paredown.scores import Batch, Labels, unit_rows, usable_rows
from paredown.sources.image_decoding import Skipped, decode_image
from paredown.sources.object_reading import read_files

if TYPE_CHECKING:
    from PIL import Image

T = TypeVar("T")
OnError = Literal["raise", "skip"]

BLOCK_BYTES = 16 * 2**20  # of float32 vectors in memory at once
CHUNK_BLOCKS = 8  # blocks that one job works on; what chunks give is combined in a fixed order
_WHOLE_BYTES = 64 * 2**20  # of data that is read in full for its fingerprint
_CHUNK_BYTES, _CHUNKS = 16_384, 4_096  # what is read of larger data, spread evenly over it
_READ_BYTES = 2**20  # at once, of a file that is read in full
_LOOKED_INTO = 16_384  # of more files, only so many are opened
FINGERPRINT = "v2-"  # begins a fingerprint by content; those of earlier versions looked at less, and say less


@dataclass(frozen=True)
class Options:
    """What a user may say about a source beyond where it is."""

    ids: ArrayLike | None = None
    labels: ArrayLike | Labels | None = None
    columns: Mapping[str, str] = field(default_factory=dict)  # role ("id", "label", ...) -> column name
    split: str | None = None
    on_error: OnError = "raise"
    memory: int | None = MEMORY  # bytes that what is read whole may take


def read_each(files: Iterable[Path], read: Callable[[Path], T], on_error: OnError) -> tuple[list[T], list[Skipped]]:
    """What is read from some files, and those left out because they cannot be read, if that is allowed."""
    results, skipped = [], []
    for file in files:
        try:
            results.append(read(file))
        except PareError as error:
            if on_error == "raise" or isinstance(error, StorageError):
                raise
            skipped.append(Skipped(file.name, str(error)))
    return results, skipped


class Source(Introduced, ABC):
    """Examples with stable ids: the same data gives the same ids whatever the order of files on disk."""

    location: str  # the path the user gave, for messages and provenance
    kind: str  # "npy", "parquet", "image folder", ...
    ids: NDArray[Any]
    labels: Labels | None
    skipped: list[Skipped]
    opened_with: Mapping[str, Any] = {}  # what `open_source` was told beyond the location, to open it again
    warnings: tuple[str, ...] = ()  # what whoever uses the result should know
    _fingerprint: str | None = None

    def _describe(self, location: str, kind: str, *, ids: ArrayLike, labels: ArrayLike | Labels | None) -> None:
        """Set and check what every source has."""
        if np.size(ids) == 0:
            raise PareError(f"{location}: the source is empty; it holds no examples.")
        self.location, self.kind = location, kind
        self.skipped = getattr(self, "skipped", [])
        with located(location):
            self.ids = id_array(ids)
            check_ids(self.ids)
            self.labels = None if labels is None else Labels.of(labels, length=len(self.ids))

    def __len__(self) -> int:
        return len(self.ids)

    def introduce(self) -> dict[str, str]:
        facts = {"kind": self.kind, "location": self.location, "examples": f"{len(self):,}"}
        if self.labels is not None:
            facts["classes"] = f"{len(self.labels.classes):,}"
        return facts | ({"skipped": f"{len(self.skipped):,}"} if self.skipped else {})

    def labels_of(self, rows: slice | NDArray[Any]) -> Labels | None:
        """The labels of some rows, if there are any."""
        return None if self.labels is None else self.labels[rows]

    def disk_files(self) -> Iterable[Path]:
        """The files that hold the examples; none for examples in memory."""
        return ()

    def fingerprint(self) -> str:
        """A short hash that changes when the data does, and travels with the results."""
        if self._fingerprint is None:
            self._fingerprint = files_fingerprint(self.disk_files())
        return self._fingerprint

    def state(self) -> dict[str, str]:
        """What tells that the data are the same as when a run began: ids, labels, and when files were modified.

        Modification times see a change that a fingerprint may miss, but change with a copy: they stay with the run.
        """
        known = hashlib.sha256(hash_ids(self.ids, seed=0).tobytes())
        if self.labels is not None:
            known.update("\0".join(self.labels.classes).encode() + self.labels.codes.tobytes())
        return {"examples": known.hexdigest()[:16], "modified": files_modified(self.disk_files())}

    def identity(self) -> list[str]:
        """What results depend on: the content, and which ids and labels it has."""
        return [self.fingerprint(), self.state()["examples"]]

    def places(self) -> list[Path]:
        """What no output may touch: where the source is, and a file of every folder that its files are in."""
        return [Path(self.location), *{file.parent: file for file in self.disk_files()}.values()]

    def underlying(self, rows: NDArray[np.int64]) -> tuple[Source, NDArray[np.int64]]:
        """The source as it is stored, unusable rows and all, and where some rows are in it."""
        return self, rows

    def provenance(self) -> dict[str, Any]:
        """What a result should remember of where it came from."""
        return {
            "location": os.path.abspath(self.location) if os.path.exists(self.location) else self.location,
            "opened_with": dict(self.opened_with),
            "kind": self.kind,
            "examples": len(self),
            "fingerprint": self.fingerprint(),
            "skipped": len(self.skipped),
        }


class VectorSource(Source):
    """A source of embeddings, read in blocks so that memory does not grow with the number of examples."""

    dim: int

    def introduce(self) -> dict[str, str]:
        return super().introduce() | {"dimensions": f"{self.dim:,}"}

    @abstractmethod
    def blocks(self, rows: int) -> Iterator[NDArray[Any]]:
        """The embeddings in order, at most `rows` at a time, as stored; a block is valid until the next one."""

    @property
    def block_rows(self) -> int:
        """How many rows make a block of about 16 MiB."""
        return max(1, BLOCK_BYTES // (4 * self.dim))

    @property
    def n_blocks(self) -> int:
        """At most how many blocks `batches` yields, for progress bars and checkpoints."""
        return -(-len(self) // self.block_rows)

    def batches(self) -> Iterator[Batch]:
        """The examples in order with unit-length vectors; bad rows raise, naming them."""
        first = 0
        for block in self.blocks(self.block_rows):
            rows = slice(first, first + len(block))
            vectors = unit_rows(block, ids=self.ids[rows], first=first, where=self.location)
            yield Batch(self.ids[rows], vectors, None if self.labels is None else self.labels.codes[rows])
            first += len(block)

    def sample(self, size: int, *, seed: int) -> NDArray[np.float32]:
        """Unit vectors of an exactly uniform sample, the same for any order of the rows.

        The sample is the `size` smallest seeded hashes of the ids, in the order of those hashes; all rows if there are
        no more than `size`.
        """
        hashes = hash_ids(self.ids, seed=seed)
        size = min(size, len(self))
        chosen = np.argpartition(hashes, size - 1)[:size] if size < len(self) else np.arange(len(self))
        return self.gather(chosen[np.argsort(hashes[chosen])])

    def gather(self, rows: NDArray[np.int64]) -> NDArray[np.float32]:
        """Unit vectors of some rows in the order given, in one pass."""
        slot = np.full(len(self), -1, np.int64)
        slot[rows] = np.arange(len(rows))
        vectors = np.empty((len(rows), self.dim), np.float32)
        first = 0
        for batch in self.batches():
            slots = slot[first : first + len(batch.ids)]
            vectors[slots[slots >= 0]] = batch.vectors[slots >= 0]
            first += len(batch.ids)
        return vectors

    def take(self, rows: NDArray[np.int64]) -> NDArray[Any]:
        """The embeddings of some ascending rows, as stored."""
        keep = np.zeros(len(self), bool)
        keep[rows] = True
        return np.concatenate(list(_kept_blocks(self.blocks(self.block_rows), keep)))

    def without_unusable(self) -> VectorSource:
        """This source less the rows that have no direction (one extra pass), which are listed in `skipped`."""
        usable = np.concatenate([usable_rows(block) for block in self.blocks(self.block_rows)])
        return self if usable.all() else _Subset(self, usable)


class _Subset(VectorSource):
    """The usable rows of another source."""

    def __init__(self, parent: VectorSource, keep: NDArray[np.bool_]) -> None:
        self._parent, self._keep = parent, keep
        self.dim = parent.dim
        dropped = np.flatnonzero(~keep)
        why = "the embedding is NaN, infinite or all zero"
        self.opened_with, self.warnings = parent.opened_with, parent.warnings
        self.skipped = parent.skipped + [Skipped(str(parent.ids[row]), why) for row in dropped]
        self._describe(parent.location, parent.kind, ids=parent.ids[keep], labels=parent.labels_of(keep))

    def blocks(self, rows: int) -> Iterator[NDArray[Any]]:
        return _kept_blocks(self._parent.blocks(rows), self._keep)

    def underlying(self, rows: NDArray[np.int64]) -> tuple[Source, NDArray[np.int64]]:
        return self._parent.underlying(np.flatnonzero(self._keep)[rows])

    def disk_files(self) -> Iterable[Path]:
        return self._parent.disk_files()

    def fingerprint(self) -> str:
        return self._parent.fingerprint()

    def provenance(self) -> dict[str, Any]:
        return self._parent.provenance() | super().provenance()


def _kept_blocks(blocks: Iterable[NDArray[Any]], keep: NDArray[np.bool_]) -> Iterator[NDArray[Any]]:
    first = 0
    for block in blocks:
        kept = block[keep[first : first + len(block)]]
        first += len(block)
        if len(kept):
            yield kept


class ImageSource(Source):
    """A source of images, which an encoder turns into embeddings."""

    @abstractmethod
    def files(self, first: int = 0) -> Iterator[tuple[Path | bytes, str]]:
        """The undecoded images in order, from row `first` on: where or what each is, and its id.

        Decoding is left to the caller, who may do it in several threads, or not at all.
        """

    def file(self, row: int) -> tuple[Path | bytes, str]:
        """One undecoded image and its id, for those who need them in any order."""
        return next(iter(self.files(row)))

    def pick(self, rows: Iterable[int]) -> Iterator[tuple[int, Path | bytes, str]]:
        """Some undecoded images, in ascending order of their rows."""
        return ((row, *self.file(row)) for row in rows)

    @abstractmethod
    def part(self, rows: range) -> ImageSource:
        """Some consecutive rows as a source that can be sent to another process, and read there without the rest.

        It holds what its rows need and no more, so that no process lists the images again: paths, places in tars, or
        the pixels of arrays.
        """

    def images(self) -> Iterator[Image.Image | Skipped]:
        """The images in order; one that cannot be read is a `Skipped` in its place."""
        return (decode_image(file, name) for file, name in self.files())


def files_fingerprint(files: Iterable[Path]) -> str:
    """A hash of the names, sizes and contents of files, independent of times and of the order of listing.

    Up to 64 MiB are read in full. Of more, chunks at even strides: a change to a share p of the files, or of the bytes
    of large files, is missed with a chance of about (1 - p)^4096. A million images take seconds.
    """
    ordered = sorted(files)
    sizes = np.array([file.stat().st_size for file in ordered], np.int64)
    digest = hashlib.sha256()
    for file, size in zip(ordered, sizes.tolist(), strict=True):
        digest.update(os.fsencode(file.name) + f"\0{size}\0".encode())
    looked_into = np.sort(np.argsort(hash_ids(np.arange(len(ordered)), seed=0))[:_LOOKED_INTO])
    whole = sizes.sum() <= _WHOLE_BYTES and len(ordered) <= _LOOKED_INTO
    shares = sizes / max(1, sizes[looked_into].sum())

    def parts_of(row: int) -> list[tuple[int, int]]:
        """What is read of a file, by offset and size."""
        size = int(sizes[row])
        chunks = -(-size // _CHUNK_BYTES) if whole else max(1, int(_CHUNKS * shares[row]))
        if chunks * _CHUNK_BYTES >= size:
            return [(place, min(_READ_BYTES, size - place)) for place in range(0, size, _READ_BYTES)]
        places = np.linspace(0, size - _CHUNK_BYTES, chunks).astype(np.int64).tolist()
        return [(place, _CHUNK_BYTES) for place in places]

    for data in read_files((ordered[row], parts_of(row)) for row in looked_into.tolist()):
        digest.update(data)
    return FINGERPRINT + digest.hexdigest()[:16]


def files_modified(files: Iterable[Path]) -> str:
    """A hash of when files were modified; empty where there are none."""
    digest, some = hashlib.sha256(), False
    for file in sorted(files):
        found = file.stat()
        digest.update(os.fsencode(file.name) + f"\0{found.st_size}\0{found.st_mtime_ns}\0".encode())
        some = True
    return digest.hexdigest()[:16] if some else ""
