"""Fig. 3 where the initial set has no end: MNIST deformed anew for every example, labels true or of a teacher.

Claims: the frontier over fractions falls faster than random subsets (the claim of Fig. 3, in the regime that it is made
for, where a smaller fraction is always to be had); the hardest n of n / f examples beat n random ones. A few students
are also trained twice as long, to see that they had converged.

    paredown reproduce fig_unbounded

Expected: 13 minutes of two cores with MNIST (`--size overnight`: wider networks, initial sets of 4 million). From
1,000 to 32,000 kept the frontier's exponents were 0.53 to 0.68 where those of random subsets were 0.42 to 0.48. That
was gained up to 8,000; above, there was no significant difference.
"""

from __future__ import annotations

from dataclasses import asdict, replace
from itertools import product
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from paredown.laws.claim_rules import better_than, equivalent_to
from paredown.laws.steepness import SteepnessTest, steeper_than_random
from paredown.plots import RANDOM_COLOR, figure, fraction_color, panel_letter
from paredown.reproduce.base import Claim, FigureTable, means
from paredown.reproduce.drawing import draw_frontier, log_axes, mark_limits, percent_bars
from paredown.reproduce.judging import PERCENT, judge_points
from paredown.reproduce.scaling import judge_steepness
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.reproduce.unbounded_sets import LABELS, RANDOM, UnboundedSettings
from paredown.training import Recipe, find_recipe

NEEDS = {"main": {"tiny": ("digits",), "cpu": ("mnist", "digits"), "paper": ("mnist",)}}
CUTS = {"hard": "the hardest", "window": "the hardest without the top 2 %"}
_DROPPED = 0.02  # of the initial set, by `window`
_FEWER = 0.2  # share of mistakes less, that "beats a random set" is about
_CONVERGED = 0.1  # of error, up to which training longer changes nothing
_LONGER = 2  # times as many steps
_CHECKED = 0.25  # the fraction, beside random subsets
_JOBS = "paredown.reproduce.unbounded_sets"


def plan(setup: Setup) -> FigurePlan:
    """The networks that are trained: students, who are probes too, and teachers."""
    data = setup.dataset()
    return FigurePlan(networks=tuple((recipe, data) for recipe in _recipes(setup)), datasets=(data,))


def _recipes(setup: Setup) -> tuple[Recipe, Recipe]:
    """Of students and probes, and of teachers."""
    width = setup.choose(tiny=32, cpu=256, overnight=512, paper=512)
    student = find_recipe("mlp", network_options={"hidden": (width, width)}, precision="bfloat16")
    return student, student.but(network_options={"hidden": (2 * width, 2 * width)})


def kept_sizes(setup: Setup) -> list[int]:
    """How many examples students learn from."""
    sizes = setup.choose(tiny=(60, 240), cpu=(500, 64_000), overnight=(500, 128_000), paper=(500, 256_000))
    return [sizes[0] * 2**power for power in range(round(np.log2(sizes[1] / sizes[0])) + 1)]


def settings_of(setup: Setup) -> UnboundedSettings:
    """Every other number of the experiment at a size."""
    student, teacher = (recipe.settings() for recipe in _recipes(setup))
    halvings = setup.choose(tiny=2, cpu=4, overnight=5, paper=6)
    steps = setup.choose(tiny=40, cpu=1500, overnight=3000, paper=6000)
    return UnboundedSettings(
        source=setup.dataset().location,
        folder=str(setup.parts / "unbounded"),
        student=student,
        teacher=teacher,
        initial=setup.choose(tiny=960, cpu=1_024_000, overnight=4_096_000, paper=16_384_000),
        fractions=tuple(0.5**power for power in range(1, halvings + 1)),
        deformed=0.6,
        drop_hardest=_DROPPED,
        steps=steps,
        epochs=setup.choose(tiny=2, cpu=12, overnight=40, paper=80),
        probes=setup.choose(tiny=2, cpu=3, overnight=5, paper=10),
        probe_examples=setup.choose(tiny=400, cpu=60_000, paper=60_000),
        probe_steps=setup.choose(tiny=40, cpu=3000, overnight=6000, paper=12_000),
        teacher_examples=setup.choose(tiny=400, cpu=262_144, paper=1_048_576),
        teacher_steps=setup.choose(tiny=40, cpu=4000, overnight=16_000, paper=64_000),
        tests=setup.choose(tiny=500, cpu=20_000, paper=100_000),
    )


def measure(setup: Setup) -> FigureTable:
    """Test errors of all students, and what they say of every arm and of the frontier over them."""
    common, sizes = asdict(settings_of(setup)), kept_sizes(setup)
    seeds = setup.seeds(setup.choose(tiny=3, cpu=4, overnight=6, paper=8))
    scored = setup.run(f"{_JOBS}:score_initial_set", seeds, common=common, label="scoring initial sets")
    jobs = [[seed, kept] for kept in reversed(sizes) for seed in seeds]  # the longest first
    found = setup.run(f"{_JOBS}:train_students", jobs, common=common, label="training students")
    rows = sorted((row for rows in found for row in rows), key=lambda row: (row["kept"], row["seed"]))
    table = FigureTable([{"kind": "student", "data": setup.dataset().title, **row} for row in rows])
    for seed, each in zip(seeds, scored, strict=True):
        table.add("scoring", seed=seed, **each)
    table.rows += _train_longer(setup, sizes[-min(3, len(sizes))], seeds)
    add_findings(table)
    return table


def _train_longer(setup: Setup, kept: int, seeds: list[int]) -> list[dict[str, float | str]]:
    """A few students of one size as they are, and trained longer from the same initial weights."""
    found: list[dict[str, float | str]] = []
    for times in (1, _LONGER):
        own = settings_of(setup)
        own = replace(own, fractions=(_CHECKED,), steps=times * own.steps, epochs=times * own.epochs)
        jobs = [[seed, kept] for seed in seeds]
        trained = setup.run(f"{_JOBS}:train_students", jobs, common=asdict(own), label="training students longer")
        found += [{"kind": "longer", "times": times, **row} for rows in trained for row in rows]
    return found


def add_findings(table: FigureTable) -> None:
    """Add what the students' errors say: a row for every arm and size, and the frontier with its slope."""
    students = table.where(kind="student")
    for labels, way in product(LABELS, CUTS):
        part = students.where(labels=labels)
        random, pruned = part.where(strategy=RANDOM), part.where(strategy=way)
        for kept in random.values("kept"):
            chance = random.where(kept=kept)["test_error"]
            if way == "hard":
                table.add("random", labels=labels, kept=kept, **means(test_error=chance))
            for fraction in pruned.values("keep_fraction"):
                own = pruned.where(kept=kept, keep_fraction=fraction)["test_error"]
                columns = means(test_error=own, difference=own - chance)
                arm = {"labels": labels, "strategy": way, "kept": kept, "keep_fraction": fraction}
                table.add("pruned", **arm, **columns, random_error=chance.mean())
        found = frontier_of(students, labels, way)
        table.add(
            "frontier",
            labels=labels,
            strategy=way,
            kept=found.kept_size,
            keep_fraction=found.keep_fraction,
            test_error=np.exp(found.log_ratio.mean(axis=1)) * _random_errors(random, found.kept_size),
            limited=found.limited,
            counted=found.counted,
        )


def frontier_of(students: FigureTable, labels: str, way: str) -> SteepnessTest:
    """The frontier over all fractions of one way of pruning, and whether it is steeper than random subsets."""
    columns = _frontier_runs(students, labels, way).columns("kept", "keep_fraction", "test_error", "seed")
    return steeper_than_random(*columns)


def _frontier_runs(students: FigureTable, labels: str, way: str) -> FigureTable:
    return FigureTable(row for row in students.where(labels=labels).rows if row["strategy"] in (way, RANDOM))


def _random_errors(random: FigureTable, sizes: NDArray[np.float64]) -> NDArray[np.float64]:
    """Geometric means over the seeds, to which the frontier's log ratios are relative."""
    return np.array([np.exp(np.log(random.where(kept=int(size))["test_error"]).mean()) for size in sizes])


def judge(table: FigureTable) -> list[Claim]:
    """For both kinds of labels and both ways: the slope of the frontier, and the arms at the largest size."""
    data, students = table.where(kind="student").rows[0]["data"], table.where(kind="student")
    ways = list(product(LABELS, CUTS))
    return [
        *(_judge_slope(data, students, labels, way) for labels, way in ways),
        *(_judge_arms(data, students, labels, way) for labels, way in ways),
        *_judge_longer(table.where(kind="longer")),
    ]


def _about(data: str, labels: str, way: str) -> str:
    return f"{data} without end, {labels} labels, {CUTS[way]}"


def _judge_slope(data: str, students: FigureTable, labels: str, way: str) -> Claim:
    found = frontier_of(students, labels, way)
    sizes, random = found.kept_size[found.counted], students.where(labels=labels, strategy=RANDOM)
    notes = []
    if found.slope is not None:
        nu = -np.polyfit(np.log(sizes), np.log(_random_errors(random, sizes)), 1)[0]
        notes.append(
            f"Over {sizes[0]:,.0f} to {sizes[-1]:,.0f} kept the frontier's exponent is {nu - found.slope.value:.2f} "
            f"and that of random subsets {nu:.2f}."
        )
    notes.append(_larger_half(students, labels, way))
    bound = found.kept_size[found.limited & (found.keep_fraction < 1)]
    if len(bound):
        notes.append(
            f"At {', '.join(f'{n:,.0f}' for n in bound)} kept the smallest fraction is the best, and limits it."
        )
    return judge_steepness(
        f"{_about(data, labels, way)}: the frontier over fractions falls faster than random subsets.",
        *_frontier_runs(students, labels, way).columns("kept", "keep_fraction", "test_error", "seed"),
        note=" ".join(filter(None, notes)),
    )


def _larger_half(students: FigureTable, labels: str, way: str) -> str:
    """What the larger half of the sizes say: whether the difference goes on, or came from the crossing alone."""
    sizes = students.values("kept")
    upper = FigureTable(row for row in students.rows if row["kept"] >= sorted(sizes)[len(sizes) // 2])
    found = frontier_of(upper, labels, way)
    if found.slope is None:
        return ""
    gain, low, high = -found.slope.value, -found.slope.high, -found.slope.low
    return f"From {found.kept_size[0]:,.0f} on by themselves they are apart by {gain:+.2f} [{low:+.2f}, {high:+.2f}]."


def _judge_arms(data: str, students: FigureTable, labels: str, way: str) -> Claim:
    part = students.where(labels=labels, kept=max(students["kept"]))
    chance, fractions = part.where(strategy=RANDOM), part.where(strategy=way).values("keep_fraction")
    found = {
        share(fraction): better_than(
            np.log(part.where(strategy=way, keep_fraction=fraction)["test_error"] / chance["test_error"]),
            points=len(fractions),
            all_must_hold=False,
        )
        for fraction in fractions
    }
    return judge_points(
        f"{_about(data, labels, way)}: of a large initial set they beat a random set of equal size.",
        found,
        rule="better than",
        effect=_FEWER,
        unit=PERCENT,
        least=1,
        about=f"{part.rows[0]['kept']:,.0f} kept, log of test error relative to random subsets "
        f"({100 * chance['test_error'].mean():.2f} %), by keep_fraction",
    )


def _judge_longer(longer: FigureTable) -> list[Claim]:
    """Whether students that are trained longer err as often; none in tables of earlier versions."""
    if not longer.rows:
        return []
    found = {}
    ways = [(labels, *way) for labels in LABELS for way in ((RANDOM, 1.0), ("hard", _CHECKED))]
    for labels, way, fraction in ways:
        own = longer.where(labels=labels, strategy=way, keep_fraction=fraction)
        logs = [np.log(own.where(times=times)["test_error"]) for times in (1, _LONGER)]
        name = f"{labels} labels, {way}" + (f" {share(fraction)}" if way != RANDOM else "")
        found[name] = equivalent_to(logs[1] - logs[0], _CONVERGED, points=len(ways))
    return [
        judge_points(
            f"(Not of the paper.) Students have converged: with {_LONGER} times the steps they err as often.",
            found,
            rule="equivalent to",
            effect=_CONVERGED,
            unit=PERCENT,
            about=f"{longer.rows[0]['kept']:,.0f} kept, log of test error relative to that of the usual steps",
        )
    ]


def share(fraction: float) -> str:
    """A fraction as people write it: 1/8."""
    return f"1/{1 / fraction:g}"


def draw(table: FigureTable, path: Path) -> None:
    """A panel for both kinds of labels and both ways: test error against the number kept, by fraction."""
    with figure(path, size=(9.6, 8.0), nrows=2, ncols=2, sharex=True, sharey="row") as (_, panels):
        for letter, (labels, way), axes in zip("ABCD", product(LABELS, CUTS), panels.flat, strict=True):
            part = table.where(labels=labels)
            random, pruned = part.where(kind="random"), part.where(kind="pruned", strategy=way)
            style = {"markersize": 4, "linewidth": 1.4}
            percent_bars(axes, random, "kept", "test_error", color=RANDOM_COLOR, label="random", **style)
            for number, fraction in enumerate(pruned.values("keep_fraction")):
                curve = pruned.where(keep_fraction=fraction)
                label = f"hardest of {1 / fraction:g} times as many"
                percent_bars(
                    axes, curve, "kept", "test_error", color=fraction_color(0.85 - 0.25 * number), label=label, **style
                )
            frontier = part.where(kind="frontier", strategy=way)
            draw_frontier(axes, frontier["kept"], frontier["test_error"])
            mark_limits(axes, FigureTable(row for row in frontier.rows if row["limited"] and row["keep_fraction"] < 1))
            log_axes(axes)
            panel_letter(axes, letter, f"{labels} labels, {CUTS[way]}")
        for axes in panels[1]:
            axes.set_xlabel("examples kept")
        for axes in panels[:, 0]:
            axes.set_ylabel("test error, %  (bars: two standard errors)")
        panels[0, 0].legend(fontsize=8)
