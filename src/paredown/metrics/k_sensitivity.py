"""How strongly scores by prototypes depend on the number of clusters k, and what to do about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

_HARDLY, _SOMEWHAT = 0.8, 0.5  # rank correlations with the scores at another k from which k matters no more than that


class KDependence(StrEnum):
    """How much the choice of k matters."""

    HARDLY = "hardly"
    SOMEWHAT = "somewhat"
    STRONGLY = "strongly"


@dataclass(frozen=True)
class KSensitivity:
    """The other k whose scores agree least, and their rank correlation with the scores."""

    other: str  # as the record has it
    correlation: float

    @classmethod
    def of(cls, report: Mapping[str, Any]) -> KSensitivity | None:
        """As the report of a metric has it; None where it was not measured."""
        correlations = report.get("k_sensitivity") or {}
        found = [cls(k, correlation) for k, correlation in correlations.items()]
        return min(found, key=lambda each: each.correlation, default=None)

    @property
    def dependence(self) -> KDependence:
        if self.correlation >= _HARDLY:
            return KDependence.HARDLY
        return KDependence.SOMEWHAT if self.correlation >= _SOMEWHAT else KDependence.STRONGLY

    def __str__(self) -> str:
        """A sentence without its full stop, with advice where k matters."""
        text = f"scores depend {self.dependence} on k (rank correlation {self.correlation:.2f} with k = {self.other})"
        if self.dependence is KDependence.HARDLY:
            return text
        return f"{text}; try several, or average an ensemble of encoders"
