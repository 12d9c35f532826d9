"""Memorization and influence against values known by hand, by enumeration and by leaving one out exactly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import spearmanr

from paredown.errors import PareError
from paredown.metrics import prediction_arrays
from paredown.metrics.disagreement import ensemble_uncertainty, misclassified, sum_predictions
from paredown.metrics.reliability import Reliability, Trust, reliability_facts, spearman_brown, split_half
from paredown.metrics.subset_estimates import balanced_masks
from paredown.metrics.subset_estimates import estimate_influence as influence
from paredown.metrics.subset_estimates import estimate_memorization as memorization


def table(*rows: str) -> np.ndarray:
    return np.array([[letter == "1" for letter in row] for row in rows])


# Four models and three examples.
MASKS = table("110", "101", "011", "010")
CORRECT = table("110", "011", "111", "101")


def nearest_neighbour(masks: np.ndarray, distance: np.ndarray, labels: np.ndarray) -> np.ndarray:
    """Whether one-nearest-neighbour, a model that memorizes exactly, is right with each training subset."""
    blocked = np.where(masks[:, None, :], distance, np.inf)
    return labels[blocked.argmin(axis=2)] == labels


def line(n: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Points on a line in two noisy classes: their distances and labels."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, n)
    return np.abs(x[:, None] - x), (x + 0.5 * rng.standard_normal(n) > 0).astype(np.int64)


def test_memorization_by_hand() -> None:
    # Example 0 is in models 0 and 1, of which one is right, and out of 2 and 3, which are both right: 1/2 - 1.
    # Example 1 is in 0, 2 and 3, right in two, and out of 1, which is right. Example 2 is in 1 and 2, both right.
    np.testing.assert_allclose(memorization(MASKS, CORRECT)[0], [0.5 - 1, 2 / 3 - 1, 1 - 0.5])


def test_influence_by_hand() -> None:
    # On a test set of one example that models 0 and 2 get right.
    top, total = influence(MASKS, CORRECT, test_correct=table("1", "0", "1", "0"))
    expected = [1 / 2 - 1 / 2, 2 / 3 - 0, 1 / 2 - 1 / 2]
    np.testing.assert_allclose(top[0], expected, atol=1e-7)
    np.testing.assert_allclose(total[0], np.abs(expected), atol=1e-7)


def slow_influence(masks: np.ndarray, correct: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Pair by pair, from only those models that did not train on j."""
    n = masks.shape[1]
    top, total = np.full(n, -np.inf), np.zeros(n)
    for i in range(n):
        known = []
        for j in range(n):
            with_i, without = masks[:, i] & ~masks[:, j], ~masks[:, i] & ~masks[:, j]
            if i != j and with_i.any() and without.any():
                known.append(correct[with_i, j].mean() - correct[without, j].mean())
        top[i], total[i] = max(known), np.abs(known).sum() * (n - 1) / len(known)
    return top, total


@pytest.mark.parametrize(("models", "block"), [(40, 2048), (40, 7), (9, 7)])
def test_influence_on_examples_left_out_is_the_slow_one(models: int, block: int, monkeypatch) -> None:
    """In one block and in many, and (9 models) where some pairs are never told apart."""
    monkeypatch.setattr(prediction_arrays, "_BLOCK", block)
    distance, labels = line(30)
    masks = balanced_masks(models, 30, share=0.7, seed=1)
    correct = nearest_neighbour(masks, distance, labels)
    top, total = influence(masks, correct)
    slow_top, slow_total = slow_influence(masks, correct)
    np.testing.assert_allclose(top[0], slow_top, atol=1e-6)
    np.testing.assert_allclose(total[0], slow_total, atol=1e-5)
    if models == 40:
        np.testing.assert_allclose(total[1], slow_influence(masks[:20], correct[:20])[1], atol=1e-5)
        np.testing.assert_allclose(top[2], slow_influence(masks[20:], correct[20:])[0], atol=1e-6)


def test_memorization_of_left_out_examples_is_exact() -> None:
    """One model less each example: what those with it say less what the one without it says, without any sampling."""
    distance, labels = line(50)
    masks = ~np.eye(50, dtype=bool)
    correct = nearest_neighbour(masks, distance, labels)
    np.fill_diagonal(distance, np.inf)
    lost = labels[distance.argmin(axis=1)] != labels  # wrong once it is gone; right before, as its own neighbour
    np.testing.assert_array_equal(memorization(masks, correct)[0], lost.astype(float))
    assert 0 < lost.sum() < 50


def test_memorization_from_subsets_is_the_expected_value() -> None:
    """For nearest neighbours the probability under random subsets is a sum over ranks of neighbours."""
    n, size, models = 40, 28, 2000
    distance, labels = line(n)
    masks = balanced_masks(models, n, share=0.7, seed=0)
    found = memorization(masks, nearest_neighbour(masks, distance, labels))[0]
    expected = np.empty(n)
    for i in range(n):
        same = labels[np.argsort(distance[i])[1:]] == labels[i]
        right, none_nearer = 0.0, 1.0  # without i: the nearest neighbour that is in, of n - 1 others of which size are
        for rank, agrees in enumerate(same):
            chance = min(1.0, size / (n - 1 - rank))
            right += none_nearer * chance * agrees
            none_nearer *= 1 - chance
        expected[i] = 1 - right
    # 600 models without each example: four standard errors of a share are 0.08.
    np.testing.assert_allclose(found, expected, atol=4 * 0.5 / np.sqrt(600))
    assert np.std(expected) > 0.2


@settings(max_examples=50)
@given(
    models=st.integers(7, 60), n=st.integers(4, 80), share=st.sampled_from([0.3, 0.5, 0.7]), seed=st.integers(0, 1000)
)
def test_subsets_are_balanced(models: int, n: int, share: float, seed: int) -> None:
    size = round(share * n)
    if models * min(size, n - size) < 2 * n:
        with pytest.raises(PareError, match="leave examples in, or out of, fewer than two of them; train more models"):
            balanced_masks(models, n, share=share, seed=seed)
        return
    masks = balanced_masks(models, n, share=share, seed=seed)
    assert (masks.sum(axis=1) == size).all()
    assert np.ptp(masks.sum(axis=0)) <= 1
    assert np.ptp(masks[: models // 2].sum(axis=0)) <= 1
    assert np.ptp(masks[models // 2 :].sum(axis=0)) <= 2  # from the middle of one permutation to that of another
    assert masks.sum(axis=0).min() >= 2
    assert (models - masks.sum(axis=0)).min() >= 2


def test_subsets_are_random() -> None:
    """Two examples are together as often as independent ones would be, or nearly, and seeds give other subsets."""
    masks = balanced_masks(2000, 20, share=0.7, seed=0)
    together = (masks.astype(float).T @ masks)[np.triu_indices(20, 1)] / 2000
    np.testing.assert_allclose(together, 14 * 13 / (20 * 19), atol=0.05)
    assert (masks != balanced_masks(2000, 20, share=0.7, seed=1)).any()


@pytest.mark.parametrize(
    ("masks", "message"),
    [
        (table("11", "10", "11"), r"row 0 was in all of the 3 training subsets: there is nothing to compare"),
        (table("01", "00", "00"), r"row 0 was in none of the 3 training subsets"),
        (table("01", "10"), r"must both be \(models, examples\), got \(2, 2\) and \(3, 2\)"),
    ],
)
def test_what_cannot_be_compared_is_named(masks, message) -> None:
    correct = np.ones((3, 2), bool)
    for estimate in (memorization, influence):
        with pytest.raises(PareError, match=message):
            estimate(masks, correct)


def test_influence_needs_pairs_told_apart() -> None:
    with pytest.raises(PareError, match=r"no models tell the influence of rows 0, 1 on any other example"):
        influence(table("10", "01"), table("11", "11"))


# --- how far to trust an estimate ----------------------------------------------------------------------------------


def test_reliability_formulas() -> None:
    assert spearman_brown(0.5) == pytest.approx(2 / 3)
    assert spearman_brown(-0.2) == 0
    # From 100 models of reliability 0.25, k times as many have 0.7: k = 0.7 * 0.75 / (0.25 * 0.3) = 7.
    quarter = Reliability(100, 1 / 7)
    assert quarter.value == pytest.approx(0.25)
    assert quarter.models_needed == 700
    assert quarter.warning("el2n") == (
        "scores of el2n from 100 models are mostly noise (reliability 0.25, half-to-half correlation 0.14); about 700 "
        "models would reach 0.7."
    )
    assert Reliability(100, 0).models_needed is None
    assert Reliability.of({"models": 100}) is None


@pytest.mark.parametrize(
    ("value", "trust"),
    [(0.29, Trust.NOISE), (0.31, Trust.UNRELIABLE), (0.69, Trust.UNRELIABLE), (0.71, Trust.RELIABLE)],
)
def test_trust_in_scores_has_one_set_of_thresholds(value: float, trust: Trust) -> None:
    found = Reliability(10, value / (2 - value))
    assert found.value == pytest.approx(value)
    assert found.trust is trust
    assert (found.warning("el2n") is None) == (trust is Trust.RELIABLE)


def test_reliability_of_true_scores_with_noise(rng) -> None:
    """Halves with as much noise as signal correlate by 0.5, and the whole has 2/3 of its variance from the signal."""
    signal = rng.standard_normal(20_000)
    halves = tuple(signal + rng.standard_normal(20_000) for _ in range(2))
    whole = np.mean(halves, axis=0)
    facts = reliability_facts("memorization", halves, 100)
    assert facts["split_half"] == pytest.approx(0.5, abs=0.03)
    assert facts["reliability"] == pytest.approx(spearmanr(whole, signal).statistic ** 2, abs=0.03)
    found = Reliability.of(facts)
    assert found is not None
    assert found.trust is Trust.UNRELIABLE
    assert facts["warnings"] == [found.warning("memorization")]


def test_noise_is_called_noise(rng) -> None:
    halves = tuple(rng.standard_normal(500) for _ in range(2))
    facts = reliability_facts("influence_max", halves, 120)
    assert facts["models"] == 120
    found = Reliability.of(facts)
    assert found is not None
    assert found.trust is Trust.NOISE
    assert facts["warnings"] == [found.warning("influence_max")]
    same = reliability_facts("memorization", (halves[0], halves[0]), 120)
    assert same["reliability"] == 1
    assert "warnings" not in same


def test_nearest_neighbours_are_reliably_memorized() -> None:
    distance, labels = line(200)
    masks = balanced_masks(200, 200, share=0.7, seed=0)
    correct = nearest_neighbour(masks, distance, labels)
    assert split_half(memorization(masks, correct)[1:]) > 0.9


# --- uncertainty and errors of an ensemble -------------------------------------------------------------------------


def test_uncertainty_by_hand() -> None:
    # Two members agree on the first row, contradict each other on the second, and shrug together at the third.
    logits = np.log([[[0.9, 0.1], [0.9, 0.1], [0.5, 0.5]], [[0.9, 0.1], [0.1, 0.9], [0.5, 0.5]]])
    members = [sum_predictions(logits[member : member + 1]) for member in range(2)]
    whole = {name: members[0][name] + members[1][name] for name in members[0]}
    own = -(0.9 * np.log(0.9) + 0.1 * np.log(0.1))
    np.testing.assert_allclose(ensemble_uncertainty(whole, "entropy"), [own, np.log(2), np.log(2)])
    np.testing.assert_allclose(ensemble_uncertainty(whole, "mutual_information"), [0, np.log(2) - own, 0], atol=1e-12)
    np.testing.assert_allclose(ensemble_uncertainty(whole, "variation_ratio"), [0, 0.5, 0])
    with pytest.raises(PareError, match=r"unknown uncertainty 'entropie'; available: .* Did you mean 'entropy'"):
        ensemble_uncertainty(whole, "entropie")


def test_misclassified_by_hand() -> None:
    logits = np.log([[[0.7, 0.2, 0.1], [0.3, 0.6, 0.1], [0.4, 0.4, 0.2]]])
    wrong, excess = misclassified(logits, np.array([0, 0, 0]))
    assert wrong.tolist() == [[False, True, True]]  # saying two classes alike is not knowing
    np.testing.assert_allclose(excess, [[-0.5, 0.3, 0]], atol=1e-12)
