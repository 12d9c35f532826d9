"""The data of a sweep: read once, kept beside the results as arrays that every worker maps into its memory."""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.data import Labels, hash_ids
from paredown.errors import PareError
from paredown.io import new_output, read_scores, write_json
from paredown.progress import Track, silent
from paredown.sources import ArrayImages, ArraySource, Source, load_column, open_source
from paredown.sweeps.settings import Data, Scorer
from paredown.train import Recipe
from paredown.train.examples import Examples, TrainingSet, load_examples

__all__ = ["align_scores", "initial_rows", "initial_source", "open_data", "prepare_data"]

_ALL = 2**62  # images are kept in memory, whatever their size: a worker maps them
_NOISE_SEED = 0x5EED


def prepare_data(data: Data, recipes: dict[str, Recipe], folder: Path, *, track: Track = silent) -> dict[str, Any]:
    """Write the training and test examples in each form that a recipe takes; return what they are.

    `recipes` are one for each kind of input, "features" or "images". A form that is there already is left alone.
    """
    train, test = _open(data)
    found = {"train": train.fingerprint(), "test": test.fingerprint(), "examples": len(train), "tested": len(test)}
    for kind, recipe in recipes.items():
        if (folder / kind / "data.json").exists():
            continue
        with new_output(folder / kind, folder=True, overwrite=True) as part:
            trained = load_examples(train, recipe, encoder=data.encoder, memory=_ALL, track=track)
            tested = load_examples(test, recipe, like=trained, memory=_ALL, track=track)
            for name, examples in (("train", trained), ("test", tested)):
                assert isinstance(examples, Examples)
                np.save(part / f"{name}_inputs.npy", examples.inputs)
            np.save(part / "train_labels.npy", _noisy(trained, data.label_noise))
            np.save(part / "test_labels.npy", tested.labels)
            write_json({**found, "classes": list(trained.classes)}, part / "data.json")
    return found


def _open(data: Data) -> tuple[Source, Source]:
    train = open_source(data.source, labels=_column(data.labels))
    if data.test is not None:
        test = open_source(data.test, labels=_column(data.test_labels))
    else:
        test = open_source(data.source, split="test")
        if test.fingerprint() == train.fingerprint():
            raise PareError(
                f"{data.source} has no test split of its own; say where the test examples are: [data] test."
            )
    for source, name in ((train, "labels"), (test, "test_labels")):
        if source.labels is None:
            raise PareError(f"{source.location} has no labels, and a sweep measures accuracy; give [data] {name}.")
    return train, test


def _column(path: str | None) -> Any:
    return None if path is None else load_column(Path(path))


def _noisy(examples: TrainingSet, share: float) -> NDArray[np.int64]:
    """The labels, some of them, drawn by the hash of their ids, replaced by one of the other classes."""
    drawn = hash_ids(examples.ids, seed=_NOISE_SEED) / 2.0**64
    other = 1 + hash_ids(examples.ids, seed=_NOISE_SEED + 1) % np.uint64(max(1, len(examples.classes) - 1))
    replaced = (examples.labels + other.astype(np.int64)) % len(examples.classes)
    return np.where(drawn < share, replaced, examples.labels)


def align_scores(data: Data, scorer: Scorer, file: Path) -> None:
    """Scores made before, matched to the training examples by their ids, as one number per row."""
    assert scorer.scores is not None
    train, _ = _open(data)
    given = read_scores(scorer.scores, metric=scorer.metric)
    place = {identity: row for row, identity in enumerate(given.ids.tolist())}
    missing = [identity for identity in train.ids.tolist() if identity not in place]
    if missing:
        raise PareError(
            f"{scorer.scores}: {len(missing):,} of the {len(train):,} examples of {data.source} have no score in it, "
            f"the first of them {missing[0]!r}; score that source, or give the scores its ids."
        )
    rows = np.array([place[identity] for identity in train.ids.tolist()], np.int64)
    with new_output(file, overwrite=True) as part, part.open("wb") as stream:
        np.save(stream, given.values[rows], allow_pickle=False)


@lru_cache(maxsize=4)
def open_data(folder: Path) -> tuple[Examples, Examples]:
    """The training and test examples in one form, mapped from disk; ids are row numbers."""
    classes = tuple(json.loads((folder / "data.json").read_text(encoding="utf-8"))["classes"])
    train, test = (
        (np.load(folder / f"{name}_inputs.npy", mmap_mode="r"), np.load(folder / f"{name}_labels.npy"))
        for name in ("train", "test")
    )
    return tuple(Examples(inputs, labels, classes, np.arange(len(labels))) for inputs, labels in (train, test))  # type: ignore[return-value]


def initial_rows(n: int, size: int, seed: int) -> NDArray[np.int64]:
    """The rows of an initial set, ascending. Sets of one seed are nested, so that sizes are compared on like data."""
    order = np.argsort(hash_ids(np.arange(n), seed=1_000_003 * (seed + 1)), kind="stable")
    return np.sort(order[:size])


def initial_source(examples: Examples, rows: NDArray[np.int64]) -> Source:
    """An initial set as a source, so that it is scored like any other."""
    names = np.array(examples.classes)[examples.labels[rows]]
    if examples.inputs.ndim == 2:
        return ArraySource(examples.inputs[rows], ids=rows, labels=Labels.of(names))
    pixels = examples.inputs[rows]
    return ArrayImages(
        pixels[..., 0] if pixels.shape[-1] == 1 else pixels,
        location=f"an initial set of {len(rows)} images",
        kind="images in memory",
        files=(),
        ids=rows,
        labels=Labels.of(names),
    )
