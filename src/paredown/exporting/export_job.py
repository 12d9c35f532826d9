"""From a manifest to what a training job or a viewer reads."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Literal, NamedTuple, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError, check_known, check_least
from paredown.exporting.content import ExportContent, Link, OpenedData
from paredown.exporting.dataset_folders import write_huggingface, write_images, write_webdataset
from paredown.exporting.lists import write_csv, write_ids, write_indices, write_paths, write_uids
from paredown.exporting.viewers import (
    atlas_command,
    fiftyone_call,
    lightly_command,
    write_atlas,
    write_fiftyone,
    write_lightly,
)
from paredown.files import check_apart, check_output, finished_request, is_own, locked, new_output
from paredown.ids import hash_ids
from paredown.places import as_place
from paredown.progress import Track, silent
from paredown.records import digest
from paredown.score_files import read_manifest
from paredown.scored_data import open_scored_data, open_scored_vectors
from paredown.scores import Scores
from paredown.selection import Selection
from paredown.sources import Source

# Other names people give the exports.
_ALIASES = {
    "datacomp": "uids",
    "datasets": "huggingface",
    "folder": "images",
    "hf": "huggingface",
    "list": "ids",
    "npy": "indices",
    "embedding-atlas": "atlas",
    "excel": "csv",
    "lightly-studio": "lightly",
    "lightlystudio": "lightly",
    "spreadsheet": "csv",
    "tar": "webdataset",
    "txt": "ids",
    "voxel51": "fiftyone",
    "wds": "webdataset",
}

# Suffixes by which others tell what is in a file.
_FORMATS = (".arrow", ".csv", ".json", ".jsonl", ".npy", ".npz", ".parquet", ".pt", ".tar", ".tsv", ".txt", ".zip")


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
    """Write the kept examples, or all of them with what is kept, in another form; return how many are in it.

    Args:
        manifest: what `select` or `prune` returned, a `manifest.parquet`, or the folder that `prune` wrote.
        to: a name in `EXPORTS`.
        out: the file or folder to write.
        source: where the data are now, if they moved since they were scored.
        ids: the ids, if they were given by hand when the data were scored.
        link: for `images` and `lightly`: `copy` the files, or make `hard` or `symbolic` links.
        shard_size: for `webdataset`: examples per tar.
        overwrite: replace an existing `out`.
        trust_source: take the data although they are not those that were scored, by their fingerprint.
        track: reports progress.
        warn: called with warnings, such as how many images lie outside the folder of the list that names them.
    """
    check_export(to, out)
    check_known("link", link, get_args(Link))
    check_least(1, shard_size=shard_size)
    out, folder = as_place(out), EXPORTS[to].folder
    read = [] if isinstance(manifest, Selection) else [manifest]
    if overwrite or not is_own(out):  # one's own may be finished by the same export, see below
        check_output(out, overwrite=overwrite, folder=folder, sources=read)
    scores, keep = (manifest.scores, manifest.keep) if isinstance(manifest, Selection) else read_manifest(manifest)
    examples = np.flatnonzero(keep) if EXPORTS[to].kept_only else np.arange(len(keep))

    @lru_cache(maxsize=1)
    def open_again() -> OpenedData:
        find = open_scored_vectors if EXPORTS[to].reads == "embeddings" else open_scored_data
        what = "kept ids" if EXPORTS[to].kept_only else "ids"
        opened, rows = find(
            scores.provenance, scores.ids[examples], source=source, ids=ids, trust_source=trust_source, what=what
        )
        check_apart(out, opened.places(), folder=folder)
        order = np.argsort(rows)
        return OpenedData(opened, rows[order], examples[order])

    asked = {"kept": _digest_of_kept(scores, keep), "to": to, "link": link, "shards": shard_size}
    if not EXPORTS[to].kept_only:  # such exports have the scores too
        clusters = b"" if scores.clusters is None else scores.clusters.tobytes()
        asked |= {"scores": hashlib.sha256(scores.values.tobytes() + clusters).hexdigest(), "metric": scores.metric}
    if EXPORTS[to].reads:  # which must be those of before, at the same place, for the export to be the same
        data = open_again().source
        asked |= {"source": [data.provenance()["location"], *data.identity()]}
    request = digest(asked)
    content = ExportContent(scores, keep, open_again, link, shard_size, track, warn)
    with locked(out):
        if not overwrite and finished_request(out) == request:
            return len(examples)  # by the same export, before
        with new_output(out, overwrite=overwrite, folder=folder, sources=read, request=request) as part:
            EXPORTS[to].write(content, part)
    return len(examples)


def check_export(name: str, out: str | Path) -> None:
    """Raise if there is no such export, or if the output is named like a file of another format."""
    check_known("export", name, EXPORTS, aliases=_ALIASES)
    given, suffix = as_place(out).suffix.lower(), EXPORTS[name].suffix
    if given in _FORMATS and given != suffix:
        expected = f"end its name in {suffix}" if suffix else "name a folder"
        raise PareError(f"'{name}' writes {EXPORTS[name].summary}, but the output is {out}; {expected}.")


def _digest_of_kept(scores: Scores, keep: NDArray[np.bool_]) -> str:
    known = hashlib.sha256(hash_ids(scores.ids, seed=0).tobytes() + keep.tobytes())
    if scores.labels is not None:
        known.update("\0".join(scores.labels.classes).encode() + scores.labels.codes[keep].tobytes())
    return known.hexdigest()


class _Export(NamedTuple):
    """One entry of `EXPORTS`.

    Attributes:
        write: makes it, as a file or in a folder that is there.
        summary: what is written.
        suffix: of the file; none of a folder.
        reads: what is opened beside the manifest: the `data`, their `embeddings`, or nothing.
        kept_only: whether it holds only what is kept; otherwise all examples, each with whether it is kept.
        next_step: what to do with it, where that is one line.
    """

    write: Callable[[ExportContent, Path], None]
    summary: str
    suffix: str = ""
    reads: Literal["", "data", "embeddings"] = ""
    kept_only: bool = True
    next_step: Callable[[Path], str] | None = None

    @property
    def folder(self) -> bool:
        return not self.suffix


EXPORTS: dict[str, _Export] = {
    "ids": _Export(write_ids, "a text file with one id per line", ".txt"),
    "paths": _Export(write_paths, "a text file with one image path per line", ".txt", "data"),
    "indices": _Export(write_indices, "an .npy file of row numbers, for torch.utils.data.Subset", ".npy"),
    "uids": _Export(write_uids, "an .npy file of sorted u8,u8 uids, as DataComp reads them", ".npy"),
    "csv": _Export(write_csv, "a .csv file of all examples: id, keep, score, label, cluster", ".csv", kept_only=False),
    "images": _Export(write_images, "a folder with the kept image files, copied or linked", reads="data"),
    "webdataset": _Export(write_webdataset, "a folder of tar files with the kept examples", reads="data"),
    "huggingface": _Export(write_huggingface, "a folder for datasets.load_from_disk", reads="data"),
    "fiftyone": _Export(
        write_fiftyone,
        "a folder for FiftyOne: all images with score, label and cluster, tagged kept or dropped",
        reads="data",
        kept_only=False,
        next_step=fiftyone_call,
    ),
    "lightly": _Export(
        write_lightly,
        "a folder for LightlyStudio: all images with score, label and cluster, tagged kept or dropped",
        reads="data",
        kept_only=False,
        next_step=lightly_command,
    ),
    "atlas": _Export(
        write_atlas,
        "a .parquet file for Embedding Atlas: all examples as points with score, label, cluster and neighbours",
        ".parquet",
        "embeddings",
        kept_only=False,
        next_step=atlas_command,
    ),
}
