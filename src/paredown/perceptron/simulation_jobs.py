"""Draws on several cores."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from time import perf_counter
from typing import Any

from paredown.errors import PareError
from paredown.perceptron.sampling import Draw, Setting, run_draw
from paredown.progress import Track
from paredown.workers import available_cores, run_jobs

SHORT_JOB_SECONDS = 2.0  # starting workers takes about half a second
_JOBS_PER_WORKER = 8  # a draw may take less than a millisecond, so a job is several


def run_draws(setting: Setting, seed: int, draws: int, *, workers: int | None, track: Track) -> tuple[Draw, ...]:
    """Run draws 0 to `draws` - 1; the results are the same, bit for bit, for any number of workers."""
    with closing(_choose_how(setting, seed, draws, workers)) as numbered:  # whatever happens, no worker outlives this
        results = dict(track(numbered, "draws", draws))
    return tuple(results[index] for index in range(draws))


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
