"""Fixtures shared by the tests: small real data and ways to write it to disk."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import settings
from PIL import Image
from sklearn.datasets import load_digits

from paredown.cli import main

# Nothing is timed in a test: on a busy machine an example may take any time.
settings.register_profile("paredown", deadline=None)
settings.register_profile("mutants", deadline=None, max_examples=30, derandomize=True)  # see tests/mutation.py
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "paredown"))


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.fixture
def one_torch_thread() -> None:
    """Tiny problems took some thirty times as long on two threads, once, while others used the cores too."""
    import torch

    torch.set_num_threads(1)


@pytest.fixture(scope="session")
def digits() -> tuple[np.ndarray, np.ndarray]:
    """scikit-learn's digits: 1797 real images of 8 x 8 pixels as vectors, and their classes."""
    data = load_digits()
    return data.data.astype(np.float32), data.target


@pytest.fixture
def image_folder(tmp_path: Path, digits) -> Path:
    """Sixty digit images in class subfolders."""
    images, labels = digits
    folder = tmp_path / "images"
    for row in range(60):
        file = folder / f"digit-{labels[row]}" / f"{row:03d}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray((images[row].reshape(8, 8) * 15).astype(np.uint8)).save(file)
    return folder


class Result(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


@pytest.fixture
def paredown(tmp_path: Path, monkeypatch, capsys):
    """Run the command line in a folder of its own, as a user does but without a new process."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PAREDOWN_DEBUG", "")  # which --debug sets, and is put back afterwards
    monkeypatch.setattr("paredown.cli.signals.Signals.watch", lambda self: None)  # those of this process are pytest's

    def run(*arguments: object) -> Result:
        monkeypatch.setattr(sys, "argv", ["paredown", *map(str, arguments)])
        capsys.readouterr()
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        return Result(code, *capsys.readouterr())

    return run
