"""Standard data sets by name: `cifar10:FOLDER`, from local files in the forms they are given out as.

Nothing is downloaded. A missing file is answered with its name, the folder it belongs in and the archive it comes from.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError, check_known
from paredown.reading import read_text
from paredown.scores import Labels
from paredown.sources.base import ImageSource, Options
from paredown.sources.dataset_formats import (
    Pixels,
    pickled_item,
    read_cifar_binary,
    read_cifar_pickle,
    read_idx,
    read_mat,
)
from paredown.sources.pickles import plain_pickle

if TYPE_CHECKING:
    from paredown.sources.image_files import ImageFiles

_DIGITS = [str(digit) for digit in range(10)]
_CIFAR10 = ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"]
_FASHION = ["T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"]


class ArrayImages(ImageSource):
    """Images that are arrays in memory, (n, height, width) or (n, height, width, 3) of uint8."""

    def __init__(
        self,
        pixels: NDArray[np.uint8],
        *,
        location: str,
        kind: str,
        files: Sequence[Path],
        ids: ArrayLike,
        labels: ArrayLike | Labels | None,
    ) -> None:
        self.pixels = pixels
        self._files = files
        self._describe(location, kind, ids=ids, labels=labels)

    def files(self, first: int = 0) -> Iterator[tuple[Path | bytes, str]]:
        return (self.file(row) for row in range(first, len(self)))

    def file(self, row: int) -> tuple[Path | bytes, str]:
        """An image in the simplest of formats, PGM or PPM: a line of text and the bytes as they are."""
        image = self.pixels[row]
        magic = "P5" if image.ndim == 2 else "P6"
        header = f"{magic} {image.shape[1]} {image.shape[0]} 255\n".encode()
        return header + image.tobytes(), str(self.ids[row])

    def part(self, rows: range) -> ArrayImages:
        here = slice(rows.start, rows.stop)
        what = {"location": self.location, "kind": self.kind, "files": ()}
        return ArrayImages(self.pixels[here], **what, ids=self.ids[here], labels=self.labels_of(here))

    def disk_files(self) -> Iterable[Path]:
        return self._files

    def fingerprint(self) -> str:
        if self._fingerprint is None and not self._files:
            self._fingerprint = hashlib.sha256(f"{self.pixels.shape}".encode() + self.pixels.tobytes()).hexdigest()[:16]
        return super().fingerprint()


class _Part(NamedTuple):
    """One split of a data set: its files, what they hold, and the names of the classes."""

    files: list[Path]
    pixels: Pixels
    classes: Sequence[str]


class _Dataset(NamedTuple):
    title: str
    splits: tuple[str, ...]
    files: str  # what belongs in the folder, for people
    read: Callable[[_Place], _Part] | None = None  # of data sets that are files of arrays


class _Place(NamedTuple):
    """Where a split is looked for, and what to say if it is not there."""

    name: str
    folder: Path
    split: str
    memory: int | None

    def file(self, *names: str, among: Sequence[str] = ("",)) -> Path:
        """The first of some names that exists, in the folder or in its usual subfolders."""
        for subfolder in among:
            for name in names:
                if (self.folder / subfolder / name).is_file():
                    return self.folder / subfolder / name
        dataset = DATASETS[self.name]
        raise PareError(
            f"{self.folder}: {' or '.join(names)} is missing. {dataset.title} needs {dataset.files}; nothing is "
            f"downloaded. Put the files into {self.folder}."
        )


def named_dataset(data: str | Path) -> tuple[str, Path] | None:
    """`cifar10:FOLDER` as a name of `DATASETS` and a folder; None if it is something else."""
    name, colon, folder = str(data).partition(":")
    return (name, Path(folder)) if colon and name in DATASETS else None


def open_dataset(name: str, folder: Path, options: Options) -> ImageSource:
    """A split of a standard data set; `train` unless another is asked for. Ids are `train/000123`."""
    dataset = DATASETS[name]
    split = options.split or "train"
    check_known(f"split of {dataset.title}", split, dataset.splits)
    if not folder.is_dir():
        raise PareError(f"{folder}: there is no such folder. {dataset.title} needs {dataset.files} in it.")
    location = f"{name}:{os.path.abspath(folder)}"
    if dataset.read is None:
        return _open_imagenet(location, folder, split, options)
    part = dataset.read(_Place(name, folder, split, options.memory))
    repeated = sorted({name for name in part.classes if part.classes.count(name) > 1})
    if repeated:
        raise PareError(f"{location}: two classes are named {repeated[0]!r}; fetch the files again.")
    outside = np.flatnonzero((part.pixels.codes < 0) | (part.pixels.codes >= len(part.classes)))
    if len(outside):
        raise PareError(
            f"{location}: label {part.pixels.codes[outside[0]]} of image {outside[0]} is not one of the "
            f"{len(part.classes)} classes of {dataset.title}; is it that dataset?"
        )
    ids = [f"{split}/{row:06d}" for row in range(len(part.pixels.codes))]
    return ArrayImages(
        part.pixels.images,
        location=location,
        kind=dataset.title,
        files=part.files,
        ids=ids if options.ids is None else options.ids,
        labels=Labels.numbered(part.pixels.codes, part.classes) if options.labels is None else options.labels,
    )


# --- one reader per data set ---------------------------------------------------------------------------------------


def _cifar10(place: _Place) -> _Part:
    stems = [f"data_batch_{number}" for number in range(1, 6)] if place.split == "train" else ["test_batch"]
    where = ("", "cifar-10-batches-bin", "cifar-10-batches-py")
    files = [place.file(f"{stem}.bin", stem, among=where) for stem in stems]
    parts = [_read_cifar(file, label_bytes=1, label_key="labels", memory=place.memory) for file in files]
    pixels = Pixels(*(np.concatenate(arrays) for arrays in zip(*parts, strict=True)))
    return _Part(files, pixels, _CIFAR10)


def _cifar100(place: _Place) -> _Part:
    where = ("", "cifar-100-binary", "cifar-100-python")
    file = place.file(f"{place.split}.bin", place.split, among=where)
    pixels = _read_cifar(file, label_bytes=2, label_key="fine_labels", memory=place.memory)
    if file.suffix == ".bin":
        text = read_text(place.file("fine_label_names.txt", among=where), "list of classes", remedy="Fetch it again.")
        return _Part([file], pixels, text.split())
    meta = place.file("meta", among=where)
    names = pickled_item(plain_pickle(meta), "fine_label_names")
    if not isinstance(names, list) or not all(isinstance(name, str | bytes) for name in names):
        raise PareError(f"{meta}: it has no list of names 'fine_label_names'; fetch it again.")
    return _Part([file], pixels, [name if isinstance(name, str) else name.decode("latin1") for name in names])


def _read_cifar(file: Path, *, label_bytes: int, label_key: str, memory: int | None) -> Pixels:
    if file.suffix == ".bin":
        return read_cifar_binary(file, label_bytes=label_bytes, memory=memory)
    return read_cifar_pickle(file, label_key=label_key, memory=memory)


def _svhn(place: _Place) -> _Part:
    file = place.file(f"{place.split}_32x32.mat")
    return _Part([file], read_mat(file, memory=place.memory), _DIGITS)


def _mnist(place: _Place, *, among: str = "MNIST/raw", classes: Sequence[str] = _DIGITS) -> _Part:
    part = "train" if place.split == "train" else "t10k"

    def find(stem: str) -> Path:
        return place.file(f"{part}-{stem}-ubyte", f"{part}-{stem}-ubyte.gz", among=("", among, "raw"))

    images, labels = find("images-idx3"), find("labels-idx1")
    return _Part([images, labels], read_idx(images, labels, memory=place.memory), classes)


def _open_imagenet(location: str, folder: Path, split: str, options: Options) -> ImageFiles:
    """The usual folders `train` and `val`, with a folder of images for every class in each."""
    from paredown.sources.image_files import ImageFiles, open_image_folder

    part = folder / ("val" if split == "test" else split)
    if not part.is_dir():
        raise PareError(f"{folder}: there is no folder {part.name}. ImageNet needs {DATASETS['imagenet'].files}.")
    found = open_image_folder(part, replace(options, ids=None, labels=None, split=None))
    if found.labels is None:
        raise PareError(
            f"{part}: its images are not in class folders (such as n01440764), so their classes are unknown; "
            "sort them into one folder per class."
        )
    return ImageFiles(
        location,
        "ImageNet",
        found.paths,
        ids=[f"{part.name}/{name}" for name in found.ids] if options.ids is None else options.ids,
        labels=found.labels if options.labels is None else options.labels,
        skipped=found.skipped,
        warnings=found.warnings,
    )


_TWO = ("train", "test")
_IDX = "train-images-idx3-ubyte, train-labels-idx1-ubyte and the same for t10k, plain or .gz"
DATASETS: dict[str, _Dataset] = {
    "cifar10": _Dataset(
        "CIFAR-10",
        _TWO,
        "data_batch_1.bin ... data_batch_5.bin and test_batch.bin (of cifar-10-binary.tar.gz), or the same without "
        ".bin (of cifar-10-python.tar.gz)",
        _cifar10,
    ),
    "cifar100": _Dataset(
        "CIFAR-100",
        _TWO,
        "train.bin, test.bin and fine_label_names.txt (of cifar-100-binary.tar.gz), or train, test and meta "
        "(of cifar-100-python.tar.gz)",
        _cifar100,
    ),
    "svhn": _Dataset(
        "SVHN", ("train", "test", "extra"), "train_32x32.mat and test_32x32.mat (extra_32x32.mat for 'extra')", _svhn
    ),
    "mnist": _Dataset("MNIST", _TWO, _IDX, _mnist),
    "fashion_mnist": _Dataset("Fashion-MNIST", _TWO, _IDX, partial(_mnist, among="FashionMNIST/raw", classes=_FASHION)),
    "imagenet": _Dataset(
        "ImageNet",
        ("train", "val", "test"),
        "the folders train and val, with one folder of images per class in each",
    ),
}
