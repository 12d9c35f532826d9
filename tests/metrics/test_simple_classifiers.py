"""Classifiers without gradients: each against the same by another way."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.special import softmax
from scipy.stats import multivariate_normal

from paredown.metrics.simple_classifiers import (
    SIMPLE_CLASSIFIERS,
    class_means,
    discriminant,
    judge_folds,
    neighbours,
)

CLASSES = 3


@pytest.fixture
def blobs(rng) -> tuple[np.ndarray, np.ndarray]:
    """Three classes of unequal size, long in the direction that does not separate them."""
    labels = rng.permutation(np.repeat(np.arange(CLASSES), (200, 120, 80)))
    return rng.standard_normal((400, 2)) * (0.6, 6.0) + np.array([[0, 0], [2, 1], [4, -1]])[labels], labels


def test_class_means_are_balls_of_one_size(blobs) -> None:
    known, labels = blobs
    asked = np.array([[0.1, 0.0], [3.0, 5.0]])
    means = np.array([known[labels == c].mean(axis=0) for c in range(CLASSES)])
    variance = np.mean([np.square(row - means[code]).mean() for row, code in zip(known, labels, strict=True)])
    expected = [[multivariate_normal.pdf(row, mean, variance) for mean in means] for row in asked]
    found = softmax(class_means(known, labels, asked, CLASSES), axis=1)
    np.testing.assert_allclose(found, expected / np.sum(expected, axis=1, keepdims=True), rtol=1e-9)


def test_the_discriminant_knows_covariance_and_shares(blobs) -> None:
    known, labels = blobs
    asked = np.array([[0.9, 0.0], [1.1, 8.0]])
    means = np.array([known[labels == c].mean(axis=0) for c in range(CLASSES)])
    within = known - means[labels]
    scatter = within.T @ within / 400
    ball = 2 / 402
    scatter = (1 - ball) * scatter + ball * np.trace(scatter) / 2 * np.eye(2)
    shares = np.bincount(labels) / 400
    density = np.array([[multivariate_normal.pdf(row, mean, scatter) for mean in means] for row in asked]) * shares
    found = softmax(discriminant(known, labels, asked, CLASSES), axis=1)
    np.testing.assert_allclose(found, density / density.sum(axis=1, keepdims=True), rtol=1e-8)
    right = judge_folds("discriminant", known, labels, np.arange(400) % 5).argmax(axis=1) == labels
    assert right.mean() > 0.9


def test_neighbours_vote(blobs) -> None:
    known, labels = blobs
    asked = known[:30] + 0.01
    nearest = np.argsort(np.linalg.norm(asked[:, None] - known[None], axis=2), axis=1)[:, :20]
    votes = np.array([np.bincount(labels[row], minlength=CLASSES) for row in nearest])
    found = softmax(neighbours(known, labels, asked, CLASSES), axis=1)
    np.testing.assert_allclose(found, (votes + 1 / CLASSES) / 21, rtol=1e-9)


@pytest.mark.parametrize("name", SIMPLE_CLASSIFIERS)
def test_nobody_judges_what_it_has_seen(name: str, rng) -> None:
    """A label changed in a fold changes what is said in the other folds, and nothing in its own."""
    vectors, labels, fold = rng.standard_normal((60, 3)), np.arange(60) % CLASSES, np.arange(60) // 20
    other = labels.copy()
    other[0] = 1
    before, after = (judge_folds(name, vectors, given, fold) for given in (labels, other))
    np.testing.assert_array_equal(before[:20], after[:20])
    assert (before[20:] != after[20:]).any()


@pytest.mark.parametrize("name", SIMPLE_CLASSIFIERS)
def test_a_class_that_was_not_seen_is_never_chosen(name: str, rng) -> None:
    known, labels = rng.standard_normal((40, 3)), np.arange(40) % 2
    said = SIMPLE_CLASSIFIERS[name](known, labels, known[:5], CLASSES)
    assert (said[:, 2] == -np.inf).all()
    assert np.isfinite(said[:, :2]).all()
