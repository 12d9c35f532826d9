"""What a sweep can conclude about a way of pruning, and the one place where a conclusion becomes a sentence."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from enum import Enum
from typing import TYPE_CHECKING, Any, TypeVar

from paredown.laws.claim_rules import FEWEST_SEEDS

if TYPE_CHECKING:
    from paredown.sweeps.summary import Advice, ComparisonWithRandom

Row = TypeVar("Row")


class Effect(Enum):
    """What pruning does at one point of the grid, compared with a random subset of the same size."""

    HELPS = "helps"
    HURTS = "hurts"
    UNDECIDED = "undecided"


class PruningVerdict(Enum):
    """What a sweep says of one way of pruning, judged at the largest initial set."""

    PAYS = "pays"
    PAYS_THERE = "pays there"  # and hurts at other points of the grid
    HURTS = "hurts"  # at every fraction
    HURTS_IN_PART = "hurts in part"
    UNDECIDED = "undecided"
    TOO_FEW_SEEDS = "too few seeds"


def name_way(row: Mapping[str, Any]) -> str:
    """A way of pruning as a title or a legend has it: `el2n, hard, floor 0.5`."""
    if row["metric"] == "random":
        return "random"
    floor = f", floor {row['balance']:g}" if row["balance"] else ""
    duration = f", matched_iterations {row['matched_iterations']:g}" if row["matched_iterations"] < 1 else ""
    return f"{row['metric']}, {row['strategy']}{floor}{duration}"


def group_by_way(rows: Iterable[Row]) -> dict[str, list[Row]]:
    """Rows, or what was found at points of the grid, by the name of their way of pruning."""
    groups: dict[str, list[Row]] = {}
    for row in rows:
        groups.setdefault(name_way(row if isinstance(row, Mapping) else vars(row)), []).append(row)
    return groups


def describe_advice(advice: Advice) -> str:
    """What the verdict on one way of pruning means for someone who has to decide."""
    shown = describe_point(advice.shown)
    other = "" if advice.other is None else describe_point(advice.other)
    match advice.verdict:
        case PruningVerdict.PAYS:
            finding = f"pays: {shown}."
        case PruningVerdict.PAYS_THERE:
            finding = f"pays: {shown}. It does not pay everywhere: {other}."
        case PruningVerdict.HURTS:
            finding = f"does worse than random subsets of the same size at every fraction: {shown}.{_reasons(advice)}"
        case PruningVerdict.HURTS_IN_PART:
            finding = (
                f"does worse than random subsets of the same size at some fractions: {shown}. At others there is no "
                f"significant difference: {other}."
            )
        case PruningVerdict.UNDECIDED:
            finding = f"shows no significant difference from random subsets: {shown}. Run more seeds to decide."
        case PruningVerdict.TOO_FEW_SEEDS:
            finding = f"cannot be judged from {_seeds(advice.shown)}: {shown}. Run at least {FEWEST_SEEDS}."
    return f"{_subject(advice)} {finding}"


def describe_point(row: ComparisonWithRandom) -> str:
    """One point of the grid, with the standard error of the difference if there is one, and the unpruned error."""
    points = f"{100 * abs(row.difference):.2f}"
    error = "" if math.isnan(row.difference_stderr) else f" ± {100 * row.difference_stderr:.2f}"
    direction = "lower" if row.difference < 0 else "higher"
    share = f"{100 * row.keep_fraction:g} %"
    facts = [_seeds(row)]
    if row.seeds >= FEWEST_SEEDS and not math.isnan(row.corrected_p_value):
        facts[0] += f", {_p_value(row)}"
    if not math.isnan(row.unpruned_error):
        facts.append(f"{100 * row.test_error:.2f} % pruned, {100 * row.unpruned_error:.2f} % unpruned")
    return (
        f"at {share} of {row.initial_size:,} the test error is {points}{error} points {direction} than with a random "
        f"{share} ({'; '.join(facts)})"
    )


def _subject(advice: Advice) -> str:
    ends = {"hard": "the hardest", "easy": "the easiest"}
    kept = f"{ends.get(advice.strategy, 'examples')} by {advice.metric}"
    strategy = "" if advice.strategy in ends else f" with strategy {advice.strategy}"
    floor = f" with a floor of {advice.balance:g}" if advice.balance else ""
    duration = f" at matched_iterations {advice.matched_iterations:g}" if advice.matched_iterations < 1 else ""
    return f"Keeping {kept}{strategy}{floor}{duration}"


def _reasons(advice: Advice) -> str:
    if advice.strategy != "hard":
        return ""
    return (
        " That is typical of wrong or ambiguous labels, of probes that are too weak, or of sets that are too small: "
        "look at the hardest examples, train the probes longer, or keep all."
    )


def _p_value(row: ComparisonWithRandom) -> str:
    """By which the point is judged: corrected for the number of comparisons, if there are several."""
    corrected = "" if row.family == 1 else f" corrected for {row.family} comparisons"
    return ("p < 0.0001" if row.corrected_p_value < 1e-4 else f"p = {row.corrected_p_value:.2g}") + corrected


def _seeds(row: ComparisonWithRandom) -> str:
    return "1 seed" if row.seeds == 1 else f"{row.seeds} seeds"
