"""From some images to a shard of a store: what a worker does for `embed`, and what it is sent.

A job holds the images of its shard as a source of their own, so that no worker lists the images again. An encoder that
was fitted, or that a program made, is sent as it is. A network is loaded by its name, once in every process, and must
be the one that the run began with.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from paredown.embeddings.encoders import Encoder, load_encoder
from paredown.embeddings.encoders.pipeline import encode_images, prepared_images
from paredown.embeddings.store import write_shard
from paredown.errors import PareError, located
from paredown.places import as_place
from paredown.records import canonical, changes
from paredown.sources import ImageSource

EMBED_SHARD = f"{__name__}:embed_shard"
_MEMORY, _NETWORK_MEMORY = 2**29, 2**30  # of a job: 1.0 GiB were measured with EfficientNet-Lite0


class ShardJob(NamedTuple):
    """The images of one shard."""

    number: int
    images: ImageSource

    @property
    def name(self) -> str:
        """For messages."""
        return f"shard {self.number:05d}"


class ShardJobs(Sequence[ShardJob]):
    """The jobs of some shards, each made when it is asked for: together they would hold every path again."""

    def __init__(self, images: ImageSource, rows: Sequence[range], numbers: Sequence[int]) -> None:
        self._images, self._rows, self._numbers = images, rows, numbers

    def __len__(self) -> int:
        return len(self._numbers)

    def __getitem__(self, place: int) -> ShardJob:  # type: ignore[override]  # no engine asks for a slice
        number = self._numbers[place]
        return ShardJob(number, self._images.part(self._rows[number]))

    @property
    def examples(self) -> int:
        """Images of all of them."""
        return sum(len(self._rows[number]) for number in self._numbers)


class NamedEncoder(NamedTuple):
    """An encoder that every process loads by its name."""

    request: str  # JSON: the arguments of `load_encoder`, and the settings that must come out

    def load(self) -> Encoder:
        """The encoder, loaded once in this process."""
        return _load(self.request)


def to_send(encoder: Encoder) -> Encoder | NamedEncoder:
    """What a worker is given to have the same encoder."""
    if encoder.identity is None:
        return encoder
    files = [os.path.abspath(file) for file, *_ in encoder.identity["files"]]
    family, colon, rest = encoder.name.partition(":")
    named = bool(files) and os.path.abspath(rest) == files[-1]  # the file is the one that follows the colon
    how = {name: encoder.identity[name] for name in ("image_size", "runtime")}
    how["weights"] = None if named or not files else files[0]
    name = f"{family}{colon}{files[-1]}" if named else encoder.name
    return NamedEncoder(canonical({"encoder": name, "how": how, "settings": encoder.settings}))


def files_of(encoder: Encoder) -> list[str]:
    """The files that a worker loads an encoder from."""
    return [] if encoder.identity is None else [os.path.abspath(file) for file, *_ in encoder.identity["files"]]


def memory_of(encoder: Encoder) -> int:
    """Bytes that a worker needs for a shard."""
    return _MEMORY if encoder.identity is None else _NETWORK_MEMORY


@lru_cache(maxsize=1)
def _load(request: str) -> Encoder:
    wanted = json.loads(request)
    os.environ["OMP_NUM_THREADS"] = "1"  # a worker has one core, and the runtimes would take all there are
    with located(socket.gethostname()):
        encoder = load_encoder(wanted["encoder"], **wanted["how"])
        if differing := changes(wanted["settings"], encoder.settings):
            raise PareError(
                f"encoder {encoder.name!r} is another one there: {differing[0]}. Install the same versions and weights "
                "on every node."
            )
    return encoder


def embed_shard(common: dict[str, Any], job: ShardJob) -> int:
    """Embed one shard and write it; how many of its images were embedded.

    `common` has the `folder`, `settings`, `encoder` and `on_error`, and where images are prepared ahead of more than
    one shard, the `prepared` ones.
    """
    encoder = common["encoder"]
    if isinstance(encoder, NamedEncoder):
        encoder = encoder.load()
    prepared = common.get("prepared")
    if prepared is None:
        prepared = prepared_images(job.images.files(), encoder.prepare, workers=1)
    how = {"location": job.images.location, "on_error": common["on_error"]}
    encoded = encode_images(prepared, len(job.images), encoder, **how)
    settings = common["settings"]
    write_shard(as_place(common["folder"]), job.number, encoded, job.images, np.dtype(settings["dtype"]), settings)
    return int(encoded.readable.sum())
