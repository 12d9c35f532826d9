"""Where files are: what a user typed as a place, on this machine or in an object store.

`as_place` turns `s3://bucket/folder` into a `RemotePath`, which has the methods of `pathlib.Path` that are used here,
and everything else into a `Path`. Only `files/` knows that there are two kinds; others read and write either.

An object store has no folders and no renames, and needs none: an object appears as a whole, or not at all. What would
take a remote place for a local one (`open`, `os.path`, a library that opens files itself) fails at `__fspath__`, with
a message that names it: nothing is ever written to a local folder called `s3:`.
"""

from __future__ import annotations

import io
import os
import re
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from paredown.errors import PareError

if TYPE_CHECKING:
    from typing import TypeGuard

    from typing_extensions import TypeIs

_URL = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]*)://(.*)", re.DOTALL)
_MANGLED = re.compile(r"([a-zA-Z][a-zA-Z0-9+.-]+):/(?!/)(.*)", re.DOTALL)  # what `pathlib` makes of a URL
_S3 = ("s3", "s3a", "s3n")
# Stores in which an object appears as a whole, as `fsspec` knows them, and the package that reaches each.
_BY_FSSPEC = {"gs": "gcsfs", "gcs": "gcsfs", "az": "adlfs", "abfs": "adlfs", "abfss": "adlfs", "oss": "ossfs"}
_IN_MEMORY = "memory"  # of fsspec itself, for tests
_BUFFER_BYTES = 2**20  # read at once where small pieces are asked for
_ATTEMPTS = 6  # of a request, with growing pauses in between
_CONNECT, _REQUEST = 5.0, 60.0  # seconds
_WRITTEN_BYTES = 2**26  # handed over at once: a multiple of the parts in which large objects are sent


class StorageError(PareError):
    """An object store did not do what it was asked to: never a reason to take what is there for missing or damaged."""


def as_place(given: str | os.PathLike[str]) -> Path:
    """What a user typed as a place: a path on this machine, or one in an object store for `s3://bucket/folder`."""
    if isinstance(given, RemotePath | Path):
        return _demangled(cast(Path, given))
    found = _URL.fullmatch(os.fspath(given))
    if found is None:
        return _demangled(Path(given))
    protocol, rest = found[1].lower(), found[2]
    if protocol == "file":
        return Path(rest)
    protocol = "s3" if protocol in _S3 else protocol
    if protocol not in ("s3", _IN_MEMORY, *_BY_FSSPEC):
        known = ", ".join(f"{name}://" for name in ("s3", *_BY_FSSPEC))
        raise PareError(f"{given}: there is no access to {protocol}://; give a local path, or one of {known}.")
    parts = tuple(part for part in rest.split("/") if part not in ("", "."))
    if not parts or ".." in parts:
        raise PareError(f"{given}: not a place in an object store; give {protocol}://BUCKET/FOLDER.")
    return cast(Path, RemotePath(protocol, parts))


def _demangled(given: Path) -> Path:
    """`Path("s3://bucket")` is `s3:/bucket`, of which somebody's folder is hardly ever the meaning."""
    found = _MANGLED.fullmatch(str(given)) if isinstance(given, Path) else None
    known = found is not None and found[1].lower() in (*_S3, *_BY_FSSPEC, "file")
    if str(given).lower().removesuffix(":") in _S3 and str(given).endswith(":"):
        raise PareError(f"{given}: not a place in an object store; give s3://BUCKET/FOLDER.")
    return as_place(f"{found[1]}://{found[2]}") if found is not None and known else given


def is_path(value: object) -> TypeIs[str | Path]:
    """Whether a value names a file or folder, wherever it is."""
    return isinstance(value, str | Path | RemotePath)


def is_remote(path: object) -> bool:
    """Whether a path is in an object store."""
    return isinstance(path, RemotePath)


def absolute(given: str | os.PathLike[str]) -> Path:
    """A place by a name that holds in any folder."""
    path = as_place(given)
    return path if is_remote(path) else Path(os.path.abspath(path))


def real(given: str | os.PathLike[str]) -> Path:
    """A place by its one name, whatever links lead there."""
    path = as_place(given)
    return path if is_remote(path) else Path(os.path.realpath(path))


def nothing_at(given: str | os.PathLike[str], what: str = "file or folder", *, hint: str = "") -> PareError:
    """What to say of a place where nothing is; raised at once where there is not even a bucket, or no access to it."""
    path = as_place(given)
    if is_remote(path):
        path.check_bucket()  # type: ignore[attr-defined]
    return PareError(f"{given}: there is no such {what}.{hint}")


def arrow_input(given: str | os.PathLike[str]) -> Any:
    """What pyarrow opens a file from: of an object it fetches the byte ranges that it needs."""
    path = as_place(given)
    if is_remote(path):
        return path.open("rb", buffering=0)
    return os.path.abspath(path)  # in a relative name, pyarrow takes ~ for a home and `gs:x` for a bucket


class RemotePath:
    """A file or folder in an object store, with the methods of `pathlib.Path` that are used here."""

    __slots__ = ("_info", "_listings", "_parts", "_protocol")

    def __init__(self, protocol: str, parts: tuple[str, ...], info: Any = None) -> None:
        self._protocol, self._parts = protocol, parts
        self._info = info  # of a listing that it comes from
        self._listings: dict[bool, list[RemotePath]] | None = None  # see `listed_once`

    # --- names ---------------------------------------------------------------------------------------------------

    @property
    def _key(self) -> str:
        return "/".join(self._parts)

    @property
    def bucket(self) -> str:
        """The bucket that it is in."""
        return self._parts[0]

    @property
    def name(self) -> str:
        return self._parts[-1] if len(self._parts) > 1 else ""

    @property
    def stem(self) -> str:
        return PurePosixPath(self.name).stem

    @property
    def suffix(self) -> str:
        return PurePosixPath(self.name).suffix

    @property
    def parent(self) -> RemotePath:
        return RemotePath(self._protocol, self._parts[:-1]) if len(self._parts) > 1 else self

    @property
    def parents(self) -> tuple[RemotePath, ...]:
        return tuple(RemotePath(self._protocol, self._parts[:end]) for end in range(len(self._parts) - 1, 0, -1))

    def with_name(self, name: str) -> RemotePath:
        return self.parent / name

    def with_suffix(self, suffix: str) -> RemotePath:
        return self.with_name(PurePosixPath(self.name).with_suffix(suffix).name)

    def relative_to(self, other: RemotePath) -> PurePosixPath:
        return PurePosixPath(self._key).relative_to(other._key)

    def absolute(self) -> RemotePath:
        return self

    def __truediv__(self, more: str | os.PathLike[str]) -> RemotePath:
        parts = tuple(part for part in os.fspath(more).split("/") if part not in ("", "."))
        return RemotePath(self._protocol, self._parts + parts)

    def __str__(self) -> str:
        return f"{self._protocol}://{self._key}"

    def __repr__(self) -> str:
        return f"RemotePath({str(self)!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RemotePath) and str(self) == str(other)

    def __lt__(self, other: RemotePath) -> bool:
        return (self._protocol, self._parts) < (other._protocol, other._parts)

    def __hash__(self) -> int:
        return hash(str(self))

    def __reduce__(self) -> Any:
        return RemotePath, (self._protocol, self._parts)  # what a listing said of it stays here

    def __fspath__(self) -> str:
        raise PareError(
            f"{self}: this needs a path on this machine; give a local one, and copy between it and the object store."
        )

    # --- what is there -------------------------------------------------------------------------------------------

    @contextmanager
    def _asking(self) -> Iterator[Any]:
        """The file system, and what goes wrong with it as a `PareError`; what is not there stays as it is."""
        try:
            yield _filesystem(self._protocol, self.bucket, _environment())
        except (FileNotFoundError, PareError):
            raise
        except OSError as error:
            raise storage_error(self, error) from error

    def _look(self) -> Any:
        """What is there, or None."""
        from pyarrow.fs import FileType

        if self._info is None:
            with self._asking() as system:
                found = system.get_file_info(self._key)
            if found.type == FileType.NotFound:
                return None
            if self._listings is None:
                return found
            self._info = found
        return self._info

    def exists(self) -> bool:
        return self._look() is not None

    def is_file(self) -> bool:
        found = self._look()
        return found is not None and found.is_file

    def is_dir(self) -> bool:
        found = self._look()
        return found is not None and not found.is_file

    def is_symlink(self) -> bool:
        return False

    def stat(self) -> os.stat_result:
        found = self._look()
        if found is None:
            raise FileNotFoundError(2, "there is no such file or folder", str(self))
        mode, when = stat.S_IFREG if found.is_file else stat.S_IFDIR, found.mtime_ns or 0
        seconds = when // 10**9
        return os.stat_result(
            (mode | 0o644, 0, 0, 1, 0, 0, found.size or 0, seconds, seconds, seconds), {"st_mtime_ns": when}
        )

    lstat = stat

    def listed_once(self) -> RemotePath:
        """The same place, which the store is asked only once what is in; for looking at what nobody writes to."""
        same = RemotePath(self._protocol, self._parts, self._info)
        same._listings = {}
        return same

    def _list(self, *, deep: bool) -> list[RemotePath]:
        if self._listings is None:
            return self._ask_what_is_inside(deep=deep)
        if deep not in self._listings:
            shallow = self._listings.get(False)
            flat = shallow is not None and all(item.is_file() for item in shallow)
            self._listings[deep] = shallow if flat and shallow is not None else self._ask_what_is_inside(deep=deep)
        return self._listings[deep]

    def below(self) -> Iterator[tuple[str, RemotePath]]:
        """Everything below it, by its name inside, in no order."""
        start = len(self._key) + 1
        return ((item._key[start:], item) for item in self._list(deep=True))

    def _ask_what_is_inside(self, *, deep: bool) -> list[RemotePath]:
        from pyarrow.fs import FileSelector

        with self._asking() as system:
            found = system.get_file_info(FileSelector(self._key, recursive=deep, allow_not_found=True))
        return [RemotePath(self._protocol, tuple(info.path.split("/")), info) for info in found]

    def iterdir(self) -> Iterator[RemotePath]:
        return iter(self._list(deep=False))

    def glob(self, pattern: str) -> Iterator[RemotePath]:
        deep = "/" in pattern
        for path in self._list(deep=deep):
            inside = path._key[len(self._key) + 1 :]
            if inside.count("/") == pattern.count("/") and fnmatchcase(inside, pattern):
                yield path

    def rglob(self, pattern: str) -> Iterator[RemotePath]:
        return (path for path in self._list(deep=True) if fnmatchcase(path.name, pattern))

    def check_bucket(self) -> None:
        """Raise unless the bucket is there and may be looked into."""
        bucket = RemotePath(self._protocol, self._parts[:1])
        if self._protocol != _IN_MEMORY and not bucket.exists():
            raise _no_bucket(self)

    # --- reading -------------------------------------------------------------------------------------------------

    def open(self, mode: str = "rb", buffering: int = -1) -> Any:
        """Without a buffer, every read is one request for just those bytes."""
        if mode != "rb":
            raise PareError(f"{self}: objects are written as a whole; this is not.")
        with self._asking() as system:
            stream = system.open_input_file(self._key)
        return stream if buffering == 0 else io.BufferedReader(stream, _BUFFER_BYTES)

    def read_bytes(self, at_most: int | None = None) -> bytes:
        """Its content; refused if it is larger than `at_most` bytes."""
        with self._asking() as system, system.open_input_file(self._key) as stream:
            if at_most is not None and stream.size() > at_most:
                raise PareError(f"{self}: it has {stream.size():,} bytes, more than may be read at once.")
            return stream.read()

    def read_text(self, encoding: str = "utf-8") -> str:
        return self.read_bytes().decode(encoding)

    # --- writing -------------------------------------------------------------------------------------------------

    def mkdir(self, **_: bool) -> None:
        """Folders need not be made."""

    def upload(self, file: Path) -> None:
        """Make a local file this object: whole, or nothing of it if anything goes wrong.

        Nothing is taken for complete before `close`, which is not called where an error or a signal comes first.
        """
        from pyarrow import memory_map

        with self._asking() as system:
            size = file.stat().st_size
            stream = system.open_output_stream(self._key)
            if size:
                with memory_map(str(file)) as mapped:
                    stream.write(mapped.read_buffer(size))  # in one call, which no signal interrupts
            stream.close()

    def unlink(self, missing_ok: bool = False) -> None:
        try:
            with self._asking() as system:
                system.delete_file(self._key)
        except FileNotFoundError:
            if not missing_ok:
                raise

    def rmtree(self, *, last: str) -> None:
        """Remove everything below, the file called `last` after all others."""
        mark = self / last
        for file in self._list(deep=True):
            if file.is_file() and file != mark:
                file.unlink()
        if self.exists():
            with self._asking() as system:
                system.delete_dir(self._key)


# --- the stores ----------------------------------------------------------------------------------------------------


def _environment() -> tuple[tuple[str, str], ...]:
    """What a connection depends on."""
    return tuple(sorted((name, value) for name, value in os.environ.items() if name.startswith("AWS_")))


@lru_cache(maxsize=64)
def _filesystem(protocol: str, bucket: str, environment: tuple[tuple[str, str], ...]) -> Any:
    """The file system of pyarrow for a bucket; the environment is that of `_environment`."""
    if protocol != "s3":
        return _by_fsspec(protocol)
    try:
        from pyarrow.fs import AwsStandardS3RetryStrategy, S3FileSystem
    except ImportError as error:
        raise PareError(
            "s3:// needs a pyarrow that was built with S3, as those on PyPI are; run `pip install pyarrow`."
        ) from error

    known = dict(environment)
    options: dict[str, Any] = {}
    endpoint = known.get("AWS_ENDPOINT_URL_S3") or known.get("AWS_ENDPOINT_URL")
    if endpoint:
        _check_reachable(endpoint)
        options["endpoint_override"] = endpoint
    region = known.get("AWS_REGION") or known.get("AWS_DEFAULT_REGION") or _region(bucket, endpoint)
    return S3FileSystem(
        region=region,
        connect_timeout=_CONNECT,
        request_timeout=_REQUEST,
        retry_strategy=AwsStandardS3RetryStrategy(max_attempts=_ATTEMPTS),
        allow_delayed_open=True,  # a small object is a single request
        **options,
    )


def _region(bucket: str, endpoint: str | None) -> str | None:
    """Where Amazon keeps a bucket; None leaves it to the settings of the user."""
    from pyarrow.fs import resolve_s3_region

    if endpoint:
        return None
    try:
        return resolve_s3_region(bucket)
    except OSError:  # the first request says what is wrong
        return None


def _check_reachable(endpoint: str) -> None:
    """Raise within seconds if nobody answers: the requests themselves would be repeated for long."""
    url = urlsplit(endpoint)
    try:
        port = url.port or (443 if url.scheme == "https" else 80)
        if url.scheme not in ("http", "https") or not url.hostname:
            raise ValueError
    except ValueError:
        raise StorageError(
            f"AWS_ENDPOINT_URL must be http://HOST:PORT or https://HOST:PORT, got {endpoint!r}."
        ) from None
    try:
        socket.create_connection((url.hostname, port), timeout=_CONNECT).close()
    except OSError as error:
        raise StorageError(
            f"no object store answers at {endpoint} ({error.strerror or error}); check AWS_ENDPOINT_URL and the "
            "network."
        ) from error


def _by_fsspec(protocol: str) -> Any:
    package = _BY_FSSPEC.get(protocol, "fsspec")
    try:
        import fsspec
        from pyarrow.fs import FSSpecHandler, PyFileSystem

        return PyFileSystem(FSSpecHandler(fsspec.filesystem(protocol)))
    except ImportError as error:
        raise PareError(f"{protocol}:// needs the package {package}; run `pip install {package}`.") from error


_GIVEN = ("AWS_ACCESS_KEY_ID", "AWS_PROFILE", "AWS_ROLE_ARN", "AWS_WEB_IDENTITY_TOKEN_FILE")


def storage_error(path: object, error: OSError) -> PareError:
    """What an object store answered, and what to do about it."""
    said = str(error)
    if "NO_SUCH_BUCKET" in said:
        return _no_bucket(path)
    if any(word in said for word in ("ACCESS_DENIED", "INVALID_ACCESS_KEY", "SIGNATURE", "TOKEN", "HTTP status 403")):
        if not any(os.environ.get(name) for name in _GIVEN) and not os.path.exists(os.path.expanduser("~/.aws")):
            return StorageError(
                f"{path}: access was denied, and no credentials are set; set AWS_ACCESS_KEY_ID and "
                "AWS_SECRET_ACCESS_KEY, or AWS_PROFILE."
            )
        return StorageError(f"{path}: access was denied; check the credentials (AWS_...) and what they may do there.")
    if "HTTP status 301" in said:
        return StorageError(f"{path}: the bucket is in another region; set AWS_REGION to that of the bucket.")
    if "NETWORK_CONNECTION" in said or "TIMEOUT" in said:
        return StorageError(
            f"{path}: the object store does not answer; check the network and AWS_ENDPOINT_URL. Run the same command "
            "again to go on."
        )
    reason = " ".join(said.split())
    return StorageError(f"{path}: the object store failed ({reason}). Run the same command again to go on.")


def _no_bucket(path: object) -> PareError:
    bucket = urlsplit(str(path)).netloc
    return StorageError(
        f"{path}: there is no bucket {bucket!r}; check its name and AWS_ENDPOINT_URL, or make it first."
    )


def is_storage_error(error: BaseException) -> TypeGuard[OSError]:
    """Whether an object store did not do what it was asked to, as pyarrow reports it."""
    return isinstance(error, OSError) and not isinstance(error, FileNotFoundError) and "AWS Error" in str(error)
