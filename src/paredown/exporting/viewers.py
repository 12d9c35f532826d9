"""Exports for looking at the data: FiftyOne, LightlyStudio and Embedding Atlas. All examples, kept ones and others."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.exporting.content import ExportContent
from paredown.exporting.dataset_folders import common_folder
from paredown.exporting.near_examples import near_examples
from paredown.ids import hash_ids
from paredown.places import is_remote
from paredown.progress import Track
from paredown.projection import project
from paredown.records import write_json
from paredown.score_files import manifest_table
from paredown.sources import VectorSource
from paredown.text import quoted


def _examples(content: ExportContent) -> Iterator[tuple[Path, int, dict[str, Any]]]:
    """The image of every example, its row in the manifest and what is known of it, in the order of the source."""
    files, opened = content.image_files()
    scores, labels = content.scores, content.labels_of(opened.examples)
    names = None if labels is None else labels.names.tolist()
    for place, (file, row) in enumerate(zip(files, opened.examples.tolist(), strict=True)):
        known = {"id": str(scores.ids[row]), "keep": bool(content.keep[row]), "score": float(scores.values[row])}
        if names is not None:
            known["label"] = names[place]
        if scores.clusters is not None:
            known["cluster"] = int(scores.clusters[row])
        yield file, row, known


# --- FiftyOne ------------------------------------------------------------------------------------------------------

# The oldest version of FiftyOne that has all fields below; newer ones bring a dataset of it up to date as they load it.
_FIFTYONE_VERSION = "1.0.0"
_FIELDS = "fiftyone.core.fields."


def write_fiftyone(content: ExportContent, out: Path) -> None:
    """A folder for `fo.Dataset.from_dir(..., dataset_type=fo.types.FiftyOneDataset)`; the images stay where they are.

    Samples have the fields `example_id` (a sample has an `id` of its own), `score`, `keep`, `ground_truth` and
    `cluster`, and the tag `kept` or `dropped`.
    """
    samples = []
    rand = hash_ids(content.scores.ids, seed=0) / 2.0**64  # by which FiftyOne shuffles
    for file, row, known in _examples(content):
        if is_remote(file):
            raise PareError(f"{file}: FiftyOne reads images from disks only; export 'images' first, and prune those.")
        sample: dict[str, Any] = {
            "filepath": str(file),
            "tags": ["kept" if known["keep"] else "dropped"],
            "metadata": None,
            "_media_type": "image",
            "_rand": float(rand[row]),
            "example_id": known["id"],
            "score": known["score"],
            "keep": known["keep"],
        }
        if "label" in known:
            sample["ground_truth"] = {"_cls": "Classification", "tags": [], "label": known["label"]}
        if "cluster" in known:
            sample["cluster"] = known["cluster"]
        samples.append(sample)
    write_json({"samples": samples}, out / "samples.json")
    write_json(_fiftyone_dataset(content), out / "metadata.json")


def _fiftyone_dataset(content: ExportContent) -> dict[str, Any]:
    """The description of the dataset, as FiftyOne keeps it in its database."""
    fields = [
        _field("id", "ObjectIdField", db_field="_id"),
        _field("filepath", "StringField"),
        _field("tags", "ListField", subfield=f"{_FIELDS}StringField"),
        _field(
            "metadata",
            "EmbeddedDocumentField",
            document="fiftyone.core.metadata.ImageMetadata",
            fields=[
                _field("size_bytes", "IntField"),
                _field("mime_type", "StringField"),
                *(_field(name, "IntField") for name in ("width", "height", "num_channels")),
            ],
        ),
        _field("created_at", "DateTimeField", read_only=True),
        _field("last_modified_at", "DateTimeField", read_only=True),
        _field("example_id", "StringField"),
        _field("score", "FloatField", description=f"how hard the example is by {content.scores.metric}"),
        _field("keep", "BooleanField"),
    ]
    if content.scores.labels is not None:
        fields.append(
            _field(
                "ground_truth",
                "EmbeddedDocumentField",
                document="fiftyone.core.labels.Classification",
                fields=[
                    _field("id", "ObjectIdField", db_field="_id"),
                    _field("tags", "ListField", subfield=f"{_FIELDS}StringField"),
                    _field("label", "StringField"),
                    _field("confidence", "FloatField"),
                    _field("logits", "VectorField"),
                ],
            )
        )
    if content.scores.clusters is not None:
        fields.append(_field("cluster", "IntField"))
    names = {} if content.scores.labels is None else {"ground_truth": list(content.scores.labels.classes)}
    return {
        "version": _FIFTYONE_VERSION,
        "media_type": "image",
        "tags": [],
        "info": {"paredown": {"metric": content.scores.metric}},
        "app_config": {},
        "classes": names,
        "default_classes": [],
        "mask_targets": {},
        "default_mask_targets": {},
        "skeletons": {},
        "group_media_types": {},
        "sample_fields": fields,
        "frame_fields": [],
        "saved_views": [],
        "workspaces": [],
        "annotation_runs": {},
        "brain_methods": {},
        "evaluations": {},
        "runs": {},
    }


def _field(name: str, kind: str, *, document: str | None = None, **more: Any) -> dict[str, Any]:
    field = {"name": name, "ftype": _FIELDS + kind, "embedded_doc_type": document, "subfield": None, "fields": []}
    return field | {"db_field": name, "description": None, "info": None, "read_only": False, "created_at": None} | more


def fiftyone_call(out: Path) -> str:
    """The line of Python that loads such a folder."""
    return f"fiftyone.Dataset.from_dir({str(out)!r}, dataset_type=fiftyone.types.FiftyOneDataset)"


# --- LightlyStudio -------------------------------------------------------------------------------------------------

# LightlyStudio reads tags off folders, but no file with metadata or classes of whole images: its Python functions do.
_LIGHTLY_SCRIPT = '''"""Show the images of this folder in LightlyStudio (1.2), with scores, labels and tags."""

import json
from pathlib import Path

import lightly_studio as ls
from lightly_studio.core.annotation import CreateClassification

HERE = Path(__file__).resolve().parent


def load(embed=True):
    """A dataset of all images, tagged `kept` or `dropped`."""
    dataset = ls.ImageDataset.create(name=HERE.name)
    dataset.add_images_from_path(path=str(HERE / "images"), tag_depth=1, embed=embed)
    lines = (HERE / "metadata.jsonl").read_text(encoding="utf-8").splitlines()
    known = {entry.pop("file"): entry for entry in map(json.loads, lines)}
    metadata = []
    for sample in dataset:
        entry = known[Path(sample.file_path_abs).relative_to(HERE).as_posix()]
        metadata.append((sample.sample_id, entry))
        if "label" in entry:
            sample.add_annotation(CreateClassification(class_name=entry["label"]), annotation_source="ground_truth")
    dataset.update_metadata(metadata)
    return dataset


if __name__ == "__main__":
    load()
    ls.start_gui()
'''


def write_lightly(content: ExportContent, out: Path) -> None:
    """Images in `images/kept` and `images/dropped`, `metadata.jsonl` about them, and a script that shows them."""
    root = common_folder(content.image_source())
    written: set[str] = set()
    with (out / "metadata.jsonl").open("w", encoding="utf-8") as lines:
        for file, _, known in content.track(_examples(content), "writing images", total=len(content.scores)):
            place = Path("images", "kept" if known["keep"] else "dropped", file.relative_to(root)).as_posix()
            if place not in written:  # a list may name an image twice
                content.place(file, out / place)
                lines.write(json.dumps({"file": place} | known) + "\n")
            written.add(place)
    (out / "show.py").write_text(_LIGHTLY_SCRIPT, encoding="utf-8")


def lightly_command(out: Path) -> str:
    """The command that shows such a folder."""
    return f"python {quoted(out / 'show.py')}"


# --- Embedding Atlas -----------------------------------------------------------------------------------------------

_NEIGHBOURS = 15  # with the example itself, as Embedding Atlas has them
_NEIGHBOUR_ROWS = 2_000_000  # above, neighbours are left out: Embedding Atlas could hardly show so many


def write_atlas(content: ExportContent, out: Path) -> None:
    """A Parquet file of the manifest with the columns `x`, `y` and `neighbors`, for Apple's Embedding Atlas."""
    opened = content.open()
    assert isinstance(opened.source, VectorSource)
    order = np.empty(len(content.scores), np.int64)
    order[opened.examples] = opened.rows
    vectors = opened.source.gather(order)
    points = project(vectors, seed=int(content.scores.provenance.get("seed", 0)), track=content.track)
    table = manifest_table(content.scores, content.keep)
    for name, column in (("x", points[:, 0]), ("y", points[:, 1])):
        table = table.append_column(name, pa.array(column))
    if len(vectors) <= _NEIGHBOUR_ROWS:
        table = table.append_column("neighbors", _neighbours(vectors, content.track))
    else:
        content.warn(f"neighbours are left out: these are {len(vectors):,} examples, more than {_NEIGHBOUR_ROWS:,}.")
    pq.write_table(table.replace_schema_metadata(None), out, compression="zstd")


def _neighbours(vectors: NDArray[np.float32], track: Track) -> pa.Array:
    """The nearest rows to each by cosine distance, itself first: `{"ids": [0, 7], "distances": [0.0, 0.1]}`."""
    ids, distances = near_examples(vectors, _NEIGHBOURS, track=track)
    offsets = np.arange(len(ids) + 1, dtype=np.int32) * ids.shape[1]
    columns = [pa.ListArray.from_arrays(offsets, pa.array(values.ravel())) for values in (ids, distances)]
    return pa.StructArray.from_arrays(columns, ["ids", "distances"])


def atlas_command(out: Path) -> str:
    """The command that shows such a file."""
    neighbours = " --neighbors neighbors" if "neighbors" in pq.read_schema(out).names else ""
    return f"embedding-atlas {quoted(out)} --x x --y y{neighbours}"
