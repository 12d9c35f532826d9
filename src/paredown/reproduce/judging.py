"""From findings to claims: the one place where figures on real data turn numbers per seed into verdicts.

A figure's `judge` makes a `Finding` for every point that a claim is about, by a rule of `paredown.laws` (`better_than`,
`no_worse_than`, `equivalent_to`, `correlated_above`, ...), and passes them to `judge_points` with the effect that the
claim is about. The claim then has a verdict, one sentence, a table of the points, and the strength of its rule:
measured power and false alarms on simulated data of the same points, seeds and noise. A rule that is too weak,
with less power than 0.8 at that effect or more than 5 % false alarms, decides nothing: the verdict is "cannot tell".

    runs = part.where(kind="run", keep_fraction=0.5)
    found = {"0.5": better_than(runs["difference"])}
    judge_points("Pruning helps.", found, rule="better than", effect=0.005, about="MNIST, pruned minus random")
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.laws.calibration import WANTED, Strength, Weakness, calibrate
from paredown.laws.claim_rules import ClaimVerdict, Finding, number_of
from paredown.reproduce.base import Claim, FigureTable

_NAMED = 3  # points in a sentence; the table has all


@dataclass(frozen=True)
class Unit:
    """How numbers of a kind are written."""

    name: str
    scale: float = 1.0
    digits: int = 2
    signed: bool = True

    def show(self, value: float) -> str:
        """A number, with its sign if it is a difference."""
        return f"{self.scale * value:{'+' if self.signed else ''}.{self.digits}f}"

    def size(self, value: float) -> str:
        """An effect or a margin, without sign."""
        return f"{self.scale * abs(value):.3g}"


POINTS = Unit("points", 100.0)  # of test error or accuracy
PERCENT = Unit("%", 100.0, 1)  # of log ratios of errors: differences of a few per cent
PERCENT_OF = Unit("% of the whole", 100.0, 1, signed=False)
EXPONENT = Unit("in exponent", 1.0, 3)
CORRELATION = Unit("correlation", 1.0, 2, signed=False)
PLAIN = Unit("", 1.0, 3, signed=False)


def judge_points(
    claim: str,
    findings: Mapping[str, Finding],
    *,
    rule: str,
    effect: float,
    about: str,
    unit: Unit = POINTS,
    least: int | None = None,
    most: int | None = None,
    note: str = "",
    over: str = "seeds",
    counted_in: str = "",
    strength: Strength | None = None,
    **values: Any,
) -> Claim:
    """A claim that `least` to `most` of some points are true, of every one if neither is given.

    Args:
        claim: as a sentence.
        findings: by the name of their point, judged with `points=len(findings)` and, for a claim on every point,
            `all_must_hold=True`; False where one is enough (`least=1`), None where they are counted.
        rule: the kind of claim, as "better than" or "equivalent to".
        effect: how far inside its region a number should be found: the difference that a claim is about, or the margin
            of a rule that has one.
        about: what the numbers are, as "MNIST, test error of the hardest minus that of random subsets".
        unit: of the numbers.
        least, most: how many points must be true.
        note: another sentence of evidence.
        over: what was repeated, if not trainings with other seeds.
        counted_in: the figure that judges the same claim on the same runs.
        strength: of the rule, where it is more than that of its findings; simulated here if it is not given.
        values: numbers for whoever looks into the claim; not in its record.
    """
    found = list(findings.values())
    if not found:
        return replace(Claim.not_testable(claim, f"{about}: there is no such point here. {note}".strip()), rule=rule)
    needed = len(found) if least is None and most is None else least or 0
    said = number_of(found, least=needed, most=most)
    strength = strength or calibrate(found, effect, least=needed, most=most)
    weakness = None if said is ClaimVerdict.CANNOT_TELL else strength.weakness
    told = f"{about}: {_sentence(findings, said, unit)}"
    parts = [told, note, _lacking(strength, said, unit, over)]
    return Claim(
        claim,
        said if weakness is None else ClaimVerdict.CANNOT_TELL,
        " ".join(part for part in parts if part),
        values,
        rule=f"{rule}, {_region(found[0], unit)}{_how_many(len(found), needed, most)}",
        numbers=tuple(_row(name, each, unit, over) for name, each in findings.items()),
        unit=unit.name,
        over=over,
        strength=strength,
        counted_in=counted_in,
        weakness=weakness,
    )


def seeds_of(part: FigureTable, column: str, **where: Any) -> NDArray[np.float64]:
    """A column of the rows per seed of one point, in the order of the seeds."""
    rows = sorted(part.where(**where).rows, key=lambda row: row["seed"])
    return np.array([row[column] for row in rows], dtype=float)


def paired(part: FigureTable, column: str, own: Mapping[str, Any], other: Mapping[str, Any]) -> NDArray[np.float64]:
    """A column at one point less the same column at another, seed by seed; only seeds that both have."""
    values = [{row["seed"]: row[column] for row in part.where(**where).rows} for where in (own, other)]
    return np.array([values[0][seed] - values[1][seed] for seed in sorted(values[0].keys() & values[1].keys())])


def mean_over(columns: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """The mean over several points, seed by seed."""
    return np.mean(np.array(columns, dtype=float), axis=0)


def strength_sentence(strength: Strength, unit: str, over: str = "seeds") -> str:
    """What a rule could see, for the page of results."""
    shown = _UNITS.get(unit, PLAIN)
    name = f" {unit}" if unit else ""
    smallest = (
        f"{shown.size(strength.smallest_effect)}{name}" if math.isfinite(strength.smallest_effect) else "no effect"
    )
    needed = "" if strength.power >= WANTED else f"; {_needed(strength, over)}"
    return (
        f"{strength.seeds} {over} find {smallest} with a power of {WANTED:g}; at {shown.size(strength.effect)}{name} "
        f"the power is {strength.power:.2f}; false alarms {100 * strength.false_alarms:.1f} %{needed}"
    )


_UNITS = {unit.name: unit for unit in (POINTS, PERCENT, PERCENT_OF, EXPONENT, CORRELATION, PLAIN)}


def _sentence(findings: Mapping[str, Finding], verdict: ClaimVerdict, unit: Unit) -> str:
    """The number that decided, or the points that were left undecided."""
    if len(findings) == 1:
        return f"{_number(next(iter(findings.values())), unit)}."
    counts = {kind: sum(found.verdict is kind for found in findings.values()) for kind in ClaimVerdict}
    named = [name for name, found in findings.items() if found.verdict is verdict]
    of = f"{counts[ClaimVerdict.HELD]} of {len(findings)} hold"
    if counts[ClaimVerdict.CONTRADICTED]:
        of += f", {counts[ClaimVerdict.CONTRADICTED]} contradicted"
    if counts[ClaimVerdict.CANNOT_TELL]:
        of += f", {counts[ClaimVerdict.CANNOT_TELL]} undecided"
    strongest = sorted(named, key=lambda name: -abs(findings[name].value) / (findings[name].stderr or math.inf))[
        :_NAMED
    ]
    shown = "; ".join(f"{name}: {_number(findings[name], unit)}" for name in strongest)
    return f"{of}" + (f" ({shown})." if shown else ".")


def _number(found: Finding, unit: Unit) -> str:
    limits = "" if math.isnan(found.low) else f" [{unit.show(found.low)}, {unit.show(found.high)}]"
    return f"{unit.show(found.value)}{limits}{f' {unit.name}' if unit.name else ''}"


def _lacking(strength: Strength, said: ClaimVerdict, unit: Unit, over: str) -> str:
    """Why the verdict is "cannot tell", where it is the rule's strength that is lacking."""
    doubted = "" if said is ClaimVerdict.CANNOT_TELL else f'The numbers say "{said.value}", but the rule is too weak: '
    if strength.weakness is Weakness.LITTLE_POWER:
        name = f" {unit.name}" if unit.name else ""
        seen = (
            f"with {strength.seeds} {over}, {unit.size(strength.effect)}{name} would be found with a power of "
            f"{strength.power:.2f}; {_needed(strength, over)}."
        )
    elif strength.weakness is Weakness.FALSE_ALARMS and doubted:
        seen = (
            f'it says "held" in {strength.false_alarms:.1%} of {strength.repeats:,} simulations where it is not true.'
        )
    else:
        return ""
    return doubted + seen if doubted else seen[0].upper() + seen[1:]


def _needed(strength: Strength, over: str) -> str:
    if strength.seeds_needed is None:
        return f"more {over} alone do not decide it"
    if strength.seeds_needed <= strength.seeds:  # the number of a rule's last step, which was simulated whole
        return f"more {over} are needed"
    return f"{strength.seeds_needed} {over} are needed for {WANTED:g}"


def _region(found: Finding, unit: Unit) -> str:
    low, high = found.region.low, found.region.high
    name = f" {unit.name}" if unit.name else ""
    if math.isfinite(low) and math.isfinite(high):
        return f"within ±{unit.size((high - low) / 2)}{name}"
    end, word = (high, "below") if math.isfinite(high) else (low, "above")
    return f"{word} {unit.show(end) if end else '0'}{name}"


def _how_many(points: int, least: int, most: int | None) -> str:
    if points == 1:
        return ""
    if most is not None:
        return f", at {least} to {most} of {points} points"
    return f", at every one of {points} points" if least == points else f", at {least} or more of {points} points"


def _row(name: str, found: Finding, unit: Unit, over: str) -> dict[str, str]:
    blank = math.isnan(found.low)
    stderr = "" if math.isnan(found.stderr) else f"{unit.scale * found.stderr:.{unit.digits}f}"
    return {
        "point": name,
        "value": unit.show(found.value) if math.isfinite(found.value) else "",
        "standard error": stderr,
        "interval": "" if blank else f"{unit.show(found.low)} to {unit.show(found.high)}",
        over: str(found.seeds),
        "verdict": found.verdict.value,
    }
