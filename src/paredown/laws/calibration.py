"""How good a verdict is: the power and the false alarms of its rule, on simulated data of the same points and noise.

`calibrate` draws as many seeds as were measured, with the measured spreads, around numbers for which the claim is true
and around others for which it is barely false, and counts how often the same rule says "held".
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.laws.claim_rules import FALSE_ALARM, FEWEST_SEEDS, Finding, Region, decide, decide_number, fewest, power
from paredown.standard_errors import standard_error

WANTED = 0.8  # power at the effect that a claim names
REPEATS = 2000
_MOST_SEEDS = 1000
_STEPS = 30  # of a bisection
_SURE = 2.33  # standard errors of a simulated share: 99 %, one-sided


class Weakness(Enum):
    """Why a verdict of a rule does not count."""

    LITTLE_POWER = "too little power"  # at the effect that the claim names
    FALSE_ALARMS = "too many false alarms"


@dataclass(frozen=True)
class Strength:
    """What a rule could see in the data that it judged.

    An effect is how far inside its region a number must lie to be found: a difference for "better than", the margin
    for "no worse than" and "equivalent to", for which the true difference is then zero.
    """

    effect: float  # that the claim names
    power: float  # share of simulated data with that effect of which the rule says "held"
    false_alarms: float  # the same of data for which the claim is barely false
    smallest_effect: float  # seen with a power of 0.8; infinite if nothing is
    seeds: int
    seeds_needed: int | None  # for a power of 0.8 at the named effect; None if a thousand are too few
    repeats: int = REPEATS  # simulated data sets of each kind

    @property
    def weakness(self) -> Weakness | None:
        """What makes the rule too weak for a verdict; false alarms beyond the error of their simulation count."""
        if not self.power >= WANTED:
            return Weakness.LITTLE_POWER
        allowed = FALSE_ALARM + _SURE * math.sqrt(FALSE_ALARM * (1 - FALSE_ALARM) / self.repeats)
        return Weakness.FALSE_ALARMS if self.false_alarms > allowed else None

    def record(self) -> dict[str, Any]:
        """Plain values for JSON, where nothing is infinite."""
        values = dict(vars(self))
        return values | {"smallest_effect": self.smallest_effect if math.isfinite(self.smallest_effect) else None}

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Strength:
        """A strength as `record` wrote it."""
        values = dict(record)
        if values["smallest_effect"] is None:
            values["smallest_effect"] = math.inf
        return cls(**values)


def calibrate(
    findings: Sequence[Finding],
    effect: float,
    *,
    least: int | None = None,
    most: int | None = None,
    repeats: int = REPEATS,
    seed: int = 0,
) -> Strength:
    """The strength of a claim that `least` to `most` of some points hold; of every one if neither is given."""
    points = len(findings)
    least = points if least is None and most is None else least or 0
    top = points if most is None else most
    rng = np.random.default_rng(seed)
    truths = _truths(findings, effect, least, top)
    true, false = (_simulated(findings, truth, least, most, repeats, rng) for truth in truths)
    needed = None
    if all(found.spread > 0 for found in findings):
        needed = fewest(lambda n: _joint_power(findings, effect, least, top, seeds=n) >= WANTED, _MOST_SEEDS)
    return Strength(
        effect=effect,
        power=true,
        false_alarms=false,
        smallest_effect=_smallest_effect(findings, least, top),
        seeds=min(found.seeds for found in findings),
        seeds_needed=needed,
        repeats=repeats,
    )


def _truths(findings: Sequence[Finding], effect: float, least: int, top: int) -> tuple[list[float], list[float]]:
    """True numbers for which the claim holds by the effect, and those for which it barely does not."""
    inside = [found.inside(effect) for found in findings]
    edge = [_edge(found) for found in findings]
    outside = [2 * e - i for e, i in zip(edge, inside, strict=True)]
    # The points that are seen best are those that are there: a claim on some of them needs no others.
    order = np.argsort([found.spread for found in findings], kind="stable")
    true, false = list(outside if top < len(findings) else edge), list(edge)
    for place, number in enumerate(order):
        if place < max(least, top // 2 if top < len(findings) else 0):
            true[number] = inside[number]
        if top < len(findings):
            false[number] = edge[number] if place <= top else outside[number]
        elif place < least - 1:
            false[number] = inside[number]
    return true, false


def _edge(found: Finding) -> float:
    region = found.scaled_region
    return region.high if math.isfinite(region.high) else region.low


def _simulated(
    findings: Sequence[Finding],
    truth: list[float],
    least: int,
    most: int | None,
    repeats: int,
    rng: np.random.Generator,
) -> float:
    """The share of simulated data sets of which the rule says "held"."""
    held, contradicted = np.zeros(repeats, int), np.zeros(repeats, int)
    for found, value in zip(findings, truth, strict=True):
        if found.seeds < FEWEST_SEEDS or not found.spread > 0:
            continue
        drawn = value + found.spread * rng.standard_normal((repeats, found.seeds))
        levels = {"hold_level": found.hold_level, "contradict_level": found.contradict_level}
        yes, no = decide(drawn.mean(axis=1), standard_error(drawn.T), found.seeds, found.scaled_region, **levels)
        held += yes
        contradicted += no
    answer: NDArray[np.bool_] = decide_number(held, contradicted, len(findings), least, most)[0]
    return float(answer.mean())


def _power_at(found: Finding, effect: float, seeds: int | None) -> float:
    """Of one point; where the region has two ends the effect is its half width."""
    region, number = found.scaled_region, found.seeds if seeds is None else seeds
    if math.isfinite(region.low) and math.isfinite(region.high):
        return power(Region(-effect, effect), 0.0, found.spread, number, level=found.hold_level)
    return power(region, found.inside(effect), found.spread, number, level=found.hold_level)


def _joint_power(
    findings: Sequence[Finding], effect: float, least: int, top: int, *, seeds: int | None = None
) -> float:
    """At least the power of the claim (Bonferroni): as many points must be decided as it takes."""
    needed = max(1, least + len(findings) - top)
    missed = sorted(1 - _power_at(found, effect, seeds) for found in findings)[:needed]
    return 1 - sum(missed)


def _smallest_effect(findings: Sequence[Finding], least: int, top: int) -> float:
    scale = max((found.spread for found in findings if found.spread > 0), default=math.nan)
    low, high = 0.0, 100 * scale
    if findings and findings[0].fisher:  # a correlation differs from another by two at most
        high = 2.0
    if not _joint_power(findings, high, least, top) >= WANTED:
        return math.inf
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (low, middle) if _joint_power(findings, middle, least, top) >= WANTED else (middle, high)
    return high
