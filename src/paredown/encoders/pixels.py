"""Whitened PCA of pixels: the encoder that is always there, and the weakest one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

__all__ = ["PixelPCA", "fit_pixel_pca", "thumbnail"]

SIDE = 32  # images are shrunk to SIDE x SIDE RGB before anything else
COMPONENTS = 50  # the least bad number of components in experiments on Fashion-MNIST
_EPSILON = 1e-6  # of the largest variance: components below it are noise


class PixelPCA(NamedTuple):
    """A frozen linear encoder: (pixels - mean) @ projection."""

    mean: NDArray[np.float32]
    projection: NDArray[np.float32]  # (pixels, components), scaled to unit variance

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Embeddings of some thumbnails."""
        return np.matmul(pixels.astype(np.float32) - self.mean, self.projection, dtype=np.float32)


def thumbnail(image: Image.Image) -> NDArray[np.uint8]:
    """An image as SIDE * SIDE * 3 numbers."""
    small = image.convert("RGB").resize((SIDE, SIDE), Image.Resampling.BILINEAR, reducing_gap=2.0)
    return np.asarray(small, np.uint8).reshape(-1)


def fit_pixel_pca(pixels: NDArray[np.uint8]) -> PixelPCA:
    """The leading principal components of a sample of thumbnails, each scaled to unit variance."""
    sample = pixels.astype(np.float32)
    mean = sample.mean(axis=0)
    sample -= mean
    # Eigenvectors of the smaller of the two Gram matrices; both give the same components.
    if len(sample) >= sample.shape[1]:
        values, vectors = np.linalg.eigh((sample.T @ sample) / len(sample))
    else:
        values, dual = np.linalg.eigh((sample @ sample.T) / len(sample))
        vectors = sample.T @ (dual / np.sqrt(np.maximum(values, 1e-12) * len(sample)))
    order = np.argsort(values)[::-1][:COMPONENTS]
    order = order[values[order] > _EPSILON * max(float(values[order[0]]), 1e-12)]
    vectors = vectors[:, order]
    vectors *= np.where(vectors[np.abs(vectors).argmax(axis=0), np.arange(len(order))] < 0, -1, 1)  # fix the signs
    return PixelPCA(mean, (vectors / np.sqrt(values[order])).astype(np.float32))
