"""A connection to a Ray cluster that is there, or to one that is started for it, and what to say where that fails.

A cluster that was there is left as it was; one that is started here ends with the connection, and its files with it.
"""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import socket
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any
from uuid import uuid4

from paredown.errors import PareError, argument
from paredown.files import lock_file, lock_is_held, locked
from paredown.workers import available_cores

_ANSWER = 15.0  # seconds for a cluster to answer
_TOKEN = (
    "set RAY_AUTH_MODE=token, and have the cluster's token in RAY_AUTH_TOKEN, in a file that RAY_AUTH_TOKEN_PATH "
    "names, or in ~/.ray/auth_token"
)
_PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])  # of HTTP/2, and no settings


class Connection:
    """To the cluster at an address, or to one on this machine that lives as long as the connection.

    Args:
        address: as users give it; that of the environment unless it names one.
        cores: of a cluster that is started; as many as there are if None.
    """

    def __init__(self, address: str | None, cores: int | None) -> None:
        self._asked, self._cores = address, cores
        named = address not in (None, "auto")
        self.address = address if named else os.environ.get("RAY_ADDRESS") or address  # as Ray takes them
        self._own = ExitStack()  # what belongs to a cluster that is started here
        self._connected = False  # by us

    def __enter__(self) -> Any:
        """The package of Ray, connected."""
        ray = import_ray()
        try:
            if ray.is_initialized():  # a program that is connected already stays so
                self._check_same(ray)
            else:
                self._connect(ray)
        except BaseException:  # an interrupt, too, leaves nothing behind
            self.__exit__()
            raise
        return ray

    def __exit__(self, *_: object) -> None:
        ray = import_ray()
        if self._connected:
            with _signals_kept():
                ray.shutdown()  # of a cluster that was there, this ends the connection only
        self._own.close()

    def _connect(self, ray: Any) -> None:
        quiet = {"log_to_driver": False, "logging_level": "ERROR"}
        if self.address in (None, "local"):
            folder = self._own.enter_context(own_folder())
            self._own.enter_context(own_token())
            own = {"include_dashboard": False, "_temp_dir": folder}
            with _signals_kept():
                try:
                    ray.init(address="local", num_cpus=self._cores or available_cores(), **own, **quiet)
                except Exception as error:
                    ray.shutdown()
                    said = " ".join(str(error).split())
                    raise PareError(
                        f"Ray could not start a cluster on this machine ({said}); if the machine is busy, run the same "
                        "command again when it is less so."
                    ) from error
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
        if address.startswith("ray://"):
            return
        if self.address == "auto":
            _take_saved_token()
        if not _accepts_us(f"{host}:{port}"):
            raise self._not_ray()

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


def _take_saved_token() -> None:
    """With `auto`, and no mode set, Ray takes a token that is saved on this machine."""
    with suppress(ImportError):  # a Ray without tokens
        from ray._private.authentication.authentication_token_setup import maybe_enable_token_auth_if_token_available

        maybe_enable_token_auth_if_token_available(warn_if_disabled=False)


@contextmanager
def own_token() -> Iterator[None]:
    """A token for a cluster that is started here, unless the user has one: Ray would save it in the user's home.

    Afterwards the mode is as it was, or this program could not connect to clusters that ask for none.
    """
    mode = os.environ.get("RAY_AUTH_MODE")
    try:
        from ray._raylet import AuthenticationTokenLoader, Config  # pyright: ignore[reportAttributeAccessIssue]

        loader = AuthenticationTokenLoader.instance()
    except ImportError:  # a Ray without tokens
        yield
        return
    if (mode or "token").lower() != "token" or loader.has_token(ignore_auth_mode=True):
        yield
        return
    os.environ["RAY_AUTH_TOKEN"] = secrets.token_hex(32)
    loader.reset_cache()
    try:
        yield
    finally:
        os.environ.pop("RAY_AUTH_TOKEN", None)
        if mode is None:
            os.environ.pop("RAY_AUTH_MODE", None)
            Config.initialize("")
        loader.reset_cache()


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


def import_ray() -> Any:
    """The package, or an error that says how to install it."""
    os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # silences a warning about a future default
    try:
        import ray
    except ImportError as error:
        raise PareError("Ray is not installed; run `pip install 'paredown[ray]'`.") from error
    return ray
