"""The options that say where the work is done, shared by the verbs that can use more than this machine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from paredown.cli.app import scale_option
from paredown.errors import PareError, check_known, check_least

if TYPE_CHECKING:
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
            "N", "Tasks at the same time, at most; one thread each.", show_default="one per GPU, else per core"
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


# Options of scoring that ranges of rows are scored with; others say how examples are read or networks are trained.
_RANGED = ("metric", "k", "option", "model", "kernel", "exact", "memory", "seed", "trust_source")


def check_ranged(scoring: ScoringOptions) -> None:
    """Raise at an option that has no effect where embeddings are read by ranges of rows."""
    from dataclasses import fields

    from paredown.errors import argument

    for entry in fields(scoring):
        if entry.name not in _RANGED and getattr(scoring, entry.name) != entry.default:
            raise PareError(
                f"{argument(entry.name)} has no effect on embeddings that are read by ranges of rows; leave it out, or "
                f"use {argument('engine', 'local')}. Ids and labels are taken from ids.npy and labels.npy in the "
                "folder, or from the tables that `paredown embed` writes."
            )
