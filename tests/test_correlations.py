"""Correlations by hand and against scipy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from paredown.correlations import correlation, rank_correlation


def test_rank_correlation_by_hand() -> None:
    assert rank_correlation([1, 2, 3], [10, 20, 90]) == pytest.approx(1)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert rank_correlation([1, 2, 2, 3], [1, 2, 3, 4]) == pytest.approx(np.sqrt(0.9))  # ties share a rank


def test_they_are_those_of_scipy(rng: np.random.Generator) -> None:
    a = rng.integers(0, 9, 50).astype(float)
    b = a + rng.integers(0, 9, 50)
    assert correlation(a, b) == pytest.approx(stats.pearsonr(a, b).statistic, abs=1e-14)
    assert rank_correlation(a, b) == pytest.approx(stats.spearmanr(a, b).statistic, abs=1e-14)


@pytest.mark.parametrize("how", [correlation, rank_correlation])
def test_rows_without_values_are_left_out_and_constants_have_no_correlation(how) -> None:
    whole = how([1, 2, 4], [2, 1, 5])
    assert how([1, np.nan, 2, 7, 4], [2, 3, 1, np.inf, 5]) == pytest.approx(whole)
    assert math.isnan(how([0.1, 0.1, 0.1], [1, 2, 3]))
    assert how([0.1, 0.1, 0.1], [1, 2, 3], constant=0.0) == 0
    assert math.isnan(how([1, np.nan], [1, 2]))
    assert math.isnan(how([np.nan], [1]))
