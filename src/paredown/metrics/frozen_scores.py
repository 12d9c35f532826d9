"""A fitted metric that knows its scores already: for metrics that must see all rows together to score any."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.ids import hash_ids, name_rows
from paredown.scores import Batch, Scored


@dataclass(frozen=True)
class FrozenScores:
    """One score per hash of an id, hashes ascending; rows that were not fitted have none."""

    metric: str
    seed: int
    hashes: NDArray[np.uint64]
    values: NDArray[np.floating]
    clusters: NDArray[np.int64] | None = None
    facts: dict[str, Any] = field(default_factory=dict)

    def score(self, batch: Batch) -> Scored:
        hashes = hash_ids(batch.ids, seed=self.seed)
        slots = np.minimum(np.searchsorted(self.hashes, hashes), len(self.hashes) - 1)
        unknown = np.flatnonzero(self.hashes[slots] != hashes)
        if len(unknown):
            raise PareError(
                f"metric {self.metric!r} scores only the examples it was fitted to, and "
                f"{name_rows(unknown, ids=batch.ids[unknown])} of the batch was not among them; fit it to all examples."
            )
        return Scored(self.values[slots], None if self.clusters is None else self.clusters[slots])

    def report(self) -> dict[str, Any]:
        return self.facts

    def arrays(self) -> dict[str, NDArray[Any]]:
        scores = {"hashes": self.hashes, "values": self.values}
        clusters = {} if self.clusters is None else {"clusters": self.clusters}
        return {"metric": np.array(self.metric), "seed": np.array(self.seed), **scores, **clusters}

    @classmethod
    def load(cls, arrays: dict[str, NDArray[Any]], report: dict[str, Any]) -> FrozenScores:
        """The same scores again."""
        metric, seed = str(arrays["metric"]), int(arrays["seed"])
        return cls(metric, seed, arrays["hashes"], arrays["values"], arrays.get("clusters"), report)
