"""What a network is trained on: inputs with class codes, held in memory or decoded batch by batch. numpy only.

Both kinds have the same small interface, `TrainingSet`, so that the loop does not know which one it has.
"""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain, islice, repeat
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from paredown.embeddings.encoders import Encoder, encode, load_encoder
from paredown.embeddings.encoders.pipeline import default_workers, readable_images, unreadable
from paredown.errors import PareError, argument, check_known
from paredown.ids import name_rows
from paredown.progress import Track, silent
from paredown.scores import Labels
from paredown.sources import ArrayImages, ImageSource, OnError, Skipped, Source, VectorSource
from paredown.sources.image_decoding import decode_image
from paredown.training.recipes import Recipe
from paredown.training.views import middle, plain, random_view, square
from paredown.units import parse_size
from paredown.workers import work_ahead

_MARGIN = 256 / 224  # how much larger than the network's input an image is kept for `imagenet` augmentation
_AHEAD = 2  # batches that may wait for the training step

Batches = Sequence[NDArray[np.int64]]  # the rows of each
Crops = Sequence[NDArray[np.floating]]  # four numbers in [0, 1) for each of them


class TrainingSet(ABC):
    """Labelled inputs in a fixed order, from which batches are taken by row number."""

    labels: NDArray[np.int64]  # class codes
    classes: tuple[str, ...]
    ids: NDArray[Any]

    def __len__(self) -> int:
        return len(self.labels)

    @property
    @abstractmethod
    def shape(self) -> tuple[int, ...]:
        """Of one input: (dimensions,) of features, (height, width, channels) of images."""

    @abstractmethod
    def take(self, rows: ArrayLike) -> TrainingSet:
        """Some rows, in the order given."""

    @abstractmethod
    def batches(self, rows: Batches, *, size: int | None = None, crops: Crops | None = None) -> Iterator[NDArray[Any]]:
        """The inputs of some batches of rows, one array for each.

        Images come as `size` x `size` pixels: their middle, or, with `crops`, a random-resized crop that four numbers
        per row decide (area, shape, place across and down).
        """

    @abstractmethod
    def fingerprint(self) -> str:
        """A short hash that changes when inputs or labels do."""


@dataclass(frozen=True)
class Examples(TrainingSet):
    """All examples in memory."""

    inputs: NDArray[Any]  # float32 (n, d) features as stored, or uint8 (n, height, width, 3 or, if all are grey, 1)
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    ids: NDArray[Any]
    encoder: Encoder | None = field(default=None, compare=False)  # what made features of images

    def __post_init__(self) -> None:
        if not len(self.inputs) == len(self.labels) == len(self.ids):
            raise PareError(
                f"examples need one label and one id per input; there are {len(self.inputs)} inputs, "
                f"{len(self.labels)} labels and {len(self.ids)} ids."
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return self.inputs.shape[1:]

    def take(self, rows: ArrayLike) -> Examples:
        rows = np.asarray(rows)
        return replace(self, inputs=self.inputs[rows], labels=self.labels[rows], ids=self.ids[rows])

    def batches(self, rows: Batches, *, size: int | None = None, crops: Crops | None = None) -> Iterator[NDArray[Any]]:
        for number, batch in enumerate(rows):
            if size is None:
                yield self.inputs[batch]
            elif crops is None:
                yield middle(self.inputs[batch], size)
            else:
                images = (Image.fromarray(plain(self.inputs[row])) for row in batch)
                views = [random_view(image, size, crop) for image, crop in zip(images, crops[number], strict=True)]
                yield np.stack(views).reshape(len(batch), size, size, -1)

    def fingerprint(self) -> str:
        digest = hashlib.sha256(repr((self.inputs.shape, self.inputs.dtype.str)).encode())
        digest.update(np.ascontiguousarray(self.inputs).data)
        return _with_labels(digest, self)


@dataclass(frozen=True)
class StreamedExamples(TrainingSet):
    """Images decoded by threads, a few batches ahead of the training step: for what does not fit in memory."""

    source: ImageSource
    rows: NDArray[np.int64]  # of the source
    labels: NDArray[np.int64]
    classes: tuple[str, ...]
    image_size: int
    stored_size: int  # of the shorter side before the middle is cut out
    workers: int = 1

    @property
    def ids(self) -> NDArray[Any]:  # type: ignore[override]  # derived here, held by the other kind
        return self.source.ids[self.rows]

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.image_size, self.image_size, 3)

    def take(self, rows: ArrayLike) -> StreamedExamples:
        rows = np.asarray(rows)
        return replace(self, rows=self.rows[rows], labels=self.labels[rows])

    def batches(self, rows: Batches, *, size: int | None = None, crops: Crops | None = None) -> Iterator[NDArray[Any]]:
        size = self.image_size if size is None else size
        cuts = chain.from_iterable(crops) if crops is not None else repeat(None)
        wanted = ((row, size, cut) for row, cut in zip(chain.from_iterable(rows), cuts, strict=False))
        ahead = _AHEAD * max(map(len, rows), default=1)
        views = work_ahead(self._view, wanted, workers=self.workers, ahead=ahead)
        for batch in rows:
            yield np.stack(list(islice(views, len(batch))))

    def _view(self, wanted: tuple[int, int, NDArray[np.floating] | None]) -> NDArray[np.uint8]:
        row, size, crop = wanted
        image = decode_image(*self.source.file(int(self.rows[row])))
        if isinstance(image, Skipped):
            raise unreadable(self.source.location, image)
        image = image.convert("RGB")
        if crop is None:
            return np.asarray(square(image, self.stored_size, size))
        return np.asarray(random_view(image, size, crop))

    def fingerprint(self) -> str:
        digest = hashlib.sha256(f"{self.source.fingerprint()} {self.image_size} {self.stored_size}".encode())
        digest.update(self.rows.tobytes())
        return _with_labels(digest, self)


def load_examples(
    source: Source,
    recipe: Recipe,
    *,
    labels_from: ArrayLike | Labels | None = None,
    like: TrainingSet | None = None,
    encoder: str | Encoder | Callable[..., Any] = "auto",
    seed: int = 0,
    on_error: OnError = "raise",
    memory: str | float = "4GiB",
    workers: int | None = None,
    track: Track = silent,
) -> TrainingSet:
    """The examples of a source in the form that a recipe trains on.

    Args:
        source: features for a recipe of features (as stored, not scaled to unit length), or images, which `encoder`
            embeds first; images for a recipe of images, resized to its `image_size`.
        recipe: decides the form.
        labels_from: one class per example in place of the source's own, such as cluster ids where there are no labels.
        like: examples whose classes and encoder are used again, for a test set.
        encoder: how images become features; `seed` is that of an encoder fitted to them.
        on_error: `raise` at the first unreadable image, or `skip` it.
        memory: images that would take more are decoded batch by batch while training, by `workers` threads.
        track: reports progress.
    """
    labels = _labels_of(source, labels_from, like)
    workers = default_workers() if workers is None else workers
    if recipe.inputs == "features":
        if not isinstance(source, ImageSource):
            return _features(source, labels)
        again = getattr(like, "encoder", None) or encoder  # a test set takes the encoder fitted to its training set
        loaded = load_encoder(again, source=source, seed=seed, on_error=on_error, workers=workers, track=track)
        encoded = encode(source, encoder=loaded, on_error=on_error, workers=workers, track=track)
        kept = np.isin(source.ids, encoded.ids) if len(encoded) < len(source) else np.ones(len(source), bool)
        return _features(encoded, labels[kept], loaded)
    check_form(source, recipe)
    assert isinstance(source, ImageSource)
    size, stored = _sizes(recipe)
    if image_bytes(len(source), recipe) > parse_size(memory):
        rows = _readable(source, on_error, workers, track)
        return StreamedExamples(source, rows, labels.codes[rows], labels.classes, size, stored, workers)
    return _decoded(source, labels, stored, on_error, workers, track)


def check_form(source: Source, recipe: Recipe) -> None:
    """Raise if a recipe trains on images and the source has none."""
    if recipe.inputs == "images" and not isinstance(source, ImageSource):
        raise PareError(
            f"{source.location}: recipe {recipe.name!r} trains on images, and these are vectors ({source.kind}); give "
            "the images, or a recipe for features such as 'mlp' or 'linear'."
        )


def image_bytes(n: int, recipe: Recipe) -> int:
    """What `n` images take in memory, in the form that a recipe of images trains on; a third of it if all are grey."""
    _, stored = _sizes(recipe)
    return n * stored * stored * 3


def _sizes(recipe: Recipe) -> tuple[int, int]:
    """The side of what the network sees, and of the images that this is cut out of."""
    if recipe.image_size is None:
        raise PareError(f"recipe {recipe.name!r} trains on images, and says no image_size; set one.")
    return recipe.image_size, round(recipe.image_size * _MARGIN) if recipe.augment == "imagenet" else recipe.image_size


def _labels_of(source: Source, given: ArrayLike | Labels | None, like: TrainingSet | None) -> Labels:
    labels = source.labels if given is None else Labels.of(given, length=len(source))
    if labels is None:
        raise PareError(
            f"{source.location}: training needs labels, and there are none; give them, or cluster ids in their place."
        )
    if like is None:
        return labels
    for name in labels.classes:
        check_known(f"class of {source.location}", name, like.classes)
    return labels.numbered_like(like.classes)


def _features(source: Source, labels: Labels, encoder: Encoder | None = None) -> Examples:
    assert isinstance(source, VectorSource)
    inputs = np.empty((len(source), source.dim), np.float32)
    first = 0
    for block in source.blocks(source.block_rows):
        inputs[first : first + len(block)] = block
        first += len(block)
    bad = np.flatnonzero(~np.isfinite(inputs).all(axis=1))
    if len(bad):
        raise PareError(
            f"{source.location}: {name_rows(bad, ids=source.ids[bad])} of the features hold NaN or infinite values; "
            f"fix them, or leave such rows out with {argument('on_error', 'skip')}."
        )
    return Examples(inputs, labels.codes, labels.classes, source.ids, encoder)


def _decoded(source: ImageSource, labels: Labels, size: int, on_error: OnError, workers: int, track: Track) -> Examples:
    """All images in memory; grey ones have one channel if all are grey."""
    if isinstance(source, ArrayImages) and source.pixels.shape[1:3] == (size, size):
        return Examples(source.pixels.reshape(len(source), size, size, -1), labels.codes, labels.classes, source.ids)
    prepare = lambda image: np.asarray(square(image, size, size))
    how = {"on_error": on_error, "workers": workers, "track": track, "label": "reading images"}
    images = readable_images(source, prepare, rows=range(len(source)), **how)
    channels = max(1 if image.ndim == 2 else 3 for image in images.values())
    inputs = np.empty((len(images), size, size, channels), np.uint8)
    for row, image in enumerate(images.values()):
        inputs[row] = image[..., None] if image.ndim == 2 else image
    rows = list(images)
    return Examples(inputs, labels.codes[rows], labels.classes, source.ids[rows])


def _readable(source: ImageSource, on_error: OnError, workers: int, track: Track) -> NDArray[np.int64]:
    """The rows to train on: all, or, where unreadable ones are to be skipped, those that one pass could decode."""
    if on_error == "raise":
        return np.arange(len(source))
    how = {"on_error": on_error, "workers": workers, "track": track, "label": "checking images"}
    return np.array(list(readable_images(source, lambda image: True, rows=range(len(source)), **how)))


def _with_labels(digest: Any, examples: TrainingSet) -> str:
    digest.update(examples.labels.tobytes())
    digest.update("\0".join(examples.classes).encode())
    return digest.hexdigest()[:16]
