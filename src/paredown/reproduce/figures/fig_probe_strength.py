"""Appendix figure: pruning by a weak and by a strong probe.

Claims: with a weak probe (4 epochs) more pruning stops helping at some keep_fraction, while a stronger one (40 epochs)
reaches lower errors.

    paredown reproduce fig_probe_strength

Expected: 4 minutes of two cores with MNIST, after those of `fig1d` (`--size paper`: 600 ResNet-18s on SVHN, and 480
probes).
"""

from __future__ import annotations

from pathlib import Path

import numpy as np

from paredown.plots import COLORS, RANDOM_COLOR, figure
from paredown.reproduce.base import Claim, FigureTable, in_points, means
from paredown.reproduce.data_folders import SMALL_IMAGES, by_size
from paredown.reproduce.drawing import log_axes, percent_bars
from paredown.reproduce.scaling import DECIDED, scaling_sweep
from paredown.reproduce.setup import FigurePlan, Setup

NEEDS = {"main": by_size(SMALL_IMAGES, "svhn")}
EPOCHS = {"weak": 4, "strong": 40}


def plan(setup: Setup) -> FigurePlan:
    """Two names for EL2N; at cpu size without the largest set, on which 4 epochs are many steps."""
    config = scaling_sweep(setup, metric=list(EPOCHS))
    if setup.scale != "paper":
        config["grid"]["initial_size"] = config["grid"]["initial_size"][:-1]
    for name, epochs in EPOCHS.items():
        config["probe"][name] = {"metric": "el2n", "epochs": epochs}
    return FigurePlan(sweeps={"probes": config}, datasets=(setup.dataset(),))


def measure(setup: Setup) -> FigureTable:
    """Errors by probe, and what the strong one gains over the weak one, seed by seed."""
    rows = setup.sweep(plan(setup).sweeps["probes"]).table.to_pylist()
    errors = {(r["metric"], r["initial_size"], r["keep_fraction"], r["seed"]): r["test_error"] for r in rows}
    kept = {(r["initial_size"], r["keep_fraction"]): r["kept"] for r in rows}
    seeds = sorted({r["seed"] for r in rows})
    table = FigureTable()
    for (size, fraction), number in sorted(kept.items()):
        names = ("random",) if fraction == 1 else ("random", *EPOCHS)
        at = {name: np.array([errors[name, size, fraction, seed] for seed in seeds]) for name in names}
        where = {"initial_size": size, "keep_fraction": fraction}
        for name, values in at.items():
            probe = {"data": setup.dataset().title, "probe": name, "epochs": EPOCHS.get(name, 0)}
            found = means(test_error=values, difference=values - at["random"])
            table.add("error", **probe, **where, kept=number, **found)
        if fraction < 1:
            table.add("strong minus weak", **where, **means(difference=at["strong"] - at["weak"]))
    return table


def judge(table: FigureTable) -> list[Claim]:
    """The two probes at the strongest pruning, and where each stops paying."""
    gain = table.where(kind="strong minus weak")
    z = gain["difference"] / gain["difference_stderr"]
    better, worse = int((z <= -DECIDED).sum()), int((z >= DECIDED).sum())
    hardest = min(gain["keep_fraction"])
    at = gain.where(keep_fraction=hardest)
    told = "; ".join(f"{in_points(row, 'difference')} from {row['initial_size']:,.0f}" for row in at.rows)
    return [
        Claim.judged(
            "A stronger probe reaches lower errors.",
            better > worse,
            f"{table.rows[0]['data']}: strong minus weak probe, points of test error, at keep_fraction {hardest:g}: "
            f"{told}; of {len(gain)} points {better} are better and {worse} worse by {DECIDED:g} standard errors.",
        ),
        *(_stops(table, probe) for probe in EPOCHS),
    ]


def _stops(table: FigureTable, probe: str) -> Claim:
    """Whether pruning more keeps helping at the largest initial set."""
    largest = max(table["initial_size"])
    rows = sorted(table.where(kind="error", probe=probe, initial_size=largest).rows, key=lambda r: -r["keep_fraction"])
    gains = [row["difference"] for row in rows]
    stops = bool(np.argmin(gains) < len(gains) - 1)
    told = ", ".join(f"{100 * row['difference']:+.2f} at {row['keep_fraction']:g}" for row in rows)
    what = "stops paying at some keep_fraction" if probe == "weak" else "keeps paying"
    return Claim.judged(
        f"With a {probe} probe ({EPOCHS[probe]} epochs) pruning more {what}.",
        stops if probe == "weak" else not stops,
        f"Difference from random subsets of the same size from {largest:,.0f} examples, points of test error, at "
        f"keep_fraction: {told}.",
    )


def draw(table: FigureTable, path: Path) -> None:
    """A panel for each fraction: random, weak and strong against the number kept."""
    errors = table.where(kind="error")
    fractions = [f for f in sorted(errors.values("keep_fraction")) if f < 1]
    colors = {"random": RANDOM_COLOR, "weak": COLORS[3], "strong": COLORS[0]}
    with figure(path, size=(3.9 * len(fractions), 4.0), ncols=len(fractions), sharey=True, squeeze=False) as (_, grid):
        for axes, fraction in zip(grid[0], fractions, strict=True):
            for probe, color in colors.items():
                points = errors.where(probe=probe, keep_fraction=fraction)
                label = probe if probe == "random" else f"{probe} probe, {EPOCHS[probe]} epochs"
                percent_bars(axes, points, "kept", "test_error", color=color, markersize=4, label=label)
            log_axes(axes, xlabel="examples kept")
            axes.set_title(f"hardest {100 * fraction:g} %", loc="left")
        grid[0][0].set_ylabel(f"test error, %, {errors.rows[0]['data']}\n(bars: two standard errors)")
        grid[0][0].legend()
