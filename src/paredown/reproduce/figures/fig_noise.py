"""Beyond the paper: when not to keep the hardest. Wrong labels are hard, and keep-hard keeps them.

Claims: none of the paper's; it curates its data. Here labels are replaced by other classes, and both ends of EL2N are
compared with random subsets.

    paredown reproduce fig_noise

Expected: 3 minutes of two cores with MNIST, after those of `fig1d` (`--size paper`: 84 ResNet-18s on CIFAR-10). With
clean labels the hardest quarter wins; with 5 % of them wrong it loses by 4 points, and with 20 % it is useless. The
easiest do not win either.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from paredown.laws import ClaimVerdict, above, better_than
from paredown.plots import COLORS, RANDOM_COLOR, figure
from paredown.reproduce.base import Claim, FigureTable, pick
from paredown.reproduce.data_folders import SMALL_IMAGES, by_size
from paredown.reproduce.drawing import percent_bars, points_axis
from paredown.reproduce.judging import judge_points, seeds_of
from paredown.reproduce.scaling import scaling_sweep
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.sweeps.pruning_verdicts import PruningVerdict
from paredown.sweeps.summary import advice, compare_with_random

NEEDS = {"main": by_size(SMALL_IMAGES, "cifar10")}
_COLUMNS = ("strategy", "keep_fraction", "test_error", "random_error", "difference", "difference_stderr", "z")
_GAIN = 0.005  # of test error, that keeping the hardest of clean data is worth
_LOSS = 0.01  # that it costs with wrong labels
_WARNED = 0.02  # the cost that a sweep should warn of
_ENDS = ("hard", "easy")
NOISE = (0.0, 0.05, 0.2)


def plan(setup: Setup) -> FigurePlan:
    """A sweep for every share of wrong labels, at the largest initial set."""
    sweeps = {}
    for noise in NOISE if setup.scale != "tiny" else (0.0, 0.2):
        config = scaling_sweep(setup, strategy=list(_ENDS), keep_fraction=[0.25, 0.5, 1.0])
        config["grid"]["initial_size"] = config["grid"]["initial_size"][-1:]
        if noise:
            config["data"] = {**config["data"], "label_noise": noise}
        sweeps[f"{noise:g}"] = config
    return FigurePlan(sweeps=sweeps, datasets=(setup.dataset(),))


def measure(setup: Setup) -> FigureTable:
    """Both ends against random subsets, and what `paredown sweep` says to each."""
    table = FigureTable()
    for noise, config in plan(setup).sweeps.items():
        results = setup.sweep(config).table
        for row in compare_with_random(results):
            table.add("difference", data=setup.dataset().title, label_noise=float(noise), **pick(row, *_COLUMNS))
            way = {"label_noise": float(noise), **pick(row, "strategy", "keep_fraction")}
            table.add_seeds("seed", **way, columns={"difference": row.seed_differences})
        for each in advice(results):
            verdict = each.verdict.value
            table.add("advice", label_noise=float(noise), strategy=each.strategy, verdict=verdict, sentence=str(each))
    return table


def judge(table: FigureTable) -> list[Claim]:
    """The hard end with clean and with wrong labels, seed by seed, and the words of the sweep."""
    hard = table.where(kind="seed", strategy="hard")
    data, worst, fractions = table.rows[0]["data"], max(hard["label_noise"]), hard.values("keep_fraction")
    points = len(fractions)

    def at(noise: float) -> dict[str, Any]:
        return {f"{f:g}": seeds_of(hard, "difference", label_noise=noise, keep_fraction=f) for f in fractions}

    about = f"{data}, test error of the hardest minus that of random subsets, by keep_fraction"
    return [
        judge_points(
            "(Not of the paper.) With clean labels, keeping the hardest does better than random subsets.",
            {f: better_than(values, points=points, all_must_hold=False) for f, values in at(0.0).items()},
            rule="better than",
            effect=_GAIN,
            least=1,
            about=about,
            counted_in="fig1d",
        ),
        judge_points(
            f"(Not of the paper.) With {worst:.0%} wrong labels, keeping the hardest does worse than random subsets.",
            {f: above(values, 0.0, points=points) for f, values in at(worst).items()},
            rule="worse than",
            effect=_LOSS,
            about=about,
        ),
        _judge_advice(table, at(worst), worst),
    ]


def _judge_advice(table: FigureTable, worst: dict[str, Any], noise: float) -> Claim:
    """What `paredown sweep` says: two-sided p-values of Student's t, corrected for all its comparisons."""
    advised = table.where(kind="advice", label_noise=noise)
    said = advised.where(strategy="hard")["verdict"].tolist()
    compared = sum(len(table.where(kind="seed", label_noise=noise, strategy=s).values("keep_fraction")) for s in _ENDS)
    each: dict[str, Any] = {"points": 2 * compared, "all_must_hold": False}
    claim = judge_points(
        "(Not of the paper.) The sweep says so.",
        {f: above(values, 0.0, **each) for f, values in worst.items()},
        rule="worse than, as the sweep's advice judges",
        effect=_WARNED,
        least=1,
        about="test error of the hardest minus that of random subsets, by keep_fraction",
        note=f"With {noise:.0%} wrong labels `paredown sweep` says: {' '.join(advised['sentence']) or 'nothing'}",
        advice=advised["sentence"].tolist(),
    )
    if any(word in (PruningVerdict.HURTS.value, PruningVerdict.HURTS_IN_PART.value) for word in said):
        return claim
    silent = PruningVerdict.PAYS.value not in said
    return replace(claim, verdict=ClaimVerdict.CANNOT_TELL if silent else ClaimVerdict.CONTRADICTED)


def draw(table: FigureTable, path: Path) -> None:
    """Differences to random subsets against the share of wrong labels; below zero pruning helped."""
    rows = table.where(kind="difference")
    fractions = sorted(rows.values("keep_fraction"))
    with figure(path, size=(9.6, 4.0), ncols=len(fractions), sharey=True) as (_, panels):
        for axes, fraction in zip(panels, fractions, strict=True):
            axes.axhline(0, color=RANDOM_COLOR, linewidth=1.5)
            for strategy, color in (("hard", COLORS[2]), ("easy", COLORS[0])):
                part = rows.where(strategy=strategy, keep_fraction=fraction)
                label = {"hard": "keep the hardest", "easy": "keep the easiest"}[strategy]
                percent_bars(axes, part, 100 * part["label_noise"], "difference", color=color, label=label)
            points_axis(axes, [-5, -2, -1, 0, 1, 2, 5, 10, 20, 50])
            axes.set(xlabel="labels replaced, %")
            axes.set_title(f"keep_fraction {fraction:g}", loc="left")
        panels[0].set_ylabel("test error, pruned − random, in points\n(bars: two standard errors)")
        panels[0].legend()
