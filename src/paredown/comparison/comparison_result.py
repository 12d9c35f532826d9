"""What `compare` found: all that a table, a picture or a page about it needs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from paredown.comparison.disputed_examples import DisputedExample
from paredown.comparison.metric_facts import MetricFacts
from paredown.display import Introduced, data_frame, html_card, html_grid

if TYPE_CHECKING:
    import pandas as pd

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False, repr=False)
class MetricComparison(Introduced):
    """Several metrics of the same examples.

    Attributes:
        metrics: their names, as they were given. Rows and columns of the matrices are in this order.
        order: places in `metrics` such that metrics that rank alike stand together.
        examples: how many every metric has scored.
        left_out: for each metric, its examples that another has no score for.
        spearman: rank correlation of every pair; NaN where a metric gives every example the same score.
        keep_fractions: at which kept sets are compared.
        overlaps: for each of these fractions and every pair, the share of what one metric keeps that the other keeps
            too. Metrics that have nothing in common share `keep_fraction` of it by chance. Each metric breaks its ties
            in a way of its own, so that ties of two metrics do not count as agreement.
        selection: `strategy`, `balance` and `seed` of these selections.
        disputed: the examples that the metrics disagree on most; percentiles are in the order of `metrics`.
        facts: what each metric needs and costs, and how reliable its scores are.
        notes: what a reader should know.
        conclusions: one or two sentences: which metrics say nearly the same, and which one stands apart.
    """

    metrics: tuple[str, ...]
    order: tuple[int, ...]
    examples: int
    left_out: tuple[int, ...]
    spearman: Floats
    keep_fractions: tuple[float, ...]
    overlaps: Floats
    selection: dict[str, Any]
    disputed: tuple[DisputedExample, ...]
    facts: tuple[MetricFacts, ...]
    notes: tuple[str, ...]
    conclusions: tuple[str, ...]

    @property
    def pairs(self) -> Iterator[tuple[int, int]]:
        """Places in `metrics` of every pair, in the order of the clustering."""
        return combinations(self.order, 2)

    @property
    def mean_overlaps(self) -> Floats:
        """The mean over all pairs, for each of the fractions."""
        return self.overlaps[:, *np.triu_indices(len(self.metrics), 1)].mean(axis=1)

    @property
    def corrected(self) -> Floats:
        """Correlations corrected for attenuation: rho / sqrt(reliability of one x reliability of the other).

        What the correlation would be if the scores had no noise (Spearman 1904). NaN where a reliability is not known
        or not above 0. It assumes that the noise of the two is independent, which it is not where both were read off
        the same networks, and may come out above 1.
        """
        known = np.array([np.nan if facts.reliability is None else facts.reliability for facts in self.facts])
        known = np.where(known > 0, known, np.nan)
        corrected = self.spearman / np.sqrt(np.outer(known, known))
        np.fill_diagonal(corrected, np.nan)
        return corrected

    def pair_rows(self) -> list[dict[str, Any]]:
        """A row for every pair: both names, their correlations, and their overlap at each of the fractions."""
        corrected, overlaps = self.corrected, [f"overlap_{fraction:g}" for fraction in self.keep_fractions]
        return [
            {
                "metric": self.metrics[a],
                "other": self.metrics[b],
                "spearman": float(self.spearman[a, b]),
                "corrected": float(corrected[a, b]),
                **dict(zip(overlaps, self.overlaps[:, a, b].tolist(), strict=True)),
            }
            for a, b in self.pairs
        ]

    def to_pandas(self) -> pd.DataFrame:
        """A data frame with a row for every pair; see `pair_rows`."""
        rows = self.pair_rows()
        return data_frame({name: [row[name] for row in rows] for name in rows[0]})

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values, as `paredown compare --json` prints it."""
        return {
            "metrics": list(self.metrics),
            "order": [self.metrics[place] for place in self.order],
            "examples": self.examples,
            "left_out": dict(zip(self.metrics, self.left_out, strict=True)),
            "spearman": self.spearman.tolist(),
            "corrected": self.corrected.tolist(),
            "selection": self.selection,
            "overlaps": [
                {"keep_fraction": fraction, "chance": fraction, "mean": float(mean), "pairs": overlap.tolist()}
                for fraction, mean, overlap in zip(self.keep_fractions, self.mean_overlaps, self.overlaps, strict=True)
            ],
            "disputed": [
                each._asdict() | {"percentiles": dict(zip(self.metrics, each.percentiles, strict=True))}
                for each in self.disputed
            ],
            "facts": [asdict(facts) for facts in self.facts],
            "notes": list(self.notes),
            "conclusions": list(self.conclusions),
        }

    def introduce(self) -> dict[str, str]:
        """How many metrics and examples, and the pairs that are most and least alike."""
        facts = {"metrics": str(len(self.metrics)), "examples": f"{self.examples:,}"}
        known = sorted((self.spearman[pair], pair) for pair in self.pairs if np.isfinite(self.spearman[pair]))
        for name, pairs in (("most alike", known[-1:]), ("least alike", known[:1])):
            for rho, (a, b) in pairs:
                facts[name] = f"{self.metrics[a]} and {self.metrics[b]} ({rho:.2f})"
        return facts

    def _repr_html_(self) -> str:
        names = [self.metrics[place] for place in self.order]
        ordered = self.spearman[np.ix_(self.order, self.order)]
        cells = [[f"{rho:.2f}" if np.isfinite(rho) else "-" for rho in row] for row in ordered]
        card = html_card(type(self).__name__, self.introduce(), (*self.conclusions, *self.notes))
        return card + html_grid("rank correlation", names, names, cells)
