"""What an encoder is, and how images are prepared for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from paredown.errors import PareError, argument

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
_FILTERS = {
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "lanczos": Image.Resampling.LANCZOS,
    "nearest": Image.Resampling.NEAREST,
}


@dataclass(frozen=True)
class Encoder:
    """From images to vectors in two steps, so that the first can run in threads while the second computes.

    `forward` must give every row the same value whatever its neighbours are. `settings` is what another run needs to
    agree on to give the same vectors; `state` are arrays fitted to the images, to be kept with the vectors. `identity`
    is what `encoder_identity` says of one that was loaded by its name.
    """

    name: str
    summary: str  # one line for people
    prepare: Callable[[Image.Image], Any]
    forward: Callable[[list[Any]], NDArray[Any]]  # prepared images -> (rows, dimensions)
    settings: Mapping[str, Any] = field(default_factory=dict)
    state: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    batch_size: int = 32
    warnings: tuple[str, ...] = ()
    identity: Mapping[str, Any] | None = None

    def encode(self, prepared: list[Any]) -> NDArray[np.float32]:
        """Vectors of some prepared images, checked to be one finite row each."""
        vectors = np.asarray(self.forward(prepared))
        if vectors.ndim != 2 or len(vectors) != len(prepared) or vectors.dtype.kind not in "fiu":
            raise PareError(
                f"encoder {self.name!r} must return one row of numbers per image; for {len(prepared)} images it "
                f"returned shape {vectors.shape} of {vectors.dtype}."
            )
        return vectors.astype(np.float32, copy=False)


@dataclass(frozen=True)
class Preprocess:
    """The usual evaluation transform: shorter side to `resize`, centre crop to `size`, normalise.

    The same numbers as torchvision's Resize, CenterCrop, ToTensor and Normalize on a PIL image. With `squash`, both
    sides are resized to `resize` whatever the shape of the image.
    """

    size: int = 224
    resize: int = 256
    interpolation: str = "bilinear"
    mean: Sequence[float] = IMAGENET_MEAN
    std: Sequence[float] = IMAGENET_STD
    squash: bool = False

    def __call__(self, image: Image.Image) -> NDArray[np.float32]:
        """One image as (3, size, size)."""
        mean, std = np.array(self.mean, np.float32), np.array(self.std, np.float32)
        values = np.asarray(self.middle(image.convert("RGB")), np.float32) * np.float32(1 / 255)
        return np.ascontiguousarray(((values - mean) / std).transpose(2, 0, 1), np.float32)

    def middle(self, image: Image.Image) -> Image.Image:
        """The part of an image that is looked at, in its own colours."""
        width, height = image.size
        shorter = min(width, height)
        scaled = (self.resize * width // shorter, self.resize * height // shorter)
        target = (self.resize, self.resize) if self.squash else scaled
        if target != image.size:
            image = image.resize(target, _FILTERS[self.interpolation])
        left, top = (round((side - self.size) / 2) for side in image.size)
        return image.crop((left, top, left + self.size, top + self.size))

    def at(self, size: int | None) -> Preprocess:
        """The same for another image size, cropping the same share."""
        if size is None:
            return self
        check_image_size(size)
        return replace(self, size=size, resize=round(size * self.resize / self.size))


def check_image_size(size: int) -> None:
    """Raise unless networks can be given images of this size."""
    if size < 8:
        raise PareError(f"{argument('image_size')} must be at least 8 pixels, got {size}.")


def encoder_of(function: Callable[[list[Image.Image]], NDArray[Any]]) -> Encoder:
    """An encoder from anyone's function that takes a list of RGB images and returns an array of one row each."""
    name = f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', type(function).__qualname__)}"
    return Encoder(
        name=name,
        summary=f"the Python function {name}",
        prepare=lambda image: image.convert("RGB"),
        forward=function,
        settings={"weights": "not known: a Python function"},
    )
