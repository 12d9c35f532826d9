"""The benchmark of pruning metrics behind Fig. 5, Table 1 and the appendices on classes, scored and trained once.

The paper's ten metrics, EL2N with one model and with twenty, score one training set; students are trained on the
hardest examples by each, with and without the class floor, and on random subsets of the same sizes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from paredown.metrics.reliability import NOISY
from paredown.plots import COLORS, RANDOM_COLOR
from paredown.reproduce.base import FigureTable, means
from paredown.reproduce.data_folders import SMALL_FEATURES, TAILED, Dataset, by_size
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
MIXED = "ddd_mixed"  # DDD whose members are of several families; scored for `fig5a` alone
TITLES = {**METRIC_TITLES, MIXED: "DDD (mixed families)"}
PROTOTYPES = ("memorization", "supervised_prototypes", "prototypes")  # panel C; panel B has the others
SUPERVISED = tuple(name for name in COMPARED_METRICS if name not in PROTOTYPES)
PAPER_FRACTIONS = (0.9, 0.8, 0.7, 0.6)
FLOOR = 0.5
PARTS = 10  # of the examples, for claims about scores that were made once
_SEEDS = 6  # of students at `cpu`
MEMORIZATION_NETWORKS = 2000  # behind memorization of ImageNet (Feldman and Zhang 2020)
_INFLUENCES = ("influence_max", "influence_sum_abs")
LIMIT = {"tiny": 600, "cpu": 10_000, "paper": None}


def training_set(setup: Setup, whole: Dataset | None = None) -> Dataset:
    """What is scored and pruned: the figure's data set, or the one given, of which `cpu` takes 10,000 examples."""
    whole, limit = whole or setup.dataset(), LIMIT[setup.scale]
    return whole if limit is None or limit >= whole.examples else replace(whole, limit=limit)


def _data(setup: Setup, dataset: Dataset) -> dict[str, str]:
    """`[data]` of everything here: images with SwAV's embeddings as in the paper, otherwise vectors."""
    return dataset.images("swav") if setup.scale == "paper" else dataset.features()


def scorings(setup: Setup, whole: Dataset | None = None, repeat: int = 0) -> dict[str, SharedScoring]:
    """How the set is scored. Metrics that train stand together where they share their networks.

    The paper takes published scores for some metrics. Memorization and influence are from 2,000 networks on 70 % of
    ImageNet (Feldman and Zhang 2020); for forgetting and active learning no number is given, here it is EL2N's. With
    the networks of two cores influence is noise, and comes in closed form from a linear classifier; active learning is
    how much networks disagree that did not train on the example: those that did repeat what they were told.

    Args:
        setup: of the figure.
        whole: the data set; that of the figure by default.
        repeat: which of the drawings of networks and clusters, see `repeats`.
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
    models = setup.choose(tiny=14, cpu=80, paper=MEMORIZATION_NETWORKS)
    trained: dict[str, tuple[tuple[str, ...], dict[str, Any]]] = {
        "one probe": (("el2n",), {"members": 1}),
        "diverse ensemble": (("ddd",), {"members": kinds}),
    }
    if setup.scale == "paper":
        trained["ensemble"] = (("el2n", "active_learning", "forgetting"), {"members": ensemble})
        trained["subsets"] = (("memorization", *_INFLUENCES), {"members": models})
    else:
        trained["ensemble"] = (("el2n", "forgetting"), {"members": ensemble})
        trained["held out"] = (("variation_ratio",), {"members": setup.choose(tiny=10, cpu=40, paper=0)})
        trained["subsets"] = (("memorization",), {"members": models})
        trained["leave one out"] = (_INFLUENCES, {"closed_form": True})
    options = {"prototypes": {"k": dataset.classes}}
    options |= {name: ({} if "closed_form" in own else probes) | own for name, (_, own) in trained.items()}
    metrics = {"prototypes": ("random", "prototypes", "supervised_prototypes")}
    metrics |= {name: names for name, (names, _) in trained.items()}
    return {name: SharedScoring(data, metrics[name], options[name], repeat) for name in metrics}


def mixed_scoring(setup: Setup, repeat: int = 0) -> SharedScoring | None:
    """DDD of perceptrons, class means, a discriminant and nearest neighbours; of images, at `paper`, there is none."""
    if setup.scale == "paper":
        return None
    alone = scorings(setup, None, repeat)["diverse ensemble"]
    options = {**alone.options, "members": setup.choose(tiny=4, cpu=6, paper=0), "mixed": True}
    return SharedScoring(alone.data, ("ddd",), options, repeat)


def repeats(setup: Setup, whole: Dataset | None = None) -> list[int]:
    """The scorings behind the students: one for each of their seeds, so that luck in scoring counts as well.

    With eight metrics in a claim, three scorings have a power far below 0.8 at half a point of accuracy, and six have
    it. The claim on students of a long-tailed set has one point only, for which three are enough. The paper scored
    once.
    """
    tailed = whole is not None and whole.variant == TAILED
    return list(range(setup.choose(tiny=1, cpu=_SEEDS // 2 if tailed else _SEEDS, paper=1)))


def over_scorings(table: FigureTable, values: NDArray[np.float64]) -> NDArray[np.float64]:
    """One number per seed, averaged over the seeds that share a scoring where there are several scorings."""
    scored = table.where(kind="data").rows[0].get("scorings", 1)
    scored = int(scored) if np.isfinite(scored) else 1
    return values if scored < 3 else np.array([values[first::scored].mean() for first in range(scored)])


def _places(setup: Setup, whole: Dataset | None = None, repeat: int = 0) -> dict[str, tuple[SharedScoring, str]]:
    """For every name of `METRIC_TITLES`, the scoring it is in and its column there."""
    found = {}
    for name, scoring in scorings(setup, whole, repeat).items():
        for metric in scoring.metrics:
            title = {"el2n": "el2n_1" if name == "one probe" else "el2n_20", "variation_ratio": "active_learning"}
            found[title.get(metric, metric)] = (scoring, metric)
    return {name: found[name] for name in METRIC_TITLES}


def score_benchmark(setup: Setup, whole: Dataset | None = None, repeat: int = 0) -> dict[str, Scores]:
    """The scores by every name of `METRIC_TITLES`, random first."""
    return {name: setup.score(scoring)[metric] for name, (scoring, metric) in _places(setup, whole, repeat).items()}


def benchmark_sweep(
    setup: Setup,
    *,
    balance: Sequence[float] = (),
    fractions: Sequence[float] = (),
    whole: Dataset | None = None,
    repeat: int | None = None,
) -> dict[str, Any]:
    """The sweep over metrics and fractions that figures share; each asks for the floors and fractions it shows.

    It has all seeds with the first scoring, or those that belong to one of several scorings.

    A subset is trained for as many epochs as the whole, so for fewer steps, as in the paper's main ImageNet figures.
    """
    fractions = fractions or setup.choose(tiny=(0.8, 0.6), cpu=(*PAPER_FRACTIONS, 0.4, 0.2), paper=PAPER_FRACTIONS)
    probes = {
        name: {"metric": metric, "scores": str(setup.scores_file(scoring))}
        for name, (scoring, metric) in _places(setup, whole, repeat or 0).items()
        if name != "random"
    }
    seeds = setup.seeds(setup.choose(tiny=2, cpu=_SEEDS, paper=5))
    data = training_set(setup, whole)
    return {
        "data": _data(setup, data),
        "grid": {
            "initial_size": [data.examples],
            "keep_fraction": [1.0, *fractions],
            "strategy": ["hard"],
            "metric": list(COMPARED_METRICS),
            "balance": list(balance or (FLOOR,)),
            "matched_iterations": [0.0],
            "seed": seeds if repeat is None else seeds[repeat :: len(repeats(setup, whole))],
        },
        "student": {"recipe": "resnet50" if setup.scale == "paper" else "mlp"},
        "probe": probes,
    }


def plan_scores(setup: Setup, datasets: Sequence[Dataset] = ()) -> FigurePlan:
    """Scores alone, of the figure's data set if none is given: nothing is trained on pruned sets.

    Claims about scores have many points, on a long-tailed set too, and take all scorings.
    """
    wholes, scored = datasets or (setup.dataset(),), {}
    for whole in wholes:
        for repeat in repeats(setup):
            found = scorings(setup, whole, repeat)
            scored |= {f"{name}, {whole.title}, {repeat}": scoring for name, scoring in found.items()}
    return FigurePlan(scorings=scored, datasets=tuple(training_set(setup, whole) for whole in wholes))


def plan_students(
    setup: Setup,
    *,
    balance: Sequence[float] = (),
    fractions: Sequence[float] = (),
    datasets: Sequence[Dataset] = (),
) -> FigurePlan:
    """Students on the hardest examples by each metric; every class keeps half its share if no floor is given.

    There is a sweep for each data set (that of the figure, if none is given) and for each scoring of it.
    """
    wholes = datasets or (setup.dataset(),)
    sweeps, scored = {}, {}
    for whole in wholes:
        for repeat in repeats(setup, whole):
            found = scorings(setup, whole, repeat)
            scored |= {f"{name}, {whole.title}, {repeat}": scoring for name, scoring in found.items()}
            sweeps[f"{whole.title}, {repeat}"] = benchmark_sweep(
                setup, balance=balance, fractions=fractions, whole=whole, repeat=repeat
            )
    return FigurePlan(sweeps=sweeps, scorings=scored, datasets=tuple(training_set(setup, whole) for whole in wholes))


def train_students(setup: Setup, plan: FigurePlan, whole: Dataset | None = None) -> tuple[pa.Table, FigureTable]:
    """What came of the students of a plan on one data set, and a table that begins with what they were trained on."""
    whole = whole or setup.dataset()
    scores = {repeat: score_benchmark(setup, whole, repeat) for repeat in repeats(setup, whole)}
    swept = pa.concat_tables(setup.sweep(plan.sweeps[f"{whole.title}, {repeat}"]).table for repeat in scores)
    table = FigureTable()
    table.add("data", data=whole.title, examples=max(swept["initial_size"].to_pylist()), scorings=len(scores))
    add_reliability(table, scores[0])
    return swept, table


def datasets_of(setup: Setup) -> list[Dataset]:
    """All data sets of a figure; a part of a long-tailed one is a smaller one with the same tail."""
    found = [setup.dataset(role) for role in setup.needs]
    return [data.with_same_tail(LIMIT[setup.scale]) if data.variant == TAILED else data for data in found]


def measure_each(setup: Setup, measure: Callable[[Setup, Dataset], FigureTable]) -> FigureTable:
    """The tables of all data sets of a figure as one, whose rows say of which they are."""
    whole = FigureTable()
    for data in datasets_of(setup):
        whole.rows += [{"kind": row["kind"], "data": data.title, **row} for row in measure(setup, data).rows]
    return whole


def add_reliability(table: FigureTable, scores: Mapping[str, Scores]) -> None:
    """Rows of kind `reliability` for metrics that are measured on two halves of their models."""
    for name, scored in scores.items():
        report = scored.provenance.get("report", {})
        if "reliability" in report:
            table.add("reliability", metric=name, reliability=float(report["reliability"]))


def noise_metrics(table: FigureTable) -> list[str]:
    """Metrics whose two halves do not agree: noise, of which no claim about metrics is a claim."""
    return [row["metric"] for row in table.rows if row.get("reliability", 1.0) < NOISY]


def steady_metrics(table: FigureTable) -> list[str]:
    """The compared metrics that are not noise."""
    noise = noise_metrics(table)
    return [name for name in COMPARED_METRICS if name not in noise]


def left_out(table: FigureTable) -> str:
    """A sentence on the metrics that a claim about every metric leaves out."""
    noise = noise_metrics(table)
    return f"Left out as noise (reliability below {NOISY}): {name_metrics(noise)}." if noise else ""


class Part(NamedTuple):
    """A part of the examples, drawn at random, and the scores that it is judged by."""

    number: int
    rows: NDArray[np.intp]
    scores: dict[str, Scores]
    over: str  # what the parts stand for: "scorings", or "parts" of a single one


def parts_of(
    setup: Setup, whole: Dataset | None = None, score: Callable[..., dict[str, Scores]] | None = None
) -> list[Part]:
    """The examples in parts, each with the scores of a scoring of its own: luck in scoring and in examples counts.

    Where there are fewer than three scorings, parts of the first. Scores are those of the benchmark, or what `score`
    makes of the same arguments.
    """
    scored = [(score or score_benchmark)(setup, whole, repeat) for repeat in repeats(setup)]
    several = len(scored) >= 3
    order = np.random.default_rng(setup.seed).permutation(len(scored[0]["random"].values))
    drawn = np.array_split(order, len(scored) if several else PARTS)
    return [
        Part(number, rows, scored[number if several else 0], "scorings" if several else "parts")
        for number, rows in enumerate(drawn)
    ]


def parts_over(parts: FigureTable) -> str:
    """What the rows of parts stand for; parts of one scoring in tables of earlier versions."""
    return str(parts.rows[0].get("over", "parts"))


def name_data(table: FigureTable) -> str:
    """How many examples of which data set, for a sentence."""
    row = table.where(kind="data").rows[0]
    return f"{row['examples']:,.0f} examples ({row['data']})"


def name_metrics(names: Iterable[str]) -> str:
    """Metrics as the paper writes them, for a sentence."""
    return ", ".join(TITLES[name] for name in names) or "none"


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
            differences = {"difference": pruned - chance, "full_difference": pruned - full}
            found = means(accuracy=pruned, **differences)
            table.add("metric", metric=metric, keep_fraction=fraction, balance=balance, **found)
            table.add_seeds("seed", metric=metric, keep_fraction=fraction, balance=balance, columns=differences)
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
