"""Closed forms against fits that really leave examples out."""

from __future__ import annotations

import numpy as np
import pytest

import paredown as pdn
from paredown.metrics import leave_one_out as module
from paredown.metrics import prediction_arrays, subset_training
from paredown.metrics.leave_one_out import leave_one_out


def made(n: int, seed: int = 0, classes: int = 3, d: int = 4) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    labels = rng.integers(classes, size=n)
    labels[:classes] = np.arange(classes)
    return np.eye(classes, d)[labels] + rng.standard_normal((n, d)), labels


class Ridge:
    """The same regression, fitted anew to some of the rows. Its origin and its ridge are those of all of them."""

    def __init__(self, x: np.ndarray, labels: np.ndarray, ridge: float) -> None:
        self.middle = x.mean(axis=0)
        self.x = self.inputs(x)
        self.targets = np.eye(labels.max() + 1)[labels]
        self.penalty = ridge * np.linalg.eigvalsh(self.x.T @ self.x).mean() * np.eye(self.x.shape[1])

    def inputs(self, x: np.ndarray) -> np.ndarray:
        return np.hstack([x - self.middle, np.ones((len(x), 1))])

    def weights(self, left_out: list[int]) -> np.ndarray:
        x, y = np.delete(self.x, left_out, axis=0), np.delete(self.targets, left_out, axis=0)
        return np.linalg.solve(x.T @ x + self.penalty, x.T @ y)


def test_memorization_is_what_fits_without_each_example_say() -> None:
    x, labels = made(30)
    found = leave_one_out(x, labels)
    slow = Ridge(x, labels, found.ridge)
    change = [(slow.x[i] @ (slow.weights([]) - slow.weights([i])))[labels[i]] for i in range(30)]
    np.testing.assert_allclose(found.memorization, change, rtol=1e-9, atol=1e-12)
    right = [(slow.x[i] @ slow.weights([i])).argmax() == labels[i] for i in range(30)]
    assert found.accuracy == np.mean(right)


def test_influence_on_tests_is_what_fits_without_each_example_say() -> None:
    x, labels = made(25)
    tests, classes = made(11, seed=1)
    found = leave_one_out(x, labels, test=(tests, classes))
    slow = Ridge(x, labels, found.ridge)
    at = slow.inputs(tests)
    change = np.array([(at @ (slow.weights([]) - slow.weights([i])))[np.arange(11), classes] for i in range(25)])
    np.testing.assert_allclose(found.influence_max, change.max(axis=1), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found.influence_sum_abs, np.abs(change).sum(axis=1), rtol=1e-9)


def test_influence_on_each_other_leaves_out_both() -> None:
    n = 20
    x, labels = made(n)
    found = leave_one_out(x, labels)
    slow = Ridge(x, labels, found.ridge)
    change = np.full((n, n), np.nan)
    for i in range(n):
        for j in range(n):
            if i != j:
                moved = slow.weights([j]) - slow.weights([i, j])
                change[i, j] = (slow.x[j] @ moved)[labels[j]]
    np.testing.assert_allclose(found.influence_max, np.nanmax(change, axis=1), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.influence_sum_abs, np.nansum(np.abs(change), axis=1), rtol=1e-8)


def test_the_ridge_is_the_best_of_the_grid_on_examples_left_out() -> None:
    x, labels = made(40, d=12)
    found = leave_one_out(x, labels)

    def missed(ridge: float) -> float:
        slow = Ridge(x, labels, ridge)
        return sum(np.square(slow.targets[i] - slow.x[i] @ slow.weights([i])).sum() for i in range(40))

    errors = {ridge: missed(ridge) for ridge in module._RIDGES}
    assert found.ridge == min(errors, key=errors.__getitem__)


@pytest.mark.parametrize("with_test", [False, True])
def test_blocks_change_nothing(monkeypatch: pytest.MonkeyPatch, with_test: bool) -> None:
    x, labels = made(23)
    test = made(9, seed=2) if with_test else None
    whole = leave_one_out(x, labels, test=test)
    monkeypatch.setattr(prediction_arrays, "_BLOCK", 4)
    for one, other in zip(whole, leave_one_out(x, labels, test=test), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-13)


def test_the_wrong_label_is_memorized_most() -> None:
    x, labels = made(200, seed=3, classes=2)
    x[labels == 1, 0] += 6
    labels[17] = 1 - labels[17]
    assert leave_one_out(x, labels).memorization.argmax() == 17


def test_scores_in_closed_form_are_in_the_order_of_the_source() -> None:
    x, labels = made(60, seed=5)
    found = leave_one_out(x, labels)
    for metric in ("memorization", "influence_max", "influence_sum_abs"):
        scores = pdn.score(x, metric=metric, labels=labels, closed_form=True)
        np.testing.assert_allclose(scores.values, getattr(found, metric), rtol=1e-5)
        assert scores.provenance["report"]["closed_form"] is True
        assert scores.provenance["report"]["accuracy_out"] == found.accuracy


def test_options_of_networks_are_refused_where_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subset_training, "load_probes", None)  # refused before the examples are read
    x, labels = made(30)
    with pytest.raises(
        pdn.PareError, match="members would have no effect: closed_form=True trains no networks; leave it out"
    ):
        pdn.score(x, metric="influence_max", labels=labels, closed_form=True, members=50)
