"""Whether torch is there, and what it may use: threads, and which GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from importlib.util import find_spec

from paredown.errors import PareError
from paredown.workers import available_cores, worker_number


def require_torch(what: str) -> None:
    """Raise, naming the extra to install, where torch is missing. Says so before data are read."""
    if find_spec("torch") is None:
        raise PareError(f"{what} needs torch: pip install 'paredown[train]'.")


@contextmanager
def torch_threads(threads: int | None) -> Iterator[None]:
    """Give torch so many threads meanwhile; None leaves it as it is."""
    if threads is None:
        yield
        return
    if threads < 1:
        raise PareError(f"threads must be at least 1, got {threads}.")
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def available_workers() -> int:
    """How many processes may train at once: one for every GPU or, where there are none, for every core."""
    if find_spec("torch") is None or version("torch").endswith("+cpu"):  # without the seconds of importing it
        return available_cores()
    import torch

    return torch.cuda.device_count() if torch.cuda.is_available() else available_cores()


def default_device() -> str:
    """`cuda` where there is one, otherwise `cpu`; workers of one machine take its GPUs in turn."""
    import torch

    if not torch.cuda.is_available():
        return "cpu"
    number = worker_number()
    return "cuda" if number is None else f"cuda:{number % torch.cuda.device_count()}"
