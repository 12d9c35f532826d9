"""Examples in memory and streamed: the same inputs, labels and order, and what is seen of an image."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from paredown.embeddings.encoders.base import encoder_of
from paredown.errors import PareError
from paredown.scores import Labels
from paredown.sources import ArraySource, open_source
from paredown.training import Examples, StreamedExamples, find_recipe, load_examples
from paredown.training.views import middle, random_view, square

MLP = find_recipe("mlp")
CNN = find_recipe("tiny_cnn", image_size=8)


def held(source, recipe, **options) -> Examples:
    examples = load_examples(source, recipe, **options)
    assert isinstance(examples, Examples)
    return examples


# --- features ------------------------------------------------------------------------------------------------------


def test_features_are_used_as_stored(rng) -> None:
    vectors = rng.standard_normal((20, 3)).astype(np.float16) * 10
    vectors[4] = 0  # no direction, but a fine feature vector
    examples = held(ArraySource(vectors, labels=["b", "a"] * 10), MLP)
    assert examples.inputs.dtype == np.float32
    np.testing.assert_array_equal(examples.inputs, vectors.astype(np.float32))
    assert examples.classes == ("a", "b")
    assert examples.labels.tolist() == [1, 0] * 10
    assert examples.shape == (3,)
    some = examples.take([5, 2])
    assert some.ids.tolist() == [5, 2]
    np.testing.assert_array_equal(some.inputs, examples.inputs[[5, 2]])


def test_rows_that_cannot_be_trained_on_are_named(rng) -> None:
    vectors = rng.standard_normal((20, 3))
    vectors[7, 1] = np.nan
    source = ArraySource(vectors, ids=[f"x{row}" for row in range(20)], labels=np.zeros(20, int))
    with pytest.raises(PareError, match=r"row 7 \(id x7\) of the features hold NaN"):
        load_examples(source, MLP)


def test_cluster_ids_in_place_of_labels(rng) -> None:
    source = ArraySource(rng.standard_normal((4, 3)))
    with pytest.raises(PareError, match="training needs labels, and there are none"):
        load_examples(source, MLP)
    clusters = np.array([9, 2, 2, 30])
    examples = held(source, MLP, labels_from=clusters)
    assert examples.classes == ("2", "9", "30")
    assert examples.labels.tolist() == [1, 0, 0, 2]
    with pytest.raises(PareError, match="3 labels for 4 examples"):
        load_examples(source, MLP, labels_from=clusters[:3])


def test_a_test_set_numbers_classes_as_its_training_set(rng) -> None:
    first = load_examples(ArraySource(np.eye(3), labels=["cat", "dog", "emu"]), MLP)
    second = load_examples(ArraySource(np.eye(3), labels=["emu", "emu", "cat"]), MLP, like=first)
    assert second.classes == first.classes
    assert second.labels.tolist() == [2, 2, 0]
    with pytest.raises(PareError, match="unknown class of array 'cow'; available: cat, dog, emu"):
        load_examples(ArraySource(np.eye(3), labels=["cow", "dog", "dog"]), MLP, like=first)


def test_images_become_features_by_an_encoder_that_the_test_set_shares(image_folder) -> None:
    source = open_source(image_folder)
    fitted = held(source, MLP, encoder="pixels")
    again = held(source, MLP, like=fitted)
    np.testing.assert_array_equal(again.inputs, fitted.inputs)
    assert again.encoder is fitted.encoder is not None
    mean = encoder_of(lambda images: np.array([[np.asarray(image).mean()] for image in images]))
    assert held(source, MLP, encoder=mean).inputs.shape == (60, 1)


def test_vectors_are_not_images() -> None:
    with pytest.raises(PareError, match=r"recipe 'tiny_cnn' trains on images, and these are vectors \(array\)"):
        load_examples(ArraySource(np.eye(3), labels=[0, 1, 0]), CNN)


def test_lengths_must_agree() -> None:
    with pytest.raises(PareError, match="3 inputs, 2 labels and 3 ids"):
        Examples(np.eye(3), np.array([0, 1]), ("a", "b"), np.arange(3))


# --- images --------------------------------------------------------------------------------------------------------


def test_grey_images_keep_one_channel_and_their_pixels(image_folder, digits) -> None:
    source = open_source(image_folder)
    examples = held(source, CNN)
    assert examples.inputs.shape == (60, 8, 8, 1)
    row = int(Path(str(source.ids[0])).stem)
    np.testing.assert_array_equal(examples.inputs[0, ..., 0], (digits[0][row].reshape(8, 8) * 15).astype(np.uint8))
    assert examples.classes[examples.labels[0]] == str(source.ids[0]).split("/")[0]


def test_one_colour_image_makes_all_rgb(image_folder) -> None:
    Image.new("RGB", (20, 10), (1, 2, 3)).save(image_folder / "digit-0" / "colour.png")
    examples = held(open_source(image_folder), CNN)
    assert examples.inputs.shape == (61, 8, 8, 3)
    row = examples.ids.tolist().index("digit-0/colour.png")
    assert (examples.inputs[row] == [1, 2, 3]).all()


@pytest.mark.parametrize("memory", ["1GiB", 1])
def test_unreadable_images_raise_or_are_left_out(image_folder, memory) -> None:
    (image_folder / "digit-0" / "broken.png").write_bytes(b"no image")
    source = open_source(image_folder)
    with pytest.raises(PareError, match=r"broken\.png not an image"):
        everything = load_examples(source, CNN, memory=memory)
        list(everything.batches([np.arange(61)]))
    examples = load_examples(source, CNN, memory=memory, on_error="skip")
    assert len(examples) == len(examples.ids) == 60
    assert "digit-0/broken.png" not in examples.ids.tolist()
    kept = np.array([name != "digit-0/broken.png" for name in source.ids.tolist()])
    assert source.labels is not None
    np.testing.assert_array_equal(examples.labels, source.labels.codes[kept])
    assert sum(len(batch) for batch in examples.batches(np.array_split(np.arange(60), 7))) == 60


@pytest.mark.parametrize("augment", ["none", "imagenet"])
def test_streamed_batches_are_those_in_memory(image_folder, augment) -> None:
    recipe = CNN.but(augment=augment, image_size=7)
    source = open_source(image_folder)
    streamed = load_examples(source, recipe, memory=1, workers=3)
    assert isinstance(streamed, StreamedExamples)
    in_memory = held(source, recipe)
    assert streamed.shape == (7, 7, 3)
    order = np.random.default_rng(1).permutation(60)
    batches = np.array_split(order, 9)
    for ours, theirs in zip(streamed.batches(batches, size=7), in_memory.batches(batches, size=7), strict=True):
        np.testing.assert_array_equal(ours, np.repeat(theirs, 3, axis=3))
    crops = [np.random.default_rng(2).random((len(batch), 4)) for batch in batches]
    if augment == "imagenet":  # kept at 8 pixels, which is what these images have, so that crops are the same
        for ours, theirs in zip(
            streamed.batches(batches, size=7, crops=crops), in_memory.batches(batches, size=7, crops=crops), strict=True
        ):
            np.testing.assert_array_equal(ours, np.repeat(theirs, 3, axis=3))
    some = streamed.take([5, 3])
    assert some.ids.tolist() == source.ids[[5, 3]].tolist()
    np.testing.assert_array_equal(next(some.batches([np.array([1])])), next(streamed.batches([np.array([3])])))


def test_fingerprints_tell_inputs_labels_and_rows_apart(image_folder) -> None:
    source = open_source(image_folder)
    examples, streamed = held(source, CNN), load_examples(source, CNN, memory=1)
    other = Examples(examples.inputs + np.uint8(1), examples.labels, examples.classes, examples.ids)
    relabelled = load_examples(source, CNN, labels_from=np.arange(60) % 2)
    prints = [examples, other, relabelled, examples.take([1, 2]), streamed, streamed.take(np.arange(59))]
    assert len({item.fingerprint() for item in prints}) == len(prints)
    assert held(source, CNN).fingerprint() == examples.fingerprint()


def test_the_middle_of_an_image() -> None:
    columns = np.tile(np.arange(8, dtype=np.uint8), (4, 1))  # 8 wide, 4 high
    np.testing.assert_array_equal(np.asarray(square(Image.fromarray(columns), 4, 4)), columns[:, 2:6])
    np.testing.assert_array_equal(np.asarray(square(Image.fromarray(columns), 4, 2)), columns[1:3, 3:5])
    np.testing.assert_array_equal(middle(columns[None, ..., None], 4)[0, ..., 0], columns[:, 2:6])


def test_random_views_by_hand() -> None:
    pixels = np.arange(64, dtype=np.uint8).reshape(8, 8)
    image = Image.fromarray(pixels)
    np.testing.assert_array_equal(random_view(image, 8, np.array([1, 0.5, 0, 0])), pixels)  # all of it
    quarter = (0.25 - 0.08) / 0.92  # a quarter of the area, square: 4 x 4
    np.testing.assert_array_equal(random_view(image, 4, np.array([quarter, 0.5, 0, 0])), pixels[:4, :4])
    np.testing.assert_array_equal(random_view(image, 4, np.array([quarter, 0.5, 1, 0.5])), pixels[2:6, 4:])


@given(st.lists(st.floats(0, 1, exclude_max=True), min_size=4, max_size=4), st.integers(5, 40), st.integers(5, 40))
def test_random_views_stay_inside(crop, width, height) -> None:
    view = random_view(Image.new("L", (width, height), 200), 6, np.array(crop))
    assert view.shape == (6, 6)
    assert (view == 200).all()


def test_shifts_and_mirrors() -> None:
    import torch

    from paredown.training.augmentation import crop_and_flip, flip

    images = torch.arange(1, 37, dtype=torch.uint8).reshape(1, 6, 6, 1).repeat(200, 1, 1, 2)
    generator = torch.Generator().manual_seed(0)
    padded = np.pad(images[0, ..., 0].numpy(), 4)
    every = {padded[y : y + 6, x : x + 6].tobytes() for y in range(9) for x in range(9)}
    mirrored = {
        np.ascontiguousarray(padded[y : y + 6, x : x + 6][:, ::-1]).tobytes() for y in range(9) for x in range(9)
    }
    for name, allowed in (("crop", every), ("crop_flip", every | mirrored)):
        views = crop_and_flip(images, generator, mirrored=name == "crop_flip").numpy()
        assert views.shape == (200, 6, 6, 2)
        assert {view[..., 0].tobytes() for view in views} <= allowed
        assert len({view[..., 0].tobytes() for view in views}) > 40
        np.testing.assert_array_equal(views[..., 0], views[..., 1])
    flipped = flip(images, generator).numpy()
    as_was = (flipped == images.numpy()).all(axis=(1, 2, 3))
    np.testing.assert_array_equal(flipped[~as_was][..., ::-1, :], images.numpy()[~as_was])
    assert 60 < as_was.sum() < 140


def test_labels_given_as_labels(rng) -> None:
    labels = Labels.of(["x", "y", "x"])
    assert held(ArraySource(np.eye(3)), MLP, labels_from=labels).labels.tolist() == [0, 1, 0]
