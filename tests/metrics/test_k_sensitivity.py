"""How strongly scores depend on k: the other k that agrees least decides."""

from __future__ import annotations

import pytest

from paredown.metrics.k_sensitivity import KDependence, KSensitivity


@pytest.mark.parametrize(
    ("correlation", "dependence"),
    [
        (0.8, KDependence.HARDLY),
        (0.79, KDependence.SOMEWHAT),
        (0.5, KDependence.SOMEWHAT),
        (0.49, KDependence.STRONGLY),
    ],
)
def test_the_lowest_correlation_decides(correlation: float, dependence: KDependence) -> None:
    found = KSensitivity.of({"k": 10, "k_sensitivity": {"3": 0.95, "30": correlation}})
    assert found == KSensitivity("30", correlation)
    assert found.dependence is dependence
    assert ("try several" in str(found)) == (dependence is not KDependence.HARDLY)


def test_what_was_not_measured_is_not_known() -> None:
    assert KSensitivity.of({"k": 10}) is None
    assert KSensitivity.of({"k": 10, "k_sensitivity": {}}) is None
