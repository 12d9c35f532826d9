"""The runs of a sweep: values whose hash is their file name."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from paredown.records import digest
from paredown.sweeps.settings import GridSettings


@dataclass(frozen=True, order=True)
class ScoringJob:
    """The scores of one initial set: shared by the runs that prune it."""

    initial_size: int
    metric: str
    seed: int


@dataclass(frozen=True, order=True)
class Run:
    """One student: which subset it is trained on, and for how long."""

    initial_size: int
    keep_fraction: float
    metric: str
    strategy: str
    balance: float
    matched_iterations: float
    seed: int

    @property
    def scoring(self) -> ScoringJob | None:
        """The scores it selects by; none for a random or the whole subset."""
        chance = self.metric == "random" or self.keep_fraction == 1
        return None if chance else ScoringJob(self.initial_size, self.metric, self.seed)

    def name(self, identity: dict[str, Any], scorer: Any) -> str:
        """A hash of the run and of everything else its result depends on; `scorer` is what its metric stands for."""
        used = {} if self.scoring is None else {"scorer": scorer}
        return digest({"run": asdict(self), **used, **identity}, 20)


def expand(grid: GridSettings) -> list[Run]:
    """All runs of a grid, the random baseline among them, each once, in a fixed order.

    A random subset has no score, strategy or floor; the unpruned set is no subset at all. Both are runs with
    `metric = "random"`, so that every combination finds the baseline of its size and duration.
    """
    fractions = {*grid.keep_fraction, 1.0} if grid.unpruned else grid.keep_fraction
    runs = set[Run]()
    for size, fraction, factor, seed in product(grid.initial_size, fractions, grid.matched_iterations, grid.seed):
        runs.add(Run(size, float(fraction), "random", "random", 0.0, float(factor) if fraction < 1 else 1.0, seed))
        if fraction == 1:
            continue
        for metric, strategy, balance in product(grid.metric, grid.strategy, grid.balance):
            if metric != "random" and strategy != "random":
                runs.add(Run(size, float(fraction), metric, strategy, float(balance), float(factor), seed))
    return sorted(runs)


def scorings(runs: list[Run]) -> list[ScoringJob]:
    """The scorings that runs need, each once, in a fixed order."""
    return sorted({run.scoring for run in runs if run.scoring is not None})
