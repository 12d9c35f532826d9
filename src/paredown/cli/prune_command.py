"""`paredown prune` and `paredown export`: the main job."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paredown.cli.announced_outputs import current
from paredown.cli.app import JsonOption, app
from paredown.cli.scoring_options import (
    Embeddings,
    Encoder,
    Epochs,
    Exact,
    K,
    Kernel,
    Members,
    Metric,
    MetricOptions,
    ModelFile,
    PseudoLabels,
    Recipe,
    SaveModel,
    WarmStart,
    announce,
    asked,
    metric_options,
    ready_encoder,
    show_scoring,
)
from paredown.cli.source_options import (
    Columns,
    IdFile,
    LabelFile,
    Memory,
    OnBad,
    Overwrite,
    Seed,
    Sources,
    Split,
    TrustSource,
    open_sources,
    read_column,
    show_warnings,
)
from paredown.cli.terminal import Grid, aside, compose, emit, progress_bar, say
from paredown.text import quoted

if TYPE_CHECKING:
    from paredown.selection import Selection
    from paredown.selection.streamed import StreamedSelection

_SHOWN_CLASSES = 20  # rows of the class table on screen; the file has all of them


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
    recipe: Recipe = None,
    members: Members = None,
    epochs: Epochs = None,
    pseudo_labels: PseudoLabels = False,
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
    trust_source: TrustSource = False,
    overwrite: Overwrite = False,
    as_json: JsonOption = False,
) -> None:
    """Keep the examples worth training on: from any source (or scores, or an earlier output) to a manifest."""
    from paredown.errors import PareError
    from paredown.files import check_all_apart, check_distinct, parts_folder
    from paredown.pruning import check_finished, class_table
    from paredown.pruning import prune as prune_source
    from paredown.score_files import is_scores
    from paredown.selection import check_settings
    from paredown.units import parse_size

    checkpoint = parts_folder(out)
    check_distinct(out, embeddings, save_model)
    check_all_apart((out, embeddings, save_model), [*sources, labels, ids, model, warm_start])
    current.writes(out, overwrite=overwrite, folder=True, parts=checkpoint, sources=sources)
    check_settings(keep_fraction, strategy, balance or 0.0, quota, drop_hardest, mix_random, seed)
    parse_size(memory)
    if not overwrite:
        check_finished(out, {"keep_fraction": keep_fraction, "strategy": strategy, "quota": quota, "seed": seed})
    source: Any = sources[0]
    table_labels: Any = None
    (name, *more), given = asked(metric, model)
    if more:
        raise PareError(f"examples are kept by one metric, and {metric} were given; `paredown score` takes several.")
    if len(sources) == 1 and is_scores(source):
        table_labels = read_column(labels)
        models = {"model": given, "start": warm_start, "save_model": save_model}
        scoring = {name: value for name, value in models.items() if value is not None}  # refused by `prune`
        _announce_table(source, name, memory)
    else:
        scoring = metric_options(
            [name],
            option,
            encoder=encoder,
            kernel=kernel,
            exact=exact,
            memory=memory if given is None else None,
            k=k,
            recipe=recipe,
            members=members,
            epochs=epochs,
            pseudo_labels=pseudo_labels,
        )
        source = open_sources(
            sources, labels=labels, ids=ids, columns=column, split=split, on_error=on_error, memory=memory
        )
        models = {"model": given, "start": warm_start, "save_model": save_model, "overwrite": overwrite}
        ready = ready_encoder(source, [name], scoring, encoder, seed=seed, embeddings=embeddings, **models)
        if given is None:
            announce(source, [name], scoring, ready)
        scoring |= {"encoder": ready, "on_error": on_error, "embeddings": embeddings, "checkpoint": checkpoint} | models
        scoring |= {"trust_source": trust_source}
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
        show_scoring(kept.scores.provenance)
        _show_selection(kept, table, b)
        if kept.already:
            say("[bold]{}[/] was complete already: the same command wrote it before.", out)
        else:
            say("Manifest, provenance and class table written to [bold]{}[/].", out)
        say("Next: paredown export {} --to ids -o kept.txt   (see paredown export --help)", quoted(out))

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
    trust_source: TrustSource = False,
    overwrite: Overwrite = False,
    as_json: JsonOption = False,
) -> None:
    """Write the kept examples in the form your training job reads."""
    from paredown.errors import unknown_name
    from paredown.exporting import EXPORTS
    from paredown.exporting import export as export_manifest

    if to not in EXPORTS:
        raise unknown_name("export", to, EXPORTS)
    given_files = () if ids is None else (ids,)
    current.writes(out, overwrite=overwrite, folder=EXPORTS[to].folder, sources=given_files)
    warnings: list[str] = []
    already = out.exists() and not overwrite  # or `export` refuses it
    number = export_manifest(
        manifest,
        to=to,
        out=out,
        source=source,
        ids=read_column(ids),
        link=link,  # type: ignore[arg-type]  # checked by export
        shard_size=shard_size,
        overwrite=overwrite,
        trust_source=trust_source,
        track=progress_bar,
        warn=warnings.append,
    )

    def show() -> None:
        show_warnings(warnings)
        if already:
            say("{:,} kept examples were in [bold]{}[/] already: the same command wrote them before.", number, out)
        else:
            say("{:,} kept examples written to [bold]{}[/] as {}.", number, out, to)

    emit({"out": str(out), "to": to, "examples": number, "warnings": warnings}, as_json=as_json, show=show)


def _announce_table(source: Path, metric: str, memory: str) -> None:
    from paredown.pruning import in_memory_bytes, open_scores
    from paredown.units import format_size, parse_size

    table = open_scores(source, metric=metric)
    needed = in_memory_bytes(table)
    if needed > parse_size(memory):
        size = format_size(needed)
        aside("{}: {:,} rows would need about {}, so they are streamed (--memory).", source, len(table), size)


def _show_selection(kept: Selection | StreamedSelection, table: Any, b: dict[str, float]) -> None:
    recipe = kept.recipe
    floor = f", floor {recipe['balance']:g} per {recipe['grouped_by']}" if recipe["grouped_by"] else ""
    how = f"{recipe['strategy']}, metric {kept.scores.metric}{floor}"
    say("Kept [bold]{:,}[/] of {:,} examples ({}).", len(kept), len(kept.scores), how)
    if table is not None:
        rows = table.to_pylist()
        name = table.column_names[0]
        ranges = {"score_min": "lowest score", "score_median": "median", "score_max": "highest"}
        ranges = {column: heading for column, heading in ranges.items() if column in table.column_names}
        numbers = ("examples", "kept", "kept %", *ranges.values())
        title = compose("{} balance b: {:.3f} before, {:.3f} after", name, b["before"], b["after"])
        shown = Grid(title, {name: "left", **dict.fromkeys(numbers, "right")})
        for row in rows[:_SHOWN_CLASSES]:
            scores = ("" if row[column] is None else f"{row[column]:.4f}" for column in ranges)
            shown.add(
                row[name], f"{row['examples']:,}", f"{row['kept']:,}", f"{100 * row['kept_fraction']:.1f}", *scores
            )
        shown.show()
        if len(rows) > _SHOWN_CLASSES:
            say("... and {} more in classes.csv", len(rows) - _SHOWN_CLASSES)
    for note in kept.notes:
        say("Note: {}", note)
