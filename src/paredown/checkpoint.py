"""Long work that can be killed: finished parts on disk, found again by a second run under the same settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError, argument
from paredown.files import MARK, claim_folder, locked, mark_of, remove_folder, write_whole
from paredown.places import StorageError, as_place
from paredown.reading import read_arrays
from paredown.records import check_same, digest, json_values, read_record, write_record
from paredown.text import with_article

Arrays = dict[str, NDArray[Any]]

_KIND = "unfinished run"
SETTINGS = "settings.json"
_OF_PART = "settings_digest"  # the array by which a part says what settings it was made under


@contextmanager
def unfinished(folder: str | Path | None, *, keep: bool = False) -> Iterator[None]:
    """Hold the folder for the parts of a run while the block lasts; no other run uses it, and no other folder will do.

    It is removed when the block ends well, unless the caller keeps it until the result is safe, or if nothing came into
    it.
    """
    if folder is None:
        yield
        return
    folder = as_place(folder)
    with locked(folder):
        claim_folder(folder, _KIND, earlier=["0/settings.json", "embedded/embed.json"])
        try:
            yield
            if not keep:
                remove_folder(folder)
        finally:
            if folder.is_dir() and all(item.name == MARK for item in folder.iterdir()):
                remove_folder(folder)


def claim_parts(folder: Path) -> None:
    """Make a folder one for the finished parts of an output, or raise if it is someone else's."""
    claim_folder(folder, _KIND)


def remove_parts(folder: Path, *, output: Path) -> None:
    """Remove the finished parts of an output that is safe; a folder of anyone else under that name stays."""
    if folder.is_dir() and (mark_of(folder) or {}).get("kind") == _KIND:
        remove_folder(folder, output=output)


class Checkpoint:
    """A folder of finished parts and the settings they were made under.

    A part's file is its completion mark: it appears whole or not at all, and carries a hash of the settings. Opening
    the folder under other settings is refused, naming what differs, but for one without any part: nothing would be
    lost. A part that is damaged, or of other settings, counts as missing.
    """

    def __init__(
        self, folder: Path, settings: dict[str, Any], *, source: dict[str, Any] | None = None, trusted: bool = False
    ) -> None:
        """Open or begin a folder of parts.

        Args:
            folder: which is made with the first part if it is missing.
            settings: what the parts depend on.
            source: how to know that the data are still the same, see `Source.state`; not part of the result.
            trusted: do not look at that.
        """
        self.folder, self._digest = folder, digest(settings)
        self._settings = {**settings, "source_state": source or {}}
        self._begun = any(folder.glob("*.npz"))
        if self._begun:
            keep_settings(folder, self._settings, kind=_KIND, trusted=trusted)

    def part(self, name: str, make: Callable[[], Arrays]) -> Arrays:
        """The arrays of a part: those that an earlier run finished, or those made now, which are written."""
        done = self.load(name)
        if done is None:
            done = make()
            self.save(name, done)
        return done

    def load(self, name: str) -> Arrays | None:
        """The arrays of a finished part, or None."""
        file = self.folder / f"{name}.npz"
        if not file.exists():
            return None
        try:
            arrays = read_arrays(file, memory=None)
        except StorageError:
            raise
        except PareError:
            return None
        return arrays if str(arrays.pop(_OF_PART, "")) == self._digest else None

    def save(self, name: str, arrays: Arrays) -> None:
        """Write a finished part; with the first one, the settings."""
        if not self._begun:
            claim_folder(self.folder, _KIND, earlier=[SETTINGS])
            write_record(self.folder / SETTINGS, json_values(self._settings))
            self._begun = True
        with write_whole(self.folder / f"{name}.npz") as part, part.open("wb") as stream:
            np.savez(stream, allow_pickle=False, **arrays, **{_OF_PART: np.array(self._digest)})


def keep_settings(
    folder: Path, settings: dict[str, Any], *, kind: str, trusted: bool = False, name: str = SETTINGS
) -> None:
    """Note the settings of a folder that grows over several runs, or refuse others than those it was begun with.

    A damaged record counts as missing: what is in the folder says by itself what settings it belongs to.
    """
    claim_folder(folder, kind, earlier=[name])
    before = read_record(folder / name)
    if before is None:
        write_record(folder / name, json_values(settings))
        return
    what = f"{folder} holds {with_article(kind)}"
    state, state_now = before.pop("source_state", None), settings.get("source_state")
    now = {name: value for name, value in settings.items() if name != "source_state"}
    check_same(what, before, now, advice="Run the same command as before to finish it, or remove that folder.")
    if state is not None and not trusted:
        check_state(what, state, state_now or {})


def check_state(what: str, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise if the data changed since a run began, by what `Source.state` says of them."""
    if before != json_values(now):
        raise PareError(
            f"{what} whose data have changed since: files were modified, or ids or labels differ. Remove it to start "
            f"over; if the files were only copied or touched, continue with {argument('trust_source', True)}."
        )
