"""`write_report`: from what is on disk to one HTML file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from paredown.errors import PareError, argument
from paredown.files import check_apart, check_output, file_digest, finished_request, locked, new_output
from paredown.output_kinds import find_output
from paredown.places import as_place, is_path, nothing_at
from paredown.progress import Track, silent
from paredown.projection import Method
from paredown.records import digest
from paredown.report.embedding_map import NOTHING, look_at_embeddings
from paredown.report.exhibits import MOST_EXHIBITS, gather_exhibits
from paredown.report.pruned_page import PrunedPage
from paredown.report.recut_data import RankedRows
from paredown.report.sweep_page import SweepPage
from paredown.score_files import is_manifest, is_scores, read_manifest, read_scores, score_files
from paredown.score_table import open_table, read_sample
from paredown.scores import Scores
from paredown.selection import Selection, SelectionSettings, default_balance
from paredown.text import quoted
from paredown.version import __version__

MOST_ROWS = 2_000_000  # that a page holds; of larger tables it shows a sample
SAMPLED_ROWS = 1_000_000
_OPENS_WITH = {"keep_fraction": 0.8, "strategy": "hard", "balance": None}  # where scores have no selection yet


@dataclass(frozen=True)
class ReportSummary:
    """What was written.

    Attributes:
        kind: what the page is about: `manifest`, `table of scores` or `sweep`.
        size: of the file in bytes.
        notes: what could not be shown, and why.
        already: whether the same report was there before, and nothing was changed.
    """

    kind: str
    size: int
    notes: tuple[str, ...] = ()
    already: bool = False


def write_report(
    of: str | Path | Selection | Scores,
    out: str | Path,
    *,
    source: str | Path | None = None,
    embeddings: str | Path | None = None,
    texts: ArrayLike | str | None = None,
    metric: str | None = None,
    keep_fraction: float = 0.8,
    strategy: str = "hard",
    balance: float | None = None,
    projection: Method | None = "auto",
    exhibits: int = MOST_EXHIBITS,
    trust_source: bool = False,
    seed: int = 0,
    overwrite: bool = False,
    track: Track = silent,
) -> ReportSummary:
    """Write a page about a manifest, scores or a sweep that any browser opens from disk, without a network.

    Args:
        of: a manifest or the folder `prune` wrote, a table of scores, the folder of a sweep, a `Selection` or `Scores`.
        out: the HTML file to write.
        source: where the data are now, if they moved since they were scored.
        embeddings: a source of the embeddings, if images were scored and their embeddings kept elsewhere.
        texts: for examples that are texts: one for each, or the name of the column of the source that holds them.
        metric: which column of a table holds the scores, if it has several.
        keep_fraction, strategy, balance: what the page of scores opens with; a manifest has its own.
        projection: how the map is laid out: `pacmap`, `pca`, `auto`, or None for no map.
        exhibits: how many examples the page holds pictures or texts of, about; 0 for none.
        trust_source: take the data although they changed since they were scored.
        seed: decides the layout of the map.
        overwrite: replace an earlier report.
        track: reports progress.
    """
    out = as_place(out)
    if out.suffix not in (".html", ".htm"):
        raise PareError(f"a report is an HTML file; name the output {out.with_suffix('.html').name}.")
    if exhibits < 0:
        raise PareError(f"{argument('exhibits')} must not be negative, got {exhibits}.")
    read = [as_place(given) for given in (of, source, embeddings) if is_path(given)]
    check_apart(out, read, folder=False)
    if is_path(of) and not as_place(of).exists():
        raise nothing_at(of)
    options = {"keep_fraction": keep_fraction, "strategy": strategy, "balance": balance, "metric": metric}
    request = _request(of, texts, options | {"map": projection, "exhibits": exhibits, "seed": seed, "read": read[1:]})
    with locked(out):
        if not overwrite and request is not None and finished_request(out) == request:
            return ReportSummary("manifest", out.stat().st_size, already=True)
        check_output(out, overwrite=overwrite, sources=read)
        if is_path(of) and is_sweep(as_place(of)):
            return _write(SweepPage.of(as_place(of)).html(), out, ReportSummary("sweep", 0), request, overwrite, read)
        rows, pruned, total = _selected(of, **options)
        recorded = rows.scores.provenance.get("source", {})
        data = [each.get("location") for each in (recorded, recorded.get("images", {}))]
        check_apart(out, [place for place in data if place is not None], folder=False)
        shown = NOTHING
        if projection is not None:
            shown = look_at_embeddings(
                rows,
                embeddings=embeddings,
                moved_to=source,
                method=projection,
                trust_source=trust_source,
                seed=seed,
                track=track,
            )
        examples = gather_exhibits(
            rows,
            also=shown.shown_duplicates,
            source=source,
            texts=texts,
            trust_source=trust_source,
            most=exhibits,
            track=track,
        )
        named = of if is_path(of) else "manifest.parquet"
        read_again = quoted(named) if pruned or metric is None else f"{quoted(named)} --metric {quoted(metric)}"
        content = PrunedPage(rows, pruned, total, _name_of(rows.scores, named), read_again, shown, examples)
        notes = tuple(dict.fromkeys(note for note in (examples.note, shown.note) if note))
        summary = ReportSummary("manifest" if pruned else "table of scores", 0, notes)
        return _write(content.html(), out, summary, request, overwrite, read)


def _write(
    text: str, out: Path, summary: ReportSummary, request: str | None, overwrite: bool, read: list[Path]
) -> ReportSummary:
    with new_output(out, overwrite=overwrite, sources=read, request=request) as part:
        part.write_text(text, encoding="utf-8")
    return replace(summary, size=out.stat().st_size)


def _request(of: Any, texts: Any, options: dict[str, Any]) -> str | None:
    """A hash of all that a page depends on; None where that is in memory. Scores know the data they were made from."""
    if not is_path(of) or not (texts is None or isinstance(texts, str)):
        return None
    read = sorted(as_place(of).glob("runs/*.json")) if is_sweep(as_place(of)) else score_files(of)
    tables = [file_digest(file) for file in read if file.is_file()]
    options = {name: [str(item) for item in value] if name == "read" else value for name, value in options.items()}
    return digest({"paredown": __version__, "of": str(of), "tables": tables, "texts": texts, **options})


def _name_of(scores: Scores, path: str | Path) -> str:
    """What the data are called: their folder or file, or else the manifest's."""
    source = scores.provenance.get("source", {})
    location = source.get("images", source).get("location")
    return as_place(str(location)).name if location else as_place(path).name


def is_sweep(path: Path) -> bool:
    """Whether a folder is that of a sweep, finished or not."""
    output = find_output(path) if path.is_dir() else None
    return output is not None and output.kind == "sweep"


def _selected(of: Any, *, metric: str | None, **selecting: Any) -> tuple[RankedRows, bool, int]:
    """A selection, whether it was made or is only proposed, and how many rows the whole table has."""
    if isinstance(of, Selection):
        return RankedRows(of.scores, of.recipe, of.keep), True, of.n_examples
    keep, total = None, 0
    if is_path(of):
        if not is_scores(of):
            raise PareError(
                f"{of}: neither a manifest, nor a table of scores, nor a sweep; make one with `paredown prune`, "
                "`paredown score` or `paredown sweep`."
            )
        if is_manifest(of):
            _check_own_selection(of, selecting)
        total = len(open_table(of, metric=metric))
        if total > MOST_ROWS:
            of, keep = read_sample(of, most=SAMPLED_ROWS, metric=metric)
        elif is_manifest(of):
            of, keep = read_manifest(of, metric=metric)
        else:
            of = read_scores(of, metric=metric)
    total = max(total, len(of))
    if keep is not None:
        return RankedRows(of, of.provenance.get("selection"), keep), True, total
    groups = of.labels is not None or of.clusters is not None
    selecting["balance"] = default_balance(selecting["balance"], groups=groups)
    settings = SelectionSettings(**selecting).check()
    return RankedRows(of, settings.recipe(len(of), None)), False, total


def _check_own_selection(manifest: str | Path, selecting: dict[str, Any]) -> None:
    """Raise for settings that a page of a manifest would silently ignore."""
    for name, value in selecting.items():
        if value != _OPENS_WITH[name]:
            raise PareError(
                f"{manifest}: a manifest has its own selection, which {argument(name)} does not change; leave it out "
                "and move the sliders of the page, or select again with `paredown prune`."
            )
