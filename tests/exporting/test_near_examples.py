"""The nearest examples of every example: exact where they are few, nearly so in cells."""

from __future__ import annotations

import numpy as np
import pytest

from paredown.exporting import near_examples as module
from paredown.exporting.near_examples import near_examples
from paredown.progress import silent


def unit(rows):
    return (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)


def plainly(vectors, number):
    apart = np.maximum(1 - vectors @ vectors.T, 0)
    np.fill_diagonal(apart, -1)
    ids = np.argsort(apart, axis=1, kind="stable")[:, :number]
    return ids, np.maximum(np.take_along_axis(apart, ids, axis=1), 0)


@pytest.fixture
def vectors(rng):
    around = rng.standard_normal((40, 12))[rng.integers(0, 40, 3_000)]
    return unit(around + 0.5 * rng.standard_normal((3_000, 12)))


@pytest.mark.parametrize("block", [100, 1_024])
def test_few_are_compared_with_all(vectors, monkeypatch, block) -> None:
    monkeypatch.setattr(module, "_BLOCK", block)
    ids, distances = near_examples(vectors, 15, track=silent)
    expected, apart = plainly(vectors, 15)
    np.testing.assert_allclose(distances, apart, atol=1e-6)
    assert (ids == expected).mean() > 0.999  # but for the rounding of products in other blocks
    np.testing.assert_array_equal(ids[:, 0], np.arange(3_000))
    assert near_examples(vectors[:4], 15, track=silent)[0].shape == (4, 4)


def test_many_find_nearly_all_in_cells(vectors, monkeypatch) -> None:
    for name, size in {"EXACT_ROWS": 500, "_CELL": 50, "_COMPARED": 600, "_MOST": 2_000}.items():
        monkeypatch.setattr(module, name, size)
    ids, distances = near_examples(vectors, 15, track=silent)
    expected, apart = plainly(vectors, 15)
    np.testing.assert_array_equal(ids[:, 0], np.arange(3_000))
    np.testing.assert_array_equal(distances[:, 0], 0)
    assert (np.diff(distances, axis=1) >= 0).all()
    rows = np.arange(3_000)[:, None]
    np.testing.assert_allclose(
        distances[:, 1:], np.maximum(1 - np.vecdot(vectors[rows], vectors[ids[:, 1:]]), 0), atol=1e-6
    )
    found = np.mean([len(np.intersect1d(*pair)) / 15 for pair in zip(ids, expected, strict=True)])
    assert found > 0.97
    assert (distances >= apart - 1e-6).all()
    again = near_examples(vectors, 15, track=silent)
    np.testing.assert_array_equal(again[0], ids)


def test_copies_are_near_and_a_cell_of_them_takes_no_longer(rng, monkeypatch) -> None:
    """Half of the rows are one and the same: they are compared with a part of each other."""
    for name, size in {"EXACT_ROWS": 500, "_CELL": 50, "_COMPARED": 300, "_MOST": 400}.items():
        monkeypatch.setattr(module, name, size)
    vectors = unit(rng.standard_normal((3_000, 8)))
    vectors[::2] = vectors[0]
    sizes = []
    nearest = module._nearest

    def noting(rows, some, reference, *rest):
        sizes.append((len(some), len(reference)))
        return nearest(rows, some, reference, *rest)

    monkeypatch.setattr(module, "_nearest", noting)
    ids, distances = near_examples(vectors, 5, track=silent)
    assert sum(rows for rows, _ in sizes) == 3_000
    assert max(compared for _, compared in sizes) <= 800
    np.testing.assert_array_equal(ids[:, 0], np.arange(3_000))
    assert (ids[::2] % 2 == 0).all()
    np.testing.assert_allclose(distances[::2], 0, atol=1e-6)


def test_progress_is_told_cell_by_cell(vectors, monkeypatch) -> None:
    for name, size in {"EXACT_ROWS": 500, "_CELL": 50, "_COMPARED": 600}.items():
        monkeypatch.setattr(module, name, size)
    told = []

    def track(steps, label, total=None):
        for step in steps:
            told.append((label, total))
            yield step

    near_examples(vectors, 3, track=track)
    assert told == [("finding neighbours", 60)] * 60


def test_of_more_copies_than_neighbours_the_first_are_taken() -> None:
    vectors = np.full((500, 4), 0.5, np.float32)
    ids, distances = near_examples(vectors, 5, track=silent)
    np.testing.assert_array_equal(ids[0], [0, 1, 2, 3, 4])
    np.testing.assert_array_equal(ids[499], [499, 0, 1, 2, 3])
    assert (distances == 0).all()
