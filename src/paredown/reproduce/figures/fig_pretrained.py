"""Fig. 4A, and what it leaves open: does pretraining allow more aggressive pruning? One network, pretrained or not.

Claims: on the hardest examples alone a network loses less if it was pretrained on other data than if it was not; and
the same for random ones. Section 'Data pruning improves transfer learning' says so of Fig. 4A, where every network was
pretrained.

    paredown reproduce fig_pretrained

Expected: 6 minutes of two cores with MNIST, whose digits 0 to 4 are for pretraining and 5 to 9 for what is pruned.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paredown.laws.claim_rules import better_than
from paredown.plots import COLORS, RANDOM_COLOR, figure, plain_axis
from paredown.reproduce import trained_networks as networks
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.data_folders import FIRST, REST, SMALL_IMAGES
from paredown.reproduce.judging import judge_points, paired
from paredown.reproduce.setup import FigurePlan, Setup, SharedScoring
from paredown.standard_errors import standard_error

NEEDS = {
    role: {
        "tiny": (f"digits{half}",),
        "cpu": tuple(f"{name}{half}" for name in (*SMALL_IMAGES, "digits")),
        "paper": tuple(f"{name}{half}" for name in SMALL_IMAGES),  # not in the paper: as `cpu`, with more seeds
    }
    for role, half in (("main", REST), ("other", FIRST))
}
_FRACTIONS = (0.02, 0.05, 0.1, 0.2, 0.4)
_AGGRESSIVE = 0.2  # keep_fractions up to this one are judged
_NOTICEABLE = 0.005  # of test error: the difference that the claim is about
_TUNED = 1e-3  # learning rate of fine-tuning, a quarter of that from scratch


def plan(setup: Setup) -> FigurePlan:
    """Networks on the other classes, and for each of their seeds both arms."""
    data, other = setup.dataset(), setup.dataset("other")
    seeds = setup.seeds(setup.choose(tiny=2, cpu=5, paper=10))
    steps = setup.choose(tiny=30, cpu=600, paper=1500)
    pretraining: dict[str, Any] = {
        "data": other.images(),
        "grid": {
            "initial_size": [other.examples],
            "keep_fraction": [1.0],
            "strategy": ["hard"],
            "metric": ["el2n"],
            "balance": [0.0],
            "seed": seeds,
        },
        "student": {"recipe": "tiny_cnn", "steps": steps, **networks.small_network(other), "keep_weights": True},
    }
    scoring = _scoring(setup)
    return FigurePlan(
        sweeps={"pretraining": pretraining, "from scratch": _arm(setup, scoring, seeds, {})},
        scorings={"hardness": scoring},
        datasets=(data, other),
    )


def _scoring(setup: Setup) -> SharedScoring:
    """EL2N of perceptrons that see the pixels of everything, the same for both arms."""
    members = setup.choose(tiny=2, cpu=5, paper=10)
    return SharedScoring(setup.dataset().features_of_images(), ("el2n",), {"members": members, "threads": 1})


def _arm(setup: Setup, scoring: SharedScoring, seeds: list[int], changes: dict[str, Any]) -> dict[str, Any]:
    fractions = setup.choose(tiny=(0.1, 0.4), cpu=_FRACTIONS, paper=_FRACTIONS)
    config = networks.network_sweep(
        setup,
        setup.dataset().images(),
        scoring,
        steps=setup.choose(tiny=30, cpu=600, paper=1500),
        keep_fraction=[*fractions, 1.0],
        strategy=["hard"],
        metric=["el2n"],
        seed=seeds,
    )
    if setup.scale == "paper":
        config["student"] = {"recipe": "tiny_cnn", "steps": 1500, **networks.small_network(setup.dataset())}
        config["grid"].pop("matched_iterations")
    config["student"] = {**config["student"], "keep_weights": False, **changes}
    return config


def measure(setup: Setup) -> FigureTable:
    """The test error of every network of both arms, each pretrained one from a pretraining of its own."""
    planned, scoring = plan(setup), _scoring(setup)
    setup.score(scoring)
    bodies = {
        student.seed: student.weights
        for student in networks.trained_students(setup.sweep(planned.sweeps["pretraining"]))
    }
    arms = [("from scratch", planned.sweeps["from scratch"])]
    for seed, weights in bodies.items():
        body = {"pretrained": str(networks.without_head(weights)), "learning_rate": _TUNED}
        arms.append(("pretrained", _arm(setup, scoring, [seed], body)))
    table = FigureTable()
    names = {"data": setup.dataset().title, "other": setup.dataset("other").title}
    for arm, config in arms:
        for row in setup.sweep(config).table.to_pylist():
            strategy = "full" if row["keep_fraction"] == 1 else row["strategy"]
            columns = {name: row[name] for name in ("keep_fraction", "kept", "seed", "test_error")}
            table.add("network", **names, arm=arm, strategy=strategy, **columns)
    for arm in table.values("arm"):
        for strategy in ("hard", "random"):
            _add_losses(table, arm, strategy)
    return table


def _add_losses(table: FigureTable, arm: str, strategy: str) -> None:
    """What pruning costs, seed by seed: test error above that of the same network on everything."""
    runs = table.where(kind="network", arm=arm)
    for fraction in sorted(runs.where(strategy=strategy).values("keep_fraction")):
        loss = paired(runs, "test_error", {"strategy": strategy, "keep_fraction": fraction}, {"strategy": "full"})
        seeds = sorted(runs.where(strategy="full").values("seed"))
        table.add_seeds("loss", arm=arm, strategy=strategy, keep_fraction=fraction, seeds=seeds, columns={"loss": loss})


def judge(table: FigureTable) -> list[Claim]:
    """What pruning costs with pretraining less what it costs without, at every fraction up to `_AGGRESSIVE`."""
    about = table.rows[0]
    return [
        judge_points(
            f"Pretraining allows more aggressive pruning: {title} cost less.",
            _savings(table, strategy),
            rule="better than",
            effect=_NOTICEABLE,
            about=f"{about['data']}, pretrained on {about['other']}: what pruning adds to the test error, pretrained "
            "minus from scratch",
        )
        for strategy, title in (("hard", "the hardest examples"), ("random", "random subsets"))
    ]


def _savings(table: FigureTable, strategy: str) -> dict[str, Any]:
    losses = table.where(kind="loss", strategy=strategy)
    fractions = [fraction for fraction in sorted(losses.values("keep_fraction")) if fraction <= _AGGRESSIVE]
    return {
        f"{fraction:g} kept": better_than(
            paired(losses.where(keep_fraction=fraction), "loss", {"arm": "pretrained"}, {"arm": "from scratch"}),
            points=len(fractions),
        )
        for fraction in fractions
    }


def draw(table: FigureTable, path: Path) -> None:
    """Test error over the fraction kept: from scratch and pretrained."""
    about, networks_ = table.rows[0], table.where(kind="network")
    with figure(path, size=(9.4, 4.2), ncols=2, sharey=True) as (drawn, panels):
        for axes, arm in zip(panels, ("from scratch", "pretrained"), strict=True):
            for strategy, color, label in (("random", RANDOM_COLOR, "random"), ("hard", COLORS[0], "hardest")):
                rows = FigureTable(
                    row for row in networks_.where(arm=arm).rows if row["strategy"] in (strategy, "full")
                )
                fractions = sorted(rows.values("keep_fraction"))
                errors = [100 * rows.where(keep_fraction=fraction)["test_error"] for fraction in fractions]
                spread = [2 * np.nan_to_num(standard_error(e)) for e in errors]
                middle = [float(e.mean()) for e in errors]
                axes.errorbar(fractions, middle, yerr=spread, color=color, marker="o", capsize=3, label=label)
            axes.set(xscale="log", yscale="log", xlabel="keep_fraction")
            axes.set_title(arm, loc="left")
            plain_axis(axes.xaxis, fractions)
        low, high = panels[0].get_ylim()
        plain_axis(panels[0].yaxis, [tick for tick in (0.5, 1, 2, 3, 5, 10, 20, 30, 50, 80) if low < tick < high])
        panels[0].set_ylabel("test error, %  (bars: two standard errors)")
        panels[0].legend()
        title = f"{about['data']}; pretraining on {about['other']}"
        drawn.suptitle(title, x=0.02, ha="left", fontsize=11)
