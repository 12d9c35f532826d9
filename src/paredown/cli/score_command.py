"""`paredown score`: how hard is every example?"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paredown.cli.announced_outputs import current
from paredown.cli.app import JsonOption, Overwrite, app, input_option, positional
from paredown.cli.engine_options import EngineOptions, Shard, check_ranged
from paredown.cli.scoring_options import ScoringOptions, announce, ready_encoder, show_scoring
from paredown.cli.source_options import Sources, named_columns, read_column, show_skipped
from paredown.cli.terminal import emit, progress_bar, say
from paredown.errors import PareError, check_known
from paredown.text import quoted

if TYPE_CHECKING:
    from paredown.scores import Scores


_SHOWN = 3  # of the hardest and easiest examples


@app.command(epilog="Example: `paredown score embeddings.npy --labels labels.npy -o scores.parquet`")
def score(
    scoring: ScoringOptions,
    out: Annotated[
        Path,
        typer.Option(
            "-o",
            "--out",
            metavar="FILE",
            help="Parquet file to write; a folder with --engine ray or --shard.",
            show_default=False,
        ),
    ],
    where: EngineOptions,
    sources: Sources = None,  # type: ignore[assignment]  # typer gives none as None
    imported: Annotated[
        Path | None,
        input_option(
            "FILE",
            "Import scores computed elsewhere (.csv, .npy, .npz, .pt or .parquet) instead of computing them; "
            "they are matched with SOURCE by id if that is given.",
            "--from",
        ),
    ] = None,
    higher_is: Annotated[str | None, input_option("harder|easier", "What a high score in that file means.")] = None,
    shard: Shard = None,
    overwrite: Overwrite = False,
    as_json: JsonOption = False,
) -> None:
    """Score how hard every example is; higher is harder.

    Several metrics, separated by commas, become one column each; those that train networks share them.
    """
    from paredown.checkpoint import remove_parts
    from paredown.files import check_all_apart, check_distinct, locked, parts_folder
    from paredown.places import as_place
    from paredown.pruning import digest_of_scores
    from paredown.reading import damaged
    from paredown.score_files import check_table_name, check_table_output, write_scores
    from paredown.scoring import request_digest
    from paredown.sources.arrays import read_record

    where.check()
    for source in sources or ():
        with damaged(source, "source"):
            read_record(as_place(source))  # an unfinished store is no matter of how the output is called
    if where.engine != "local" or shard is not None:
        _check_scoring(higher_is, sources)
        _score_by_ranges(sources, out, scoring, where, shard, overwrite=overwrite, as_json=as_json)
        return
    check_table_name(out)
    checkpoint = parts_folder(out)
    outputs = (out, out.with_suffix(".json"), scoring.embeddings, scoring.save_model)
    optional_files = (scoring.labels, scoring.ids, scoring.model, scoring.warm_start, imported)
    given_files = [file for file in optional_files if file is not None]
    check_distinct(*outputs)
    check_all_apart(outputs, [*(sources or ()), *given_files])
    current.writes(out, overwrite=overwrite, parts=checkpoint, sources=sources or ())
    scoring.check()
    if imported is not None:
        _check_import(imported, higher_is, sources)
        scoring.check_computed()
        opened = scoring.open(sources or [], as_imported=True)
        given_scores = _import(imported, higher_is, scoring, opened)
        metrics, decided_by = [given_scores.metric], {"imported": digest_of_scores(given_scores)}
        make = lambda: [given_scores]
    else:
        _check_scoring(higher_is, sources)
        metrics, model = scoring.metrics_and_model()
        options = scoring.metric_options(metrics)
        models = {"model": model, "start": scoring.warm_start, "save_model": scoring.save_model}
        _check_several(metrics, sources, models)
        opened = scoring.open(sources)
        early = {"seed": scoring.seed, "embeddings": scoring.embeddings, "overwrite": overwrite}
        encoder = ready_encoder(opened, metrics, options, scoring.encoder, **early, **models)
        options |= scoring.scoring_arguments() | {"encoder": encoder, "seed": scoring.seed, "track": progress_bar}
        options |= {"checkpoint": checkpoint, "keep_checkpoint": True}  # until all is written
        decided_by = options | models

        def make() -> list[Scores]:
            if model is None:
                announce(opened, metrics, options, encoder, scoring.embeddings)
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
    extremes = {scores.metric: _extremes(scores) for scores in scored}

    def show() -> None:
        for scores in scored:
            if len(scored) > 1:
                say("[bold]{}[/]", scores.metric)
            show_scoring(scores.provenance)
            for end, examples in extremes[scores.metric].items():
                say("{}: {}.", end.capitalize(), ", ".join(f"{e['id']} ({e['score']:.4g})" for e in examples))
        by = "" if len(scored) == 1 else f" by each of {len(scored)} metrics"
        which = "" if len(scored) == 1 else f" --metric {quoted(first.metric)}"
        if already:
            say("[bold]{}[/] was already complete; nothing was changed.", out)
        else:
            say("{:,} scores{} written to [bold]{}[/].", len(first), by, out)
        say("Next: paredown prune {}{} -o DIR", quoted(out), which)

    records = {scores.metric: scores.provenance | extremes[scores.metric] for scores in scored}
    record = records[first.metric] if len(scored) == 1 else {"metrics": records}
    emit({"scores": str(out), "examples": len(first), **record}, as_json=as_json, show=show)


def _score_by_ranges(
    sources: list[Path],
    out: Path,
    scoring: ScoringOptions,
    where: EngineOptions,
    shard: str | None,
    *,
    overwrite: bool,
    as_json: bool,
) -> None:
    """Scores in a folder of tables, made on a cluster or in shares."""
    from paredown.scoring.ranged_scoring import score_ranges

    check_ranged(scoring, sources)
    if out.suffix == ".parquet":
        raise PareError(f"ranges of rows are scored into a folder; name the output {out.with_suffix('')}.")
    current.grows(out, "finished tables")
    scored_now: list[int] = []
    metrics, model = scoring.metrics_and_model()
    if len(metrics) > 1:
        raise PareError(f"ranges of rows are scored by one metric, but {', '.join(metrics)} were given.")
    table = score_ranges(
        sources[0],
        out=out,
        metric=metrics[0],
        seed=scoring.seed,
        shard=shard,
        model=model,
        overwrite=overwrite,
        trust_source=scoring.trust_source,
        track=progress_bar,
        tell=scored_now.append,
        **where.arguments(),
        **scoring.metric_options(metrics),
    )
    already = sum(scored_now) == 0

    def show() -> None:
        if table is None and already:
            say("Share {} was already there; nothing was changed. When all are: paredown merge {}", shard, quoted(out))
            return
        if table is None:
            say("Share {} is done. When all are: paredown merge {}", shard, quoted(out))
            return
        show_scoring(table.provenance)
        if already:
            say("{:,} scores were already complete in [bold]{}[/]; nothing was changed.", len(table), out)
        else:
            say("{:,} scores written to [bold]{}[/].", len(table), out)
        say("Next: paredown prune {} -o DIR", quoted(out))

    record = {} if table is None else {"examples": len(table), **table.provenance}
    emit({"scores": str(out), "complete": table is not None, **record}, as_json=as_json, show=show)


@app.command(epilog="Example: `paredown merge scores`")
def merge(
    folder: Annotated[Path, positional("DIR", "The folder that the shares were written to.")],
    as_json: JsonOption = False,
) -> None:
    """Join what several runs of `score --shard` or `embed --shard` wrote, once all of it is there."""
    from paredown.embeddings.store import is_store, merge_store
    from paredown.scoring.ranged_scoring import merge as merge_scores

    if is_store(folder):
        store = merge_store(folder)
        what, examples, result = "embeddings", store.examples, {"out": str(folder), **store.provenance}
    else:
        table = merge_scores(folder)
        what, examples = "scores", len(table)
        result = {"scores": str(folder), "examples": examples, **table.provenance}

    def show() -> None:
        say("{:,} {} are complete in [bold]{}[/].", examples, what, folder)
        if is_store(folder):
            show_skipped(result["skipped"])
        say("Next: paredown prune {} -o DIR", quoted(folder))

    emit(result, as_json=as_json, show=show)


def _extremes(scores: Scores) -> dict[str, list[dict[str, Any]]]:
    """The few hardest and easiest examples, ties in the order of the table."""
    import numpy as np

    order = np.argsort(scores.values, kind="stable")
    ends = {"hardest": order[::-1][:_SHOWN], "easiest": order[:_SHOWN]}
    return {
        end: [
            {"id": name, "score": value}
            for name, value in zip(scores.ids[rows].tolist(), scores.values[rows].tolist(), strict=True)
        ]
        for end, rows in ends.items()
    }


def _read_finished(out: Path, metrics: list[str], request: str | None) -> list[Scores] | None:
    """The scores that the same command wrote before; their JSON is written if a kill left none."""
    from paredown.files import finished_request
    from paredown.score_files import is_changed, provenance_in, read_scores, write_sidecar

    if request is None or finished_request(out) != request or is_changed(out):
        return None
    write_sidecar(out, provenance_in(out))
    return [read_scores(out, metric=metric) for metric in metrics]


def _check_scoring(higher_is: str | None, sources: list[Path] | None) -> None:
    if not sources:
        raise PareError("give something to score: SOURCE, or a file of scores computed elsewhere with --from.")
    if higher_is is not None:
        raise PareError("--higher-is is for scores computed elsewhere; give their file with --from.")


def _check_several(metrics: list[str], sources: list[Path], models: dict[str, Any]) -> None:
    if len(metrics) == 1:
        return
    if len(sources) > 1:
        raise PareError("several sources are scored as an ensemble, by one metric; give one metric, or one source.")
    for name, flag in {"model": "--model", "start": "--warm-start", "save_model": "--save-model"}.items():
        if models[name] is not None:
            raise PareError(f"{flag} works with one metric, but {', '.join(metrics)} were given.")


def _check_import(file: Path, higher_is: str | None, sources: list[Path] | None) -> None:
    if higher_is is None:
        raise PareError(
            f"{file}: does a high score mean a harder or an easier example? Give --higher-is harder or easier."
        )
    check_known("value of --higher-is", higher_is, ("harder", "easier"))
    if sources and len(sources) > 1:
        raise PareError(f"{file}: scores belong to one source, but {len(sources)} were given.")


def _score(
    opened: list[Any], metrics: list[str], models: dict[str, Any], overwrite: bool, options: dict[str, Any]
) -> list[Scores]:
    from paredown.scoring import score as score_sources
    from paredown.scoring import score_all

    if len(metrics) == 1:
        return [score_sources(opened, metric=metrics[0], overwrite=overwrite, **models, **options)]
    return list(score_all(opened[0], metrics=metrics, **options).values())


def _import(file: Path, higher_is: str | None, scoring: ScoringOptions, opened: list[Any]) -> Scores:
    from paredown.scoring.imported_scores import import_scores

    return import_scores(
        file,
        higher_is=higher_is,  # type: ignore[arg-type]  # checked by import_scores
        metric=scoring.metric,
        column=named_columns(scoring.column).get("score"),
        source=opened[0] if opened else None,
        ids=read_column(scoring.ids),
        labels=None if opened else read_column(scoring.labels),
    )
