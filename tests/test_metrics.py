"""Laws over every metric, hand-made examples, and the k-means behind prototypes against scikit-learn's."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

import paredown as pdn
from paredown.data import Batch
from paredown.errors import PareError
from paredown.kernels import nearest
from paredown.metrics import METRICS
from paredown.metrics.kmeans import spherical_kmeans
from paredown.metrics.prototypes import default_k, rank_correlation
from paredown.sources import ArraySource

# float32 dot products of unit vectors of 64 dimensions
TOLERANCE = 1e-6

DIGITS = load_digits()
VECTORS, LABELS = DIGITS.data[:400].astype(np.float32), DIGITS.target[:400]

# One row per metric: options that make it quick, and (vectors, labels, easy row, hard row) with a known order.
HAND_MADE = {
    "random": ({}, None),
    "prototypes": ({"k": 2, "sensitivity": False}, ([[1, 0], [1, 0.1], [1, 0.5], [0, 1], [0.1, 1]], None, 1, 2)),
    "supervised_prototypes": ({}, ([[1, 0], [1, 0.1], [0, 1], [0, 1], [0.1, 1]], [0, 0, 0, 1, 1], 1, 2)),
}


def fitted(name: str):
    source = ArraySource(VECTORS, labels=LABELS)
    return METRICS[name].fit(source, seed=1, **HAND_MADE[name][0]), next(source.batches())


def rows_of(batch: Batch, rows) -> Batch:
    assert batch.labels is not None
    return Batch(batch.ids[rows], batch.vectors[rows], batch.labels[rows])


def test_every_metric_has_a_row_here() -> None:
    assert set(HAND_MADE) == set(METRICS)
    for metric in METRICS.values():
        assert metric.summary
        assert metric.cost
        assert set(metric.needs) <= {"embeddings", "labels", "training"}


@pytest.mark.parametrize("name", METRICS)
@settings(max_examples=20, deadline=None)
@given(cut=st.integers(1, 399), data=st.data())
def test_row_wise(name: str, cut: int, data) -> None:
    """Two halves give the same bits as the whole, and permuted rows permuted scores."""
    model, batch = fitted(name)
    whole = model.score(batch).values
    halves = [model.score(rows_of(batch, slice(0, cut))).values, model.score(rows_of(batch, slice(cut, 400))).values]
    np.testing.assert_array_equal(np.concatenate(halves), whole)
    order = np.array(data.draw(st.permutations(range(400))))
    np.testing.assert_array_equal(model.score(rows_of(batch, order)).values, whole[order])


@pytest.mark.parametrize("name", METRICS)
def test_shuffled_data_give_the_same_scores(name: str, rng) -> None:
    order = rng.permutation(400)
    ids = np.array([f"x{i}" for i in range(400)])
    one = pdn.score(VECTORS, metric=name, labels=LABELS, ids=ids, seed=3, **HAND_MADE[name][0])
    other = pdn.score(VECTORS[order], metric=name, labels=LABELS[order], ids=ids[order], seed=3, **HAND_MADE[name][0])
    assert np.isfinite(one.values).all()
    np.testing.assert_allclose(other.values, one.values[order], atol=TOLERANCE)


@pytest.mark.parametrize("name", METRICS)
def test_same_seed_same_bytes(name: str) -> None:
    one, other = (pdn.score(VECTORS, metric=name, labels=LABELS, seed=5, **HAND_MADE[name][0]) for _ in range(2))
    assert one.values.tobytes() == other.values.tobytes()


@pytest.mark.parametrize("name", [name for name in HAND_MADE if HAND_MADE[name][1]])
def test_harder_is_higher(name: str) -> None:
    options, example = HAND_MADE[name]
    vectors, labels, easy, hard = example
    scores = pdn.score(np.array(vectors, float), metric=name, labels=labels, **options)
    assert scores.values[hard] > scores.values[easy]
    assert np.argmax(scores.values) == hard


def test_supervised_prototypes_by_hand() -> None:
    # The mean of (1, 0) and (0, 1) points at 45 degrees; lengths do not matter, only directions.
    scores = pdn.score(np.array([[5.0, 0], [0, 1], [0, 2]]), metric="supervised_prototypes", labels=["a", "a", "b"])
    np.testing.assert_allclose(scores.values, [1 - np.sqrt(0.5), 1 - np.sqrt(0.5), 0], atol=TOLERANCE)


def test_prototypes_by_hand() -> None:
    # Two tight pairs and k = 2: each centroid halves its pair's angle, 10 and 20 degrees.
    angles = np.radians([0, 10, 90, 110])
    vectors = np.c_[np.cos(angles), np.sin(angles)]
    scores = pdn.score(vectors, metric="prototypes", k=2, sensitivity=False)
    expected = 1 - np.cos(np.radians([5, 5, 10, 10]))
    np.testing.assert_allclose(scores.values, expected, atol=TOLERANCE)
    assert scores.clusters is not None
    assert scores.clusters[0] == scores.clusters[1] != scores.clusters[2] == scores.clusters[3]


def test_every_point_its_own_prototype_scores_zero(rng) -> None:
    vectors = rng.standard_normal((30, 8))
    scores = pdn.score(vectors, metric="prototypes", k=30, sensitivity=False)
    np.testing.assert_allclose(scores.values, 0, atol=TOLERANCE)


def test_random_scores_are_uniform() -> None:
    values = pdn.score(np.ones((20_000, 1)), metric="random", seed=2).values
    assert 0 <= values.min() < values.max() < 1
    counts = np.histogram(values, bins=20, range=(0, 1))[0]
    assert np.all(abs(counts - 1000) < 5 * np.sqrt(1000))


def test_nearest_is_exact(rng) -> None:
    block, centroids = (rng.standard_normal((n, 17)).astype(np.float32) for n in (300, 40))
    block /= np.linalg.norm(block, axis=1, keepdims=True)
    centroids /= np.linalg.norm(centroids, axis=1, keepdims=True)
    index, cosine = nearest(block, centroids)
    products = block.astype(np.float64) @ centroids.T.astype(np.float64)
    np.testing.assert_array_equal(index, products.argmax(axis=1))
    np.testing.assert_allclose(cosine, products.max(axis=1), atol=TOLERANCE)


@pytest.mark.parametrize("k", [3, 10, 40])
def test_kmeans_is_as_good_as_scikit_learn(digits, k: int) -> None:
    vectors = digits[0] / np.linalg.norm(digits[0], axis=1, keepdims=True)
    ours = spherical_kmeans(vectors, k, seed=0, restarts=3).mean_cosine
    peer = KMeans(k, n_init=3, random_state=0).fit(vectors).cluster_centers_
    peer = (peer / np.linalg.norm(peer, axis=1, keepdims=True)).astype(np.float32)
    assert ours > nearest(vectors, peer)[1].mean() - 0.001


def test_kmeans_finds_planted_clusters(rng) -> None:
    centers = np.eye(6, 12)
    truth = rng.integers(0, 6, 600)
    vectors = centers[truth] + 0.05 * rng.standard_normal((600, 12))
    vectors = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)
    clustering = spherical_kmeans(vectors, 6, seed=0, restarts=3)
    found = nearest(vectors, clustering.centroids)[0]
    assert len({(t, f) for t, f in zip(truth, found, strict=True)}) == 6  # one cluster per center, and back
    np.testing.assert_allclose(np.linalg.norm(clustering.centroids, axis=1), 1, atol=1e-6)


def test_kmeans_never_loses_a_centroid_to_duplicates() -> None:
    vectors = np.repeat(np.eye(3, dtype=np.float32), 20, axis=0)
    clustering = spherical_kmeans(vectors, 10, seed=0)  # more centroids than distinct rows
    assert np.isfinite(clustering.centroids).all()
    assert clustering.mean_cosine == pytest.approx(1.0, abs=1e-6)


def test_ensemble_is_the_mean_and_matched_by_id(rng) -> None:
    ids = np.array([f"x{i}" for i in range(50)])
    a, b = (rng.standard_normal((50, 6)) for _ in range(2))
    order = rng.permutation(50)
    options = {"metric": "prototypes", "k": 3, "sensitivity": False}
    members = [pdn.score(vectors, ids=ids, **options).values for vectors in (a, b)]
    both = pdn.score([pdn.open_source(a, ids=ids), pdn.open_source(b[order], ids=ids[order])], **options)
    np.testing.assert_allclose(both.values, np.mean(members, axis=0), atol=TOLERANCE)
    with pytest.raises(PareError, match=r"an ensemble needs the same examples in every source"):
        pdn.score([pdn.open_source(a, ids=ids), pdn.open_source(b[:40], ids=ids[:40])], **options)


def test_k_follows_the_labels_or_the_rule(digits) -> None:
    vectors, labels = digits
    assert pdn.score(vectors, labels=labels).provenance["report"]["k"] == 10
    report = pdn.score(vectors).provenance["report"]
    assert report["k"] == default_k(1797) == 21
    assert set(report["k_sensitivity"]) == {"7", "63"}
    assert all(0 < value < 1 for value in report["k_sensitivity"].values())
    assert default_k(50_000) == 112
    assert default_k(1_281_167) == 566
    assert default_k(3) == 2


def test_rank_correlation_by_hand() -> None:
    assert rank_correlation(np.array([1, 2, 3]), np.array([10, 20, 90])) == pytest.approx(1)
    assert rank_correlation(np.array([1, 2, 3]), np.array([3, 2, 1])) == pytest.approx(-1)
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: 4.5 / sqrt(4.5 * 5)
    assert rank_correlation(np.array([1, 2, 2, 3]), np.array([1, 2, 3, 4])) == pytest.approx(np.sqrt(0.9))
    assert rank_correlation(np.ones(3), np.arange(3)) == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "protoypes"}, r"unknown metric 'protoypes'; available: .* Did you mean 'prototypes'\?"),
        ({"k": 11}, r"k must be between 1 and the number of examples, 10; got 11"),
        ({"k": 0}, r"k must be between 1 and the number of examples, 10; got 0"),
        ({"kk": 3}, r"metric 'prototypes' has no option 'kk'; its options: k, "),
        ({"metric": "random", "k": 3}, r"metric 'random' has no option 'k'; its options: none"),
        ({"metric": "supervised_prototypes"}, r"metric 'supervised_prototypes' needs labels, and array has none"),
        ({"labels": [1, 2]}, r"there are 2 labels for 10 examples"),
        ({"restarts": 0}, r"restarts, iterations and sample_per_centroid must be at least 1"),
        ({"seed": -1}, r"seed must not be negative"),
    ],
)
def test_bad_settings_are_named(options, message, rng) -> None:
    with pytest.raises(PareError, match=message):
        pdn.score(rng.standard_normal((10, 4)), **options)


def test_bad_rows_are_named(rng) -> None:
    vectors = rng.standard_normal((10, 4))
    vectors[3, 2] = np.nan
    with pytest.raises(PareError, match=r"array: embedding row 3 holds NaN or infinite values"):
        pdn.score(vectors)
