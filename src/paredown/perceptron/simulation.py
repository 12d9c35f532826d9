"""The teacher-student experiment over many draws, on all cores, with standard errors."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError, check_least
from paredown.perceptron.sampling import Draw, Setting, run_draw, window_mass
from paredown.progress import Track, silent
from paredown.standard_errors import standard_error
from paredown.workers import available_cores, run_jobs

SHORT_JOB_SECONDS = 2.0  # starting workers takes about half a second
_JOBS_PER_WORKER = 8  # a draw may take less than a millisecond, so a job is several


def _mean(name: str, doc: str) -> Any:
    """A property: the mean of a field of `Draw` over draws."""
    return property(lambda simulation: simulation.mean(name), doc=doc)


@dataclass(frozen=True)
class Simulation:
    """Means over draws; `stderr` is the standard error of `test_error`, `stderr_of` that of any other quantity."""

    setting: Setting
    seed: int
    draws: tuple[Draw, ...] = field(repr=False)

    def values(self, name: str) -> NDArray[np.float64]:
        """One value per draw of a field of `Draw`: test_error, R, rho, kappa, theta, n_support or seconds."""
        return np.array([getattr(draw, name) for draw in self.draws], dtype=np.float64)

    def mean(self, name: str) -> float:
        """The mean of a field of `Draw` over draws."""
        return float(self.values(name).mean())

    def stderr_of(self, name: str) -> float:
        """The standard error of that mean; NaN for a single draw."""
        return standard_error(self.values(name))

    # Means over draws, as properties.
    test_error = _mean("test_error", "Mean of arccos(R) / pi.")
    R = _mean("R", "Mean overlap of student and teacher.")
    rho = _mean("rho", "Mean overlap of student and probe.")
    kappa = _mean("kappa", "Mean margin of the unit-length student: the theory's kappa, of J.x / sqrt(N) at |J|^2 = N.")
    theta = _mean("theta", "Mean angle between probe and teacher in degrees, as realised.")
    seconds = _mean("seconds", "Mean clock time of one max-margin solution.")

    @property
    def stderr(self) -> float:
        """Standard error of `test_error`."""
        return self.stderr_of("test_error")


def simulate(
    alpha_prune: float,
    *,
    keep_fraction: float | None = None,
    theta: float | None = None,
    strategy: str = "hard",
    window: tuple[float, float] | None = None,
    n_features: int = 200,
    draws: int = 100,
    seed: int = 0,
    probe: str = "angle",
    probe_epochs: int = 1,
    hardness: str = "field",
    workers: int | None = None,
    track: Track = silent,
) -> Simulation:
    """Simulate pruning for the max-margin perceptron and measure the test error arccos(R) / pi.

    Sections "An analytic theory of data pruning" and "Perceptron in the teacher-student setting": teacher T uniform on
    the sphere, inputs x ~ N(0, I), labels sign(T.x); a probe ranks the examples, a fraction is kept, and the student is
    the exact max-margin solution on what is kept. The result depends on the seed alone, not on `workers`.

    Args:
        alpha_prune: kept examples per feature.
        keep_fraction: kept examples as a fraction of all; 1 if left out, or the mass of the window.
        theta: angle between probe and teacher in degrees, exactly; 0 if left out.
        strategy: "hard", "easy", "window" or "random".
        window: (a, b) for "window": keep a < |z| < b, z the field of the unit-length probe. It is realised by rank,
            from the fraction P(|z| < a) of the examples on, so that the number kept is exact.
        n_features: N.
        draws: independent draws of teacher, probe and examples.
        seed: any non-negative integer.
        probe: "angle" (at exactly `theta`) or "trained" (the perceptron rule for `probe_epochs` epochs on the unpruned
            examples; `.theta` of the result is the angle it reached).
        probe_epochs: epochs of a trained probe.
        hardness: "field" ranks by |z| as the theory does, "margin" by y z, which puts misclassified examples first.
        workers: processes; by default one per core, or none besides this one for a short job.
        track: progress, see `paredown.progress`.
    """
    if keep_fraction is None:
        keep_fraction = window_mass(window) if window is not None else 1.0
    elif window is not None:
        window_mass(window)  # reports a malformed window before a mismatch
    setting = Setting(
        alpha_prune=alpha_prune,
        keep_fraction=keep_fraction,
        theta=theta,
        strategy=strategy,
        window=window,
        n_features=n_features,
        probe=probe,
        probe_epochs=probe_epochs,
        hardness=hardness,
    )
    check_least(1, draws=draws, workers=workers)
    check_least(0, seed=seed)
    with closing(_choose_how(setting, seed, draws, workers)) as numbered:  # whatever happens, no worker outlives this
        results = dict(track(numbered, "draws", draws))
    return Simulation(setting, seed, tuple(results[index] for index in range(draws)))


def _choose_how(setting: Setting, seed: int, draws: int, workers: int | None) -> Generator[tuple[int, Draw]]:
    """Yield numbered draws as they finish; unless `workers` is given, the first draw tells if any are worth it."""
    todo = range(draws)
    if workers is None:
        start = perf_counter()
        yield from _run_here(setting, seed, todo[:1])
        todo = todo[1:]
        short = (perf_counter() - start) * len(todo) < SHORT_JOB_SECONDS
        workers = 1 if short else available_cores()
    workers = min(workers, len(todo))
    yield from _run_here(setting, seed, todo) if workers <= 1 else _run_in_processes(setting, seed, todo, workers)


def _run_here(setting: Setting, seed: int, indices: Iterable[int]) -> Iterator[tuple[int, Draw]]:
    for index in indices:
        yield index, run_draw(setting, seed, index)


def _run_in_processes(setting: Setting, seed: int, indices: range, workers: int) -> Iterator[tuple[int, Draw]]:
    each = -(-len(indices) // (_JOBS_PER_WORKER * workers))
    jobs = [list(indices[first : first + each]) for first in range(0, len(indices), each)]
    common = {"setting": asdict(setting), "seed": seed}
    # closed with this generator, so that its workers end with it
    with closing(run_jobs(f"{__name__}:answer", jobs, workers=workers, common=common)) as outcomes:
        for outcome in outcomes:
            if outcome.error is not None:
                raise PareError(f"a draw was not finished: {outcome.error}")
            for index, draw in outcome.value:
                yield index, Draw(*draw)


def answer(common: dict[str, Any], indices: list[int]) -> list[tuple[int, Draw]]:
    """The worker's side: some draws by their numbers."""
    window = common["setting"]["window"]
    setting = Setting(**{**common["setting"], "window": None if window is None else tuple(window)})
    return list(_run_here(setting, common["seed"], indices))
