"""What a network sees of an image: its middle, or a random part of it. Pillow and numpy only."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from paredown.embeddings.encoders.base import Preprocess

_GREY = ("1", "L")  # Pillow's modes of one channel
_LEAST_AREA, _STRETCH = 0.08, 4 / 3  # of the usual random-resized crop


def square(image: Image.Image, resize: int, size: int) -> Image.Image:
    """The middle `size` x `size` pixels of a grey or RGB image whose shorter side is resized to `resize`."""
    return Preprocess(size, resize).middle(image.convert("L" if image.mode in _GREY else "RGB"))


def middle(images: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """The middle `size` x `size` pixels of images that are at least as large, (n, height, width, channels)."""
    top, left = (round((side - size) / 2) for side in images.shape[1:3])
    return images[:, top : top + size, left : left + size]


def random_view(image: Image.Image, size: int, crop: NDArray[np.floating]) -> NDArray[np.uint8]:
    """The usual random-resized crop: 8 to 100 % of the area, 3:4 to 4:3.

    A crop that would not fit is clamped to the image, where torchvision draws again: four numbers are then enough.
    """
    width, height = image.size
    area = (_LEAST_AREA + (1 - _LEAST_AREA) * crop[0]) * width * height
    stretch = _STRETCH ** (2 * crop[1] - 1)  # width over height
    wide, high = min(width, (area * stretch) ** 0.5), min(height, (area / stretch) ** 0.5)
    left, top = crop[2] * (width - wide), crop[3] * (height - high)
    box = (float(left), float(top), float(left + wide), float(top + high))
    return np.asarray(image.resize((size, size), Image.Resampling.BILINEAR, box=box))


def plain(image: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """An image as Pillow takes it: a single channel has no axis."""
    return image[..., 0] if image.shape[-1] == 1 else image
