"""Standard errors by hand, and where there is nothing to estimate them from."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paredown.standard_errors import share_error, standard_error


def test_of_a_mean() -> None:
    found = standard_error([1.0, 3.0])
    assert found == pytest.approx(1.0)
    assert type(found) is float
    assert standard_error(np.array([1, 2, 3, 6])) == pytest.approx(math.sqrt(14 / 3 / 4))


def test_of_several_means_at_once() -> None:
    runs = np.array([[1.0, 0.1, np.nan], [3.0, 0.1, 1.0], [5.0, 0.1, 2.0]])
    np.testing.assert_allclose(standard_error(runs), [2 / math.sqrt(3), 0, np.nan])


def test_fewer_than_two_values_have_none_and_equal_values_have_zero() -> None:
    assert math.isnan(standard_error([]))
    assert math.isnan(standard_error([1.0]))
    np.testing.assert_array_equal(standard_error(np.ones((1, 2))), [np.nan, np.nan])
    same = np.array([0.1, 0.1, 0.1])
    assert same.std(ddof=1) > 0  # rounded
    assert standard_error(same) == 0


def test_of_a_share() -> None:
    found = share_error(0.8, 100)
    assert found == pytest.approx(0.04)
    assert type(found) is float
    np.testing.assert_allclose(share_error(np.array([0.0, 0.5, 1.0]), 25), [0, 0.1, 0])
    assert math.isnan(share_error(float("nan"), 0))
    np.testing.assert_array_equal(share_error(np.array([np.nan, 1.0]), 0), [np.nan, np.nan])
