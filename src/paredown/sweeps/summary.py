"""What a sweep says: every way of pruning against random subsets, with standard errors over seeds, and a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
import pyarrow as pa
from scipy.special import stdtr

from paredown.standard_errors import standard_error

__all__ = [
    "Advice",
    "Comparison",
    "Effect",
    "Verdict",
    "advice",
    "compare_with_random",
    "curves_by_way",
]

SIGNIFICANT = 0.01  # two-sided p-value up to which a difference counts; with four seeds, 5.8 standard errors
FEWEST_SEEDS = 3  # two always lie on one side of their mean each, whatever they measure
_DIGITS = 12  # of differences between shares of a test set; what is beyond is rounding

_POINT = ("initial_size", "keep_fraction", "matched_iterations")
_WAY = ("metric", "strategy", "balance")


class Effect(Enum):
    """What pruning does at one point of the grid, compared with a random subset of the same size."""

    HELPS = "helps"
    HURTS = "hurts"
    UNDECIDED = "undecided"


class Verdict(Enum):
    """What a sweep says of one way of pruning, judged at the largest initial set."""

    PAYS = "pays"
    PAYS_THERE = "pays there"  # and hurts at other points of the grid
    HURTS = "hurts"  # at every fraction
    HURTS_IN_PART = "hurts in part"
    UNDECIDED = "undecided"
    TOO_FEW_SEEDS = "too few seeds"


@dataclass(frozen=True)
class Comparison:
    """One way of pruning at one point of the grid, beside random subsets of the same size.

    `difference` is its test error less that of the random subset, seed by seed: both are taken from the same initial
    set and trained for the same number of steps. Below zero, pruning helped.
    """

    initial_size: int
    keep_fraction: float
    matched_iterations: float
    metric: str
    strategy: str
    balance: float
    kept: int
    seeds: int
    test_error: float
    stderr: float
    random_error: float
    random_stderr: float
    difference: float
    difference_stderr: float

    @property
    def z(self) -> float:
        """The difference in standard errors; NaN for a single seed, or if all seeds gave the very same difference."""
        return self.difference / self.difference_stderr if self.difference_stderr else math.nan

    @property
    def p_value(self) -> float:
        """How likely so large a difference is by chance, by Student's t over the seeds; NaN where z is.

        A Gaussian would call three standard errors of four seeds p = 0.003; it is p = 0.06.
        """
        return float(2 * stdtr(self.seeds - 1, -abs(self.z))) if self.seeds > 1 else math.nan

    @property
    def effect(self) -> Effect:
        """What the seeds decide. Fewer than three decide nothing, nor do seeds without any spread."""
        if self.seeds < FEWEST_SEEDS or not self.p_value <= SIGNIFICANT:  # NaN is not
            return Effect.UNDECIDED
        return Effect.HELPS if self.difference < 0 else Effect.HURTS


def compare_with_random(table: pa.Table) -> list[Comparison]:
    """Every combination that pruned, against random subsets, over the seeds for which both runs ended well."""
    rows = [row for row in table.to_pylist() if row["status"] == "done" and row["keep_fraction"] < 1]
    random = {(*(row[name] for name in _POINT), row["seed"]): row for row in rows if row["metric"] == "random"}
    groups: dict[tuple[Any, ...], list[tuple[dict, dict]]] = {}
    for row in rows:
        baseline = random.get((*(row[name] for name in _POINT), row["seed"]))
        if row["metric"] != "random" and baseline is not None:
            groups.setdefault(tuple(row[name] for name in (*_POINT, *_WAY)), []).append((row, baseline))
    return [_comparison(key, groups[key]) for key in sorted(groups)]


def _comparison(key: tuple, pairs: list[tuple[dict, dict]]) -> Comparison:
    pruned = np.array([row["test_error"] for row, _ in pairs])
    chance = np.array([row["test_error"] for _, row in pairs])
    difference = (pruned - chance).round(_DIGITS)
    values = dict(zip((*_POINT, *_WAY), key, strict=True))
    return Comparison(
        **values,
        kept=pairs[0][0]["kept"],
        seeds=len(pairs),
        test_error=float(pruned.mean()),
        stderr=standard_error(pruned),
        random_error=float(chance.mean()),
        random_stderr=standard_error(chance),
        difference=float(difference.mean()),
        difference_stderr=standard_error(difference),
    )


@dataclass(frozen=True)
class Advice:
    """The verdict on one way of pruning and the points it rests on; as text, what it means for someone who decides.

    `shown` is the point that speaks for the verdict; `other`, where there is one, the point that limits it.
    """

    metric: str
    strategy: str
    balance: float
    matched_iterations: float
    verdict: Verdict
    shown: Comparison
    other: Comparison | None = None

    def __str__(self) -> str:
        return f"{self._name} {self._finding}"

    @property
    def _finding(self) -> str:
        shown = _describe(self.shown)
        other = "" if self.other is None else _describe(self.other)
        match self.verdict:
            case Verdict.PAYS:
                return f"pays: {shown}."
            case Verdict.PAYS_THERE:
                return f"pays: {shown}. It does not pay everywhere: {other}."
            case Verdict.HURTS:
                return f"does worse than random subsets at every fraction: {shown}.{self._reasons}"
            case Verdict.HURTS_IN_PART:
                none = "At others there is no significant difference"
                return f"does worse than random subsets at some fractions: {shown}. {none}: {other}."
            case Verdict.UNDECIDED:
                return f"shows no significant difference from random subsets: {shown}. Run more seeds to decide."
            case Verdict.TOO_FEW_SEEDS:
                return f"cannot be judged from {_seeds(self.shown)}: {shown}. Run at least {FEWEST_SEEDS}."

    @property
    def _name(self) -> str:
        end = {"hard": "the hardest", "easy": "the easiest"}.get(self.strategy, f"by strategy {self.strategy}")
        floor = f" with a floor of {self.balance:g}" if self.balance else ""
        duration = f" at m = {self.matched_iterations:g}" if self.matched_iterations < 1 else ""
        return f"Keeping {end} by {self.metric}{floor}{duration}"

    @property
    def _reasons(self) -> str:
        if self.strategy != "hard":
            return ""
        return (
            " That is typical of wrong or ambiguous labels, of probes that are too weak, or of sets that are too "
            "small: look at the hardest examples, train the probes longer, or keep all."
        )


def advice(table: pa.Table) -> list[Advice]:
    """What the comparison with random subsets means for someone who has to decide, for every way of pruning."""
    ways: dict[tuple[str, float, str, float], list[Comparison]] = {}
    for row in compare_with_random(table):
        ways.setdefault((row.metric, row.balance, row.strategy, row.matched_iterations), []).append(row)
    return [_judge(rows) for rows in ways.values()]


def _judge(rows: list[Comparison]) -> Advice:
    """The verdict on one way of pruning: at the largest initial set, and whether smaller ones contradict it."""
    largest = max(row.initial_size for row in rows)
    there = sorted((row for row in rows if row.initial_size == largest), key=lambda row: row.keep_fraction)
    helps, hurts, undecided = ([row for row in there if row.effect is effect] for effect in Effect)
    if helps:
        lost = max((row for row in rows if row.effect is Effect.HURTS), key=lambda row: row.initial_size, default=None)
        return _advice(Verdict.PAYS if lost is None else Verdict.PAYS_THERE, helps[0], lost)
    if hurts:
        worst = max(hurts, key=lambda row: row.difference)
        best = min(undecided, key=lambda row: row.difference, default=None)
        return _advice(Verdict.HURTS if best is None else Verdict.HURTS_IN_PART, worst, best)
    best = min(undecided, key=lambda row: row.difference)
    few = all(row.seeds < FEWEST_SEEDS for row in undecided)
    return _advice(Verdict.TOO_FEW_SEEDS if few else Verdict.UNDECIDED, best)


def _advice(verdict: Verdict, shown: Comparison, other: Comparison | None = None) -> Advice:
    return Advice(shown.metric, shown.strategy, shown.balance, shown.matched_iterations, verdict, shown, other)


def _describe(row: Comparison) -> str:
    """One point of the grid in words, with the standard error of the difference if there is one."""
    points = f"{100 * abs(row.difference):.2f}"
    error = "" if math.isnan(row.difference_stderr) else f" ± {100 * row.difference_stderr:.2f}"
    direction = "lower" if row.difference < 0 else "higher"
    share = f"{100 * row.keep_fraction:g} %"
    return (
        f"at {share} of {row.initial_size:,} the test error is {points}{error} points {direction} than with a random "
        f"{share} ({_seeds(row)})"
    )


def _seeds(row: Comparison) -> str:
    return "1 seed" if row.seeds == 1 else f"{row.seeds} seeds"


def curves_by_way(table: pa.Table) -> dict[str, dict[float, list[tuple[float, float, float]]]]:
    """For every way of pruning and every kept fraction: (kept, mean test error, standard error) over initial sizes.

    The whole sets, of fraction 1, are under `random`.
    """
    errors: dict[tuple[str, float, int], list[float]] = {}
    for row in table.to_pylist():
        if row["status"] == "done":
            errors.setdefault((_way(row), row["keep_fraction"], row["kept"]), []).append(row["test_error"])
    found: dict[str, dict[float, list[tuple[float, float, float]]]] = {}
    for (way, fraction, kept), values in sorted(errors.items()):
        measured = np.array(values)
        found.setdefault(way, {}).setdefault(fraction, []).append(
            (kept, float(measured.mean()), standard_error(measured))
        )
    return found


def _way(row: dict) -> str:
    if row["metric"] == "random":
        return "random"
    floor = f", floor {row['balance']:g}" if row["balance"] else ""
    duration = f", m = {row['matched_iterations']:g}" if row["matched_iterations"] < 1 else ""
    return f"{row['metric']}, {row['strategy']}{floor}{duration}"
