"""`paredown prune` and `paredown export`: the main job."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paredown.cli.announced_outputs import current
from paredown.cli.app import (
    JsonOption,
    OutFolder,
    Overwrite,
    advanced_option,
    app,
    input_option,
    positional,
    selection_option,
)
from paredown.cli.engine_options import EngineOptions, check_ranged
from paredown.cli.report_command import check_report_name, report_result, show_report
from paredown.cli.scoring_options import ScoringOptions, announce, ready_encoder, show_scoring
from paredown.cli.source_options import IdFile, Sources, TrustSource, read_column, show_warnings
from paredown.cli.terminal import TextTable, aside, compose, emit, progress_bar, say
from paredown.errors import PareError, argument
from paredown.text import quoted

if TYPE_CHECKING:
    from paredown.report import ReportSummary
    from paredown.selection import Selection

_BALANCE_LOSS = 0.05  # of b, above which there is advice
_SHOWN_CLASSES = 20  # rows of the class table on screen; the file has all of them


@dataclass(frozen=True, kw_only=True)
class SelectionOptions:
    """Which of the scored examples are kept."""

    strategy: Annotated[str, selection_option("NAME", "Which examples to keep: {strategies}.")] = "hard"
    balance: Annotated[
        float | None,
        selection_option(
            "SHARE",
            "Floor: every class (or cluster) keeps at least this share of what pruning all classes equally would "
            "leave it; 0 means no floor.",
            show_default="0.5 where there are labels or clusters",
        ),
    ] = None
    quota: Annotated[str, selection_option("KIND", "Examples per class: {quotas}.")] = "none"
    drop_hardest: Annotated[
        float,
        selection_option("F", "Fraction of the hardest examples that `window` and `stratified` discard first."),
    ] = 0.05
    mix_random: Annotated[float, selection_option("F", "Fraction of the kept examples to draw at random.")] = 0.0


@app.command(epilog="Example: `paredown prune embeddings.npy --keep-fraction 0.8 -o pruned`")
def prune(
    sources: Sources,
    out: OutFolder,
    selecting: SelectionOptions,
    scoring: ScoringOptions,
    where: EngineOptions,
    keep_fraction: Annotated[
        float, typer.Option(metavar="F", help="Fraction of the examples to keep, in (0, 1].")
    ] = 0.8,
    report: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also write a page to look at, as `paredown report` does.")
    ] = None,
    overwrite: Overwrite = False,
    as_json: JsonOption = False,
) -> None:
    """Keep the examples worth training on, and write a manifest of them.

    Takes any source, a table of scores, or the output of an earlier prune to select from again.
    """
    from paredown.files import check_all_apart, check_distinct, parts_folder
    from paredown.pruning import check_finished
    from paredown.pruning import prune as prune_source
    from paredown.score_files import is_scores
    from paredown.selection import DROPPING, SelectionSettings

    checkpoint = parts_folder(out)
    check_distinct(out, scoring.embeddings, scoring.save_model, report)
    given_files = (scoring.labels, scoring.ids, scoring.model, scoring.warm_start)
    check_all_apart((out, scoring.embeddings, scoring.save_model, report), [*sources, *given_files])
    current.writes(out, overwrite=overwrite, folder=True, parts=checkpoint, sources=sources)
    if report is not None:
        check_report_name(report)
        current.writes(report, overwrite=overwrite, sources=sources)
    scoring.check()
    where.check()
    settings: dict[str, Any] = vars(selecting) | {"keep_fraction": keep_fraction, "seed": scoring.seed}
    SelectionSettings(**{**settings, "balance": selecting.balance or 0.0}).check()
    if selecting.strategy not in DROPPING and selecting.drop_hardest != SelectionSettings.drop_hardest:
        given = argument("drop_hardest", selecting.drop_hardest)
        raise PareError(f"{given} has no effect with --strategy {selecting.strategy}; leave out one of them.")
    if not overwrite:
        check_finished(out, {name: settings[name] for name in ("keep_fraction", "strategy", "quota", "seed")})
    source: Any = sources[0]
    table_labels: Any = None
    names, model = scoring.metrics_and_model()
    metric: Any = names[0]
    if len(names) > 1:
        raise PareError(f"prune selects by one metric, but --metric {scoring.metric} was given; score takes several.")
    models = {"model": model, "start": scoring.warm_start, "save_model": scoring.save_model}
    options: dict[str, Any] = {}
    selected_again = len(sources) == 1 and is_scores(source)
    if selected_again:
        scoring.check_computed("ids", "column")
        table_labels, metric = read_column(scoring.labels), scoring.metric  # that of the table unless one is named
        _announce_table(source, metric, scoring.memory)
    elif where.engine != "local":
        check_ranged(scoring, sources)
        options = scoring.metric_options([metric]) | {"trust_source": scoring.trust_source, "model": model}
    else:
        options = scoring.metric_options([metric])
        source = scoring.open(sources)
        models |= {"overwrite": overwrite}
        encoder = ready_encoder(
            source, [metric], options, scoring.encoder, seed=scoring.seed, embeddings=scoring.embeddings, **models
        )
        if model is None:
            announce(source, [metric], options, encoder, scoring.embeddings)
        options |= scoring.scoring_arguments() | {"encoder": encoder, "checkpoint": checkpoint} | models
    kept = prune_source(
        source,
        out=out,
        overwrite=overwrite,
        metric=metric,
        labels=table_labels,
        track=progress_bar,
        memory=scoring.memory,
        scoring=options,
        **where.arguments(),
        **settings,
    )
    written = None if report is None else _write_report(out, report, scoring.embeddings, overwrite)
    table, b = kept.class_table(), kept.balance_scores()
    result = {
        "out": str(out),
        "kept": len(kept),
        "examples": kept.n_examples,
        "balance_score": b,
        "classes": [] if table is None else table.to_pylist(),
        **kept.provenance(),
    } | ({} if written is None or report is None else {"report_page": report_result(written, report)})

    def show() -> None:
        show_scoring(kept.rows.provenance)
        _show_selection(kept, table, b)
        better = _uses_labels(kept, table)
        if better is not None:
            scoring_again = "scoring the data again with " if selected_again else ""
            say("Hint: there are labels; {}--metric {} uses them, and may rank better.", scoring_again, better)
        if kept.already:
            say("[bold]{}[/] was already complete; nothing was changed.", out)
        else:
            classes = " and class table" if (out / "classes.csv").exists() else ""
            say("Manifest, with its provenance,{} written to [bold]{}[/].", classes, out)
        if written is not None and report is not None:
            show_report(written, report)
        say("Next: paredown export {} --to ids -o kept.txt   (see paredown export --help)", quoted(out))

    emit(result, as_json=as_json, show=show)


def _write_report(out: Path, report: Path, embeddings: Path | None, overwrite: bool) -> ReportSummary:
    from paredown.report import write_report

    return write_report(out, report, embeddings=embeddings, overwrite=overwrite, track=progress_bar)


@app.command(epilog="Example: `paredown export pruned --to indices -o kept.npy`")
def export(
    manifest: Annotated[Path, positional("MANIFEST", "A manifest, or the folder that `prune` wrote.")],
    out: Annotated[
        Path,
        typer.Option("-o", "--out", metavar="PATH", help="File or folder to write.", show_default=False),
    ],
    to: Annotated[str, typer.Option(help="The form:\n{exports}\n")] = "ids",
    source: Annotated[Path | None, input_option("PATH", "Where the data are now, if they moved.")] = None,
    ids: IdFile = None,
    link: Annotated[str, advanced_option("KIND", "How `images` and `lightly` place files: {links}.")] = "copy",
    shard_size: Annotated[int, advanced_option("N", "Examples per tar file of `webdataset`.")] = 10_000,
    trust_source: TrustSource = False,
    overwrite: Overwrite = False,
    as_json: JsonOption = False,
) -> None:
    """Write the kept examples in the form your training job or viewer reads."""
    from paredown.exporting import EXPORTS, check_export
    from paredown.exporting import export as export_manifest

    check_export(to, out)
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

    what = "kept examples" if EXPORTS[to].kept_only else "examples, kept and dropped,"
    step = EXPORTS[to].next_step
    next_step = None if step is None else step(out)

    def show() -> None:
        show_warnings(warnings)
        if already:
            say(
                "[bold]{}[/] was already complete, with {:,} {}; nothing was changed.",
                out,
                number,
                what.removesuffix(","),
            )
        else:
            say("{:,} {} written to [bold]{}[/] as {}.", number, what, out, to)
        if next_step is not None:
            say("Next: [bold]{}[/]", next_step)

    result = {"out": str(out), "to": to, "examples": number, "warnings": warnings, "next": next_step}
    emit(result, as_json=as_json, show=show)


def _announce_table(source: Path, metric: str | None, memory: str) -> None:
    from paredown.pruning import open_scores
    from paredown.units import format_size, parse_size

    table = open_scores(source, metric=metric)
    needed = table.in_memory_bytes
    if needed > parse_size(memory):
        size = format_size(needed)
        aside(
            "{}: {:,} rows would need about {} of memory, more than --memory, so they are streamed.",
            source,
            len(table),
            size,
        )


def _uses_labels(kept: Selection, table: Any) -> str | None:
    """The metric that would use the labels that there are, where the scores do not."""
    from paredown.metrics import METRICS

    made_by = kept.rows.provenance.get("metric")
    labelled = table is not None and table.column_names[0] == "class"
    return METRICS[made_by].with_labels if labelled and made_by in METRICS else None


def _show_selection(kept: Selection, table: Any, b: dict[str, float]) -> None:
    strategy, *facts = list(kept.introduce().items())[1:]
    how = ", ".join([strategy[1], *(f"{name} {value}" for name, value in facts)])
    say("Kept [bold]{:,}[/] of {:,} examples ({}).", len(kept), kept.n_examples, how)
    if table is not None:
        rows = table.to_pylist()
        name = table.column_names[0]
        ranges = {"score_min": "lowest score", "score_median": "median", "score_max": "highest"}
        ranges = {column: heading for column, heading in ranges.items() if table[column].null_count < len(rows)}
        numbers = ("examples", "kept", "kept %", *ranges.values())
        title = compose("{} balance b: {:.3f} before, {:.3f} after", name, b["before"], b["after"])
        caption = compose(
            "b: size of the smaller of two {} over the larger, averaged over all pairs; 1 if all are equally large.{}",
            "classes" if name == "class" else "clusters",
            " Pruning made them less equal: raise --balance, or use --quota proportional."
            if b["after"] < b["before"] - _BALANCE_LOSS
            else "",
        )
        shown = TextTable(title, {name: "left", **dict.fromkeys(numbers, "right")}, caption=caption)
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
