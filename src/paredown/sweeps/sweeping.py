"""Run a sweep: resumable, in parallel processes, one table at the end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

from paredown.checkpoint import keep_settings
from paredown.display import Introduced, data_frame, shorten
from paredown.engines import Engine, open_engine
from paredown.errors import PareError
from paredown.files import check_apart, claim_folder, clear_below, file_digest, locked, write_whole
from paredown.places import as_place
from paredown.progress import Track, silent
from paredown.records import DIGESTS, digest, read_record, write_record
from paredown.score_files import PARQUET_OPTIONS, provenance_metadata
from paredown.sweeps.grid import Run, ScoringJob, expand, scorings
from paredown.sweeps.jobs import read_result, read_scores, write_result
from paredown.sweeps.settings import Scorer, Settings, read_settings
from paredown.sweeps.sweep_data import align_scores, open_sources, prepare_data, streamed_sources
from paredown.sweeps.sweep_duration import probe_workloads, student_workload, total_seconds
from paredown.training import find_recipe
from paredown.training.devices import available_workers
from paredown.version import __version__
from paredown.workers import Crew, Outcome

if TYPE_CHECKING:
    import pandas as pd

PLAN = "plan.json"  # the names of all runs, by which `paredown info` tells how many are left

# How the jobs of a sweep are run: `function(common, job)` for each, outcomes as they come. A `Crew` does it in local
# processes; the `run_jobs` of an engine may take its place.
RunJobs = Callable[..., Iterable[Outcome]]


@dataclass(frozen=True)
class SweepPlan:
    """A sweep before it runs: its runs, their files, and what is left to do."""

    settings: Settings
    folder: Path
    identity: dict[str, Any]  # what every result depends on
    files: dict[Run, Path]
    todo: tuple[Run, ...]


@dataclass(frozen=True, repr=False)
class SweepResult(Introduced):
    """A finished sweep."""

    folder: Path
    table: pa.Table  # one row per run, see docs/sweeps.md
    failed: tuple[tuple[Run, str], ...]  # runs that ended in an error, and why
    unfinished: tuple[tuple[Run, str], ...]  # runs whose process died; the same command tries them again

    def introduce(self) -> dict[str, str]:
        facts = {"folder": str(self.folder), "runs": f"{self.table.num_rows:,}"}
        for name in ("initial_size", "keep_fraction", "strategy", "metric"):
            values = sorted({value for value in self.table[name].to_pylist() if value is not None})
            facts[name] = shorten(f"{value:g}" if isinstance(value, float) else value for value in values)
        facts |= {"failed": f"{len(self.failed):,}"} if self.failed else {}
        return facts | ({"unfinished": f"{len(self.unfinished):,}"} if self.unfinished else {})

    def to_pandas(self) -> pd.DataFrame:
        """The table of runs as a data frame."""
        return data_frame({name: self.table[name].to_pylist() for name in self.table.column_names})


def sweep(
    config: str | Path | Mapping[str, Any] | Settings,
    *,
    out: str | Path,
    workers: int | None = None,
    retry_failed: bool = False,
    track: Track = silent,
    engine: str | Engine | RunJobs = "local",
    address: str | None = None,
) -> SweepResult:
    """Train a student for every point of a grid of initial sizes, kept fractions, strategies, metrics and seeds.

    Every run is a file of its own under `out`, named by a hash of all that decides it. A sweep that was killed is
    finished by the same call; one with another grid keeps what it shares; one with other data or recipes is refused.

    Args:
        config: a TOML file, a dictionary of the same shape, or settings.
        out: folder for results; `results.parquet` is the table.
        workers: processes, each on one thread; if not given, one per GPU, or else one per core.
        retry_failed: run again what ended in an error before.
        track: reports progress.
        engine, address: where, see `engines.open_engine`; `local` is in processes of this machine. A function with the
            signature of `Crew.run_jobs` will do, too.
    """
    plan = plan_sweep(config, out=out, retry_failed=retry_failed, track=track)
    return sweep_plan(plan, workers=workers, track=track, engine=engine, address=address)


def sweep_plan(
    plan: SweepPlan,
    *,
    workers: int | None = None,
    track: Track = silent,
    engine: str | Engine | RunJobs = "local",
    address: str | None = None,
    announce: Callable[[float], None] | None = None,
) -> SweepResult:
    """Do what is left of a plan; see `sweep`.

    `announce` is called before the work with about how many seconds it will take, from a few measured training steps.
    """
    if workers is not None and workers < 1:
        raise PareError(f"workers must be at least 1, got {workers}.")
    named = plan.folder
    files = {run: Path(os.path.abspath(file)) for run, file in plan.files.items()}
    plan = replace(plan, folder=Path(os.path.abspath(named)), files=files)  # workers may run in another folder
    with locked(plan.folder), _running(plan, engine, address, workers) as (run_jobs, workers):
        (plan.folder / DIGESTS).unlink(missing_ok=True)  # of what is about to change
        if announce is not None and (seconds := _estimate(plan, workers, run_jobs)) is not None:
            announce(seconds)
        lost = _score(plan, workers, track, run_jobs)
        died = {run: reason for run, reason in lost.items() if not plan.files[run].exists()}
        died |= _train(plan, lost, workers, track, run_jobs)
        table = _collect(plan)
    failed = [(run, result["reason"]) for run, result in _results(plan).items() if result["status"] == "failed"]
    return SweepResult(named, table, tuple(failed), tuple(died.items()))


@contextmanager
def _running(
    plan: SweepPlan, engine: str | Engine | RunJobs, address: str | None, workers: int | None
) -> Iterator[tuple[RunJobs, int]]:
    """Who runs the jobs, and how many at once."""
    if callable(engine) or (engine == "local" and address is None):
        with Crew() as crew:  # those who scored go on to train: torch takes seconds to import
            run_jobs = engine if callable(engine) else crew.run_jobs
            yield run_jobs, available_workers() if workers is None else workers
        return
    with open_engine(engine, address=address, workers=workers) as running:
        data = plan.folder / "data"
        running.check_places([str(data), *streamed_sources(data)], str(plan.folder))
        yield running.run_jobs, running.workers


def plan_sweep(
    config: str | Path | Mapping[str, Any] | Settings,
    *,
    out: str | Path,
    retry_failed: bool = False,
    track: Track = silent,
) -> SweepPlan:
    """Read the settings, prepare the data, and find out what is left to do."""
    settings = config if isinstance(config, Settings) else read_settings(config)
    folder = as_place(out)
    recipe = settings.student.resolve()
    forms = {recipe.inputs: recipe}
    for scorer in map(settings.probe.find, settings.grid.metric):
        probe = find_recipe(scorer.options.get("recipe", "mlp"))
        if scorer.inputs is not None:
            forms.setdefault(scorer.inputs, probe if probe.inputs == scorer.inputs else find_recipe("mlp"))
    check_apart(folder, settings.data.paths())
    sources = open_sources(settings.data)
    largest, examples = max(settings.grid.initial_size), len(sources[0])
    if largest > examples:
        raise PareError(
            f"[grid] initial_size asks for {largest:,} examples, and {settings.data.source} has {examples:,}; "
            "leave out the larger sizes."
        )
    with locked(folder):
        claim_folder(folder, "sweep", earlier=["settings.json"])
        clear_below(folder)
        found = prepare_data(settings.data, sources, forms, folder / "data", track=track)
        identity = {"paredown": __version__, "found": found, **settings.identity()}
        keep_settings(folder, identity, kind="sweep")
        runs = expand(settings.grid)
        scorers = {name: _identity_of(settings.probe.find(name)) for name in settings.grid.metric}
        files = {run: folder / "runs" / f"{run.name(identity, scorers.get(run.metric))}.json" for run in runs}
        planned = {"runs": [file.stem for file in files.values()]}
        if read_record(folder / PLAN) != planned:
            write_record(folder / PLAN, planned)
    results = {run: read_result(file, run) for run, file in files.items()}
    again = {None, "failed"} if retry_failed else {None}
    todo = tuple(run for run, result in results.items() if (result or {}).get("status") in again)
    return SweepPlan(settings, folder, identity, files, todo)


def _estimate(plan: SweepPlan, workers: int, engine: RunJobs) -> float | None:
    """About how many seconds are left; None if nothing is, or if it cannot be measured."""
    if not plan.todo:
        return None
    student = plan.settings.student
    scorers = {name: plan.settings.probe.find(name) for name in plan.settings.grid.metric}
    needed = _unscored(plan)
    loads = [student_workload(student.resolve(), plan.todo, student.steps), *probe_workloads(needed, scorers)]
    jobs = [{"recipe": recipe.settings(), "together": together} for recipe, together, _ in loads]
    different = {digest(job): job for job in jobs}
    common = {"data": str(plan.folder / "data")}
    found = engine("paredown.sweeps.jobs:measure_step", [*different.values()], workers=1, common=common)
    measured = {list(different)[outcome.job]: outcome.value for outcome in found}
    if None in measured.values():
        return None
    return total_seconds(loads, [measured[digest(job)] for job in jobs], workers)


def _unscored(plan: SweepPlan) -> list[ScoringJob]:
    """The initial sets that runs are waiting for."""
    return [scoring for scoring in scorings(list(plan.todo)) if read_scores(_scores_file(plan, scoring)) is None]


def _score(plan: SweepPlan, workers: int, track: Track, engine: RunJobs) -> dict[Run, str]:
    """Score what is not scored yet; the runs whose scores could not be made, and why."""
    needed = _unscored(plan)
    given = {scoring for scoring in needed if _scorer(plan, scoring).scores is not None}
    for name in sorted({scoring.metric for scoring in given}):
        scoring = next(scoring for scoring in given if scoring.metric == name)
        align_scores(plan.settings.data, _scorer(plan, scoring), _scores_file(plan, scoring))
    needed = [scoring for scoring in needed if scoring not in given]
    jobs = [
        {
            "scoring": asdict(scoring),
            "metric": _scorer(plan, scoring).metric,
            "options": dict(_scorer(plan, scoring).options),
            "file": str(_scores_file(plan, scoring)),
        }
        for scoring in needed
    ]
    lost = {}
    for outcome in _outcomes("score_initial_set", jobs, plan, workers, track, engine, "scoring initial sets"):
        waiting = [run for run in plan.todo if run.scoring == needed[outcome.job]]
        reason = f"its scores could not be made: {outcome.error or outcome.value}"
        if outcome.value is not None:  # trying again would not help
            for run in waiting:
                write_result(run, plan.files[run], status="failed", reason=reason, seconds=0.0)
        if outcome.value is not None or outcome.error is not None:
            lost |= dict.fromkeys(waiting, reason)
    return lost


def _train(plan: SweepPlan, lost: dict[Run, str], workers: int, track: Track, engine: RunJobs) -> dict[Run, str]:
    """Train the students; the runs whose process died, and how."""
    # The longest first, so that no worker is left alone with one at the end.
    todo = sorted((run for run in plan.todo if run not in lost), key=lambda run: -run.initial_size)
    jobs = [
        {
            "run": asdict(run),
            "scores": None if run.scoring is None else str(_scores_file(plan, run.scoring)),
            "file": str(plan.files[run]),
        }
        for run in todo
    ]
    outcomes = _outcomes("run_student", jobs, plan, workers, track, engine, "training students")
    return {todo[outcome.job]: outcome.error for outcome in outcomes if outcome.error is not None}


def _outcomes(
    function: str, jobs: list[Any], plan: SweepPlan, workers: int, track: Track, engine: RunJobs, label: str
) -> Iterable[Outcome]:
    common = {
        "data": str(plan.folder / "data"),
        "recipe": plan.settings.student.resolve().settings(),
        "steps": plan.settings.student.steps,
        "keep_weights": plan.settings.student.keep_weights,
        "test_every_epoch": plan.settings.student.test_every_epoch,
    }
    if not jobs:
        return
    outcomes: Any = engine(f"paredown.sweeps.jobs:{function}", jobs, workers=workers, common=common)
    with closing(outcomes):
        yield from track(outcomes, label, total=len(jobs))


def _scorer(plan: SweepPlan, scoring: ScoringJob) -> Scorer:
    return plan.settings.probe.find(scoring.metric)


def _identity_of(scorer: Scorer) -> dict[str, Any]:
    """What decides the scores, as plain values: of a file, its content."""
    if scorer.scores is None:
        return {"metric": scorer.metric, "options": dict(scorer.options)}
    try:
        return {"scores": file_digest(as_place(scorer.scores)), "column": scorer.metric}
    except OSError as error:
        raise PareError(f"{scorer.scores}: the scores cannot be read ({error.strerror}).") from error


def _scores_file(plan: SweepPlan, scoring: ScoringJob) -> Path:
    """Where the scores of an initial set are; those of a file are the same for all of them."""
    identity = _identity_of(_scorer(plan, scoring))
    own = {} if "scores" in identity else {"initial_size": scoring.initial_size, "seed": scoring.seed}
    return plan.folder / "scores" / f"{digest({**identity, **own, **plan.identity['found']}, 20)}.npy"


def _results(plan: SweepPlan) -> dict[Run, dict[str, Any]]:
    found = {run: read_result(file, run) for run, file in plan.files.items()}
    return {run: result for run, result in found.items() if result is not None}


MEASURED = {
    "kept": pa.int64(),
    "steps": pa.int64(),
    "test_error": pa.float64(),
    "top5_error": pa.float64(),
    "test_loss": pa.float64(),
    "class_accuracy": pa.list_(pa.float64()),
    "class_kept": pa.list_(pa.int64()),
    "missing_classes": pa.list_(pa.string()),
    "epoch_errors": pa.list_(pa.float64()),
    "status": pa.string(),
    "reason": pa.string(),
}


def _collect(plan: SweepPlan) -> pa.Table:
    """Write `results.parquet`, one row per run that ended, and `timings.parquet`, which no two sweeps share."""
    results = _results(plan)
    settings = [asdict(run) for run in results]
    names = [plan.files[run].stem for run in results]
    columns: dict[str, Any] = {key: pa.array([run[key] for run in settings]) for key in settings[0]} if settings else {}
    columns |= {key: pa.array([r.get(key) for r in results.values()], kind) for key, kind in MEASURED.items()}
    table = pa.table({"run": names, **columns}).replace_schema_metadata(provenance_metadata(plan.identity))
    timings = pa.table({"run": names, "seconds": [result["seconds"] for result in results.values()]})
    for name, content in (("results", table), ("timings", timings)):
        with write_whole(plan.folder / f"{name}.parquet") as part:
            pq.write_table(content, part, **PARQUET_OPTIONS)
    made = [*plan.folder.glob("*.parquet"), *plan.folder.glob("scores/*.npy"), *plan.folder.glob("runs/*.pt")]
    digests = {file.relative_to(plan.folder).as_posix(): file_digest(file) for file in sorted(made)}
    write_record(plan.folder / DIGESTS, {"sha256": digests})
    return table
