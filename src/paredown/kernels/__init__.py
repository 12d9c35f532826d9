"""The one inner loop of prototype metrics: which centroid is nearest in cosine, and how near.

`nearest(block, centroids)` is the reference in float32. `choose_search` picks the fastest kernel that agrees with it on
a few thousand sample rows; whatever chooses the centroid, the cosine that becomes the score is a float32 one.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterable, Iterator
from time import process_time
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError, unknown_name
from paredown.kernels.exact import ExactSearch
from paredown.kernels.lowbit import BFloat16Search, CudaSearch, Int8Search
from paredown.kernels.screened import ScreenedSearch, fit_screen, leading_basis, screens

__all__ = [
    "KERNELS",
    "TRIAL_ROWS",
    "Search",
    "choose_search",
    "fit_screen",
    "leading_basis",
    "load_search",
    "nearest",
    "search_arrays",
    "worth_a_trial",
]

TRIAL_ROWS = 4_096
AGREEMENT = 0.999  # of the sample rows must get the centroid that float32 gives them
_FASTER = 1.15  # another kernel must be this much faster than float32
_WORTHWHILE = 5e10  # multiplications below which choosing would take longer than it saves
_WORTH_TORCH = 20.0  # seconds of searching below which importing torch would take longer than it saves
_QUICK_LOOK = 256  # rows after which a kernel that is clearly slower is given up
_TORCH = ("int8", "bfloat16", "cuda")

Rows = NDArray[np.float32]
Indices = NDArray[np.int64]


class Search(Protocol):
    """A search prepared for given centroids: unit rows in, index and cosine of the nearest centroid out."""

    name: str

    def __call__(self, block: Rows) -> tuple[Indices, NDArray[np.float32]]:
        """Index and cosine of the nearest centroid for every row."""
        ...


def nearest(block: Rows, centroids: Rows) -> tuple[Indices, NDArray[np.float32]]:
    """For unit rows, the index of the centroid with the largest cosine, and that cosine."""
    return ExactSearch(centroids)(block)


def worth_a_trial(n: int, centroid_numbers: int) -> bool:
    """Whether comparing n rows with centroids of so many numbers is enough work to look for a faster kernel."""
    return n * centroid_numbers >= _WORTHWHILE


def choose_search(centroids: Rows, rows: Rows, *, n: int, kernel: str = "auto") -> Search:
    """The search for `n` rows like the sample `rows`: of the named kernel, or the fastest that agrees with float32.

    Small problems take float32 without a trial.
    """
    if kernel not in KERNELS:
        raise unknown_name("kernel", kernel, KERNELS)
    exact = ExactSearch(centroids)
    if kernel == "float32" or (kernel == "auto" and not worth_a_trial(n, centroids.size)):
        return exact
    rows = rows[:TRIAL_ROWS]
    truth, _ = exact(rows)
    limit = _seconds(exact, rows) / _FASTER if kernel == "auto" else np.inf
    best: Search | None = None
    for name in _present() if kernel == "auto" else [kernel]:
        if name in _TORCH and kernel == "auto" and "torch" not in sys.modules and limit * n / len(rows) < _WORTH_TORCH:
            continue
        for search in _prepared(name, centroids, rows, truth, optional=kernel == "auto"):
            quick = _seconds(search, rows[:_QUICK_LOOK]) * len(rows) / _QUICK_LOOK
            if quick < 2 * limit and np.mean(search(rows)[0] == truth) >= AGREEMENT:
                seconds = _seconds(search, rows)
                if seconds < limit:
                    best, limit = search, seconds
                elif best is not None:
                    break  # those of a kind come from the quickest to the surest
    if best is None and kernel != "auto":
        raise PareError(f"kernel {kernel!r} does not agree with float32 on these data; use kernel 'float32'.")
    return best or exact


def search_arrays(search: Search) -> dict[str, NDArray[Any]]:
    """What `load_search` needs beside the name and the centroids."""
    return {"basis": search.basis, "margin": np.array(search.margin)} if isinstance(search, ScreenedSearch) else {}


def load_search(name: str, centroids: Rows, arrays: dict[str, NDArray[Any]]) -> Search:
    """A search that was chosen before, by its name; float32 if what it needs is not here."""
    if "basis" in arrays:
        return ScreenedSearch(centroids, arrays["basis"], float(arrays["margin"]))
    try:
        return next(iter(KERNELS[name](centroids, centroids, np.arange(0))))
    except (PareError, RuntimeError):
        return ExactSearch(centroids)


def _present() -> list[str]:
    return ["screened", *(_TORCH if importlib.util.find_spec("torch") else ())]


def _prepared(name: str, centroids: Rows, rows: Rows, truth: Indices, *, optional: bool) -> Iterator[Search]:
    try:
        yield from KERNELS[name](centroids, rows, truth)
    except (PareError, RuntimeError):  # an instruction, a device or a private function that is not there
        if not optional:
            raise


def _seconds(search: Search, rows: Rows) -> float:
    """The quicker of two runs, in seconds of processor time."""
    times = []
    for _ in range(2):
        start = process_time()
        search(rows)
        times.append(process_time() - start)
    return max(min(times), 1e-9)


# Name -> the searches to try, for given centroids and sample rows with their nearest centroids.
KERNELS: dict[str, Callable[[Rows, Rows, Indices], Iterable[Search]]] = {
    "auto": lambda centroids, rows, truth: (),
    "float32": lambda centroids, rows, truth: (ExactSearch(centroids),),
    "screened": screens,
    "int8": lambda centroids, rows, truth: (Int8Search(centroids),),
    "bfloat16": lambda centroids, rows, truth: (BFloat16Search(centroids),),
    "cuda": lambda centroids, rows, truth: (CudaSearch(centroids),),
}
