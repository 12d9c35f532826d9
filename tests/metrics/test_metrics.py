"""Laws over every metric, hand-made examples, and the k-means behind prototypes against scikit-learn's."""

from __future__ import annotations

import json
from functools import cache

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans
from sklearn.datasets import load_digits

import paredown as pdn
from paredown.clustering.kernels import nearest
from paredown.clustering.kmeans import spherical_kmeans
from paredown.errors import PareError
from paredown.ids import hash_ids
from paredown.metrics import METRICS
from paredown.metrics.k_center import greedy_order
from paredown.metrics.prototypes import default_k
from paredown.scores import Batch
from paredown.sources import ArraySource
from paredown.training import find_recipe

# float32 dot products of unit vectors of 64 dimensions
TOLERANCE = 1e-6

DIGITS = load_digits()
VECTORS, LABELS = DIGITS.data[:400].astype(np.float32), DIGITS.target[:400]


def ring(*degrees: float) -> np.ndarray:
    return np.c_[np.cos(np.radians(degrees)), np.sin(np.radians(degrees))]


# Two classes on opposite sides, and a last row of the second class: among the first one, beyond it, or between both.
SIDES = np.concatenate([ring(0, 5, 10, 15, 20, 25), -ring(0, 5, 10, 15, 20, 25)])
MISLABELLED, APART, BETWEEN = (
    (np.concatenate([SIDES, row]), [0] * 6 + [1] * 7, 2, 12) for row in (ring(12), 2 * ring(60), ring(102))
)
SMALL = find_recipe("mlp", network_options={"hidden": (32,)}, learning_rate=0.05, batch_size=64, epochs=10)
PROBES = {"recipe": SMALL, "members": 2, "epochs": 10, "threads": 1}
SUBSETS = {"recipe": SMALL, "members": 8, "threads": 1}

# One row per metric: options that make it quick, and (vectors, labels, easy row, hard row) with a known order.
HAND_MADE = {
    "random": ({}, None),
    "prototypes": ({"k": 2, "sensitivity": False}, ([[1, 0], [1, 0.1], [1, 0.5], [0, 1], [0.1, 1]], None, 1, 2)),
    "supervised_prototypes": ({}, ([[1, 0], [1, 0.1], [0, 1], [0, 1], [0.1, 1]], [0, 0, 0, 1, 1], 1, 2)),
    "typicality": ({"neighbours": 2}, ([[1, 0], [1, 0.1], [1, 0.2], [0, 1]], None, 1, 3)),
    # Of ids 0 to 4 the hashes with seed 0 put 4 first, and 0 before its near-copy 1.
    "duplicates": ({"k": 1}, ([[1, 0], [1, 0.01], [0, 1], [-1, 0], [1, -1]], None, 1, 4)),
    # The middle row is picked first; the last but one is next to the second pick.
    "k_center": ({"most": 50}, (ring(0, 10, 40, 100, 101), None, 3, 2)),
    # A tight cluster and a wide one, whose outermost row is the last.
    "density": ({"k": 2}, (ring(0, 1, 2, 3, 80, 90, 110, 125), None, 1, 7)),
    "el2n": (PROBES, MISLABELLED),
    "grand": (PROBES, MISLABELLED),
    "forgetting": (PROBES, MISLABELLED),
    "aum": (PROBES, MISLABELLED),
    "margin": (PROBES, MISLABELLED),
    "confidence": (PROBES, MISLABELLED),
    "correctness": (PROBES, MISLABELLED),
    "ddd": (PROBES | {"folds": 3}, MISLABELLED),
    "active_learning": (PROBES, BETWEEN),
    # What networks without the last row say of it depends on whether its neighbour of the other class was in.
    "variation_ratio": (
        SUBSETS | {"members": 20},
        (np.concatenate([SIDES, ring(102, 103)]), [0] * 6 + [1] * 7 + [0], 2, 13),
    ),
    "entropy": (PROBES, BETWEEN),
    "memorization": (SUBSETS | {"epochs": 30}, APART),
    "influence_max": (SUBSETS, None),
    "influence_sum_abs": (SUBSETS, None),
    # What changes most in training is worked by hand in test_recorder.py.
    "dyn_unc": (PROBES, None),
    "tdds": (PROBES, None),
    "variability": (PROBES, None),
}


@cache
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
        assert metric.reference
        assert set(metric.needs) <= {"embeddings", "labels", "training"}
        assert all(metric.options_help.values())
        assert (metric.trains is not None) == ("training" in metric.needs)
        assert (metric.work is not None) == (metric.needs[:1] == ("embeddings",) and metric.trains is None)


@pytest.mark.parametrize("name", METRICS)
@settings(max_examples=20)
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


@pytest.mark.parametrize("name", [name for name, metric in METRICS.items() if metric.load])
def test_a_saved_model_gives_the_same_bytes(name: str) -> None:
    model, batch = fitted(name)
    load = METRICS[name].load
    assert load is not None
    again = load(model.arrays(), json.loads(json.dumps(model.report()))).score(batch)
    assert again.values.tobytes() == model.score(batch).values.tobytes()
    np.testing.assert_equal(again.clusters, model.score(batch).clusters)


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


# --- metrics beyond the paper --------------------------------------------------------------------------------------


def unit(vectors: np.ndarray) -> np.ndarray:
    wide = vectors.astype(np.float64)
    return wide / np.linalg.norm(wide, axis=1, keepdims=True)


def test_typicality_by_hand() -> None:
    cos = lambda *degrees: np.cos(np.radians(degrees)).mean()
    scores = pdn.score(ring(0, 10, 30, 90), metric="typicality", neighbours=2)
    expected = [1 - cos(10, 30), 1 - cos(10, 20), 1 - cos(20, 30), 1 - cos(60, 80)]
    np.testing.assert_allclose(scores.values, expected, atol=TOLERANCE)


def test_a_copy_is_a_neighbour_and_the_row_itself_is_not() -> None:
    scores = pdn.score(ring(0, 0, 90), metric="typicality", neighbours=1)
    np.testing.assert_allclose(scores.values, [0, 0, 1], atol=TOLERANCE)
    clipped = pdn.score(ring(0, 0, 90), metric="typicality", neighbours=20)  # there are only two others
    np.testing.assert_allclose(clipped.values, [0.5, 0.5, 1], atol=TOLERANCE)
    assert clipped.provenance["report"] == {"neighbours": 2, "reference_rows": 3}


@pytest.mark.parametrize("reference", [400, 90])
def test_typicality_is_the_brute_force_one(reference: int) -> None:
    """Also where only a sample of the rows fits the memory: the rows with the smallest hashes."""
    scores = pdn.score(VECTORS, metric="typicality", neighbours=7, seed=4, memory=2 * 4 * 64 * reference)
    assert scores.provenance["report"]["reference_rows"] == reference
    rows = np.argsort(hash_ids(scores.ids, seed=4))[:reference]
    cosine = unit(VECTORS) @ unit(VECTORS)[rows].T
    cosine[rows, np.arange(reference)] = -2
    np.testing.assert_allclose(scores.values, 1 - np.sort(cosine, axis=1)[:, -7:].mean(axis=1), atol=TOLERANCE)


def test_typicality_of_a_new_row_leaves_nothing_out() -> None:
    model = METRICS["typicality"].fit(ArraySource(ring(0, 60)), seed=0, neighbours=1)
    new = Batch(np.array([7]), ring(0).astype(np.float32), None)
    np.testing.assert_allclose(model.score(new).values, [0], atol=TOLERANCE)


def test_typicality_has_the_same_bits_if_rows_are_compared_with_each_other(rng, monkeypatch) -> None:
    vectors = np.concatenate([VECTORS, VECTORS[:30]])
    scores = pdn.score(vectors, metric="typicality", seed=3)
    monkeypatch.setattr("paredown.metrics.typicality._MOST_BYTES", 0)  # one by one
    np.testing.assert_array_equal(pdn.score(vectors, metric="typicality", seed=3).values, scores.values)


def test_typicality_of_another_row_with_the_id_of_one_of_the_reference() -> None:
    model = METRICS["typicality"].fit(ArraySource(ring(0, 60, 90)), seed=0, neighbours=1)
    batch = Batch(np.array([2, 1]), ring(90, 10).astype(np.float32), None)
    np.testing.assert_allclose(model.score(batch).values, 1 - np.cos(np.radians([30, 10])), atol=TOLERANCE)


@pytest.mark.parametrize("seed", range(4))
def test_exactly_one_of_each_group_of_copies_is_far(seed: int) -> None:
    groups = np.repeat(np.arange(5), [4, 1, 3, 2, 1])
    vectors = np.eye(5)[groups] + 0.01 * np.random.default_rng(seed).standard_normal((11, 5))
    scores = pdn.score(vectors, metric="duplicates", k=2, seed=seed)
    far = scores.values > 0.5
    assert sorted(groups[far]) == [0, 1, 2, 3, 4]
    assert scores.provenance["report"] == {"clusters": 2, "threshold": 0.05, "near_duplicates": 6}
    kept = pdn.select(scores, keep_fraction=5 / 11, balance=0)
    np.testing.assert_array_equal(kept.indices, np.flatnonzero(far))


@pytest.mark.parametrize("rows_in_memory", [400, 150])
def test_duplicates_are_the_brute_force_ones(rows_in_memory: int) -> None:
    """Also where the clusters are compared in several passes."""
    scores = pdn.score(VECTORS, metric="duplicates", k=8, seed=2, memory=2 * 4 * 64 * rows_in_memory)
    assert scores.clusters is not None
    hashes = hash_ids(scores.ids, seed=2)
    cosine = unit(VECTORS) @ unit(VECTORS).T
    together = scores.clusters[:, None] == scores.clusters
    cosine[~together | (hashes[:, None] <= hashes)] = -1  # a distance of 2 where nothing comes before
    np.testing.assert_allclose(scores.values, 1 - cosine.max(axis=1), atol=TOLERANCE)
    assert np.count_nonzero(scores.values == 2) == 8


def slow_greedy(vectors: np.ndarray) -> list[int]:
    """Farthest-point picking as in the paper, from all distances in float64."""
    distance = 1 - vectors @ vectors.T
    order = [int(np.argmax(vectors @ vectors.mean(axis=0)))]
    while len(order) < len(vectors):
        rest = [row for row in range(len(vectors)) if row not in order]
        order.append(max(rest, key=lambda row: distance[row, order].min()))
    return order


def test_k_center_is_the_greedy_order(rng) -> None:
    vectors = rng.standard_normal((60, 5))
    order = slow_greedy(unit(vectors))
    scores = pdn.score(vectors, metric="k_center")
    np.testing.assert_allclose(scores.values[order], 1 - np.arange(60) / 60)
    for kept in (1, 6, 33):
        assert set(pdn.select(scores, keep_fraction=kept / 60).indices) == set(order[:kept])


def test_k_center_ranks_the_rest_by_distance_to_the_picks(rng) -> None:
    vectors = unit(rng.standard_normal((60, 5)))
    picks = slow_greedy(vectors)[:10]
    order, radius = greedy_order(vectors.astype(np.float32), 10)
    assert order[:10].tolist() == picks
    to_picks = (1 - vectors @ vectors[picks].T).min(axis=1)
    rest = np.setdiff1d(np.arange(60), picks)
    np.testing.assert_array_equal(order[10:], rest[np.argsort(-to_picks[rest])])
    assert radius == pytest.approx(to_picks.max(), abs=TOLERANCE)


def test_k_center_of_copies_picks_every_row_once() -> None:
    order, radius = greedy_order(np.ones((5, 1), np.float32), 5)
    assert sorted(order) == [0, 1, 2, 3, 4]
    assert radius == 0


@pytest.mark.parametrize("name", ["k_center", "duplicates"])
def test_unknown_ids_are_named(name: str) -> None:
    model = METRICS[name].fit(ArraySource(ring(0, 60)), seed=0)
    with pytest.raises(PareError, match=rf"'{name}' scores only the examples it was fitted to, and row 1 \(id 7\)"):
        model.score(Batch(np.array([0, 7]), ring(0, 60).astype(np.float32), None))


def test_density_by_hand() -> None:
    # A cluster of copies has complexity 0. The other's centroid is the direction of its sum, about 87 degrees, from
    # which its rows are the second, third and first farthest.
    scores = pdn.score(ring(0, 0, 0, 70, 80, 110), metric="density", k=2, temperature=0.05)
    centroid = unit(ring(70, 80, 110).sum(axis=0, keepdims=True))[0]
    complexity = (1 - centroid[0]) * (1 - ring(70, 80, 110) @ centroid).mean()
    tight = 1 / (1 + np.exp(complexity / 0.05))
    # Rows that are equally far share the last of their ranks.
    expected = 6 * np.array([tight / 3, tight / 3, tight / 3, (1 - tight) / 2, (1 - tight) / 3, 1 - tight])
    np.testing.assert_allclose(scores.values, expected, rtol=1e-5)


def test_density_budgets_follow_the_shares() -> None:
    """Every cluster keeps its share, or all it has, at one level for all clusters."""
    source = ArraySource(VECTORS)
    model = METRICS["density"].fit(source, seed=0, k=10, temperature=0.05)
    scores = pdn.score(VECTORS, metric="density", k=10, temperature=0.05, seed=0)
    assert scores.clusters is not None
    sizes = np.bincount(scores.clusters, minlength=10)
    assert model.shares.sum() == pytest.approx(1)
    for keep_fraction in (0.1, 0.5, 0.8):
        kept = pdn.select(scores, keep_fraction=keep_fraction, balance=0).indices
        level = 400 / scores.values[kept].min()
        budgets = np.minimum(sizes, np.floor(level * model.shares + 1e-9))
        assert np.all(abs(np.bincount(scores.clusters[kept], minlength=10) - budgets) <= 1)
    assert (0.8 * 400 * model.shares > sizes).any()  # the case where budgets exceed clusters did occur


def test_density_of_a_new_row_beyond_all_others_is_the_highest_of_its_cluster() -> None:
    model = METRICS["density"].fit(ArraySource(ring(0, 10, 90, 110)), seed=0, k=2)
    new = model.score(Batch(np.array([9]), ring(140).astype(np.float32), None))
    assert new.clusters is not None
    assert new.values[0] == pytest.approx(4 * model.shares[new.clusters[0]])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"metric": "protoypes"}, r"unknown metric 'protoypes'; available: .* Did you mean 'prototypes'\?"),
        ({"k": 11}, r"k must be between 1 and the number of examples, 10; got 11"),
        ({"k": 0}, r"k must be between 1 and the number of examples, 10; got 0"),
        ({"kk": 3}, r"metric 'prototypes' has no option 'kk'; its options: k, "),
        ({"metric": "random", "k": 3}, r"metric 'random' has no option k; its options: none"),
        (
            {"metric": "supervised_prototypes"},
            r"metric 'supervised_prototypes' needs labels, but array has none; give them with labels=",
        ),
        ({"labels": [1, 2]}, r"there are 2 labels for 10 examples"),
        ({"restarts": 0}, r"restarts must be at least 1, got 0"),
        ({"seed": -1}, r"seed must not be negative"),
        ({"metric": "typicality", "neighbours": 0}, r"neighbours must be at least 1, got 0"),
        ({"metric": "duplicates", "threshold": 3}, r"threshold is a cosine distance between 0 and 2, got 3"),
        ({"metric": "duplicates", "k": 1, "memory": 64}, r"one has 10 rows where memory allows 2; raise memory, or k"),
        ({"metric": "k_center", "most": 0}, r"most must be at least 1, got 0"),
        (
            {"metric": "k_center", "memory": 64},
            r"10 rows of 4 dimensions are 160 B, and 64 B may be used; raise mem",
        ),
        ({"metric": "density", "temperature": 0}, r"temperature above 0, got 20 and 0"),
    ],
)
def test_bad_settings_are_named(options, message, rng) -> None:
    with pytest.raises(PareError, match=message):
        pdn.score(rng.standard_normal((10, 4)), **options)


@pytest.mark.parametrize("memory", ["1KiB", 1024, 1024.0])
def test_memory_is_a_size_or_a_number_of_bytes(memory, rng) -> None:
    vectors = rng.standard_normal((200, 4)).astype(np.float32)
    scores = pdn.score(vectors, metric="typicality", memory=memory)
    assert scores.provenance["options"] == {"memory": 1024}
    assert scores.provenance["report"]["reference_rows"] == 32
    found = pdn.score_all(vectors, metrics=["typicality"], memory=memory)["typicality"]
    kept = pdn.prune(vectors, keep_fraction=1.0, metric="typicality", scoring={"memory": memory})
    assert found.values.tobytes() == kept.scores.values.tobytes() == scores.values.tobytes()
    assert len(pdn.open_source(vectors, memory=memory)) == 200


def test_typicality_needs_another_row() -> None:
    with pytest.raises(PareError, match=r"'typicality' needs at least 2 examples, and array has 1"):
        pdn.score(np.ones((1, 3)), metric="typicality")


def test_bad_rows_are_named(rng) -> None:
    vectors = rng.standard_normal((10, 4))
    vectors[3, 2] = np.nan
    with pytest.raises(PareError, match=r"array: embedding row 3 holds NaN or infinite values"):
        pdn.score(vectors)


def greedy_order_one_by_one(rows: np.ndarray, picks: int) -> np.ndarray:
    """The slow way: every row against every pick."""
    order, nearest = np.empty(len(rows), np.int64), np.full(len(rows), -np.inf, np.float32)
    pick = int(np.argmax(np.vecdot(rows, rows.mean(axis=0, dtype=np.float64).astype(np.float32))))
    for i in range(picks):
        order[i] = pick
        np.maximum(nearest, np.vecdot(rows, rows[pick]), out=nearest)
        nearest[pick] = np.inf
        pick = int(np.argmin(nearest))
    rest = np.flatnonzero(nearest < np.inf)
    order[picks:] = rest[np.argsort(nearest[rest], kind="stable")]
    return order


@pytest.mark.parametrize("picks", [1, 2, 150, 600])
@pytest.mark.parametrize("copies", [1, 3, 600])
@pytest.mark.parametrize("farthest", [1, 40, 1024])
def test_k_center_picks_what_one_comparison_at_a_time_would(rng, monkeypatch, picks, copies, farthest) -> None:
    from paredown.metrics import k_center

    monkeypatch.setattr(k_center, "_FARTHEST_LEAST", farthest)
    rows = rng.standard_normal((-(-600 // copies), 24)).astype(np.float32)
    rows = np.repeat(rows / np.linalg.norm(rows, axis=1, keepdims=True), copies, axis=0)[rng.permutation(600)]
    order, _ = k_center.greedy_order(rows, picks)
    np.testing.assert_array_equal(order, greedy_order_one_by_one(rows, picks))
