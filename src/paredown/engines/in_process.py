"""The engine that is always there: one job after the other, in this process."""

from __future__ import annotations

from collections.abc import Generator, Sequence
from itertools import chain
from typing import Any

from paredown.engines.base import find_function, fold_group
from paredown.workers import Outcome


class InProcess:
    """Runs jobs here. Errors are raised, as those of any function are."""

    name = "local"
    workers = 1

    def run_jobs(
        self, function: str, jobs: Sequence[Any], *, workers: int | None = None, common: Any = None, memory: int = 0
    ) -> Generator[Outcome]:
        """See `Engine`."""
        call = find_function(function)
        for number, job in enumerate(jobs):
            yield Outcome(number, call(common, job))

    def fold_groups(self, groups: Sequence[Sequence[Any]], common: dict[str, Any], memory: int) -> Any:
        """See `Engine`."""
        return fold_group(common, chain.from_iterable(groups))

    def check_places(self, read: Sequence[str], write: str | None) -> None:
        """Nothing to prove: outputs are checked before any work."""
