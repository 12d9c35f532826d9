from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

from paredown.errors import PareError
from paredown.projection import LANDMARKS, fit_projection, project

needs_pacmap = pytest.mark.skipif(find_spec("pacmap") is None, reason="PaCMAP is not installed")


def clusters(rng: np.random.Generator, each: int = 60, dim: int = 20) -> np.ndarray:
    centres = 10 * rng.standard_normal((3, dim))
    return (centres[:, None] + rng.standard_normal((3, each, dim))).reshape(-1, dim).astype(np.float32)


def test_pca_is_the_two_leading_components(rng: np.random.Generator) -> None:
    rows = rng.standard_normal((50, 6)) * [5, 3, 1, 1, 0.1, 0.1]
    centred = rows - rows.mean(axis=0)
    _, _, axes = np.linalg.svd(centred, full_matrices=False)
    points = project(rows, method="pca")
    for column in range(2):
        expected = centred @ axes[column]
        sign = np.sign(expected @ points[:, column])
        np.testing.assert_allclose(points[:, column], sign * expected, rtol=1e-4, atol=1e-5)


def test_the_sign_of_components_does_not_depend_on_the_row_order(rng: np.random.Generator) -> None:
    rows = rng.standard_normal((40, 5))
    np.testing.assert_allclose(project(rows[::-1], method="pca"), project(rows, method="pca")[::-1], atol=1e-5)


@pytest.mark.parametrize("shape", [(1, 4), (2, 1), (5, 1)])
def test_few_rows_and_dimensions_have_two_coordinates(rng: np.random.Generator, shape: tuple[int, int]) -> None:
    points = project(rng.standard_normal(shape))
    assert points.shape == (shape[0], 2)
    assert np.isfinite(points).all()


@needs_pacmap
def test_pacmap_keeps_clusters_apart_and_repeats_itself(rng: np.random.Generator) -> None:
    rows = clusters(rng)
    points = project(rows, seed=3)
    np.testing.assert_array_equal(points, project(rows, seed=3))
    middles = points.reshape(3, 60, 2).mean(axis=1)
    spread = max(np.linalg.norm(points.reshape(3, 60, 2) - middles[:, None], axis=2).max(axis=1))
    apart = min(np.linalg.norm(middles[i] - middles[j]) for i in range(3) for j in range(i))
    assert apart > spread


@needs_pacmap
def test_other_rows_go_to_the_landmarks_that_they_are_like(rng: np.random.Generator) -> None:
    rows = clusters(rng, each=80)
    layout = fit_projection(rows[::2])
    assert layout.method == "pacmap"
    middles = layout.places.reshape(3, 40, 2).mean(axis=1)
    placed = layout.place(rows[1::2]).reshape(3, 40, 2)
    nearest = np.linalg.norm(placed[:, :, None] - middles, axis=3).argmin(axis=2)
    np.testing.assert_array_equal(nearest, np.repeat([[0], [1], [2]], 40, axis=1))


def test_rows_beyond_the_landmarks_are_placed_by_the_same_components(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = rng.standard_normal((90, 4)) * [9, 5, 1, 1]
    whole = project(rows, method="pca")
    monkeypatch.setattr("paredown.projection.LANDMARKS", 60)
    some = project(rows, method="pca")
    assert LANDMARKS == 20_000
    for column in range(2):
        assert abs(np.corrcoef(whole[:, column], some[:, column])[0, 1]) > 0.98


def test_unknown_methods_are_refused(rng: np.random.Generator) -> None:
    with pytest.raises(PareError, match="unknown projection 'tsne'; available: auto, pacmap, pca"):
        project(rng.standard_normal((3, 2)), method="tsne")  # type: ignore[arg-type]


def test_rows_that_are_all_the_same_are_one_point() -> None:
    points = project(np.ones((50, 4), np.float32))
    np.testing.assert_array_equal(points, np.broadcast_to(points[0], (50, 2)))
    assert np.isfinite(points).all()
