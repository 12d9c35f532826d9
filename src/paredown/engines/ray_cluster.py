"""Jobs on a Ray cluster: tasks of Ray core, a bounded number at a time, tried again where a worker or a node is lost.

Ray Data is not used: for this kind of work it took six times as long. A cluster that was there is left as it was; one
that is started here ends with the work, and its temporary files with it.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from pickle import PicklingError
from typing import Any
from uuid import uuid4

from paredown.engines.base import find_function, fold_group, job_name
from paredown.engines.ray_tasks import Tasks, fold_in_tasks, reason
from paredown.errors import PareError, argument
from paredown.files import lock_file, lock_is_held, locked
from paredown.places import as_place, is_remote
from paredown.units import format_size
from paredown.version import __version__
from paredown.workers import Outcome, available_cores

_IN_FLIGHT = 2  # tasks per worker that are given out: one that runs, and one that waits to
_ANSWER = 15.0  # seconds for a cluster to answer
_PROOF = 120.0  # seconds for all nodes to prove that they see the data
_NODES = 5  # that a message lists
_TOKEN = (
    "set RAY_AUTH_MODE=token, and have the cluster's token in RAY_AUTH_TOKEN, in a file that RAY_AUTH_TOKEN_PATH "
    "names, or in ~/.ray/auth_token"
)
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # of HTTP/2, and no settings


class RayCluster:
    """A connection to a Ray cluster, which runs the jobs."""

    name = "ray"

    def __init__(self, *, address: str | None = None, workers: int | None = None) -> None:
        self._asked = address
        self.address = address or os.environ.get("RAY_ADDRESS") or None
        self._wanted = workers
        self.workers = workers or 1
        self._own_files = ExitStack()  # of the cluster, if it is started here
        self._connected = False  # by us

    # --- beginning and end ---------------------------------------------------------------------------------------

    def __enter__(self) -> RayCluster:
        ray = _import_ray()
        try:
            if ray.is_initialized():  # a program that is connected already stays so
                self._check_same(ray)
            else:
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
            with _signals_kept():
                ray.shutdown()  # of a cluster that was there, this ends the connection only
        self._own_files.close()

    def _connect(self, ray: Any) -> None:
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address in (None, "local"):
            folder = self._own_files.enter_context(own_folder())
            cores = self._wanted or available_cores()
            own = {"include_dashboard": False, "_temp_dir": folder}
            with _signals_kept():
                ray.init(address="local", num_cpus=cores, **own, **quiet)
            self._connected = True
            return
        try:
            self._check_reachable()
            with _signals_kept():
                ray.init(address=self.address, **quiet)
        except PareError:
            raise
        except Exception as error:
            explained = self._explained(error)
            if explained is None:
                raise
            raise explained from error
        self._connected = True

    def _check_same(self, ray: Any) -> None:
        """Raise if this process is connected to another cluster than the one that is asked for."""
        if self._asked in (None, "auto"):
            return
        connected = ray.get_runtime_context().gcs_address
        there, at = _host_and_port(connected)
        if self._asked == "local":
            same = _is_here(there)
        else:
            host, port = self._asked_place(self._asked)  # the port of ray:// is another one than the cluster's own
            same = _is_same_host(host, there) and (self._asked.startswith("ray://") or port == at)
        if not same:
            raise PareError(
                f"this process is connected to the Ray cluster at {connected} already, and {argument('address')} is "
                f"{self._asked}; leave it out to work on that cluster, or call `ray.shutdown()` first."
            )

    def _asked_place(self, address: str) -> tuple[str, int]:
        host, port = _host_and_port(address.removeprefix("ray://"))
        if not host or not 0 < port < 2**16:
            raise PareError(f"{argument('address')} must be auto, HOST:PORT or ray://HOST:PORT, got {address!r}.")
        return host, port

    def _check_reachable(self) -> None:
        """Raise within seconds if nobody answers there, or not as Ray does: Ray itself would try for minutes."""
        address = _running_cluster() if self.address == "auto" else self.address
        if address is None:
            return
        host, port = self._asked_place(address)
        try:
            connection = socket.create_connection((host, port), timeout=_ANSWER)
        except OSError as error:
            raise self._unreachable() from error
        with connection:
            if not _speaks_http2(connection):
                raise self._not_ray()
        if self.address == address and not (address.startswith("ray://") or _accepts_us(f"{host}:{port}")):
            raise self._not_ray()  # with `auto`, Ray takes the token that is saved here

    def _explained(self, error: Exception) -> PareError | None:
        """What to do about an error of Ray's while it connects, if that is known."""
        text = f"{type(error).__name__}: {error} {error.__cause__ or ''}"
        if "AuthenticationError" in text or "nauthenticated" in text:
            return PareError(f"the Ray cluster at {self.address} asks for a token that it did not get; {_TOKEN}.")
        if isinstance(error, ConnectionError):
            return self._unreachable()
        if "ray[client]" in text:
            return PareError(
                "an address that begins with ray:// takes Ray's client; run `pip install 'ray[client]'`, or give "
                f"HOST:PORT of the cluster itself in {argument('address')} on a node of it."
            )
        if "ersion mismatch" in text:
            return PareError(
                f"the Ray cluster at {self.address} runs another version of Ray or Python: "
                f"{' '.join(str(error).split())} Install the same versions here and there."
            )
        return None

    def _not_ray(self) -> PareError:
        return PareError(
            f"what listens at {self.address} is no Ray cluster, or one that hangs; {argument('address')} is what "
            "`ray start --head` printed, and its port is 6379 unless another was chosen."
        )

    def _unreachable(self) -> PareError:
        token = f" If it asks for a token, {_TOKEN}." if str(self.address).startswith("ray://") else ""
        return PareError(
            f"no Ray cluster answers at {self.address}; check the address, start one with `ray start --head`, or leave "
            f"out {argument('address')} to start one on this machine.{token}"
        )

    # --- jobs ----------------------------------------------------------------------------------------------------

    def run_jobs(
        self, function: str, jobs: Sequence[Any], *, workers: int | None = None, common: Any = None, memory: int = 0
    ) -> Generator[Outcome]:
        """See `Engine`."""
        ray = _import_ray()
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
        ray = _import_ray()
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
        ray = _import_ray()
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
        return ray.remote(function).options(num_cpus=1, max_retries=0, **options)  # tried again by `Tasks`


def _host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port) if re.fullmatch("[0-9]{1,5}", port) else 0


def _is_here(host: str) -> bool:
    """Whether a host is this machine."""
    for family, *_, place in _resolved(host):
        with suppress(OSError), socket.socket(family) as free:
            free.bind((place[0], 0))
            return True
    return False


def _is_same_host(one: str, other: str) -> bool:
    places = [{place[0] for *_, place in _resolved(host)} or {host} for host in (one, other)]
    return bool(places[0] & places[1]) or (_is_here(one) and _is_here(other))


def _resolved(host: str) -> Sequence[Any]:
    with suppress(OSError):
        return socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    return ()


def _running_cluster() -> str | None:
    """What `auto` stands for, or None if Ray alone knows."""
    try:
        from ray._private.services import get_ray_address_from_environment

        found = get_ray_address_from_environment("auto", None)
    except (ImportError, AttributeError, TypeError):  # of another version
        return None
    return found if found and _host_and_port(found)[1] else None


def _speaks_http2(connection: socket.socket) -> bool:
    """Whether the other side begins with settings, as servers of gRPC do; with TLS, only Ray can tell."""
    if os.environ.get("RAY_USE_TLS", "0").lower() in ("1", "true"):
        return True
    deadline, answer = time.monotonic() + _ANSWER, b""
    try:
        connection.sendall(_PREFACE)
        while len(answer) < 4 and time.monotonic() < deadline:
            connection.settimeout(max(0.01, deadline - time.monotonic()))
            got = connection.recv(4 - len(answer))
            if not got:
                break
            answer += got
    except OSError:
        return False
    return answer[3:] == b"\x04"


def _accepts_us(address: str) -> bool:
    """Whether a cluster answers there in time; raise Ray's own error if it asks for another token.

    `ray.init` would try for twenty seconds even then.
    """
    try:
        from ray._private.authentication.authentication_token_setup import ensure_token_if_auth_enabled
        from ray._raylet import GcsClient  # pyright: ignore[reportAttributeAccessIssue]
        from ray.exceptions import AuthenticationError
    except ImportError:  # a Ray without tokens
        return True
    ensure_token_if_auth_enabled(create_token_if_missing=False)  # without one, Ray would end the process
    deadline = time.monotonic() + _ANSWER
    while True:
        try:
            GcsClient(address=address)
            return True
        except AuthenticationError:
            raise
        except Exception:  # it may be starting
            if time.monotonic() > deadline:
                return False
            time.sleep(1.0)


@contextmanager
def own_folder() -> Iterator[str]:
    """A folder for the files of a cluster, locked while it lives; those of drivers that were killed are removed."""
    place = Path("/tmp" if os.path.isdir("/tmp") else tempfile.gettempdir())  # Ray's sockets need a short path
    for left in place.glob("pdn-ray-*"):
        lock = lock_file(left)
        if lock.exists() and not lock_is_held(lock):
            shutil.rmtree(left, ignore_errors=True)
            lock.unlink(missing_ok=True)
    folder = place / f"pdn-ray-{uuid4().hex[:8]}"
    with locked(folder):
        folder.mkdir(mode=0o700)
        try:
            yield str(folder)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


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


@contextmanager
def _signals_kept() -> Iterator[None]:
    """Connect, or end the connection, without losing the program's own handlers of signals.

    Ray takes over SIGTERM, in Python while it connects and in C++ from then on, where it ends the process with a dump
    of its stack, and nothing is unwound; at the end it leaves the system's. A program without handlers keeps Ray's,
    which stop the cluster.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    names = (name for name in ("SIGINT", "SIGTERM", "SIGHUP") if hasattr(signal, name))
    own = {number: signal.getsignal(number) for number in (getattr(signal, name) for name in names)}
    try:
        yield
    except SystemExit as ended:  # what Ray makes of a signal that comes while it connects
        asked = own[signal.SIGTERM]
        if ended.code == signal.SIGTERM and callable(asked):
            asked(signal.SIGTERM, None)
        raise
    finally:
        for number, handler in own.items():
            if callable(handler):
                signal.signal(number, handler)


def _import_ray() -> Any:
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # silences a warning about a future default
    try:
        import ray
    except ImportError as error:
        raise PareError("Ray is not installed; run `pip install 'paredown[ray]'`.") from error
    return ray
