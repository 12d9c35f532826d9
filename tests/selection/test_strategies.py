from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from paredown.selection.strategies import STRATEGIES


@given(st.lists(st.tuples(st.sampled_from([-1.5, -0.0, 0.0, 1e-300, 2.0, 3.25]), st.integers(0, 3)), min_size=1))
def test_the_fast_order_is_that_of_a_lexsort(rows: list[tuple[float, int]]) -> None:
    values, hashes = np.array([row[0] for row in rows]), np.array([row[1] for row in rows], np.uint64)
    expected = np.lexsort((hashes, -values))
    np.testing.assert_array_equal(STRATEGIES["hard"](values, hashes, 0), expected)
    np.testing.assert_array_equal(STRATEGIES["easy"](values, hashes, 0), expected[::-1])
