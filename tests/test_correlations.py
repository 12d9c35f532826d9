"""Correlations by hand and against scipy's."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from paredown.correlations import centred_ranks, correlation, rank_correlation, rank_correlations


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


def test_centred_ranks_by_hand() -> None:
    assert centred_ranks([5.0, 1.0, 9.0]).tolist() == [0, -2, 2]
    assert centred_ranks([5.0, 5.0, 1.0, 9.0]).tolist() == [0, 0, -3, 3]  # ranks 2.5, 2.5, 1 and 4
    assert centred_ranks([7.0, 7.0]).tolist() == [0, 0]


def test_the_matrix_is_that_of_all_pairs(rng: np.random.Generator) -> None:
    values = np.stack([rng.random(50), rng.integers(0, 3, 50), rng.random(50), np.ones(50)])
    ranks = [centred_ranks(row) for row in values]
    found = rank_correlations(ranks)
    np.testing.assert_allclose(found[:3, :3], np.array(stats.spearmanr(values[:3], axis=1))[0], atol=1e-14)
    assert np.isnan(found[3]).all()
    assert np.isnan(found[:, 3]).all()
    assert rank_correlations(ranks, constant=0.0)[3].tolist() == [0, 0, 0, 0]


def test_sums_that_do_not_fit_are_taken_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    ranks = [centred_ranks(row) for row in np.random.default_rng(3).random((2, 40))]
    whole = rank_correlations(ranks)
    monkeypatch.setattr("paredown.correlations._LARGEST", 7 * 40**2)  # blocks of seven rows
    assert rank_correlations(ranks).tolist() == whole.tolist()


@given(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), min_size=2, max_size=30), st.randoms())
def test_the_order_of_rows_does_not_change_a_bit(rows: list[tuple[int, int]], random) -> None:
    def matrix() -> list[list[float]]:
        return np.nan_to_num(rank_correlations([centred_ranks(column) for column in np.array(rows).T]), nan=9).tolist()

    before = matrix()
    random.shuffle(rows)
    assert matrix() == before
    assert before[0][1] == before[1][0]
    assert {before[0][0], before[1][1]} <= {1.0, 9.0}  # 1 exactly, unless constant
