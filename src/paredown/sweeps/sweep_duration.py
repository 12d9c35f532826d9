"""About how long a sweep will take: the speed of a few training steps, times the steps that are left."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from paredown.metrics import METRICS
from paredown.scoring.costs import plan_trainings
from paredown.sweeps.grid import Run, ScoringJob
from paredown.sweeps.jobs import student_steps
from paredown.sweeps.settings import Scorer
from paredown.training import Recipe
from paredown.training.ensembles import MEMBERS_AT_ONCE, trains_stacked
from paredown.training.schedule import steps_per_epoch

_PLANNED = ("recipe", "members", "epochs", "subset", "folds")  # options that decide how much is trained

Workload = tuple[Recipe, int, list[int]]  # recipe, networks trained together, steps of every job


def student_workload(recipe: Recipe, runs: Sequence[Run], steps: int | None) -> Workload:
    """The steps of every student."""
    kept = [max(1, round(run.keep_fraction * run.initial_size)) for run in runs]
    return recipe, 1, [student_steps(recipe, run, n, steps) for run, n in zip(runs, kept, strict=True)]


def probe_workloads(scorings: Sequence[ScoringJob], scorers: Mapping[str, Scorer]) -> list[Workload]:
    """The steps of the probes behind every scoring; metrics that train nothing are left out."""
    found = []
    for scoring in scorings:
        scorer = scorers[scoring.metric]
        if scorer.metric is None or "training" not in METRICS[scorer.metric].needs:
            continue
        options = {name: value for name, value in scorer.options.items() if name in _PLANNED}
        for training in plan_trainings([scorer.metric], scoring.initial_size, **options):
            together = min(training.models, MEMBERS_AT_ONCE) if trains_stacked(training.recipe) else 1
            steps = training.epochs * steps_per_epoch(training.examples, training.recipe.batch_size)
            found.append((training.recipe, together, [steps * -(-training.models // together)]))
    return found


def total_seconds(workloads: Sequence[Workload], seconds: Sequence[float], workers: int) -> float:
    """Of all jobs on so many workers, at the measured seconds per step; no less than the longest job."""
    jobs = [each * steps for (_, _, parts), each in zip(workloads, seconds, strict=True) for steps in parts]
    return max(sum(jobs) / workers, max(jobs, default=0.0))
