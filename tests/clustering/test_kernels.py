"""Every kernel gives the same answer to the last bit: the largest float32 cosine pair by pair, the first of equals."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from paredown.clustering import kernels
from paredown.clustering.kernels import choose_search, load_search, mutual, nearest, neighbours, search_arrays
from paredown.clustering.kernels.cosines import pair_cosines, product_error, row_cosines
from paredown.clustering.kernels.exact import ExactSearch
from paredown.clustering.kernels.low_precision import BFloat16Search, CudaSearch, Int8Search
from paredown.clustering.kernels.mutual import MutualSearch, mean_distance
from paredown.clustering.kernels.neighbours import Bounds, NeighbourSearch, bring_together, choose_neighbour_search
from paredown.clustering.kernels.screened import Screen, ScreenedSearch, leading_basis
from paredown.clustering.kmeans import spherical_kmeans
from paredown.errors import PareError

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


def by_definition(rows: np.ndarray, centroids: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The slow way: every pair by itself."""
    cosine = np.vecdot(rows[:, None], centroids)
    index = cosine.argmax(axis=1)
    return index, cosine[np.arange(len(rows)), index]


def all_searches(centroids: np.ndarray, rows: np.ndarray) -> list[kernels.CentroidSearch]:
    """Every kernel, screens of every width, and the code for a GPU on the processor."""
    widths = [width for width in (1, 2, 5, 48, 64, 192) if width <= min(centroids.shape[1], len(rows))]
    found: list[kernels.CentroidSearch] = [ExactSearch(centroids)]
    found += [ScreenedSearch(centroids, leading_basis(rows, width)) for width in widths]
    try:
        import torch  # noqa: F401
    except ImportError:
        return found
    return [*found, Int8Search(centroids), BFloat16Search(centroids), CudaSearch(centroids, device="cpu")]


def assert_all_agree(rows: np.ndarray, centroids: np.ndarray) -> None:
    index, cosine = by_definition(rows, centroids)
    precise = rows.astype(np.float64) @ centroids.T.astype(np.float64)
    bound = product_error(rows.shape[1]) * np.linalg.norm(rows.astype(np.float64), axis=1)
    bound = bound * np.linalg.norm(centroids.astype(np.float64), axis=1).max() + 1e-30
    assert np.all(precise[np.arange(len(rows)), index] >= precise.max(axis=1) - 2 * bound)
    for search in all_searches(centroids, rows):
        its_index, its_cosine = search(rows)
        np.testing.assert_array_equal(its_index, index, err_msg=search.name)
        np.testing.assert_array_equal(its_cosine, cosine, err_msg=search.name)
        some = slice(len(rows) // 3, len(rows) // 3 + 5)  # a block of another height
        np.testing.assert_array_equal(search(rows[some])[0], index[some], err_msg=search.name)


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(0)
    rows = structured(rng, 6000, 256, 150)
    return rows, spherical_kmeans(rows, 120, seed=0, iterations=5).centroids


def test_row_wise_cosines_do_not_depend_on_where_a_row_is(rng) -> None:
    rows, others = (rng.standard_normal((301, 515)).astype(np.float32) for _ in range(2))
    expected = np.array([np.vecdot(row, other) for row, other in zip(rows, others, strict=True)])
    np.testing.assert_array_equal(np.vecdot(rows, others), expected)
    np.testing.assert_array_equal(row_cosines(rows, others, np.arange(301)), expected)
    order = rng.permutation(301)
    np.testing.assert_array_equal(pair_cosines(rows, order, others, order), expected[order])
    shifted = np.empty(301 * 515 + 3, np.float32)[3:].reshape(301, 515)  # at an odd address
    shifted[:] = rows
    np.testing.assert_array_equal(np.vecdot(shifted, others), expected)
    np.testing.assert_array_equal(np.vecdot(rows[:, None], others)[np.arange(301), np.arange(301)], expected)


def test_kernels_agree_on_structured_rows(problem) -> None:
    rows, centroids = problem
    assert_all_agree(rows[:1500], centroids)


def test_kernels_agree_on_isotropic_rows(rng) -> None:
    centres = unit(rng.standard_normal((90, 200)))
    rows = unit(centres[rng.integers(0, 90, 800)] + 0.07 * rng.standard_normal((800, 200)))
    assert_all_agree(rows, centres)


def test_duplicated_centroids_go_to_the_first(rng) -> None:
    rows = unit(rng.standard_normal((300, 120)))
    centroids = np.repeat(unit(rng.standard_normal((7, 120))), 5, axis=0)[rng.permutation(35)]
    assert_all_agree(rows, centroids)
    index, _ = nearest(rows, centroids)
    for chosen in np.unique(index):
        copies = np.flatnonzero((centroids == centroids[chosen]).all(axis=1))
        assert chosen == copies[0]


@pytest.mark.parametrize("apart", [1e-7, 1e-6, 1e-5, 1e-3])
def test_near_ties_are_settled_alike(rng, apart) -> None:
    centre = unit(rng.standard_normal((1, 150)))
    centroids = unit(centre + apart * rng.standard_normal((40, 150)))
    rows = unit(centre + 0.05 * rng.standard_normal((500, 150)))
    assert_all_agree(rows, centroids)
    products = rows @ centroids.T
    if apart == 1e-7:  # here a product of matrices alone would choose differently
        assert np.any(products.argmax(axis=1) != by_definition(rows, centroids)[0])


def test_tiny_residuals(rng) -> None:
    """Rows and centroids that lie in the subspace but for rounding."""
    turn = np.linalg.qr(rng.standard_normal((130, 130)))[0][:4]
    rows, centroids = unit(rng.standard_normal((600, 4)) @ turn), unit(rng.standard_normal((50, 4)) @ turn)
    assert_all_agree(rows, centroids)


@pytest.mark.parametrize(("k", "dim"), [(1, 1), (1, 60), (2, 1), (3, 2), (40, 7), (5, 3000)])
def test_small_and_odd_shapes(rng, k, dim) -> None:
    assert_all_agree(unit(rng.standard_normal((70, dim))), unit(rng.standard_normal((k, dim))))


def test_zero_rows_centroids_and_opposites(rng) -> None:
    centroids = unit(rng.standard_normal((9, 100)))
    centroids[3] = 0  # a cluster without a direction
    rows = np.concatenate([centroids, -centroids, unit(rng.standard_normal((30, 100)))])
    assert_all_agree(rows, centroids)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 130), st.integers(1, 60), st.sampled_from([0.0, 1e-7, 1e-4, 0.1, 1]))
def test_any_rows_and_centroids(seed, dim, k, spread) -> None:
    rng = np.random.default_rng(seed)
    decay = (1 + np.arange(dim)) ** -rng.uniform(0, 3)
    centres = rng.standard_normal((3, dim))
    rows = (centres[rng.integers(0, 3, 50)] + spread * rng.standard_normal((50, dim))) * decay
    centroids = (centres[rng.integers(0, 3, k)] + spread * rng.standard_normal((k, dim))) * decay
    assert_all_agree(unit(rows + 1e-12), unit(centroids + 1e-12))


def test_non_contiguous_rows(problem) -> None:
    rows, centroids = problem
    turned = np.asfortranarray(rows[:400])
    for search in all_searches(np.asfortranarray(centroids), rows[:400]):
        np.testing.assert_array_equal(search(turned)[1], by_definition(rows[:400], centroids)[1])


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(2, 200), st.integers(1, 48))
def test_bounds_of_a_screen_are_never_below_a_cosine(seed, dim, width) -> None:
    rng = np.random.default_rng(seed)
    rows, others = unit(rng.standard_normal((60, dim))), unit(rng.standard_normal((50, dim)))
    bound, slack = Screen(others, leading_basis(rows, min(width, dim))).bounds(rows)
    assert np.all(np.vecdot(rows[:, None], others) <= bound + slack[:, None])


def test_int8_refuses_sums_that_are_clipped(problem, monkeypatch) -> None:
    torch = pytest.importorskip("torch")
    exact = torch._int_mm
    monkeypatch.setattr(torch, "_int_mm", lambda a, b: exact(a, b).clamp(-(2**15), 2**15 - 1))
    with pytest.raises(PareError, match=r"cannot add products of eight-bit integers exactly; use another kernel"):
        Int8Search(problem[1])


def test_screen_falls_back_where_everything_is_a_rival(rng) -> None:
    rows, centroids = unit(rng.standard_normal((300, 400))), unit(rng.standard_normal((80, 400)))
    hopeless = ScreenedSearch(centroids, leading_basis(rows, 1))
    assert hopeless.operations(rows) > ExactSearch(centroids).operations(rows)
    np.testing.assert_array_equal(hopeless(rows)[0], by_definition(rows, centroids)[0])


def test_leading_basis_finds_the_leading_directions(rng) -> None:
    rows = (rng.standard_normal((500, 4)) @ rng.standard_normal((4, 100))).astype(np.float32)
    basis = leading_basis(rows, 4)
    np.testing.assert_allclose(basis.T @ basis, np.eye(4), atol=1e-5)
    np.testing.assert_allclose(rows @ basis @ basis.T, rows, atol=1e-3)


def test_small_problems_take_float32_without_counting(problem, monkeypatch) -> None:
    rows, centroids = problem
    monkeypatch.setattr(ExactSearch, "operations", lambda self, rows: pytest.fail("counted"))
    assert isinstance(choose_search(centroids, rows, n=len(rows)), ExactSearch)


def test_the_fewest_operations_are_chosen(problem, monkeypatch) -> None:
    rows, centroids = problem
    monkeypatch.setattr(kernels, "torch_kernels", lambda multiplications: ())
    chosen = choose_search(centroids, rows, n=10**9)
    assert chosen.name.startswith("screened in ")
    possible = [ExactSearch(centroids), *kernels._screens(centroids, rows)]
    assert [search.name for search in possible[1:]] == [
        f"screened in {width} dimensions" for width in (48, 64, 96, 128)
    ]
    counted = {search.name: search.operations(rows[:512]) for search in possible}
    assert counted[chosen.name] == min(counted.values()) < counted["float32"]
    assert choose_search(centroids, rows, n=10**9, kernel="float32").name == "float32"
    assert choose_search(centroids, rows, n=10, kernel="screened").name == chosen.name


def test_operations_by_hand() -> None:
    rows = unit(np.array([[1, 0.1, 0, 0], [0.1, 1, 0, 0]]))
    centroids = np.eye(4, dtype=np.float32)
    assert ExactSearch(centroids).operations(rows) == 4 * (1 + 16 / 4)  # a row settles one pair: its leader's cosine
    twice = np.concatenate([centroids, centroids])
    assert ExactSearch(twice).operations(rows) == 4 * (1 + 2 * 16 / 8)  # and the copy of it
    screened = ScreenedSearch(centroids, np.eye(4, 2, dtype=np.float32))
    assert screened.operations(rows) == 2 + 4 / 4 * (2 + 16)  # no centroid but the leader is left


def test_isotropic_rows_take_float32(rng, monkeypatch) -> None:
    monkeypatch.setattr(kernels, "torch_kernels", lambda multiplications: ())
    rows, centroids = unit(rng.standard_normal((600, 128))), unit(rng.standard_normal((100, 128)))
    assert choose_search(centroids, rows, n=10**9).name == "float32"


def test_a_kernel_of_torch_that_does_not_run_is_left_out(problem, monkeypatch) -> None:
    rows, centroids = problem

    def missing(centroids, rows):
        raise RuntimeError("no such instruction")

    monkeypatch.setattr(kernels, "torch_kernels", lambda multiplications: ("int8",))
    monkeypatch.setitem(kernels.KERNELS, "int8", missing)
    assert choose_search(centroids, rows, n=10**9).name.startswith("screened")
    with pytest.raises(RuntimeError, match="no such instruction"):
        choose_search(centroids, rows, n=10**9, kernel="int8")
    assert load_search("int8", centroids, {}).name == "float32"


def test_torch_is_not_imported_for_little_work(monkeypatch) -> None:
    pytest.importorskip("torch")
    imported = []

    def import_torch():
        imported.append("torch")
        raise PareError("not here")

    monkeypatch.setattr(kernels, "import_torch", import_torch)
    monkeypatch.delitem(kernels.sys.modules, "torch", raising=False)
    assert list(kernels.torch_kernels(1e11)) == []
    assert imported == []
    with pytest.raises(PareError, match="not here"):
        list(kernels.torch_kernels(1e13))
    assert imported == ["torch"]


def test_unknown_kernel_is_named(problem) -> None:
    rows, centroids = problem
    with pytest.raises(PareError, match=r"unknown kernel 'int9'; available: .* Did you mean 'int8'\?"):
        choose_search(centroids, rows, n=10, kernel="int9")


def test_searches_of_earlier_versions_load(problem) -> None:
    """They held a measured margin beside the basis."""
    rows, centroids = problem
    basis = leading_basis(rows, 48)
    arrays = {"centroids": centroids, "basis": basis, "margin": np.array(0.01, np.float32)}
    search = load_search("screened in 48 dimensions", centroids, arrays)
    assert search.name == "screened in 48 dimensions"
    np.testing.assert_array_equal(search(rows)[0], nearest(rows, centroids)[0])
    np.testing.assert_array_equal(search_arrays(search)["basis"], basis)
    assert load_search("float32", centroids, arrays).name == "float32"


def largest_by_definition(rows, reference, own, count):
    cosine = np.vecdot(rows[:, None], reference)
    cosine[np.flatnonzero(own >= 0), own[own >= 0]] = -np.inf
    return -np.sort(-cosine, axis=1)[:, :count]


def all_bounds(reference: np.ndarray) -> list[Bounds | None]:
    """Every kind of bounds that a search for neighbours may use."""
    found: list[Bounds | None] = [None]
    found += [Screen(reference, leading_basis(reference, width)) for width in (2, 48, 128)]
    try:
        return [*found, Int8Search(reference)]
    except PareError:  # there is no torch
        return found


@pytest.mark.parametrize(("block", "part"), [(512, 2048), (512, 100), (7, 40), (1, 13)])
@pytest.mark.parametrize("count", [1, 9, 60])
def test_neighbours_are_exact(problem, monkeypatch, block, part, count) -> None:
    monkeypatch.setattr(neighbours, "BLOCK_ROWS", block)
    monkeypatch.setattr(neighbours, "PART", part)
    reference = np.concatenate([problem[0][:703], problem[0][:50]])  # some twice
    own = np.where(np.arange(150) % 3 == 0, np.arange(150), -1)
    expected = largest_by_definition(problem[0][:150], reference, own, count)
    together = reference.copy()
    place = bring_together(together)
    np.testing.assert_array_equal(together[place], reference)
    for rows, moved in ((reference, None), (together, place)):
        for bounds in all_bounds(rows):
            found = NeighbourSearch(rows, count, bounds, place=moved)(problem[0][:150], own)
            np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(("n", "count"), [(2, 1), (2, 2), (21, 20), (23, 20), (50, 49)])
def test_neighbours_in_a_small_reference(problem, monkeypatch, n, count) -> None:
    monkeypatch.setattr(neighbours, "PART", 8)
    reference = np.ascontiguousarray(problem[0][:n])
    own = np.arange(n) if count < n else np.full(n, -1)
    for bounds in all_bounds(reference):
        found = NeighbourSearch(reference, count, bounds)(reference, own)
        np.testing.assert_array_equal(found, largest_by_definition(reference, reference, own, count))


def test_neighbours_among_copies(rng) -> None:
    reference = np.repeat(unit(rng.standard_normal((5, 40))), 30, axis=0)[rng.permutation(150)]
    own = np.arange(150)
    for bounds in all_bounds(reference)[::4]:
        found = NeighbourSearch(reference, 20, bounds)(reference, own)
        np.testing.assert_array_equal(found, largest_by_definition(reference, reference, own, 20))


@pytest.mark.parametrize(
    ("block", "part", "pairs", "groups"),
    [(512, 2048, 2**20, 512), (64, 100, 1, 512), (7, 40, 50, 3), (5, 130, 2**20, 1)],
)
@pytest.mark.parametrize("count", [1, 9, 60])
def test_mutual_neighbours_are_exact(problem, monkeypatch, block, part, pairs, groups, count) -> None:
    """Whatever the parts, their order, and how many pairs are kept before they are merged."""
    monkeypatch.setattr(mutual, "BLOCK_ROWS", block)
    monkeypatch.setattr(mutual, "_FEWEST_PAIRS", pairs)
    monkeypatch.setattr(mutual, "_MERGED_ROWS", 8 * part)
    monkeypatch.setattr(mutual, "_MOST_GROUPS", groups)
    monkeypatch.setattr(neighbours, "PART", part)
    rows = np.concatenate([problem[0][:503], problem[0][:50]])  # some twice
    expected = largest_by_definition(rows, rows, np.arange(len(rows)), count)
    together = rows.copy()
    place = bring_together(together)
    for bounds in all_bounds(together):
        search = NeighbourSearch(together, count, bounds, place=place)
        found = MutualSearch(search, memory=0).distances()[place]
        np.testing.assert_array_equal(found, mean_distance(expected))
    products = rows.astype(np.float64) @ rows.T.astype(np.float64)
    np.fill_diagonal(products, -np.inf)
    precise = 1 - np.sort(products, axis=1)[:, -count:].mean(axis=1)
    np.testing.assert_allclose(mean_distance(expected), precise, atol=TOLERANCE)


@pytest.mark.parametrize("part", [8, 2048])
@pytest.mark.parametrize(
    ("n", "count"), [(2, 1), (3, 2), (8, 7), (9, 3), (16, 8), (17, 8), (21, 20), (23, 20), (50, 49)]
)
def test_few_rows_are_mutual_neighbours(problem, monkeypatch, part, n, count) -> None:
    monkeypatch.setattr(neighbours, "PART", part)
    rows = np.ascontiguousarray(problem[0][:n])
    expected = mean_distance(largest_by_definition(rows, rows, np.arange(n), count))
    for bounds in all_bounds(rows):
        np.testing.assert_array_equal(MutualSearch(NeighbourSearch(rows, count, bounds)).distances(), expected)


def test_copies_and_rows_at_equal_distances_are_mutual_neighbours(rng, monkeypatch) -> None:
    monkeypatch.setattr(neighbours, "PART", 32)
    copies = np.repeat(unit(rng.standard_normal((5, 40))), 30, axis=0)[rng.permutation(150)]
    one_row = np.repeat(unit(rng.standard_normal((1, 40))), 90, axis=0)
    axes = np.concatenate([np.eye(40), -np.eye(40), np.eye(40)]).astype(np.float32)  # cosines of -1, 0 and 1
    for rows in (copies, one_row, axes):
        expected = mean_distance(largest_by_definition(rows, rows, np.arange(len(rows)), 20))
        for bounds in all_bounds(rows):
            np.testing.assert_array_equal(MutualSearch(NeighbourSearch(rows, 20, bounds)).distances(), expected)


def test_neighbours_are_screened_where_that_saves_operations(problem, monkeypatch) -> None:
    monkeypatch.setattr(neighbours, "torch_kernels", lambda *work, **worth: iter(()))
    rows = problem[0]
    assert isinstance(choose_neighbour_search(rows, 3, n=len(rows)).bounds, ExactSearch)  # little work
    subspace = unit(rows @ leading_basis(rows, 20) @ leading_basis(rows, 20).T)
    chosen = choose_neighbour_search(subspace, 3, n=10**9).bounds
    assert isinstance(chosen, Screen)
    assert chosen.width == 48
    isotropic = unit(np.random.default_rng(0).standard_normal((500, 128)))
    assert isinstance(choose_neighbour_search(isotropic, 3, n=10**9).bounds, ExactSearch)


def test_neighbours_are_sought_in_eight_bits_where_torch_has_them(rng, monkeypatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setattr(neighbours, "torch_kernels", lambda *work, **worth: iter(["int8"]))
    isotropic = unit(rng.standard_normal((5000, 128)))
    assert isinstance(choose_neighbour_search(isotropic, 3, n=10**9).bounds, Int8Search)


def test_coarse_kmeans_is_as_good_as_the_exact_one(rng, monkeypatch) -> None:
    rows = structured(rng, 12_000, 256, 60)

    def mean_cosine() -> float:
        """Of some seeds: runs from different seeds differ by more than the two ways do."""
        fits = [spherical_kmeans(rows, 50, seed=seed).centroids for seed in range(4)]
        return float(np.mean([nearest(rows, centroids)[1].mean() for centroids in fits]))

    exact = mean_cosine()
    monkeypatch.setattr(kernels, "_WORTHWHILE", 0)
    assert mean_cosine() > exact * 0.999
