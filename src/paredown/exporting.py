"""From a manifest to what a training job reads: lists, index arrays, dataset folders, tars and image folders."""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import tarfile
from collections.abc import Callable
from contextlib import ExitStack
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError, check_known, check_least
from paredown.files import check_apart, check_output, finished_request, is_own, locked, new_output
from paredown.ids import hash_ids
from paredown.progress import Track, silent
from paredown.reading import check_regular
from paredown.records import digest
from paredown.score_files import read_manifest
from paredown.scored_data import open_scored_data
from paredown.scores import Labels
from paredown.selection import Selection
from paredown.sources import Source, VectorSource

# Other names people give the exports.
_ALIASES = {
    "datacomp": "uids",
    "datasets": "huggingface",
    "folder": "images",
    "hf": "huggingface",
    "list": "ids",
    "npy": "indices",
    "tar": "webdataset",
    "txt": "ids",
    "wds": "webdataset",
}

# Suffixes by which others tell what is in a file.
_FORMATS = (".arrow", ".csv", ".json", ".jsonl", ".npy", ".npz", ".parquet", ".pt", ".tar", ".tsv", ".txt", ".zip")

Link = Literal["copy", "hard", "symbolic"]


class _Kept(NamedTuple):
    """What is exported: the kept examples, and how to reach the data they belong to."""

    ids: NDArray[Any]
    indices: NDArray[np.int64]  # rows of the manifest
    labels: Labels | None
    open: Callable[[], tuple[Source, NDArray[np.int64]]]  # the source, and the kept rows of it
    link: Link
    shard_size: int
    track: Track
    warn: Callable[[str], object]


def export(
    manifest: str | Path | Selection,
    *,
    to: str,
    out: str | Path,
    source: str | Path | Source | None = None,
    ids: ArrayLike | None = None,
    link: Link = "copy",
    shard_size: int = 10_000,
    overwrite: bool = False,
    trust_source: bool = False,
    track: Track = silent,
    warn: Callable[[str], object] = lambda _: None,
) -> int:
    """Write the kept examples in another form and return how many there are.

    Args:
        manifest: what `select` or `prune` returned, a `manifest.parquet`, or the folder that `prune` wrote.
        to: a name in `EXPORTS`.
        out: the file or folder to write.
        source: where the data are now, if they moved since they were scored.
        ids: the ids, if they were given by hand when the data were scored.
        link: for `images`: `copy` the files, or make `hard` or `symbolic` links.
        shard_size: for `webdataset`: examples per tar.
        overwrite: replace an existing `out`.
        trust_source: take the data although they are not those that were scored, by their fingerprint.
        track: reports progress.
        warn: called with warnings, such as how many images lie outside the folder of the list that names them.
    """
    check_export(to, out)
    check_known("link", link, get_args(Link))
    check_least(1, shard_size=shard_size)
    out, folder = Path(out), EXPORTS[to].folder
    read = [] if isinstance(manifest, Selection) else [manifest]
    if overwrite or not is_own(out):  # one's own may be finished by the same export, see below
        check_output(out, overwrite=overwrite, folder=folder, sources=read)
    scores, keep = (manifest.scores, manifest.keep) if isinstance(manifest, Selection) else read_manifest(manifest)
    kept_ids = scores.ids[keep]
    labels = None if scores.labels is None else scores.labels[keep]

    @lru_cache(maxsize=1)
    def open_again() -> tuple[Source, NDArray[np.int64]]:
        opened, rows = open_scored_data(
            scores.provenance, kept_ids, source=source, ids=ids, trust_source=trust_source, what="kept ids"
        )
        check_apart(out, opened.places(), folder=folder)
        return opened, np.sort(rows)

    asked = {"kept": _digest_of_kept(scores.ids, keep, labels), "to": to, "link": link, "shards": shard_size}
    if EXPORTS[to].of_data:  # which must be those of before, at the same place, for the export to be the same
        data = open_again()[0]
        asked |= {"source": [data.provenance()["location"], *data.identity()]}
    request = digest(asked)
    kept = _Kept(kept_ids, np.flatnonzero(keep), labels, open_again, link, shard_size, track, warn)
    with locked(out):
        if not overwrite and finished_request(out) == request:
            return len(kept_ids)  # by the same export, before
        with new_output(out, overwrite=overwrite, folder=folder, sources=read, request=request) as part:
            EXPORTS[to].write(kept, part)
    return len(kept.ids)


def check_export(name: str, out: str | Path) -> None:
    """Raise if there is no such export, or if the output is named like a file of another format."""
    check_known("export", name, EXPORTS, aliases=_ALIASES)
    given, suffix = Path(out).suffix.lower(), EXPORTS[name].suffix
    if given in _FORMATS and given != suffix:
        expected = f"end its name in {suffix}" if suffix else "name a folder"
        raise PareError(f"'{name}' writes {EXPORTS[name].summary}, but the output is {out}; {expected}.")


def _digest_of_kept(ids: NDArray[Any], keep: NDArray[np.bool_], labels: Labels | None) -> str:
    known = hashlib.sha256(hash_ids(ids, seed=0).tobytes() + keep.tobytes())
    if labels is not None:
        known.update("\0".join(labels.classes).encode() + labels.codes.tobytes())
    return known.hexdigest()


# --- lists and arrays ----------------------------------------------------------------------------------------------


def _write_ids(kept: _Kept, out: Path) -> None:
    _write_lines([str(name) for name in kept.ids.tolist()], out, "id")


def _write_paths(kept: _Kept, out: Path) -> None:
    files, rows = _files(kept)
    _write_lines([os.path.abspath(files[row]) for row in rows], out, "path")


def _write_lines(lines: list[str], out: Path, what: str) -> None:
    broken = next((line for line in lines if "\n" in line or "\r" in line), None)
    if broken is not None:
        raise PareError(
            f"{what} {broken!r} holds a line break, so a list with one {what} per line would be misread; "
            "export 'indices' instead, or read the manifest itself."
        )
    out.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _write_indices(kept: _Kept, out: Path) -> None:
    with out.open("wb") as stream:
        np.save(stream, kept.indices)


def _write_uids(kept: _Kept, out: Path) -> None:
    """DataComp's subset files: 128-bit hexadecimal uids as pairs of unsigned 64-bit numbers, sorted."""
    names = [str(name) for name in kept.ids]
    wrong = next((name for name in names if not re.fullmatch(r"[0-9a-fA-F]{32}", name)), None)
    if wrong is not None:
        raise PareError(f"DataComp uids are 32 hexadecimal digits, and id {wrong!r} is not; export 'ids' instead.")
    pairs = np.array([(int(name[:16], 16), int(name[16:], 16)) for name in names], np.dtype("u8,u8"))
    with out.open("wb") as stream:
        np.save(stream, np.sort(pairs))


# --- data ----------------------------------------------------------------------------------------------------------


def _write_images(kept: _Kept, out: Path) -> None:
    """The kept image files in the same subfolders as before."""
    files, rows = _files(kept)
    root = Path(os.path.commonpath([os.path.abspath(file.parent) for file in files]))
    place: dict[Link, Callable[[Path, Path], Any]] = {
        "copy": shutil.copy2,
        "hard": os.link,
        "symbolic": os.symlink,
    }
    written: set[Path] = set()  # a list may name an image twice
    for row in kept.track(rows, "writing images", total=len(rows)):
        file = Path(os.path.abspath(files[row]))
        if file in written:
            continue
        check_regular(file)
        written.add(file)
        target = out / file.relative_to(root)
        target.parent.mkdir(parents=True, exist_ok=True)
        place[kept.link](file, target)


def _files(kept: _Kept) -> tuple[list[Path], NDArray[np.int64]]:
    from paredown.sources.image_files import ImageFiles

    source, rows = kept.open()
    if not isinstance(source, ImageFiles):
        raise PareError(f"{source.location} ({source.kind}) has no image files; export 'ids' or 'indices' instead.")
    for text in source.warnings:
        kept.warn(text)
    return source.paths, rows


def _write_webdataset(kept: _Kept, out: Path) -> None:
    """The kept examples, all their files and in their old order, in tars of `shard_size` examples."""
    from paredown.sources.webdataset import WebDataset

    source, _ = kept.open()
    if not isinstance(source, WebDataset):
        raise PareError(
            f"{source.location} ({source.kind}) has no tars; 'webdataset' reshards the tars of a WebDataset. Export "
            "'ids' or 'indices' instead."
        )
    wanted = set(kept.ids.tolist())
    written: set[str] = set()
    with ExitStack() as stack:
        shard: tarfile.TarFile | None = None
        for member, data in kept.track(source.members(), "writing tars"):
            if member.key not in wanted:
                continue
            if shard is None or (member.key not in written and len(written) % kept.shard_size == 0):
                stack.close()
                shard = stack.enter_context(tarfile.open(out / f"{len(written) // kept.shard_size:05d}.tar", "w"))
            written.add(member.key)
            shard.addfile(member.info, io.BytesIO(data))


def _write_huggingface(kept: _Kept, out: Path) -> None:
    """A folder for `datasets.load_from_disk`: the kept rows of a dataset, or one made of images or embeddings."""
    try:
        import datasets
    except ImportError as error:
        raise PareError("Hugging Face datasets need an extra: pip install 'paredown[hf]'.") from error
    from paredown.sources.huggingface_folder import HuggingFaceImages, HuggingFaceVectors

    source, rows = kept.open()
    datasets.disable_progress_bars()
    if isinstance(source, HuggingFaceImages | HuggingFaceVectors):
        dataset = source.dataset.select(rows)
    else:
        dataset = _make_dataset(source, rows, kept.labels)
    dataset.save_to_disk(str(out))


def _make_dataset(source: Source, rows: NDArray[np.int64], labels: Labels | None) -> Any:
    import datasets
    import pyarrow as pa

    from paredown.sources.image_files import ImageFiles

    ids = source.ids[rows]
    columns: dict[str, Any] = {"id": pa.array(ids)}  # from Python numbers, unsigned ones would overflow
    features: dict[str, Any] = {"id": datasets.Value("string" if ids.dtype.kind == "T" else str(ids.dtype))}
    if isinstance(source, ImageFiles):
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


class _Export(NamedTuple):
    write: Callable[[_Kept, Path], None]
    suffix: str  # of the file; none of a folder
    of_data: bool  # whether the data are opened; the others are of the manifest alone
    summary: str

    @property
    def folder(self) -> bool:
        return not self.suffix


EXPORTS: dict[str, _Export] = {
    "ids": _Export(_write_ids, ".txt", False, "a text file with one id per line"),
    "paths": _Export(_write_paths, ".txt", True, "a text file with one image path per line"),
    "indices": _Export(_write_indices, ".npy", False, "an .npy file of row numbers, for torch.utils.data.Subset"),
    "uids": _Export(_write_uids, ".npy", False, "an .npy file of sorted u8,u8 uids, as DataComp reads them"),
    "images": _Export(_write_images, "", True, "a folder with the kept image files, copied or linked"),
    "webdataset": _Export(_write_webdataset, "", True, "a folder of tar files with the kept examples"),
    "huggingface": _Export(_write_huggingface, "", True, "a folder for datasets.load_from_disk"),
}
