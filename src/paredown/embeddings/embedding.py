"""The arrow from images to a store of embeddings on disk, shard by shard, that a killed run can be finished from."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from paredown.checkpoint import check_state
from paredown.embeddings.encoders import Encoder, check_encoder, encoder_identity, load_encoder
from paredown.embeddings.encoders.pipeline import default_workers, encode_images, prepared_images
from paredown.embeddings.store import (
    STATE,
    Store,
    StoreRecord,
    check_only_store,
    difference,
    finish_store,
    look_at_store,
    missing_shards,
    put_in_place,
    read_store_record,
    replacement_of,
    start_store,
    write_shard,
)
from paredown.errors import PareError, argument, check_least
from paredown.files import check_apart, locked, remove_folder
from paredown.progress import Track, silent
from paredown.scores import Labels
from paredown.sources import ImageSource, NpySource, OnError, Options, Source, open_source

__all__ = ["SHARD_SIZE", "Store", "StoredImages", "check_embedding", "embed", "embed_to_score", "stored_encoder"]

# Settings of a store that are not its encoder's own.
_OF_THE_STORE = ("source", "examples", "ids", "dtype", "shard_size", "encoder", "batch_size")
SHARD_SIZE = 1024  # images of a shard: all that a stopped run repeats; a multiple of the batches of every encoder
_ADVICE = f"Use the same settings, choose another output, or replace it with {argument('overwrite', True)}."
_ADVICE_TO_SCORE = "Run the same command as before, or remove that folder."


def embed(
    source: str | Path | Source,
    *,
    out: str | Path,
    encoder: str | Encoder | Callable[..., Any] = "auto",
    dtype: DTypeLike = "float16",
    shard_size: int = SHARD_SIZE,
    workers: int | None = None,
    weights: str | Path | None = None,
    image_size: int | None = None,
    runtime: Any = "auto",
    download: bool = False,
    labels: ArrayLike | Labels | None = None,
    ids: ArrayLike | None = None,
    seed: int = 0,
    on_error: OnError = "raise",
    overwrite: bool = False,
    trust_source: bool = False,
    track: Track = silent,
) -> Store:
    """Embed every image of a source into the folder `out`, which `score`, `prune` and `open_source` then take.

    The same call again finishes a run that was stopped, doing over at most the shard that was under way, and ends with
    the same bytes; on a finished store it does nothing. With other settings it is refused.

    Args:
        source: a folder of images, a list of paths, a Hugging Face dataset folder, WebDataset tars, or one opened.
        out: the folder to write.
        encoder, weights, image_size, runtime, download: see `paredown.embeddings.encoders.load_encoder`.
        dtype: `float16` or `float32`.
        shard_size: images per shard.
        workers: threads that decode; by default one per core. They do not change the result.
        labels, ids: one per image, in place of the source's own.
        seed: decides which images `pixels` is fitted to.
        on_error: `raise` at the first unreadable image, or `skip` and list them.
        overwrite: replace a store that was made with other settings, once the new one is complete.
        trust_source: go on with a store whose images were copied or touched since, by their modification times.
        track: reports progress.
    """
    images = _images(source, labels=labels, ids=ids, on_error=on_error)
    check_apart(Path(out), images.places())
    loading = {"weights": weights, "image_size": image_size, "runtime": runtime, "download": download}
    how = {"encoder": encoder, "seed": seed, "on_error": on_error, "track": track, "trust_source": trust_source}
    how |= {"workers": workers, "overwrite": overwrite, "advice": _ADVICE}
    with locked(Path(out)):
        return _embed(images, Path(out), _checked_dtype(dtype), shard_size, **how, **loading)


def check_embedding(
    encoder: str, *, dtype: DTypeLike = "float16", shard_size: int = 1, workers: int | None = None, **loading: Any
) -> None:
    """Raise if images could not be embedded like this, before any is looked at; the arguments are those of `embed`."""
    _checked_dtype(dtype)
    check_least(1, shard_size=shard_size, workers=workers)
    check_encoder(encoder, **loading)


def embed_to_score(images: ImageSource, *, out: Path, **how: Any) -> StoredImages:
    """The embeddings of images in a store at `out`, made or finished first if need be, to be scored in their stead.

    A store that is there already is taken with whatever dtype and shard size it has. `how` are the `encoder`, `seed`,
    `on_error`, `track` and `trust_source` of `embed`.
    """
    check_apart(out, images.places())
    with locked(out):
        before = read_store_record(out)
        form = {"dtype": "float32", "shard_size": SHARD_SIZE} | ({} if before is None else before.settings)
        kind, shard_size = _checked_dtype(form["dtype"]), form["shard_size"]
        store = _embed(images, out, kind, shard_size, advice=_ADVICE_TO_SCORE, **how)
    return StoredImages(images, store)


class StoredImages(NpySource):
    """The embeddings of an image source in a store; what is known about them is what is known about the images."""

    def __init__(self, images: ImageSource, store: Store) -> None:
        super().__init__(store.path, Options())
        self._record = {"encoder": store.provenance["encoder"]}
        self._images = images
        self.location, self.kind, self.opened_with = images.location, images.kind, images.opened_with
        self.skipped = list(store.skipped)
        if images.labels is not None:  # with the classes of which no image could be read
            self.labels = images.labels[np.isin(images.ids, self.ids)]

    def disk_files(self) -> Iterable[Path]:
        return self._images.disk_files()

    def fingerprint(self) -> str:
        return self._images.fingerprint()


def stored_encoder(folder: Path, encoder: str) -> Encoder | None:
    """The encoder of a complete store, if that is the one of this name; the network is loaded only when it is used."""
    return _remembered(look_at_store(folder), encoder)


def _remembered(before: StoreRecord | None, encoder: Any, **loading: Any) -> Encoder | None:
    identity = encoder_identity(encoder, **loading)
    if before is None or not before.complete or identity is None or before.identity != identity:
        return None
    once, loaded = Lock(), list[Encoder]()  # images are prepared in threads

    def load() -> Encoder:
        with once:
            if not loaded:
                loaded.append(load_encoder(encoder, **loading))
        return loaded[0]

    return Encoder(
        name=before.settings["encoder"],
        summary=before.encoder,
        prepare=lambda image: load().prepare(image),
        forward=lambda prepared: load().forward(prepared),
        settings={name: value for name, value in before.settings.items() if name not in _OF_THE_STORE},
        batch_size=before.settings["batch_size"],
        warnings=before.warnings,
        identity=identity,
    )


def _embed(
    images: ImageSource,
    home: Path,
    kind: np.dtype[Any],
    shard_size: int,
    *,
    encoder: str | Encoder | Callable[..., Any],
    seed: int,
    on_error: OnError,
    track: Track,
    advice: str,
    workers: int | None = None,
    overwrite: bool = False,
    trust_source: bool = False,
    **loading: Any,
) -> Store:
    check_least(1, shard_size=shard_size)
    workers = default_workers() if workers is None else workers
    named, home = home, home.resolve() if home.is_symlink() else home  # the store is replaced, not the link to it
    known = {
        "source": images.fingerprint(),
        "examples": len(images),
        "ids": _digest(images),
        "dtype": kind.name,
        "shard_size": shard_size,
    }
    # A store with other settings stays as it is; with `overwrite` the new one grows beside it.
    places = {place: read_store_record(place) for place in ([home, replacement_of(home)] if overwrite else [home])}
    if overwrite:
        check_only_store(home)
    state = {} if trust_source else images.state()

    def usable(now: dict[str, Any]) -> list[Path]:
        """The places of stores with these settings, whose images have not changed since."""
        noted = [(place, before) for place, before in places.items() if before and not difference(before, now)]
        return [place for place, before in noted if not (state and before.state) or state == before.state]

    def refuse_others(now: dict[str, Any]) -> None:
        before = None if overwrite else places[home]
        if before is None:
            return
        if differs := difference(before, now):
            progress = "finished" if before.complete else "begun"
            raise PareError(f"{home}: embedding was {progress} with other settings: {differs}. {advice}")
        if state and before.state:
            check_state(f"{home} holds a store of embeddings", before.state, state)

    fitting = usable(known)
    refuse_others(known)
    loaded = (_remembered(places[home], encoder, **loading) if fitting else None) or load_encoder(
        encoder,
        source=images,
        seed=seed,
        on_error=on_error,
        workers=workers,
        saved=fitting[-1] / STATE if fitting else None,
        track=track,
        **loading,
    )
    settings = known | {"encoder": loaded.name, "batch_size": loaded.batch_size} | dict(loaded.settings)
    refuse_others(settings)
    same = usable(settings)
    empty = [place for place, before in places.items() if before is None]
    folder = next(iter(same + empty), replacement_of(home))
    if not same + empty:  # an unfinished replacement with other settings again
        remove_folder(folder, output=home)

    record = start_store(folder, images, loaded, settings)
    shards = [range(first, min(first + shard_size, len(images))) for first in range(0, len(images), shard_size)]
    missing = missing_shards(folder, len(shards), settings, before=places.get(folder))
    rows = (row for number in missing for row in shards[number])
    prepared = prepared_images(images, loaded.prepare, rows=rows, workers=workers)
    total = sum(len(shards[number]) for number in missing)
    tracked = track(prepared, f"embedding images ({loaded.name})", total=total)
    for number in missing:
        encoded = encode_images(tracked, len(shards[number]), loaded, source=images, on_error=on_error)
        write_shard(folder, number, shards[number], encoded, images, kind, settings)
    store = finish_store(folder, images, record, len(shards), already=len(images) - total, on_error=on_error)
    if folder != home:
        put_in_place(home)
    elif overwrite:  # a replacement that was begun is not wanted any more
        remove_folder(replacement_of(home), output=home)
    return replace(store, path=named)


def _checked_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind not in (np.float16, np.float32):
        raise PareError(f"{argument('dtype')} must be 'float16' or 'float32', got {str(dtype)!r}.")
    return kind


def _images(source: Any, **options: Any) -> ImageSource:
    opened = open_source(source, **options)
    if not isinstance(opened, ImageSource):
        raise PareError(f"{opened.location}: these are already embeddings ({opened.kind}); score or prune them.")
    return opened


def _digest(images: ImageSource) -> str:
    """A hash of ids and labels, which the fingerprint of the files does not cover."""
    digest = hashlib.sha256()
    for name in images.ids.tolist():
        digest.update(f"{name}\0".encode())
    if images.labels is not None:
        digest.update(images.labels.codes.tobytes())
        digest.update("\0".join(images.labels.classes).encode())
    return digest.hexdigest()[:16]
