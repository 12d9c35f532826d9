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

from paredown.plots import COLORS, RANDOM_COLOR, figure, plain_ticks
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.scaling import DECIDED, scaling_sweep
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.standard_errors import standard_error

NEEDS = {
    "main": {"tiny": ("digits",), "cpu": ("mnist", "fashion_mnist", "digits"), "paper": ("svhn",)},
}
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
        for name, values in at.items():
            gain = values - at["random"]
            table.add(
                "error",
                data=setup.dataset().title,
                probe=name,
                epochs=EPOCHS.get(name, 0),
                initial_size=size,
                keep_fraction=fraction,
                kept=number,
                test_error=values.mean(),
                stderr=standard_error(values),
                difference=gain.mean(),
                difference_stderr=standard_error(gain),
            )
        if fraction < 1:
            gain = at["strong"] - at["weak"]
            table.add(
                "strong minus weak",
                initial_size=size,
                keep_fraction=fraction,
                difference=gain.mean(),
                difference_stderr=standard_error(gain),
            )
    return table


def judge(table: FigureTable) -> list[Claim]:
    """The two probes at the strongest pruning, and where each stops paying."""
    gain = table.where(kind="strong minus weak")
    z = gain["difference"] / gain["difference_stderr"]
    better, worse = int((z <= -DECIDED).sum()), int((z >= DECIDED).sum())
    hardest = min(gain["keep_fraction"])
    at = gain.where(keep_fraction=hardest)
    told = "; ".join(
        f"{100 * row['difference']:+.2f} ± {100 * row['difference_stderr']:.2f} from {row['initial_size']:,.0f}"
        for row in at.rows
    )
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
        f"Difference to random subsets of the same size from {largest:,.0f} examples, points of test error, at "
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
                axes.errorbar(
                    points["kept"],
                    100 * points["test_error"],
                    yerr=200 * np.nan_to_num(points["stderr"]),
                    color=color,
                    marker="o",
                    markersize=4,
                    capsize=2,
                    label=label,
                )
            axes.set(xscale="log", yscale="log", xlabel="examples kept")
            axes.set_title(f"hardest {100 * fraction:g} %", loc="left")
            for axis in (axes.xaxis, axes.yaxis):
                plain_ticks(axis)
        grid[0][0].set_ylabel(f"test error, %, {errors.rows[0]['data']}\n(bars: two standard errors)")
        grid[0][0].legend()
