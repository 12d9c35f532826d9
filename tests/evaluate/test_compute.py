"""Compute against values counted by hand, and linear probes against scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from paredown import PareError
from paredown.evaluate import count_flops, count_training_flops, linear_probe, measure_saving, time_call


@pytest.fixture
def torch(one_torch_thread):
    return pytest.importorskip("torch")


def test_flops_by_hand(torch) -> None:
    linear = torch.nn.Linear(128, 10)
    assert count_flops(linear, np.zeros((4, 128), np.float32)) == 2 * 128 * 10
    mlp = torch.nn.Sequential(torch.nn.Linear(128, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10))
    assert count_flops(mlp, torch.zeros(1, 128)) == 2 * (128 * 64 + 64 * 10)
    images = torch.zeros(2, 3, 32, 32)
    assert count_flops(torch.nn.Conv2d(3, 8, 3, padding=1), images) == 2 * (3 * 9 * 8) * 32 * 32
    assert count_flops(torch.nn.Conv2d(3, 8, 3, stride=2, padding=1), images) == 2 * (3 * 9 * 8) * 16 * 16
    assert count_flops(torch.nn.Conv2d(4, 8, 1, groups=2), torch.zeros(1, 4, 5, 5)) == 2 * (2 * 8) * 25
    weights = torch.ones(128, 3)
    assert count_flops(lambda x: x @ weights, np.ones((5, 128), np.float32)) == 2 * 128 * 3


def test_flops_of_a_known_network(torch) -> None:
    from paredown.embeddings.encoders.torchvision_on_cpu import import_torchvision

    torchvision = import_torchvision()
    with torch.device("meta"):  # shapes alone: nothing is computed
        network, image = torchvision.models.resnet18(), torch.zeros(1, 3, 224, 224)
    # torchvision's documentation says 1.81 G multiply-adds.
    assert count_flops(network, image) == pytest.approx(2 * 1.814e9, rel=1e-3)


def test_counting_leaves_the_module_as_it_was(torch) -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4)).train()
    before = module[1].running_mean.clone()
    count_flops(module, np.ones((3, 4), np.float32))
    assert module.training
    assert module[1].training
    assert torch.equal(module[1].running_mean, before)


def test_the_convention_overstates_by_one_gradient(torch) -> None:
    from torch.utils.flop_counter import FlopCounterMode

    mlp = torch.nn.Sequential(torch.nn.Linear(20, 30), torch.nn.ReLU(), torch.nn.Linear(30, 5))
    with FlopCounterMode(display=False) as counter:
        mlp(torch.ones(8, 20)).sum().backward()
    forward = count_flops(mlp, torch.ones(8, 20))
    assert count_training_flops(forward, examples=8, epochs=1) == counter.get_total_flops() + 8 * 2 * 20 * 30


def test_training_and_savings() -> None:
    full = count_training_flops(1e6, examples=50_000, epochs=10)
    assert full == 1.5e12
    pruned = count_training_flops(1e6, examples=30_000, epochs=10)
    assert measure_saving(full, pruned) == pytest.approx(0.4)
    assert measure_saving(full, pruned, scoring=0.5 * full) == pytest.approx(-0.1)
    with pytest.raises(PareError, match=r"must not be negative, got 1\.0, -1 and 2"):
        count_training_flops(1.0, -1, 2)
    with pytest.raises(PareError, match="positive amount of compute, got 0"):
        measure_saving(0, 0)


def test_timing_counts_the_runs_asked_for() -> None:
    calls = []
    timing = time_call(lambda: calls.append(1), repeats=3, warm_up=2)
    assert len(calls) == 5
    assert timing.wall.shape == timing.cpu.shape == (3,)
    assert timing.seconds == np.median(timing.wall) > 0
    assert timing.cpu_seconds == np.median(timing.cpu) >= 0
    with pytest.raises(PareError, match="repeats must be at least 1"):
        time_call(calls.clear, repeats=0)


def test_inputs_without_examples_are_refused(torch) -> None:
    with pytest.raises(PareError, match=r"at least one example, got shape \(0, 4\)"):
        count_flops(torch.nn.Linear(4, 2), np.zeros((0, 4), np.float32))


def test_probe_equals_scikit_learn(digits) -> None:
    x, y = digits[0][:600], digits[1][:600]
    x_test, y_test = digits[0][600:900], digits[1][600:900]
    ours = linear_probe(x, y, x_test, y_test, penalties=[1e-2])
    scale = np.where(x.std(axis=0) == 0, 1, x.std(axis=0))
    peer = LogisticRegression(C=1 / (1e-2 * len(x)), tol=1e-8, max_iter=2000).fit((x - x.mean(axis=0)) / scale, y)
    np.testing.assert_array_equal(ours.predictions, peer.predict((x_test - x.mean(axis=0)) / scale))
    assert ours.accuracy == (ours.predictions == y_test).mean() > 0.85
    assert ours.stderr == pytest.approx(np.sqrt(ours.accuracy * (1 - ours.accuracy) / 300))
    assert ours.held_out == {}


def test_probe_chooses_its_penalty_without_the_test_set(digits, rng) -> None:
    x, y = digits[0][:400], np.array([f"digit {label}" for label in digits[1][:400]])
    x = x + rng.normal(0, 8, x.shape)  # noise, so that the penalty matters
    x_test, y_test = digits[0][900:1000], np.array([f"digit {label}" for label in digits[1][900:1000]])
    found = linear_probe(x, y, x_test, y_test, penalties=[1e-6, 1e-1, 1e3])
    assert found.penalty == max(found.held_out, key=lambda penalty: found.held_out[penalty]) == 0.1
    assert list(found.held_out) == [1e3, 1e-1, 1e-6]
    again = linear_probe(x, y, x_test[::-1], y_test[::-1], penalties=[1e3, 1e-1, 1e-6])
    assert again.held_out == found.held_out
    np.testing.assert_array_equal(again.predictions[::-1], found.predictions)
    assert found.predictions.dtype.kind == "U"


def test_probe_ignores_constant_features_and_unknown_test_classes(digits) -> None:
    x, y = digits[0][:300], digits[1][:300]
    known = linear_probe(x, y, x, y, penalties=[1e-3])
    padded = np.hstack([x, np.full((300, 1), 7.0)])
    assert linear_probe(padded, y, padded, y, penalties=[1e-3]).accuracy == known.accuracy
    odd = linear_probe(x, y, x, np.where(np.arange(300) < 30, 99, y), penalties=[1e-3])
    assert odd.accuracy == (known.predictions == y)[30:].sum() / 300


def test_probe_mistakes_are_answered() -> None:
    x, y = np.eye(4), [0, 1, 0, 1]
    for arguments, options, message in [
        ((x, y, x[:, :2], y), {}, "features have 4 dimensions but test_features 2"),
        ((x, y[:3], x, y), {}, "3 labels for 4 examples"),
        ((x, y, x, y[:3]), {}, "3 labels for 4 examples"),
        ((x, [1, 1, 1, 1], x, y), {}, "at least two classes"),
        ((x * np.nan, y, x, y), {}, "features must be finite; rows 0, 1, 2 and 1 more"),
        ((x[0], y, x, y), {}, r"features must be \(rows, dimensions\), got shape \(4,\)"),
        ((x, y, x, y), {"penalties": [0.0]}, "penalties must be positive"),
        ((x, y, x, y), {"held_out": 1.0}, "held_out must be between 0 and 1, got 1.0"),
        ((x[:2], y[:2], x, y), {}, "held_out=0.2 leaves no row to choose the penalty with"),
    ]:
        with pytest.raises(PareError, match=message):
            linear_probe(*arguments, **options)
