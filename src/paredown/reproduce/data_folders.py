"""The data of the empirical figures: found in a folder the user gives, or the digits that ship with scikit-learn.

Nothing is downloaded. The folder has a folder for every data set, named as here, each in the form it is given out in.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from paredown.errors import PareError
from paredown.files import write_whole
from paredown.ids import hash_ids
from paredown.reproduce.teachers import relabel
from paredown.scores import Labels
from paredown.sources import ArrayImages, open_source

SMALL_IMAGES = ("mnist", "fashion_mnist")
SMALL_FEATURES = ("cifar10_features", "fashion_mnist")
# After the name of a data set:
TAUGHT = "_taught"  # the same inputs with the labels of a network that was trained on it
TAILED = "_tailed"  # its first class whole, the last cut down to a tenth, those between on an exponential
FIRST, REST = "_first", "_rest"  # of small images, the first half of the classes, and the other half
_VARIANTS = {TAUGHT: "labels of a teacher", TAILED: "long-tailed", FIRST: "first classes", REST: "other classes"}
_TAIL = 10.0
_WHOLE = 0.9  # of a class of mean size, as not all classes have as many
SMALL_TAUGHT = {
    "tiny": (f"digits{TAUGHT}",),
    "cpu": tuple(f"{name}{TAUGHT}" for name in (*SMALL_FEATURES, "digits")),
}
SMALL_TAILED = {size: tuple(name.replace(TAUGHT, TAILED) for name in names) for size, names in SMALL_TAUGHT.items()}


def by_size(cpu: Sequence[str], paper: str) -> dict[str, tuple[str, ...]]:
    """The data sets that a figure takes at each size, the best first; the digits are always there."""
    return {"tiny": ("digits",), "cpu": (*cpu, "digits"), "paper": (paper,)}


_CIFAR10 = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_FASHION = ("T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot")
_CLASS_NAMES = {"cifar10": _CIFAR10, "cifar10_features": _CIFAR10, "fashion_mnist": _FASHION}


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
    largest_class: float | None = None  # of a long-tailed set, how many examples, if it is not nearly all

    @property
    def title(self) -> str:
        return self._facts.title + (f", {_VARIANTS[self.variant]}" if self.variant else "")

    @property
    def inputs(self) -> str:
        """The name of the data set that it is made of."""
        return _made_of(self.name)

    @property
    def variant(self) -> str:
        """What was made of that; empty for the data set itself."""
        return self.name.removeprefix(self.inputs)

    @property
    def class_sizes(self) -> np.ndarray[Any, np.dtype[np.int64]]:
        """How many examples a long-tailed set has of each class."""
        largest = _WHOLE * self._facts.examples / self.classes if self.largest_class is None else self.largest_class
        return np.floor(largest * _tail_shares(self.classes)).astype(np.int64)

    def with_same_tail(self, most: int | None) -> Dataset:
        """So many examples of a long-tailed set at most, with classes as unequal as they are.

        `limit` takes the first rows by hash, which have all of the rare classes and cut down the frequent ones.
        """
        if most is None or most >= self.examples:
            return self
        return replace(self, largest_class=most / float(_tail_shares(self.classes).sum()))

    @property
    def examples(self) -> int:
        """How many training examples there are."""
        whole = self._facts.examples
        if self.variant == TAILED:
            whole = int(self.class_sizes.sum())
        elif self.variant in (FIRST, REST):
            whole = _half(whole)
        return min(whole, self.limit or whole)

    @property
    def classes(self) -> int:
        return self._facts.classes

    def class_name(self, code: int) -> str:
        """What a class is called, for a picture; its number where that is its name."""
        known = _CLASS_NAMES.get(self.inputs)
        return f"class {code}" if known is None or self.variant in (FIRST, REST) else known[code]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one image, or (dimensions,) where there are only features."""
        return self._facts.shape

    @property
    def _facts(self) -> _Facts:
        return DATA[self.inputs]

    @property
    def has_images(self) -> bool:
        """Whether it is there as images too; what was relabelled or thinned out is there as features alone."""
        return self.variant not in (TAUGHT, TAILED)

    def images(self, encoder: str = "auto") -> dict[str, str]:
        """`[data]` of a sweep whose students see images; `encoder` makes features of them for metrics that need it."""
        assert self.has_images, f"{self.title}: only there as features"
        if self.limit is not None:
            raise PareError(f"{self.title}: a part of it is only there as features.")
        return {"source": self.location, "encoder": encoder}

    @property
    def location(self) -> str:
        """What `open_source` opens as images."""
        if self.folder is None:
            return f"{self.name}:"
        opened_as = "mnist" if self.inputs == "digits" else self.inputs
        return f"{opened_as}:{self.folder}"

    def features(self) -> dict[str, str]:
        """`[data]` of a sweep whose students see vectors: the features as they are, or the pixels as numbers in [0, 1].

        Ids are numbers of rows; `rows()[id]` is the row of a part in the whole.
        """
        folder = self.parts / f"{self.name}-{self.examples}"
        names = {"source": "train", "labels": "train_labels", "test": "test", "test_labels": "test_labels"}
        if self.folder is not None and not folder.exists():
            splits = relabel(dict(self._vectors())) if self.variant == TAUGHT else dict(self._vectors())
            with write_whole(folder, folder=True) as part:
                for split, (values, labels) in splits.items():
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
        whole = _half(self._facts.examples) if self.variant in (FIRST, REST) else self._facts.examples
        order = np.argsort(hash_ids(np.arange(whole), seed=0x5AB5), kind="stable")
        if self.variant == TAILED:
            _, labels = dict(self._vectors())["train"]
            of_class = [np.flatnonzero(labels[order] == code) for code in range(self.classes)]
            few = [places[:size] for places, size in zip(of_class, self.class_sizes, strict=True)]
            order = order[np.sort(np.concatenate(few))]
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
        inputs = _made_of(name)
        if inputs != name and name.removeprefix(inputs) in (FIRST, REST):
            try:
                whole = find_dataset([inputs], given, parts)
            except PareError:
                continue
            return Dataset(name, _write_half(whole, name.endswith(FIRST), parts / name), parts)
        if inputs == "digits":
            return Dataset(name, _write_digits(parts / "digits"), parts)
        for folder in (None if given is None else given / inputs, DATA[inputs].usual):
            if folder is not None and Path(folder).is_dir():
                return Dataset(name, Path(folder), parts)
    known = {inputs: DATA[inputs] for inputs in map(_made_of, names)}
    asked = " or ".join(f"{n} ({facts.title}{facts.files and f': {facts.files}'})" for n, facts in known.items())
    where = "a folder of data sets (--data), with one of these folders in it" if given is None else f"{given} to have"
    raise PareError(f"this needs {where}: {asked}.")


def _tail_shares(classes: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    """How large each class of a long tail is, of the largest."""
    return _TAIL ** -np.linspace(0, 1, classes)


def title_of(name: str) -> str:
    """A data set as people call it; a name that is not known, as of another version's record, stays as it is."""
    return Dataset(name, None, Path()).title if _made_of(name) in DATA else name


def _made_of(name: str) -> str:
    return next((name.removesuffix(variant) for variant in _VARIANTS if name.endswith(variant)), name)


def _half(examples: int) -> int:
    """How many training examples are taken of one half of the classes, as these need not be equally large."""
    return int(_WHOLE * examples / 2)


def _write_half(whole: Dataset, first: bool, folder: Path) -> Path:
    """The images of one half of the classes as files in MNIST's format; of those for training the first by hash."""
    if folder.is_dir():
        return folder
    middle = whole.classes // 2
    with write_whole(folder, folder=True) as part:
        for split, name in (("train", "train"), ("test", "t10k")):
            images = open_source(whole.location, split=split)
            assert isinstance(images, ArrayImages)
            assert isinstance(images.labels, Labels)
            codes = images.labels.codes
            rows = np.flatnonzero((codes < middle) == first)
            if split == "train":
                rows = np.sort(rows[np.argsort(hash_ids(rows, seed=0x5AB5), kind="stable")][: _half(whole.examples)])
            _write_idx(part / f"{name}-images-idx3-ubyte", images.pixels[rows].reshape(len(rows), *whole.shape[:2]))
            _write_idx(part / f"{name}-labels-idx1-ubyte", codes[rows].astype(np.uint8))
    return folder


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
