"""From images to embeddings. `encode` is the arrow; an encoder is a function from thumbnails or images to vectors.

`auto` takes the best encoder that is really there. Offline, without a deep-learning library, that is whitened PCA of
pixels, which prunes badly on anything but simple images; the result says so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.data import Labels, hash_ids
from paredown.encoders.pixels import SIDE, fit_pixel_pca, thumbnail
from paredown.errors import PareError, unknown_name
from paredown.progress import Track, silent
from paredown.sources import ArraySource, ImageSource, OnError, Skipped

__all__ = ["ENCODERS", "EncodedImages", "encode"]

_PCA_SAMPLE = 10_000  # images that the components are fitted to

WEAK_ENCODER = (
    "images were embedded by whitened PCA of their pixels, a weak encoder: prototypes of weak embeddings often prune "
    "no better than chance. Give embeddings of a pretrained model where you can."
)


class EncodedImages(ArraySource):
    """The embeddings of an image source, with the encoder that made them."""

    encoder: str
    warnings: tuple[str, ...]

    def provenance(self) -> dict[str, Any]:
        return super().provenance() | {"encoder": self.encoder}


def encode(
    source: ImageSource,
    *,
    encoder: str = "auto",
    seed: int = 0,
    on_error: OnError = "raise",
    track: Track = silent,
) -> EncodedImages:
    """Embed every image of a source; one that cannot be read raises, or is left out and listed in `skipped`."""
    name = "pixels" if encoder == "auto" else encoder
    if name not in ENCODERS:
        raise unknown_name("encoder", name, ["auto", *ENCODERS])
    return ENCODERS[name](source, seed=seed, on_error=on_error, track=track)


def _encode_pixels(source: ImageSource, *, seed: int, on_error: OnError, track: Track) -> EncodedImages:
    pixels = np.empty((len(source), SIDE * SIDE * 3), np.uint8)
    readable = np.zeros(len(source), bool)
    skipped: list[Skipped] = []
    for row, image in enumerate(track(source.images(), "reading images", total=len(source))):
        if isinstance(image, Skipped):
            if on_error == "raise":
                raise PareError(
                    f"{source.location}: image {image.what} {image.why}; mend or remove it, "
                    "or leave it out with --on-error skip."
                )
            skipped.append(image)
        else:
            pixels[row], readable[row] = thumbnail(image), True
    if not readable.any():
        raise PareError(f"{source.location}: none of its {len(source)} images could be read.")
    pixels, ids = pixels[readable], source.ids[readable]
    sample = np.argsort(hash_ids(ids, seed=seed))[:_PCA_SAMPLE]
    pca = fit_pixel_pca(pixels[sample])
    if pca.projection.shape[1] == 0:
        raise PareError(f"{source.location}: all its images look alike; there is nothing to tell them apart by.")
    return _encoded(source, readable, _in_blocks(pca.encode, pixels), skipped)


def _in_blocks(function: Any, rows: NDArray[Any], size: int = 4096) -> NDArray[np.float32]:
    return np.concatenate([function(rows[first : first + size]) for first in range(0, len(rows), size)])


def _encoded(
    source: ImageSource, readable: NDArray[np.bool_], vectors: NDArray[np.float32], skipped: list[Skipped]
) -> EncodedImages:
    labels: Labels | None = None if source.labels is None else source.labels[readable]
    result = EncodedImages(
        vectors,
        ids=source.ids[readable],
        labels=labels,
        location=source.location,
        kind=source.kind,
        fingerprint=source.fingerprint(),
    )
    result.skipped, result.opened_with = source.skipped + skipped, source.opened_with
    result.encoder = f"whitened PCA of {SIDE} x {SIDE} pixels, {vectors.shape[1]} components"
    result.warnings = (WEAK_ENCODER,)
    return result


ENCODERS = {"pixels": _encode_pixels}
