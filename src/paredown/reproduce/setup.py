"""What a figure is made with: its size and seed, its data, and the trainings and scorings it asks for.

Sweeps and scores are parts that figures share: each is kept in a folder named by a hash of its settings, so that a
stopped run continues where it left off and a second figure finds what the first has trained.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from paredown.errors import PareError
from paredown.files import is_own
from paredown.progress import Track, silent
from paredown.records import digest, read_record, write_record
from paredown.reproduce.base import SIZES, Size
from paredown.reproduce.data_folders import Dataset, find_dataset
from paredown.score_files import provenance_in, read_scores, write_scores, write_sidecar
from paredown.scores import Scores
from paredown.scoring import score_all
from paredown.sources import load_column, open_source
from paredown.sweeps import SweepResult, plan_sweep, read_settings, sweep_plan
from paredown.training import Recipe
from paredown.version import __version__
from paredown.workers import available_cores, run_jobs

T = TypeVar("T")


@dataclass(frozen=True)
class SharedScoring:
    """Scores of a whole training set by several metrics, made once for all figures that look at them."""

    data: Mapping[str, str]  # as in `[data]` of a sweep; `ids` is a file of ids in place of the source's own
    metrics: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    repeat: int = 0  # which of several drawings of networks and clusters, so that luck in scoring counts


@dataclass(frozen=True)
class SharedScores:
    """Scores by metric, and the file that holds them, a column each."""

    file: Path
    scores: dict[str, Scores]

    def __getitem__(self, metric: str) -> Scores:
        return self.scores[metric]


@dataclass(frozen=True)
class FigurePlan:
    """All that a figure trains, as values: `measure` does it, and a rehearsal checks it."""

    sweeps: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)  # name -> configuration of `paredown.sweep`
    scorings: Mapping[str, SharedScoring] = field(default_factory=dict)  # name -> what is scored outside of sweeps
    networks: tuple[tuple[Recipe, Dataset], ...] = ()  # others that are trained, each with its data set
    datasets: tuple[Dataset, ...] = ()  # that sweeps and scorings take their `data` from

    def dataset(self, data: Mapping[str, str]) -> Dataset:
        """The data set that a `[data]` belongs to."""
        known = {d.location: d for d in self.datasets if d.has_images} | {
            d.features()["source"]: d for d in self.datasets
        }
        assert data["source"] in known, f"a plan uses {data['source']} and does not list it"
        return known[data["source"]]


@dataclass(frozen=True)
class Setup:
    """What a figure's `measure` is given."""

    scale: str  # `tiny`, `cpu` or `paper`
    seed: int  # of everything drawn
    parts: Path  # folder for what can be used again
    needs: Mapping[str, Sequence[str]] = field(default_factory=dict)  # role -> data sets at this scale, the best first
    given: Path | None = None  # the user's folder of data sets
    workers: int | None = None  # processes; one per core if None
    track: Track = silent
    rehearsal: bool = False  # nothing is trained, and data need not be there
    overnight: bool = False  # the scale is `cpu`, and what `choose` is given for `overnight` replaces that of `cpu`

    @property
    def size(self) -> Size:
        """How large simulations of perceptrons are."""
        return SIZES[self.scale]

    @classmethod
    def at_size(cls, size: str, *args: Any, **settings: Any) -> Setup:
        """At one of `SIZES`: `overnight` is the scale `cpu` with its data, and more work where a figure says so."""
        return cls("cpu" if size == "overnight" else size, *args, overnight=size == "overnight", **settings)

    def choose(self, *, tiny: T, cpu: T, paper: T, overnight: T | None = None) -> T:
        """What belongs to the size."""
        if self.overnight and overnight is not None:
            return overnight
        return {"tiny": tiny, "cpu": cpu, "paper": paper}[self.scale]

    def seeds(self, number: int) -> list[int]:
        """Seeds for repeated trainings."""
        return list(range(self.seed, self.seed + number))

    def dataset(self, role: str = "main", *, limit: int | None = None) -> Dataset:
        """The data set in a role; `limit` is how many of its examples are used at most."""
        found = find_dataset(self.needs[role], self.given, self.parts / "data", rehearsal=self.rehearsal)
        return found if limit is None or limit >= found.examples else replace(found, limit=limit)

    def sweep(self, config: Mapping[str, Any]) -> SweepResult:
        """Do a sweep, or what is left of it. Sweeps that differ in their grids or named probes share their runs."""
        settings = read_settings(config)
        folder = self.parts / f"sweep-{digest(settings.identity(), 20)}"
        plan = plan_sweep(settings, out=folder, track=self.track)
        swept = sweep_plan(plan, workers=self.workers, track=self.track)
        if swept.unfinished or swept.failed:
            reasons = [f"{run}: {reason}" for run, reason in (*swept.unfinished, *swept.failed)]
            raise PareError(f"{len(reasons)} students of {folder} were not trained, the first of them {reasons[0]}")
        return swept

    def scores_file(self, scoring: SharedScoring) -> Path:
        """Where the scores are, or will be: `[probe.NAME] scores = FILE` of a sweep that prunes by them."""
        named = {"data": dict(scoring.data), "options": dict(scoring.options), "seed": self.seed + scoring.repeat}
        named["metrics"] = list(scoring.metrics)
        return self.parts / f"scores-{digest(named, 20)}" / "scores.parquet"

    def score(self, scoring: SharedScoring) -> SharedScores:
        """Score by all metrics, those that are read off one training together, unless it was done before."""
        file = self.scores_file(scoring)
        folder = file.parent
        if not is_own(file):
            folder.mkdir(parents=True, exist_ok=True)
            data = scoring.data
            columns: Any = {name: load_column(Path(data[name])) for name in ("labels", "ids") if name in data}
            scores = score_all(
                open_source(data["source"], **columns),
                metrics=scoring.metrics,
                seed=self.seed + scoring.repeat,
                encoder=data.get("encoder", "auto"),
                checkpoint=folder / "unfinished",
                track=self.track,
                **scoring.options,
            )
            file.unlink(missing_ok=True)  # damaged, if it is there
            write_scores(list(scores.values()), file)
        write_sidecar(file, provenance_in(file))  # which a kill may have left out
        return SharedScores(file, {metric: read_scores(file, metric=metric) for metric in scoring.metrics})

    def run(self, function: str, jobs: Sequence[Any], *, common: Any, label: str) -> list[Any]:
        """`function(common, job)` for every job, in processes; what each returns is kept as soon as it is there.

        The function is named as for `paredown.workers.run_jobs`; with the jobs, plain values, it names what is kept.
        """
        identity = {"function": function, "common": common, "paredown": __version__}
        folder = self.parts / f"jobs-{digest(identity, 20)}"
        folder.mkdir(parents=True, exist_ok=True)
        files = [folder / f"{digest(job, 20)}.json" for job in jobs]
        todo = [number for number, file in enumerate(files) if read_record(file) is None]
        workers = available_cores() if self.workers is None else self.workers
        outcomes = run_jobs(function, [jobs[number] for number in todo], workers=workers, common=common)
        failed: list[str] = []
        with closing(outcomes):
            for outcome in self.track(outcomes, label, total=len(todo)):
                if outcome.error is None:
                    write_record(files[todo[outcome.job]], {"value": outcome.value})
                else:
                    failed.append(outcome.error)
        if failed:
            raise PareError(f"{label}: {len(failed)} of {len(todo)} failed, the first of them: {failed[0]}")
        return [(read_record(file) or {})["value"] for file in files]
