"""Images as files: a folder (class subfolders are labels), or a list of paths."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from numpy.typing import ArrayLike

from paredown.display import shorten
from paredown.errors import PareError, argument
from paredown.places import absolute, as_place, is_remote
from paredown.reading import check_name, check_regular, damaged
from paredown.scores import Labels
from paredown.sources.base import ImageSource, Options, Skipped

IMAGE_SUFFIXES = frozenset({".png", ".jpg", ".jpeg", ".webp", ".bmp", ".gif", ".tif", ".tiff", ".ppm", ".pgm"})


class ImageFiles(ImageSource):
    """Images that are files, on a disk or in an object store."""

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

    def part(self, rows: range) -> ImageFiles:
        here = slice(rows.start, rows.stop)
        return ImageFiles(self.location, self.kind, self.paths[here], ids=self.ids[here], labels=self.labels_of(here))

    def __getstate__(self) -> dict[str, Any]:
        """To be sent to a process that may run in another folder."""
        return self.__dict__ | {"paths": [str(absolute(path)) for path in self.paths]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state | {"paths": [as_place(path) for path in state["paths"]]})

    def disk_files(self) -> Iterable[Path]:
        return (path for path in self.paths if (path.is_file() if is_remote(path) else os.path.isfile(path)))


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
        [found.objects[name] if is_remote(path) else path / name for name in names],
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
    objects: dict[str, Path]  # of the images, where they are in an object store


class _Entry(NamedTuple):
    """What is directly in a folder."""

    name: str
    is_folder: bool
    is_plain: bool = True  # a regular file, known without asking the file system again
    place: Any = None  # of an object


_LookInto = Callable[[str], list[_Entry]]  # what is in a folder below, in no order


def _list_images(path: Path) -> _Listing:
    """Walk a folder, through links too; in the order of names, so that links to one folder are always taken alike."""
    listing = _Listing([], [], [], [], {})
    look_into = _on_disk(path) if not is_remote(path) else _in_store(path, listing)
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        below: list[str] = []
        for entry in sorted(look_into(folder), key=lambda entry: entry.name):
            name = f"{folder}/{entry.name}" if folder else entry.name
            if entry.is_folder:
                hidden = _is_hidden(entry.name)
                (listing.ignored if hidden else below).append(name)
            elif not entry.name.startswith(".") and is_image(entry.name):
                _list_file(path, name, entry, listing)
        listing.folders.extend(below)
        waiting.extend(reversed(below))
    return listing


def _is_hidden(folder: str) -> bool:
    return folder.startswith(".") or folder in _SYSTEM


def is_image(name: str) -> bool:
    """Whether a file is an image by its name."""
    return os.path.splitext(name)[1].lower() in IMAGE_SUFFIXES


def _on_disk(path: Path) -> _LookInto:
    visited: set[str] = set()  # a link may lead back to a folder above it

    def look_into(folder: str) -> list[_Entry]:
        real = os.path.realpath(path / folder)
        if real in visited:
            return []
        visited.add(real)
        with damaged(path / folder, "folder of images", remedy="Check its permissions."), os.scandir(real) as entries:
            return [_Entry(e.name, _is_folder(e), e.is_file(follow_symlinks=False)) for e in entries]

    return look_into


def _in_store(path: Any, listing: _Listing) -> _LookInto:
    """By one listing of all that is below. Folders are what names have in common, so that no empty one is known."""
    inside: dict[str, list[_Entry]] = {"": []}

    def add_folder(folder: str) -> list[_Entry]:
        if folder not in inside:
            above, _, name = folder.rpartition("/")
            inside[folder] = []
            add_folder(above).append(_Entry(name, is_folder=True))
        return inside[folder]

    for name, place in path.below():
        if not place.is_file():
            continue
        parts = name.split("/")
        if "" not in parts:
            add_folder("/".join(parts[:-1])).append(_Entry(parts[-1], is_folder=False, place=place))
        elif is_image(name) and not any(map(_is_hidden, parts[:-1])):
            why = "a part of its name is empty, which no folder on a disk has; rename it"
            listing.bad.append(Skipped(name, why))
    return lambda folder: inside[folder]


def _is_folder(entry: os.DirEntry[str]) -> bool:
    try:
        return entry.is_dir()
    except OSError:  # a link to itself
        return False


def _list_file(path: Path, name: str, entry: _Entry, listing: _Listing) -> None:
    try:
        check_name(name)
        if not entry.is_plain:
            check_regular(path / name)
        listing.images.append(name)
        if entry.place is not None:
            listing.objects[name] = entry.place
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
