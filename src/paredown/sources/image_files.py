"""Images as files: a folder (class subfolders are labels), or a list of paths."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from numpy.typing import ArrayLike

from paredown.display import shorten
from paredown.errors import PareError, argument
from paredown.reading import check_name, check_regular, damaged
from paredown.scores import Labels
from paredown.sources.base import ImageSource, Options, Skipped

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"})


class ImageFiles(ImageSource):
    """Images that are files on disk."""

    def __init__(
        self,
        location: str,
        kind: str,
        files: Sequence[Path],
        *,
        ids: ArrayLike,
        labels: ArrayLike | Labels | None,
        skipped: Sequence[Skipped] = (),
        warnings: Sequence[str] = (),
    ) -> None:
        self.paths, self.skipped, self.warnings = list(files), list(skipped), tuple(warnings)
        self._describe(location, kind, ids=ids, labels=labels)

    def files(self, first: int = 0) -> Iterator[tuple[Path | bytes, str]]:
        for path, name in zip(self.paths[first:], self.ids[first:], strict=True):
            yield path, str(name)

    def file(self, row: int) -> tuple[Path | bytes, str]:
        return self.paths[row], str(self.ids[row])

    def disk_files(self) -> Iterable[Path]:
        return (path for path in self.paths if os.path.isfile(path))


# Folder names that say which part of a data set is inside, not which class.
_TRAINING = frozenset({"train", "training"})
_HELD_OUT = frozenset({"val", "valid", "validation", "test", "testing", "dev", "eval", "evaluation"})
_SYSTEM = frozenset({"__MACOSX", "@eaDir", "$RECYCLE.BIN", "System Volume Information"})  # never data
_NAMED = 5  # folders named in a warning


def open_image_folder(path: Path, options: Options) -> ImageFiles:
    """A folder of images; ids are paths relative to it, and first-level subfolders are the labels.

    A folder that holds `train`, `val` and the like is one of several splits, and a split is then named: the subfolders
    of the split are the labels, and ids begin with its name (`train/cat/1.png`), so that no two splits share one.
    """
    found = _list_images(path)
    prefix = "" if options.split is None else f"{_chosen_split(path, options.split, found)}/"
    names = sorted(name for name in found.images if name.startswith(prefix))  # depends only on the names
    bad = [item for item in found.bad if item.what.startswith(prefix)]
    if bad and options.on_error == "raise":
        raise PareError(
            f"{path}: {len(bad)} of its image files cannot be read, e.g. {bad[0].what}: {bad[0].why}; remove or rename "
            f"them, or leave them out with {argument('on_error', 'skip')}."
        )
    if not names:
        raise PareError(
            f"{path / prefix}: the source is empty; no images ({', '.join(sorted(IMAGE_SUFFIXES))}), .npy, .parquet or "
            ".tar files are in it."
        )
    if options.split is None:
        _refuse_splits(path, names)
    inner = [name.removeprefix(prefix) for name in names]
    loose = [name for name in inner if "/" not in name]
    if loose and len(loose) < len(inner):
        raise PareError(
            f"{path / prefix}: {len(loose)} images (e.g. {loose[0]}) are next to class folders; "
            "move them into a class folder, or put all images into one flat folder."
        )
    classes = None if loose else [name.split("/", 1)[0] for name in inner]
    return ImageFiles(
        str(path),
        "image folder",
        [path / name for name in names],
        ids=names if options.ids is None else options.ids,
        labels=classes if options.labels is None else options.labels,
        skipped=bad,
        warnings=_folder_warnings(path, prefix, found, set(classes or ())),
    )


class _Listing(NamedTuple):
    """What is in a folder and the folders below it, by paths relative to it."""

    images: list[str]
    folders: list[str]
    ignored: list[str]  # hidden and system folders
    bad: list[Skipped]  # images that cannot be opened, or whose name cannot be an id


def _list_images(path: Path) -> _Listing:
    """Walk a folder, through links too; in the order of names, so that links to one folder are always taken alike."""
    listing = _Listing([], [], [], [])
    visited: set[str] = set()  # a link may lead back to a folder above it
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        real = os.path.realpath(path / folder)
        if real in visited:
            continue
        visited.add(real)
        with damaged(path / folder, "folder of images", remedy="Check its permissions."), os.scandir(real) as entries:
            ordered = sorted(entries, key=lambda entry: entry.name)
        below: list[str] = []
        for entry in ordered:
            name = f"{folder}/{entry.name}" if folder else entry.name
            if _is_folder(entry):
                hidden = entry.name.startswith(".") or entry.name in _SYSTEM
                (listing.ignored if hidden else below).append(name)
            elif not entry.name.startswith(".") and os.path.splitext(entry.name)[1].lower() in IMAGE_SUFFIXES:
                _list_file(path, name, entry, listing)
        listing.folders.extend(below)
        waiting.extend(reversed(below))
    return listing


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _list_file(path: Path, name: str, entry: os.DirEntry[str], listing: _Listing) -> None:
    try:
        check_name(name)
        if not entry.is_file(follow_symlinks=False):  # known without asking the file system again
            check_regular(path / name)
        listing.images.append(name)
    except PareError as error:
        shown = os.fsencode(name).decode("utf-8", "backslashreplace")
        listing.bad.append(Skipped(shown, str(error).split(": ", 1)[1].removesuffix(".")))


def _chosen_split(path: Path, split: str, found: _Listing) -> str:
    top = [name for name in found.folders if "/" not in name]
    if split not in top:
        has = f"its folders are {', '.join(top)}" if top else "it has no folders"
        raise PareError(f"{path}: there is no split {split!r}; {has}.")
    return split


def _refuse_splits(path: Path, names: Sequence[str]) -> None:
    """Raise if the folders are splits and not classes: pruning them together would prune the test set too.

    They are if all folders are named so, or if a `train` and a held-out folder have class folders in common. A class
    may well be called `train` or `test` among others.
    """
    inside: dict[str, set[str]] = {}  # first-level folder -> its own subfolders
    for name in names:
        top, *below = name.split("/")[:-1] or [""]
        inside.setdefault(top, set()).update(below[:1])
    splits = [top for top in inside if top.lower() in _TRAINING | _HELD_OUT]
    training = [top for top in splits if top.lower() in _TRAINING]
    held_out = [top for top in splits if top.lower() in _HELD_OUT]
    all_splits = len(splits) == len(inside) and (len(splits) > 1 or bool(inside[splits[0]]) if splits else False)
    shared = any(inside[one] & inside[other] for one in training for other in held_out)
    if all_splits or shared:
        example = (training or splits)[0]
        folders = " and ".join(filter(None, [", ".join(splits[:-1]), splits[-1]]))
        looks = "looks like a split" if len(splits) == 1 else "look like splits"
        raise PareError(
            f"{path}: {folders} {looks} of a dataset, not classes; choose one with "
            f"{argument('split', example)}, or give the folder {path / example}."
        )


def _folder_warnings(path: Path, prefix: str, found: _Listing, classes: set[str]) -> list[str]:
    ignored = [name for name in found.ignored if name.startswith(prefix)]
    top = [name.removeprefix(prefix) for name in found.folders if name.startswith(prefix)]
    empty = [name for name in top if "/" not in name and name not in classes]
    said: list[str] = []
    if ignored:
        said.append(f"{path}: hidden and system folders are not read: {shorten(ignored, _NAMED)}.")
    if empty:
        said.append(f"{path}: folders without images are not classes: {shorten(empty, _NAMED)}.")
    return said
