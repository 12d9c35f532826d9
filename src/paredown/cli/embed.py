"""`paredown embed`: from images to a store of embeddings."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from paredown.cli.app import JsonOption, app, emit, progress_bar, say
from paredown.cli.prune import Columns, IdFile, LabelFile, OnBad, Seed, Split, open_sources, show_skipped


@app.command(epilog="Example: `paredown embed photos -o embeddings --encoder efficientnet_lite0`")
def embed(
    source: Annotated[
        Path,
        typer.Argument(
            metavar="SOURCE",
            help="Images: a folder, a .csv or .parquet list of paths, a Hugging Face dataset folder, or .tar files.",
            show_default=False,
        ),
    ],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder to write.", show_default=False)],
    encoder: Annotated[
        str,
        typer.Option(
            help="auto, pixels, efficientnet_lite0, swav, dino, timm:NAME, torchvision:NAME, "
            "open_clip:ARCH/PRETRAINED, resnet50:CHECKPOINT or onnx:FILE."
        ),
    ] = "auto",
    download: Annotated[bool, typer.Option("--download", help="Let `auto` fetch pretrained weights.")] = False,
    weights: Annotated[
        Path | None, typer.Option(help="Local file of weights for timm:NAME and torchvision:NAME.")
    ] = None,
    image_size: Annotated[int | None, typer.Option(help="Another image size than the encoder's own.")] = None,
    runtime: Annotated[str, typer.Option(help="auto, onnx or torch.")] = "auto",
    dtype: Annotated[str, typer.Option(help="float16 or float32.")] = "float16",
    shard_size: Annotated[int, typer.Option(help="Images per shard: what a stopped run does over at most.")] = 10_000,
    workers: Annotated[
        int | None, typer.Option(help="Threads that decode images.", show_default="one per core")
    ] = None,
    labels: LabelFile = None,
    ids: IdFile = None,
    column: Columns = None,
    split: Split = None,
    on_error: OnBad = "raise",
    seed: Seed = 0,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace a store made with other settings, once the new one is complete."),
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Turn images into embeddings that score and prune take; the same command again finishes a stopped run."""
    from paredown.embedding import embed as embed_source

    (opened,) = open_sources([source], labels=labels, ids=ids, columns=column, split=split, on_error=on_error)
    start = time.perf_counter()
    store = embed_source(
        opened,
        out=out,
        encoder=encoder,
        download=download,
        weights=weights,
        image_size=image_size,
        runtime=runtime,
        dtype=dtype,
        shard_size=shard_size,
        workers=workers,
        on_error=on_error,  # type: ignore[arg-type]  # checked by open_source
        seed=seed,
        overwrite=overwrite,
        track=progress_bar,
    )
    seconds = time.perf_counter() - start

    def show() -> None:
        say(f"Encoder: {escape(store.provenance['encoder'])}.")
        for warning in store.provenance["warnings"]:
            say(f"[yellow]Warning:[/] {escape(warning)}")
        show_skipped([list(item) for item in store.skipped])
        new = len(opened) - store.already
        speed = f", {new / seconds:,.1f} images per second" if new else ""
        before = f"; {store.already:,} were there already" if store.already else ""
        size = f"{store.examples:,} embeddings of {store.dim} numbers"
        say(f"{size} in [bold]{escape(str(out))}[/]{before}{speed}. Next: paredown prune {escape(str(out))} -o DIR")

    result = {"out": str(out), "already": store.already, "seconds": round(seconds, 3), **store.provenance}
    emit(result, as_json=as_json, show=show)
