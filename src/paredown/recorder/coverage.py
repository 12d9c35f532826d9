"""What a recording has seen: epochs, members, and what is missing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.recorder.history import Table


@dataclass(frozen=True)
class Coverage:
    """What was recorded of each member, and which examples were not.

    `epochs` maps member -> epoch -> how many different examples were seen in it; `partial` holds only the epochs that
    saw some examples and not others. `unseen` are the indices of examples that some member never saw, and
    `observations` the fewest and most of one example by one member.
    """

    n_examples: int
    epochs: dict[int, dict[int, int]]
    unseen: NDArray[np.int64]
    observations: tuple[int, int]

    @classmethod
    def of(cls, n_examples: int, tables: dict[int, Table], epochs: dict[int, dict[int, int]]) -> Coverage:
        """The coverage of the records of some members."""
        counts = [table["seen"] for table in tables.values()] or [np.zeros(n_examples, np.int32)]
        return cls(
            n_examples=n_examples,
            epochs={member: dict(sorted(seen.items())) for member, seen in sorted(epochs.items())},
            unseen=np.flatnonzero(np.min(counts, axis=0) == 0),
            observations=(int(np.min(counts)), int(np.max(counts))),
        )

    @property
    def partial(self) -> dict[int, dict[int, int]]:
        """The epochs that did not see every example."""
        found = {
            member: {epoch: seen for epoch, seen in epochs.items() if seen < self.n_examples}
            for member, epochs in self.epochs.items()
        }
        return {member: epochs for member, epochs in found.items() if epochs}

    @property
    def complete(self) -> bool:
        """Whether every member saw every example in every one of its epochs."""
        return not self.partial and not len(self.unseen) and all(self.epochs.values())

    def record(self) -> dict[str, Any]:
        """The same for a provenance record."""
        return {
            "members": [
                {"member": member, "epochs": list(epochs), "partial_epochs": self.partial.get(member, {})}
                for member, epochs in self.epochs.items()
            ],
            "examples": self.n_examples,
            "unseen": len(self.unseen),
            "observations": list(self.observations),
        }

    def __str__(self) -> str:
        lines = []
        for member, epochs in self.epochs.items():
            span = f"epochs {min(epochs)} to {max(epochs)}" if epochs else "no epochs"
            lines.append(f"member {member}: {len(epochs)} recorded, {span}")
            lines += [
                f"  epoch {epoch} is partial: {seen} of {self.n_examples} examples"
                for epoch, seen in self.partial.get(member, {}).items()
            ]
        return "\n".join([*lines, f"never seen: {len(self.unseen)} of {self.n_examples} examples"])
