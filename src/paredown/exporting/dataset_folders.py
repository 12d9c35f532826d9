"""Exports that hold the data themselves: image folders, WebDataset tars and Hugging Face dataset folders."""

from __future__ import annotations

import io
import os
import re
import tarfile
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.exporting.content import ExportContent
from paredown.ids import hash_ids
from paredown.places import as_place, is_remote
from paredown.reading import read_bytes
from paredown.records import write_json
from paredown.scores import Labels
from paredown.sources import Source, VectorSource

if TYPE_CHECKING:
    from paredown.sources.image_files import ImageFiles
    from paredown.sources.webdataset import WebDataset

_KEY_LENGTH = 150  # characters, so that with hash and suffix it fits into a file's name


def write_images(content: ExportContent, out: Path) -> None:
    """The kept image files in the same subfolders as before."""
    files, _ = content.image_files()
    root = common_folder(content.image_source())
    for file in content.track(dict.fromkeys(files), "writing images", total=len(files)):  # a list may name one twice
        content.place(file, out / file.relative_to(root))


def common_folder(source: ImageFiles) -> Path:
    """The folder that all image files of a source are in, however deep."""
    parents = {file.parent for file in source.paths}
    if any(map(is_remote, parents)):
        protocol, keys = "", list[str]()
        for parent in parents:
            protocol, _, key = str(parent).partition("://")
            keys.append(key)
        return as_place(f"{protocol}://{os.path.commonpath(keys)}")
    return Path(os.path.commonpath([os.path.abspath(parent) for parent in parents]))


def write_webdataset(content: ExportContent, out: Path) -> None:
    """Tars of `shard_size` examples: those of a WebDataset resharded, or ones made of image files."""
    from paredown.sources.image_files import ImageFiles
    from paredown.sources.webdataset import WebDataset

    source = content.open().source
    if isinstance(source, WebDataset):
        samples: Iterator[TarMember] = _resharded(content, source)
    elif isinstance(source, ImageFiles):
        samples = _of_images(content, out)
    else:
        raise PareError(
            f"{source.location} ({source.kind}) has neither tars nor image files, of which 'webdataset' makes tars. "
            "Export 'ids' or 'indices' instead."
        )
    written: set[str] = set()
    with ExitStack() as stack:
        shard: tarfile.TarFile | None = None
        for key, info, data in content.track(samples, "writing tars"):
            if shard is None or (key not in written and len(written) % content.shard_size == 0):
                stack.close()
                shard = stack.enter_context(tarfile.open(out / f"{len(written) // content.shard_size:05d}.tar", "w"))
            written.add(key)
            shard.addfile(info, io.BytesIO(data))


TarMember = tuple[str, tarfile.TarInfo, bytes]  # with the key of its example


def _resharded(content: ExportContent, source: WebDataset) -> Iterator[TarMember]:
    """The kept examples, all their files and in their old order."""
    wanted = set(content.kept_ids.tolist())
    for member, data in source.members():
        if member.key in wanted:
            yield member.key, member.info, data


def _of_images(content: ExportContent, out: Path) -> Iterator[TarMember]:
    """`KEY.jpg` and, where there are labels, `KEY.cls` with a whole number, which is what readers expect there.

    Classes that are not whole numbers are numbered, and `classes.json` lists their names in that order.
    """
    files, (source, rows, examples) = content.image_files()
    labels = content.labels_of(examples)
    numbers: list[str] = []
    if labels is not None:
        whole = all(re.fullmatch(r"0|[1-9][0-9]*", name) for name in labels.classes)
        numbers = [*labels.classes] if whole else [str(code) for code in range(len(labels.classes))]
        if not whole:
            write_json(list(labels.classes), out / "classes.json")
    for place, (file, key) in enumerate(zip(files, tar_keys(source.ids[rows]), strict=True)):
        yield _member(key, file.suffix.lower(), read_bytes(file, "image", memory=None))
        if labels is not None:
            yield _member(key, ".cls", numbers[labels.codes[place]].encode())


def _member(key: str, suffix: str, data: bytes) -> TarMember:
    info = tarfile.TarInfo(f"{key}{suffix}")
    info.size = len(data)
    return key, info, data


def tar_keys(ids: NDArray[Any]) -> list[str]:
    """A key of letters, digits, `_` and `-` for every id: the id without its suffix, all else being `_`.

    Ids that would share a key get a hash at its end, so that keys depend neither on the order nor on each other.
    """
    stems = [re.sub(r"\.[A-Za-z0-9]{1,5}$", "", str(name)) for name in ids]
    plain = [re.sub(r"[^A-Za-z0-9_-]", "_", stem)[:_KEY_LENGTH] or "_" for stem in stems]
    seen = Counter(key.lower() for key in plain)
    hashes = hash_ids(ids, seed=0).tolist()
    return [key if seen[key.lower()] == 1 else f"{key}-{mark:016x}" for key, mark in zip(plain, hashes, strict=True)]


def write_huggingface(content: ExportContent, out: Path) -> None:
    """A folder for `datasets.load_from_disk`: the kept rows of a dataset, or one made of images or embeddings."""
    try:
        import datasets
    except ImportError as error:
        raise PareError("Hugging Face datasets need an extra: pip install 'paredown[hf]'.") from error
    from paredown.sources.huggingface_folder import HuggingFaceImages, HuggingFaceVectors

    source, rows, examples = content.open()
    datasets.disable_progress_bars()
    if isinstance(source, HuggingFaceImages | HuggingFaceVectors):
        dataset = source.dataset.select(rows)
    else:
        dataset = _make_dataset(source, rows, content.labels_of(examples))
    dataset.save_to_disk(str(out))


def _make_dataset(source: Source, rows: NDArray[np.int64], labels: Labels | None) -> Any:
    import datasets
    import pyarrow as pa

    from paredown.sources.image_files import ImageFiles

    ids = source.ids[rows]
    columns: dict[str, Any] = {"id": pa.array(ids)}  # from Python numbers, unsigned ones would overflow
    features: dict[str, Any] = {"id": datasets.Value("string" if ids.dtype.kind == "T" else str(ids.dtype))}
    if isinstance(source, ImageFiles):
        if any(is_remote(source.paths[row]) for row in rows):
            raise PareError(
                f"{source.location}: images in an object store are not exported as a Hugging Face dataset; export "
                "'webdataset' or 'images', which fetch them."
            )
        columns["image"] = [str(source.paths[row]) for row in rows]
        features["image"] = datasets.Image()
    elif isinstance(source, VectorSource):
        columns["embedding"] = source.take(rows)
        features["embedding"] = datasets.List(datasets.Value("float32"), length=source.dim)
    else:
        raise PareError(
            f"{source.location} ({source.kind}) cannot be exported as a Hugging Face dataset; export 'ids' instead."
        )
    if labels is not None:
        columns["label"] = labels.codes.tolist()
        features["label"] = datasets.ClassLabel(names=list(labels.classes))
    return datasets.Dataset.from_dict(columns, features=datasets.Features(features))
