"""The arrow from images to a store of embeddings on disk, shard by shard, that a killed run can be finished from."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike

from paredown.checkpoint import check_state
from paredown.embeddings.encoders import Encoder, check_encoder, encoder_identity, load_encoder
from paredown.embeddings.encoders.pipeline import default_workers, prepared_images
from paredown.embeddings.shard_jobs import EMBED_SHARD, ShardJobs, files_of, memory_of, to_send
from paredown.embeddings.store import (
    STATE,
    Store,
    StoreRecord,
    check_only_store,
    claim_store,
    difference,
    finish_store,
    is_fitted_to,
    keep_state,
    look_at_store,
    missing_shards,
    put_in_place,
    read_store_record,
    replacement_of,
    shard_rows,
    start_store,
    unfinished_store,
)
from paredown.engines import Engine, open_engine
from paredown.engines.shares import Share
from paredown.errors import PareError, argument, check_least
from paredown.files import check_apart, clear_temporaries, locked, locked_together, remove_folder
from paredown.places import absolute, as_place, is_remote
from paredown.progress import Track, silent
from paredown.records import digest
from paredown.scores import Labels
from paredown.sources import ImageSource, NpySource, OnError, Options, Source, open_source
from paredown.text import either

__all__ = ["SHARD_SIZE", "Store", "StoredImages", "check_embedding", "embed", "embed_to_score", "stored_encoder"]

# Settings of a store that are not its encoder's own.
STORED_DTYPES = ("float16", "float32")
_OF_THE_STORE = ("source", "examples", "ids", "dtype", "shard_size", "encoder", "batch_size")
SHARD_SIZE = 1024  # images of a shard: all that a stopped run repeats; a multiple of the batches of every encoder
_PLACES = 1000  # of which every worker proves that it sees them, at most
_ADVICE = f"Use the same settings, choose another output, or replace it with {argument('overwrite', True)}."
_ADVICE_TO_SCORE = "Run the same command as before, or remove that folder."


def embed(
    source: str | Path | Source,
    *,
    out: str | Path,
    encoder: str | Encoder | Callable[..., Any] = "auto",
    dtype: DTypeLike = "float16",
    shard_size: int = SHARD_SIZE,
    engine: str | Engine = "local",
    address: str | None = None,
    workers: int | None = None,
    shard: str | None = None,
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
        engine, address: where, see `paredown.engines.open_engine`.
        workers: threads that decode, by default one per core; on a Ray cluster, tasks at once at most. They do not
            change the result.
        shard: `i/n` for the i-th of n shares of the shards; `merge` completes the store when all are done, unless the
            last one does.
        labels, ids: one per image, in place of the source's own.
        seed: decides which images `pixels` is fitted to.
        on_error: `raise` at the first unreadable image, or `skip` and list them.
        overwrite: replace a store that was made with other settings, once the new one is complete.
        trust_source: go on with a store whose images were copied or touched since, by their modification times.
        track: reports progress.
    """
    share = None if shard is None else Share.parse(shard, overwrite=overwrite)
    check_least(1, workers=workers)
    images = _images(source, labels=labels, ids=ids, on_error=on_error)
    check_apart(as_place(out), images.places())
    loading = {"weights": weights, "image_size": image_size, "runtime": runtime, "download": download}
    how = {"encoder": encoder, "seed": seed, "on_error": on_error, "track": track, "trust_source": trust_source}
    how |= {"workers": workers, "overwrite": overwrite, "advice": _ADVICE}
    how |= {"engine": engine, "address": address, "share": share}
    out = as_place(out)
    if overwrite and is_remote(out) and out.exists():
        raise PareError(f"{out}: stores in object stores are not replaced; remove it first, or choose another output.")
    with locked(out) if share is None else locked_together(out):  # shares are written side by side
        return _embed(images, out, _checked_dtype(dtype), shard_size, **how, **loading)


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
        self._record = {name: store.provenance[name] for name in ("encoder", "settings")}
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
    engine: str | Engine = "local",
    address: str | None = None,
    workers: int | None = None,
    share: Share | None = None,
    overwrite: bool = False,
    trust_source: bool = False,
    **loading: Any,
) -> Store:
    check_least(1, shard_size=shard_size)
    named, home = home, home.resolve() if home.is_symlink() else home  # the store is replaced, not the link to it
    known = {
        "source": images.fingerprint(),
        "examples": len(images),
        "ids": _digest(images),
        "dtype": kind.name,
        "shard_size": shard_size,
    }
    fitted_to = digest([known["source"], known["ids"], seed])
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
    unseen = [] if engine == "local" else _to_read(images)
    with ExitStack() as running_until_the_end:
        if engine != "local" and not any(before and before.complete for before in places.values()):
            # A cluster that does not answer, or does not see the images, is told before anything is fitted.
            engine = running_until_the_end.enter_context(open_engine(engine, address=address, workers=workers))
            engine.check_places(unseen, None)
            unseen = []
        threads = default_workers() if workers is None or engine != "local" else workers
        how = {"source": images, "seed": seed, "on_error": on_error, "workers": threads, "track": track}
        fitted = fitting or [place for place in places if is_fitted_to(place, fitted_to)]
        loaded = (_remembered(places[home], encoder, **loading) if fitting else None) or load_encoder(
            encoder, saved=fitted[-1] / STATE if fitted else None, **how, **loading
        )
        if loaded.state and share is not None:  # all shares take what the first of them learnt
            claim_store(home)
            loaded = load_encoder(encoder, saved=keep_state(home, loaded, fitted_to), **how, **loading)
        settings = known | {"encoder": loaded.name, "batch_size": loaded.batch_size} | dict(loaded.settings)
        refuse_others(settings)
        same = usable(settings)
        empty = [place for place, before in places.items() if before is None]
        folder = next(iter(same + empty), replacement_of(home))
        if not same + empty:  # an unfinished replacement with other settings again
            remove_folder(folder, output=home)
        if loaded.state and not (folder in same and (folder / STATE).exists()):
            claim_store(folder)
            keep_state(folder, loaded, fitted_to)
        record = start_store(folder, images, loaded, settings, shared=share is not None)
        if share is not None:  # whose record may be that of another run
            places[home] = look_at_store(home)
            refuse_others(settings)

        rows = shard_rows(settings)
        numbers = list(range(len(rows)))
        before = places.get(folder)
        missing = missing_shards(folder, numbers if share is None else share.of(numbers), settings, before=before)
        jobs = ShardJobs(images, rows, missing)
        if jobs:
            running = running_until_the_end.enter_context(open_engine(engine, address=address, workers=workers))
            common = {"folder": str(absolute(folder)), "settings": settings, "on_error": on_error}
            running.check_places([*unseen, *files_of(loaded)], common["folder"])
            _embed_shards(running, loaded, jobs, common, threads, track)
        already = len(images) - jobs.examples
        if share is not None and missing_shards(folder, numbers, settings, before=before):
            return replace(unfinished_store(folder, record, already=already), path=named)
        if share is None:
            clear_temporaries(folder)  # of workers that were killed
        store = finish_store(folder, record, location=images.location, on_error=on_error, already=already)
    if folder != home:
        put_in_place(home)
    elif overwrite:  # a replacement that was begun is not wanted any more
        remove_folder(replacement_of(home), output=home)
    return replace(store, path=named)


def _embed_shards(
    engine: Engine, encoder: Encoder, jobs: ShardJobs, common: dict[str, Any], threads: int, track: Track
) -> None:
    """Give out the jobs: here with threads that prepare images ahead through all shards, or to the workers."""
    label = f"embedding images ({encoder.name})"
    if engine.name == "local":
        files = (file for job in jobs for file in job.images.files())
        prepared = track(prepared_images(files, encoder.prepare, workers=threads), label, total=jobs.examples)
        for _ in engine.run_jobs(EMBED_SHARD, jobs, common=common | {"encoder": encoder, "prepared": prepared}):
            pass
        return
    common |= {"encoder": to_send(encoder)}
    outcomes = engine.run_jobs(EMBED_SHARD, jobs, common=common, memory=memory_of(encoder))
    for outcome in track(outcomes, f"shards, {label}", total=len(jobs)):
        if outcome.error is not None:
            raise PareError(
                f"{jobs[outcome.job].name}: {outcome.error} What is done stays in {common['folder']}; run the same "
                "command again to finish."
            )


def _to_read(images: ImageSource) -> list[str]:
    """What workers must see of the images: a file of every folder that they are in, or of some of very many."""
    if not any(images.part(range(1)).disk_files()):
        return []  # the jobs hold the pixels
    if is_remote(as_place(images.location)):
        return [images.location]  # the nodes see the same object store, or none of it
    places = [os.path.abspath(place) for place in images.places() if os.path.exists(place)]
    return places[:: -(-len(places) // _PLACES)]


def _checked_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        kind = np.dtype(dtype)
    except TypeError:
        kind = np.dtype(object)
    if kind.name not in STORED_DTYPES:
        raise PareError(f"{argument('dtype')} must be {either(map(repr, STORED_DTYPES))}, got {str(dtype)!r}.")
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
