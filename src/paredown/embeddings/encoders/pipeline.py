"""Decoding, preparing and encoding at the same time: threads prepare images ahead of the encoder, in order.

Threads are enough because Pillow decodes and resizes, numpy normalises and the runtimes compute outside Python's lock.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
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
from paredown.workers import available_cores

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
    source: ImageSource, prepare: Callable[[Image.Image], Any], *, rows: Iterable[int], workers: int
) -> Iterator[Any]:
    """Some ascending rows of a source, decoded and prepared by threads ahead of need, in order.

    An image that cannot be read is a `Skipped` in its place.
    """

    def work(item: tuple[Path | bytes, str]) -> Any:
        file, name = item
        image = decode_image(file, name)
        if isinstance(image, Skipped):
            return image
        try:
            return prepare(image)
        except (OSError, ValueError, MemoryError) as error:  # sizes and modes that Pillow cannot resize or convert
            return Skipped(name, f"cannot be prepared: {error}")

    check_least(1, workers=workers)
    yield from work_ahead(work, _files(source, rows), workers=workers, ahead=AHEAD)


def work_ahead(work: Callable[[Any], Any], items: Iterable[Any], *, workers: int, ahead: int) -> Iterator[Any]:
    """`work(item)` of every item in order, done by threads up to so many items before it is asked for."""
    with ThreadPoolExecutor(workers, thread_name_prefix="paredown-decode") as pool:
        waiting: deque[Future[Any]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # whoever stops early does not wait for what is still in the queue
            pool.shutdown(wait=False, cancel_futures=True)


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
    prepared = track(prepared_images(source, prepare, rows=rows, workers=workers), label, total=len(rows))
    images = {}
    for row, image in zip(rows, prepared, strict=True):
        if not isinstance(image, Skipped):
            images[row] = image
        elif on_error == "raise":
            raise unreadable(source, image)
    if not images:
        raise nothing_readable(source)
    return images


def _files(source: ImageSource, rows: Iterable[int]) -> Iterator[tuple[Path | bytes, str]]:
    """The undecoded images of some ascending rows, in one pass that starts at the first of them."""
    files: Iterator[tuple[Path | bytes, str]] | None = None
    at = 0
    for row in rows:
        if files is None:
            files, at = source.files(row), row
        yield next(islice(files, row - at, None))
        at = row + 1


def encode_images(
    images: Iterator[Any], number: int, encoder: Encoder, *, source: ImageSource, on_error: OnError
) -> Encoded:
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
                raise unreadable(source, image)
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


def unreadable(source: ImageSource, image: Skipped) -> PareError:
    """The error for an image that cannot be read."""
    return PareError(
        f"{source.location}: image {image.what} {image.why}; fix or remove it, or leave it out with "
        f"{argument('on_error', 'skip')}."
    )


def nothing_readable(source: ImageSource) -> PareError:
    """The error for a source without a single image that can be read."""
    return PareError(f"{source.location}: none of its {len(source)} images could be read.")
