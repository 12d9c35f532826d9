"""An ensemble in one batched product is what its members are alone."""

from __future__ import annotations

import numpy as np
import pytest

from paredown.errors import PareError
from paredown.recorder import Recorder
from paredown.training import Examples, find_recipe, train
from paredown.training import ensembles as module
from paredown.training.ensembles import train_ensemble, trains_stacked

pytestmark = pytest.mark.usefixtures("one_torch_thread")

# float32 logits of size 10 after some dozen steps, in other orders of summation
TOLERANCE = 1e-4

RECIPES = {
    "mlp": find_recipe("mlp", batch_size=32, epochs=3),
    "linear": find_recipe("linear", batch_size=32, epochs=3),
    "sgd": find_recipe(
        "mlp",
        network_options={"hidden": (16,)},
        optimizer="sgd",
        learning_rate=0.1,
        momentum=0.9,
        nesterov=True,
        weight_decay=1e-3,
        schedule="steps",
        milestones=(1, 2),
        decay=5.0,
        batch_size=50,
        epochs=3,
    ),
    "rmsprop": find_recipe("mlp", network_options={"hidden": (8, 8, 8)}, optimizer="rmsprop", warmup=0.3, epochs=3),
}


@pytest.fixture(scope="module")
def examples(digits) -> Examples:
    vectors, labels = digits
    classes = tuple(map(str, range(10)))
    return Examples(vectors[:200], labels[:200].astype(np.int64), classes, np.arange(200))


@pytest.mark.parametrize("name", RECIPES)
def test_a_member_is_the_network_trained_alone(name: str, examples) -> None:
    recipe = RECIPES[name]
    assert trains_stacked(recipe)
    ensemble = train_ensemble(recipe, examples, seeds=[3, 1, 4])
    for member, seed in enumerate([3, 1, 4]):
        alone = train(recipe, examples, seed=seed).logits(examples)
        np.testing.assert_allclose(ensemble.logits(examples)[member], alone, atol=TOLERANCE)
        one = train_ensemble(recipe, examples, seeds=[seed]).logits(examples)[0]
        np.testing.assert_allclose(ensemble.logits(examples)[member], one, atol=TOLERANCE)


def test_a_member_sees_only_its_own_rows(examples, rng) -> None:
    """Also for the mean and deviation of the inputs."""
    masks = np.zeros((3, 200), bool)
    for mask in masks:
        mask[rng.choice(200, 120, replace=False)] = True
    ensemble = train_ensemble(RECIPES["mlp"], examples, seeds=[0, 1, 2], masks=masks)
    for member in range(3):
        alone = train(RECIPES["mlp"], examples, rows=masks[member], seed=member).logits(examples)
        np.testing.assert_allclose(ensemble.logits(examples)[member], alone, atol=TOLERANCE)
        poisoned = examples.inputs.copy()
        poisoned[~masks[member]] = 1e3
        other = Examples(poisoned, examples.labels, examples.classes, examples.ids)
        again = train_ensemble(RECIPES["mlp"], other, seeds=[0, 1, 2], masks=masks)
        inside = np.flatnonzero(masks[member])
        np.testing.assert_array_equal(
            again.logits(examples.take(inside))[member], ensemble.logits(examples.take(inside))[member]
        )


def test_members_with_fewer_rows_take_as_many_steps(examples) -> None:
    masks = np.zeros((2, 200), bool)
    masks[0, :150], masks[1, 50:100] = True, True
    recorders = [Recorder(200, 10, repeats="count") for _ in range(2)]
    both = train_ensemble(RECIPES["mlp"], examples, seeds=[7, 8], masks=masks, recorders=recorders)
    small = recorders[1].coverage()
    assert small.observations == (0, 9)  # 150 draws of 50 rows, three times
    assert recorders[0].coverage().observations == (0, 3)
    alone = train_ensemble(RECIPES["mlp"], examples, seeds=[8], masks=masks[1:], draws=150)
    np.testing.assert_allclose(both.logits(examples)[1], alone.logits(examples)[0], atol=TOLERANCE)


def test_portions_change_nothing(examples, monkeypatch) -> None:
    """Members, recorders and rows are cut into portions alike."""
    masks = np.random.default_rng(0).random((5, 200)) < 0.7
    recorders = [[Recorder(200, 10) for _ in range(5)] for _ in range(2)]
    whole = train_ensemble(RECIPES["linear"], examples, seeds=range(5), masks=masks, recorders=recorders[0])
    monkeypatch.setattr(module, "MEMBERS_AT_ONCE", 2)
    monkeypatch.setattr(module, "_BLOCK_BYTES", 4 * 5 * 64 * 33)  # 33 rows at once
    parts = train_ensemble(RECIPES["linear"], examples, seeds=range(5), masks=masks, recorders=recorders[1])
    np.testing.assert_allclose(parts.logits(examples), whole.logits(examples), atol=TOLERANCE)
    assert len(list(parts.blocks(examples))) == 7
    for one, other in zip(*recorders, strict=True):
        a, b = (recorder.scores("aum", unseen="easiest").values for recorder in (one, other))
        np.testing.assert_allclose(a, b, atol=TOLERANCE)


def test_recorders_see_what_those_of_single_trainings_see(examples) -> None:
    recipe = RECIPES["mlp"]
    together = [Recorder(200, 10) for _ in range(2)]
    train_ensemble(recipe, examples, seeds=[5, 6], recorders=together)
    for seed, recorder in zip([5, 6], together, strict=True):
        alone = Recorder(200, 10)
        train(recipe, examples, seed=seed, recorder=alone)
        for metric in ("el2n", "aum", "forgetting"):
            np.testing.assert_allclose(recorder.scores(metric).values, alone.scores(metric).values, atol=TOLERANCE)


def test_features_of_the_last_layer_are_shown(examples) -> None:
    """For a linear network they are the standardised inputs, so the gradient's length is known."""
    recorder = Recorder(200, 10)
    recipe = RECIPES["linear"]
    train_ensemble(recipe, examples, seeds=[0], recorders=[recorder], with_features=True)
    deviation = examples.inputs.std(axis=0)
    standard = (examples.inputs - examples.inputs.mean(axis=0)) / np.where(deviation > 0, deviation, 1)
    expected = recorder.scores("el2n").values * np.sqrt((standard**2).sum(axis=1) + 1)
    np.testing.assert_allclose(recorder.scores("grand").values, expected, rtol=1e-4)


def test_same_seed_same_bytes(examples) -> None:
    one, other = (train_ensemble(RECIPES["mlp"], examples, seeds=[1, 2]).logits(examples) for _ in range(2))
    assert one.tobytes() == other.tobytes()
    assert (one[0] != one[1]).any()


def test_correct_is_the_largest_logit(examples) -> None:
    ensemble = train_ensemble(RECIPES["mlp"], examples, seeds=[0, 1], epochs=10)
    np.testing.assert_array_equal(ensemble.correct(examples), ensemble.logits(examples).argmax(2) == examples.labels)
    assert ensemble.correct(examples).mean() > 0.9


def test_other_networks_are_trained_in_turn(digits) -> None:
    images = np.repeat(np.repeat(digits[0][:60].reshape(-1, 8, 8, 1), 2, 1), 2, 2).astype(np.uint8) * 15
    examples = Examples(images, digits[1][:60].astype(np.int64), tuple(map(str, range(10))), np.arange(60))
    recipe = find_recipe("tiny_cnn", network_options={"width": 4}, image_size=16, epochs=1, batch_size=20)
    assert not trains_stacked(recipe)
    masks = np.random.default_rng(0).random((2, 60)) < 0.7
    ensemble = train_ensemble(recipe, examples, seeds=[1, 2], masks=masks)
    assert ensemble.members == 2
    alone = train(recipe, examples, rows=masks[1], seed=2).logits(examples)
    np.testing.assert_array_equal(ensemble.logits(examples)[1], alone)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": []}, r"an ensemble needs at least one seed"),
        ({"seeds": [1], "masks": np.ones((2, 200), bool)}, r"masks must be .* = \(1, 200\), got \(2, 200\)"),
        ({"seeds": [1, 2], "masks": np.eye(2, 200) * [[1], [0]]}, r"member 1 of the ensemble has no rows"),
        ({"seeds": [1, 2], "recorders": [Recorder(200, 10)]}, r"there are 1 recorders for 2 members"),
    ],
)
def test_bad_ensembles_are_named(options, message, examples) -> None:
    with pytest.raises(PareError, match=message):
        train_ensemble(RECIPES["mlp"], examples, **options)


def test_a_diverged_member_is_an_error(examples) -> None:
    wild = RECIPES["sgd"].but(learning_rate=1e12)
    with pytest.raises(PareError, match=r"the loss of a member became infinite in epoch 1; lower the learning rate"):
        train_ensemble(wild, examples, seeds=[0])
