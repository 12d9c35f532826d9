"""The support of the max-margin solution by exchanging many examples at once, the quickest way when P is at most N.

Given a guess of the support, solve for the multipliers that put it on the margin; then drop all examples whose
multiplier is negative and take in all that fall short of the margin. Known as block principal pivoting or the
primal-dual active-set method. It ends after some 4 to 8 exchanges or, ever more often as P exceeds N, not at all.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import get_lapack_funcs

MOST_EXAMPLES_PER_FEATURE = 1.25
FIRST_GUESS = 0.7  # fraction of the examples first taken for support: those the mean of all serves worst
MAX_EXCHANGES = 15

(_solve,) = get_lapack_funcs(("posv",), dtype=np.float64)


def exchange_support(gram: NDArray[np.float64], *, most: int) -> tuple[NDArray[np.intp] | None, int]:
    """Indices of the support of min |w|^2 subject to A w >= 1, given `gram` = AA'; and the number of exchanges.

    None if it was not found, or would have had to pass through one of more than `most` rows.
    """
    outputs = gram.sum(axis=1)  # of the mean of the rows, up to scale
    inside = outputs <= np.quantile(outputs, FIRST_GUESS)
    exchanges = 0
    while exchanges < MAX_EXCHANGES:
        exchanges += 1
        support = np.flatnonzero(inside)
        if not 0 < len(support) <= most:
            break
        # LAPACK wants columns first; the transpose of a symmetric matrix is itself in that order.
        _, solution, info = _solve(gram[np.ix_(support, support)].T, np.ones(len(support)), overwrite_a=True)
        if info != 0:
            break
        lam = np.zeros(len(gram))
        lam[support] = solution
        right = np.where(inside, lam > 0, gram @ lam < 1)
        if np.array_equal(right, inside):
            return support, exchanges
        inside = right
    return None, exchanges
