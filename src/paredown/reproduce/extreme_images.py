"""The easiest and the hardest images of a class by different metrics: what two figures show.

The scorings are those of the benchmark of metrics, so that what one has scored the other finds.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from io import BytesIO
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from paredown.embeddings.encoders import encode
from paredown.ids import hash_ids
from paredown.metrics import METRICS
from paredown.reproduce import metric_comparison as benchmark
from paredown.reproduce.base import FigureTable
from paredown.reproduce.data_folders import Dataset, by_size
from paredown.reproduce.metric_comparison import COMPARED_METRICS, METRIC_TITLES
from paredown.reproduce.setup import FigurePlan, Setup, SharedScoring
from paredown.scores import Labels, Scores
from paredown.sources import ArrayImages, ImageSource, open_source
from paredown.sources.image_decoding import Skipped, decode_image

NEEDS = {**benchmark.NEEDS, "images": by_size(("cifar10", "fashion_mnist"), "imagenet")}
SHOWN_TITLES = {"el2n": "EL2N", **{name: METRIC_TITLES[name] for name in COMPARED_METRICS if name in METRICS}}
SHOWN_TITLES["variation_ratio"] = METRIC_TITLES["active_learning"]  # as which it is scored below the paper's size
_THUMBNAIL = 48  # pixels of a picture's side at most
_ENCODED = 224
_GAP = 2  # white pixels between pictures
_TIES = 0x71E5


class ImagesToShow(NamedTuple):
    """Scores of one training set, and its images."""

    scores: Mapping[str, Scores]
    rows: NDArray[np.int64]  # of the images, in the order of the scores
    codes: NDArray[np.int64]  # classes
    classes: tuple[str, ...]
    images: ImageSource
    vectors: NDArray[np.float32] | None  # features, in the order of the scores; None where they are not at hand
    data: Dataset


def _training_data(setup: Setup) -> tuple[Dataset, Dataset]:
    """What is scored, and its images; where the images of the features are not there, images are scored as pixels."""
    main, images = setup.dataset(), setup.dataset("images")
    main = main if main.name in (images.name, f"{images.name}_features") else images
    return benchmark.training_set(setup, main), images


def images_of(setup: Setup) -> Dataset:
    """The data set whose images are shown."""
    return _training_data(setup)[1]


def plan_scores(setup: Setup, metrics: Sequence[str]) -> FigurePlan:
    """The scorings of the benchmark of metrics that some metrics are found in."""
    main, images = _training_data(setup)
    scored = {}
    for repeat in benchmark.repeats(setup):
        found = _scorings(setup, main, metrics, repeat)
        scored |= {f"{name}, {repeat}": scoring for name, scoring in found.items()}
    return FigurePlan(scorings=scored, datasets=(main, images))


def _scorings(setup: Setup, main: Dataset, metrics: Sequence[str], repeat: int) -> dict[str, SharedScoring]:
    """EL2N is that of several models."""
    found = benchmark.scorings(setup, main, repeat)
    return {
        name: scoring for name, scoring in found.items() if name != "one probe" and set(scoring.metrics) & set(metrics)
    }


def add_each(
    table: FigureTable, setup: Setup, metrics: Sequence[str], classes: Sequence[int], *, shown: int
) -> ImagesToShow:
    """Add the extremes of some classes, these from one scoring after the other: luck in scoring counts over classes.

    Returns what the first scoring found.
    """
    repeats = benchmark.repeats(setup)
    each = [find_images(setup, metrics, repeat) for repeat in repeats]
    for number, code in enumerate(classes):
        add_extremes(table, each[number % len(each)], [code], shown=shown)
    return each[0]


def find_images(setup: Setup, metrics: Sequence[str], repeat: int = 0) -> ImagesToShow:
    """Score the training set and open its images."""
    main, data = _training_data(setup)
    scored = {}
    for scoring in _scorings(setup, main, metrics, repeat).values():
        done = setup.score(scoring)
        scored |= {metric: done[metric] for metric in scoring.metrics if metric in metrics}
    images = open_source(data.location)
    assert isinstance(images, ImageSource)
    assert isinstance(images.labels, Labels)
    ids = next(iter(scored.values())).ids
    vectors = None
    if setup.scale == "paper":
        place = {identity: row for row, identity in enumerate(images.ids.tolist())}
        rows = np.array([place[identity] for identity in ids.tolist()])
    else:
        rows = main.rows()[ids.astype(np.int64)]
        vectors = np.load(main.features()["source"], mmap_mode="r")[ids.astype(np.int64)]
    return ImagesToShow(scored, rows, images.labels.codes[rows], tuple(images.labels.classes), images, vectors, data)


def add_extremes(table: FigureTable, found: ImagesToShow, classes: Sequence[int], *, shown: int) -> None:
    """Add the extreme images of some classes (kind `image`), and for each how alike they are (kind `alike`)."""
    for metric, scores in found.scores.items():
        chance = hash_ids(scores.ids, seed=_TIES)  # many scores of counted errors are equal
        for code in classes:
            own = np.flatnonzero(found.codes == code)
            order = own[np.lexsort([chance[own], scores.values[own]])]
            common = {"data": found.data.title, "metric": metric, "category": found.classes[code]}
            alike = {}
            for end, rows in (("easy", order[:shown]), ("hard", order[::-1][:shown])):
                pictures = [_picture(found.images, int(row)) for row in found.rows[rows]]
                vectors = embed_pictures(pictures) if found.vectors is None else found.vectors[rows]
                alike[end] = _mean_cosine(vectors)
                table.add(
                    "image",
                    **common,
                    end=end,
                    rank=np.arange(len(rows)),
                    score=scores.values[rows].astype(float),
                    row=found.rows[rows],
                    picture=[_as_text(picture) for picture in pictures],
                )
            table.add("alike", **common, examples=len(own), **alike)


def class_name(category: str | float) -> str:
    """As it was before the table was a file, which knows no difference between names and numbers."""
    return category if isinstance(category, str) else f"{category:g}"


def _picture(images: ImageSource, row: int) -> Image.Image:
    image = decode_image(*images.file(row))
    assert not isinstance(image, Skipped)
    return image


def embed_pictures(pictures: Sequence[Image.Image], encoder: Any = "swav") -> NDArray[np.float32]:
    """Embeddings of a few images."""
    pixels = np.stack([np.asarray(image.convert("RGB").resize((_ENCODED, _ENCODED))) for image in pictures])
    source = ArrayImages(
        pixels, location="a few images", kind="images in memory", files=(), ids=np.arange(len(pixels)), labels=None
    )
    return np.concatenate([batch.vectors for batch in encode(source, encoder=encoder).batches()])


def _mean_cosine(vectors: NDArray[np.float32]) -> float:
    """Over all pairs."""
    unit = vectors / np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    return float(np.mean([unit[i] @ unit[j] for i, j in combinations(range(len(unit)), 2)]))


def _as_text(image: Image.Image) -> str:
    """A thumbnail as a PNG in base64, so that the table holds all that is drawn."""
    image = image if image.mode == "L" else image.convert("RGB")
    image.thumbnail((_THUMBNAIL, _THUMBNAIL))
    file = BytesIO()
    image.save(file, "PNG", optimize=True)
    return base64.b64encode(file.getvalue()).decode("ascii")


def show_images(axes: Any, rows: FigureTable) -> int:
    """Images of a table, without axes; returns the height of the picture."""
    shown = picture(rows)
    axes.imshow(shown, interpolation="nearest")
    axes.grid(visible=False)
    axes.set(xticks=[], yticks=[])
    axes.spines[:].set_visible(False)
    return len(shown)


def picture(rows: FigureTable) -> NDArray[np.uint8]:
    """Images of a table side by side: the easiest above, the hardest below, the most extreme first."""
    lines = []
    for end in ("easy", "hard"):
        texts = rows.where(end=end)["picture"]
        images = [Image.open(BytesIO(base64.b64decode(text))).convert("RGB") for text in texts]
        side = max(max(image.size) for image in images)
        tiles = [np.full((side + _GAP, side + _GAP, 3), 255, np.uint8) for _ in images]
        for tile, image in zip(tiles, images, strict=True):
            tile[: image.size[1], : image.size[0]] = np.asarray(image)
        lines.append(np.concatenate(tiles, axis=1))
    gap = np.full((2 * _GAP, lines[0].shape[1], 3), 255, np.uint8)
    return np.concatenate([lines[0], gap, lines[1]])
