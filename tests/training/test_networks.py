"""Networks by name: sizes known from the literature, standardising without a leak, any image that they can take."""

from __future__ import annotations

import numpy as np
import pytest

from paredown.errors import PareError
from paredown.training import NETWORKS, RECIPES, Examples, find_recipe, train
from paredown.training.networks import build_network, input_statistics

pytestmark = pytest.mark.usefixtures("one_torch_thread")


def images(rng, n: int, side: int, channels: int) -> Examples:
    pixels = rng.integers(0, 256, (n, side, side, channels), dtype=np.uint8)
    return Examples(pixels, np.arange(n) % 10, tuple("0123456789"), np.arange(n))


def parameters(network) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def test_standardising_sees_the_training_rows_alone() -> None:
    inputs = np.array([[1, 4, 3], [3, 8, 3], [1e6, -1e6, 9]], np.float32)
    data = Examples(inputs, np.array([0, 1, 0]), ("a", "b"), np.arange(3))
    mean, deviation = input_statistics(data, np.array([0, 1]))
    assert mean.tolist() == [2, 6, 3]
    assert deviation.tolist() == [1, 2, 1]  # the last is constant
    trained = train("linear", data, rows=[0, 1], epochs=1)
    state = trained.network.state_dict()
    assert state["standardise.mean"].tolist() == [2, 6, 3]
    changed = Examples(np.vstack([inputs[:2], [[0, 0, 0]]]).astype(np.float32), data.labels, data.classes, data.ids)
    other = train("linear", changed, rows=[0, 1], epochs=1)
    np.testing.assert_array_equal(state["network.weight"], other.network.state_dict()["network.weight"])


def test_images_are_standardised_by_channel(rng) -> None:
    data = images(rng, 50, 8, 3)
    mean, deviation = input_statistics(data, np.arange(40), size=8)
    np.testing.assert_allclose(mean, data.inputs[:40].mean(axis=(0, 1, 2)), rtol=1e-5)
    np.testing.assert_allclose(deviation, data.inputs[:40].std(axis=(0, 1, 2)), rtol=1e-5)


@pytest.mark.parametrize(
    ("name", "options", "expected"),
    [
        ("resnet18", {}, 11_173_962),  # ten classes, 3 x 3 stem, without a bias before batch norm
        ("slim_resnet", {"blocks": 3}, 272_474),  # ResNet-20 with projections
        ("slim_resnet", {"blocks": 1}, 78_042),  # stem 464, stages 4672, 14528 and 57728, last layer 650
        ("tiny_cnn", {"width": 16}, 33_946),  # 432 + 4608 + 18432 of convolutions, 224 of batch norm, 1024 * 10 + 10
    ],
)
def test_numbers_of_parameters(rng, name, options, expected) -> None:
    recipe = find_recipe("slim_resnet", network=name, network_options=options)
    network = build_network(recipe, images(rng, 4, 32, 3), np.arange(4), seed=0)
    assert parameters(network) == expected


def test_mlp_layers_and_the_linear_network(rng) -> None:
    data = Examples(rng.standard_normal((9, 7)).astype(np.float32), np.arange(9) % 3, tuple("abc"), np.arange(9))
    mlp = build_network(find_recipe("mlp", network_options={"hidden": (5, 4)}), data, np.arange(9), seed=0)
    assert parameters(mlp) == 7 * 5 + 5 + 5 * 4 + 4 + 4 * 3 + 3
    assert parameters(build_network(find_recipe("linear"), data, np.arange(9), seed=0)) == 7 * 3 + 3


@pytest.mark.parametrize("name", ["tiny_cnn", "slim_resnet", "resnet18", "resnet50"])
@pytest.mark.parametrize(("side", "channels"), [(32, 1), (33, 3)])
def test_grey_or_rgb_of_any_size(rng, name, side, channels) -> None:
    import torch

    recipe = find_recipe("slim_resnet", network=name, network_options={}, image_size=side)
    network = build_network(recipe, images(rng, 4, side, channels), np.arange(4), seed=0).eval()
    with torch.no_grad():
        logits = network(torch.zeros(2, channels, side, side, dtype=torch.uint8))
    assert logits.shape == (2, 10)
    assert torch.isfinite(logits).all()


def test_too_small_images(rng) -> None:
    with pytest.raises(PareError, match="'tiny_cnn' takes images of at least 8 x 8 pixels"):
        build_network(find_recipe("tiny_cnn", image_size=7), images(rng, 4, 7, 1), np.arange(4), seed=0)
    with pytest.raises(PareError, match=r"takes images of 28 x 28 pixels, and the examples are 20 x 20"):
        build_network(find_recipe("tiny_cnn"), images(rng, 4, 20, 1), np.arange(4), seed=0)


def test_every_recipe_has_a_network() -> None:
    for recipe in RECIPES.values():
        assert recipe.network in NETWORKS or recipe.network.startswith("timm:"), recipe.name
        assert (recipe.image_size is not None) == (recipe.inputs == "images")


def test_timm_networks_are_found_or_not(rng, monkeypatch) -> None:
    data = images(rng, 4, 32, 3)
    recipe = find_recipe("vit", network="timm:test_vit.r160_in1k", image_size=160, pretrained=None)
    larger = images(rng, 4, 160, 3)
    assert train(recipe, larger, epochs=1).logits(larger).shape == (4, 10)
    with pytest.raises(PareError, match="unknown timm model 'vit_enormous'"):
        build_network(recipe.but(network="timm:vit_enormous", image_size=32), data, np.arange(4), seed=0)

    import timm

    def unreachable(*arguments, **options):
        raise OSError("We couldn't connect to huggingface.co\nand more")

    monkeypatch.setattr(timm, "create_model", unreachable)
    with pytest.raises(
        PareError, match=r"network 'timm:.*could not be loaded \(We couldn't connect.*Offline: fetch timm/"
    ):
        build_network(find_recipe("vit", image_size=32), data, np.arange(4), seed=0)


def test_pretrained_timm_networks_bring_their_own_mean(rng, monkeypatch) -> None:
    from paredown.embeddings.encoders.torchvision_on_cpu import import_torchvision

    import_torchvision()
    import timm

    plain = timm.create_model
    monkeypatch.setattr(timm, "create_model", lambda name, pretrained, **options: plain(name, **options))
    recipe = find_recipe("vit", network="timm:test_vit.r160_in1k", image_size=160)
    for channels in (1, 3):
        state = build_network(recipe, images(rng, 4, 160, channels), np.arange(4), seed=0).state_dict()
        config = timm.get_pretrained_cfg("test_vit.r160_in1k")
        expected = 255 * np.array(config.mean) if channels == 3 else [255 * np.mean(config.mean)]
        np.testing.assert_allclose(state["standardise.mean"].ravel(), expected, rtol=1e-5)
