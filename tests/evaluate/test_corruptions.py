"""Corruptions: what each does to pixels worked by hand, severity, determinism, and accuracy under them."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.datasets import load_sample_image

from paredown import PareError
from paredown.evaluate import CORRUPTIONS, corrupt, measure_corruptions
from paredown.evaluate.image_operations import blur, disc, displace, line, rough_field, smooth_field, zoom


@pytest.fixture(scope="module")
def photographs() -> np.ndarray:
    """Sixty-four tiles of a real photograph of 32 x 32 pixels each."""
    image = load_sample_image("china.jpg")[100:356, 100:356]
    return image.reshape(8, 32, 8, 32, 3).swapaxes(1, 2).reshape(64, 32, 32, 3).copy()


def distances(images: np.ndarray, name: str) -> np.ndarray:
    """Peak signal-to-noise ratio in dB at each severity."""
    errors = [np.mean((corrupt(images, name, s).astype(float) - images) ** 2) for s in range(1, 6)]
    return 10 * np.log10(255**2 / np.array(errors))


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_each_severity_is_worse_than_the_one_before(name, photographs) -> None:
    ratio = distances(photographs, name)
    assert (np.diff(ratio) < -0.2).all(), ratio
    assert 7 < ratio[4] < ratio[0] < 40
    larger = distances(load_sample_image("china.jpg")[None, 150:246, 200:328], name)
    assert (np.diff(larger) < -0.2).all(), larger


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_a_part_corrupted_alone_is_the_part_of_the_whole(name, photographs) -> None:
    whole = corrupt(photographs, name, 3, seed=5)
    assert whole.dtype == np.uint8
    assert whole.shape == photographs.shape
    np.testing.assert_array_equal(corrupt(photographs[:1], name, 3, seed=5), whole[:1])
    np.testing.assert_array_equal(corrupt(photographs[1:40], name, 3, seed=5, first=1), whole[1:40])


@pytest.mark.parametrize("name", CORRUPTIONS)
def test_grey_images_and_odd_sizes(name, photographs) -> None:
    grey = photographs[:2, :17, :29, 0]
    changed = corrupt(grey, name, 5)
    assert changed.shape == grey.shape
    assert (changed != grey).any()
    np.testing.assert_array_equal(corrupt(grey[..., None], name, 5)[..., 0], changed)


@pytest.mark.parametrize("name", ["gaussian_noise", "shot_noise", "impulse_noise", "glass_blur", "fog", "elastic"])
def test_seed_and_row_decide_the_randomness(name, photographs) -> None:
    twice = photographs[[0, 0]]
    first, second = corrupt(twice, name, 2, seed=1)
    assert (first != second).any()
    assert (corrupt(twice, name, 2, seed=2)[0] != first).any()
    np.testing.assert_array_equal(corrupt(twice, name, 2, seed=1)[0], first)


def test_noise_has_the_strength_stated() -> None:
    grey = np.full((4, 64, 64, 3), 128, np.uint8)
    for severity, level in enumerate(CORRUPTIONS["gaussian_noise"][1][:3], start=1):
        assert corrupt(grey, "gaussian_noise", severity).std() / 255 == pytest.approx(level, rel=0.02)
    photons = CORRUPTIONS["shot_noise"][1][0]
    known = np.sqrt(128 / 255 / photons)  # a Poisson count has the variance of its mean
    assert corrupt(grey, "shot_noise", 1).std() / 255 == pytest.approx(known, rel=0.02)
    hit = corrupt(grey, "impulse_noise", 5)
    assert set(np.unique(hit).tolist()) == {0, 128, 255}
    assert (hit != 128).mean() == pytest.approx(0.2, abs=0.01)
    assert (hit == 0).mean() == pytest.approx(0.1, abs=0.01)


def test_contrast_brightness_and_pixels_by_hand() -> None:
    image = np.array([[0, 100], [100, 200]], np.uint8).reshape(1, 2, 2, 1)
    np.testing.assert_array_equal(corrupt(image, "contrast", 3)[0, ..., 0], [[70, 100], [100, 130]])
    # The brightest channel of (100, 50, 0) rises by 0.2 * 255 = 51, the others in proportion; black becomes grey.
    colours = np.array([[[100, 50, 0], [0, 0, 0], [255, 10, 0]]], np.uint8)[None]
    known = [[151, 76, 0], [51, 51, 51], [255, 10, 0]]
    np.testing.assert_allclose(corrupt(colours, "brightness", 2)[0, 0], known, atol=1)
    steps = np.arange(16, dtype=np.uint8).reshape(1, 4, 4) * 10
    cells = [[25, 25, 45, 45], [25, 25, 45, 45], [105, 105, 125, 125], [105, 105, 125, 125]]
    np.testing.assert_array_equal(corrupt(steps, "pixelate", 3)[0], cells)


def test_blur_kernels() -> None:
    np.testing.assert_allclose([disc(r).sum() for r in (0.3, 2.5)], 1, rtol=1e-6)
    assert disc(0.3)[2, 2] == pytest.approx(1 / (1 + 4 * 0.3), rel=1e-6)  # four neighbours of 0.3
    across, down = line(5.0, np.array([0.0, np.pi / 2]))
    np.testing.assert_allclose(across[4], [0, 0, 0.2, 0.2, 0.2, 0.2, 0.2, 0, 0], atol=1e-6)
    np.testing.assert_allclose(down, across.T, atol=1e-6)
    dot = np.zeros((2, 15, 15, 1), np.float32)
    dot[:, 7, 7] = 1
    kernels = line(4.0, np.array([0.3, 1.2]))
    reach = kernels.shape[1] // 2
    seen = blur(dot, kernels)[:, 7 - reach : 8 + reach, 7 - reach : 8 + reach, 0]
    np.testing.assert_allclose(seen, kernels, atol=1e-6)
    np.testing.assert_allclose(blur(np.ones((1, 5, 6, 3), np.float32), disc(3.0)[None]), 1, rtol=1e-5)


def test_displacements_and_fields(rng) -> None:
    image = rng.random((1, 6, 7, 2), dtype=np.float32)
    shift = np.zeros((1, 2, 6, 7))
    np.testing.assert_array_equal(displace(image, shift), image)
    shift[:, 0] = 1
    np.testing.assert_array_equal(displace(image, shift)[:, :-1], image[:, 1:])
    np.testing.assert_array_equal(displace(image, shift)[:, -1], image[:, -1])
    shift[:, 0], shift[:, 1] = 0, 0.25
    between = 0.75 * image[:, :, :-1] + 0.25 * image[:, :, 1:]
    np.testing.assert_allclose(displace(image, shift)[:, :, :-1], between, rtol=1e-5)
    np.testing.assert_array_equal(zoom(image, 1.0), image)
    ramp = np.broadcast_to(np.arange(9.0)[:, None, None], (1, 9, 9, 1))
    np.testing.assert_allclose(zoom(ramp, 2.0)[0, :, 4, 0], 4 + (np.arange(9) - 4) / 2)
    np.testing.assert_allclose(smooth_field((40, 30), rng).std(axis=(1, 2)), 1, rtol=1e-5)
    fog = rough_field((31, 40), rng)
    assert fog.shape == (31, 40)
    assert fog.min() == 0
    assert fog.max() == 1


def test_accuracy_under_corruptions(photographs) -> None:
    """A classifier by mean brightness: noise without a mean leaves it alone, brightening does not."""
    mean = photographs.mean(axis=(1, 2, 3))
    labels = (mean > 128).astype(int)

    def predict(images: np.ndarray) -> np.ndarray:
        return (images.mean(axis=(1, 2, 3)) > 128).astype(int)

    found = measure_corruptions(predict, photographs, labels, corruptions=["pixelate", "brightness"], severities=[1, 5])
    assert found.clean == 1
    np.testing.assert_array_equal(found.accuracy[0], [1, 1])
    right = (corrupt(photographs, "brightness", 5).mean(axis=(1, 2, 3)) > 128) == labels
    assert found.accuracy[1, 1] == right.mean() < 0.9
    assert found.mean == pytest.approx(found.accuracy.mean())
    assert found.stderr[1, 1] == pytest.approx(np.sqrt(right.mean() * (1 - right.mean()) / 64))
    table = found.table().to_pylist()
    assert table[0] == {"corruption": "none", "severity": 0, "accuracy": 1.0}
    assert [row["severity"] for row in table] == [0, 1, 5, 1, 5]
    logits = lambda images: np.eye(2)[predict(images)]
    again = measure_corruptions(logits, photographs, labels, corruptions=["brightness"], severities=[5])
    assert again.accuracy[0, 0] == found.accuracy[1, 1]


def test_mistakes_are_answered(photographs) -> None:
    with pytest.raises(PareError, match=r"unknown corruption 'fogg'.*Did you mean 'fog'"):
        corrupt(photographs, "fogg", 1)
    with pytest.raises(PareError, match="severity must be a whole number from 1 to 5, got 0"):
        corrupt(photographs, "fog", 0)
    with pytest.raises(PareError, match="images must be uint8 from 0 to 255, got float64"):
        corrupt(photographs / 255, "fog", 1)
    with pytest.raises(PareError, match="1 or 3 channels"):
        corrupt(photographs[..., :2], "fog", 1)
    with pytest.raises(PareError, match="one class code for each of 64 images"):
        measure_corruptions(len, photographs, [0])
    with pytest.raises(PareError, match=r"predict returned shape \(3,\) for 64 images"):
        measure_corruptions(lambda images: np.zeros(3), photographs, np.zeros(64, int), corruptions=["jpeg"])
