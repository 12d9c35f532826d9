"""A training run that can be killed: after every epoch, all that is needed to go on as if nothing had happened."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from paredown.checkpoint import keep_settings
from paredown.errors import PareError
from paredown.files import clear_temporaries, write_whole
from paredown.places import as_place
from paredown.records import digest

if TYPE_CHECKING:
    import torch


class TrainingCheckpoint:
    """A folder with the state after the last finished epoch, and the settings that the run was begun under.

    Other settings are refused by name; a damaged state, or one of other settings, counts as missing. A new state
    replaces the old one only when it is complete, so that a full disk or a kill while it is written loses one epoch
    at most. A recorder goes along if it has `save(path)` and `resume(path)`, under a name of its own for every epoch,
    so that weights and recorder are always of the same one.
    """

    def __init__(self, folder: str | Path, settings: dict[str, Any], recorder: Any = None) -> None:
        self._folder, self._recorder = as_place(folder), recorder
        resumable = all(callable(getattr(recorder, name, None)) for name in ("save", "resume"))
        if recorder is not None and not resumable:
            raise PareError(
                "a recorder that goes with a checkpoint needs save(path) and resume(path), or what it saw before a "
                f"kill would be lost; {type(recorder).__name__} lacks them. Train without checkpoint or recorder."
            )
        keep_settings(self._folder, settings, kind="unfinished training")
        clear_temporaries(self._folder)
        self._settings = digest(settings)

    @property
    def _state(self) -> Path:
        return self._folder / "state.pt"

    def _recording(self, epochs: int) -> Path:
        return self._folder / f"recorder-{epochs:05d}.npz"

    def load(self, network: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[Any]:
        """Put network, optimizer and recorder back to the last finished epoch; returns the history up to it."""
        import torch

        if not self._state.exists():
            return []
        fresh = {"network": deepcopy(network.state_dict()), "optimizer": deepcopy(optimizer.state_dict())}
        try:
            state = torch.load(self._state, map_location="cpu", weights_only=True)
            if state.get("settings", self._settings) != self._settings:
                return []
            history = list(state["history"])
            network.load_state_dict(state["network"])
            optimizer.load_state_dict(state["optimizer"])
            if self._recorder is not None:
                recording = self._recording(len(history))
                assert recording.exists(), "the weights would go on without what was recorded"
                self._recorder.resume(recording)
        except Exception:  # torch raises many types for a damaged file: all epochs are then trained again
            network.load_state_dict(fresh["network"])
            optimizer.load_state_dict(fresh["optimizer"])
            return []
        self._drop_recordings(but=len(history))  # a kill may have come before it
        return history

    def save(self, network: torch.nn.Module, optimizer: torch.optim.Optimizer, history: list[Any]) -> None:
        """Replace the state by that of one more finished epoch."""
        import torch

        if self._recorder is not None:
            with write_whole(self._recording(len(history))) as part:
                self._recorder.save(part)
        state = {"network": network.state_dict(), "optimizer": optimizer.state_dict(), "history": history}
        state["settings"] = self._settings
        with write_whole(self._state) as part, part.open("wb") as stream:
            torch.save(state, stream)
        self._drop_recordings(but=len(history))

    def _drop_recordings(self, *, but: int) -> None:
        for old in self._folder.glob("recorder-*.npz"):
            if old != self._recording(but):
                old.unlink()
