"""The training loop: hand-computed steps, the same bits from the same seed, runs that are killed and go on."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from paredown.errors import PareError
from paredown.reproduce.trained_networks import without_head
from paredown.training import (
    Examples,
    Recipe,
    StreamedExamples,
    Trained,
    find_recipe,
    learning_rate,
    planned_steps,
    train,
)
from paredown.training.networks import build_network

pytestmark = pytest.mark.usefixtures("one_torch_thread")

LINEAR = find_recipe("linear", optimizer="sgd", schedule="constant", learning_rate=0.1, batch_size=64, epochs=3)
SMALL_CNN = find_recipe("tiny_cnn", network_options={"width": 4}, image_size=8, batch_size=32, epochs=3)


@pytest.fixture(scope="module")
def examples(digits) -> Examples:
    """600 digits as 64 features."""
    inputs, labels = digits
    return Examples(inputs[:600], labels[:600].astype(np.int64), tuple("0123456789"), np.arange(600))


@pytest.fixture(scope="module")
def images(examples) -> Examples:
    """The first 160 of them as 8 x 8 images."""
    pixels = (examples.inputs[:160].reshape(-1, 8, 8, 1) * 15).astype(np.uint8)
    return Examples(pixels, examples.labels[:160], examples.classes, examples.ids[:160])


def weights(trained: Trained) -> dict[str, np.ndarray]:
    return {name: value.numpy() for name, value in trained.network.state_dict().items()}


def assert_same_weights(one: Trained, other: Trained) -> None:
    ours, theirs = weights(one), weights(other)
    assert ours.keys() == theirs.keys()
    for name, value in ours.items():
        np.testing.assert_array_equal(value, theirs[name], err_msg=name)


class Notes:
    """A recorder that keeps everything."""

    def __init__(self) -> None:
        self.seen: list[tuple[np.ndarray, np.ndarray, np.ndarray, int]] = []

    def update(self, indices, logits, labels, epoch) -> None:
        self.seen.append((indices.copy(), logits.copy(), labels.copy(), epoch))

    def save(self, path: Path) -> None:
        parts = ((n, part, value) for n, seen in enumerate(self.seen) for part, value in enumerate(seen))
        with path.open("wb") as stream:
            np.savez(stream, **{f"{part}-{n}": np.asarray(value) for n, part, value in parts})

    def resume(self, path: Path) -> None:
        with np.load(path) as arrays:
            count = len(arrays.files) // 4
            self.seen = [tuple(arrays[f"{part}-{n}"] for part in range(4)) for n in range(count)]  # type: ignore[misc]


# --- known answers -------------------------------------------------------------------------------------------------


def test_one_step_of_the_linear_network_by_hand() -> None:
    # Three features of two examples; standardised they are +-1, and 0 where both are the same.
    inputs = np.array([[0, 5, 7], [2, 1, 7]], np.float32)
    data = Examples(inputs, np.array([0, 1]), ("a", "b"), np.arange(2))
    before = {k: v.numpy() for k, v in build_network(LINEAR, data, np.arange(2), seed=3).state_dict().items()}
    after = weights(train(LINEAR, data, seed=3, epochs=1))
    x = np.array([[-1, 1, 0], [1, -1, 0]])
    logits = x @ before["network.weight"].T + before["network.bias"]
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    error = (p - np.eye(2)) / 2
    np.testing.assert_allclose(after["network.weight"], before["network.weight"] - 0.1 * error.T @ x, atol=1e-6)
    np.testing.assert_allclose(after["network.bias"], before["network.bias"] - 0.1 * error.sum(axis=0), atol=1e-6)


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop"])
def test_first_step_of_every_optimizer(optimizer) -> None:
    data = Examples(np.array([[-1], [1]], np.float32), np.array([0, 1]), ("a", "b"), np.arange(2))
    recipe = LINEAR.but(optimizer=optimizer, weight_decay=0.5)
    before = build_network(recipe, data, np.arange(2), seed=0).state_dict()
    start = before["network.weight"].numpy()
    end = weights(train(recipe, data, epochs=1))["network.weight"]
    logits = np.array([[-1], [1]]) @ start.T + before["network.bias"].numpy()
    p = np.exp(logits) / np.exp(logits).sum(axis=1, keepdims=True)
    gradient = ((p - np.eye(2)) / 2).T @ np.array([[-1], [1]]) + 0.5 * start
    # Adam's first step is the sign of the gradient, RMSprop's ten times that (its mean square is a hundredth).
    step = {"sgd": gradient, "adam": np.sign(gradient), "rmsprop": 10 * np.sign(gradient)}[optimizer]
    np.testing.assert_allclose(end, start - 0.1 * step, atol=1e-5)


def test_learning_rates_of_the_papers_recipe_per_epoch() -> None:
    recipe = find_recipe("resnet18")
    at = lambda epoch: learning_rate(recipe, epoch * 391, 200 * 391)
    np.testing.assert_allclose([at(0), at(59), at(60), at(119), at(120), at(160), at(199)],
                               [0.1, 0.1, 0.02, 0.02, 0.004, 0.0008, 0.0008])  # fmt: skip
    # A subset trained for other steps goes through the same course.
    assert learning_rate(recipe, 59, 200) == 0.1
    assert learning_rate(recipe, 60, 200) == pytest.approx(0.02)


def test_cosine_and_warm_up() -> None:
    recipe = LINEAR.but(schedule="cosine", warmup=0.2, learning_rate=1.0)
    rates = [learning_rate(recipe, step, 10) for step in range(10)]
    assert rates[:3] == [0.5, 1.0, 1.0]
    assert rates[6] == pytest.approx(0.5)  # half-way between steps 2 and 10
    assert rates[9] == pytest.approx(0.5 * (1 + np.cos(np.pi * 7 / 8)))
    assert learning_rate(LINEAR, 7, 10) == 0.1


def test_matched_iterations_go_from_equal_epochs_to_equal_steps() -> None:
    recipe = LINEAR.but(batch_size=100, epochs=10)
    steps = [planned_steps(recipe, 500, whole=1000, matched_iterations=m) for m in (0, 0.4, 1)]
    assert steps == [50, 70, 100]
    with pytest.raises(PareError, match=r"matched_iterations must be in \[0, 1\], got 1.5"):
        planned_steps(recipe, 500, whole=1000, matched_iterations=1.5)


def test_it_learns(examples) -> None:
    sixth = np.arange(600) % 6 == 0
    train_part, test_part = examples.take(~sixth), examples.take(sixth)
    trained = train(find_recipe("mlp", batch_size=16), train_part, epochs=15, test=test_part)
    assert trained.history[-1].test_accuracy == trained.accuracy(test_part) > 0.9
    assert trained.accuracy(test_part, top=3) >= trained.accuracy(test_part)
    assert trained.accuracy(test_part, top=10) == 1.0
    assert [epoch.epoch for epoch in trained.history] == list(range(15))
    assert trained.history[-1].loss < trained.history[0].loss
    assert trained.logits(test_part).shape == (100, 10)
    assert trained.warnings == ()


@pytest.mark.parametrize("augment", ["none", "crop", "crop_flip", "imagenet"])
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_it_learns_images(images, augment, precision, monkeypatch) -> None:
    import torch

    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX512")
    recipe = SMALL_CNN.but(augment=augment, precision=precision, channels_last=precision == "bfloat16")
    trained = train(recipe, images, epochs=2)
    assert trained.recipe.precision == precision
    assert trained.history[1].loss < trained.history[0].loss
    assert trained.logits(images).dtype == np.float32


def test_bfloat16_only_where_it_is_fast(images, monkeypatch) -> None:
    import torch

    monkeypatch.setattr(torch.backends.cpu, "get_cpu_capability", lambda: "AVX2")
    trained = train(SMALL_CNN.but(precision="bfloat16"), images, epochs=1, device="cpu")
    assert trained.recipe.precision == "float32"


# --- batches in pieces ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize(("batch_size", "rows"), [(128, 600), (8, 23)])  # even pieces of 3, and uneven ones of 2 and 3
def test_a_batch_in_pieces_leads_to_the_same_weights(examples, momentum, batch_size, rows) -> None:
    # Not by Adam, whose first steps are the signs of gradients, however small.
    recipe = find_recipe("mlp", optimizer="sgd", momentum=momentum, learning_rate=0.02, batch_size=batch_size)
    whole, pieces = Notes(), Notes()
    one = train(recipe, examples, rows=np.arange(rows), epochs=2, recorder=whole)
    other = train(recipe.but(micro_batch=3), examples, rows=np.arange(rows), epochs=2, recorder=pieces)
    for name, value in weights(one).items():
        np.testing.assert_allclose(weights(other)[name], value, atol=2e-6, err_msg=name)
    assert [epoch.loss for epoch in other.history] == pytest.approx([epoch.loss for epoch in one.history], abs=1e-5)
    for at_once, in_pieces in zip(whole.seen, pieces.seen, strict=True):
        np.testing.assert_array_equal(in_pieces[0], at_once[0])  # every row once, and before the step
        np.testing.assert_allclose(in_pieces[1], at_once[1], atol=1e-4)


def test_pieces_are_even_and_of_at_most_so_many_examples(images, monkeypatch) -> None:
    from paredown.training import loop

    sizes, forward = [], loop._forward
    monkeypatch.setattr(loop, "_forward", lambda *given: sizes.append(len(given[2])) or forward(*given))
    train(SMALL_CNN.but(micro_batch=10), images, rows=np.arange(63), epochs=1)
    assert sizes == [8, 8, 8, 8, 8, 8, 8, 7]  # of batches of 32 and 31
    with pytest.raises(PareError, match="micro_batch of a recipe must be at least 1, got 0"):
        find_recipe("mlp", micro_batch=0)


# --- the recorder --------------------------------------------------------------------------------------------------


def test_every_example_is_recorded_once_an_epoch_under_its_own_row(examples) -> None:
    rows, notes = np.arange(5, 600, 3), Notes()
    train(LINEAR, examples, rows=rows, recorder=notes, epochs=2)
    for epoch in range(2):
        seen = [note for note in notes.seen if note[3] == epoch]
        indices = np.concatenate([note[0] for note in seen])
        np.testing.assert_array_equal(np.sort(indices), rows)
        np.testing.assert_array_equal(np.concatenate([note[2] for note in seen]), examples.labels[indices])
        assert {len(note[0]) for note in seen} == {49, 50}  # 199 rows in four even batches of at most 64
        assert all(note[1].dtype == np.float32 and note[1].shape == (len(note[0]), 10) for note in seen)
    assert notes.seen[0][0].tolist() != notes.seen[4][0].tolist()  # every epoch in a new order


def test_the_first_logits_recorded_are_those_of_the_first_weights(examples) -> None:
    import torch

    notes = Notes()
    train(LINEAR, examples, recorder=notes, epochs=1, seed=4)
    fresh = build_network(LINEAR, examples, np.arange(600), seed=4)
    rows, logits, _, _ = notes.seen[0]
    with torch.no_grad():
        np.testing.assert_allclose(logits, fresh(torch.from_numpy(examples.inputs[rows])).numpy(), atol=1e-5)


# --- seeds ---------------------------------------------------------------------------------------------------------


def test_same_seed_same_bits_and_the_global_state_is_left_alone(images) -> None:
    import torch

    recipe = SMALL_CNN.but(augment="crop_flip")
    torch.manual_seed(1)
    first = train(recipe, images)
    drawn = torch.rand(1)
    torch.manual_seed(2)
    second = train(recipe, images)
    assert_same_weights(first, second)
    torch.manual_seed(1)
    torch.testing.assert_close(drawn, torch.rand(1), rtol=0, atol=0)
    other = weights(train(recipe, images, seed=1))
    assert any(np.any(other[name] != value) for name, value in weights(first).items())


def test_dropout_is_decided_by_the_seed(images) -> None:
    import torch
    from torch import nn

    from paredown.training import NETWORKS

    NETWORKS["dropping"] = lambda shape, n: nn.Sequential(nn.Flatten(), nn.Dropout(), nn.Linear(64, n))
    try:
        recipe = SMALL_CNN.but(network="dropping", network_options={})
        torch.manual_seed(5)
        assert_same_weights(train(recipe, images), train(recipe, images))
    finally:
        del NETWORKS["dropping"]


# --- going on after a kill -----------------------------------------------------------------------------------------


class Killed(Exception):
    pass


def stop_after(steps: int):
    """A track that stops the run in the middle."""

    def track(items, label, total=None):
        for number, item in enumerate(items):
            if number == steps:
                raise Killed
            yield item

    return track


@pytest.mark.parametrize("optimizer", ["sgd", "adam", "rmsprop"])
def test_a_stopped_run_goes_on_to_the_same_bits(images, tmp_path, optimizer) -> None:
    recipe = SMALL_CNN.but(augment="crop_flip", optimizer=optimizer, momentum=0.9 * (optimizer != "adam"), warmup=0.1)
    whole, whole_notes = train(recipe, images, test=images, recorder=(notes := Notes())), notes
    with pytest.raises(Killed):
        train(recipe, images, test=images, checkpoint=tmp_path, recorder=Notes(), track=stop_after(8))
    notes = Notes()
    gone_on = train(recipe, images, test=images, checkpoint=tmp_path, recorder=notes)
    assert_same_weights(whole, gone_on)
    assert gone_on.history == whole.history
    assert len(notes.seen) == len(whole_notes.seen) == 15
    for ours, theirs in zip(notes.seen, whole_notes.seen, strict=True):
        np.testing.assert_array_equal(ours[1], theirs[1])
    # A finished run is only loaded.
    again = train(recipe, images, test=images, checkpoint=tmp_path, recorder=Notes(), track=stop_after(0))
    assert_same_weights(whole, again)


def test_a_run_killed_by_the_system_goes_on(tmp_path, examples) -> None:
    np.savez(tmp_path / "data.npz", x=examples.inputs, y=examples.labels)
    code = f"""
import os, signal, sys
import numpy as np, torch
torch.set_num_threads(1)
from paredown.training import Examples, find_recipe, train
data = np.load({str(tmp_path / "data.npz")!r})
examples = Examples(data["x"], data["y"], tuple("0123456789"), np.arange(600))
def track(items, label, total=None):
    for number, item in enumerate(items):
        if number == 13:
            os.kill(os.getpid(), signal.SIGKILL)
        yield item
train(find_recipe("mlp", epochs=4), examples, checkpoint={str(tmp_path / "run")!r}, track=track)
"""
    killed = subprocess.run([sys.executable, "-c", code], env=os.environ | {"OMP_NUM_THREADS": "1"}, check=False)
    assert killed.returncode == -signal.SIGKILL
    assert (tmp_path / "run" / "state.pt").exists()
    gone_on = train(find_recipe("mlp", epochs=4), examples, checkpoint=tmp_path / "run")
    assert [epoch.steps for epoch in gone_on.history] == [5, 5, 5, 5]
    assert_same_weights(gone_on, train(find_recipe("mlp", epochs=4), examples))


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"recipe": LINEAR.but(learning_rate=0.2)}, r"recipe learning_rate was 0\.1 and is now 0\.2"),
        ({"seed": 1}, "seed was 0 and is now 1"),
        ({"epochs": 5}, "steps was 30 and is now 50"),
        ({"rows": np.arange(599)}, "rows was .*600 rows .* and is now .*599 rows"),
    ],
)
def test_going_on_under_other_settings_is_refused(examples, tmp_path, change, named) -> None:
    train(LINEAR, examples, checkpoint=tmp_path)
    with pytest.raises(PareError, match=f"unfinished training made with other settings: {named}"):
        train(**({"recipe": LINEAR, "examples": examples, "checkpoint": tmp_path} | change))


def test_going_on_with_other_data_is_refused(examples, tmp_path) -> None:
    train(LINEAR, examples, checkpoint=tmp_path)
    relabelled = Examples(examples.inputs, np.roll(examples.labels, 1), examples.classes, examples.ids)
    with pytest.raises(PareError, match="other settings: data was "):
        train(LINEAR, relabelled, checkpoint=tmp_path)


def test_a_full_disk_leaves_the_old_state(examples, tmp_path, monkeypatch) -> None:
    import torch

    with pytest.raises(Killed):
        train(LINEAR, examples, checkpoint=tmp_path, track=stop_after(12))
    before = (tmp_path / "state.pt").read_bytes()

    def half_written(state, stream) -> None:
        stream.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(torch, "save", half_written)
        with pytest.raises(PareError, match=r"state.pt: the disk is full; nothing was changed"):
            train(LINEAR, examples, checkpoint=tmp_path)
    assert (tmp_path / "state.pt").read_bytes() == before
    assert sorted(file.name for file in tmp_path.iterdir()) == [".paredown", "settings.json", "state.pt"]
    assert_same_weights(train(LINEAR, examples, checkpoint=tmp_path), train(LINEAR, examples))


def test_a_damaged_state_counts_as_missing_and_runs_no_code(examples, tmp_path) -> None:
    import torch

    train(LINEAR, examples, checkpoint=tmp_path)
    (tmp_path / "state.pt").write_bytes(b"not a state")
    assert_same_weights(train(LINEAR, examples, checkpoint=tmp_path), train(LINEAR, examples))

    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "harm"),)

    torch.save({"network": Evil()}, tmp_path / "state.pt")
    assert_same_weights(train(LINEAR, examples, checkpoint=tmp_path), train(LINEAR, examples))
    assert not (tmp_path / "harm").exists()


def test_a_recorder_that_cannot_be_saved_is_not_for_checkpoints(examples, tmp_path) -> None:
    class Forgetful:
        def update(self, indices, logits, labels, epoch) -> None: ...

    with pytest.raises(PareError, match="Forgetful lacks them"):
        train(LINEAR, examples, checkpoint=tmp_path, recorder=Forgetful())


# --- lengths, and what cannot be trained ---------------------------------------------------------------------------


def test_steps_end_in_the_middle_of_an_epoch(examples) -> None:
    trained = train(LINEAR, examples, steps=13)
    assert [epoch.steps for epoch in trained.history] == [10, 3]


def test_progress_is_by_steps(examples) -> None:
    reports = []

    def track(items, label, total=None):
        items = list(items)
        reports.append((label, total, len(items)))
        yield from items
        reports.append("end")

    train(LINEAR, examples, epochs=2, track=track)
    assert reports == [("training linear", 20, 20), "end"]


def test_fewer_examples_than_a_batch(examples) -> None:
    assert train(LINEAR, examples, rows=[1, 2, 3], epochs=2).history[0].steps == 1
    assert train(SMALL_CNN.but(network="linear", network_options={}, inputs="features"), examples, rows=[7]).history


def test_a_class_without_examples_is_a_warning(examples) -> None:
    trained = train(LINEAR, examples, rows=np.flatnonzero(examples.labels != 3))
    assert trained.warnings == ("1 of 10 classes have no example in the subset and cannot be learnt: 3.",)
    assert trained.logits(examples).shape == (600, 10)


def test_a_loss_that_is_not_a_number_stops_the_run(examples) -> None:
    with pytest.raises(PareError, match=r"the loss became (nan|inf) in epoch \d+, step \d+ of 30; lower the learning"):
        train(LINEAR.but(learning_rate=1e38), examples)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"rows": []}, "the subset has no examples"),
        ({"rows": [0, 600]}, r"rows must be in 0 \.\.\. 599, got 600"),
        ({"rows": [0.5]}, "rows must be a list of row numbers"),
        ({"epochs": 0}, "epochs must be at least 1, got 0"),
        ({"epochs": 1, "steps": 5}, "give epochs or steps, not both"),
        ({"recipe": "lineer"}, "unknown recipe 'lineer'.*Did you mean 'linear'"),
        ({"recipe": "tiny_cnn"}, "recipe 'tiny_cnn' trains on images, and the examples are features"),
        ({"recipe": LINEAR.but(network="nope")}, "unknown network 'nope'"),
        ({"recipe": LINEAR.but(network_options={"depth": 3})}, "network 'linear' does not take the options"),
    ],
)
def test_what_cannot_be_trained(examples, change, message) -> None:
    with pytest.raises(PareError, match=message):
        train(**({"recipe": LINEAR, "examples": examples} | change))


def test_labels_out_of_range_and_other_test_classes(examples) -> None:
    bad = Examples(examples.inputs, examples.labels + 1, examples.classes, examples.ids)
    with pytest.raises(PareError, match=r"labels must be in 0 \.\.\. 9 for 10 classes, got 10 at"):
        train(LINEAR, bad)
    with pytest.raises(PareError, match="class codes, whole numbers; got float64"):
        train(LINEAR, Examples(examples.inputs, examples.labels / 2, examples.classes, examples.ids))
    short = Examples(examples.inputs, examples.labels.astype(np.int16), examples.classes, examples.ids)
    assert_same_weights(train(LINEAR, short, epochs=1), train(LINEAR, examples, epochs=1))
    other = Examples(examples.inputs, examples.labels, tuple("abcdefghij"), examples.ids)
    with pytest.raises(PareError, match="the test set has other classes"):
        train(LINEAR, examples, test=other)


def test_streamed_examples_train_to_the_same_bits(image_folder) -> None:
    from paredown.sources import open_source
    from paredown.training import load_examples

    recipe: Recipe = SMALL_CNN.but(augment="crop_flip")
    source = open_source(image_folder)
    streamed = load_examples(source, recipe, memory=1, workers=2)
    assert isinstance(streamed, StreamedExamples)
    held = load_examples(source, recipe)
    assert isinstance(held, Examples)
    held = Examples(np.repeat(held.inputs, 3, axis=3), held.labels, held.classes, held.ids)  # streamed ones are RGB
    assert_same_weights(train(recipe, streamed, rows=np.arange(50)), train(recipe, held, rows=np.arange(50)))


def test_weights_are_taken_up_again(images, tmp_path) -> None:
    first = train(SMALL_CNN, images)
    first.save_weights(tmp_path / "weights.pt")
    recipe = SMALL_CNN.but(pretrained=str(tmp_path / "weights.pt"))
    start = build_network(recipe, images, np.arange(160), seed=9)
    for name, value in start.state_dict().items():
        np.testing.assert_array_equal(value.numpy(), weights(first)[name])
    two = Examples(images.inputs, images.labels % 2, ("even", "odd"), images.ids)
    other = build_network(recipe, two, np.arange(160), seed=9).state_dict()
    assert other["network.13.weight"].shape[0] == 2  # a new last layer
    np.testing.assert_array_equal(other["network.0.weight"], weights(first)["network.0.weight"])
    with pytest.raises(PareError, match="do not fit the model"):
        build_network(recipe.but(network_options={"width": 8}), images, np.arange(160), seed=0)
    with pytest.raises(PareError, match="there is no such file"):
        build_network(recipe.but(pretrained="nowhere.pt"), images, np.arange(160), seed=0)


def test_weights_without_a_last_layer_leave_it_fresh(images, tmp_path) -> None:
    trained = train(SMALL_CNN, images, steps=2)
    trained.save_weights(tmp_path / "weights.pt")
    body = without_head(tmp_path / "weights.pt")
    before = build_network(SMALL_CNN, images, np.arange(160), seed=5).state_dict()
    after = build_network(SMALL_CNN.but(pretrained=str(body)), images, np.arange(160), seed=5).state_dict()
    head = [key for key in after if after[key].shape[:1] == (len(images.classes),)]
    assert head
    for key, value in after.items():
        expected = before[key] if key in head else trained.network.state_dict()[key]
        np.testing.assert_array_equal(value.numpy(), expected.numpy(), err_msg=key)


def test_without_torch(examples, monkeypatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(PareError, match=r"training needs torch: pip install 'paredown\[train\]'"):
        train(LINEAR, examples)


def test_the_papers_settings() -> None:
    """Appendix on experimental details: CIFAR-10 and SVHN, ImageNet, and transfer learning."""
    names = ("epochs", "batch_size", "optimizer", "learning_rate", "momentum", "weight_decay", "milestones", "decay")
    settings = {
        name: tuple(getattr(find_recipe(name), setting) for setting in names)
        for name in ("resnet18", "resnet50", "vit", "resnet50_finetune")
    }
    assert settings["resnet18"] == (200, 128, "sgd", 0.1, 0.9, 5e-4, (60, 120, 160), 5)
    assert settings["resnet50"] == (105, 8 * 256, "sgd", 0.1 * 8, 0.9, 1e-3, (30, 60, 90, 100), 10)
    assert find_recipe("resnet50").micro_batch == 256
    assert settings["vit"][:6] == (10, 128, "adam", 1e-5, 0, 0)
    assert settings["resnet50_finetune"][:6] == (10, 128, "rmsprop", 1e-4, 0, 0)
    assert [find_recipe(name).probe_epochs for name in ("resnet18", "resnet18_svhn", "vit")] == [20, 40, 2]
