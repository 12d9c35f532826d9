"""Operations on stacks of images that the corruptions are made of: (rows, height, width, channels) in float32."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
SMOOTH = 0.08  # width of an elastic deformation / side
ROUGHNESS = 1.6  # amplitude of fog falls as this power of the spatial frequency


def blur(images: Floats, kernels: Floats) -> Floats:
    """Convolve with one odd-sized kernel, (1, k, k), or with one for each row; edges are mirrored."""
    from scipy.signal import fftconvolve

    reach = kernels.shape[1] // 2
    padded = np.pad(images, ((0, 0), (reach, reach), (reach, reach), (0, 0)), mode="symmetric")
    # One by one: a transform of several images at once may round differently from one of a single image.
    pairs = zip(padded, np.broadcast_to(kernels, (len(images), *kernels.shape[1:])), strict=True)
    return np.stack([fftconvolve(image, kernel[..., None], mode="valid", axes=(0, 1)) for image, kernel in pairs])


def disc(radius: float) -> Floats:
    """A disc of sum 1 whose edge falls off over one pixel, so that radii below a pixel blur too."""
    y, x = _grid(int(np.ceil(radius)) + 1)
    weights = np.clip(radius + 1 - np.hypot(y, x), 0, 1)
    return (weights / weights.sum()).astype(np.float32)


def line(length: float, angles: NDArray[np.float64]) -> Floats:
    """Lines through the centre, one for each angle, of sum 1 and one pixel wide with soft edges."""
    y, x = _grid(int(np.ceil(length / 2)) + 1)
    cos, sin = np.cos(angles)[:, None, None], np.sin(angles)[:, None, None]
    along, across = np.abs(x * cos + y * sin), np.abs(y * cos - x * sin)
    weights = np.clip(length / 2 + 0.5 - along, 0, 1) * np.clip(1 - across, 0, 1)
    return (weights / weights.sum(axis=(1, 2), keepdims=True)).astype(np.float32)


def zoom(images: Floats, factor: float) -> Floats:
    """Enlarge about the centre and cut to the old size."""
    height, width = images.shape[1:3]
    y, x = (_centred(side) * (1 / factor - 1) for side in (height, width))
    shift = np.stack(np.broadcast_arrays(y[:, None], x[None, :]))
    return displace(images, np.broadcast_to(shift, (len(images), *shift.shape)))


def displace(images: Floats, shift: NDArray[np.floating]) -> Floats:
    """Each pixel from `shift` (rows, 2, height, width) pixels away, bilinear; the edges are repeated."""
    from scipy.ndimage import map_coordinates

    found = np.empty_like(images)
    for image, (down, across), result in zip(images, shift, found, strict=True):
        place = [np.arange(image.shape[0])[:, None] + down, np.arange(image.shape[1]) + across]
        for channel in range(image.shape[2]):
            map_coordinates(image[..., channel], place, output=result[..., channel], order=1, mode="nearest")
    return found


def smooth_field(size: tuple[int, int], draw: np.random.Generator) -> Floats:
    """Two random fields of standard deviation 1 that vary slowly over the image."""
    from scipy.ndimage import gaussian_filter

    noise = draw.standard_normal((2, *size), dtype=np.float32)
    width = SMOOTH * min(size)
    field = gaussian_filter(noise, (0, width, width), mode="reflect")
    return field / field.std(axis=(1, 2), keepdims=True)


def rough_field(size: tuple[int, int], draw: np.random.Generator) -> Floats:
    """A random field from 0 to 1 with structure at every scale."""
    height, width = size
    frequency = np.hypot(np.fft.fftfreq(height)[:, None], np.fft.rfftfreq(width))
    frequency[0, 0] = np.inf  # no constant part
    noise = np.fft.rfft2(draw.standard_normal(size)) / frequency**ROUGHNESS
    field = np.fft.irfft2(noise, size)
    return ((field - field.min()) / np.ptp(field)).astype(np.float32)


def _grid(reach: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    steps = np.arange(-reach, reach + 1, dtype=np.float64)
    return steps[:, None], steps[None, :]


def _centred(side: int) -> Floats:
    return np.arange(side) - (side - 1) / 2
