"""Images of a kind that no network was trained on, and what humans said of them.

The stimuli are those of Geirhos et al. (2019), of 16 classes: cue conflicts (the shape of one class with the texture of
another), edges and filled silhouettes. Where they are not at hand, hybrids of test images stand in for cue conflicts.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from paredown.errors import PareError
from paredown.evaluate import Trials

CUE_CONFLICT = "cue-conflict"
# As model-vs-human names them -> their folder in texture-vs-shape.
FOLDERS = {CUE_CONFLICT: "style-transfer-preprocessed-512", "edge": "edges", "silhouette": "filled-silhouettes"}
# Of the 16 classes those that CIFAR-10 has, under its names.
CIFAR10 = {
    "airplane": ["airplane"],
    "bird": ["bird"],
    "boat": ["ship"],
    "car": ["automobile"],
    "cat": ["cat"],
    "dog": ["dog"],
    "truck": ["truck"],
}
_COARSE = 0.08  # width of the blur that divides a hybrid's parts / side


class Stimuli(NamedTuple):
    """Images of one kind; `textures` is None where only the shape belongs to a class."""

    dataset: str
    names: list[str]
    images: NDArray[np.uint8]  # (n, size, size, channels)
    shapes: list[str]
    textures: list[str] | None = None


def coarse_classes(classes: Sequence[str], folder: Path | None) -> dict[str, list[int]]:
    """For each of the 16 classes that a network knows, which of its own belong to it.

    CIFAR-10 has seven of them. For other classes, such as ImageNet's, the folder of stimuli has a file `classes.json`
    with a list of the network's class names (for ImageNet: WordNet ids) for each of the 16. Without a folder every
    class stands for itself.
    """
    place = {name: code for code, name in enumerate(classes)}
    if folder is None:
        return {name: [code] for name, code in place.items()}
    file = folder / "classes.json"
    named: dict[str, list[str]] = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else CIFAR10
    groups = {coarse: [place[name] for name in fine if name in place] for coarse, fine in named.items()}
    known = {coarse: codes for coarse, codes in groups.items() if codes}
    if len(known) < 2:
        raise PareError(
            f"{folder}: the networks know none of the classes of the stimuli by name; put a file classes.json into it "
            'that names theirs for each of the 16, such as {"cat": ["n02123045", ...], ...}.'
        )
    return known


def read_stimuli(folder: Path, categories: Sequence[str], *, size: int, channels: int) -> list[Stimuli]:
    """The stimuli whose shape is of one of the categories, as images of `size` x `size` pixels."""
    found = []
    for dataset, subfolder in FOLDERS.items():
        files = [
            file for category in sorted(categories) for file in sorted((folder / subfolder / category).glob("*.png"))
        ]
        if not files:
            raise PareError(f"{folder / subfolder}: there are no images CLASS/NAME.png of {', '.join(categories)}.")
        images = np.stack([_read(file, size, channels) for file in files])
        shapes = [file.parent.name for file in files]
        textures = [_texture(file) for file in files] if dataset == CUE_CONFLICT else None
        found.append(Stimuli(dataset, [file.name for file in files], images, shapes, textures))
    return found


def _read(file: Path, size: int, channels: int) -> NDArray[np.uint8]:
    with Image.open(file) as image:
        small = image.convert("RGB" if channels == 3 else "L").resize((size, size), Image.Resampling.BOX)
    return np.asarray(small).reshape(size, size, channels)


def _texture(file: Path) -> str:
    """`cat1-airplane2.png` has the texture of an airplane."""
    matched = re.fullmatch(r"[a-z]+\d+-([a-z]+)\d+", file.stem)
    if matched is None:
        raise PareError(f"{file}: a cue conflict is named SHAPE1-TEXTURE2.png, such as cat1-airplane2.png.")
    return matched[1]


def hybrids(images: NDArray[np.uint8], labels: NDArray[np.int64], classes: Sequence[str], *, seed: int) -> Stimuli:
    """The coarse structure of every image with the fine structure of another one, of another class.

    Oliva, Torralba and Schyns (2006). Coarse structure stands for shape and fine structure for texture.
    """
    from scipy.ndimage import gaussian_filter

    rng = np.random.default_rng(seed)
    other = np.array([rng.choice(np.flatnonzero(labels != label)) for label in labels])
    width = _COARSE * images.shape[1]
    pixels = images.astype(np.float32)
    coarse = gaussian_filter(pixels, (0, width, width, 0), mode="nearest")
    mixed = np.rint(np.clip(coarse + (pixels - coarse)[other], 0, 255)).astype(np.uint8)
    named = np.array(classes)
    names = [f"{row}-{fine}" for row, fine in enumerate(other)]
    return Stimuli("hybrids", names, mixed, named[labels].tolist(), named[labels[other]].tolist())


def read_human_trials(folder: Path, stimuli: Sequence[Stimuli]) -> Trials:
    """The answers of humans to some stimuli, from `responses.parquet` or model-vs-human's own CSV files."""
    shown = {entry.dataset: set(entry.names) for entry in stimuli}
    found = []
    for row in _answers(folder, list(shown)):
        # 0001_edg_s01_0_oven_00_oven10.png: of all that, the end is the name of the image.
        image = row["imagename"].rpartition("_")[2]
        if image in shown.get(row["dataset"], ()):
            found.append((row["subj"], row["dataset"], "0", image, row["category"], row["object_response"]))
    if not found:
        raise PareError(f"{folder}: no human answered these stimuli; is this the data of the project model-vs-human?")
    return Trials(*np.array(found, dtype=str).T)


def _answers(folder: Path, datasets: Sequence[str]) -> Iterator[dict[str, Any]]:
    table = folder / "responses.parquet"
    if table.is_file():
        import pyarrow.parquet as pq

        yield from pq.read_table(table).to_pylist()
        return
    for dataset in datasets:
        for file in sorted(folder.rglob(f"{dataset}_subject-*.csv")):
            with file.open(newline="", encoding="utf-8") as stream:
                yield from ({**row, "dataset": dataset} for row in csv.DictReader(stream))
