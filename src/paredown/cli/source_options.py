"""The options that say where examples are, shared by the verbs that read them."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paredown.cli.terminal import say

if TYPE_CHECKING:
    from paredown.sources import Source

__all__ = [
    "Columns",
    "IdFile",
    "LabelFile",
    "Memory",
    "OnBad",
    "Overwrite",
    "Seed",
    "Sources",
    "Split",
    "TrustSource",
    "named_columns",
    "open_sources",
    "read_column",
    "show_skipped",
    "show_warnings",
]

Sources = Annotated[
    list[Path],
    typer.Argument(
        metavar="SOURCE...",
        help="Embeddings (.npy, .npz, .parquet, or a folder of them), images (a folder, a .csv of paths, .tar files), "
        "a Hugging Face dataset folder, or a known data set such as mnist:FOLDER. Several embeddings of the same "
        "examples are an ensemble.",
        show_default=False,
    ),
]
LabelFile = Annotated[Path | None, typer.Option("--labels", help="Labels: .npy, or text with one a line.")]
IdFile = Annotated[Path | None, typer.Option("--ids", help="Ids: .npy, or text with one a line.")]
Columns = Annotated[
    list[str] | None,
    typer.Option("--column", metavar="ROLE=NAME", help="Which column is the id, label, embedding, path or image."),
]
Split = Annotated[str | None, typer.Option(help="Split of a data set, such as test.")]
OnBad = Annotated[str, typer.Option("--on-error", help="`raise` at the first bad example, or `skip` and list them.")]
Memory = Annotated[str, typer.Option(help="Memory to work in, such as 512MiB: larger data are sampled and streamed.")]
Seed = Annotated[int, typer.Option(min=0, max=2**63 - 1, help="Decides samples, ties and everything random.")]
TrustSource = Annotated[
    bool,
    typer.Option(
        "--trust-source",
        help="Go on although files were modified since: for those that were only copied or touched.",
    ),
]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace an existing output.")]


def open_sources(
    sources: list[Path],
    *,
    labels: Path | None,
    ids: Path | None,
    columns: list[str] | None,
    split: str | None,
    on_error: str,
    memory: str,
) -> list[Source]:
    """Open what the command line names."""
    from paredown.sources import open_source
    from paredown.units import parse_size

    return [
        open_source(
            path,
            labels=read_column(labels),
            ids=read_column(ids),
            columns=named_columns(columns),
            split=split,
            on_error=on_error,  # type: ignore[arg-type]  # checked by open_source
            memory=parse_size(memory),
        )
        for path in sources
    ]


def named_columns(columns: list[str] | None) -> dict[str, str]:
    """ROLE=NAME pairs by role."""
    from paredown.errors import PareError

    pairs = [pair.partition("=") for pair in columns or ()]
    for role, equals, name in pairs:
        if not equals or not name:
            raise PareError(f"--column takes ROLE=NAME, such as label=species; got {role!r}.")
    return {role: name for role, _, name in pairs}


def read_column(path: Path | None) -> Any:
    """Ids or labels from a file, if one is given."""
    from paredown.sources import load_column

    return None if path is None else load_column(path)


def show_skipped(skipped: list[list[str]]) -> None:
    """List what was left out, the first ten."""
    if skipped:
        say("[yellow]Skipped {}:[/]", len(skipped))
        for what, why in skipped[:10]:
            say("  {}: {}", what, why)
        if len(skipped) > 10:
            say("  and {} more, all listed in the provenance", len(skipped) - 10)


def show_warnings(warnings: Iterable[str]) -> None:
    """Say what may be wrong with a result."""
    for warning in warnings:
        say("[yellow]Warning:[/] {}", warning)
