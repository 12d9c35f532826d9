"""What networks trained on pruned data do with images of another kind: trained and asked once, for two figures.

Appendix on out-of-distribution analysis: pruning by self-supervised prototypes, keeping the hard ("best case": easy
examples are discarded) or the easy ones ("worst case").
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from paredown.evaluate import CORRUPTIONS, corrupt, map_decisions
from paredown.plots import COLORS, RANDOM_COLOR
from paredown.reproduce.data_folders import by_size
from paredown.reproduce.setup import FigurePlan, Setup, SharedScoring
from paredown.reproduce.stimuli import Stimuli, coarse_classes, hybrids, read_stimuli
from paredown.reproduce.trained_networks import TrainedStudent, as_recipe, network_sweep, open_network, trained_students
from paredown.sources import open_source
from paredown.sweeps import read_settings
from paredown.training import Examples, Recipe, load_examples

NEEDS = {
    "main": by_size(("cifar10",), "imagenet"),
    "embeddings": by_size(("cifar10_features",), "imagenet"),
    "stimuli": {"tiny": ("none",), "cpu": ("stimuli", "none"), "paper": ("stimuli",)},
    "humans": {"tiny": ("none",), "cpu": ("model_vs_human", "none"), "paper": ("model_vs_human",)},
}
NAMES = {"full": "all examples", "hard": "easy discarded", "easy": "hard discarded", "random": "random"}
STYLE = {"full": COLORS[0], "hard": COLORS[4], "easy": COLORS[3], "random": RANDOM_COLOR, "humans": "#B2182B"}


class StudentAnswers(NamedTuple):
    """A student, and what it said."""

    student: TrainedStudent
    clean: float  # accuracy
    corrupted: dict[str, list[float]]  # accuracy by corruption and severity
    decisions: dict[str, list[str]]  # for each set of stimuli, in their order


def plan(setup: Setup) -> FigurePlan:
    """Students on everything, on the hard and on the easy part by prototypes, and on random subsets."""
    data, embeddings = setup.dataset(), setup.dataset("embeddings")
    if embeddings.name != f"{data.name}_features":  # not there: the pixels stand in for them
        embeddings = data
    fractions = setup.choose(tiny=[0.5, 1.0], cpu=[0.5, 1.0], paper=[0.5, 0.6, 0.7, 0.8, 0.9, 1.0])
    if setup.scale == "paper":  # together with the others of the benchmark of metrics
        made = ("random", "prototypes", "supervised_prototypes")
        scoring = SharedScoring(data.images("swav"), made, {"k": data.classes})
    else:
        scoring = SharedScoring(embeddings.features_of_images(), ("prototypes",), {"k": data.classes})
    config = network_sweep(
        setup,
        data.images("swav") if setup.scale == "paper" else data.images(),
        scoring,
        steps=setup.choose(tiny=60, cpu=600, overnight=3000, paper=0),
        keep_fraction=fractions,
        strategy=["hard", "easy"],
        metric=["prototypes"],
        seed=setup.seeds(setup.choose(tiny=2, cpu=6, paper=2)),  # the paper has one; two give an error bar
    )
    return FigurePlan(sweeps={"students": config}, scorings={"prototypes": scoring}, datasets=(data, embeddings))


def students_answers(setup: Setup) -> list[StudentAnswers]:
    """Train the students and ask them."""
    planned = plan(setup)
    setup.score(planned.scorings["prototypes"])
    students = list(trained_students(setup.sweep(planned.sweeps["students"])))
    few = ["gaussian_noise", "impulse_noise", "defocus_blur", "fog", "contrast", "jpeg"]
    common = {
        **_shown(setup),
        "corruptions": setup.choose(tiny=few[:2], cpu=few, paper=list(CORRUPTIONS)),
        "severities": setup.choose(tiny=[1, 5], cpu=[1, 3, 5], paper=[1, 2, 3, 4, 5]),
    }
    jobs = [student.weights for student in students]
    found = setup.run("paredown.reproduce.robustness:answer", jobs, common=common, label="asking the students")
    return [StudentAnswers(student, **said) for student, said in zip(students, found, strict=True)]


def shown_stimuli(setup: Setup) -> list[Stimuli]:
    """What the students were asked about, with the right answers."""
    return list(_material(json.dumps(_shown(setup))).stimuli)


def _shown(setup: Setup) -> dict[str, Any]:
    """All that decides what is shown, as plain values."""
    folder = setup.dataset("stimuli").folder
    return {
        "source": setup.dataset().location,
        "recipe": read_settings(plan(setup).sweeps["students"]).student.resolve().settings(),
        "stimuli": None if folder is None else str(folder),
        "images": setup.choose(tiny=200, cpu=1000, paper=10_000),
        "seed": setup.seed,
    }


class _Material(NamedTuple):
    recipe: Recipe
    classes: tuple[str, ...]
    images: NDArray[np.uint8]
    labels: NDArray[np.int64]
    groups: dict[str, list[int]]
    stimuli: tuple[Stimuli, ...]


@lru_cache(maxsize=1)
def _material(shown: str) -> _Material:
    """Test images and stimuli: made once per process."""
    wanted = json.loads(shown)
    recipe = as_recipe(wanted["recipe"])
    test = load_examples(open_source(wanted["source"], split="test"), recipe)
    count = min(wanted["images"], len(test))
    rows = np.sort(np.random.default_rng(wanted["seed"]).permutation(len(test))[:count])
    images = np.concatenate(list(test.batches(np.array_split(rows, max(1, count // 256)), size=recipe.image_size)))
    folder = None if wanted["stimuli"] is None else Path(wanted["stimuli"])
    groups = coarse_classes(test.classes, folder)
    labels = test.labels[rows]
    if folder is None:
        stimuli = [hybrids(images, labels, test.classes, seed=wanted["seed"])]
    else:
        stimuli = read_stimuli(folder, list(groups), size=images.shape[1], channels=images.shape[3])
    return _Material(recipe, test.classes, images, labels, groups, tuple(stimuli))


@lru_cache(maxsize=256)
def _corrupted(shown: str, corruption: str, severity: int) -> NDArray[np.uint8]:
    return corrupt(_material(shown).images, corruption, severity, seed=json.loads(shown)["seed"])


def answer(common: dict[str, Any], weights: str) -> dict[str, Any]:
    """Ask one network about clean and corrupted test images and about the stimuli."""
    shown = json.dumps({name: value for name, value in common.items() if name not in ("corruptions", "severities")})
    material = _material(shown)
    network = open_network(material.recipe, weights, classes=material.classes, channels=material.images.shape[3])

    def logits(images: NDArray[np.uint8]) -> NDArray[np.float64]:
        blank = np.zeros(len(images), np.int64)
        asked = Examples(images, blank, material.classes, np.arange(len(images)))
        return network.logits(asked).astype(np.float64)

    def accuracy(images: NDArray[np.uint8]) -> float:
        return float((logits(images).argmax(axis=1) == material.labels).mean())

    return {
        "clean": accuracy(material.images),
        "corrupted": {
            kind: [accuracy(_corrupted(shown, kind, severity)) for severity in common["severities"]]
            for kind in common["corruptions"]
        },
        "decisions": {
            entry.dataset: map_decisions(softmax(logits(entry.images), axis=1), material.groups).tolist()
            for entry in material.stimuli
        },
    }
