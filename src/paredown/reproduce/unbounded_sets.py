"""Pruning where the initial set has no end: MNIST deformed anew for every number, scored in one pass, never stored.

A few probes learn from a fixed part of their own and score the initial set as it is generated; the cut takes the
hardest `kept` of `kept / keep_fraction` examples, and only these are generated again and trained on. Labels are those
of the originals, or those that a wider network gives, which a network can learn.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from paredown.deformed_images import Deformation, DeformedImages
from paredown.files import write_whole
from paredown.metrics import el2n
from paredown.records import digest
from paredown.reproduce.stacked_networks import PixelScale, StackedNetworks
from paredown.reproduce.trained_networks import as_recipe
from paredown.scores import Labels
from paredown.selection import select
from paredown.sources import ArrayImages, open_source

LABELS = ("true", "teacher")
RANDOM = "random"
_BLOCK = 65_536  # of the initial set, generated and scored at once
_PROBING, _TEACHING, _TESTING = 1, 2, 3  # sequences of images beside the initial set, which is 0


@dataclass(frozen=True)
class UnboundedSettings:
    """What an experiment on unbounded initial sets is made of; `common` of its jobs."""

    source: str  # of the originals
    folder: str  # where scores are kept
    student: dict[str, Any]  # settings of a recipe
    teacher: dict[str, Any]
    initial: int  # examples scored
    fractions: tuple[float, ...]  # without 1, which is random subsets
    deformed: float  # how strongly, as a factor to the defaults of `Deformation`
    drop_hardest: float  # share of the initial set that `window` leaves out
    steps: int  # of a student, at least
    epochs: int  # of a student, at least
    probes: int
    probe_examples: int
    probe_steps: int
    teacher_examples: int
    teacher_steps: int
    tests: int

    @property
    def arms(self) -> list[tuple[str, float]]:
        """Every way to get a training set from an initial set."""
        return [(RANDOM, 1.0), *((way, fraction) for way in ("hard", "window") for fraction in self.fractions)]

    def student_steps(self, kept: int) -> int:
        """Steps of every student on so many examples, however they were chosen."""
        return max(self.steps, -(-self.epochs * kept // self.student["batch_size"]))


class ScoredSet:
    """The initial set of a seed: labels and scores of all numbers, and the labels of the test images."""

    def __init__(self, settings: UnboundedSettings, seed: int) -> None:
        self.settings, self.seed = settings, seed
        of_students = ("folder", "fractions", "steps", "epochs")
        named = {name: value for name, value in asdict(settings).items() if name not in of_students}
        self.file = Path(settings.folder) / f"scored-{digest({**named, 'seed': seed}, 20)}.npz"

    def read(self) -> dict[str, NDArray[Any]]:
        """`labels` and `scores` (kinds of labels, numbers), `test_labels`; made first if they are not there."""
        if not self.file.exists():
            made = _score(self.settings, self.seed)
            self.file.parent.mkdir(parents=True, exist_ok=True)
            with write_whole(self.file) as part, part.open("wb") as stream:
                np.savez(stream, **made)  # type: ignore[arg-type]
        with np.load(self.file, allow_pickle=False) as stored:
            return dict(stored)


def score_initial_set(common: dict[str, Any], seed: int) -> dict[str, Any]:
    """A job: score the initial set of a seed. What it says of the teacher and the probes."""
    scored = ScoredSet(_settings(common), seed).read()
    true, taught = scored["labels"]
    return {
        "teacher_error": float(np.mean(scored["test_labels"][1] != scored["test_labels"][0])),
        "relabelled": float(np.mean(true != taught)),
        "probe_errors": scored["probe_errors"].mean(axis=1).tolist(),
    }


def train_students(common: dict[str, Any], job: Sequence[int]) -> list[dict[str, Any]]:
    """A job: every student of a seed on so many kept examples, side by side, and their test errors."""
    settings, (seed, kept) = _settings(common), job
    scored = ScoredSet(settings, seed).read()
    endless, _ = _endless(settings, seed)
    members = [(kind, *arm) for kind in range(len(LABELS)) for arm in settings.arms]
    chosen = [
        cut(scored["scores"][kind], kept, fraction, way, drop_hardest=settings.drop_hardest)
        for kind, way, fraction in members
    ]
    numbers, rows = np.unique(np.concatenate(chosen), return_inverse=True)
    labels = np.stack([scored["labels"][kind][own] for (kind, *_), own in zip(members, chosen, strict=True)])
    seeds = [1000 * seed + place % len(settings.arms) for place in range(len(members))]  # label kinds share theirs
    students = _networks(settings.student, endless, seeds)
    images, rows = _flat(endless.images(numbers)), rows.reshape(len(members), kept)
    students.train(images, rows, labels, settings.student_steps(kept))
    test, _ = _endless(settings, seed, _TESTING)
    votes = students.votes(_flat(test.images(np.arange(settings.tests))))
    return [
        {"labels": LABELS[kind], "strategy": way, "keep_fraction": fraction, "kept": kept, "seed": seed}
        | {"test_error": float(np.mean(votes[member] != scored["test_labels"][kind]))}
        for member, (kind, way, fraction) in enumerate(members)
    ]


def cut(
    scores: NDArray[np.float32], kept: int, keep_fraction: float, strategy: str, *, drop_hardest: float
) -> NDArray[np.int64]:
    """The numbers to train on: the hardest, with or without the very hardest, of the first `kept / keep_fraction`.

    As the sequence has no order, its first numbers are a random subset, and those of any initial set.
    """
    initial = round(kept / keep_fraction)
    if strategy == RANDOM:
        return np.arange(kept)
    found = select(scores[:initial], keep_fraction=kept / initial, strategy=strategy, drop_hardest=drop_hardest)
    return found.indices


# --- networks ------------------------------------------------------------------------------------------------------


def _score(settings: UnboundedSettings, seed: int) -> dict[str, NDArray[Any]]:
    """Train the teacher and the probes, and pass over the initial set once."""
    teaching, labels = _endless(settings, seed, _TEACHING)
    teacher = _networks(settings.teacher, teaching, [1000 * seed + 900])
    numbers = np.arange(settings.teacher_examples)
    known = labels[teaching.rows(numbers)]
    teacher.train(_flat(teaching.images(numbers)), numbers[None], known[None], settings.teacher_steps)

    probing, _ = _endless(settings, seed, _PROBING)
    numbers = np.arange(settings.probe_examples)
    images = _flat(probing.images(numbers))
    both = np.stack([labels[probing.rows(numbers)], teacher.votes(images)[0]])
    kinds = np.repeat(np.arange(len(LABELS)), settings.probes)
    probes = _networks(settings.student, probing, [1000 * seed + 800 + member for member in range(len(kinds))])
    probes.train(images, np.tile(numbers, (len(kinds), 1)), both[kinds], settings.probe_steps)

    endless, _ = _endless(settings, seed)
    found = np.empty((len(LABELS), settings.initial), np.uint8)
    scores = np.empty((len(LABELS), settings.initial), np.float32)
    for first in range(0, settings.initial, _BLOCK):
        numbers = np.arange(first, min(first + _BLOCK, settings.initial))
        images = _flat(endless.images(numbers))
        found[:, numbers] = labels[endless.rows(numbers)], teacher.votes(images)[0]
        for rows, logits in probes.logits(images):
            for kind in range(len(LABELS)):
                own = softmax(logits[kinds == kind], axis=2)
                scores[kind, numbers[rows]] = el2n(own, found[kind, numbers[rows]])

    testing, test_labels = _endless(settings, seed, _TESTING)
    numbers = np.arange(settings.tests)
    images = _flat(testing.images(numbers))
    truth = np.stack([test_labels[testing.rows(numbers)], teacher.votes(images)[0]])
    wrong = np.mean(probes.votes(images) != truth[kinds], axis=1).reshape(len(LABELS), -1)
    return {"labels": found, "scores": scores, "test_labels": truth, "probe_errors": wrong}


def _endless(settings: UnboundedSettings, seed: int, sequence: int = 0) -> tuple[DeformedImages, NDArray[np.uint8]]:
    """A sequence of images of a seed, with the labels of its originals: those for testing, or those for training."""
    source = open_source(settings.source, split="test" if sequence == _TESTING else "train")
    assert isinstance(source, ArrayImages)
    assert isinstance(source.labels, Labels)
    pixels = source.pixels.reshape(source.pixels.shape[:3])
    deformation = Deformation().times(settings.deformed)
    return DeformedImages(pixels, 10 * seed + sequence, deformation), source.labels.codes.astype(np.uint8)


def _networks(settings: dict[str, Any], images: DeformedImages, seeds: Sequence[int]) -> StackedNetworks:
    pixels = int(np.prod(images.originals.shape[1:]))
    return StackedNetworks(as_recipe(settings), pixels, 10, PixelScale.of(images.originals), seeds)


def _settings(common: dict[str, Any]) -> UnboundedSettings:
    return UnboundedSettings(**common)


def _flat(images: NDArray[np.uint8]) -> NDArray[np.uint8]:
    return images.reshape(len(images), -1)
