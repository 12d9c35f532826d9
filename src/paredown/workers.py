"""Jobs on several cores, in child processes that are given jobs as JSON and answer in JSON, one line each.

A script that uses these needs no `if __name__ == "__main__"`: they neither fork a process that has threads nor import
the script again. JSON keeps every bit of a float, and reading it runs no code, as unpickling would.

Measured against loky 3.7 with two workers, on two busy cores:

|                                           | this module  | loky                          |
|-------------------------------------------|--------------|-------------------------------|
| first answers of two workers              | 0.4 s        | 1.1 s                         |
| one of eight jobs kills its process       | 1 job lost   | 6 lost, and the pool with it  |
| Ctrl-C during long jobs: parent and workers end after | 0.1 s | more than 20 s           |
| parent killed: workers end after          | 0.1 s        | when their jobs end           |
| jobs and answers are sent as              | JSON         | pickle                        |

Both need no guard and can limit the threads of each process.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from importlib import import_module
from itertools import count
from pathlib import Path
from queue import SimpleQueue
from threading import Thread
from typing import Any, NamedTuple

from paredown.errors import PareError

_NUMBER = "PAREDOWN_WORKER"
DEBUG = "PAREDOWN_DEBUG"  # set: workers print the tracebacks of jobs that fail


class Outcome(NamedTuple):
    """How one job ended: with a value, or with the reason why there is none."""

    job: int  # its number
    value: Any
    error: str | None = None


def available_cores() -> int:
    """How many cores this process may use: of those it may run on, no more than a container's share of time allows."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([cores, *_time_limits(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))]))


def _time_limits(membership: Path, mounted: Path) -> Iterator[int]:
    """What the control groups of a Linux process allow, in cores; a group's limit holds for all groups inside it."""
    with suppress(OSError):
        for line in membership.read_text(encoding="utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers and "cpu" not in controllers.split(","):
                continue
            root = mounted / controllers  # of version 2, which has one hierarchy, where no controllers are named
            inside = root / path.lstrip("/")
            for group in (inside, *inside.parents):
                if group.is_relative_to(root):
                    with suppress(OSError, ValueError):  # ValueError: "max", no limit
                        if controllers:
                            quota, period = (_number(group / f"cpu.cfs_{name}_us") for name in ("quota", "period"))
                        else:
                            quota, period = map(int, (group / "cpu.max").read_text(encoding="utf-8").split())
                        if quota > 0:
                            yield math.ceil(quota / period)


def _number(path: Path) -> int:
    return int(path.read_text(encoding="utf-8"))


def work_ahead(work: Callable[[Any], Any], items: Iterable[Any], *, workers: int, ahead: int) -> Iterator[Any]:
    """`work(item)` of every item in order, done by threads up to so many items before it is asked for."""
    with ThreadPoolExecutor(workers, thread_name_prefix="paredown-ahead") as pool:
        waiting: deque[Future[Any]] = deque()
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:  # whoever stops early does not wait for what is still in the queue
            pool.shutdown(wait=False, cancel_futures=True)


def worker_number() -> int | None:
    """Which of its parent's workers this process is, from 0; None if it is no worker. One that died is succeeded."""
    number = os.environ.get(_NUMBER)
    return None if number is None else int(number)


def run_jobs(
    function: str, jobs: Sequence[Any], *, workers: int, common: Any = None, threads: int | None = 1
) -> Generator[Outcome]:
    """Call `function(common, job)` for every job in worker processes and yield outcomes as they come.

    A job that raises, or whose process dies, has the reason for its outcome and the others go on. Workers end with the
    iterator, and by themselves should this process be killed.

    Args:
        function: as `package.module:name`; its result must be plain values.
        jobs: plain values. A worker asks for the next one when it is free.
        workers: how many processes at most.
        common: a plain value that every call is given.
        threads: numerical threads per process; None leaves them alone.
    """
    with Crew(threads=threads) as crew:
        yield from crew.run_jobs(function, jobs, workers=workers, common=common)


class Crew:
    """Workers that stay for further jobs, so that what they have imported is imported once; they end with it."""

    def __init__(self, *, threads: int | None = 1) -> None:
        self._threads = threads
        self._workers: list[_Worker] = []
        self._answers: SimpleQueue[tuple[_Worker, str | None]] = SimpleQueue()

    def __enter__(self) -> Crew:
        return self

    def __exit__(self, *_: object) -> None:
        for worker in self._workers:
            worker.stop()

    def run_jobs(self, function: str, jobs: Sequence[Any], *, workers: int, common: Any = None) -> Generator[Outcome]:
        """As the function of this name. Workers that are still at work when the iterator is closed are stopped."""
        waiting = list(enumerate(jobs))[::-1]

        def give(worker: _Worker) -> None:
            index, job = waiting.pop()
            worker.give(index, {"function": function, "common": common, "job": job})

        try:
            at_once = min(workers, len(jobs))
            while len(self._workers) < at_once:
                self._hire()
            for worker in self._workers[:at_once]:
                give(worker)
            missing = len(jobs)
            while missing:
                worker, line = self._answers.get()
                if worker not in self._workers:  # stopped before
                    continue
                index, worker.index = worker.index, None
                if line is None:
                    self._workers.remove(worker)
                    worker.stop()
                    if waiting:
                        give(self._hire())
                elif waiting:
                    give(worker)
                if index is None:  # it died without work to do
                    continue
                missing -= 1
                answer = {"error": f"its process {_how_it_ended(worker.process)}"} if line is None else json.loads(line)
                yield Outcome(index, answer.get("value"), answer.get("error"))
        finally:
            for worker in [worker for worker in self._workers if worker.index is not None]:
                self._workers.remove(worker)
                worker.stop()

    def _hire(self) -> _Worker:
        taken = {worker.number for worker in self._workers}
        number = next(number for number in count() if number not in taken)
        self._workers.append(_Worker(number, self._threads, self._answers))
        return self._workers[-1]


class _Worker:
    """A child process and the thread that waits for its answers."""

    def __init__(self, number: int, threads: int | None, answers: SimpleQueue[Any]) -> None:
        limits = {} if threads is None else dict.fromkeys(_THREAD_LIMITS, str(threads))
        path = os.pathsep.join(path for path in sys.path if path)
        self.number = number
        self.index: int | None = None  # of the job it works on
        self.process = subprocess.Popen(
            [sys.executable, "-c", f"import {__name__} as workers; workers._work()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **limits, _NUMBER: str(number), "PYTHONPATH": path},
            start_new_session=True,  # Ctrl-C is for the parent, which stops its workers
        )
        Thread(target=self._forward, args=(answers,), daemon=True).start()

    def give(self, index: int, job: Any) -> None:
        self.index = index
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):  # if it is dead, the thread that waits for its answer will find that
            self.process.stdin.write(json.dumps(job) + "\n")
            self.process.stdin.flush()

    def _forward(self, answers: SimpleQueue[Any]) -> None:
        assert self.process.stdout is not None
        with self.process.stdout as lines:
            for line in lines:
                answers.put((self, line))
        answers.put((self, None))

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
        assert self.process.stdin is not None
        with suppress(BrokenPipeError):
            self.process.stdin.close()


_THREAD_LIMITS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


def _how_it_ended(process: subprocess.Popen[str]) -> str:
    code = process.wait()
    return f"was killed by signal {-code}" + (" (out of memory?)" if code == -9 else "") if code < 0 else "ended early"


def _work() -> None:
    """The worker's side: answer every job of standard input until that ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # whatever a library prints is no answer
    jobs: SimpleQueue[str] = SimpleQueue()
    Thread(target=_listen, args=(jobs,), daemon=True).start()
    while True:
        given = json.loads(jobs.get())
        module, _, name = given["function"].partition(":")
        try:
            answer = {"value": getattr(import_module(module), name)(given["common"], given["job"])}
        except PareError as error:
            answer = {"error": str(error)}
        except Exception as error:
            if os.environ.get(DEBUG):  # else its text, which may quote data, would reach a terminal as it is
                traceback.print_exc()
            answer = {"error": f"{type(error).__name__}: {error}"}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _listen(jobs: SimpleQueue[str]) -> None:
    """Pass jobs on; when the parent is gone, so is the reason to go on."""
    for line in sys.stdin:
        jobs.put(line)
    os._exit(0)
