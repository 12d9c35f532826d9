"""The approximate search among groups of centroids: exact where it looks, and it knows how often it looks elsewhere."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import paredown as pdn
from paredown.clustering.kernels import grouped, load_search, nearest, search_arrays
from paredown.clustering.kernels.cosines import row_cosines
from paredown.clustering.kernels.grouped import (
    GroupedSearch,
    SearchAgreement,
    group_count,
    measure_agreement,
    search_work,
)
from paredown.clustering.kmeans import KMeans
from paredown.clustering.lloyd import grouped_search
from paredown.errors import PareError


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def clustered(rng: np.random.Generator, n: int, *, centres: int, dim: int = 24, noise: float = 0.15) -> np.ndarray:
    middles = np.random.default_rng(5).standard_normal((centres, dim))
    return unit(middles[rng.integers(0, centres, n)] + noise * rng.standard_normal((n, dim)))


def isotropic(rng: np.random.Generator, n: int, *, dim: int = 96) -> np.ndarray:
    return unit(rng.standard_normal((n, dim)))


def by_definition(search: GroupedSearch, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The slow way: the nearest groups of a row by their cosines, then all of their centroids, pair by pair."""
    ends = [*search.starts[1:].tolist(), len(search.centroids)]
    index, cosine = [], []
    for row in rows:
        order = np.argsort(-np.vecdot(row, search.middles), kind="stable")[: search.probes]
        inside = np.sort(np.concatenate([np.arange(search.starts[group], ends[group]) for group in order]))
        cosines = np.vecdot(row, search.centroids[inside])
        index.append(inside[cosines.argmax()])
        cosine.append(cosines.max())
    return np.array(index), np.array(cosine)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    return clustered(rng, 700, centres=60), clustered(rng, 400, centres=60)


@pytest.mark.parametrize("probes", [1, 3, 17, 10**6])
def test_the_search_is_what_it_is_by_definition(problem, probes) -> None:
    rows, centroids = problem
    search = grouped_search(centroids, probes)
    index, cosine = by_definition(search, rows)
    for found in (search(rows), load_search("grouped", search.centroids, search_arrays(search))(rows)):
        np.testing.assert_array_equal(found[0], index)
        np.testing.assert_array_equal(found[1], cosine)


@pytest.mark.parametrize("height", [1, 7, 300])
def test_a_row_does_not_depend_on_the_rows_around_it(problem, height, monkeypatch) -> None:
    rows, centroids = problem
    search = grouped_search(centroids, 5)
    index, cosine = search(rows)
    part = slice(211, 211 + height)
    np.testing.assert_array_equal(search(rows[part])[0], index[part])
    np.testing.assert_array_equal(search(rows[part])[1], cosine[part])
    monkeypatch.setattr(grouped, "_BLOCK_ROWS", 13)
    np.testing.assert_array_equal(search(rows)[0], index)
    assert search(rows[:0])[0].shape == (0,)


def test_equal_middles_and_centroids_are_settled_by_their_numbers(rng) -> None:
    same = unit(rng.standard_normal((1, 8)))
    rows, centroids = np.repeat(same, 5, axis=0), np.repeat(same, 12, axis=0)
    search = GroupedSearch(centroids, np.array([0, 4, 8]), centroids[:3], 2)
    np.testing.assert_array_equal(search(rows)[0], np.zeros(5))
    other = GroupedSearch(np.concatenate([-centroids[:8], centroids[:4]]), np.array([0, 4, 8]), centroids[:3], 2)
    np.testing.assert_array_equal(other(rows)[0], np.zeros(5))  # the third group is as near, and comes too late


@pytest.mark.parametrize("make", [clustered, isotropic])
def test_all_groups_are_the_exact_search(make) -> None:
    rng = np.random.default_rng(1)
    how = {"centres": 300} if make is clustered else {}
    rows, centroids = make(rng, 500, **how), make(rng, 600, **how)
    search = grouped_search(centroids, group_count(600))
    index, cosine = nearest(rows, search.centroids)
    np.testing.assert_array_equal(search(rows)[0], index)
    np.testing.assert_array_equal(search(rows)[1], cosine)
    agreement = measure_agreement(search, rows, search.probes)
    assert (agreement.assignments, agreement.hardest, agreement.warning) == (1.0, 1.0, None)


def test_groups_hold_all_centroids_once(problem) -> None:
    _, centroids = problem
    search = grouped_search(centroids, 1)
    assert len(search.middles) == group_count(400) == 80
    np.testing.assert_array_equal(np.unique(search.centroids, axis=0), np.unique(centroids, axis=0))
    again = grouped_search(centroids, 1)
    np.testing.assert_array_equal(search.centroids, again.centroids)
    assert search_work(400, 8) == 4 * 80 + 8 * (2 * 5 + 50)
    assert search_work(400, 10**6) == 4 * 80 + 80 * (2 * 5 + 50)
    # Microseconds a row, over nanoseconds for a product of a row with one of 2,048 others, as measured.
    for k, probes, measured in (
        (20_000, 64, 43.9 / 4.34e-3),
        (50_000, 64, 35.1 / 2.5e-3),
        (50_000, 32, 37.8 / 4.34e-3),
    ):
        assert search_work(k, probes) == pytest.approx(measured, rel=0.2)


def test_agreement_is_that_with_the_exact_scores(problem) -> None:
    rows, centroids = problem
    search = grouped_search(centroids, 2)
    exact, approximate = nearest(rows, search.centroids)[1], search(rows)[1]
    hardest = [set(np.argsort(cosine, kind="stable")[:140].tolist()) for cosine in (exact, approximate)]
    agreement = measure_agreement(search, rows, 2)
    assert agreement.rows == 700
    assert agreement.assignments == pytest.approx((exact == approximate).mean(), abs=0.003)  # products round otherwise
    assert agreement.hardest == pytest.approx(len(hardest[0] & hardest[1]) / 140, abs=0.01)
    assert agreement.assignments < 1


def test_clusters_agree_and_isotropic_rows_do_not() -> None:
    rng = np.random.default_rng(2)
    near = measure_agreement(grouped_search(clustered(rng, 2_000, centres=500), 8), clustered(rng, 1_000, centres=500))
    assert near.probes == 16
    assert near.rows == 500
    assert near.assignments >= 0.99
    assert near.hardest >= 0.99
    assert near.warning is None
    far = measure_agreement(grouped_search(isotropic(rng, 2_000), 8), isotropic(rng, 1_000))
    assert far.probes == far.groups // 4  # all that is tried
    assert far.assignments < 0.9
    assert far.warning is not None
    assert f"Raise the option probes from {far.probes} (all {far.groups} groups would be exact)" in far.warning
    assert "take the kernel float32" in far.warning


@pytest.mark.parametrize(
    ("assignments", "hardest", "warned"), [(0.98, 0.98, False), (0.979, 1.0, True), (1.0, 0.979, True)]
)
def test_either_agreement_warns_below_its_level(assignments, hardest, warned) -> None:
    assert (SearchAgreement(1_000, 16, 100, assignments, hardest).warning is not None) == warned


def test_exact_up_to_ten_thousand_and_where_a_kernel_is_named() -> None:
    assert not KMeans(10_000, seed=0).is_grouped
    assert KMeans(10_000, seed=0).method == "sample"
    assert KMeans(10_001, seed=0).is_grouped
    assert KMeans(10_001, seed=0).method == "hierarchical"
    assert not KMeans(10_001, seed=0, kernel="float32").is_grouped
    assert KMeans(5, seed=0, probes=1).is_grouped


def test_damaged_groups_are_refused(problem) -> None:
    search = grouped_search(problem[1], 2)
    for starts in (search.starts[1:], search.starts + 1, search.starts[::-1]):
        with pytest.raises(ValueError, match="the groups of its centroids are not what they should be"):
            GroupedSearch(search.centroids, starts, search.middles, 2)


# --- the metric ----------------------------------------------------------------------------------------------------


def test_scores_report_their_agreement_and_models_keep_their_groups(tmp_path) -> None:
    rows = clustered(np.random.default_rng(3), 3_000, centres=300)
    scores = pdn.score(rows, k=300, method="hierarchical", probes=4, save_model=tmp_path / "model.npz", iterations=5)
    report = scores.provenance["report"]
    assert report["kernel"] == "grouped"
    assert report["agreement"]["probes"] == 4
    assert report["agreement"]["rows"] == 3_000
    again = pdn.score(rows, model=tmp_path / "model.npz")
    np.testing.assert_array_equal(again.values, scores.values)
    np.testing.assert_array_equal(again.clusters, scores.clusters)
    model = pdn.read_model(tmp_path / "model.npz")
    exact = pdn.score(rows, model=tmp_path / "model.npz", kernel="float32")
    np.testing.assert_allclose(exact.values, 1 - nearest(rows, model.centroids)[1], rtol=0, atol=1e-6)
    assert "agreement" not in exact.provenance["report"]
    own = 1 - row_cosines(rows, model.centroids, exact.clusters)
    np.testing.assert_allclose(exact.values, own, rtol=0, atol=1e-6)
    assert np.all(exact.values <= scores.values)
    with pytest.raises(PareError, match="the model was fitted with probes = 4, and probes = 8 was given"):
        pdn.score(rows, model=tmp_path / "model.npz", probes=8)


@pytest.mark.parametrize("metric", ["prototypes", "density", "duplicates"])
def test_more_than_ten_thousand_clusters_are_approximate_unless_exact_is_wanted(metric, monkeypatch) -> None:
    monkeypatch.setattr("paredown.clustering.kmeans.EXACT_MOST", 50)
    monkeypatch.setattr(grouped, "LEAST_AGREEMENT", 1.1)
    rows = isotropic(np.random.default_rng(4), 1_500, dim=32)
    found = pdn.score(rows, metric=metric, k=400)
    assert found.provenance["report"]["agreement"]["groups"] == 80
    agreement = grouped.SearchAgreement(**found.provenance["report"]["agreement"])
    assert agreement.warning in found.provenance["warnings"]
    exact = pdn.score(rows, metric=metric, k=400, kernel="float32")
    assert "agreement" not in exact.provenance["report"]
    assert "agreement" not in pdn.score(rows, metric=metric, k=50).provenance["report"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"probes": 0}, "probes must be at least 1, got 0"),
        ({"probes": 3, "kernel": "float32"}, "kernel='float32' compares with all centroids; leave one out"),
    ],
)
def test_wrong_probes_are_refused(options, message) -> None:
    with pytest.raises(PareError, match=message):
        pdn.score(np.eye(20, dtype=np.float32), k=5, **options)


def test_the_command_says_how_the_search_agrees(paredown, tmp_path) -> None:
    np.save(tmp_path / "rows.npy", isotropic(np.random.default_rng(6), 600))
    options = ["--k", "200", "--option", "probes=2", "-o", tmp_path / "scores.parquet"]
    shown = " ".join(paredown("score", tmp_path / "rows.npy", *options).stdout.split())
    assert "Approximate search in 2 of 50 groups of prototypes. It found the nearest" in shown
    assert "Raise the option probes from 2 (all 50 groups would be exact)" in shown


THREADED = """
import hashlib, sys
import numpy as np
from paredown.metrics.prototypes import fit_prototypes
from paredown.sources import open_source
rows = np.random.default_rng(0).standard_normal((4_000, 64)).astype(np.float32)
found = fit_prototypes(open_source(rows), seed=0, k=300, method="hierarchical", probes=3, iterations=4)
index, cosine = found.search(rows / np.linalg.norm(rows, axis=1, keepdims=True))
print(hashlib.sha256(found.centroids.tobytes() + index.tobytes() + cosine.tobytes()).hexdigest())
"""


def test_same_bits_on_any_number_of_threads() -> None:
    import os

    found = {
        subprocess.run(
            [sys.executable, "-c", THREADED],
            env=os.environ | {"OMP_NUM_THREADS": threads, "OPENBLAS_NUM_THREADS": threads},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for threads in ("1", "3")
    }
    assert len(found) == 1
