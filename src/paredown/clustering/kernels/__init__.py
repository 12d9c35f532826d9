"""The one inner loop of prototype metrics: which centroid is nearest in cosine, and how near.

Every kernel of `KERNELS` gives the same answer to the last bit, on any number of threads and in blocks of any height:
the centroid with the largest float32 cosine, computed pair by pair, and the lowest index among equals (see
`kernels.cosines`). They differ in how they rule out all others, and so in speed only. `choose_search` picks one by
counting multiplications on a few sample rows. The search of `kernels.grouped`, for many centroids, is approximate and
never chosen here.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from paredown.clustering.kernels.cosines import Indices, Rows
from paredown.clustering.kernels.exact import ExactSearch, ProductSearch
from paredown.clustering.kernels.grouped import GroupedSearch
from paredown.clustering.kernels.low_precision import BFloat16Search, CudaSearch, Int8Search, import_torch
from paredown.clustering.kernels.screened import WIDTHS, ScreenedSearch, leading_basis, screens
from paredown.errors import PareError, check_known
from paredown.threads import one_blas_thread

__all__ = [
    "KERNELS",
    "SAMPLE_ROWS",
    "CentroidSearch",
    "choose_search",
    "fewest_operations",
    "leading_basis",
    "load_search",
    "nearest",
    "search_arrays",
    "torch_kernels",
    "worth_a_choice",
]

SAMPLE_ROWS = 4_096  # to find the leading dimensions of
_COUNTED_ROWS = 512  # of them, on which operations are counted
_WORTHWHILE = 5e10  # multiplications below which choosing would take longer than it saves
_WORTH_TORCH = 1e12  # multiplications below which importing torch would take longer than it saves


class CentroidSearch(Protocol):
    """A search prepared for given centroids: unit rows in, index and cosine of the nearest centroid out."""

    name: str
    centroids: Rows

    def __call__(self, block: Rows) -> tuple[Indices, NDArray[np.float32]]:
        """Index and cosine of the nearest centroid for every row."""
        ...


CountedSearch = ProductSearch | ScreenedSearch  # exact, and chosen by the operations counted on some rows


def nearest(block: Rows, centroids: Rows) -> tuple[Indices, NDArray[np.float32]]:
    """For unit rows, the index of the centroid with the largest cosine, and that cosine."""
    return ExactSearch(centroids)(block)


def worth_a_choice(n: int, centroid_numbers: int) -> bool:
    """Whether comparing n rows with centroids of so many numbers is enough work to look for a faster kernel."""
    return n * centroid_numbers >= _WORTHWHILE


def choose_search(centroids: Rows, rows: Rows, *, n: int, kernel: str = "auto") -> CentroidSearch:
    """The search for `n` rows like the sample `rows`: of the named kernel, or the one with the fewest operations.

    Small problems take float32 without counting.
    """
    check_known("kernel", kernel, KERNELS)
    if kernel != "auto":
        return fewest_operations(KERNELS[kernel](centroids, rows), rows)
    if not worth_a_choice(n, centroids.size):
        return ExactSearch(centroids)
    possible: list[CountedSearch] = [
        ExactSearch(centroids),
        *(_screens(centroids, rows) if centroids.shape[1] >= 2 * WIDTHS[0] else ()),
    ]
    for name in torch_kernels(n * centroids.size):
        with suppress(PareError, RuntimeError):  # a private function of torch that is not there, or not exact here
            possible += KERNELS[name](centroids, rows)
    return fewest_operations(possible, rows)


def fewest_operations(possible: Sequence[CountedSearch], rows: Rows) -> CountedSearch:
    """The search that needs the fewest operations for rows like these; the first among equals."""
    if len(possible) == 1:
        return possible[0]
    with one_blas_thread():  # rounding decides what is counted, and with it which name a report holds
        return min(possible, key=lambda search: search.operations(rows[:_COUNTED_ROWS]))


def search_arrays(search: CentroidSearch) -> dict[str, NDArray[Any]]:
    """What `load_search` needs beside the name and the centroids."""
    if isinstance(search, GroupedSearch):
        return {"starts": search.starts, "middles": search.middles, "probes": np.array(search.probes)}
    return {"basis": search.basis} if isinstance(search, ScreenedSearch) else {}


def load_search(name: str, centroids: Rows, arrays: dict[str, NDArray[Any]]) -> CentroidSearch:
    """A search that was chosen before, by its name; float32 if what it needs is not here."""
    if name.startswith("screened") and "basis" in arrays:
        return ScreenedSearch(centroids, arrays["basis"])
    if name == GroupedSearch.name:
        return GroupedSearch(centroids, arrays["starts"], arrays["middles"], int(arrays["probes"]))
    try:
        return choose_search(centroids, centroids, n=0, kernel=name)
    except (PareError, RuntimeError):
        return ExactSearch(centroids)


def _screens(centroids: Rows, rows: Rows) -> Sequence[CountedSearch]:
    """Screens of every width that saves something; of half the dimensions where there are few."""
    dim = centroids.shape[1]
    widths = tuple(width for width in WIDTHS if 2 * width <= dim) or (-(-dim // 2),)
    return screens(centroids, rows[:SAMPLE_ROWS], widths)


def torch_kernels(multiplications: float, worth: float = _WORTH_TORCH) -> Iterator[str]:
    """The kernels of torch that are quick here, if it is imported already or that would pay."""
    if importlib.util.find_spec("torch") is None or ("torch" not in sys.modules and multiplications < worth):
        return
    torch = import_torch()
    if torch.cuda.is_available():
        yield "cuda"
    for name, instructions in (("int8", "_is_vnni_supported"), ("bfloat16", "_is_avx512_bf16_supported")):
        if getattr(torch.cpu, instructions, bool)():
            yield name


# Name -> the searches to choose from, for given centroids and sample rows.
KERNELS: dict[str, Callable[[Rows, Rows], Sequence[CountedSearch]]] = {
    "auto": lambda centroids, rows: (),
    "float32": lambda centroids, rows: (ExactSearch(centroids),),
    "screened": _screens,
    "int8": lambda centroids, rows: (Int8Search(centroids),),
    "bfloat16": lambda centroids, rows: (BFloat16Search(centroids),),
    "cuda": lambda centroids, rows: (CudaSearch(centroids),),
}
