"""Whether torch is there, and how many threads it may use."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import find_spec

from paredown.errors import PareError

__all__ = ["require_torch", "torch_threads"]


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
