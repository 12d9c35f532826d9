"""Every kernel against float32: it may choose another centroid only rarely, and never another cosine for its choice."""

from __future__ import annotations

import numpy as np
import pytest

from paredown import kernels
from paredown.errors import PareError
from paredown.kernels import choose_search, nearest
from paredown.kernels.exact import ExactSearch, pair_cosines
from paredown.kernels.screened import ScreenedSearch, leading_basis, screens
from paredown.metrics.kmeans import spherical_kmeans

TOLERANCE = 1e-6  # float32 inner products of unit vectors


def structured(rng: np.random.Generator, n: int, dim: int, groups: int) -> np.ndarray:
    """Unit rows around group centres, most of whose variance lies in a few directions, as in real embeddings."""
    spectrum = (1 + np.arange(dim)) ** -0.7
    centres = rng.standard_normal((groups, dim)) * spectrum
    rows = centres[rng.integers(0, groups, n)] + 0.8 * rng.standard_normal((n, dim)) * spectrum
    turn = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    return unit(rows @ turn)


def unit(rows: np.ndarray) -> np.ndarray:
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def slow_float32(search, rows) -> float:
    return len(rows) * (2.0 if search.name == "float32" else 1.0)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    rows = structured(rng, 6000, 256, 150)
    return rows, spherical_kmeans(rows, 120, seed=0, iterations=5).centroids


def test_exact_search_is_exact(rng) -> None:
    rows, centroids = unit(rng.standard_normal((700, 33))), unit(rng.standard_normal((50, 33)))
    index, cosine = nearest(rows, centroids)
    products = rows.astype(np.float64) @ centroids.T.astype(np.float64)
    np.testing.assert_array_equal(index, products.argmax(axis=1))
    np.testing.assert_allclose(cosine, products.max(axis=1), atol=TOLERANCE)
    row, centroid = np.divmod(np.arange(700 * 50), 50)
    np.testing.assert_allclose(pair_cosines(rows, row, centroids, centroid), products.ravel(), atol=TOLERANCE)


def test_screens_agree_with_float32(problem) -> None:
    rows, centroids = problem
    truth, cosine = nearest(rows, centroids)
    found = list(screens(centroids, rows[:2000], truth[:2000]))
    assert [search.basis.shape[1] for search in found] == [48, 64, 96, 128]
    for search in found:
        index, its = search(rows)
        assert np.mean(index[2000:] == truth[2000:]) > 0.998  # on rows the margin was not measured on
        np.testing.assert_allclose(its, np.vecdot(rows, centroids[index]), atol=TOLERANCE)
        hardest = [set(np.argsort(values)[:1800]) for values in (cosine, its)]
        assert len(hardest[0] & hardest[1]) / 1800 >= 0.999  # the kept set


def test_screen_with_all_dimensions_needs_no_margin(problem) -> None:
    rows, centroids = problem
    search = ScreenedSearch(centroids, leading_basis(rows, 256), margin=1e-5)
    np.testing.assert_array_equal(search(rows)[0], nearest(rows, centroids)[0])


def test_screen_falls_back_where_everything_is_a_rival(problem) -> None:
    rows, centroids = problem
    hopeless = ScreenedSearch(centroids, leading_basis(rows, 48), margin=2.0)
    np.testing.assert_array_equal(hopeless(rows)[0], nearest(rows, centroids)[0])


def test_leading_basis_finds_the_leading_directions(rng) -> None:
    rows = (rng.standard_normal((500, 4)) @ rng.standard_normal((4, 100))).astype(np.float32)
    basis = leading_basis(rows, 4)
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-5)
    np.testing.assert_allclose(rows @ basis @ basis.T, rows, atol=1e-3)


def test_small_problems_take_float32_without_a_trial(problem) -> None:
    rows, centroids = problem
    assert isinstance(choose_search(centroids, rows, n=len(rows)), ExactSearch)


def test_choice_agrees_and_can_be_forced(problem, monkeypatch) -> None:
    rows, centroids = problem
    monkeypatch.setattr(kernels, "_seconds", slow_float32)
    chosen = choose_search(centroids, rows, n=10**9)
    assert chosen.name.startswith("screened")
    assert np.mean(chosen(rows)[0] == nearest(rows, centroids)[0]) > 0.999
    assert choose_search(centroids, rows, n=10**9, kernel="float32").name == "float32"
    monkeypatch.setattr(kernels, "_seconds", lambda search, rows: float(len(rows)))
    assert choose_search(centroids, rows, n=10**9).name == "float32"  # nothing is faster


def test_a_kernel_that_disagrees_is_not_taken(problem, monkeypatch) -> None:
    rows, centroids = problem

    class Wrong:
        name = "wrong"

        def __call__(self, block):
            return np.zeros(len(block), np.int64), np.ones(len(block), np.float32)

    monkeypatch.setitem(kernels.KERNELS, "screened", lambda centroids, rows, truth: [Wrong()])
    monkeypatch.setattr(kernels, "_seconds", slow_float32)
    assert choose_search(centroids, rows, n=10**9).name != "wrong"
    with pytest.raises(PareError, match=r"kernel 'screened' does not agree with float32 on these data"):
        choose_search(centroids, rows, n=10**9, kernel="screened")


def test_unknown_kernel_is_named(problem) -> None:
    rows, centroids = problem
    with pytest.raises(PareError, match=r"unknown kernel 'int9'; available: .* Did you mean 'int8'\?"):
        choose_search(centroids, rows, n=10, kernel="int9")


@pytest.mark.parametrize("kernel", ["int8", "bfloat16"])
def test_low_precision_agrees_where_torch_is_installed(problem, kernel) -> None:
    pytest.importorskip("torch")
    rows, centroids = problem
    search = next(iter(kernels.KERNELS[kernel](centroids, rows, np.zeros(0, np.int64))))
    truth, cosine = nearest(rows, centroids)
    index, its = search(rows)
    assert np.mean(index == truth) > 0.97  # eight bits mistake close centroids now and then
    np.testing.assert_allclose(its, np.vecdot(rows, centroids[index]), atol=TOLERANCE)
    assert abs(its.mean() - cosine.mean()) < 1e-4
    assert len(search(rows[:3])[0]) == 3  # fewer rows than torch's integer product wants


def test_coarse_kmeans_is_as_good_as_the_exact_one(rng, monkeypatch) -> None:
    rows = structured(rng, 12_000, 256, 60)
    exact = spherical_kmeans(rows, 50, seed=0, kernel="float32").centroids
    monkeypatch.setattr(kernels, "_WORTHWHILE", 0)
    coarse = spherical_kmeans(rows, 50, seed=0).centroids
    means = [nearest(rows, centroids)[1].mean() for centroids in (exact, coarse)]
    assert means[1] > means[0] * 0.999
