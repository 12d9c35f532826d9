"""Jobs of a sweep that need no torch, for tests that start many processes: students are nearest class means."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from paredown.sweeps import jobs, sweep
from paredown.training import Examples, Recipe
from paredown.workers import Crew

SECONDS = 0.05  # that a student takes, so that there is a moment to be killed in


@dataclass(frozen=True)
class ClassMeans:
    """Classifies by the nearest mean."""

    means: NDArray[Any]
    history = ()

    def logits(self, test: Examples) -> NDArray[Any]:
        return -np.square(test.inputs[:, None] - self.means).sum(axis=2)


def train(recipe: Recipe, examples: Examples, *, rows: NDArray[np.int64], **_: Any) -> ClassMeans:
    time.sleep(SECONDS)
    labels = examples.labels[rows]
    return ClassMeans(np.stack([examples.inputs[rows][labels == code].mean(axis=0) for code in np.unique(labels)]))


def score_initial_set(common: Any, job: Any) -> str:
    return jobs.score_initial_set(common, job)


def run_student(common: Any, job: Any) -> str:
    jobs.train = train  # type: ignore[assignment]
    return jobs.run_student(common, job)


def sweep_quickly(config: dict[str, Any], out: Path, *, workers: int) -> pa.Table:
    """A sweep in worker processes, as the real one."""
    with Crew() as crew:
        engine = lambda function, jobs_, **given: crew.run_jobs(f"{__name__}:{function.split(':')[1]}", jobs_, **given)
        return sweep(config, out=out, workers=workers, engine=engine).table
