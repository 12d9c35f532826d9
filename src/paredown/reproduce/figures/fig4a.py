"""Fig. 4A: transfer learning, pruning the data that a pretrained network is fine-tuned on.

Claims: fine-tuning on the hardest 10 % of CIFAR-10 matches or exceeds fine-tuning on all of it; the error falls faster
with the number of examples kept than the power law of random subsets.

    paredown reproduce fig4a

Expected: 3 minutes of two cores with embeddings of CIFAR-10, whose classifier is what is tuned (`--size paper`: 220
trainings of a ViT-B/16 on CIFAR-10, days of a GPU). On frozen embeddings of EfficientNet-Lite0 the hardest 40 % match
everything (13.9 % error), where a random 40 % is 0.8 points worse, but the hardest 10 % are 61 points worse: most of
them are ambiguous. The frontier does not beat the power law.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paredown.errors import PareError
from paredown.laws import PowerLawVerdict, beats_power_law, curve, pareto_frontier
from paredown.plots import RANDOM_COLOR, figure, fraction_color, plain_axis
from paredown.reproduce.base import Claim, FigureTable, in_points, means
from paredown.reproduce.data_folders import SMALL_FEATURES, by_size
from paredown.reproduce.scaling import beats_held
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.reproduce.trained_networks import errors_above_full
from paredown.standard_errors import standard_error

NEEDS = {"main": by_size(SMALL_FEATURES, "cifar10")}
_FRACTIONS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
MATCHED = 0.1  # the keep_fraction of the paper's claim
_WORSE = 2.0  # standard errors from which on a difference counts


def plan(setup: Setup) -> FigurePlan:
    """Subsets of the hardest and random ones, from several initial sizes.

    The paper fine-tunes every subset for 10 epochs. Of a network that ends in a frozen encoder only the classifier is
    trained; it takes the same number of steps on every subset.
    """
    data = setup.dataset()
    shares = setup.choose(tiny=(0.25, 1.0), cpu=(1 / 16, 1 / 4, 1.0), paper=(0.1, 0.2, 0.4, 0.7, 1.0))
    fractions = setup.choose(tiny=(0.1, 0.4, 1.0), cpu=_FRACTIONS, paper=_FRACTIONS)
    config: dict[str, Any] = {
        "data": data.images() if setup.scale == "paper" else data.features(),
        "grid": {
            "initial_size": [round(share * data.examples) for share in shares],
            "keep_fraction": list(fractions),
            "strategy": ["hard"],
            "metric": ["el2n"],
            "balance": [0.0],
            "seed": setup.seeds(setup.choose(tiny=2, cpu=4, paper=4)),
        },
        "student": {"recipe": "mlp", "steps": setup.choose(tiny=60, cpu=1200, paper=None)},
        "probe": {"members": setup.choose(tiny=2, cpu=5, paper=10)},
    }
    if setup.scale == "paper":
        config["grid"]["matched_iterations"] = [0.0]
        config["student"] = {"recipe": "vit"}
        config["probe"]["epochs"] = 2
    return FigurePlan(sweeps={"fine-tuning": config}, datasets=(data,))


def measure(setup: Setup) -> FigureTable:
    """The test error of every network."""
    table = FigureTable()
    for row in setup.sweep(plan(setup).sweeps["fine-tuning"]).table.to_pylist():
        strategy = "full" if row["keep_fraction"] == 1 else row["strategy"]
        columns = {name: row[name] for name in ("initial_size", "keep_fraction", "kept", "seed", "test_error")}
        table.add("network", data=setup.dataset().title, strategy=strategy, **columns)
    return table


def judge(table: FigureTable) -> list[Claim]:
    """Both claims, the second by `paredown.laws.beats_power_law`."""
    largest = table.where(initial_size=max(table["initial_size"]))
    fractions = sorted(f for f in table.values("keep_fraction") if f < 1)
    apart = {
        way: {fraction: errors_above_full(largest, way, fraction) for fraction in fractions}
        for way in ("hard", "random")
    }
    tenth = apart["hard"][MATCHED]
    full = largest.where(strategy="full")
    verdict, sentence = _beats(table)
    return [
        Claim.judged(
            f"Fine-tuning on the hardest {MATCHED:.0%} matches or exceeds fine-tuning on everything.",
            bool(tenth.mean() <= _WORSE * standard_error(tenth)),
            f"{table.rows[0]['data']}: everything ({full['kept'][0]:,.0f}) has a test error of "
            f"{100 * full['test_error'].mean():.2f} %; subsets differ from it, in points, by "
            + "; ".join(
                f"{way}: " + ", ".join(f"{in_points(means(error=e), 'error')} at {f:g}" for f, e in by_fraction.items())
                for way, by_fraction in apart.items()
            )
            + ".",
            difference=float(tenth.mean()),
        ),
        Claim.judged("Pruning the data of fine-tuning beats power law scaling.", beats_held(verdict), sentence),
    ]


def _beats(table: FigureTable) -> tuple[PowerLawVerdict, str]:
    """The verdict on the frontier over fractions against random subsets."""
    pruned = FigureTable(row for row in table.rows if row["strategy"] in ("hard", "full"))
    chance = FigureTable(row for row in table.rows if row["strategy"] in ("random", "full"))
    try:
        frontier = pareto_frontier(pruned["kept"], pruned["keep_fraction"], pruned["test_error"], seed=pruned["seed"])
        found = beats_power_law(frontier.curve, curve(chance["kept"], chance["test_error"]))
    except PareError as error:  # too few points on the frontier
        return PowerLawVerdict.CANNOT_TELL, f"Cannot tell: {error}"
    return found.verdict, found.sentence


def draw(table: FigureTable, path: Path) -> None:
    """Test error against examples kept: a curve for every fraction, random subsets in grey."""
    with figure(path, size=(7.4, 4.8)) as (_, axes):
        chance = [row for row in table.rows if row["strategy"] in ("random", "full")]
        axes.errorbar(*_means(chance), color=RANDOM_COLOR, marker="s", capsize=2, linewidth=2.5, label="random")
        for fraction in sorted(f for f in table.values("keep_fraction") if f < 1):
            rows = table.where(strategy="hard", keep_fraction=fraction).rows
            style = {"color": fraction_color(fraction), "marker": "o", "capsize": 2}
            axes.errorbar(*_means(rows), **style, label=f"hardest {fraction:.0%}")
        largest = max(table["initial_size"])
        everything = 100 * table.where(strategy="full", initial_size=largest)["test_error"].mean()
        axes.axhline(everything, color="black", linewidth=1, linestyle=":")
        axes.text(min(table["kept"]), everything, "all examples", va="top", fontsize=9)
        axes.set(xscale="log", yscale="log", xlabel="examples kept")
        axes.set_ylabel("test error, %  (bars: two standard errors)")
        axes.set_title(f"Fine-tuning on part of {table.rows[0]['data']}", loc="left")
        sizes = (30, 100, 300, 1000, 3000, 10_000, 30_000)
        plain_axis(axes.xaxis, [tick for tick in sizes if tick > min(table["kept"])])
        low, high = 100 * min(table["test_error"]), 100 * max(table["test_error"])
        plain_axis(axes.yaxis, [tick for tick in (1, 2, 5, 10, 15, 20, 30, 50, 80) if low / 1.3 < tick < high * 1.3])
        axes.legend()


def _means(rows: list[dict[str, Any]]) -> tuple[list[float], list[float], list[float]]:
    """Sizes, and errors in per cent with two standard errors."""
    sizes = sorted({row["kept"] for row in rows})
    errors = [100 * np.array([row["test_error"] for row in rows if row["kept"] == size]) for size in sizes]
    spread = [2 * np.nan_to_num(standard_error(e)) for e in errors]
    return sizes, [float(e.mean()) for e in errors], spread
