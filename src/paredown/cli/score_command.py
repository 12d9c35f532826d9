"""`paredown score`: how hard is every example?"""

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
    named_columns,
    open_sources,
    read_column,
)
from paredown.cli.terminal import emit, progress_bar, say
from paredown.text import quoted

if TYPE_CHECKING:
    from paredown.scores import Scores


@app.command(epilog="Example: `paredown score embeddings.npy --labels labels.npy -o scores.parquet`")
def score(
    out: Annotated[Path, typer.Option("-o", "--out", help="Parquet file to write.", show_default=False)],
    sources: Sources = None,  # type: ignore[assignment]  # typer gives none as None
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
    imported: Annotated[
        Path | None,
        typer.Option(
            "--from",
            metavar="FILE",
            help="Take scores computed elsewhere, a .csv, .npy, .npz, .pt or .parquet file, in place of computing "
            "them; they are matched with SOURCE by id if that is given.",
        ),
    ] = None,
    higher_is: Annotated[
        str | None, typer.Option(metavar="harder|easier", help="What a high number in that file means.")
    ] = None,
    memory: Memory = "1GiB",
    seed: Seed = 0,
    trust_source: TrustSource = False,
    overwrite: Overwrite = False,
    as_json: JsonOption = False,
) -> None:
    """Give every example a score: higher is harder.

    Several metrics, with commas between them, make a column each; those that train share the training.
    """
    from paredown.checkpoint import remove_parts
    from paredown.files import check_all_apart, check_distinct, locked, parts_folder
    from paredown.pruning import digest_of_scores
    from paredown.score_files import check_table_name, check_table_output, write_scores
    from paredown.scoring import request_digest
    from paredown.units import parse_size

    check_table_name(out)
    checkpoint = parts_folder(out)
    outputs = (out, out.with_suffix(".json"), embeddings, save_model)
    given_files = [file for file in (labels, ids, model, warm_start, imported) if file is not None]
    check_distinct(*outputs)
    check_all_apart(outputs, [*(sources or ()), *given_files])
    current.writes(out, overwrite=overwrite, parts=checkpoint, sources=sources or ())
    parse_size(memory)
    opening = {"labels": labels, "split": split, "on_error": on_error, "memory": memory}
    if imported is not None:
        _check_import(imported, higher_is, sources)
        opened = open_sources(sources or [], ids=None, columns=None, **opening)  # those of the file of scores
        given_scores = _import(imported, higher_is, metric, column, opened, labels, ids)
        metrics, decided_by = [given_scores.metric], {"imported": digest_of_scores(given_scores)}
        make = lambda: [given_scores]
    else:
        _check_scoring(higher_is, sources)
        metrics, given = asked(metric, model)
        options = metric_options(
            metrics,
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
        models = {"model": given, "start": warm_start, "save_model": save_model}
        _check_several(metrics, sources, models)
        opened = open_sources(sources, ids=ids, columns=column, **opening)
        ready = ready_encoder(
            opened, metrics, options, encoder, seed=seed, embeddings=embeddings, overwrite=overwrite, **models
        )
        options |= {"encoder": ready, "on_error": on_error, "seed": seed, "track": progress_bar}
        options |= {"embeddings": embeddings, "checkpoint": checkpoint, "keep_checkpoint": True}  # until all is written
        options |= {"trust_source": trust_source}
        decided_by = options | models

        def make() -> list[Scores]:
            if given is None:
                announce(opened, metrics, options, ready)
            return _score(opened, metrics, models, overwrite, options)

    data = {"sources": [source.identity() for source in opened], "metrics": metrics}
    request = request_digest(data, options=decided_by)
    read = [place for source in opened for place in source.places()] + given_files
    with locked(out):
        scored = None if overwrite else _read_finished(out, metrics, request)
        already = scored is not None
        if scored is None:
            check_table_output(out, overwrite=overwrite, sources=read)
            scored = make()
            for scores in scored:
                scores.provenance["request"] = request
            write_scores(scored, out, overwrite=overwrite, sources=read)
        remove_parts(checkpoint, output=out)
    first = scored[0]

    def show() -> None:
        for scores in scored:
            show_scoring(scores.provenance)
        by = "" if len(scored) == 1 else f" by each of {len(scored)} metrics"
        which = "" if len(scored) == 1 else f" --metric {quoted(first.metric)}"
        if already:
            say("[bold]{}[/] was complete already: the same scores, made before.", out)
        else:
            say("{:,} scores{} written to [bold]{}[/].", len(first), by, out)
        say("Next: paredown prune {}{} -o DIR", quoted(out), which)

    record = first.provenance if len(scored) == 1 else {"metrics": {s.metric: s.provenance for s in scored}}
    emit({"scores": str(out), "examples": len(first), **record}, as_json=as_json, show=show)


def _read_finished(out: Path, metrics: list[str], request: str | None) -> list[Scores] | None:
    """The scores that the same command wrote before; their JSON is written if a kill left none."""
    from paredown.files import finished_request
    from paredown.score_files import is_changed, provenance_in, read_scores, write_sidecar

    if request is None or finished_request(out) != request or is_changed(out):
        return None
    write_sidecar(out, provenance_in(out))
    return [read_scores(out, metric=metric) for metric in metrics]


def _check_scoring(higher_is: str | None, sources: list[Path] | None) -> None:
    from paredown.errors import PareError

    if not sources:
        raise PareError("give what is to be scored: SOURCE, or scores computed elsewhere with --from.")
    if higher_is is not None:
        raise PareError("--higher-is says how to read scores computed elsewhere; give their file with --from.")


def _check_several(metrics: list[str], sources: list[Path], models: dict[str, Any]) -> None:
    from paredown.errors import PareError

    if len(metrics) == 1:
        return
    if len(sources) > 1:
        raise PareError("an ensemble of sources is scored by one metric; give one, or one source.")
    for name, flag in {"model": "--model", "start": "--warm-start", "save_model": "--save-model"}.items():
        if models[name] is not None:
            raise PareError(f"{flag} goes with one metric, and {', '.join(metrics)} were given.")


def _check_import(file: Path, higher_is: str | None, sources: list[Path] | None) -> None:
    from paredown.errors import PareError, unknown_name

    if higher_is is None:
        raise PareError(
            f"{file}: does a high score mean a harder or an easier example? Say --higher-is harder, or easier."
        )
    if higher_is not in ("harder", "easier"):
        raise unknown_name("value of --higher-is", higher_is, ("harder", "easier"))
    if sources and len(sources) > 1:
        raise PareError(f"{file}: scores belong to one source, and {len(sources)} are given.")


def _score(
    opened: list[Any], metrics: list[str], models: dict[str, Any], overwrite: bool, options: dict[str, Any]
) -> list[Scores]:
    from paredown.scoring import score as score_sources
    from paredown.scoring import score_all

    if len(metrics) == 1:
        return [score_sources(opened, metric=metrics[0], overwrite=overwrite, **models, **options)]
    return list(score_all(opened[0], metrics=metrics, **options).values())


def _import(
    file: Path,
    higher_is: str | None,
    metric: str | None,
    column: list[str] | None,
    opened: list[Any],
    labels: Path | None,
    ids: Path | None,
) -> Scores:
    from paredown.scoring.imported_scores import import_scores

    return import_scores(
        file,
        higher_is=higher_is,  # type: ignore[arg-type]  # checked by import_scores
        metric=metric,
        column=named_columns(column).get("score"),
        source=opened[0] if opened else None,
        ids=read_column(ids),
        labels=None if opened else read_column(labels),
    )
