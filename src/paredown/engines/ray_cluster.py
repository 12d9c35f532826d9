"""Jobs on a Ray cluster: tasks of Ray core, a bounded number at a time, tried again where a worker or a node is lost.

Ray Data is not used: for this kind of work it took six times as long. A cluster that was there is left as it was; one
that is started here ends with the work, and its temporary files with it.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Generator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from paredown.engines.base import find_function, fold_group
from paredown.errors import PareError, argument
from paredown.version import __version__
from paredown.workers import Outcome, available_cores

_TRIES = 5  # of a task whose worker or node dies
_IN_FLIGHT = 2  # tasks per worker that are given out: one that runs, and one that waits to
_ANSWER = 5.0  # seconds for a cluster to answer
_PROOF = 120.0  # seconds for all nodes to prove that they see the data
_LINES = 12  # of what a failed task printed


class RayCluster:
    """A connection to a Ray cluster, which runs the jobs."""

    name = "ray"

    def __init__(self, *, address: str | None = None, workers: int | None = None) -> None:
        self.address = address or os.environ.get("RAY_ADDRESS") or None
        self._wanted = workers
        self.workers = workers or 1
        self._folder: str | None = None  # of the cluster's own files, if it was started here
        self._connected = False  # by us

    # --- beginning and end ---------------------------------------------------------------------------------------

    def __enter__(self) -> RayCluster:
        ray = _import_ray()
        try:
            if not ray.is_initialized():  # a program that is connected already stays so
                self._connect(ray)
            cores = int(ray.cluster_resources().get("CPU", 1))
        except BaseException:  # an interrupt, too, leaves nothing behind
            self.__exit__()
            raise
        self.workers = max(1, min(self._wanted or cores, cores))
        return self

    def __exit__(self, *_: object) -> None:
        ray = _import_ray()
        if self._connected:
            ray.shutdown()  # of a cluster that was there, this ends the connection only
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _connect(self, ray: Any) -> None:
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address in (None, "local"):
            self._folder = tempfile.mkdtemp(prefix="pdn-ray-", dir="/tmp" if os.path.isdir("/tmp") else None)
            cores = self._wanted or available_cores()
            ray.init(address="local", num_cpus=cores, include_dashboard=False, _temp_dir=self._folder, **quiet)
            self._connected = True
            return
        assert self.address is not None
        self._check_reachable(self.address)
        try:
            ray.init(address=self.address, **quiet)
        except ConnectionError as error:
            raise self._unreachable() from error
        except RuntimeError as error:
            if "ersion mismatch" not in str(error):
                raise
            raise PareError(
                f"the Ray cluster at {self.address} runs another version of Ray or Python: "
                f"{' '.join(str(error).split())} Install the same versions here and there."
            ) from error
        self._connected = True

    def _check_reachable(self, address: str) -> None:
        """Raise within seconds if nobody answers: Ray itself would try for minutes."""
        host, _, port = address.removeprefix("ray://").rpartition(":")
        if address == "auto":
            return
        if not host or not port.isdigit():
            raise PareError(f"{argument('address')} must be auto, HOST:PORT or ray://HOST:PORT, got {address!r}.")
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=_ANSWER).close()
        except (OSError, OverflowError) as error:
            raise self._unreachable() from error

    def _unreachable(self) -> PareError:
        return PareError(
            f"no Ray cluster answers at {self.address}; check the address, start one with `ray start --head`, or leave "
            f"out {argument('address')} to start one on this machine."
        )

    # --- jobs ----------------------------------------------------------------------------------------------------

    def run_jobs(
        self, function: str, jobs: Sequence[Any], *, workers: int | None = None, common: Any = None, memory: int = 0
    ) -> Generator[Outcome]:
        """See `Engine`."""
        ray = _import_ray()
        task, shared = self._task(ray, call, memory), ray.put(common)
        most = _IN_FLIGHT * min(workers or self.workers, self.workers)
        waiting = list(enumerate(jobs))[::-1]
        running: dict[Any, int] = {}
        try:
            while waiting or running:
                while waiting and len(running) < most:
                    number, job = waiting.pop()
                    running[task.remote(function, shared, job)] = number
                (done,), _ = ray.wait(list(running), num_returns=1)
                number = running.pop(done)
                try:
                    yield Outcome(number, ray.get(done))
                except Exception as error:
                    yield Outcome(number, None, _reason(error))
        finally:
            for left in running:
                with suppress(Exception):
                    ray.cancel(left, force=True)

    def fold_groups(self, groups: Sequence[Sequence[Any]], common: dict[str, Any], memory: int) -> Any:
        """See `Engine`. Values are combined by the workers; only the last one comes here."""
        ray = _import_ray()
        leaf, join = self._task(ray, fold_group, memory), self._task(ray, _join, memory)
        shared = ray.put(common)
        values = [leaf.remote(shared, group) for group in groups]
        while len(values) > 1:
            pairs = [values[first : first + 2] for first in range(0, len(values), 2)]
            values = [join.remote(common["combine"], *pair) if len(pair) == 2 else pair[0] for pair in pairs]
        try:
            return ray.get(values[0])
        except Exception as error:
            raise PareError(_reason(error)) from error

    def check_places(self, read: Sequence[str], write: str | None) -> None:
        """See `Engine`."""
        ray = _import_ray()
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        nodes = [node for node in ray.nodes() if node["Alive"] and node["Resources"].get("CPU")]
        token = f".{uuid4().hex}.paredown-proof"
        if write is not None:
            Path(write, token).touch()
        places = {"read": list(read), "write": write, "token": token, "version": __version__}
        tasks = {}
        for number, node in enumerate(nodes):
            pinned = NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
            task = ray.remote(prove).options(num_cpus=0.01, scheduling_strategy=pinned, max_retries=1)
            tasks[task.remote(places, number)] = node["NodeManagerAddress"]
        try:
            done, late = ray.wait(list(tasks), num_returns=len(tasks), timeout=_PROOF)
            if late:
                raise PareError(f"node {tasks[late[0]]} of the Ray cluster does not answer; is it overloaded?")
            for task in done:
                try:
                    complaint = ray.get(task)
                except Exception as error:
                    complaint = _reason(error)
                if complaint is not None:
                    raise PareError(f"node {tasks[task]} of the Ray cluster: {complaint}")
            for number in range(len(nodes)) if write is not None else ():
                if not Path(write or "", f"{token}-{number}").exists():
                    raise PareError(
                        f"{write}: what node {nodes[number]['NodeManagerAddress']} writes there does not appear here; "
                        "choose an output on a file system that all nodes share."
                    )
        finally:
            for file in Path(write).glob(f"{token}*") if write is not None else ():
                file.unlink(missing_ok=True)

    def _task(self, ray: Any, function: Any, memory: int) -> Any:
        options: dict[str, Any] = {"num_cpus": 1, "max_retries": _TRIES}
        return ray.remote(function).options(**options, **({"memory": memory} if memory else {}))


def call(function: str, common: Any, job: Any) -> Any:
    """What a task does."""
    try:
        return find_function(function)(common, job)
    except PareError:
        raise
    except Exception as error:
        name = job.get("name") if isinstance(job, dict) else None
        raise RuntimeError(f"{name or 'a job'} failed: {type(error).__name__}: {error}") from error


def _join(combine: str, left: Any, right: Any) -> Any:
    from copy import deepcopy

    return find_function(combine)(deepcopy(left), right)  # objects of the store cannot be changed


def prove(places: dict[str, Any], number: int) -> str | None:
    """On a node: what is wrong with the places that are read and written there, or None."""
    if places["version"] != __version__:
        return f"paredown {__version__} is installed there, and {places['version']} here; install the same version."
    for path in places["read"]:
        if not os.path.exists(path):
            return f"{path} does not exist there; put the data where all nodes see them under the same path."
        if not os.access(path, os.R_OK):
            return f"{path} cannot be read there; check its permissions."
    folder, token = places["write"], places["token"]
    if folder is None:
        return None
    if not os.path.exists(os.path.join(folder, token)):
        return f"{folder} is not the same folder there as here; choose an output on a file system that all nodes share."
    try:
        Path(folder, f"{token}-{number}").touch()
    except OSError as error:
        return f"{folder} cannot be written there ({error.strerror}); check its permissions."
    return None


def _reason(error: Exception) -> str:
    """Why a task failed, for people: our own errors as they are, those of others with the end of what was printed."""
    from ray import exceptions

    cause = getattr(error, "cause", None)
    if isinstance(error, PareError) or isinstance(cause, PareError):
        return str(error if isinstance(error, PareError) else cause)
    if isinstance(error, exceptions.OutOfMemoryError):
        return (
            f"a worker ran out of memory; lower {argument('workers')}, {argument('memory')} or {argument('k')}, or use "
            "machines with more memory."
        )
    if isinstance(cause, ModuleNotFoundError) or "No module named 'paredown'" in str(error):
        return f"paredown is not installed there; run `pip install paredown=={__version__}` on every node."
    if isinstance(error, exceptions.WorkerCrashedError | exceptions.NodeDiedError):
        return f"its worker died {_TRIES + 1} times; run the same command again to finish what is left."
    lines = [line for line in str(error).splitlines() if line.strip()]
    return "\n".join(lines[-_LINES:])


def _import_ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # silences a warning about a future default
    try:
        import ray
    except ImportError as error:
        raise PareError("Ray is not installed; run `pip install 'paredown[ray]'`.") from error
    return ray
