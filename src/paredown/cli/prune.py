"""`paredown score`, `paredown prune` and `paredown export`: the main job."""

from __future__ import annotations

from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from paredown.cli.app import JsonOption, app, console, emit, error_console, progress_bar, say
from paredown.cli.scoring import (
    Exact,
    K,
    Kernel,
    Metric,
    MetricOptions,
    ModelFile,
    SaveModel,
    WarmStart,
    asked,
    scoring_options,
)

if TYPE_CHECKING:
    from paredown.scale import StreamedSelection
    from paredown.selection import Selection
    from paredown.sources import Source

_SHOWN_CLASSES = 20  # rows of the class table on screen; the file has all of them

Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="SOURCE...",
        help="Embeddings (.npy, .npz, .parquet, or a folder of them), images (a folder, a .csv of paths, .tar files), "
        "or a Hugging Face dataset folder. Several embeddings of the same examples are an ensemble.",
        show_default=False,
    ),
]
LabelFile = Annotated[Path | None, typer.Option("--labels", help="Labels: .npy, or text with one a line.")]
IdFile = Annotated[Path | None, typer.Option("--ids", help="Ids: .npy, or text with one a line.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="ROLE=NAME", help="Which column is the id, label, embedding, path or image."),
]
Split = Annotated[str | None, typer.Option(help="Split of a Hugging Face dataset.")]
Encoder = Annotated[str, typer.Option(help="How images become embeddings; see paredown embed --help.")]
Embeddings = Annotated[
    Path | None,
    typer.Option(
        "--embeddings",
        metavar="DIR",
        help="Keep the embeddings of images in this folder, and use those that are there.",
        show_default="beside the output until it is complete",
    ),
]
OnBad = Annotated[str, typer.Option("--on-error", help="`raise` at the first bad example, or `skip` and list them.")]
Memory = Annotated[str, typer.Option(help="Memory to work in, such as 512MiB: larger data are sampled and streamed.")]
Seed = Annotated[int, typer.Option(help="Decides samples, ties and everything random.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")]


@app.command(epilog="Example: `paredown score embeddings.npy --labels labels.npy -o scores.parquet`")
def score(
    sources: Sources,
    out: Annotated[Path, typer.Option("-o", "--out", help="Parquet file to write.", show_default=False)],
    metric: Metric = None,
    k: K = None,
    labels: LabelFile = None,
    ids: IdFile = None,
    column: Columns = None,
    split: Split = None,
    encoder: Encoder = "auto",
    embeddings: Embeddings = None,
    on_error: OnBad = "raise",
    kernel: Kernel = None,
    exact: Exact = False,
    option: MetricOptions = None,
    model: ModelFile = None,
    warm_start: WarmStart = None,
    save_model: SaveModel = None,
    memory: Memory = "1GiB",
    seed: Seed = 0,
    overwrite: Overwrite = False,
    as_json: JsonOption = False,
) -> None:
    """Give every example a score: higher is harder."""
    from paredown.io import check_output, check_table_name, write_scores
    from paredown.scoring import score as score_sources

    check_table_name(out)
    check_output(out, overwrite=overwrite)
    opened = open_sources(sources, labels=labels, ids=ids, columns=column, split=split, on_error=on_error)
    name, given = asked(metric, model)
    ready = _ready_encoder(opened, name, encoder)
    options = scoring_options(
        name,
        out=out,
        k=k,
        encoder=ready,
        on_error=on_error,
        kernel=kernel,
        exact=exact,
        memory=memory,
        options=option,
        model=given,
        warm_start=warm_start,
        save_model=save_model,
        overwrite=overwrite,
    )
    options |= {"embeddings": embeddings, "keep_checkpoint": True}  # until the file is there
    if given is None:
        _announce(opened, name, k, ready)
    scores = score_sources(opened, metric=name, seed=seed, track=progress_bar, **options)
    write_scores(scores, out, overwrite=overwrite)
    rmtree(options["checkpoint"], ignore_errors=True)

    def show() -> None:
        _show_scoring(scores.provenance)
        say(f"{len(scores):,} scores written to [bold]{out}[/]. Next: paredown prune {out} -o DIR")

    emit({"scores": str(out), "examples": len(scores), **scores.provenance}, as_json=as_json, show=show)


@app.command(epilog="Example: `paredown prune embeddings.npy --keep-fraction 0.8 -o pruned`")
def prune(
    sources: Sources,
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder to write.", show_default=False)],
    keep_fraction: Annotated[float, typer.Option(help="Fraction of the examples to keep, in (0, 1].")] = 0.8,
    strategy: Annotated[
        str, typer.Option(help="Which to keep: hard, easy, random, window, stratified or moderate.")
    ] = "hard",
    balance: Annotated[
        float | None,
        typer.Option(
            help="Floor: every class (or cluster) keeps at least this share of what equal pruning would leave it; "
            "0 is off.",
            show_default="0.5",
        ),
    ] = None,
    quota: Annotated[str, typer.Option(help="none, proportional or equal numbers per class.")] = "none",
    drop_hardest: Annotated[float, typer.Option(help="Left out first by window and stratified.")] = 0.05,
    mix_random: Annotated[float, typer.Option(help="Fraction of the kept ones drawn at random.")] = 0.0,
    metric: Metric = None,
    k: K = None,
    labels: LabelFile = None,
    ids: IdFile = None,
    column: Columns = None,
    split: Split = None,
    encoder: Encoder = "auto",
    embeddings: Embeddings = None,
    on_error: OnBad = "raise",
    kernel: Kernel = None,
    exact: Exact = False,
    option: MetricOptions = None,
    model: ModelFile = None,
    warm_start: WarmStart = None,
    save_model: SaveModel = None,
    memory: Memory = "1GiB",
    seed: Seed = 0,
    overwrite: Overwrite = False,
    as_json: JsonOption = False,
) -> None:
    """Keep the examples worth training on: from any source (or scores, or an earlier output) to a manifest."""
    from paredown.io import is_scores
    from paredown.pruning import class_table
    from paredown.pruning import prune as prune_source

    source: Any = sources[0]
    table_labels: Any = None
    name, given = asked(metric, model)
    if len(sources) == 1 and is_scores(source):
        table_labels = _column(labels)
        models = {"model": given, "start": warm_start, "save_model": save_model}
        scoring = {name: value for name, value in models.items() if value is not None}  # refused by `prune`
        _announce_table(source, name, memory)
    else:
        source = open_sources(sources, labels=labels, ids=ids, columns=column, split=split, on_error=on_error)
        ready = _ready_encoder(source, name, encoder)
        scoring = scoring_options(
            name,
            out=out,
            k=k,
            encoder=ready,
            on_error=on_error,
            kernel=kernel,
            exact=exact,
            memory=memory,
            options=option,
            model=given,
            warm_start=warm_start,
            save_model=save_model,
            overwrite=overwrite,
        )
        scoring["embeddings"] = embeddings
        if given is None:
            _announce(source, name, k, ready)
    kept = prune_source(
        source,
        keep_fraction=keep_fraction,
        out=out,
        overwrite=overwrite,
        metric=name,
        strategy=strategy,
        balance=balance,
        labels=table_labels,
        seed=seed,
        track=progress_bar,
        memory=memory,
        scoring=scoring,
        quota=quota,
        drop_hardest=drop_hardest,
        mix_random=mix_random,
    )
    table, b = class_table(kept)
    result = {
        "out": str(out),
        "kept": len(kept),
        "examples": len(kept.scores),
        "balance_score": b,
        "classes": [] if table is None else table.to_pylist(),
        **kept.provenance(),
    }

    def show() -> None:
        _show_scoring(kept.scores.provenance)
        _show_selection(kept, table, b)
        say(f"Manifest, provenance and class table written to [bold]{out}[/].")
        say(f"Next: paredown export {out} --to ids -o kept.txt   (see paredown export --help)")

    emit(result, as_json=as_json, show=show)


@app.command(epilog="Example: `paredown export pruned --to indices -o kept.npy`")
def export(
    manifest: Annotated[Path, typer.Argument(help="A manifest, or the folder that prune wrote.", show_default=False)],
    out: Annotated[Path, typer.Option("-o", "--out", help="File or folder to write.", show_default=False)],
    to: Annotated[
        str, typer.Option(help="ids, paths, indices, uids (DataComp), images, webdataset or huggingface.")
    ] = "ids",
    source: Annotated[Path | None, typer.Option(help="Where the data are now, if they moved.")] = None,
    ids: IdFile = None,
    link: Annotated[str, typer.Option(help="For images: copy, hard or symbolic links.")] = "copy",
    shard_size: Annotated[int, typer.Option(help="For webdataset: examples per tar.")] = 10_000,
    overwrite: Overwrite = False,
    as_json: JsonOption = False,
) -> None:
    """Write the kept examples in the form your training job reads."""
    from paredown.exporting import export as export_manifest

    number = export_manifest(
        manifest,
        to=to,
        out=out,
        source=source,
        ids=_column(ids),
        link=link,  # type: ignore[arg-type]  # checked by export
        shard_size=shard_size,
        overwrite=overwrite,
        track=progress_bar,
    )
    emit(
        {"out": str(out), "to": to, "examples": number},
        as_json=as_json,
        show=lambda: say(f"{number:,} kept examples written to [bold]{out}[/] as {to}."),
    )


def open_sources(
    sources: list[Path],
    *,
    labels: Path | None,
    ids: Path | None,
    columns: list[str] | None,
    split: str | None,
    on_error: str,
) -> list[Source]:
    """Open what the command line names."""
    from paredown.errors import PareError
    from paredown.sources import open_source

    pairs = [pair.partition("=") for pair in columns or ()]
    for role, equals, name in pairs:
        if not equals or not name:
            raise PareError(f"--column takes ROLE=NAME, such as label=species; got {role!r}.")
    return [
        open_source(
            path,
            labels=_column(labels),
            ids=_column(ids),
            columns={role: name for role, _, name in pairs},
            split=split,
            on_error=on_error,  # type: ignore[arg-type]  # checked by open_source
        )
        for path in sources
    ]


def _column(path: Path | None) -> Any:
    from paredown.sources import load_column

    return None if path is None else load_column(path)


def _ready_encoder(sources: list[Source], metric: str, encoder: str) -> Any:
    """A network is loaded before the estimate, which measures it; `pixels` stays a name, to be fitted to the images."""
    from paredown.encoders import load_encoder
    from paredown.errors import PareError
    from paredown.metrics import METRICS
    from paredown.sources import ImageSource

    needed = metric in METRICS and "embeddings" in METRICS[metric].needs
    if encoder == "pixels" or not needed or not any(isinstance(source, ImageSource) for source in sources):
        return encoder
    try:
        return load_encoder(encoder)
    except PareError:
        if encoder == "auto":  # no network is here
            return "pixels"
        raise


def _announce(sources: list[Source], metric: str, k: int | None, encoder: Any) -> None:
    from paredown.encoders import Encoder
    from paredown.metrics import METRICS
    from paredown.pruning import estimate

    network = encoder if isinstance(encoder, Encoder) else None
    for source in sources:
        if metric in METRICS:  # a misspelt one is reported when it is used
            labels = "" if source.labels is None else f", {len(source.labels.classes)} classes"
            text = f"{source.location} ({source.kind}{labels}): {estimate(source, metric=metric, k=k, encoder=network)}"
            error_console.print(escape(text), soft_wrap=not error_console.is_terminal, highlight=False)


def _announce_table(source: Path, metric: str, memory: str) -> None:
    from paredown.pruning import in_memory_bytes, open_scores
    from paredown.sizes import format_size, parse_size

    table = open_scores(source, metric=metric)
    needed = in_memory_bytes(table)
    if needed > parse_size(memory):
        text = f"{source}: {len(table):,} rows would need about {format_size(needed)}, so they are streamed (--memory)."
        error_console.print(escape(text), soft_wrap=not error_console.is_terminal, highlight=False)


def _show_scoring(provenance: dict[str, Any]) -> None:
    report = provenance.get("report", {})
    if "encoder" in provenance.get("source", {}):
        say(f"Encoder: {escape(provenance['source']['encoder'])}.")
    for warning in provenance.get("warnings", []):
        say(f"[yellow]Warning:[/] {escape(warning)}")
    if "model" in provenance:
        say(f"Scored with the model {provenance['model']['fingerprint']}; nothing was fitted.")
    elif "k" in report:
        others = report.get("k_sensitivity", {})
        text = ", ".join(f"{value:.2f} at k = {k}" for k, value in others.items())
        lowest = min(others.values(), default=1.0)
        matters = "hardly" if lowest > 0.8 else "somewhat" if lowest > 0.5 else "much"
        measured = f"rank correlation with the scores {text}: the choice of k matters {matters}" if text else ""
        say(f"Prototypes: k = {report['k']}; {measured or 'sensitivity to k not measured'}.")
    show_skipped(provenance.get("skipped", []))


def show_skipped(skipped: list[list[str]]) -> None:
    """List what was left out, the first ten."""
    if skipped:
        say(f"[yellow]Skipped {len(skipped)}:[/]")
        for what, why in skipped[:10]:
            say(f"  {escape(what)}: {escape(why)}")
        if len(skipped) > 10:
            say(f"  and {len(skipped) - 10} more, all listed in the provenance")


def _show_selection(kept: Selection | StreamedSelection, table: Any, b: dict[str, float]) -> None:
    from rich.table import Table

    recipe = kept.recipe
    floor = f", floor {recipe['balance']:g} per {recipe['grouped_by']}" if recipe["grouped_by"] else ""
    how = f"{recipe['strategy']}, metric {kept.scores.metric}{floor}"
    say(f"Kept [bold]{len(kept):,}[/] of {len(kept.scores):,} examples ({how}).")
    if table is not None:
        rows = table.to_pylist()
        name = table.column_names[0]
        shown = Table(title=f"{name} balance b: {b['before']:.3f} before, {b['after']:.3f} after", title_justify="left")
        ranges = {"score_min": "lowest score", "score_median": "median", "score_max": "highest"}
        ranges = {column: heading for column, heading in ranges.items() if column in table.column_names}
        for heading in (name, "examples", "kept", "kept %", *ranges.values()):
            shown.add_column(heading, justify="left" if heading == name else "right")
        for row in rows[:_SHOWN_CLASSES]:
            scores = ("" if row[column] is None else f"{row[column]:.4f}" for column in ranges)
            shown.add_row(
                str(row[name]), f"{row['examples']:,}", f"{row['kept']:,}", f"{100 * row['kept_fraction']:.1f}", *scores
            )
        console.print(shown)
        if len(rows) > _SHOWN_CLASSES:
            say(f"... and {len(rows) - _SHOWN_CLASSES} more in classes.csv")
    for note in kept.notes:
        say(f"Note: {escape(note)}")
