"""The options of a selection: checked in one place, and recorded as its recipe."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from numbers import Real
from typing import Any, NamedTuple, get_args

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError, argument, check_known, fraction_hint
from paredown.selection.floors import Quota, class_floors, class_quotas
from paredown.selection.strategies import DROPPING, STRATEGIES


class Places(NamedTuple):
    """How many examples are kept: of every group at least, and in all; by the order, and then at random."""

    floors: NDArray[np.int64]
    total: int
    random_floors: NDArray[np.int64]
    random_total: int


@dataclass(frozen=True)
class SelectionSettings:
    """See `select`, which explains them."""

    keep_fraction: float
    strategy: str = "hard"
    balance: float = 0.0
    quota: Quota = "none"
    drop_hardest: float = 0.05
    mix_random: float = 0.0
    seed: int = 0

    def check(self) -> SelectionSettings:
        """Raise at the first that cannot be; return the options."""
        for name in ("keep_fraction", "balance", "drop_hardest", "mix_random"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real):
                raise PareError(f"{argument(name)} must be a number, got {value!r}.")
        ranges = {
            "keep_fraction": ("(0, 1]", 0 < self.keep_fraction <= 1),
            "balance": ("[0, 1]", 0 <= self.balance <= 1),
            "drop_hardest": ("[0, 1)", 0 <= self.drop_hardest < 1),
            "mix_random": ("[0, 1]", 0 <= self.mix_random <= 1),
        }
        for name, (allowed, within) in ranges.items():
            if not within:
                given = getattr(self, name)
                raise PareError(f"{argument(name)} must be in {allowed}, got {given:g}.{fraction_hint(given)}")
        check_known("strategy", self.strategy, STRATEGIES)
        check_known("quota", self.quota, get_args(Quota))
        if self.quota != "none" and self.balance > 0:
            raise PareError(
                f"{argument('quota', self.quota)} fixes how many examples of each class are kept, so a floor "
                f"({argument('balance', self.balance)}) has no effect; leave out one of them."
            )
        if self.seed < 0:
            raise PareError(f"{argument('seed')} must not be negative, got {self.seed}.")
        return self

    @property
    def grouped(self) -> bool:
        """Whether classes (or clusters) matter."""
        return self.balance > 0 or self.quota != "none"

    def kept_and_dropped(self, n: int) -> tuple[int, int]:
        """How many of n examples are kept, and how many of the hardest `window` and `stratified` leave out first."""
        n_keep = max(1, round(self.keep_fraction * n))
        return n_keep, min(round(self.drop_hardest * n), n - n_keep)

    def places(self, counts: NDArray[np.int64]) -> tuple[Places, list[str]]:
        """The places that groups of these sizes get, and what a user should know of them."""
        n_keep, _ = self.kept_and_dropped(int(counts.sum()))
        if self.quota != "none":
            numbers = class_quotas(counts, n_keep, self.quota)
            at_random = np.rint(self.mix_random * numbers).astype(np.int64)
            ordered = numbers - at_random
            return Places(ordered, int(ordered.sum()), at_random, int(at_random.sum())), []
        floors, notes = class_floors(counts, self.balance * self.keep_fraction, n_keep)
        at_random = min(round(self.mix_random * n_keep), n_keep - int(floors.sum()))
        return Places(floors, n_keep - at_random, np.zeros_like(counts), at_random), notes

    def window_notes(self, n: int) -> list[str]:
        """What a user should know where fewer of the hardest can be left out than was asked for."""
        _, dropped = self.kept_and_dropped(n)
        if self.strategy not in DROPPING or dropped == round(self.drop_hardest * n):
            return []
        return [
            f"only the hardest {100 * dropped / n:.3g} % are dropped first, not {100 * self.drop_hardest:.3g} %, "
            "because the rest would be fewer than are kept; keep a smaller fraction, or drop fewer of the hardest."
        ]

    def recipe(self, n: int, grouped_by: str | None) -> dict[str, Any]:
        """How a selection from n examples was made, as its manifest records it."""
        n_keep, _ = self.kept_and_dropped(n)
        first = {"keep_fraction": self.keep_fraction, "kept": n_keep}
        return first | asdict(self) | {"grouped_by": grouped_by if self.grouped else None}
