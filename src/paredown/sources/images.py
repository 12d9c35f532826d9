"""Images as files: a folder (class subfolders are labels), or a list of paths."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from io import BytesIO
from pathlib import Path

from numpy.typing import ArrayLike
from PIL import Image, UnidentifiedImageError

from paredown.data import Labels
from paredown.errors import PareError
from paredown.sources.base import ImageSource, Options, Skipped, files_fingerprint

__all__ = ["IMAGE_SUFFIXES", "ImageFiles", "decode_image", "open_image_folder"]

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"})


class ImageFiles(ImageSource):
    """Images that are files on disk."""

    def __init__(
        self, location: str, kind: str, files: Sequence[Path], *, ids: ArrayLike, labels: ArrayLike | Labels | None
    ) -> None:
        self.paths = list(files)
        self._describe(location, kind, ids=ids, labels=labels)

    def files(self, first: int = 0) -> Iterator[tuple[Path | bytes, str]]:
        for path, name in zip(self.paths[first:], self.ids[first:], strict=True):
            yield path, str(name)

    def file(self, row: int) -> tuple[Path | bytes, str]:
        return self.paths[row], str(self.ids[row])

    def fingerprint(self) -> str:
        return files_fingerprint(path for path in self.paths if path.exists())


def decode_image(source: Path | bytes, name: str) -> Image.Image | Skipped:
    """A fully decoded image from a file or its bytes, or why it cannot be read."""
    try:
        with BytesIO(source) if isinstance(source, bytes) else source.open("rb") as stream:
            image = Image.open(stream)
            image.load()
            return image
    except FileNotFoundError:
        return Skipped(name, "there is no such file")
    except UnidentifiedImageError:
        return Skipped(name, "not an image in a known format")
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        return Skipped(name, f"cannot be decoded: {error}")


def open_image_folder(path: Path, options: Options) -> ImageFiles:
    """A folder of images; ids are paths relative to it, and first-level subfolders are the labels."""
    found: list[str] = []
    visited: set[str] = set()
    for folder, subfolders, names in os.walk(path, followlinks=True):
        # A link may lead back to a folder above it.
        subfolders[:] = [] if os.path.realpath(folder) in visited else [s for s in subfolders if not s.startswith(".")]
        names = [] if os.path.realpath(folder) in visited else names
        visited.add(os.path.realpath(folder))
        relative = Path(folder).relative_to(path)
        found += [
            (relative / name).as_posix()
            for name in names
            if Path(name).suffix.lower() in IMAGE_SUFFIXES and not name.startswith(".")
        ]
    if not found:
        raise PareError(
            f"{path}: the source is empty; no images ({', '.join(sorted(IMAGE_SUFFIXES))}), .npy, .parquet or .tar "
            "files are in it."
        )
    found.sort()  # ids and order then depend only on the names
    loose = [name for name in found if "/" not in name]
    if loose and len(loose) < len(found):
        raise PareError(
            f"{path}: {len(loose)} images (e.g. {loose[0]}) lie beside class folders; "
            "move them into a class folder, or put all images into one flat folder."
        )
    ids = found if options.ids is None else options.ids
    classes = None if loose else [name.split("/", 1)[0] for name in found]
    labels = classes if options.labels is None else options.labels
    return ImageFiles(str(path), "image folder", [path / name for name in found], ids=ids, labels=labels)
