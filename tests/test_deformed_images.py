from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from scipy import ndimage

from paredown.deformed_images import Deformation, DeformedImages
from paredown.errors import PareError
from paredown.workers import run_jobs

NONE = Deformation().times(0)


@pytest.fixture
def originals() -> np.ndarray:
    """Twenty smooth grey images, not square."""
    noise = np.random.default_rng(0).random((20, 20, 16))
    smooth = ndimage.gaussian_filter(noise, (0, 2, 2))
    return np.round(255 * (smooth - smooth.min()) / np.ptp(smooth)).astype(np.uint8)


def test_an_image_depends_on_seed_and_number_alone(originals) -> None:
    endless = DeformedImages(originals, seed=3)
    numbers = np.arange(700)
    whole = endless.images(numbers)
    assert whole.shape == (700, 20, 16)
    for step in (1, 7, 333):
        parts = [endless.images(numbers[first : first + step]) for first in range(0, 700, step)]
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    np.testing.assert_array_equal(endless.images(numbers[::-1]), whole[::-1])
    with ThreadPoolExecutor(4) as threads:
        parts = list(threads.map(endless.images, np.array_split(numbers, 9)))
    np.testing.assert_array_equal(np.concatenate(parts), whole)
    assert (DeformedImages(originals, seed=4).images(numbers) != whole).any(axis=(1, 2)).all()


def made(common: list, numbers: list[int]) -> list:
    """A job: some images as lists."""
    return DeformedImages(np.array(common, np.uint8), seed=3).images(np.array(numbers)).tolist()


@pytest.mark.parametrize("workers", [1, 3])
def test_workers_make_the_same_bytes(originals, workers: int) -> None:
    jobs = [part.tolist() for part in np.array_split(np.arange(90), 4)]
    outcomes = run_jobs(f"{__name__}:made", jobs, workers=workers, common=originals.tolist(), threads=workers)
    found = {outcome.job: outcome.value for outcome in outcomes}
    images = np.concatenate([np.array(found[job], np.uint8) for job in range(4)])
    np.testing.assert_array_equal(images, DeformedImages(originals, seed=3).images(np.arange(90)))


def test_without_deformation_images_are_the_originals(originals) -> None:
    endless = DeformedImages(originals, 0, NONE)
    numbers = np.arange(500)
    np.testing.assert_array_equal(endless.images(numbers), originals[endless.rows(numbers)])


def test_originals_are_drawn_evenly(originals) -> None:
    counts = np.bincount(DeformedImages(originals, 1).rows(np.arange(40_000)), minlength=20)
    assert ((counts - 2000) ** 2 / 2000).sum() < 50  # chi-squared with 19 degrees of freedom


def test_images_are_sampled_where_the_places_say(originals) -> None:
    """Against scipy's interpolation of each image by itself."""
    endless = DeformedImages(originals, 5)
    normal = np.random.default_rng(1).standard_normal((20, 56)).astype(np.float32)
    across, down = endless._places(normal)
    from paredown.deformed_images import _sampled

    found = _sampled(originals, across.copy(), down.copy())
    for image, x, y, own in zip(originals, across, down, found, strict=True):
        wanted = ndimage.map_coordinates(image.astype(float), [y, x], order=1, mode="grid-constant")
        assert np.abs(own - wanted).max() <= 0.51


@pytest.mark.parametrize(
    ("deformation", "spread"),
    [
        (Deformation(0, 0, 0, 0, 0.1), 0.1),  # the field has its variance at every pixel
        (Deformation(0, 0, 0, 0.2, 0), 0.2),
    ],
)
def test_strengths_are_standard_deviations(originals, deformation: Deformation, spread: float) -> None:
    endless = DeformedImages(originals, 5, deformation)
    normal = np.random.default_rng(1).standard_normal((4000, 56)).astype(np.float32)
    for places, side in zip(endless._places(normal), (16, 20), strict=True):
        np.testing.assert_allclose(places.std(axis=0) / ((side - 1) / 2), spread, rtol=0.06)


def test_a_rotation_turns_the_image() -> None:
    image = np.zeros((1, 9, 9), np.uint8)
    image[0, 4, 7] = 200  # right of the middle
    endless = DeformedImages(image, 0, Deformation(np.pi / 2, 0, 0, 0, 0))
    normal = np.zeros((1, 56), np.float32)
    normal[0, 0] = 1  # one standard deviation: a quarter turn
    across, down = endless._places(normal)
    from paredown.deformed_images import _sampled

    assert np.argwhere(_sampled(image, across, down)[0] > 100).tolist() == [[1, 4]]


def test_what_is_no_image_or_number_is_refused(originals) -> None:
    with pytest.raises(PareError, match=r"grey images, uint8 \(n, height, width\), at least one; got float64"):
        DeformedImages(originals / 2, 0)  # type: ignore[arg-type]
    with pytest.raises(PareError, match="whole numbers from 0"):
        DeformedImages(originals, 0).images([-1])
