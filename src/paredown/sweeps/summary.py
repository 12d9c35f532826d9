"""What a sweep found: every way of pruning against random subsets, with standard errors over seeds, and a verdict."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from paredown.laws.claim_rules import FEWEST_SEEDS
from paredown.laws.multiple_comparisons import HolmStep, holm, student_p_value
from paredown.standard_errors import standard_error
from paredown.sweeps.pruning_verdicts import Effect, PruningVerdict, describe_advice, name_way

# Chance that any difference of a sweep counts without being one, by p-values corrected for their number (Holm).
SIGNIFICANT = 0.05
_DIGITS = 12  # of differences between shares of a test set; what is beyond is rounding

_POINT = ("initial_size", "keep_fraction", "matched_iterations")
_WAY = ("metric", "strategy", "balance")


@dataclass(frozen=True)
class ComparisonWithRandom:
    """One way of pruning at one point of the grid, compared with random subsets of the same size.

    `difference` is its test error minus that of the random subset, seed by seed: both are taken from the same initial
    set and trained for the same number of steps. Below zero, pruning helped. `unpruned_error` is that of the whole
    initial set over the same seeds, NaN where it was not trained.
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
    unpruned_error: float = math.nan
    unpruned_stderr: float = math.nan
    seed_differences: tuple[float, ...] = ()  # `difference` of every seed, in the order of the seeds
    comparisons: int = 1  # that the p-value is corrected for: those of its sweep that were not decided by smaller ones
    family: int = 1  # all comparisons of its sweep
    floor: float = 0.0  # of the corrected p-value: that of the comparison before it in the order of p-values

    @property
    def z(self) -> float:
        """The difference in standard errors; NaN for a single seed, or if all seeds gave the very same difference."""
        return self.difference / self.difference_stderr if self.difference_stderr else math.nan

    @property
    def p_value(self) -> float:
        """How likely so large a difference is by chance, by Student's t over the seeds; NaN where z is."""
        return student_p_value(self.z, self.seeds)

    @property
    def corrected_p_value(self) -> float:
        """The p-value corrected for all comparisons of the sweep, by Holm's method; NaN where it is."""
        return HolmStep(self.comparisons, self.floor).correct(self.p_value)

    @property
    def effect(self) -> Effect:
        """What the seeds decide. Fewer than three decide nothing, nor do seeds without any spread."""
        if self.seeds < FEWEST_SEEDS or not self.corrected_p_value <= SIGNIFICANT:  # NaN is not
            return Effect.UNDECIDED
        return Effect.HELPS if self.difference < 0 else Effect.HURTS


def compare_with_random(table: pa.Table) -> list[ComparisonWithRandom]:
    """Every combination that pruned, against random subsets, over the seeds for which both runs succeeded."""
    done = [row for row in table.to_pylist() if row["status"] == "done"]
    rows = [row for row in done if row["keep_fraction"] < 1]
    whole = {(row["initial_size"], row["seed"]): row["test_error"] for row in done if row["keep_fraction"] == 1}
    random = {(*(row[name] for name in _POINT), row["seed"]): row for row in rows if row["metric"] == "random"}
    groups: dict[tuple[Any, ...], list[tuple[dict, dict]]] = {}
    for row in rows:
        baseline = random.get((*(row[name] for name in _POINT), row["seed"]))
        if row["metric"] != "random" and baseline is not None:
            groups.setdefault(tuple(row[name] for name in (*_POINT, *_WAY)), []).append((row, baseline))
    return _corrected([_comparison(key, groups[key], whole) for key in sorted(groups)])


def _corrected(rows: list[ComparisonWithRandom]) -> list[ComparisonWithRandom]:
    """Every comparison with its place in Holm's correction."""
    steps = holm([row.p_value for row in rows])
    family = sum(row.p_value >= 0 for row in rows)
    return [replace(row, **step._asdict(), family=family) for row, step in zip(rows, steps, strict=True)]


def _comparison(
    key: tuple, pairs: list[tuple[dict, dict]], whole: dict[tuple[int, int], float]
) -> ComparisonWithRandom:
    pruned = np.array([row["test_error"] for row, _ in pairs])
    chance = np.array([row["test_error"] for _, row in pairs])
    own = ((row["initial_size"], row["seed"]) for row, _ in pairs)
    unpruned = np.array([whole[initial] for initial in own if initial in whole])
    order = np.argsort([row["seed"] for row, _ in pairs], kind="stable")
    difference = (pruned - chance).round(_DIGITS)
    values = dict(zip((*_POINT, *_WAY), key, strict=True))
    return ComparisonWithRandom(
        **values,
        kept=pairs[0][0]["kept"],
        seeds=len(pairs),
        test_error=float(pruned.mean()),
        stderr=standard_error(pruned),
        random_error=float(chance.mean()),
        random_stderr=standard_error(chance),
        difference=float(difference.mean()),
        difference_stderr=standard_error(difference),
        unpruned_error=float(unpruned.mean()) if len(unpruned) else math.nan,
        unpruned_stderr=standard_error(unpruned),
        seed_differences=tuple(difference[order].tolist()),
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
    verdict: PruningVerdict
    shown: ComparisonWithRandom
    other: ComparisonWithRandom | None = None

    def __str__(self) -> str:
        return describe_advice(self)


def advice(table: pa.Table) -> list[Advice]:
    """What the comparison with random subsets means for someone who has to decide, for every way of pruning."""
    ways: dict[tuple[str, float, str, float], list[ComparisonWithRandom]] = {}
    for row in compare_with_random(table):
        ways.setdefault((row.metric, row.balance, row.strategy, row.matched_iterations), []).append(row)
    return [_judge(rows) for rows in ways.values()]


def _judge(rows: list[ComparisonWithRandom]) -> Advice:
    """The verdict on one way of pruning: at the largest initial set, and whether smaller ones contradict it."""
    largest = max(row.initial_size for row in rows)
    there = sorted((row for row in rows if row.initial_size == largest), key=lambda row: row.keep_fraction)
    helps, hurts, undecided = ([row for row in there if row.effect is effect] for effect in Effect)
    if helps:
        lost = max((row for row in rows if row.effect is Effect.HURTS), key=lambda row: row.initial_size, default=None)
        return _advice(PruningVerdict.PAYS if lost is None else PruningVerdict.PAYS_THERE, helps[0], lost)
    if hurts:
        worst = max(hurts, key=lambda row: row.difference)
        best = min(undecided, key=lambda row: row.difference, default=None)
        return _advice(PruningVerdict.HURTS if best is None else PruningVerdict.HURTS_IN_PART, worst, best)
    best = min(undecided, key=lambda row: row.difference)
    few = all(row.seeds < FEWEST_SEEDS for row in undecided)
    return _advice(PruningVerdict.TOO_FEW_SEEDS if few else PruningVerdict.UNDECIDED, best)


def _advice(verdict: PruningVerdict, shown: ComparisonWithRandom, other: ComparisonWithRandom | None = None) -> Advice:
    return Advice(shown.metric, shown.strategy, shown.balance, shown.matched_iterations, verdict, shown, other)


def curves_by_way(table: pa.Table) -> dict[str, dict[float, list[tuple[float, float, float]]]]:
    """For every way of pruning and every kept fraction: (kept, mean test error, standard error) over initial sizes.

    The whole sets, of fraction 1, are under `random`.
    """
    errors: dict[tuple[str, float, int], list[float]] = {}
    for row in table.to_pylist():
        if row["status"] == "done":
            errors.setdefault((name_way(row), row["keep_fraction"], row["kept"]), []).append(row["test_error"])
    found: dict[str, dict[float, list[tuple[float, float, float]]]] = {}
    for (way, fraction, kept), values in sorted(errors.items()):
        measured = np.array(values)
        found.setdefault(way, {}).setdefault(fraction, []).append(
            (kept, float(measured.mean()), standard_error(measured))
        )
    return found
