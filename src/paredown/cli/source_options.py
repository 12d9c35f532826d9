"""The options that say where examples are, shared by the verbs that read them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from paredown.cli.app import advanced_option, input_option, positional, scale_option
from paredown.cli.terminal import say
from paredown.errors import PareError

if TYPE_CHECKING:
    from paredown.sources import Source

Sources = Annotated[
    list[Path],
    positional(
        "SOURCE",
        "Embeddings (.npy, .npz, .parquet, or a folder of them), images (a folder, a .csv of paths, .tar files), "
        "a Hugging Face dataset folder, or a standard dataset such as mnist:FOLDER. Several embeddings of the same "
        "examples are scored as an ensemble.",
    ),
]
IdFile = Annotated[Path | None, input_option("FILE", "Ids: an .npy file, or a text file with one per line.", "--ids")]
TrustSource = Annotated[
    bool,
    advanced_option(
        None,
        "Continue although the files have new modification times: for files that were only copied or touched.",
        "--trust-source",
    ),
]


@dataclass(frozen=True, kw_only=True)
class SourceOptions:
    """How examples are read: the options of every verb that opens a source."""

    labels: Annotated[Path | None, input_option("FILE", "Labels: an .npy file, or a text file with one per line.")] = (
        None
    )
    ids: IdFile = None
    column: Annotated[
        list[str] | None,
        input_option(
            "ROLE=NAME", "Which column of a table holds the id, label, embedding, path or image. Can be repeated."
        ),
    ] = None
    split: Annotated[str | None, input_option("NAME", "Split of a dataset, such as test.")] = None
    on_error: Annotated[
        str, input_option("NAME", "What is done at an unreadable example: {on_error}. Those skipped are listed.")
    ] = "raise"
    memory: Annotated[
        str, scale_option("SIZE", "Memory to work in, such as 512MiB. Larger data are sampled and streamed.")
    ] = "1GiB"
    seed: Annotated[int, advanced_option("N", "Seed of sampling, tie-breaking and training.")] = 0
    trust_source: TrustSource = False

    def check(self) -> None:
        """Raise at a value that is wrong whatever the data are."""
        from paredown.units import parse_size

        parse_size(self.memory)
        if not 0 <= self.seed < 2**63:
            raise PareError(f"--seed must be a whole number from 0 to 2^63 - 1, got {self.seed}.")

    def open(self, sources: list[Path], *, as_imported: bool = False) -> list[Source]:
        """Open what the command line names; ids and columns are not the sources' if scores are imported for them."""
        from paredown.sources import open_source
        from paredown.units import parse_size

        return [
            open_source(
                path,
                labels=read_column(self.labels),
                ids=None if as_imported else read_column(self.ids),
                columns={} if as_imported else named_columns(self.column),
                split=self.split,
                on_error=self.on_error,  # type: ignore[arg-type]  # checked by open_source
                memory=parse_size(self.memory),
            )
            for path in sources
        ]


def named_columns(columns: list[str] | None) -> dict[str, str]:
    """ROLE=NAME pairs by role."""
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
