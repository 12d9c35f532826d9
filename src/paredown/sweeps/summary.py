"""What a sweep says: every way of pruning against chance, with standard errors over seeds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

__all__ = ["DECIDED", "Comparison", "advice", "compare_with_random", "curves_by_way", "standard_error"]

DECIDED = 3.0  # standard errors by which a difference must be off zero to be spoken of

_POINT = ("initial_size", "keep_fraction", "matched_iterations")
_WAY = ("metric", "strategy", "balance")


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
        """The difference in standard errors; NaN for a single seed."""
        return self.difference / self.difference_stderr if self.difference_stderr else math.nan


def compare_with_random(table: pa.Table) -> list[Comparison]:
    """Every combination that pruned, against chance, over the seeds for which both runs ended well."""
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
    values = dict(zip((*_POINT, *_WAY), key, strict=True))
    return Comparison(
        **values,
        kept=pairs[0][0]["kept"],
        seeds=len(pairs),
        test_error=float(pruned.mean()),
        stderr=standard_error(pruned),
        random_error=float(chance.mean()),
        random_stderr=standard_error(chance),
        difference=float((pruned - chance).mean()),
        difference_stderr=standard_error(pruned - chance),
    )


def standard_error(values: NDArray[np.float64]) -> float:
    """Of the mean of one number per seed; NaN for a single one."""
    return float(values.std(ddof=1) / math.sqrt(len(values))) if len(values) > 1 else math.nan


def advice(table: pa.Table) -> list[str]:
    """What the comparison with chance means for someone who has to decide, one sentence or two for every metric."""
    groups: dict[tuple[str, float, str], list[Comparison]] = {}
    for row in compare_with_random(table):
        if row.seeds > 1:
            groups.setdefault((row.metric, row.balance, row.strategy), []).append(row)
    said = []
    for (metric, balance, strategy), rows in groups.items():
        end = {"hard": "the hardest", "easy": "the easiest"}.get(strategy, f"by strategy {strategy}")
        name = f"Keeping {end} by {metric}" + (f" with a floor of {balance:g}" if balance else "")
        said.append(_advice(name, rows, hard=strategy == "hard"))
    return said


def _advice(name: str, rows: list[Comparison], *, hard: bool) -> str:
    largest = max(row.initial_size for row in rows)
    there = sorted((row for row in rows if row.initial_size == largest), key=lambda row: row.keep_fraction)
    helps = [row for row in there if row.z <= -DECIDED]
    hurts = [row for row in there if row.z >= DECIDED]
    if helps:
        least = helps[0]
        sentence = f"{name} pays: {_told(least)}."
        lost = max((row for row in rows if row.z >= DECIDED), key=lambda row: row.initial_size, default=None)
        return sentence if lost is None else f"{sentence} It does not everywhere: {_told(lost)}."
    if len(hurts) == len(there):
        worst = max(there, key=lambda row: row.difference)
        sentence = f"{name} loses at every fraction: {_told(worst)}."
        if not hard:
            return sentence
        return (
            f"{sentence} That is the mark of wrong or ambiguous labels, of probes that are too weak, or of sets that "
            "are too small: look at the hardest examples, train the probes longer, or keep all."
        )
    near = min(there, key=lambda row: row.difference)
    if hurts:
        worst = max(hurts, key=lambda row: row.difference)
        return f"{name} loses in part: {_told(worst)}. Its best is not told from chance: {_told(near)}."
    return f"{name} is not told from chance: {_told(near)}. More seeds would tell."


def _told(row: Comparison) -> str:
    return (
        f"{100 * row.keep_fraction:g} % of {row.initial_size:,} have {100 * row.difference:+.2f} ± "
        f"{100 * row.difference_stderr:.2f} points of test error against random subsets"
    )


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
