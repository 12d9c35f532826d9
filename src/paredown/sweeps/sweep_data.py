"""The data of a sweep: read once and kept beside the results as arrays that every worker maps into its memory.

Images that would take too much are not copied: workers open their source again and decode them while training.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.embeddings.encoders.pipeline import default_workers
from paredown.errors import PareError
from paredown.files import file_digest, write_whole
from paredown.ids import hash_ids
from paredown.progress import Track, silent
from paredown.reading import read_npy_header
from paredown.records import changes, read_record, sealed_bytes
from paredown.score_files import read_scores
from paredown.scores import Labels
from paredown.sources import ArrayImages, ArraySource, ImageSource, Source, load_column, open_source
from paredown.sweeps.settings import DataSettings, Scorer
from paredown.training import Recipe
from paredown.training.examples import Examples, StreamedExamples, TrainingSet, image_bytes, load_examples

_COPIED = 8 * 2**30  # bytes of training and test images, up to which they are decoded once and kept
_ALL = 2**62  # a limit that nothing reaches
_NOISE_SEED = 0x5EED


def prepare_data(
    data: DataSettings,
    sources: tuple[Source, Source],
    recipes: dict[str, Recipe],
    folder: Path,
    *,
    track: Track = silent,
) -> dict[str, Any]:
    """Write the training and test examples in each form that a recipe takes; return what they are.

    `sources` are those of `open_sources`; `recipes` are one for each kind of input, "features" or "images". A form that
    is there already is left alone, if it was made of the same data in the same way.
    """
    train, test = sources
    found = {
        "train": train.fingerprint(),
        "train_labels": _labels_fingerprint(train),
        "test": test.fingerprint(),
        "test_labels": _labels_fingerprint(test),
        "examples": len(train),
        "tested": len(test),
    }
    for kind, recipe in recipes.items():
        streamed = kind == "images" and image_bytes(len(train) + len(test), recipe) > _COPIED
        made_of = {**found, "encoder": data.encoder, "label_noise": data.label_noise, "streamed": streamed}
        if kind == "images":
            made_of |= {"image_size": recipe.image_size, "augment": recipe.augment}
        if _is_whole(folder / kind, made_of):
            continue
        with write_whole(folder / kind, folder=True) as part:
            memory = 1 if streamed else _ALL
            trained = load_examples(train, recipe, encoder=data.encoder, memory=memory, track=track)
            tested = load_examples(test, recipe, like=trained, memory=memory, track=track)
            kept = {name: _keep(part / name, examples) for name, examples in (("train", trained), ("test", tested))}
            np.save(part / "train_labels.npy", _noisy(trained, data.label_noise))
            np.save(part / "test_labels.npy", tested.labels)
            record = {"made_of": made_of, "classes": list(trained.classes), "inputs": kept}
            record |= {"sha256": {file.name: file_digest(file) for file in sorted(part.glob("*.npy"))}}
            (part / "data.json").write_bytes(sealed_bytes(record))
    return found


def streamed_sources(folder: Path) -> list[str]:
    """Where the images are that are decoded while networks train, and not kept with the sweep."""
    records = [read_record(file) or {} for file in sorted(folder.glob("*/data.json"))]
    inputs = [each for record in records for each in record.get("inputs", {}).values() if each is not None]
    return sorted({each["source"] for each in inputs if os.path.exists(each["source"])})


def _is_whole(folder: Path, made_of: dict[str, Any]) -> bool:
    """Whether the examples are there in this form, none of their files missing or cut short."""
    record = read_record(folder / "data.json")
    if record is None or changes(record.get("made_of", {}), made_of):
        return False
    try:
        for name in record.get("sha256", ()):
            with (folder / name).open("rb") as stream:
                read_npy_header(stream, (folder / name).stat().st_size)
    except (OSError, PareError):
        return False
    return True


def _labels_fingerprint(source: Source) -> str:
    assert source.labels is not None
    digest = hashlib.sha256("\0".join(source.labels.classes).encode())
    digest.update(source.labels.codes.tobytes())
    return digest.hexdigest()[:16]


def _keep(file: Path, examples: TrainingSet) -> dict[str, Any] | None:
    """Write inputs that are in memory; of others return how to open them again."""
    if isinstance(examples, Examples):
        np.save(file.with_name(f"{file.name}_inputs.npy"), examples.inputs)
        return None
    assert isinstance(examples, StreamedExamples)
    opened = examples.source.provenance()
    return {
        "source": opened["location"],
        **opened["opened_with"],
        "image_size": examples.image_size,
        "stored_size": examples.stored_size,
    }


def open_sources(data: DataSettings) -> tuple[Source, Source]:
    """The training and test examples, with their labels."""
    train = open_source(data.source, labels=_column(data.labels))
    if data.test is not None:
        test = open_source(data.test, labels=_column(data.test_labels))
    else:
        try:
            test = open_source(data.source, split="test")
        except PareError as error:
            raise _without_test(data) from error
        if test.fingerprint() == train.fingerprint():
            raise _without_test(data)
    for source, name in ((train, "labels"), (test, "test_labels")):
        if source.labels is None:
            raise PareError(f"{source.location} has no labels, and a sweep measures accuracy; give [data] {name}.")
    return train, test


def _without_test(data: DataSettings) -> PareError:
    return PareError(f"{data.source} has no test split of its own; say where the test examples are: [data] test.")


def _column(path: str | None) -> Any:
    return None if path is None else load_column(Path(path))


def _noisy(examples: TrainingSet, share: float) -> NDArray[np.int64]:
    """The labels, some of them, drawn by the hash of their ids, replaced by one of the other classes."""
    drawn = hash_ids(examples.ids, seed=_NOISE_SEED) / 2.0**64
    other = 1 + hash_ids(examples.ids, seed=_NOISE_SEED + 1) % np.uint64(max(1, len(examples.classes) - 1))
    replaced = (examples.labels + other.astype(np.int64)) % len(examples.classes)
    return np.where(drawn < share, replaced, examples.labels)


def align_scores(data: DataSettings, scorer: Scorer, file: Path) -> None:
    """Scores made before, matched to the training examples by their ids, as one number per row."""
    assert scorer.scores is not None
    train, _ = open_sources(data)
    given = read_scores(scorer.scores, metric=scorer.metric)
    place = {identity: row for row, identity in enumerate(given.ids.tolist())}
    missing = [identity for identity in train.ids.tolist() if identity not in place]
    if missing:
        raise PareError(
            f"{scorer.scores}: {len(missing):,} of the {len(train):,} examples of {data.source} have no score in it, "
            f"the first of them {missing[0]!r}; score that source, or give the scores its ids."
        )
    rows = np.array([place[identity] for identity in train.ids.tolist()], np.int64)
    with write_whole(file) as part, part.open("wb") as stream:
        np.save(stream, given.values[rows], allow_pickle=False)


@lru_cache(maxsize=4)
def open_data(folder: Path) -> tuple[TrainingSet, TrainingSet]:
    """The training and test examples in one form: mapped from disk, where ids are row numbers, or decoded when used."""
    record = read_record(folder / "data.json")
    if record is None:
        raise PareError(f"{folder}: the data of the sweep are damaged; run the same sweep again to make new ones.")
    train, test = (
        _reopened(folder, name, tuple(record["classes"]), record["inputs"][name]) for name in ("train", "test")
    )
    return train, test


def _reopened(folder: Path, name: str, classes: tuple[str, ...], streamed: dict[str, Any] | None) -> TrainingSet:
    labels = np.load(folder / f"{name}_labels.npy")
    if streamed is None:
        inputs = np.load(folder / f"{name}_inputs.npy", mmap_mode="r")
        return Examples(inputs, labels, classes, np.arange(len(labels)))
    source = open_source(streamed["source"], split=streamed["split"], columns=streamed["columns"])
    if not isinstance(source, ImageSource) or len(source) != len(labels):
        raise PareError(
            f"{source.location}: it held {len(labels):,} images when the sweep began, and holds {len(source):,} now; "
            "put back what was there, or sweep into another folder."
        )
    sizes = streamed["image_size"], streamed["stored_size"]
    return StreamedExamples(source, np.arange(len(source)), labels, classes, *sizes, workers=default_workers())


def initial_rows(n: int, size: int, seed: int) -> NDArray[np.int64]:
    """The rows of an initial set, ascending. Sets of one seed are nested, so that sizes are compared on like data."""
    order = np.argsort(hash_ids(np.arange(n), seed=1_000_003 * (seed + 1)), kind="stable")
    return np.sort(order[:size])


def initial_source(examples: TrainingSet, rows: NDArray[np.int64]) -> Source:
    """An initial set as a source, so that it is scored like any other; ids are row numbers of the training set."""
    labels = Labels.of(np.array(examples.classes)[examples.labels[rows]])
    if isinstance(examples, StreamedExamples):
        return _SomeImages(examples.source, examples.rows[rows], ids=rows, labels=labels)
    assert isinstance(examples, Examples)
    if examples.inputs.ndim == 2:
        return ArraySource(examples.inputs[rows], ids=rows, labels=labels)
    pixels = examples.inputs[rows]
    return ArrayImages(
        pixels[..., 0] if pixels.shape[-1] == 1 else pixels,
        location=_title(rows),
        kind="images in memory",
        files=(),
        ids=rows,
        labels=labels,
    )


class _SomeImages(ImageSource):
    """Some ascending rows of another source of images, under other ids."""

    def __init__(
        self, parent: ImageSource, rows: NDArray[np.int64], *, ids: NDArray[np.int64], labels: Labels | None
    ) -> None:
        self._parent, self._rows = parent, rows
        self._describe(_title(rows), parent.kind, ids=ids, labels=labels)

    def files(self, first: int = 0) -> Iterator[tuple[Path | bytes, str]]:
        return ((file, name) for _, file, name in self._parent.pick(self._rows[first:].tolist()))

    def file(self, row: int) -> tuple[Path | bytes, str]:
        return self._parent.file(int(self._rows[row]))  # under its own name, for messages

    def part(self, rows: range) -> _SomeImages:
        here = slice(rows.start, rows.stop)
        some = _SomeImages(self._parent, self._rows[here], ids=self.ids[here], labels=self.labels_of(here))
        some.location = self.location
        return some

    def disk_files(self) -> Iterable[Path]:
        return self._parent.disk_files()

    def fingerprint(self) -> str:
        return hashlib.sha256(self._parent.fingerprint().encode() + self._rows.tobytes()).hexdigest()[:16]


def _title(rows: NDArray[np.int64]) -> str:
    return f"an initial set of {len(rows)} images"
