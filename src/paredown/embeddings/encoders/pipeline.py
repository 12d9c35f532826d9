"""Decoding, preparing and encoding at the same time: threads prepare images ahead of the encoder, in order.

Threads are enough because Pillow decodes and resizes, numpy normalises and the runtimes compute outside Python's lock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from paredown.embeddings.encoders.base import Encoder
from paredown.errors import PareError, argument, check_least
from paredown.progress import Track
from paredown.sources import ImageSource, OnError, Skipped
from paredown.sources.image_decoding import decode_image
from paredown.sources.object_reading import fetched
from paredown.workers import available_cores, work_ahead

AHEAD = 64  # prepared images that may wait: about two batches, 40 MB at 224 x 224


class Encoded(NamedTuple):
    """The vectors of the readable images among some rows."""

    vectors: NDArray[np.float32]
    readable: NDArray[np.bool_]  # one per row
    skipped: list[Skipped]


def default_workers() -> int:
    """One thread per usable core, at most eight. The bound is a guess, not a measurement."""
    return min(8, available_cores())


def prepared_images(
    files: Iterable[tuple[Path | bytes, str]], prepare: Callable[[Image.Image], Any], *, workers: int
) -> Iterator[Any]:
    """Undecoded images, decoded and prepared by threads ahead of need, in order; those of object stores fetched before.

    An image that cannot be read is a `Skipped` in its place.
    """

    def work(item: tuple[Path | bytes | Skipped, str]) -> Any:
        file, name = item
        image = file if isinstance(file, Skipped) else decode_image(file, name)
        if isinstance(image, Skipped):
            return image
        try:
            return prepare(image)
        except (OSError, ValueError, MemoryError) as error:  # sizes and modes that Pillow cannot resize or convert
            return Skipped(name, f"cannot be prepared: {error}")

    check_least(1, workers=workers)
    yield from work_ahead(work, fetched(files), workers=workers, ahead=AHEAD)


def readable_images(
    source: ImageSource,
    prepare: Callable[[Image.Image], Any],
    *,
    rows: Sequence[int],
    on_error: OnError,
    workers: int,
    track: Track,
    label: str,
) -> dict[int, Any]:
    """The prepared images of some ascending rows that can be read, by row; at least one, or it is an error."""
    picked = ((file, name) for _, file, name in source.pick(rows))
    prepared = track(prepared_images(picked, prepare, workers=workers), label, total=len(rows))
    images = {}
    for row, image in zip(rows, prepared, strict=True):
        if not isinstance(image, Skipped):
            images[row] = image
        elif on_error == "raise":
            raise unreadable(source.location, image)
    if not images:
        raise nothing_readable(source.location, len(source))
    return images


def encode_images(images: Iterator[Any], number: int, encoder: Encoder, *, location: str, on_error: OnError) -> Encoded:
    """Encode the next `number` prepared images in batches; an unreadable one raises, or is left out and listed.

    Batches are cut by rows, readable or not, so that a run that starts again in the middle cuts the same ones.
    """
    readable = np.zeros(number, bool)
    skipped: list[Skipped] = []
    vectors: list[NDArray[np.float32]] = []
    for first in range(0, number, encoder.batch_size):
        batch = []
        for row, image in enumerate(islice(images, min(encoder.batch_size, number - first)), first):
            if not isinstance(image, Skipped):
                readable[row] = True
                batch.append(image)
            elif on_error == "raise":
                raise unreadable(location, image)
            else:
                skipped.append(image)
        if batch:
            vectors.append(encoder.encode(batch))
    if not vectors:
        grey = encoder.prepare(Image.new("RGB", (64, 64), (128, 128, 128)))  # only to learn the number of dimensions
        vectors.append(encoder.encode([grey])[:0])
    widths = {block.shape[1] for block in vectors}
    if len(widths) > 1:
        raise PareError(f"encoder {encoder.name!r} returned rows of different lengths: {sorted(widths)}.")
    return Encoded(np.concatenate(vectors), readable, skipped)


def unreadable(location: str, image: Skipped) -> PareError:
    """The error for an image of a source that cannot be read."""
    return PareError(
        f"{location}: image {image.what} {image.why}; fix or remove it, or leave it out with "
        f"{argument('on_error', 'skip')}."
    )


def nothing_readable(location: str, number: int) -> PareError:
    """The error for a source without a single image that can be read."""
    return PareError(f"{location}: none of its {number} images could be read.")
