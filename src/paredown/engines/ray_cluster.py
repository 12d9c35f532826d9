"""Jobs on a Ray cluster: tasks of Ray core, a bounded number at a time, tried again where a worker or a node is lost.

Ray Data is not used: for this kind of work it took six times as long.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Sequence
from contextlib import ExitStack
from functools import cache, partial
from itertools import islice
from pathlib import Path
from pickle import PicklingError
from typing import Any
from uuid import uuid4

from paredown.engines.base import find_function, fold_group, job_name
from paredown.engines.ray_connection import Connection, import_ray
from paredown.engines.ray_tasks import Tasks, fold_in_tasks, reason
from paredown.errors import PareError, argument
from paredown.places import as_place, is_remote
from paredown.units import format_size
from paredown.version import __version__
from paredown.workers import Outcome

_IN_FLIGHT = 2  # tasks per worker that are given out: one that runs, and one that waits to
_PROOF = 120.0  # seconds for all nodes to prove that they see the data
_NODES = 5  # that a message lists


class RayCluster:
    """A Ray cluster that runs the jobs."""

    name = "ray"

    def __init__(self, *, address: str | None = None, workers: int | None = None) -> None:
        self._connection, self._wanted = Connection(address, workers), workers
        self.workers = workers or 1

    def __enter__(self) -> RayCluster:
        with ExitStack() as until_connected:
            ray = until_connected.enter_context(self._connection)
            cores = int(ray.cluster_resources().get("CPU", 1))
            until_connected.pop_all()
        self.workers = max(1, min(self._wanted or cores, cores))
        return self

    def __exit__(self, *_: object) -> None:
        self._connection.__exit__()

    def run_jobs(
        self, function: str, jobs: Sequence[Any], *, workers: int | None = None, common: Any = None, memory: int = 0
    ) -> Generator[Outcome]:
        """See `Engine`."""
        ray = import_ray()
        task, shared = self._task(ray, call, memory), _put(ray, common)
        most = self._most(ray, workers)
        waiting = enumerate(jobs)  # which may be made only as they are given out
        with Tasks(ray) as tasks:
            while True:
                for number, job in islice(waiting, most - len(tasks)):
                    tasks.start(number, partial(task.remote, function, shared, job))
                if not tasks:
                    return
                number, value, error = tasks.wait()
                yield Outcome(number, value, None if error is None else reason(error))

    def fold_groups(self, groups: Sequence[Sequence[Any]], common: dict[str, Any], memory: int) -> Any:
        """See `Engine`. Values are combined by the workers; only the last one comes here."""
        ray = import_ray()
        leaf, join = (self._task(ray, function, memory, num_returns=2) for function in (_fold_group, _join))
        shared = _put(ray, common)
        return fold_in_tasks(
            ray, partial(leaf.remote, shared), partial(join.remote, common["combine"]), groups, self._most(ray)
        )

    def _most(self, ray: Any, workers: int | None = None) -> int:
        """Tasks to give out at once: some wait where all cores are taken, and none where more might run than asked."""
        wanted = min(workers or self.workers, self.workers)
        return wanted if wanted < ray.cluster_resources().get("CPU", 1) else _IN_FLIGHT * wanted

    def check_places(self, read: Sequence[str], write: str | None) -> None:
        """See `Engine`."""
        ray = import_ray()
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        token = uuid4().hex[:8]
        shared = None if write is None or is_remote(as_place(write)) else write  # the nodes see the same object store
        if shared is not None:
            _proof(shared, token).touch()
        places = {"read": list(read), "write": write, "token": token, "version": __version__}
        tasks = {}
        for number, node in enumerate(nodes):
            pinned = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(prove).options(num_cpus=0, scheduling_strategy=pinned, max_retries=1)
            tasks[task.remote(places, number)] = node["NodeManagerAddress"]
        try:
            done, late = ray.wait(list(tasks), num_returns=len(tasks), timeout=_PROOF)
            if late:
                raise PareError(f"node {tasks[late[0]]} of the Ray cluster does not answer; is it overloaded?")
            for task in done:
                try:
                    complaint = ray.get(task)
                except Exception as error:
                    complaint = reason(error)
                if complaint is not None:
                    raise PareError(f"node {tasks[task]} of the Ray cluster: {complaint}")
            for number in range(len(nodes)) if shared is not None else ():
                if not _proof(shared or "", token, number).exists():
                    raise PareError(
                        f"{write}: what node {nodes[number]['NodeManagerAddress']} writes there does not appear here; "
                        "choose an output on a file system that all nodes share."
                    )
        finally:
            for number in (None, *range(len(nodes))) if shared is not None else ():
                _proof(shared or "", token, number).unlink(missing_ok=True)

    def _task(self, ray: Any, function: Any, memory: int, **options: Any) -> Any:
        """A function as a task; refused if no node could ever run it, for which Ray would wait without end."""
        nodes = [(node["Resources"], node["NodeManagerAddress"]) for node in ray.nodes() if node["Alive"]]
        sizes = sorted(((has.get("CPU", 0), has.get("memory", 0), name) for has, name in nodes), reverse=True)
        if not any(cores >= 1 and offered >= memory for cores, offered, _ in sizes):
            listed = [f"{name} {cores:g} cores and {format_size(int(most))}" for cores, most, name in sizes[:_NODES]]
            more = f", and {len(sizes) - _NODES} more" if len(sizes) > _NODES else ""
            needed = f" and {format_size(memory)} of memory" if memory else ""
            lower = f"lower {argument('k')} if it is large, or use machines with more memory"
            raise PareError(
                f"a task needs a core{needed} on one node, and the nodes of the Ray cluster offer: "
                f"{', '.join(listed)}{more}; {lower if memory else 'start a node with cores'}."
            )
        if memory:
            options["memory"] = memory
        return _remote(function).options(num_cpus=1, max_retries=0, **options)  # tried again by `Tasks`


@cache
def _remote(function: Any) -> Any:
    """A function as Ray takes it; made anew for every pass, each worker would fetch it every time."""
    return import_ray().remote(function)


def _put(ray: Any, common: Any) -> Any:
    """What all tasks are given, sent once."""
    try:
        return ray.put(common)
    except (TypeError, AttributeError, PicklingError) as error:
        raise PareError(
            f"what the workers of the Ray cluster need cannot be sent to them ({error.__cause__ or error}); functions "
            "and objects that are given must be picklable."
        ) from error


def call(function: str, common: Any, job: Any) -> Any:
    """What a task does."""
    try:
        return find_function(function)(common, job)
    except (PareError, MemoryError):
        raise
    except Exception as error:
        raise RuntimeError(f"{job_name(job)} failed: {type(error).__name__}: {error}") from error


def _fold_group(common: dict[str, Any], jobs: Sequence[Any]) -> tuple[Any, None]:
    return fold_group(common, jobs), None


def _join(combine: str, left: Any, right: Any) -> tuple[Any, None]:
    from copy import deepcopy

    return find_function(combine)(deepcopy(left), right), None  # objects of the store cannot be changed


def prove(places: dict[str, Any], number: int) -> str | None:
    """On a node: what is wrong with the places that are read and written there, or None."""
    if places["version"] != __version__:
        return f"paredown {__version__} is installed there, and {places['version']} here; install the same version."
    for path in places["read"]:
        if not as_place(path).exists():
            return f"{path} does not exist there; put the data where all nodes see them under the same path."
        if not is_remote(as_place(path)) and not os.access(path, os.R_OK):
            return f"{path} cannot be read there; check its permissions."
    folder, token = places["write"], places["token"]
    if folder is None:
        return None
    if is_remote(as_place(folder)):
        as_place(folder).check_bucket()  # type: ignore[attr-defined]
        return None
    if not _proof(folder, token).exists():
        return f"{folder} is not the same folder there as here; choose an output on a file system that all nodes share."
    try:
        _proof(folder, token, number).touch()
    except OSError as error:
        return f"{folder} cannot be written there ({error.strerror}); check its permissions."
    return None


def _proof(folder: str, token: str, node: int | None = None) -> Path:
    """A file that the driver, or a node, writes to be seen by the others; cleared away later like any temporary."""
    return Path(folder, f".proof{'' if node is None else f'-{node}'}.{token}.paredown-tmp")
