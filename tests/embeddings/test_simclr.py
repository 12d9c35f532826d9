"""The contrastive recipe: its loss against the formula, and that training makes classes nearer to themselves."""

from __future__ import annotations

import json

import numpy as np
import pytest

import paredown as pdn
from paredown.embeddings.encoders import encode, load_encoder
from paredown.embeddings.encoders.simclr import contrastive_loss, train_simclr
from paredown.errors import PareError
from paredown.sources import ImageSource, open_source

pytestmark = pytest.mark.usefixtures("one_torch_thread")
SMALL = {"image_size": 8, "width": 8, "batch_size": 30, "flip": False}


def nearest_share(source, encoder) -> float:
    """The share of images whose nearest other image has the same class."""
    encoded = encode(source, encoder=encoder)
    x = np.concatenate(list(encoded.blocks(1000)))
    x = x / np.linalg.norm(x, axis=1, keepdims=True)
    similarity = x @ x.T
    np.fill_diagonal(similarity, -1)
    codes = encoded.labels.codes
    return float((codes[similarity.argmax(axis=1)] == codes).mean())


def test_loss_is_the_formula(rng) -> None:
    import torch

    first, second = rng.standard_normal((2, 3, 5))
    views = np.concatenate([first, second])
    views /= np.linalg.norm(views, axis=1, keepdims=True)
    weights = np.exp(views @ views.T / 0.5)
    np.fill_diagonal(weights, 0)
    partner = [3, 4, 5, 0, 1, 2]
    expected = -np.log(weights[range(6), partner] / weights.sum(axis=1)).mean()
    loss = contrastive_loss(torch.from_numpy(first), torch.from_numpy(second), temperature=0.5)
    assert float(loss) == pytest.approx(expected, rel=1e-12)


def test_training_is_repeatable_and_brings_classes_together(tmp_path, image_folder) -> None:
    source = open_source(image_folder)
    assert isinstance(source, ImageSource)
    trained = train_simclr(source, out=tmp_path / "a.onnx", epochs=30, **SMALL)
    again = train_simclr(source, out=tmp_path / "b.onnx", epochs=30, **SMALL)
    other = train_simclr(source, out=tmp_path / "c.onnx", epochs=1, seed=1, **SMALL)
    assert trained.losses == again.losses
    assert trained.losses[0] != other.losses[0]
    assert trained.losses[-1] < trained.losses[0] - 0.5
    assert (tmp_path / "a.onnx").read_bytes() == (tmp_path / "b.onnx").read_bytes()
    assert load_encoder(trained.encoder).settings["image_size"] == 8
    assert nearest_share(source, trained.encoder) > max(0.5, nearest_share(source, other.encoder))  # chance is 0.1
    store = pdn.embed(image_folder, out=tmp_path / "e", encoder=trained.encoder)
    assert store.dim == 32


def test_trained_from_the_command_line_and_not_twice(paredown, tmp_path, image_folder, monkeypatch) -> None:
    command = ["embed", image_folder, "-o", "e", "--train-encoder", "mine.onnx", "--epochs", "2"]
    command += ["--image-size", "8", "--no-flip"]
    result = paredown(*command)
    assert result.returncode == 0, result.stderr
    assert "Encoder mine.onnx trained: 2 epochs, loss" in result.stdout
    assert "Warning: the encoder is a small network trained without labels on 60 images for 2 epochs" in result.stdout
    assert "60 embeddings of 128 dimensions in e" in result.stdout
    alone = train_simclr(image_folder, out=tmp_path / "alone.onnx", epochs=2, image_size=8, flip=False)
    assert (tmp_path / "alone.onnx").read_bytes() == (tmp_path / "mine.onnx").read_bytes()
    (tmp_path / "e" / "00000.npy").unlink()  # stopped after the training
    with monkeypatch.context() as patch:
        patch.setattr("paredown.embeddings.encoders.simclr._batches", None)  # nothing is left to train
        report = json.loads(paredown(*command, "--json").stdout)
    assert report["training"]["already"]
    assert (report["training"]["epochs"], report["training"]["losses"]) == (2, list(alone.losses))
    assert report["examples"] == 60
    result = paredown(*command, "--seed", "1")
    assert result.returncode == 2
    assert "mine.onnx is an encoder made with other settings: seed was 0 and is now 1" in result.stderr
    assert paredown(*command, "--seed", "1", "--overwrite").returncode == 0
    assert (tmp_path / "alone.onnx").read_bytes() != (tmp_path / "mine.onnx").read_bytes()
    assert "leave out --encoder pixels" in paredown(*command, "--encoder", "pixels").stderr
    command[command.index("mine.onnx")] = "mine"
    assert "name it mine.onnx" in paredown(*command).stderr


def test_a_file_of_anything_else_is_not_taken_for_trained(paredown, tmp_path, image_folder) -> None:
    (tmp_path / "mine.onnx").write_text("precious")
    command = ["embed", image_folder, "-o", "e", "--train-encoder", "mine.onnx", "--epochs", "1"]
    assert "mine.onnx already exists" in paredown(*command).stderr
    assert (tmp_path / "mine.onnx").read_text() == "precious"


def test_bad_training_input(tmp_path, image_folder, digits) -> None:
    with pytest.raises(PareError, match=r"epochs must be at least 1 and batch_size at least 2, got 0 and 256"):
        train_simclr(image_folder, out=tmp_path / "x.onnx", epochs=0)
    with pytest.raises(PareError, match=r"training needs images, and these are embeddings \(array\)"):
        train_simclr(open_source(digits[0]), out=tmp_path / "x.onnx")
    (tmp_path / "x.onnx").write_text("precious")
    with pytest.raises(PareError, match=r"x.onnx already exists"):
        train_simclr(image_folder, out=tmp_path / "x.onnx")
    files = sorted(image_folder.rglob("*.png"))
    files[0].write_bytes(b"no image")
    with pytest.raises(PareError, match=r"not an image in a known format.*on_error='skip'"):
        train_simclr(image_folder, out=tmp_path / "y.onnx")
    for file in files[2:]:
        file.unlink()
    with pytest.raises(PareError, match=r"needs at least two images"):
        train_simclr(image_folder, out=tmp_path / "y.onnx", on_error="skip")
