"""k-means by every method: held in memory or streamed, it finds the same clusters inside the memory it is given."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paredown as pdn
from paredown.clustering import kernels
from paredown.clustering.kernels import nearest
from paredown.clustering.kmeans import METHODS, KMeans, spherical_kmeans
from paredown.clustering.lloyd import group, group_in_two_levels, share_out
from paredown.clustering.passes import HeldRows, StreamedRows, lloyd_pass
from paredown.errors import PareError
from paredown.progress import silent
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
    for number, block in (block for chunk in streamed.chunks(silent, "") for block in chunk):
        gathered[number] = block
    np.testing.assert_array_equal(gathered, held.vectors)
    basis = np.eye(256, 5, dtype=np.float32)
    np.testing.assert_allclose(streamed.project(basis, silent), held.vectors[:, :5], atol=1e-7)


def test_a_pass_is_one_iteration_by_hand() -> None:
    rows = unit(np.array([[1, 0], [3, 1], [0, 1], [-1, 4]]))
    begin = unit(np.array([[1, 0.1], [0.1, 1]]))
    expected = unit(np.stack([rows[:2].sum(axis=0), rows[2:].sum(axis=0)]))
    found = lloyd_pass(HeldRows(rows), kernels.ExactSearch(begin))
    np.testing.assert_allclose(found.centroids, expected, atol=1e-6)
    assert found.mean_cosine == pytest.approx(np.max(rows @ begin.T, axis=1).mean(), abs=1e-6)
    known = HeldRows(rows).group_sums(np.array([0, 0, 1, 1]), 2, 2, silent).directions(None)
    np.testing.assert_allclose(known, expected, atol=1e-6)


def test_an_empty_cluster_moves_to_the_row_that_fits_worst() -> None:
    rows = unit(np.array([[1, 0, 0], [1, 0.1, 0], [1, 0, 0.1], [0.2, 0, 1]]))
    begin = unit(np.array([[1, 0, 0], [-1, 0, 0]]))  # nothing is near the second
    found = lloyd_pass(HeldRows(rows), kernels.ExactSearch(begin))
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


def test_grouping_rows_of_any_length_is_by_direction(rng) -> None:
    centres = unit(np.array([[1, 0, 0], [0, 1, 0], [0, 0, 1]]))
    member = rng.integers(0, 3, 600)
    rows = unit(centres[member] + 0.05 * rng.standard_normal((600, 3))) * rng.uniform(0.2, 5, (600, 1))
    found = group(rows.astype(np.float32), 3, rng, 10)
    assert same_partition(found.of_row, member)
    sums = np.stack([rows[found.of_row == i].sum(axis=0) for i in range(3)])
    np.testing.assert_allclose(found.centroids, unit(sums), atol=1e-5)
    assert found.fit == pytest.approx(np.vecdot(rows, unit(sums)[found.of_row]).mean(), rel=1e-4)


def lloyd_from_random_rows(rows: np.ndarray, k: int, rng: np.random.Generator) -> float:
    """The mean cosine that faiss.Kmeans(spherical=True) reaches, or a little more: 20 iterations from random rows."""
    centroids = rows[rng.choice(len(rows), k, replace=False)]
    for _ in range(20):
        index = (rows @ centroids.T).argmax(axis=1)
        sums = np.zeros_like(centroids)
        np.add.at(sums, index, rows)
        centroids = unit(np.where(np.any(sums, axis=1, keepdims=True), sums, centroids))
    return float((rows @ centroids.T).max(axis=1).mean())


@pytest.mark.parametrize("noise", [0.5, 1.0])
def test_isotropic_clusters_are_found_as_well_as_in_all_dimensions(noise, monkeypatch) -> None:
    """No few dimensions hold them, so that clusters of the leading ones alone would be poor."""
    rng = np.random.default_rng(3)
    centres = unit(rng.standard_normal((60, 256)))
    rows = unit(centres[rng.integers(0, 60, 8000)] + noise / 16 * rng.standard_normal((8000, 256)))
    monkeypatch.setattr(kernels, "_WORTHWHILE", 0)
    ours = [nearest(rows, spherical_kmeans(rows, 60, seed=seed).centroids)[1].mean() for seed in range(3)]
    theirs = [lloyd_from_random_rows(rows, 60, np.random.default_rng(seed)) for seed in range(3)]
    assert np.mean(ours) > 0.999 * np.mean(theirs)


def test_clusters_in_many_dimensions_are_not_sought_in_a_few(monkeypatch) -> None:
    monkeypatch.setattr(kernels, "_WORTHWHILE", 0)
    rng = np.random.default_rng(0)
    flat = unit(rng.standard_normal((2000, 256)))
    steep = unit(rng.standard_normal((2000, 256)) * (1 + np.arange(256)) ** -0.7)
    offset = unit(flat + 3 * flat[:1])  # most of the length lies in one direction, and little of the variance
    plan = KMeans(20, seed=0)
    assert [plan._basis(HeldRows(rows), rows) is None for rows in (flat, steep, offset)] == [True, False, True]
    streamed = StreamedRows(open_source(flat), 2000, seed=0)
    assert plan._basis(streamed, flat) is not None  # all dimensions would not fit into memory


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


FINGERPRINTS = """
import hashlib, json, sys
import numpy as np
import paredown as pdn
from paredown.clustering import kernels
from paredown.clustering.kernels import neighbours

kernels._WORTHWHILE = neighbours._WORTHWHILE = 0  # as if there were much more to do
rng = np.random.default_rng(2)
spectrum = (1 + np.arange(256)) ** -0.7
rows = (rng.standard_normal((40, 256))[rng.integers(0, 40, 1500)] + 0.8 * rng.standard_normal((1500, 256))) * spectrum
rows[1000:1050] = rows[:50]

def fingerprint(scores):
    parts = [scores.values] + ([] if scores.clusters is None else [scores.clusters])
    return hashlib.sha256(b"".join(np.ascontiguousarray(part).tobytes() for part in parts)).hexdigest()

def prototypes(**options):
    return pdn.score(rows, metric="prototypes", k=30, iterations=5, seed=1, sensitivity=False, **options)

present, file = json.loads(sys.argv[1]), sys.argv[2]
found = {"kernel " + kernel: fingerprint(prototypes(kernel=kernel)) for kernel in present}
found |= {"again": fingerprint(prototypes(save_model=file, overwrite=True))}
found |= {"model " + kernel: fingerprint(pdn.score(rows, model=file, kernel=kernel)) for kernel in present}
for method in ("full", "minibatch", "hierarchical"):
    found["method " + method] = fingerprint(prototypes(method=method, memory=2**21))
for metric in ("typicality", "duplicates", "density", "k_center"):
    found[metric] = fingerprint(pdn.score(rows, metric=metric, seed=1))
print(json.dumps(found))
"""


def fingerprints(folder: Path, present: list[str], threads: int) -> dict[str, str]:
    """Of scores and clusters, computed in another process."""
    limits = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), str(threads))
    command = [sys.executable, "-c", FINGERPRINTS, json.dumps(present), str(folder / f"{threads}.npz")]
    done = subprocess.run(command, env=os.environ | limits, stdout=subprocess.PIPE, text=True, check=True)
    return json.loads(done.stdout)


def test_same_bits_on_any_threads_with_any_kernel_under_any_load(tmp_path) -> None:
    torch = ["int8", "bfloat16"] if importlib.util.find_spec("torch") else []
    present = ["auto", "float32", "screened", *torch]
    one = fingerprints(tmp_path, present, threads=1)
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        two = fingerprints(tmp_path, present, threads=2)
    finally:
        for process in busy:
            process.kill()
            process.wait()
    assert one == two
    assert len({one[name] for name in one if name.startswith(("kernel", "model", "again"))}) == 1
    assert len(set(one.values())) == 1 + 3 + 4  # prototypes, the other methods, and the other metrics


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
    found = lloyd_pass(HeldRows(rows), kernels.ExactSearch(unit(centroids)))
    used = len(np.unique(kernels.ExactSearch(found.centroids)(rows)[0]))
    assert used >= 3000 // 8


def test_too_little_memory_for_the_sample_is_said(rng) -> None:
    rows = rng.normal(size=(4_000, 16))
    starved = pdn.score(rows, k=10, memory=8 * 16 * 300, sensitivity=False)  # 300 rows, in place of 2,560
    (warning,) = starved.provenance["warnings"]
    assert "k-means starts from 30 rows per centroid instead of 256" in warning
    assert warning.endswith("; 1 MiB would be enough.")
    assert pdn.score(rows, k=10, memory=2**20, sensitivity=False).provenance["warnings"] == []
