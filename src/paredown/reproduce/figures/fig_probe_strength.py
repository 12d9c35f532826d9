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
from numpy.typing import NDArray

from paredown.laws import above, better_than
from paredown.plots import COLORS, RANDOM_COLOR, figure
from paredown.reproduce.base import Claim, FigureTable, means
from paredown.reproduce.data_folders import SMALL_IMAGES, by_size
from paredown.reproduce.drawing import log_axes, percent_bars
from paredown.reproduce.judging import PERCENT, judge_points, mean_over, seeds_of
from paredown.reproduce.scaling import scaling_sweep
from paredown.reproduce.setup import FigurePlan, Setup

NEEDS = {"main": by_size(SMALL_IMAGES, "svhn")}
_STRONGER = 0.15  # of log error on average, that "reaches lower errors" is about
_TURNS = 0.3  # of log error, that an error must rise by before pruning more is said to stop paying
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
            relative = {"log_ratio": np.log(values / at["random"])}
            table.add_seeds("seed", probe=name, **where, columns=relative)
        if fraction < 1:
            table.add("strong minus weak", **where, **means(difference=at["strong"] - at["weak"]))
    return table


def judge(table: FigureTable) -> list[Claim]:
    """The two probes over all points, and whether the strongest pruning still pays with each, seed by seed."""
    seeds = table.where(kind="seed")
    data, largest = table.rows[0]["data"], max(seeds["initial_size"])
    points = {(row["initial_size"], row["keep_fraction"]) for row in seeds.rows if row["keep_fraction"] < 1}
    errors = {
        probe: mean_over(
            [seeds_of(seeds, "log_ratio", probe=probe, initial_size=n, keep_fraction=f) for n, f in points]
        )
        for probe in EPOCHS
    }
    smallest, next_to_it = sorted({fraction for _, fraction in points})[:2]

    def turns(probe: str) -> NDArray[np.float64]:
        where = {"probe": probe, "initial_size": largest}
        less, more = (seeds_of(seeds, "log_ratio", keep_fraction=f, **where) for f in (smallest, next_to_it))
        return less - more

    about = (
        f"from {largest:,.0f} examples, error relative to random subsets, keep_fraction {smallest:g} against "
        f"{next_to_it:g}"
    )
    return [
        judge_points(
            "A stronger probe reaches lower errors.",
            {"strong / weak": better_than(errors["strong"] - errors["weak"])},
            rule="better than",
            effect=_STRONGER,
            unit=PERCENT,
            about=f"{data}, error with the strong probe relative to the weak one, mean over {len(points)} points",
        ),
        judge_points(
            f"With a weak probe ({EPOCHS['weak']} epochs) pruning more stops paying at some keep_fraction.",
            {"weak": above(turns("weak"), 0.0)},
            rule="above",
            effect=_TURNS,
            unit=PERCENT,
            about=about,
        ),
        judge_points(
            f"With a strong probe ({EPOCHS['strong']} epochs) pruning more keeps paying.",
            {"strong": better_than(turns("strong"))},
            rule="better than",
            effect=_TURNS,
            unit=PERCENT,
            about=about,
        ),
    ]


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
