from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paredown.selection import balance_of_counts
from paredown.selection.strategies import STRATEGIES


@given(st.lists(st.tuples(st.sampled_from([-1.5, -0.0, 0.0, 1e-300, 2.0, 3.25]), st.integers(0, 3)), min_size=1))
def test_the_fast_order_is_that_of_a_lexsort(rows: list[tuple[float, int]]) -> None:
    values, hashes = np.array([row[0] for row in rows]), np.array([row[1] for row in rows], np.uint64)
    expected = np.lexsort((hashes, -values))
    np.testing.assert_array_equal(STRATEGIES["hard"](values, hashes, 0), expected)
    np.testing.assert_array_equal(STRATEGIES["easy"](values, hashes, 0), expected[::-1])


def test_balance_is_the_same_for_counts_and_for_shares() -> None:
    for counts in ([1, 2, 5], [0, 0, 3], [4, 4]):
        shares = np.array(counts) / sum(counts)
        np.testing.assert_allclose(balance_of_counts(shares), balance_of_counts(np.array(counts)))
    assert balance_of_counts(np.array([1, 2, 5])) == (1 / 2 + 1 / 5 + 2 / 5) / 3
