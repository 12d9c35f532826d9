"""The options that say where the work is done, shared by the verbs that can use more than this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from paredown.cli.app import scale_option
from paredown.errors import PareError, check_known, check_least

if TYPE_CHECKING:
    from pathlib import Path

    from paredown.cli.scoring_options import ScoringOptions


@dataclass(frozen=True, kw_only=True)
class EngineOptions:
    """Where the work is done."""

    engine: Annotated[str, scale_option("NAME", "Where the work is done: {engines}.")] = "local"
    address: Annotated[
        str | None,
        scale_option(
            "ADDRESS",
            "Of a Ray cluster: auto, HOST:PORT or ray://HOST:PORT.",
            show_default="RAY_ADDRESS, else a cluster is started on this machine",
        ),
    ] = None
    workers: Annotated[
        int | None,
        scale_option(
            "N", "Maximum number of concurrent tasks, one thread each.", show_default="one per GPU, else per core"
        ),
    ] = None

    def check(self, *, local_workers: bool = False) -> None:
        """Raise on options that make no sense, before anything is opened."""
        from paredown.engines import ENGINES
        from paredown.errors import argument

        check_known("engine", self.engine, ENGINES)
        check_least(1, workers=self.workers)
        for name in ("address",) if local_workers else ("address", "workers"):
            if self.engine == "local" and getattr(self, name) is not None:
                raise PareError(f"{argument(name)} is for a Ray cluster; add {argument('engine', 'ray')}.")

    def arguments(self) -> dict[str, Any]:
        """As `open_engine` takes them."""
        return {"engine": self.engine, "address": self.address, "workers": self.workers}


@dataclass(frozen=True, kw_only=True)
class EmbedEngineOptions(EngineOptions):
    """Where images are embedded: the work of one machine takes threads, that of a cluster tasks."""

    workers: Annotated[
        int | None,
        scale_option(
            "N",
            "Threads that decode images; with --engine ray, maximum number of concurrent tasks, one thread each.",
            show_default="one per core",
        ),
    ] = None


Shard = Annotated[
    str | None,
    scale_option(
        "I/N",
        "Do share I of N; with /N, the shares of this Slurm array task. `paredown merge` joins them.",
    ),
]


# Options of scoring that ranges of rows are scored with; others say how examples are read or networks are trained.
_RANGED = ("metric", "k", "option", "model", "kernel", "exact", "memory", "seed", "trust_source")


def check_ranged(scoring: ScoringOptions, sources: list[Path]) -> None:
    """Raise at what cannot be read by ranges of rows: images, several sources, options without effect there."""
    from dataclasses import fields

    from paredown.errors import argument
    from paredown.places import as_place
    from paredown.sources.row_ranges import refuse_images

    for source in sources:
        if as_place(source).exists():
            refuse_images(as_place(source))
    if len(sources) > 1:
        raise PareError("embeddings are read by ranges of rows from one source; score the members one at a time.")
    for entry in fields(scoring):
        given = getattr(scoring, entry.name)
        if entry.name in _RANGED or given == entry.default:
            continue
        if entry.name in ("ids", "labels"):
            source = sources[0]
            place = f"copy it to {source / entry.name}.npy"
            if not source.is_dir():
                place = f"put {source.name} into a folder with it, named {entry.name}.npy, and give that folder"
            raise PareError(
                f"{argument(entry.name)} cannot be given with {argument('engine', 'ray')} or {argument('shard', ...)}: "
                f"workers read {given} from beside the embeddings; {place}, or use {argument('engine', 'local')}."
            )
        raise PareError(
            f"{argument(entry.name)} has no effect on embeddings that are read by ranges of rows; leave it out, or "
            f"use {argument('engine', 'local')}."
        )
