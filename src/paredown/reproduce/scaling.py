"""What the figures on scaling share: a sweep over sizes and fractions, and what it says about laws.

Section 'Data pruning can beat power law scaling in practice' and the appendix on additional scaling experiments.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import ArrayLike, NDArray

from paredown.laws import better_than, compare, curve, equal_exponents, fit, pareto_frontier, steeper_than_random
from paredown.laws.calibration import Strength, calibrate
from paredown.laws.claim_rules import Finding
from paredown.laws.curves import Curve
from paredown.laws.steepness import unlimited_sizes
from paredown.plots import RANDOM_COLOR, fraction_color
from paredown.reproduce.base import Claim, FigureTable, pick
from paredown.reproduce.data_folders import Dataset
from paredown.reproduce.drawing import draw_frontier, log_axes, mark_limits, percent_bars
from paredown.reproduce.judging import EXPONENT, PERCENT, judge_points
from paredown.reproduce.metric_comparison import MEMORIZATION_NETWORKS
from paredown.reproduce.setup import Setup
from paredown.reproduce.theory_calibration import (
    RuleCalibration,
    calibrate_exponents,
    calibrate_misfits,
    calibrate_steepness,
    misfits,
)
from paredown.sweeps.summary import compare_with_random
from paredown.training import find_recipe
from paredown.training.schedule import planned_steps


def scaling_sweep(setup: Setup, role: str = "main", **grid: Any) -> dict[str, Any]:
    """The sweep over initial sizes and fractions; figures that differ in the rest of the grid share its runs."""
    data = setup.dataset(role)
    small = data.inputs == "digits"
    if setup.scale == "paper":
        source = data.images("swav" if data.name == "imagenet" else "auto")
        student: dict[str, Any] = {
            "recipe": {"imagenet": "resnet50", "svhn": "resnet18_svhn"}.get(data.name, "resnet18")
        }
        probe: dict[str, Any] = {}  # members and epochs are those of the recipe
        sizes = [round(data.examples * share) for share in (0.1, 0.2, 0.4, 0.6, 0.8, 1.0)]
        fractions = [0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
        seeds = 1 if data.name == "imagenet" else 4  # the paper trained one model per point there
        if data.name == "imagenet":
            student["steps"] = whole_set_steps(data)
            probe = {"memorization": {"metric": "memorization", "members": MEMORIZATION_NETWORKS}}
        else:  # "on each pruned dataset for 200 epochs"
            grid = {"matched_iterations": [0.0], **grid}
    else:
        source = data.features()
        student = {"recipe": "mlp", "steps": setup.choose(tiny=60, cpu=400 if small else 1500, paper=0)}
        probe = {"members": setup.choose(tiny=2, cpu=3, paper=0)}
        sizes = [160, 320, 640, 1280] if small else [data.examples // part for part in (64, 16, 4, 1)]
        fractions = [0.25, 0.5, 1.0] if small else [0.125, 0.25, 0.5, 1.0]
        seeds = setup.choose(tiny=2, cpu=4, paper=0)
    common = {"initial_size": sizes, "keep_fraction": fractions, "metric": ["el2n"], "balance": [0.0]}
    grid = {**common, "seed": setup.seeds(seeds), **grid}
    return {"data": source, "grid": grid, "student": student, "probe": probe}


def whole_set_steps(data: Dataset) -> int:
    """How long the paper trains on any part of ImageNet for scaling: as many iterations as 105 epochs of all of it."""
    recipe = find_recipe("resnet50")
    return planned_steps(recipe, data.examples)


def with_sizes_between(config: dict[str, Any]) -> dict[str, Any]:
    """A sweep with a size between every two of its sizes: slopes of a frontier need more than four of them."""
    sizes = config["grid"]["initial_size"]
    between = [round(float(np.sqrt(a * b))) for a, b in pairwise(sizes)]
    return {**config, "grid": {**config["grid"], "initial_size": sorted([*sizes, *between])}}


def merge_sizes(kept: ArrayLike) -> NDArray[np.int64]:
    """Numbers kept, with those that differ by rounding alone made equal to the smallest of them."""
    sizes, which = np.unique(np.asarray(kept), return_inverse=True)
    merged = sizes.copy()
    for number in range(1, len(sizes)):
        if sizes[number] <= _SAME_SIZE * merged[number - 1]:
            merged[number] = merged[number - 1]
    return merged[which]


_SAME_SIZE = 1.02


def add_laws(table: FigureTable, results: pa.Table, data: str, *, metric: str = "el2n", balance: float = 0.0) -> None:
    """Add what a sweep says of one way of pruning: every run, mean errors, exponents, the frontier and laws on it."""
    rows = [row for row in results.to_pylist() if row["status"] == "done"]
    for row, kept in zip(rows, merge_sizes([row["kept"] for row in rows]).tolist(), strict=True):
        row["kept"] = kept
    way = {"metric": metric, "strategy": "hard", "balance": balance}
    own = [row for row in rows if row["keep_fraction"] < 1 and all(row[name] == value for name, value in way.items())]
    chance = _averaged([row for row in rows if row["metric"] == "random"])
    what = {"data": data, "metric": metric, "balance": balance}
    columns = ("kept", "keep_fraction", "test_error", "seed")
    kept, fraction, error, seed = (np.array([row[name] for row in (*own, *chance)]) for name in columns)
    table.add("run", **what, kept=kept, keep_fraction=fraction, seed=seed, test_error=error)
    for row in compare_with_random(results):
        if (row.metric, row.strategy, row.balance) == (metric, "hard", balance):
            names = ("keep_fraction", "initial_size", "kept", "test_error", "stderr", "random_error", "difference", "z")
            table.add("pruned", **what, **pick(row, *names))
    random = _curve(chance)
    stderr = np.nan if random.stderr is None else random.stderr
    table.add("random", **what, kept=random.size, test_error=random.error, stderr=stderr)
    for share in sorted({row["keep_fraction"] for row in own} | {1.0}):
        nu = fit(_curve([row for row in own if row["keep_fraction"] == share] or chance), "power")["nu"]
        table.add("exponent", **what, keep_fraction=share, nu=nu.value, **pick(nu, "low", "high"))
    frontier = pareto_frontier(kept, fraction, error, seed=seed if len(np.unique(seed)) > 1 else None)
    low, high = frontier.curve.limits()
    table.add(
        "frontier",
        **what,
        kept=frontier.kept_size,
        keep_fraction=frontier.keep_fraction,
        test_error=frontier.error,
        low=low,
        high=high,
        random_error=np.exp(np.interp(np.log(frontier.kept_size), np.log(random.size), np.log(random.error))),
    )
    if len(frontier) < 4:  # too few to fit a law to
        return
    for name, contender in compare(frontier.curve).contenders.items():
        at = np.geomspace(frontier.kept_size[0], frontier.kept_size[-1], 30)
        weight, missed = contender.weight, contender.left_out_error
        table.add("law", **what, law=name, aicc=contender.difference, weight=weight, left_out_error=missed)
        table.add("fitted", **what, law=name, kept=at, test_error=contender.fit.predict(at))


def _averaged(chance: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Random subsets as what they are, smaller sets that were not pruned; those of one seed and size are averaged."""
    errors: dict[tuple[int, int], list[float]] = {}
    for row in chance:
        errors.setdefault((row["kept"], row["seed"]), []).append(row["test_error"])
    return [
        {"kept": kept, "seed": seed, "keep_fraction": 1.0, "test_error": float(np.mean(values))}
        for (kept, seed), values in sorted(errors.items())
    ]


def _curve(rows: list[dict[str, Any]]) -> Curve:
    """Error against size.

    Runs count as independent: what the sets of one seed share moves all sizes together, which leaves exponents as they
    are, and drawing whole seeds again gives intervals that are too narrow for as few as four (0.88 instead of 0.95).
    """
    kept, error = (np.array([row[name] for row in rows]) for name in ("kept", "test_error"))
    return curve(kept, error)


# --- verdicts ------------------------------------------------------------------------------------------------------
# Each takes the rows of one way of pruning on one data set, and needs only those of kind `run` (`judge_exponents` also
# those of kind `exponent`), so that arms of other figures can be judged alike.

EXPONENT_MARGIN = 0.25  # of the exponent of random subsets, up to which two exponents count as equal
LEAST_STEEPER = 0.1  # of the exponent of random subsets, by which one must be larger to count as larger
STEEPER = 0.15  # difference of exponents, beyond that, that "falls faster" is about
LOWER = 0.1  # difference of log error that "lies below" is about: ten per cent


def judge_exponents(part: FigureTable, *, counted_in: str = "") -> Claim:
    """Whether the exponent at every fixed fraction is that of random subsets, past the crossing of the curves.

    The claim is about the fractions that have enough sizes there, and names them.
    """
    random = part.where(kind="exponent", keep_fraction=1.0).rows[0]["nu"]
    margin = max(1e-9, EXPONENT_MARGIN * random)
    tests = equal_exponents(*_runs(part), margin=margin)
    testable = [test for test in tests if test.difference is not None]
    found = {
        f"{test.keep_fraction:g}": replace(test.difference, verdict=test.verdict)
        for test in testable
        if test.difference is not None
    }
    which = f"keep_fraction {', '.join(found)}" if len(testable) < len(tests) and found else "a fixed keep_fraction"
    claim = f"{_about(part)}: at {which} error falls with the exponent of random subsets."
    short = [f"{test.keep_fraction:g} ({len(test.kept_size)})" for test in tests if test.difference is None]
    note = f"Not testable, with fewer than three sizes past the crossing: {', '.join(short)}." if short else ""
    if not found:
        told = f"The claim is about sizes past the crossing with random subsets (exponent {random:.2f}). {note}"
        return replace(Claim.not_testable(claim, told), rule="equal exponents", counted_in=counted_in)
    could = calibrate_exponents(*_runs(part), tests=testable, margin=margin)
    return judge_points(
        claim,
        found,
        rule="equal exponents",
        effect=margin,
        unit=EXPONENT,
        about="slope of log(pruned error / random error) past the crossing, by keep_fraction",
        note=f"{note} Random subsets have {random:.2f}.".strip(),
        counted_in=counted_in,
        strength=_simulated(found.values(), margin, could),
    )


def _simulated(findings: Iterable[Finding], effect: float, could: RuleCalibration) -> Strength:
    """The strength of a rule from simulations of all of it; what more seeds would do is that of its last step."""
    alone = calibrate(list(findings), effect)
    return replace(alone, power=could.power, false_alarms=could.false_alarms, repeats=could.repeats)


def judge_level(part: FigureTable, *, counted_in: str = "") -> Claim:
    """Whether the frontier lies below the curve of random subsets somewhere."""
    kept, fraction, error, seed = _runs(part)
    random = {(size, own): value for size, f, value, own in zip(kept, fraction, error, seed, strict=True) if f == 1}
    ratios: dict[tuple[float, float], list[float]] = {}
    for size, f, value, own in zip(kept, fraction, error, seed, strict=True):
        if f < 1 and (size, own) in random:
            ratios.setdefault((size, f), []).append(math.log(value / random[size, own]))
    options: dict[str, Any] = {"points": len(ratios), "all_must_hold": False}
    found = {
        f"{size:,.0f} kept of {size / f:,.0f}": better_than(values, **options) for (size, f), values in ratios.items()
    }
    return judge_points(
        f"{_about(part)}: the frontier over fractions lies below the curve of random subsets.",
        found,
        rule="better than",
        effect=LOWER,
        unit=PERCENT,
        least=1,
        about="test error relative to random subsets of the same size",
        counted_in=counted_in,
    )


def judge_frontier(part: FigureTable, *, counted_in: str = "") -> Claim:
    """Whether the frontier falls faster than random subsets, which follow a power law."""
    claim = f"{_about(part)}: the frontier over fractions falls faster than the power law of random subsets."
    return judge_steepness(claim, *_runs(part), counted_in=counted_in)


def judge_steepness(
    claim: str,
    kept: ArrayLike,
    fraction: ArrayLike,
    error: ArrayLike,
    seed: ArrayLike,
    *,
    counted_in: str = "",
    note: str = "",
) -> Claim:
    """A claim to be steeper than random subsets, from single runs; rows with fraction 1 are random subsets."""
    alone = np.asarray(fraction) == 1
    exponent = -float(np.polyfit(np.log(np.asarray(kept)[alone]), np.log(np.asarray(error)[alone]), 1)[0])
    least = LEAST_STEEPER * max(0.0, exponent)
    test = steeper_than_random(kept, fraction, error, seed, least=least)
    if test.slope is None:
        limited, pruned = int(test.limited.sum()), int((test.keep_fraction < 1).sum())
        told = (
            f"A slope takes three sizes at which pruning is best and smaller fractions were tried, and three seeds: "
            f"pruning is best at {pruned} of {len(test.kept_size)} sizes, and the initial set limits the frontier at "
            f"{limited}. {note}"
        )
        return replace(Claim.not_testable(claim, told.strip()), rule="steeper than random", counted_in=counted_in)
    could = calibrate_steepness(kept, fraction, error, seed, least=least, effect=STEEPER)
    found = {"slope": replace(test.slope, verdict=test.verdict)}
    return judge_points(
        claim,
        found,
        rule="steeper than random",
        effect=STEEPER,
        unit=EXPONENT,
        about="slope of log(frontier / random subsets) over sizes that the initial set does not limit",
        note=f"Random subsets have an exponent of {exponent:.2f}, which must be exceeded by a tenth. On the exact "
        f"theory at these sizes and this noise "
        f"the rule says held in {could.on_theory:.0%} of {could.repeats} simulations. "
        f"{_without_asymptote(kept, fraction, error, seed, least)}{note}".strip(),
        counted_in=counted_in,
        strength=_simulated(found.values(), STEEPER, could),
        on_theory=could.on_theory,
        test=test,
    )


def _without_asymptote(kept: ArrayLike, fraction: ArrayLike, error: ArrayLike, seed: ArrayLike, least: float) -> str:
    """The same without the error that random subsets of any size keep, where they bend towards one."""
    size, errors = np.asarray(kept), np.asarray(error)
    alone = np.asarray(fraction) == 1
    random = curve(size[alone], errors[alone])
    if len(random) < _FEWEST_FITTED:
        return ""
    straight, bent = (fit(random, law, draws=2) for law in ("power", "power with asymptote"))
    floor = bent["c"].value
    if not straight.aicc - bent.aicc >= 2 or not 0 < floor < errors.min():
        return ""
    test = steeper_than_random(kept, fraction, error, seed, least=least, asymptote=floor)
    return (
        f"Without the {100 * floor:.2g} % of error that the curve of random subsets bends towards: "
        f"{test.verdict.value}. "
    )


def judge_exponential(part: FigureTable) -> Claim:
    """Whether an exponential fits the frontier better than a power law, each with an asymptote, seed by seed."""
    claim = "An exponential fits the frontier better than a power law."
    test = steeper_than_random(*_runs(part))
    counted = unlimited_sizes(test)
    sizes, logs = test.kept_size[counted], test.log_error[counted].T
    if len(sizes) < _FEWEST_FITTED or len(logs) < 2:
        told = (
            f"Fitting three parameters takes {_FEWEST_FITTED} sizes that the initial set does not limit, and there are "
            f"{len(sizes)}."
        )
        return replace(Claim.not_testable(claim, told), rule="better than")
    misfit = misfits(sizes, logs)
    could, effect = calibrate_misfits(sizes, logs)
    found = {"all sizes": better_than(misfit["exponential"] - misfit["power"])}
    return judge_points(
        claim,
        found,
        rule="better than",
        effect=effect,
        unit=PERCENT,
        about=f"{_about(part)}, {len(sizes)} sizes from {sizes[0]:,.0f} to {sizes[-1]:,.0f}, root mean square "
        "residuals of log error, exponential minus power law",
        note=f"Residuals are {misfit['exponential'].mean():.1%} and {misfit['power'].mean():.1%}. The effect is what "
        "they are apart if the fitted exponential is the truth.",
        strength=_simulated(found.values(), effect, could),
    )


_FEWEST_FITTED = 5  # sizes for a law of three parameters


def _runs(part: FigureTable) -> tuple[Any, Any, Any, Any]:
    kept, fraction, error, seed = part.where(kind="run").columns("kept", "keep_fraction", "test_error", "seed")
    return kept, fraction, error, seed


def _about(part: FigureTable) -> str:
    row = part.where(kind="run").rows[0]
    floor = f", floor {row['balance']:g}" if row["balance"] else ""
    return f"{row['data']}, {row['metric']}{floor}"


def bound_points(part: FigureTable) -> FigureTable:
    """The points of the frontier at which no smaller fraction was to be had, by the rule on steepness."""
    test = steeper_than_random(*_runs(part))
    sizes = set(test.kept_size[test.limited & (test.keep_fraction < 1)].tolist())
    frontier = part.where(kind="frontier").rows
    return FigureTable(row for row in frontier if row["kept"] in sizes and row["keep_fraction"] < 1)


# --- the picture ---------------------------------------------------------------------------------------------------


def draw_scaling(axes: Any, part: FigureTable, title: str) -> None:
    """Test error against the number kept: a curve for every fraction, random subsets in grey, the frontier in red."""
    random = part.where(kind="random")
    nu = part.where(kind="exponent", keep_fraction=1.0).rows[0]["nu"]
    bars = {"markersize": 4, "linewidth": 1.4, "label": f"random, $\\nu$ = {nu:.2f}"}
    percent_bars(axes, random, "kept", "test_error", color=RANDOM_COLOR, **bars | {"marker": "."})
    for fraction in sorted(part.where(kind="pruned").values("keep_fraction"), reverse=True):
        points = part.where(kind="pruned", keep_fraction=fraction)
        nu = part.where(kind="exponent", keep_fraction=fraction).rows[0]["nu"]
        bars["label"] = f"hardest {100 * fraction:g} %, $\\nu$ = {nu:.2f}"
        percent_bars(axes, points, "kept", "test_error", color=fraction_color(fraction), **bars)
    frontier = part.where(kind="frontier")
    draw_frontier(axes, frontier["kept"], frontier["test_error"])
    mark_limits(axes, bound_points(part))
    log_axes(axes, xlabel="examples kept")
    axes.set_title(title, loc="left")
    axes.legend(fontsize=8)
