"""`paredown embed`: from images to a store of embeddings."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paredown.cli.announced_outputs import current
from paredown.cli.app import JsonOption, OutFolder, advanced_option, app, positional, scale_option, training_option
from paredown.cli.engine_options import EmbedEngineOptions, Shard
from paredown.cli.source_options import SourceOptions, show_skipped, show_warnings
from paredown.cli.terminal import emit, progress_bar, say
from paredown.errors import PareError, argument, check_least
from paredown.text import quoted

if TYPE_CHECKING:
    from paredown.embeddings.encoders.simclr import SimCLR
    from paredown.sources import Source

_EPOCHS = 30  # of --train-encoder


@app.command(epilog="Example: `paredown embed photos -o embeddings --encoder efficientnet_lite0`")
def embed(
    source: Annotated[
        Path,
        positional(
            "SOURCE",
            "Images: a folder, a .csv or .parquet list of paths, a Hugging Face dataset folder, or .tar files.",
        ),
    ],
    out: OutFolder,
    options: SourceOptions,
    where: EmbedEngineOptions,
    encoder: Annotated[str, typer.Option(help="The network to embed with:\n{encoders}\n")] = "auto",
    download: Annotated[bool, typer.Option("--download", help="Let `auto` download pretrained weights.")] = False,
    weights: Annotated[
        Path | None, advanced_option("FILE", "Local weights for timm:NAME and torchvision:NAME.")
    ] = None,
    image_size: Annotated[
        int | None, advanced_option("PIXELS", "Resize images to this size.", show_default="the encoder's own")
    ] = None,
    runtime: Annotated[str, advanced_option("NAME", "What runs the network: {runtimes}.")] = "auto",
    train_encoder: Annotated[
        Path | None,
        training_option(
            "FILE.onnx",
            "First train a small encoder on these images, without labels (SimCLR), and save it in this file.",
        ),
    ] = None,
    epochs: Annotated[int, training_option("N", "Epochs of --train-encoder.")] = _EPOCHS,
    flip: Annotated[
        bool,
        training_option(None, "Whether --train-encoder treats mirror images as the same; not for text or digits."),
    ] = True,
    dtype: Annotated[str, advanced_option("NAME", "How numbers are stored: {dtypes}.")] = "float16",
    shard_size: Annotated[
        int, scale_option("N", "Images per shard. An interrupted run repeats at most one shard.")
    ] = 1024,
    shard: Shard = None,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace a store made with other settings, once the new one is complete."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Turn images into embeddings for score and prune.

    Run the same command again to finish an interrupted run.
    """
    from paredown.embeddings import check_embedding
    from paredown.embeddings import embed as embed_source
    from paredown.files import check_all_apart, check_distinct

    where.check(local_workers=True)
    check_distinct(out, train_encoder)
    check_all_apart((out, train_encoder), [source, options.labels, options.ids, weights])
    current.grows(out, "finished shards")
    if train_encoder is not None:
        _check_training(train_encoder, encoder, epochs, shard)
    elif epochs != _EPOCHS or not flip:
        given = argument("epochs", epochs) if flip else "--no-flip"
        raise PareError(f"{given} is for training an encoder; leave it out, or add --train-encoder FILE.onnx.")
    check_embedding(
        encoder,
        dtype=dtype,
        shard_size=shard_size,
        workers=where.workers,
        weights=weights,
        image_size=image_size,
        runtime=runtime,
    )
    options.check()
    (opened,) = options.open([source])
    start = time.perf_counter()
    trained = None
    if train_encoder is not None:
        training = {"epochs": epochs, "flip": flip, "seed": options.seed, "on_error": options.on_error}
        trained = _train(opened, train_encoder, image_size, training | {"overwrite": overwrite})
    store = embed_source(
        opened,
        out=out,
        encoder=encoder if trained is None else trained.encoder,
        download=download,
        weights=weights,
        image_size=image_size,
        runtime=runtime,
        dtype=dtype,
        shard_size=shard_size,
        shard=shard,
        on_error=options.on_error,  # type: ignore[arg-type]  # checked by open_source
        seed=options.seed,
        overwrite=overwrite,
        trust_source=options.trust_source,
        track=progress_bar,
        **where.arguments(),
    )
    seconds = time.perf_counter() - start

    def show() -> None:
        if trained is not None:
            say(
                "Encoder [bold]{}[/] {}: {} epochs, loss {:.3f} in the first epoch, {:.3f} in the last.",
                trained.path,
                "was trained already" if trained.already else "trained",
                len(trained.losses),
                trained.losses[0],
                trained.losses[-1],
            )
        say("Encoder: {}.", store.provenance["encoder"])
        show_warnings(store.provenance["warnings"])
        show_skipped([list(item) for item in store.skipped])
        if not store.complete:
            say("Share {} is done. When all are: paredown merge {}", shard, quoted(out))
            return
        new = len(opened) - store.already
        speed = f", {new / seconds:,.1f} images per second" if new else ""
        before = f"; {store.already:,} were there already" if store.already else ""
        say("{:,} embeddings of {} dimensions in [bold]{}[/]{}{}.", store.examples, store.dim, out, before, speed)
        say("Next: paredown prune {} -o DIR", quoted(out))

    result = {"out": str(out), "already": store.already, "seconds": round(seconds, 3), **store.provenance}
    if trained is not None:
        result["training"] = {"file": str(trained.path), "already": trained.already, "losses": trained.losses}
        result["training"] |= trained.training
    emit(result, as_json=as_json, show=show)


def _train(source: Source, file: Path, image_size: int | None, options: dict[str, Any]) -> SimCLR:
    """Train an encoder, or take the one that the same command trained before it was stopped."""
    from paredown.embeddings.encoders.simclr import train_simclr

    size = {} if image_size is None else {"image_size": image_size}
    return train_simclr(source, out=file, reuse=True, track=progress_bar, **size, **options)


def _check_training(file: Path, encoder: str, epochs: int, shard: str | None) -> None:
    from paredown.files import check_output

    if shard is not None:
        raise PareError(
            f"--train-encoder would train a network in every share; embed once without --shard, or train it on some of "
            f"the images first and give the shares --encoder onnx:{file}."
        )
    if encoder != "auto":
        raise PareError(f"--train-encoder makes the encoder that is used; leave out --encoder {encoder}.")
    if file.suffix != ".onnx":
        raise PareError(f"--train-encoder writes an ONNX file; name it {file.name}.onnx.")
    check_least(1, epochs=epochs)
    if not file.exists():  # one that is there may be that of the same command, stopped later
        check_output(file)
