"""Decoding one image: from a file or its bytes, or why it cannot be read."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from paredown.errors import PareError
from paredown.reading import check_regular, explain

if TYPE_CHECKING:
    from PIL import Image


class Skipped(NamedTuple):
    """Something left out under on_error='skip': which example or file, and why."""

    what: str
    why: str


def decode_image(source: Path | bytes, name: str) -> Image.Image | Skipped:
    """A fully decoded image from a file or its bytes, or why it cannot be read."""
    from PIL import Image, UnidentifiedImageError

    try:
        if isinstance(source, Path):
            check_regular(source)
        with BytesIO(source) if isinstance(source, bytes) else source.open("rb") as stream:
            image = Image.open(stream)
            image.load()
            return image
    except PareError as error:
        return Skipped(name, str(error).removeprefix(f"{source}: ").removesuffix("."))
    except UnidentifiedImageError:
        return Skipped(name, "not an image in a known format")
    except Exception as error:  # the decoders of a dozen formats raise many types
        return Skipped(name, f"cannot be decoded: {explain(error)}")
