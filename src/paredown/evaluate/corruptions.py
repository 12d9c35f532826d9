"""Common corruptions of images at five severities, and the accuracy that is left.

The kinds are those of Hendrycks and Dietterich (2019), without snow and frost, which need pictures of their own. Sizes
(of a blur, a displacement) are shares of the image's shorter side, so that a severity looks alike at 32 and at 224
pixels. Pixels and levels are not those of ImageNet-C: compare models with each other, not with its published figures.

Every image has its own stream of random numbers, keyed by seed and row: corrupting a part of the images equals a part
of the corrupted images.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError, check_known
from paredown.evaluate.image_operations import blur, disc, displace, line, rough_field, smooth_field, zoom
from paredown.progress import Track, silent
from paredown.standard_errors import share_error

if TYPE_CHECKING:
    import pyarrow as pa

SEVERITIES = (1, 2, 3, 4, 5)
ZOOM_STEPS = 8
FOG_COLOR = 0.9
_BLOCK = 2**22  # pixels corrupted at once: bounds the memory of float32 copies

Images = NDArray[np.floating]  # (rows, height, width, channels) in [0, 1]; float32 where it can be
Draws = list[np.random.Generator]  # one per row


def corrupt(images: ArrayLike, corruption: str, severity: int, *, seed: int = 0, first: int = 0) -> NDArray[np.uint8]:
    """Corrupted copies of uint8 images.

    Args:
        images: (rows, height, width) or (rows, height, width, channels) with 1 or 3 channels.
        corruption: a name in `CORRUPTIONS`.
        severity: 1 (mild) to 5.
        first: row number of the first image, where a large set is corrupted part by part.
    """
    pixels = _check(images)
    check_known("corruption", corruption, CORRUPTIONS)
    if severity not in SEVERITIES:
        raise PareError(f"severity must be a whole number from 1 to 5, got {severity!r}.")
    change, levels = CORRUPTIONS[corruption]
    rows = max(1, _BLOCK // max(1, int(np.prod(pixels.shape[1:]))))
    corrupted = np.empty_like(pixels)
    for start in range(0, len(pixels), rows):
        block = pixels[start : start + rows]
        streams = [_stream(seed, first + start + row) for row in range(len(block))]
        changed = change(block.astype(np.float32) / 255, levels[severity - 1], streams)
        corrupted[start : start + rows] = np.rint(np.clip(changed, 0, 1) * 255)
    return corrupted.reshape(np.shape(images))


@dataclass(frozen=True)
class CorruptionAccuracy:
    """Accuracy on clean images and on each corruption at each severity."""

    clean: float
    corruptions: tuple[str, ...]
    severities: tuple[int, ...]
    accuracy: NDArray[np.float64]  # (corruptions, severities)
    examples: int

    @property
    def mean(self) -> float:
        """Mean accuracy over corruptions and severities."""
        return float(self.accuracy.mean())

    @property
    def stderr(self) -> NDArray[np.float64]:
        """Binomial standard error of each accuracy, from the number of test images."""
        return share_error(self.accuracy, self.examples)

    def table(self) -> pa.Table:
        """One row per corruption and severity, clean images first as severity 0."""
        import pyarrow as pa

        names = [name for name in self.corruptions for _ in self.severities]
        return pa.table(
            {
                "corruption": ["none", *names],
                "severity": [0, *self.severities * len(self.corruptions)],
                "accuracy": [self.clean, *self.accuracy.ravel().tolist()],
            }
        )


def measure_corruptions(
    predict: Callable[[NDArray[np.uint8]], ArrayLike],
    images: ArrayLike,
    labels: ArrayLike,
    *,
    corruptions: Sequence[str] | None = None,
    severities: Sequence[int] = SEVERITIES,
    seed: int = 0,
    track: Track = silent,
) -> CorruptionAccuracy:
    """Accuracy of a model on corrupted copies of test images; the same copies for every model with the same seed.

    Args:
        predict: takes uint8 images and returns class codes (rows,), or logits (rows, classes).
        images, labels: as for `corrupt`, and class codes.
        corruptions, severities: all, if not given.
    """
    pixels, truth = np.asarray(images), np.asarray(labels)
    _check(pixels)
    if truth.shape != (len(pixels),):
        raise PareError(f"labels must be one class code for each of {len(pixels)} images, got shape {truth.shape}.")
    names = tuple(CORRUPTIONS if corruptions is None else corruptions)

    def measure(given: NDArray[np.uint8]) -> float:
        answer = np.asarray(predict(given))
        codes = answer.argmax(axis=1) if answer.ndim == 2 else answer
        if codes.shape != truth.shape:
            raise PareError(
                f"predict returned shape {answer.shape} for {len(truth)} images; return class codes or logits."
            )
        return float((codes == truth).mean())

    todo = [(name, severity) for name in names for severity in severities]
    found = [
        measure(corrupt(pixels, name, severity, seed=seed))
        for name, severity in track(todo, "corruptions", total=len(todo))
    ]
    accuracy = np.array(found).reshape(len(names), len(severities))
    return CorruptionAccuracy(measure(pixels), names, tuple(severities), accuracy, len(truth))


def _check(images: ArrayLike) -> NDArray[np.uint8]:
    """Images as (rows, height, width, channels)."""
    pixels = np.asarray(images)
    if pixels.dtype != np.uint8:
        raise PareError(f"images must be uint8 from 0 to 255, got {pixels.dtype}; undo the normalisation first.")
    if pixels.ndim == 3:
        pixels = pixels[..., None]
    if pixels.ndim != 4 or pixels.shape[3] not in (1, 3) or not pixels.size:
        raise PareError(
            f"images must be (rows, height, width) or (rows, height, width, 1 or 3 channels), got {np.shape(images)}."
        )
    return pixels


def _stream(seed: int, row: int) -> np.random.Generator:
    return np.random.Generator(np.random.Philox(key=np.array([seed, row], dtype=np.uint64)))


def _side(x: Images) -> int:
    return min(x.shape[1:3])


def _gaussian_noise(x: Images, level: float, draws: Draws) -> Images:
    return x + level * np.stack([draw.standard_normal(x.shape[1:], dtype=np.float32) for draw in draws])


def _shot_noise(x: Images, photons: float, draws: Draws) -> Images:
    counts = np.stack([draw.poisson(photons * image) for image, draw in zip(x, draws, strict=True)])
    return counts.astype(np.float32) / photons


def _impulse_noise(x: Images, share: float, draws: Draws) -> Images:
    chance = np.stack([draw.random(x.shape[1:], dtype=np.float32) for draw in draws])
    return np.where(chance < share / 2, 0, np.where(chance > 1 - share / 2, 1, x))


def _defocus_blur(x: Images, radius: float, draws: Draws) -> Images:
    return blur(x, disc(radius * _side(x))[None])


def _motion_blur(x: Images, length: float, draws: Draws) -> Images:
    return blur(x, line(length * _side(x), np.array([draw.uniform(0, np.pi) for draw in draws])))


def _zoom_blur(x: Images, most: float, draws: Draws) -> Images:
    return np.mean([zoom(x, factor) for factor in np.linspace(1, most, ZOOM_STEPS)], axis=0)


def _glass_blur(x: Images, reach: float, draws: Draws) -> Images:
    shift = np.stack([draw.standard_normal((2, *x.shape[1:3]), dtype=np.float32) for draw in draws])
    return displace(x, reach * _side(x) * shift)


def _elastic(x: Images, reach: float, draws: Draws) -> Images:
    shift = np.stack([smooth_field(x.shape[1:3], draw) for draw in draws])
    return displace(x, reach * _side(x) * shift)


def _fog(x: Images, depth: float, draws: Draws) -> Images:
    thickness = np.stack([rough_field(x.shape[1:3], draw) for draw in draws])[..., None]
    haze = depth * (0.5 + 0.5 * thickness)
    return x * (1 - haze) + FOG_COLOR * haze


def _brightness(x: Images, lift: float, draws: Draws) -> Images:
    """Raise the brightest channel and the others in proportion, which keeps the hue; black becomes grey."""
    value = x.max(axis=3, keepdims=True)
    lifted = np.minimum(value + lift, 1)
    return np.where(value > 0, x * (lifted / np.maximum(value, 1e-6)), lifted)


def _contrast(x: Images, left: float, draws: Draws) -> Images:
    mean = x.mean(axis=(1, 2), keepdims=True)
    return mean + left * (x - mean)


def _pixelate(x: Images, left: float, draws: Draws) -> Images:
    """Replace cells by their mean; `left` of the rows and columns of pixels remain."""
    for axis in (1, 2):
        side = x.shape[axis]
        cells = max(1, round(side * left))
        starts = -(np.arange(cells) * -side // cells)
        sizes = np.diff(starts, append=side)
        means = np.moveaxis(np.add.reduceat(x, starts, axis=axis), axis, -1) / sizes
        x = np.moveaxis(np.repeat(means, sizes, axis=-1), -1, axis)
    return x


def _jpeg(x: Images, quality: float, draws: Draws) -> Images:
    from PIL import Image

    def squeeze(image: NDArray[np.uint8]) -> NDArray[Any]:
        file = BytesIO()
        Image.fromarray(image.squeeze(axis=2) if image.shape[2] == 1 else image).save(
            file, "JPEG", quality=int(quality)
        )
        return np.asarray(Image.open(file)).reshape(image.shape)

    return np.stack([squeeze(image) for image in np.rint(x * 255).astype(np.uint8)]).astype(np.float32) / 255


# name -> how, and its levels at severities 1 to 5
CORRUPTIONS: dict[str, tuple[Callable[[Images, float, Draws], Images], tuple[float, ...]]] = {
    "gaussian_noise": (_gaussian_noise, (0.04, 0.08, 0.12, 0.18, 0.26)),  # standard deviation
    "shot_noise": (_shot_noise, (250, 100, 50, 25, 12)),  # photons of a white pixel
    "impulse_noise": (_impulse_noise, (0.01, 0.03, 0.06, 0.11, 0.2)),  # share of values
    "defocus_blur": (_defocus_blur, (0.012, 0.02, 0.03, 0.045, 0.06)),  # radius / side
    "glass_blur": (_glass_blur, (0.01, 0.015, 0.02, 0.03, 0.04)),  # standard deviation of the shift / side
    "motion_blur": (_motion_blur, (0.04, 0.065, 0.1, 0.14, 0.2)),  # length / side
    "zoom_blur": (_zoom_blur, (1.06, 1.12, 1.18, 1.25, 1.33)),  # largest factor
    "fog": (_fog, (0.2, 0.35, 0.5, 0.65, 0.8)),  # opacity where it is thickest
    "brightness": (_brightness, (0.1, 0.2, 0.3, 0.4, 0.5)),
    "contrast": (_contrast, (0.6, 0.45, 0.3, 0.2, 0.1)),  # what is left of it
    "elastic": (_elastic, (0.01, 0.02, 0.03, 0.04, 0.05)),  # standard deviation of the shift / side
    "pixelate": (_pixelate, (0.75, 0.6, 0.5, 0.35, 0.25)),  # resolution left
    "jpeg": (_jpeg, (50, 30, 20, 12, 7)),  # quality
}
