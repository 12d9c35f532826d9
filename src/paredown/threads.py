"""One BLAS thread: for matrices too small to share, and for results that must not depend on the number of cores."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import scipy.linalg  # noqa: F401 (loads its BLAS, so that the controller below finds it)
from threadpoolctl import ThreadpoolController


def one_blas_thread() -> AbstractContextManager[Any]:
    """Run the block on one core, so that matrix products and factorisations give the same bits on any number of them.

    On a busy machine the threads of one small matrix product wait for each other far longer than they compute: a
    factor of 50 was seen with two threads at N = 200. The switch itself takes some 20 microseconds.
    """
    return _blas_libraries().limit(limits=1, user_api="blas")


def blas_threads() -> int:
    """On how many cores BLAS works, as the user or the machine has it."""
    return max((library["num_threads"] for library in _blas_libraries().info()), default=1)


@cache
def _blas_libraries() -> ThreadpoolController:
    return ThreadpoolController()  # looks through every loaded library, so once is enough
