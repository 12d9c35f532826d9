"""The data of the empirical figures: found in a folder the user gives, or the digits that ship with scikit-learn.

Nothing is downloaded. The folder has a folder for every data set, named as here, each in the form it is given out in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from paredown.errors import PareError
from paredown.files import write_whole
from paredown.ids import hash_ids
from paredown.scores import Labels
from paredown.sources import ArrayImages, open_source

SMALL_IMAGES = ("mnist", "fashion_mnist")
SMALL_FEATURES = ("cifar10_features", "fashion_mnist")


def by_size(cpu: Sequence[str], paper: str) -> dict[str, tuple[str, ...]]:
    """The data sets that a figure takes at each size, the best first; the digits are always there."""
    return {"tiny": ("digits",), "cpu": (*cpu, "digits"), "paper": (paper,)}


class _Facts(NamedTuple):
    title: str
    examples: int
    classes: int
    shape: tuple[int, ...]  # of an image, or (dimensions,) of features
    files: str  # what belongs into its folder, beyond what `open_source` says of it
    usual: str | None = None  # where a package of the system puts it


DATA: dict[str, _Facts] = {
    "digits": _Facts("the digits of scikit-learn", 1297, 10, (8, 8, 1), ""),
    "mnist": _Facts("MNIST", 60_000, 10, (28, 28, 1), ""),
    "fashion_mnist": _Facts("Fashion-MNIST", 60_000, 10, (28, 28, 1), "", "/usr/share/datasets/fashion-mnist"),
    "cifar10": _Facts("CIFAR-10", 50_000, 10, (32, 32, 3), ""),
    "cifar10_features": _Facts(
        "embeddings of CIFAR-10",
        50_000,
        10,
        (128,),
        "train.npy and test.npy with a row of features per image, in the order of CIFAR-10, and train_labels.npy and "
        "test_labels.npy",
    ),
    "svhn": _Facts("SVHN", 73_257, 10, (32, 32, 3), ""),
    "imagenet": _Facts("ImageNet", 1_281_167, 1000, (224, 224, 3), ""),
    "imagenet_embeddings": _Facts(
        "embeddings of ImageNet by five encoders", 1_281_167, 1000, (2048,), "folders 0 to 4, made by `paredown embed`"
    ),
    # What networks are tested with; nothing is trained on these.
    "stimuli": _Facts(
        "stimuli of texture-vs-shape",
        0,
        16,
        (),
        "style-transfer-preprocessed-512/CLASS/SHAPE1-TEXTURE2.png, edges/CLASS/NAME.png, "
        "filled-silhouettes/CLASS/NAME.png, and for ImageNet classes.json, see fig_ood",
    ),
    "model_vs_human": _Facts(
        "answers of humans", 0, 16, (), "responses.parquet, or the CSV files of the project model-vs-human"
    ),
    "none": _Facts("nothing", 0, 0, (), ""),  # where a figure can do without
}


@dataclass(frozen=True)
class Dataset:
    """A data set that a figure is made from."""

    name: str  # in `DATA`
    folder: Path | None  # None in a rehearsal, where it need not be there
    parts: Path  # where what is made of it is kept
    limit: int | None = None  # that many of its training examples, if it is not all

    @property
    def title(self) -> str:
        return DATA[self.name].title

    @property
    def examples(self) -> int:
        """How many training examples there are."""
        return min(DATA[self.name].examples, self.limit or DATA[self.name].examples)

    @property
    def classes(self) -> int:
        return DATA[self.name].classes

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one image, or (dimensions,) where there are only features."""
        return DATA[self.name].shape

    def images(self, encoder: str = "auto") -> dict[str, str]:
        """`[data]` of a sweep whose students see images; `encoder` makes features of them for metrics that need it."""
        if self.limit is not None:
            raise PareError(f"{self.title}: a part of it is only there as features.")
        return {"source": self.location, "encoder": encoder}

    @property
    def location(self) -> str:
        """What `open_source` opens as images."""
        if self.folder is None:
            return f"{self.name}:"
        opened_as = "mnist" if self.name == "digits" else self.name
        return f"{opened_as}:{self.folder}"

    def features(self) -> dict[str, str]:
        """`[data]` of a sweep whose students see vectors: the features as they are, or the pixels as numbers in [0, 1].

        Ids are numbers of rows; `rows()[id]` is the row of a part in the whole.
        """
        folder = self.parts / f"{self.name}-{self.examples}"
        names = {"source": "train", "labels": "train_labels", "test": "test", "test_labels": "test_labels"}
        if self.folder is not None and not folder.exists():
            with write_whole(folder, folder=True) as part:
                for split, (values, labels) in self._vectors():
                    rows = self.rows() if split == "train" else np.arange(len(labels))
                    np.save(part / f"{split}.npy", values[rows].astype(np.float32))
                    np.save(part / f"{split}_labels.npy", labels[rows])
        return {key: str(folder / f"{name}.npy") for key, name in names.items()}

    def features_of_images(self) -> dict[str, str]:
        """`data` of a scoring of features whose ids are those of the images, `train/000123`."""
        found = self.features()
        file = Path(found["source"]).with_name("ids.npy")
        if self.folder is not None and not file.exists():
            with write_whole(file) as part, part.open("wb") as stream:
                np.save(stream, np.array([f"train/{row:06d}" for row in self.rows()]))
        return {**found, "ids": str(file)}

    def rows(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """The rows of the training set that belong to it, ascending: all, or as many as `limit`, drawn by hash."""
        whole = DATA[self.name].examples
        order = np.argsort(hash_ids(np.arange(whole), seed=0x5AB5), kind="stable")
        return np.sort(order[: self.examples])

    def _vectors(self) -> Iterator[tuple[str, tuple[Any, Any]]]:
        for split in ("train", "test"):
            if len(self.shape) == 1:
                assert self.folder is not None
                files = [self.folder / f"{split}{end}.npy" for end in ("", "_labels")]
                yield split, tuple(np.load(file, mmap_mode="r", allow_pickle=False) for file in files)  # type: ignore[misc]
                continue
            images = open_source(self.location, split=split)
            assert isinstance(images, ArrayImages)
            assert isinstance(images.labels, Labels)
            yield split, (images.pixels.reshape(len(images), -1) / np.float32(255), images.labels.codes)


def find_dataset(names: Sequence[str], given: Path | None, parts: Path, *, rehearsal: bool = False) -> Dataset:
    """The first of some data sets, the best first, that is in the user's folder; the digits always are there.

    `parts` is where the digits, and what is made of a data set, are put. A rehearsal takes the first, there or not.
    """
    if rehearsal:
        return Dataset(names[0], None, parts)
    for name in names:
        if name == "none":
            return Dataset(name, None, parts)
        if name == "digits":
            return Dataset(name, _write_digits(parts / "digits"), parts)
        for folder in (None if given is None else given / name, DATA[name].usual):
            if folder is not None and Path(folder).is_dir():
                return Dataset(name, Path(folder), parts)
    known = {name: DATA[name] for name in names}
    asked = " or ".join(f"{n} ({facts.title}{facts.files and f': {facts.files}'})" for n, facts in known.items())
    where = "a folder of data sets (--data), with one of these folders in it" if given is None else f"{given} to have"
    raise PareError(f"this needs {where}: {asked}.")


def _write_digits(folder: Path) -> Path:
    """The 1797 digits of 8 x 8 pixels as files in MNIST's format, 500 of them, drawn once and for all, for testing."""
    if folder.is_dir():
        return folder
    try:
        from sklearn.datasets import load_digits
    except ImportError as error:
        raise PareError("the digits ship with scikit-learn: pip install 'paredown[demo]'.") from error
    pixels, labels = map(np.asarray, load_digits(return_X_y=True))
    order = np.random.default_rng(0).permutation(len(pixels))
    images = np.minimum(pixels.reshape(-1, 8, 8) * 16, 255).astype(np.uint8)
    with write_whole(folder, folder=True) as part:
        for name, rows in (("train", order[:-500]), ("t10k", order[-500:])):
            _write_idx(part / f"{name}-images-idx3-ubyte", images[rows])
            _write_idx(part / f"{name}-labels-idx1-ubyte", labels[rows].astype(np.uint8))
    return folder


def _write_idx(file: Path, array: np.ndarray[Any, np.dtype[np.uint8]]) -> None:
    """The format of MNIST: type and number of dimensions, their lengths, and the bytes."""
    header = bytes([0, 0, 8, array.ndim]) + b"".join(length.to_bytes(4, "big") for length in array.shape)
    file.write_bytes(header + array.tobytes())
