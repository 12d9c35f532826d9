"""Fig. 4A: transfer learning, pruning the data that a pretrained network is fine-tuned on.

Claims: fine-tuning on the hardest 10 % of CIFAR-10 matches or exceeds fine-tuning on all of it; the error falls faster
with the number of examples kept than the power law of random subsets.

    paredown reproduce fig4a

Expected: 3 minutes of two cores with embeddings of CIFAR-10, whose classifier is what is tuned (`--size paper`: 220
trainings of a ViT-B/16 on CIFAR-10, days of a GPU). On frozen embeddings of EfficientNet-Lite0 the hardest 40 % match
everything (13.9 % error), where a random 40 % is 0.8 points worse, but the hardest 10 % are 61 points worse: most of
them are ambiguous. The runs do not decide whether the frontier falls faster than random subsets.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paredown.laws import no_worse_than, pareto_frontier
from paredown.plots import RANDOM_COLOR, figure, fraction_color, plain_axis
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.data_folders import SMALL_FEATURES, SMALL_TAUGHT, Dataset, by_size
from paredown.reproduce.drawing import draw_frontier, mark_limits
from paredown.reproduce.judging import judge_points
from paredown.reproduce.scaling import bound_points, judge_steepness, merge_sizes
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.reproduce.trained_networks import errors_above_full
from paredown.standard_errors import standard_error

NEEDS = {"main": by_size(SMALL_FEATURES, "cifar10"), "teacher": SMALL_TAUGHT}
_FRACTIONS = (0.05, 0.1, 0.2, 0.4, 0.7, 1.0)
MATCHED = 0.1  # the keep_fraction of the paper's claim
_MARGIN = 0.005  # of test error, up to which fine-tuning on less costs nothing


def plan(setup: Setup) -> FigurePlan:
    """Subsets of the hardest and random ones, from several initial sizes.

    The paper fine-tunes every subset for 10 epochs. Of a network that ends in a frozen encoder only the classifier is
    trained; it takes the same number of steps on every subset.
    """
    datasets = {role: setup.dataset(role) for role in setup.needs}
    return FigurePlan(
        sweeps={role: _fine_tuning(setup, data) for role, data in datasets.items()}, datasets=tuple(datasets.values())
    )


def _fine_tuning(setup: Setup, data: Dataset) -> dict[str, Any]:
    # At cpu, sizes kept coincide for several fractions, so that the best of them is known at each size.
    shares = setup.choose(tiny=(0.25, 1.0), cpu=(1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0), paper=(0.1, 0.2, 0.4, 0.7, 1.0))
    fractions = setup.choose(tiny=(0.1, 0.4, 1.0), cpu=(0.05, 0.1, 0.2, 0.4, 0.8, 1.0), paper=_FRACTIONS)
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
    return config


def measure(setup: Setup) -> FigureTable:
    """The test error of every network."""
    table = FigureTable()
    for role, config in plan(setup).sweeps.items():
        for row in setup.sweep(config).table.to_pylist():
            strategy = "full" if row["keep_fraction"] == 1 else row["strategy"]
            columns = {name: row[name] for name in ("initial_size", "keep_fraction", "kept", "seed", "test_error")}
            table.add("network", data=setup.dataset(role).title, strategy=strategy, **columns)
    return table


def judge(table: FigureTable) -> list[Claim]:
    """Both claims for every data set."""
    return [claim for data in table.values("data") for claim in judge_arm(table.where(data=data), data)]


def judge_arm(part: FigureTable, about: str) -> list[Claim]:
    """The hardest tenth against everything, and the slope of the frontier."""
    largest = part.where(initial_size=max(part["initial_size"]))
    tenth = errors_above_full(largest, "hard", MATCHED)
    full = largest.where(strategy="full")
    beside = ", ".join(
        f"{f:g} {100 * errors_above_full(largest, 'hard', f).mean():+.2f} (random "
        f"{100 * errors_above_full(largest, 'random', f).mean():+.2f})"
        for f in sorted(f for f in part.values("keep_fraction") if f < 1)
    )
    return [
        judge_points(
            f"{about}: fine-tuning on the hardest {MATCHED:.0%} matches or exceeds fine-tuning on everything.",
            {f"{MATCHED:g}": no_worse_than(tenth, _MARGIN)},
            rule="no worse than",
            effect=_MARGIN,
            about=f"test error minus that of everything ({full['kept'][0]:,.0f})",
            note=f"By keep_fraction, in points: {beside}.",
            difference=float(tenth.mean()),
        ),
        judge_steepness(
            f"{about}: pruning the data of fine-tuning beats the power law of random subsets.",
            *_as_runs(part),
        ),
    ]


def _as_runs(part: FigureTable) -> tuple[Any, Any, Any, Any]:
    """Columns for `judge_steepness`; random subsets of one size and seed are averaged."""
    random = [row for row in part.rows if row["strategy"] in ("random", "full")]
    pruned = [row for row in part.rows if row["strategy"] == "hard"]
    kept = dict(
        zip((id(row) for row in (*pruned, *random)), merge_sizes([r["kept"] for r in (*pruned, *random)]), strict=True)
    )
    chance: dict[tuple[int, int], list[float]] = {}
    for row in random:
        chance.setdefault((int(kept[id(row)]), int(row["seed"])), []).append(row["test_error"])
    rows = [(int(kept[id(r)]), r["keep_fraction"], r["test_error"], int(r["seed"])) for r in pruned]
    rows += [(size, 1.0, float(np.mean(errors)), seed) for (size, seed), errors in chance.items()]
    size, fraction, error, seed = (np.array(column) for column in zip(*rows, strict=True))
    return size, fraction, error, seed


def frontier_of(part: FigureTable) -> FigureTable:
    """The runs of one data set and the frontier over fractions, as the figures on scaling have them."""
    kept, fraction, error, seed = _as_runs(part)
    found = pareto_frontier(kept, fraction, error, seed=seed)
    table = FigureTable()
    table.add("run", kept=kept, keep_fraction=fraction, test_error=error, seed=seed)
    table.add("frontier", kept=found.kept_size, keep_fraction=found.keep_fraction, test_error=found.error)
    return table


def draw(table: FigureTable, path: Path) -> None:
    """A panel for each data set."""
    titles = table.values("data")
    with figure(path, size=(6.6 * len(titles), 4.8), ncols=len(titles), squeeze=False) as (_, panels):
        for axes, title in zip(panels[0], titles, strict=True):
            _draw_panel(axes, table.where(data=title))


def _draw_panel(axes: Any, table: FigureTable) -> None:
    """Test error against examples kept: a curve for every fraction, random subsets in grey, the frontier in red.

    Rings are where the initial set limits the frontier: no smaller fraction was tried there.
    """
    chance = [row for row in table.rows if row["strategy"] in ("random", "full")]
    axes.errorbar(*_means(chance), color=RANDOM_COLOR, marker="s", capsize=2, linewidth=2.5, label="random")
    for fraction in sorted(f for f in table.values("keep_fraction") if f < 1):
        rows = table.where(strategy="hard", keep_fraction=fraction).rows
        style = {"color": fraction_color(fraction), "marker": "o", "capsize": 2}
        axes.errorbar(*_means(rows), **style, label=f"hardest {fraction:.0%}")
    scaling = frontier_of(table)
    frontier = scaling.where(kind="frontier")
    draw_frontier(axes, frontier["kept"], frontier["test_error"])
    mark_limits(axes, bound_points(scaling))
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
