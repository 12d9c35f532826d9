"""Appendix table: prototypes from one self-supervised encoder, and averaged over an ensemble of them.

Claims: averaging the scores of five encoders that differ in their seed alone neither improves nor hurts.

    paredown reproduce tab_ensembles

Expected: 4 minutes of two cores with Fashion-MNIST, whose encoders are small and briefly trained by SimCLR, so that
pruning by them is not expected to beat random subsets (`--size paper`: 60 ResNet-50s on ImageNet; the folder
`imagenet_embeddings` then holds the embeddings of its training images by five encoders, in folders 0 to 4, as
`paredown embed` makes them).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from paredown.embeddings.encoders.simclr import train_simclr
from paredown.errors import PareError
from paredown.files import is_own
from paredown.laws import equivalent_to
from paredown.plots import COLORS, RANDOM_COLOR, figure
from paredown.records import digest
from paredown.reproduce.base import Claim, FigureTable
from paredown.reproduce.data_folders import Dataset, by_size
from paredown.reproduce.drawing import percent_bars
from paredown.reproduce.judging import judge_points, mean_over, seeds_of
from paredown.reproduce.setup import FigurePlan, Setup
from paredown.score_files import read_scores, write_scores
from paredown.scores import Scores
from paredown.scoring import score
from paredown.sources import ArrayImages
from paredown.sweeps.summary import compare_with_random
from paredown.workers import available_cores, run_jobs

NEEDS = {
    "main": by_size(("fashion_mnist", "mnist"), "imagenet"),
    "encoders": {"paper": ("imagenet_embeddings",)},
}
MEMBERS = 5
SINGLES = ("single 0", "single 1", "single 2")  # how many of the members are also tried alone
_MARGIN = 0.005  # of accuracy, up to which an ensemble is neither better nor worse
_LIMIT = {"tiny": 400, "cpu": 10_000, "paper": None}  # images


def plan(setup: Setup) -> FigurePlan:
    """Students on what is kept by single encoders and by their mean, 90, 80 and 70 %."""
    data = setup.dataset(limit=_LIMIT[setup.scale])
    small = {"recipe": "mlp", "steps": setup.choose(tiny=40, cpu=1000, paper=0)}
    student = {"recipe": "resnet50"} if setup.scale == "paper" else small
    # "Throughout the main paper" ImageNet is trained for as many epochs on less.
    duration = {"matched_iterations": [0.0]} if setup.scale == "paper" else {}
    file = str(_scores_file(setup, data))
    config: dict[str, Any] = {
        "data": data.images() if setup.scale == "paper" else data.features(),
        "grid": {
            "initial_size": [data.examples],
            "keep_fraction": [0.8] if setup.scale == "tiny" else [0.7, 0.8, 0.9],
            "metric": [*SINGLES, "ensemble"],
            "balance": [0.0],
            **duration,
            "unpruned": False,
            "seed": setup.seeds(setup.choose(tiny=2, cpu=5, paper=4)),
        },
        "student": student,
        "probe": {name: {"scores": file, "metric": name} for name in (*SINGLES, "ensemble")},
    }
    return FigurePlan(sweeps={"encoders": config}, datasets=(data,))


def _scores_file(setup: Setup, data: Dataset) -> Path:
    made_of = {"data": data.name, "examples": data.examples, "scale": setup.scale, "seed": setup.seed}
    return setup.parts / f"encoders-{digest(made_of, 20)}" / "scores.parquet"


def measure(setup: Setup) -> FigureTable:
    """Every way against random subsets, and the ensemble against its members."""
    data = setup.dataset(limit=_LIMIT[setup.scale])
    file = _scores_file(setup, data)
    if not file.exists():
        _score(setup, data, file)
    table = FigureTable()
    for row in compare_with_random(setup.sweep(plan(setup).sweeps["encoders"]).table):
        table.add(
            "accuracy",
            data=data.title,
            examples=row.metric,
            keep_fraction=row.keep_fraction,
            accuracy=1 - row.test_error,
            stderr=row.stderr,
            random_accuracy=1 - row.random_error,
            random_stderr=row.random_stderr,
            gain=-row.difference,
            gain_stderr=row.difference_stderr,
            seeds=row.seeds,
        )
        gains = {"gain": -np.array(row.seed_differences)}
        table.add_seeds("seed", examples=row.metric, keep_fraction=row.keep_fraction, columns=gains)
    return table


def _score(setup: Setup, data: Dataset, file: Path) -> None:
    """Scores of every member, made in parallel and kept one by one, and their mean."""
    if setup.scale == "paper":
        folder = setup.dataset("encoders").folder
        assert folder is not None
        stores = [folder / str(number) for number in range(MEMBERS)]
        members = [score(store, metric="prototypes", k=data.classes, seed=setup.seed) for store in stores]
    else:
        settings = setup.choose(
            tiny={"epochs": 1, "image_size": 16, "width": 4, "batch_size": 64},
            cpu={"epochs": 6, "image_size": 28, "width": 8, "batch_size": 256},
            paper={},
        )
        source = {"file": data.features()["source"], "shape": list(data.shape), "k": data.classes, "training": settings}
        file.parent.mkdir(parents=True, exist_ok=True)
        jobs = [{"seed": setup.seed + n, "out": str(file.parent / f"member{n}")} for n in range(MEMBERS)]
        todo = [job for job in jobs if not is_own(Path(f"{job['out']}.parquet"))]
        workers = setup.workers or available_cores()
        outcomes = run_jobs(f"{__name__}:score_by_own_encoder", todo, workers=workers, common=source)
        for outcome in setup.track(outcomes, "training encoders", total=len(todo)):
            if outcome.error is not None:
                raise PareError(f"an encoder could not be trained: {outcome.error}")
        members = [read_scores(f"{job['out']}.parquet") for job in jobs]
    mean = np.mean([member.values for member in members], axis=0)
    named = [Scores(members[n].values, members[0].ids, name) for n, name in enumerate(SINGLES)]
    write_scores([*named, Scores(mean, members[0].ids, "ensemble")], file)


def score_by_own_encoder(common: dict[str, Any], job: dict[str, Any]) -> None:
    """Train one encoder without labels and score by the prototypes of its embeddings (run in a worker)."""
    height, width, channels = common["shape"]
    pixels = np.round(255 * np.load(common["file"])).astype(np.uint8).reshape(-1, height, width, channels)
    images = ArrayImages(
        pixels[..., 0] if channels == 1 else pixels,
        location=common["file"],
        kind="images in memory",
        files=[Path(common["file"])],
        ids=np.arange(len(pixels)),
        labels=None,
    )
    trained = train_simclr(
        images, out=f"{job['out']}.onnx", flip=False, seed=job["seed"], reuse=True, **common["training"]
    )
    scores = score(images, metric="prototypes", k=common["k"], encoder=trained.encoder, seed=0)
    write_scores(scores, f"{job['out']}.parquet", overwrite=True)


def judge(table: FigureTable) -> list[Claim]:
    """The ensemble against the mean of its members, seed by seed."""
    seeds = table.where(kind="seed")
    fractions = sorted(seeds.values("keep_fraction"), reverse=True)
    found = {}
    for fraction in fractions:
        gains = {
            name: seeds_of(seeds, "gain", keep_fraction=fraction, examples=name) for name in (*SINGLES, "ensemble")
        }
        apart = gains["ensemble"] - mean_over([gains[name] for name in SINGLES])
        found[f"{fraction:g}"] = equivalent_to(apart, _MARGIN, points=len(fractions))
    return [
        judge_points(
            "An ensemble of encoders prunes neither better nor worse than one of them.",
            found,
            rule="equivalent to",
            effect=_MARGIN,
            about=f"{table.rows[0]['data']}, accuracy with the ensemble minus the mean of {len(SINGLES)} members, by "
            "keep_fraction",
        )
    ]


def draw(table: FigureTable, path: Path) -> None:
    """Accuracy by fraction for random subsets, each single encoder and the ensemble."""
    with figure(path, size=(6.8, 4.2)) as (_, axes):
        ensemble = table.where(kind="accuracy", examples="ensemble")
        accuracy, error = 100 * ensemble["random_accuracy"], 200 * ensemble["random_stderr"]
        places = ensemble["keep_fraction"] - 0.009
        axes.errorbar(places, accuracy, yerr=error, fmt="o", color=RANDOM_COLOR, capsize=2, label="random")
        for number, name in enumerate((*SINGLES, "ensemble")):
            rows = table.where(kind="accuracy", examples=name)
            label = {"ensemble": f"ensemble of {MEMBERS}", SINGLES[0]: "single encoders"}.get(name)
            marker, color = ("D", COLORS[2]) if name == "ensemble" else ("o", COLORS[1])
            style = {"marker": marker, "color": color, "linestyle": "none"}
            percent_bars(axes, rows, rows["keep_fraction"] + 0.006 * number, "accuracy", label=label, **style)
        axes.set(xlabel="keep_fraction", ylabel="test accuracy, %\n(bars: two standard errors)")
        axes.set_xticks(sorted(table.values("keep_fraction")))
        axes.set_title(f"{table.rows[0]['data']}: prototypes of one encoder or of {MEMBERS}", loc="left")
        axes.legend()
