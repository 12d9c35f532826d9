"""What a verb writes, announced before it begins, so that it can be checked, and named when the verb is stopped."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from paredown.errors import PareError
from paredown.text import encodable, printable, quoted


@dataclass
class RunningCommand:
    """What a verb would leave behind if it were stopped now.

    Attributes:
        outputs: what appears whole or not at all, with what was there before.
        parts: folders in which finished parts stay, by what the parts are called.
    """

    outputs: dict[Path, tuple[int, int] | None] = field(default_factory=dict)
    parts: dict[Path, str] = field(default_factory=dict)

    def writes(
        self,
        output: Path,
        *,
        overwrite: bool,
        folder: bool = False,
        parts: Path | None = None,
        sources: Sequence[Path] = (),
    ) -> None:
        """Note an output that appears whole, and where its finished parts are until then; raise if it cannot be."""
        from paredown.files import check_apart, check_output, is_own

        _check_name(output)
        check_apart(output, sources, folder=folder)
        if overwrite or not is_own(output):  # one's own may be what the same command wrote before: found out later
            check_output(output, overwrite=overwrite, folder=folder)
        self.outputs[output] = _state(output)
        if parts is not None:
            self.parts[parts] = "finished parts"

    def grows(self, folder: Path, kind: str) -> None:
        """Note an output that grows by parts of some kind, which stay when the work stops; raise if it cannot be."""
        from paredown.files import check_output

        _check_name(folder)
        if not folder.is_dir():
            check_output(folder, overwrite=folder.exists(), folder=True)
        self.parts[folder] = kind

    def named(self) -> str:
        """The output, as the user named it; empty if there is none."""
        return str(next(iter([*self.outputs, *self.parts]), ""))

    def left(self) -> str:
        """What is saved at this moment, and the command that goes on."""
        complete = [output for output, before in self.outputs.items() if _state(output) not in (None, before)]
        places = [(place, kind) for folder, kind in self.parts.items() for place in (_replacement(folder), folder)]
        kept = [(folder, kind) for folder, kind in places if folder.is_dir() and any(folder.iterdir())]
        if complete:
            return f"{' and '.join(map(printable, complete))} is complete."
        if kept:
            (folder, kind), *_ = kept
            return f"{kind} are kept in {printable(folder)}. Resume with: {command_line()}"
        return f"nothing was written. Start again with: {command_line()}"


current = RunningCommand()  # of the verb that runs


def starts_over() -> None:
    """Forget what an earlier run in this process noted."""
    current.outputs.clear()
    current.parts.clear()


def command_line() -> str:
    """The command that is running, for a shell."""
    program = Path(sys.argv[0])
    start = [Path(sys.executable).name, "-m", "paredown"] if program.name == "__main__.py" else [program.name]
    return " ".join(quoted(part) for part in [*start, *sys.argv[1:]])


def _check_name(output: Path) -> None:
    if encodable(str(output)) != str(output):  # Parquet files and JSON could not name it
        raise PareError(f"{output}: the name of an output must be UTF-8; choose another one with -o.")


def _replacement(folder: Path) -> Path:
    """Where a store grows that is to replace the one in a folder; see `embeddings.store`, which is slow to import."""
    return folder.with_name(f".{folder.name}.new") if folder.name else folder


def _state(path: Path) -> tuple[int, int] | None:
    """What tells a file or folder from the one that was there before; None if there is none."""
    try:
        found = path.lstat()
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns
