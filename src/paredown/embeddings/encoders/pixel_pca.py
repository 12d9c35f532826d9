"""Whitened PCA of pixels: the encoder that is always there, and the weakest one."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from paredown.embeddings.encoders.base import Encoder
from paredown.embeddings.encoders.pipeline import readable_images
from paredown.errors import PareError
from paredown.ids import hash_ids
from paredown.progress import Track
from paredown.reading import damaged, read_arrays
from paredown.sources import ImageSource, OnError
from paredown.threads import one_blas_thread

SIDE = 32  # images are shrunk to SIDE x SIDE RGB before anything else
COMPONENTS = 50  # the least bad number of components in experiments on Fashion-MNIST
_EPSILON = 1e-6  # of the largest variance: components below it are noise
PCA_SAMPLE = 10_000  # images that the components are fitted to

WEAK_ENCODER = (
    "images were embedded by whitened PCA of their pixels, a weak encoder: pruning by such embeddings is often no "
    "better than a random subset. Use a pretrained encoder if you can."
)


class PixelPCA(NamedTuple):
    """A frozen linear encoder: (pixels - mean) @ projection."""

    mean: NDArray[np.float32]
    projection: NDArray[np.float32]  # (pixels, components), scaled to unit variance

    def encode(self, pixels: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Embeddings of some thumbnails."""
        with one_blas_thread():
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
    with one_blas_thread():  # several would round differently, and one image more or less be kept
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


def pixel_encoder(
    source: ImageSource, *, seed: int, on_error: OnError, workers: int, track: Track, saved: Path | None = None
) -> Encoder:
    """The encoder fitted to a sample of a source, or the one saved by an earlier run over it."""
    pca = None if saved is None or not saved.exists() else _load(saved, seed)
    pca = _fit(source, seed, on_error, workers, track) if pca is None else pca
    components = pca.projection.shape[1]
    return Encoder(
        name="pixels",
        summary=f"whitened PCA of {SIDE} x {SIDE} pixels, {components} components",
        prepare=thumbnail,
        forward=lambda thumbnails: pca.encode(np.stack(thumbnails)),
        settings={
            "seed": seed,
            "weights": hashlib.sha256(pca.mean.tobytes() + pca.projection.tobytes()).hexdigest()[:16],
            "image_size": SIDE,
        },
        state={**pca._asdict(), "seed": np.array(seed)},
        batch_size=256,
        warnings=(WEAK_ENCODER,),
    )


def _fit(source: ImageSource, seed: int, on_error: OnError, workers: int, track: Track) -> PixelPCA:
    """Fit to the images with the smallest seeded hashes of their ids: the same ones in any order of the files."""
    order = np.argsort(hash_ids(source.ids, seed=seed))[:PCA_SAMPLE]
    how = {"on_error": on_error, "workers": workers, "track": track, "label": "fitting pixels"}
    pixels = readable_images(source, thumbnail, rows=np.sort(order).tolist(), **how)
    pca = fit_pixel_pca(np.stack([pixels[row] for row in order.tolist() if row in pixels]))
    if pca.projection.shape[1] == 0:
        raise PareError(f"{source.location}: all its images are the same, so they cannot be ranked.")
    return pca


def _load(path: Path, seed: int) -> PixelPCA | None:
    """A saved fit, or None if it was made with another seed."""
    what, remedy = "pixel encoder", "Remove it to fit a new one."
    arrays = read_arrays(path, what, remedy=remedy)
    with damaged(path, what, remedy=remedy):
        mean, projection = arrays["mean"], arrays["projection"]
        if mean.shape != (projection.shape[0],) or {mean.dtype.kind, projection.dtype.kind} != {"f"}:
            raise PareError(f"{path}: not a readable pixel encoder (its arrays do not fit together). {remedy}")
        return PixelPCA(mean, projection) if int(arrays["seed"]) == seed else None
