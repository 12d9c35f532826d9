"""Draws on several cores.

Workers are plain child processes that are given a job as JSON and answer with one line per draw. Unlike the pools of
the standard library they neither fork a process that has threads nor import the caller's script again, so a script
needs no `if __name__ == "__main__"`. JSON keeps every bit of a float.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Iterable, Iterator
from contextlib import closing
from dataclasses import asdict
from queue import SimpleQueue
from threading import Thread
from time import perf_counter
from typing import IO

from paredown.errors import PareError
from paredown.perceptron.draw import Draw, Setting, run_draw
from paredown.progress import Track

__all__ = ["run_draws"]

SHORT_JOB_SECONDS = 2.0  # starting workers takes about half a second


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
        workers = 1 if short else _available_cores()
    workers = min(workers, len(todo))
    yield from _run_here(setting, seed, todo) if workers <= 1 else _run_in_processes(setting, seed, todo, workers)


def _available_cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _run_here(setting: Setting, seed: int, indices: Iterable[int]) -> Iterator[tuple[int, Draw]]:
    for index in indices:
        yield index, run_draw(setting, seed, index)


def _run_in_processes(setting: Setting, seed: int, indices: range, workers: int) -> Iterator[tuple[int, Draw]]:
    answers: SimpleQueue[str] = SimpleQueue()
    processes: list[subprocess.Popen[str]] = []
    try:
        for first in range(workers):
            process = _start_worker(setting, seed, indices[first::workers])
            processes.append(process)
            Thread(target=_forward, args=(process.stdout, answers), daemon=True).start()
        missing, running = len(indices), workers
        while missing:
            answer = json.loads(answers.get())
            if "error" in answer:
                raise PareError(answer["error"])
            if "draw" in answer:
                missing -= 1
                yield answer["index"], Draw(*answer["draw"])
            else:
                running -= 1
                if running == 0 and missing:
                    raise RuntimeError(f"the workers ended with {missing} draws undone; their stderr says why")
    finally:
        for process in processes:
            process.kill()
            process.wait()


def _start_worker(setting: Setting, seed: int, indices: range) -> subprocess.Popen[str]:
    job = {"setting": asdict(setting), "seed": seed, "indices": (indices.start, indices.stop, indices.step)}
    return subprocess.Popen(
        [sys.executable, "-c", f"import {__name__} as workers; workers.answer()", json.dumps(job)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)},
    )


def _forward(lines: IO[str], answers: SimpleQueue[str]) -> None:
    """Pass a worker's answers on until it ends, then say so."""
    with lines:
        for line in lines:
            answers.put(line)
    answers.put('{"ended": true}')


def answer() -> None:
    """The worker's side: run the draws that its argument asks for, one line on stdout each."""
    job = json.loads(sys.argv[1])
    window = job["setting"]["window"]
    setting = Setting(**{**job["setting"], "window": None if window is None else tuple(window)})
    try:
        for index, draw in _run_here(setting, job["seed"], range(*job["indices"])):
            print(json.dumps({"index": index, "draw": draw}), flush=True)
    except PareError as error:
        print(json.dumps({"error": str(error)}), flush=True)
