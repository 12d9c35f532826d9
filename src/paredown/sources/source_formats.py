"""The registry of formats that sources come in: how each is recognised, who opens it, and where ids and labels are."""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from pathlib import Path

from paredown.errors import PareError
from paredown.places import is_remote
from paredown.sources.arrays import RECORD
from paredown.sources.base import Options, Source
from paredown.text import either


@dataclass(frozen=True)
class SourceFormat:
    """One entry of `FORMATS`: a file of some suffix, a folder of such files, or a folder known by what is in it."""

    summary: str  # what the user has
    opener: str  # "module.function" of this package, imported when it is needed
    ids: str  # where they come from
    labels: str
    suffix: str = ""
    shards: bool = False  # whether a folder of such files is one source
    marks: tuple[str, ...] = ()  # files of which one shows that a folder is this, whatever else is in it
    splits: bool = False  # whether `split` chooses a part
    columns: bool = False  # whether `columns` may say which column is what
    remote: bool = False  # whether it is read from object stores, too

    def open(self, path: Path, options: Options) -> Source:
        module, function = self.opener.rsplit(".", 1)
        return getattr(import_module(f"paredown.sources.{module}"), function)(path, options)


# Folders are tried in this order; one that is none of the others holds images.
FORMATS: dict[str, SourceFormat] = {
    "huggingface": SourceFormat(
        "Hugging Face dataset folder (`save_to_disk`)",
        "huggingface_folder.open_dataset_folder",
        ids="`id` column, or row number",
        labels="`label` column",
        marks=("dataset_dict.json", "dataset_info.json"),
        splits=True,
        columns=True,
    ),
    "store": SourceFormat(
        "folder that `paredown embed` wrote",
        "arrays.NpySource",
        ids="those of the images",
        labels="those of the images",
        marks=(RECORD,),
        remote=True,
    ),
    "npy": SourceFormat(
        "`.npy` file, or a folder of them",
        "arrays.NpySource",
        ids="row number; `shard:row`",
        labels="`--labels FILE`, `labels.npy` in the folder",
        suffix=".npy",
        shards=True,
        remote=True,
    ),
    "npz": SourceFormat(
        "`.npz` file",
        "arrays.open_npz",
        ids="`ids` array, or row number",
        labels="`labels` array",
        suffix=".npz",
        remote=True,
    ),
    "parquet": SourceFormat(
        "`.parquet` file, or a folder of them, with a list column of embeddings or a column of image paths",
        "table_files.open_parquet",
        ids="`id` column, or the path",
        labels="`label` column",
        suffix=".parquet",
        shards=True,
        remote=True,
        columns=True,
    ),
    "csv": SourceFormat(
        "`.csv` list of image paths",
        "table_files.open_manifest",
        ids="`id` column, or the path",
        labels="`label` column",
        suffix=".csv",
        remote=True,
        columns=True,
    ),
    "webdataset": SourceFormat(
        "WebDataset `.tar` file, or a folder of them",
        "webdataset.WebDataset",
        ids="key",
        labels="`.cls` files",
        suffix=".tar",
        shards=True,
        remote=True,
    ),
    "images": SourceFormat(
        "folder of images",
        "image_files.open_image_folder",
        ids="path in the folder",
        labels="subfolder names, if there are any",
        splits=True,
        remote=True,
    ),
}


def find_format(path: Path) -> SourceFormat:
    """The format of a file or folder."""
    if not path.is_dir():
        known = {entry.suffix: entry for entry in FORMATS.values() if entry.suffix}
        if path.suffix.lower() not in known:
            raise PareError(
                f"{path}: unsupported file type {path.suffix!r}; supported: {', '.join(known)}, and folders of images, "
                f"{either(entry.suffix for entry in FORMATS.values() if entry.shards)} files."
            )
        return known[path.suffix.lower()]
    for entry in FORMATS.values():
        if any(_holds(path, name) for name in entry.marks):
            return entry
    shards = [entry for entry in FORMATS.values() if entry.shards and any(path.glob(f"*{entry.suffix}"))]
    if [entry.suffix for entry in shards] == [".npy", ".parquet"] and _are_companions(path):
        shards = shards[:1]
    if len(shards) > 1:
        present = " and ".join(entry.suffix for entry in shards)
        raise PareError(f"{path}: it holds {present} files; which of them are the data? Give one file or folder.")
    return shards[0] if shards else FORMATS["images"]


def _holds(path: Path, name: str) -> bool:
    """Whether something is in a folder; of one in an object store by its listing, which is needed anyway."""
    return any(path.glob(name)) if is_remote(path) else (path / name).exists()


def _are_companions(path: Path) -> bool:
    """Whether every table lies beside a shard of the same name and holds no embeddings of its own: its ids, then."""
    from paredown.sources.table_files import holds_embeddings

    return not any(
        holds_embeddings(table) or not table.with_suffix(".npy").exists() for table in path.glob("*.parquet")
    )
