"""From images to embeddings. `load_encoder` finds an encoder by name, `encode` is the arrow.

`auto` takes the best encoder that is really there: pretrained weights already in a cache (or allowed to be downloaded),
else a small network whose weights are in an installed package, else whitened PCA of pixels, which prunes badly on
anything but simple images; the result says which it was.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from hashlib import sha256
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from paredown.embeddings.encoders.base import Encoder, Preprocess, check_image_size, encoder_of
from paredown.embeddings.encoders.inference import Runtime, check_runtime, onnx_file, run_model, weights_hash
from paredown.embeddings.encoders.known_encoders import ENCODERS, EncoderEntry, Offer, find_entry
from paredown.embeddings.encoders.pipeline import default_workers, encode_images, nothing_readable, prepared_images
from paredown.embeddings.encoders.pixel_pca import pixel_encoder
from paredown.embeddings.encoders.pretrained import check_weights, load_network
from paredown.embeddings.encoders.simclr import expected_quality
from paredown.embeddings.encoders.weights import DownloadError, hub_folder
from paredown.errors import PareError, argument
from paredown.progress import Track, silent
from paredown.sources import ArraySource, ImageSource, OnError
from paredown.version import __version__

__all__ = [
    "ENCODERS",
    "EncodedImages",
    "Encoder",
    "EncoderEntry",
    "Preprocess",
    "check_encoder",
    "encode",
    "encoder_identity",
    "load_encoder",
]


class EncodedImages(ArraySource):
    """The embeddings of an image source, with the encoder that made them."""

    encoder: Encoder

    def provenance(self) -> dict[str, Any]:
        return super().provenance() | {"encoder": self.encoder.summary, "encoder_name": self.encoder.name}


def encode(
    source: ImageSource,
    *,
    encoder: str | Encoder | Callable[..., Any] = "auto",
    seed: int = 0,
    on_error: OnError = "raise",
    workers: int | None = None,
    track: Track = silent,
    **loading: Any,
) -> EncodedImages:
    """Embed every image of a source in memory; one that cannot be read raises, or is left out and listed."""
    workers = default_workers() if workers is None else workers
    loaded = load_encoder(encoder, source=source, seed=seed, on_error=on_error, workers=workers, track=track, **loading)
    images = prepared_images(source.files(), loaded.prepare, workers=workers)
    tracked = track(images, f"embedding images ({loaded.name})", total=len(source))
    encoded = encode_images(tracked, len(source), loaded, location=source.location, on_error=on_error)
    if not encoded.readable.any():
        raise nothing_readable(source.location, len(source))
    result = EncodedImages(
        encoded.vectors,
        ids=source.ids[encoded.readable],
        labels=None if source.labels is None else source.labels[encoded.readable],
        location=source.location,
        kind=source.kind,
        files=list(source.disk_files()),
    )
    result._fingerprint = source.fingerprint()
    result.skipped, result.opened_with = source.skipped + encoded.skipped, source.opened_with
    result.encoder, result.warnings = loaded, (*source.warnings, *loaded.warnings)
    return result


def load_encoder(
    encoder: str | Encoder | Callable[..., Any] = "auto",
    *,
    source: ImageSource | None = None,
    seed: int = 0,
    on_error: OnError = "raise",
    workers: int = 1,
    weights: str | Path | None = None,
    image_size: int | None = None,
    runtime: Runtime = "auto",
    download: bool = False,
    saved: Path | None = None,
    track: Track = silent,
) -> Encoder:
    """The encoder of a name in `ENCODERS`, or one made of a function from a list of images to an array.

    Args:
        encoder: a name, a function, or an `Encoder`.
        source, seed, on_error, workers, saved: what `pixels` is fitted to, or the file of an earlier fit.
        weights: a local file of weights for `timm:NAME` and `torchvision:NAME`.
        image_size: another size than the network's own.
        runtime: `onnx`, `torch`, or `auto`: ONNX Runtime on a CPU where the network can be exported.
        download: whether `auto` may fetch pretrained weights. A network asked for by name is fetched by its library.
        track: reports progress.
    """
    if isinstance(encoder, Encoder):
        return encoder
    if not isinstance(encoder, str):
        if not callable(encoder):
            raise PareError(
                f"{argument('encoder')} must be a name, a function or an Encoder, got {type(encoder).__name__}."
            )
        return encoder_of(encoder)

    def load(name: str) -> Encoder:
        check_encoder(name, weights=weights, image_size=image_size, runtime=runtime)
        entry = find_entry(name)
        if entry.fitted:
            if source is None:
                raise PareError(f"encoder {name!r} is fitted to images; give the source.")
            return pixel_encoder(source, seed=seed, on_error=on_error, workers=workers, track=track, saved=saved)
        if not entry.loader:
            return _onnx_encoder(_file_of(name), image_size)
        return _network_encoder(name, weights, image_size, runtime)

    loaded = _best_encoder(load, download) if encoder == "auto" else load(encoder)
    identity = encoder_identity(loaded.name, weights=weights, image_size=image_size, runtime=runtime)
    return replace(loaded, identity=identity)


def check_encoder(
    name: str, *, weights: str | Path | None = None, image_size: int | None = None, runtime: Runtime = "auto"
) -> None:
    """Raise if no encoder could be loaded by this name and these options of `load_encoder`; nothing is imported."""
    if find_entry(name).of_file and not _file_of(name).is_file():
        raise PareError(f"encoder {name}: there is no such file.")
    if weights is not None:
        check_weights(name, Path(weights))
    if image_size is not None:
        check_image_size(image_size)
        if find_entry(name).fitted:
            given = argument("image_size", image_size)
            raise PareError(f"encoder {name!r} takes images of its own size; leave out {given}.")
    check_runtime(runtime)


def encoder_identity(
    encoder: str | Encoder | Callable[..., Any],
    *,
    weights: str | Path | None = None,
    image_size: int | None = None,
    runtime: Runtime = "auto",
    download: bool = False,
) -> dict[str, Any] | None:
    """All that decides what `load_encoder` loads, found without importing any library; None where loading must tell.

    The name, the files it mentions by size and time, and the versions of the libraries: while they are the same, a
    finished store needs no network to be recognised.
    """
    name = encoder
    if encoder == "auto":
        best = _offers(download)[0]
        name = best.name
        if best.file and not _is_cached(best):
            return None
    if not isinstance(name, str) or (entry := find_entry(name)).fitted:
        return None
    files = [Path(file) for file in (weights, _file_of(name) if entry.of_file else None) if file is not None]
    return {
        "paredown": __version__,
        "encoder": name,
        "image_size": image_size,
        "runtime": runtime,
        "files": [[str(file), file.stat().st_size, file.stat().st_mtime_ns] for file in files],
        "packages": {package: _installed_version(package) for package in entry.packages},
    }


def _installed_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def _best_encoder(load: Callable[[str], Encoder], download: bool) -> Encoder:
    """What `auto` means; a download that was allowed and failed is a warning, not the end."""
    failed: tuple[str, ...] = ()
    *pretrained, last = _offers(download)
    for offer in pretrained:
        try:
            return load(offer.name)
        except DownloadError as error:
            failed += (error.failure,)
        except PareError as error:
            failed += (str(error),)
    encoder = load(last.name)
    return replace(encoder, warnings=failed + encoder.warnings)


def _offers(download: bool) -> list[Offer]:
    """What `auto` tries, best first; the last one is always there."""
    offers: list[Offer] = []
    for offer in (offer for entry in ENCODERS.values() for offer in entry.offers):
        if all(find_spec(module) for module in offer.modules) and (not offer.file or download or _is_cached(offer)):
            offers.append(offer)
            if not offer.file:
                break
    return offers


def _is_cached(offer: Offer) -> bool:
    return (hub_folder() / offer.repository).is_dir() and (hub_folder() / "checkpoints" / offer.file).is_file()


def _file_of(name: str) -> Path:
    return Path(name.partition(":")[2])


def _network_encoder(name: str, weights: str | Path | None, image_size: int | None, runtime: Runtime) -> Encoder:
    network = load_network(name, weights=None if weights is None else Path(weights))
    preprocess = network.preprocess.at(image_size)
    forward = run_model(network.model, preprocess.size, runtime=runtime)
    return _described(name, forward, preprocess, weights_hash(network.model), network.weights)


def _onnx_encoder(path: Path, image_size: int | None) -> Encoder:
    forward, preprocess, training = onnx_file(path, image_size=image_size)
    weights = sha256(path.read_bytes()).hexdigest()[:16]
    encoder = _described(f"onnx:{path}", forward, preprocess, weights, str(path))
    return encoder if training is None else replace(encoder, warnings=(expected_quality(training),))


def _described(name: str, forward: Any, preprocess: Preprocess, weights: str, origin: str) -> Encoder:
    return Encoder(
        name=name,
        summary=f"{name}, weights {weights} from {origin}, {preprocess.size} x {preprocess.size} pixels, "
        f"{forward.runtime}",
        prepare=preprocess,
        forward=forward.run,
        settings={
            "weights": weights,
            "image_size": preprocess.size,
            "preprocessing": asdict(preprocess),
            "runtime": forward.runtime,
        },
    )
