"""`paredown report`: a page to look at and to show to others."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paredown.cli.announced_outputs import current
from paredown.cli.app import JsonOption, Overwrite, advanced_option, app, input_option, positional, selection_option
from paredown.cli.source_options import TrustSource, read_column
from paredown.cli.terminal import emit, progress_bar, say
from paredown.errors import PareError

if TYPE_CHECKING:
    from paredown.report import ReportSummary


@app.command(epilog="Example: `paredown report pruned -o report.html`")
def report(
    path: Annotated[Path, positional("PATH", "A manifest, scores, or the folder of a sweep.")],
    out: Annotated[Path, typer.Option("-o", "--out", metavar="FILE", help="HTML file to write.")] = Path("report.html"),
    keep_fraction: Annotated[
        float, selection_option("F", "For scores: the initial keep fraction (a manifest has its own).")
    ] = 0.8,
    strategy: Annotated[str, selection_option("NAME", "For scores: which examples to keep: {strategies}.")] = "hard",
    balance: Annotated[
        float | None,
        selection_option(
            "SHARE",
            "For scores: the floor per class or cluster.",
            show_default="0.5 where there are labels or clusters",
        ),
    ] = None,
    metric: Annotated[
        str | None, selection_option("NAME", "Which column of a table holds the scores, if it has several.")
    ] = None,
    source: Annotated[Path | None, input_option("PATH", "Where the data are now, if they moved.")] = None,
    embeddings: Annotated[
        Path | None,
        input_option("PATH", "Embeddings for the map, if images were scored and their embeddings are kept elsewhere."),
    ] = None,
    texts: Annotated[
        str | None,
        input_option("FILE|COLUMN", "Texts to show: a file with one per line, or a column of the scored table."),
    ] = None,
    map_: Annotated[str, advanced_option("NAME", "Layout of the map: {layouts}; `none` for no map.", "--map")] = "auto",
    exhibits: Annotated[
        int, advanced_option("N", "Approximate number of examples shown with a picture or text; 0 for none.")
    ] = 1_500,
    trust_source: TrustSource = False,
    seed: Annotated[int, advanced_option("N", "Decides the layout of the map.")] = 0,
    overwrite: Overwrite = False,
    as_json: JsonOption = False,
) -> None:
    """Write a page that shows what was kept, why, and what other settings would keep.

    One HTML file that any browser opens from disk: it needs no server and no network.
    """
    from paredown.report import write_report

    check_report_name(out)
    current.writes(out, overwrite=overwrite, sources=[path])
    written = write_report(
        path,
        out,
        source=source,
        embeddings=embeddings,
        texts=read_column(Path(texts)) if texts is not None and Path(texts).is_file() else texts,
        metric=metric,
        keep_fraction=keep_fraction,
        strategy=strategy,
        balance=balance,
        projection=projection_of(map_),
        exhibits=exhibits,
        trust_source=trust_source,
        seed=seed,
        overwrite=overwrite,
        track=progress_bar,
    )
    emit(report_result(written, out), as_json=as_json, show=lambda: show_report(written, out))


def check_report_name(out: Path) -> None:
    """Raise unless a report is named as browsers know it, before any work."""
    if out.suffix not in (".html", ".htm"):
        raise PareError(f"a report is an HTML file; name it {out.with_suffix('.html').name}.")


def projection_of(name: str) -> Any:
    """The layout of a map by the name that the command line has for it."""
    from paredown.projection import LAYOUTS

    if name not in (*LAYOUTS, "none"):
        raise PareError(f"--map must be one of {', '.join(LAYOUTS)} or none, got {name!r}.")
    return None if name == "none" else name


def report_result(written: ReportSummary, out: Path) -> dict[str, Any]:
    """What was written, for machines."""
    return {"out": str(out), "kind": written.kind, "bytes": written.size, "notes": list(written.notes)}


def show_report(written: ReportSummary, out: Path) -> None:
    """What was written, for people."""
    for note in written.notes:
        say("Note: {}", note)
    if written.already:
        say("[bold]{}[/] was already complete; nothing was changed.", out)
    else:
        say(
            "Report of a {} written to [bold]{}[/] ({:.1f} MB); open it in a browser.",
            written.kind,
            out,
            written.size / 1e6,
        )
