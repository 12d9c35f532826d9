"""Beyond the paper: when not to keep the hardest. Wrong labels are hard, and keep-hard keeps them.

Claims: none of the paper's; it curates its data. Here labels are replaced by other classes, and both ends of EL2N are
compared with random subsets.

    paredown reproduce fig_noise

Expected: 3 minutes of two cores with MNIST, after those of `fig1d` (`--size paper`: 84 ResNet-18s on CIFAR-10). With
clean labels the hardest quarter wins; with 5 % of them wrong it loses by 4 points, and with 20 % it is useless. The
easiest do not win either.
"""

from __future__ import annotations

from pathlib import Path

from paredown.plots import COLORS, RANDOM_COLOR, figure
from paredown.reproduce.base import Claim, FigureTable, pick
from paredown.reproduce.data_folders import SMALL_IMAGES, by_size
from paredown.reproduce.drawing import percent_bars, points_axis
from paredown.reproduce.scaling import DECIDED, scaling_sweep
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.sweeps.pruning_verdicts import PruningVerdict
from paredown.sweeps.summary import advice, compare_with_random

NEEDS = {"main": by_size(SMALL_IMAGES, "cifar10")}
_COLUMNS = ("strategy", "keep_fraction", "test_error", "random_error", "difference", "difference_stderr", "z")
NOISE = (0.0, 0.05, 0.2)


def plan(setup: Setup) -> FigurePlan:
    """A sweep for every share of wrong labels, at the largest initial set."""
    sweeps = {}
    for noise in NOISE if setup.scale != "tiny" else (0.0, 0.2):
        config = scaling_sweep(setup, strategy=["hard", "easy"], keep_fraction=[0.25, 0.5, 1.0])
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
        for each in advice(results):
            verdict = each.verdict.value
            table.add("advice", label_noise=float(noise), strategy=each.strategy, verdict=verdict, sentence=str(each))
    return table


def judge(table: FigureTable) -> list[Claim]:
    """The hard end with clean and with wrong labels."""
    rows = table.where(kind="difference")
    worst = max(rows["label_noise"])
    hard = rows.where(strategy="hard")
    clean, noisy = (hard.where(label_noise=share) for share in (0.0, worst))
    advised = table.where(kind="advice", label_noise=worst)

    def told(part: FigureTable) -> str:
        return ", ".join(
            f"{100 * row['difference']:+.2f} (z {row['z']:+.1f}) at {row['keep_fraction']:g}" for row in part.rows
        )

    return [
        Claim.judged(
            "(Not of the paper.) With wrong labels, keeping the hardest does worse than random subsets where it does "
            "better with clean ones.",
            bool((noisy["z"] >= DECIDED).all() and (clean["z"] < DECIDED).any()),
            f"{rows.rows[0]['data']}: hard minus random, points of test error, at keep_fraction: clean labels "
            f"{told(clean)}; {worst:.0%} wrong {told(noisy)}.",
        ),
        Claim.judged(
            "(Not of the paper.) The sweep says so.",
            len(advised.where(strategy="hard", verdict=PruningVerdict.HURTS.value)) > 0,
            f"With {worst:.0%} wrong labels `paredown sweep` says: {' '.join(advised['sentence']) or 'nothing'}",
            advice=advised["sentence"].tolist(),
        ),
    ]


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
