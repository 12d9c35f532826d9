"""The benchmark of pruning metrics behind Fig. 5, Table 1 and the appendices on classes, scored and trained once.

The paper's ten metrics, EL2N with one model and with twenty, score one training set; students are trained on the
hardest examples by each, with and without the class floor, and on random subsets of the same sizes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from paredown.plots import COLORS, RANDOM_COLOR
from paredown.reproduce.base import FigureTable, means
from paredown.reproduce.data_folders import SMALL_FEATURES, Dataset, by_size
from paredown.reproduce.setup import FigurePlan, Setup, SharedScoring
from paredown.scores import Scores

NEEDS = {"main": by_size(SMALL_FEATURES, "imagenet")}

# Name in tables -> as the paper writes it.
METRIC_TITLES = {
    "random": "random",
    "influence_max": "influence max",
    "influence_sum_abs": "influence sum-abs",
    "el2n_1": "EL2N (1 model)",
    "el2n_20": "EL2N (20 models)",
    "ddd": "DDD",
    "active_learning": "active learning",
    "forgetting": "forgetting",
    "memorization": "memorization",
    "supervised_prototypes": "supervised prototypes",
    "prototypes": "self-supervised prototypes",
}
COMPARED_METRICS = tuple(name for name in METRIC_TITLES if name != "random")
PROTOTYPES = ("memorization", "supervised_prototypes", "prototypes")  # panel C; panel B has the others
SUPERVISED = tuple(name for name in COMPARED_METRICS if name not in PROTOTYPES)
PAPER_FRACTIONS = (0.9, 0.8, 0.7, 0.6)
FLOOR = 0.5
LIMIT = {"tiny": 600, "cpu": 10_000, "paper": None}


def training_set(setup: Setup, whole: Dataset | None = None) -> Dataset:
    """What is scored and pruned: the figure's data set, or the one given, of which `cpu` takes 10,000 examples."""
    whole, limit = whole or setup.dataset(), LIMIT[setup.scale]
    return whole if limit is None or limit >= whole.examples else replace(whole, limit=limit)


def _data(setup: Setup, dataset: Dataset) -> dict[str, str]:
    """`[data]` of everything here: images with SwAV's embeddings as in the paper, otherwise vectors."""
    return dataset.images("swav") if setup.scale == "paper" else dataset.features()


def scorings(setup: Setup, whole: Dataset | None = None) -> dict[str, SharedScoring]:
    """How the set is scored. Metrics that train stand together where they share their networks.

    The paper takes published scores for some metrics. Memorization and influence are from 2,000 networks on 70 % of
    ImageNet (Feldman and Zhang 2020); for forgetting and active learning no number is given, here it is EL2N's.
    """
    dataset = training_set(setup, whole)
    data = _data(setup, dataset)
    probes: dict[str, Any] = setup.choose(
        tiny={"recipe": "mlp", "threads": 1, "epochs": 6},
        cpu={"recipe": "mlp", "threads": 1},
        paper={"recipe": "resnet50"},
    )
    ensemble = setup.choose(tiny=3, cpu=20, paper=20)
    kinds = setup.choose(tiny=2, cpu=10, paper=10)
    models = setup.choose(tiny=14, cpu=120, paper=2000)
    members: Mapping[str, tuple[tuple[str, ...], int]] = {
        "one probe": (("el2n",), 1),
        "ensemble": (("el2n", "active_learning", "forgetting"), ensemble),
        "diverse ensemble": (("ddd",), kinds),
        "subsets": (("memorization", "influence_max", "influence_sum_abs"), models),
    }
    plain = SharedScoring(data, ("random", "prototypes", "supervised_prototypes"), {"k": dataset.classes})
    trained = {name: SharedScoring(data, metrics, {**probes, "members": n}) for name, (metrics, n) in members.items()}
    return {"prototypes": plain, **trained}


def _places(setup: Setup) -> dict[str, tuple[SharedScoring, str]]:
    """For every name of `METRIC_TITLES`, the scoring it is in and its column there."""
    found = {}
    for name, scoring in scorings(setup).items():
        for metric in scoring.metrics:
            found[{"one probe": "el2n_1"}.get(name, {"el2n": "el2n_20"}.get(metric, metric))] = (scoring, metric)
    return {name: found[name] for name in METRIC_TITLES}


def score_benchmark(setup: Setup) -> dict[str, Scores]:
    """The scores by every name of `METRIC_TITLES`, random first."""
    return {name: setup.score(scoring)[metric] for name, (scoring, metric) in _places(setup).items()}


def benchmark_sweep(setup: Setup, *, balance: Sequence[float] = (), fractions: Sequence[float] = ()) -> dict[str, Any]:
    """The sweep over metrics and fractions that figures share; each asks for the floors and fractions it shows.

    A subset is trained for as many epochs as the whole, so for fewer steps, as in the paper's main ImageNet figures.
    """
    fractions = fractions or setup.choose(tiny=(0.8, 0.6), cpu=(*PAPER_FRACTIONS, 0.4, 0.2), paper=PAPER_FRACTIONS)
    probes = {
        name: {"metric": metric, "scores": str(setup.scores_file(scoring))}
        for name, (scoring, metric) in _places(setup).items()
        if name != "random"
    }
    data = training_set(setup)
    return {
        "data": _data(setup, data),
        "grid": {
            "initial_size": [data.examples],
            "keep_fraction": [1.0, *fractions],
            "strategy": ["hard"],
            "metric": list(COMPARED_METRICS),
            "balance": list(balance or (FLOOR,)),
            "matched_iterations": [0.0],
            "seed": setup.seeds(setup.choose(tiny=2, cpu=5, paper=5)),
        },
        "student": {"recipe": "resnet50" if setup.scale == "paper" else "mlp"},
        "probe": probes,
    }


def plan_scores(setup: Setup) -> FigurePlan:
    """Scores alone: nothing is trained on pruned sets."""
    return FigurePlan(scorings=scorings(setup), datasets=(training_set(setup),))


def plan_students(setup: Setup, *, balance: Sequence[float] = (), fractions: Sequence[float] = ()) -> FigurePlan:
    """Students on the hardest examples by each metric; every class keeps half its share if no floor is given."""
    sweep = benchmark_sweep(setup, balance=balance, fractions=fractions)
    return replace(plan_scores(setup), sweeps={"students": sweep})


def train_students(setup: Setup, plan: FigurePlan) -> tuple[pa.Table, FigureTable]:
    """What came of the students of a plan, and a table that begins with what they were trained on."""
    score_benchmark(setup)
    swept = setup.sweep(plan.sweeps["students"]).table
    table = FigureTable()
    table.add("data", data=setup.dataset().title, examples=max(swept["initial_size"].to_pylist()))
    return swept, table


def name_data(table: FigureTable) -> str:
    """How many examples of which data set, for a sentence."""
    row = table.where(kind="data").rows[0]
    return f"{row['examples']:,.0f} examples ({row['data']})"


def name_metrics(names: Iterable[str]) -> str:
    """Metrics as the paper writes them, for a sentence."""
    return ", ".join(METRIC_TITLES[name] for name in names) or "none"


def top(setup: Setup) -> int:
    """Among how many guesses the right one must be: five with ImageNet's 1,000 classes."""
    return setup.choose(tiny=1, cpu=1, paper=5)


Key = tuple[str, float, float]  # metric, keep_fraction, balance


def accuracies(table: pa.Table, top: int) -> dict[Key, NDArray[np.float64]]:
    """Test accuracy by metric, keep_fraction and floor, in the order of the seeds, so that differences are paired."""
    error = {1: "test_error", 5: "top5_error"}[top]
    found: dict[Key, dict[int, float]] = {}
    for row in table.to_pylist():
        key = (row["metric"], row["keep_fraction"], row["balance"])
        found.setdefault(key, {})[row["seed"]] = 1 - row[error]
    return {key: np.array([values[seed] for seed in sorted(values)]) for key, values in found.items()}


def class_accuracies(table: pa.Table, metric: str, keep_fraction: float, balance: float) -> NDArray[np.float64]:
    """Accuracy class by class, (seeds, classes), in the order of the seeds."""
    wanted = {"metric": metric, "keep_fraction": keep_fraction, "balance": balance}
    rows = [row for row in table.to_pylist() if all(row[name] == value for name, value in wanted.items())]
    return np.array([row["class_accuracy"] for row in sorted(rows, key=lambda row: row["seed"])])


def add_accuracies(table: FigureTable, swept: pa.Table, *, top: int, balance: float) -> None:
    """Rows of Table 1: `full`, `random` and `metric` by fraction, and `mean` over the paper's fractions.

    `difference` is to random and `full_difference` to the whole set, both taken seed by seed.
    """
    measured = accuracies(swept, top)
    full = measured["random", 1.0, 0.0]
    table.add("full", top=top, seeds=len(full), **means(accuracy=full), deviation=deviation(full), keep_fraction=1.0)
    fractions = sorted({fraction for _, fraction, _ in measured if fraction < 1}, reverse=True)
    for fraction in fractions:
        chance = means(accuracy=measured["random", fraction, 0.0])
        table.add("random", metric="random", keep_fraction=fraction, **chance)
    for metric in COMPARED_METRICS:
        gains = []
        for fraction in fractions:
            pruned, chance = measured[metric, fraction, balance], measured["random", fraction, 0.0]
            found = means(accuracy=pruned, difference=pruned - chance, full_difference=pruned - full)
            table.add("metric", metric=metric, keep_fraction=fraction, balance=balance, **found)
            if fraction in PAPER_FRACTIONS:
                gains.append(pruned - chance)
        table.add("mean", metric=metric, balance=balance, **means(difference=np.mean(gains, axis=0)))


def deviation(values: NDArray[np.float64]) -> float:
    """The standard deviation of one training; NaN where there was only one."""
    return float(values.std(ddof=1)) if len(values) > 1 else math.nan


def metric_style(metric: str) -> dict[str, Any]:
    """The colour and line of a metric, the same in every figure."""
    if metric == "random":
        return {"color": RANDOM_COLOR, "linestyle": "-"}
    group, shift = (PROTOTYPES, 2) if metric in PROTOTYPES else (SUPERVISED, 0)
    number = group.index(metric)
    return {"color": (*COLORS, "#6A3D9A")[(number + shift) % 7], "linestyle": "-", "marker": "osD^vP*X"[number]}
