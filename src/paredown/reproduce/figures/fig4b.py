"""Fig. 4B: transfer learning, pruning the data that a network is pretrained on.

Claims: a network pretrained on the hardest half of its data and fine-tuned on other data is as good there as one that
was pretrained on everything.

    paredown reproduce fig4b

Expected: 4 minutes of two cores with MNIST (`--size paper`: memorization from 2,000 networks, and 30 trainings of a
ResNet-50 on ImageNet). A small network pretrained on MNIST and tuned on 100 of scikit-learn's digits errs on 3.6 % of
them, on 6.8 % without pretraining; pretrained on the hardest half it is 0.75 ± 0.25 points better still.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from paredown.evaluate import linear_probe
from paredown.laws import ClaimVerdict, better_than, no_worse_than
from paredown.plots import COLORS, RANDOM_COLOR, figure, plain_axis
from paredown.reproduce import trained_networks as networks
from paredown.reproduce.base import Claim, FigureTable, in_points, means
from paredown.reproduce.data_folders import SMALL_IMAGES, Dataset, by_size
from paredown.reproduce.judging import judge_points
from paredown.reproduce.metric_comparison import MEMORIZATION_NETWORKS
from paredown.reproduce.setup import FigurePlan, Setup, SharedScoring
from paredown.reproduce.trained_networks import errors_above_full
from paredown.sources import open_source
from paredown.standard_errors import standard_error
from paredown.sweeps.sweep_data import initial_rows
from paredown.training import Recipe, find_recipe, load_examples, train

NEEDS = {
    "main": by_size(SMALL_IMAGES, "imagenet"),
    "target": by_size((), "cifar10"),
}
_HALF = 0.5  # the keep_fraction of the paper's claim
_MARGIN = 0.01  # of test error, up to which pretraining on less matches; pretraining itself is worth three times that
_PENALTIES = (1e-3, 1e-2, 1e-1)
_TICKS = (0.5, 1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 15, 20, 30, 40, 60, 80)  # per cent


def plan(setup: Setup) -> FigurePlan:
    """Pretraining on everything, on the hardest and on random subsets, and the recipe of fine-tuning."""
    data, target = setup.dataset(), setup.dataset("target")
    fractions = setup.choose(tiny=(0.5, 1.0), cpu=(0.25, 0.5, 1.0), paper=(0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0))
    metric = setup.choose(tiny="el2n", cpu="el2n", paper="memorization")
    scoring = _scoring(setup, data, metric)
    config = networks.network_sweep(
        setup,
        data.images(),
        scoring,
        steps=setup.choose(tiny=40, cpu=800, paper=0),
        keep_fraction=list(fractions),
        strategy=["hard"],
        metric=[metric],
        seed=setup.seeds(setup.choose(tiny=2, cpu=4, paper=2)),
    )
    if setup.scale == "paper":  # "exactly as in Fig. 3D": as many iterations on every subset
        config["grid"]["matched_iterations"] = [1.0]
    return FigurePlan(
        sweeps={"pretraining": config},
        scorings={"pretraining": scoring},
        networks=((_fine_tuning(setup), target),),
        datasets=(data, target),
    )


def _scoring(setup: Setup, data: Dataset, metric: str) -> SharedScoring:
    """Memorization from 2,000 networks on ImageNet; on small images EL2N of perceptrons that see their pixels."""
    if setup.scale == "paper":
        # Together with the influences, as in the benchmark of metrics: one training for both.
        networks = {"recipe": "resnet50", "members": MEMORIZATION_NETWORKS}
        return SharedScoring(data.images("swav"), (metric, "influence_max", "influence_sum_abs"), networks)
    members = setup.choose(tiny=2, cpu=5, paper=0)
    return SharedScoring(data.features_of_images(), (metric,), {"members": members, "threads": 1})


def _fine_tuning(setup: Setup) -> Recipe:
    if setup.scale == "paper":
        return find_recipe("resnet50_finetune")
    changes = networks.small_network(setup.dataset()) | {"learning_rate": 1e-3}
    return find_recipe("tiny_cnn", name="tiny_cnn_finetune", **changes)


def measure(setup: Setup) -> FigureTable:
    """The test error on the target after fine-tuning every pretrained network, and one that was not pretrained."""
    planned = plan(setup)
    setup.score(planned.scorings["pretraining"])
    students = list(networks.trained_students(setup.sweep(planned.sweeps["pretraining"])))
    jobs: list[dict[str, Any]] = [{"weights": student.weights, "seed": student.seed} for student in students]
    seeds = sorted({student.seed for student in students})
    jobs += [{"weights": None, "seed": seed} for seed in seeds]
    common = {
        "source": setup.dataset("target").location,
        "recipe": planned.networks[0][0].settings(),
        "examples": setup.choose(tiny=200, cpu=100, paper=None),
        "steps": setup.choose(tiny=20, cpu=150, paper=None),
        "probe": setup.scale != "paper",
    }
    found = setup.run("paredown.reproduce.figures.fig4b:fine_tune", jobs, common=common, label="fine-tuning")
    table = FigureTable()
    names = {"data": setup.dataset().title, "target": setup.dataset("target").title}
    ways = [{**student.way, "pretraining_error": student.test_error} for student in students]
    ways += [{"strategy": "none", "keep_fraction": 0.0, "seed": seed} for seed in seeds]
    for way, result in zip(ways, found, strict=True):
        table.add("network", **names, **way, **{name: value for name, value in result.items() if value is not None})
    return table


def fine_tune(common: dict[str, Any], job: dict[str, Any]) -> dict[str, Any]:
    """Fine-tune one network on (a part of) the target data and test it there; also a linear probe before that."""
    body = None if job["weights"] is None else str(networks.without_head(job["weights"]))
    recipe = networks.as_recipe(common["recipe"]).but(pretrained=body)
    examples = load_examples(open_source(common["source"]), recipe)
    test = load_examples(open_source(common["source"], split="test"), recipe, like=examples)
    wanted = len(examples) if common["examples"] is None else common["examples"]
    rows = initial_rows(len(examples), wanted, job["seed"])
    probe_error = None
    if common["probe"] and job["weights"] is not None:
        frozen = networks.open_network(recipe, job["weights"], classes=examples.classes, channels=examples.shape[2])
        features = [networks.penultimate_features(frozen, part) for part in (examples.take(rows), test)]
        labels = (examples.labels[rows], test.labels)
        probe = linear_probe(features[0], labels[0], features[1], labels[1], penalties=_PENALTIES, seed=job["seed"])
        probe_error = 1 - probe.accuracy
    trained = train(recipe, examples, rows=rows, seed=job["seed"], steps=common["steps"])
    error = 1 - trained.accuracy(test)
    return {"tuned_on": wanted, "test_error": error, "probe_error": probe_error}


def judge(table: FigureTable) -> list[Claim]:
    """Half of the data against all of them, by fine-tuning; nothing is shown where pretraining does not help."""
    claim = f"Pretraining on the hardest {_HALF:.0%} matches or exceeds pretraining on everything."
    full, scratch = table.where(strategy="full"), table.where(strategy="none")
    without = {row["seed"]: row["test_error"] for row in scratch.rows}
    helps = better_than([row["test_error"] - without[row["seed"]] for row in full.rows])
    levels = (
        f"{100 * full['test_error'].mean():.2f} % error if pretrained on everything, "
        f"{100 * scratch['test_error'].mean():.2f} % without pretraining"
    )
    if helps.verdict is not ClaimVerdict.HELD:
        if helps.verdict is ClaimVerdict.CANNOT_TELL:
            told = f"It is undecided whether pretraining helps here at all: {levels}."
            return [replace(Claim.judged(claim, None, told, pretraining_helps=None), rule="no worse than")]
        told = f"Pretraining does not help here, so that there is nothing to lose: {levels}."
        return [Claim.not_testable(claim, told, pretraining_helps=False)]
    half = errors_above_full(table, "hard", _HALF)
    told = [
        f"{strategy} {fraction:g} {_told(table, strategy, fraction, 'test_error')}"
        for strategy in ("hard", "random")
        for fraction in sorted(table.where(strategy=strategy).values("keep_fraction"))
    ]
    return [
        judge_points(
            claim,
            {f"{_HALF:g}": no_worse_than(half, _MARGIN)},
            rule="no worse than",
            effect=_MARGIN,
            about=f"{full.rows[0]['target']} after fine-tuning on {full['tuned_on'][0]:,.0f} examples, error minus "
            f"that after pretraining on all of {full.rows[0]['data']}",
            note=f"{levels}; differences in points: {'; '.join(told)}.",
            pretraining_helps=True,
            **means(difference=half),
        )
    ]


def _told(table: FigureTable, strategy: str, keep_fraction: float, name: str) -> str:
    return in_points(means(apart=errors_above_full(table, strategy, keep_fraction, name)), "apart")


def draw(table: FigureTable, path: Path) -> None:
    """Error on the target against the share of the pretraining data: fine-tuned, and by a linear probe."""
    measures = {"test_error": "fine-tuned"} | (
        {"probe_error": "linear probe on frozen features"} if "probe_error" in table.rows[0] else {}
    )
    size = (4.6 * len(measures) + 0.8, 4.2)
    with figure(path, size=size, ncols=len(measures), squeeze=False) as (drawn, panels):
        for axes, (measure, title) in zip(panels[0], measures.items(), strict=True):
            for strategy, color, label in (
                ("random", RANDOM_COLOR, "pretrained on random subsets"),
                ("hard", COLORS[0], "pretrained on the hardest"),
            ):
                rows = FigureTable(row for row in table.rows if row["strategy"] in (strategy, "full"))
                fractions = sorted(rows.values("keep_fraction"))
                errors = [100 * rows.where(keep_fraction=fraction)[measure] for fraction in fractions]
                means, spread = [e.mean() for e in errors], [2 * standard_error(e) for e in errors]
                axes.errorbar(fractions, means, yerr=spread, color=color, marker="o", capsize=3, label=label)
            whole = 100 * table.where(strategy="full")[measure].mean()
            axes.axhline(whole, color="black", linewidth=1, linestyle=":", label="pretrained on everything")
            if measure == "test_error":
                scratch = 100 * table.where(strategy="none")[measure]
                axes.axhline(scratch.mean(), color=COLORS[2], linestyle="--", label="not pretrained")
                band = scratch.mean() + 2 * standard_error(scratch) * np.array([-1, 1])
                axes.axhspan(*band, color=COLORS[2], alpha=0.15)
            axes.set(yscale="log", xlabel=f"share of {table.rows[0]['data']} in pretraining")
            axes.set_title(title, loc="left")
            low, high = axes.get_ylim()
            plain_axis(axes.yaxis, [tick for tick in _TICKS if low <= tick <= high])
        panels[0][0].set_ylabel(f"test error on {table.rows[0]['target']}, %\n(bars: two standard errors)")
        drawn.legend(*panels[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=4)
