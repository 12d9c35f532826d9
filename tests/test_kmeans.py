"""k-means by every method: held in memory or streamed, it finds the same clusters inside the memory it is given."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paredown as pdn
from paredown import kernels
from paredown.errors import PareError
from paredown.kernels import nearest
from paredown.metrics.kmeans import METHODS, KMeans, spherical_kmeans
from paredown.metrics.lloyd import group, group_in_two_levels, share_out
from paredown.metrics.passes import HeldRows, StreamedRows, directions, lloyd_pass, project
from paredown.sources import base, open_source

CLUSTERS = 12


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


@pytest.fixture(scope="module")
def planted():
    """3000 rows of 256 dimensions close around 12 directions, and which of them each belongs to."""
    rng = np.random.default_rng(5)
    centres = unit(rng.standard_normal((CLUSTERS, 256)))
    member = rng.integers(0, CLUSTERS, 3000)
    return unit(centres[member] + 0.02 * rng.standard_normal((3000, 256))), member


@pytest.fixture
def small_blocks(monkeypatch):
    monkeypatch.setattr(base, "BLOCK_BYTES", 64 * 256 * 4)


def same_partition(a: np.ndarray, b: np.ndarray) -> bool:
    return len(set(zip(a.tolist(), b.tolist(), strict=True))) == len(set(a.tolist())) == len(set(b.tolist()))


@pytest.mark.parametrize("leading", [False, True], ids=["all dimensions", "leading first"])
@pytest.mark.parametrize("memory", [2**30, 2**20], ids=["held", "streamed"])
@pytest.mark.parametrize("method", METHODS)
def test_every_method_finds_planted_clusters(method, memory, leading, planted, small_blocks, monkeypatch) -> None:
    rows, member = planted
    monkeypatch.setattr(kernels, "_WORTHWHILE", 0 if leading else np.inf)
    plan = KMeans(CLUSTERS, seed=0, method=method, memory=memory, restarts=5)
    found = plan.cluster(open_source(rows))
    index, cosine = nearest(rows, found.centroids)
    assert same_partition(index, member)
    np.testing.assert_allclose(found.mean_cosine, cosine.mean(), atol=2e-3)
    np.testing.assert_allclose(np.linalg.norm(found.centroids, axis=1), 1, atol=1e-6)
    assert found.rows_clustered == 3000


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("memory", [2**30, 2**19], ids=["held", "streamed"])
def test_shuffled_rows_give_the_same_clusters(method, memory, planted, small_blocks) -> None:
    rows, _ = planted
    order = np.random.default_rng(1).permutation(len(rows))
    plan = KMeans(40, seed=0, method=method, memory=memory, iterations=4)
    a = plan.cluster(open_source(rows))
    b = plan.cluster(open_source(rows[order], ids=order))
    if method == "minibatch":  # goes through the rows in the order of the source
        assert abs(a.mean_cosine - b.mean_cosine) < 0.01
    else:
        np.testing.assert_allclose(a.centroids, b.centroids, atol=1e-6)


def test_streamed_rows_are_the_sample(planted, small_blocks) -> None:
    rows, _ = planted
    source = open_source(rows)
    streamed, held = StreamedRows(source, 700, seed=3), HeldRows(source.sample(700, seed=3))
    gathered = np.empty_like(held.vectors)
    for number, block in streamed.blocks():
        gathered[number] = block
    np.testing.assert_array_equal(gathered, held.vectors)
    basis = np.eye(256, 5, dtype=np.float32)
    np.testing.assert_allclose(project(streamed, basis), held.vectors[:, :5], atol=1e-7)


def test_a_pass_is_one_iteration_by_hand() -> None:
    rows = unit(np.array([[1, 0], [3, 1], [0, 1], [-1, 4]]))
    begin = unit(np.array([[1, 0.1], [0.1, 1]]))
    expected = unit(np.stack([rows[:2].sum(axis=0), rows[2:].sum(axis=0)]))
    found = lloyd_pass(HeldRows(rows), begin, kernels.ExactSearch(begin))
    np.testing.assert_allclose(found.centroids, expected, atol=1e-6)
    assert found.mean_cosine == pytest.approx(np.max(rows @ begin.T, axis=1).mean(), abs=1e-6)
    known = directions(HeldRows(rows), np.array([0, 0, 1, 1]), 2, 2)
    np.testing.assert_allclose(known, expected, atol=1e-6)


def test_an_empty_cluster_moves_to_the_row_that_fits_worst() -> None:
    rows = unit(np.array([[1, 0, 0], [1, 0.1, 0], [1, 0, 0.1], [0.2, 0, 1]]))
    begin = unit(np.array([[1, 0, 0], [-1, 0, 0]]))  # nothing is near the second
    found = lloyd_pass(HeldRows(rows), begin, kernels.ExactSearch(begin))
    np.testing.assert_allclose(found.centroids[1], rows[3], atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_no_method_loses_a_centroid(method, small_blocks) -> None:
    rows = np.repeat(unit(np.random.default_rng(0).standard_normal((30, 256))), 40, axis=0)
    found = KMeans(30, seed=0, method=method, memory=2**19, passes=6, restarts=3).cluster(open_source(rows))
    assert len(np.unique(nearest(rows, found.centroids)[0])) >= 29  # one for every distinct row, or all but one


def test_full_is_at_least_as_good_as_the_sample(digits) -> None:
    options = {"k": 60, "sample_per_centroid": 4, "sensitivity": False, "metric": "prototypes"}
    means = {m: 1 - pdn.score(digits[0], method=m, **options).values.mean() for m in METHODS}
    assert means["full"] > means["sample"] + 0.005
    assert means["minibatch"] > means["sample"]  # it sees all rows too


def test_two_levels_are_nearly_as_good_as_one(planted) -> None:
    rows = planted[0]
    flat = group(rows, 100, np.random.default_rng(0), 10).fit
    two = group_in_two_levels(rows, 100, np.random.default_rng(0), 10)
    assert two.fit > flat - 0.005
    assert len(np.unique(two.of_row)) == len(two.centroids) == 100


def test_plain_grouping_is_ordinary_k_means(rng) -> None:
    centres = np.array([[0, 0], [10, 0], [0, 10]], np.float32)
    member = rng.integers(0, 3, 600)
    rows = (centres[member] + 0.1 * rng.standard_normal((600, 2))).astype(np.float32)
    found = group(rows, 3, rng, 10, plain=True)
    assert same_partition(found.of_row, member)
    squared = np.square(rows - found.centroids[found.of_row]).sum(axis=1).mean()
    assert np.square(rows).sum(axis=1).mean() - 2 * found.fit == pytest.approx(squared, rel=1e-2)


@settings(max_examples=60)
@given(st.lists(st.integers(1, 50), min_size=1, max_size=12), st.data())
def test_shares_add_up(sizes, data) -> None:
    k = data.draw(st.integers(len(sizes), sum(sizes)))
    shares = share_out(np.array(sizes), k)
    assert shares.sum() == k
    assert np.all((shares >= 1) & (shares <= sizes))


def test_shares_by_hand() -> None:
    assert share_out(np.array([50, 30, 20]), 10).tolist() == [5, 3, 2]
    assert share_out(np.array([98, 1, 1]), 10).tolist() == [8, 1, 1]


def test_a_start_is_continued(planted) -> None:
    rows, _ = planted
    once = spherical_kmeans(rows, 40, seed=0, iterations=2)
    more = spherical_kmeans(rows, 40, seed=0, iterations=20, start=once.centroids)
    assert more.mean_cosine > once.mean_cosine
    settled = spherical_kmeans(rows, 40, seed=9, iterations=3, start=more.centroids)
    np.testing.assert_allclose(settled.centroids, more.centroids, atol=0.02)  # and not begun anew by another seed


def test_torch_is_not_imported_for_little_work(planted, monkeypatch) -> None:
    tried = []
    for name in ("int8", "bfloat16", "cuda"):
        monkeypatch.setitem(kernels.KERNELS, name, lambda *arguments, name=name: tried.append(name) or ())
    monkeypatch.setattr(kernels, "_WORTHWHILE", 0)
    monkeypatch.setattr(kernels, "_present", lambda: ["screened", "int8", "bfloat16", "cuda"])
    monkeypatch.setattr(kernels, "_seconds", lambda search, rows: 1e-3)
    monkeypatch.delitem(kernels.sys.modules, "torch", raising=False)
    rows = planted[0]
    kernels.choose_search(rows[:10], rows, n=3000)
    assert tried == []
    kernels.choose_search(rows[:10], rows, n=10**9)
    assert tried == ["int8", "bfloat16", "cuda"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"method": "ful"}, r"unknown method of k-means 'ful'; available: .* Did you mean 'full'\?"),
        ({"passes": -1}, r"passes must be at least 0 with method 'sample', got -1"),
        ({"method": "minibatch", "passes": 0}, r"passes must be at least 1 with method 'minibatch', got 0"),
        (
            {"k": 3000, "memory": 2**20},
            r"k = 3,000 centroids of 1024 dimensions takes about 93.8 MiB, and memory is 1.0 MiB",
        ),
        ({"start": np.ones((3, 5), np.float32), "k": 3}, r"3 of 5 dimensions, and k = 3 of 1024 are wanted"),
        ({"start": np.ones((3, 1024), np.float32), "k": 3, "restarts": 2}, r"leave nothing to restart"),
    ],
)
def test_bad_settings_are_named(options, message) -> None:
    rows = np.ones((4000, 1024), np.float32)
    with pytest.raises(PareError, match=message):
        KMeans(options.pop("k", 5), seed=0, **options).cluster(open_source(rows))


def test_many_clusters_that_lose_their_rows_are_repaired_in_one_pass(rng) -> None:
    rows = unit(rng.standard_normal((4000, 6)))
    centroids = np.concatenate(
        [rows[:8], np.repeat(-rows.mean(axis=0, keepdims=True), 2992, axis=0)]
    )  # copies get none
    found = lloyd_pass(HeldRows(rows), unit(centroids), kernels.ExactSearch(unit(centroids)))
    used = len(np.unique(kernels.ExactSearch(found.centroids)(rows)[0]))
    assert used >= 3000 // 8
