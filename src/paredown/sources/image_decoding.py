"""Decoding one image: from a file or its bytes, or why it cannot be read."""

from __future__ import annotations

from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from paredown.errors import PareError
from paredown.places import StorageError, is_remote, nothing_at
from paredown.reading import MEMORY, check_regular, explain

if TYPE_CHECKING:
    from PIL import Image


class Skipped(NamedTuple):
    """Something left out under on_error='skip': which example or file, and why."""

    what: str
    why: str


def fetch_image(place: Any, name: str) -> bytes | Skipped:
    """The bytes of an image in an object store, or why it cannot be read; a store that does not answer is an error."""
    try:
        return place.read_bytes(MEMORY)
    except FileNotFoundError:
        why = nothing_at(place, "file")
    except StorageError:
        raise
    except PareError as error:
        why = error
    return Skipped(name, _reason(why, place))


def _reason(error: PareError, source: object) -> str:
    return str(error).removeprefix(f"{source}: ").removesuffix(".")


def decode_image(source: Path | bytes, name: str) -> Image.Image | Skipped:
    """A fully decoded image from a file or its bytes, or why it cannot be read."""
    from PIL import Image, UnidentifiedImageError

    if is_remote(source):
        fetched = fetch_image(source, name)
        return fetched if isinstance(fetched, Skipped) else decode_image(fetched, name)
    try:
        if isinstance(source, Path):
            check_regular(source)
        with BytesIO(source) if isinstance(source, bytes) else source.open("rb") as stream:
            image = Image.open(stream)
            image.load()
            return image
    except PareError as error:
        return Skipped(name, _reason(error, source))
    except UnidentifiedImageError:
        return Skipped(name, "not an image in a known format")
    except Exception as error:  # the decoders of a dozen formats raise many types
        return Skipped(name, f"cannot be decoded: {explain(error)}")
