"""Weights of networks: where downloaded ones are, what to say if they cannot be fetched, and reading checkpoints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from paredown.errors import PareError
from paredown.reading import explain, reading

if TYPE_CHECKING:
    import torch

_PATIENCE = 5.0  # seconds for the answer to one small request

# What self-supervised methods put behind the trunk, and classifiers: not part of the embedding.
HEADS = ("fc.", "head.", "projection_head.", "projector.", "prototypes.", "predictor.", "classifier.")
_WRAPPERS = ("state_dict", "model", "model_state_dict", "network", "teacher", "student", "encoder", "backbone")
_PREFERRED = ("teacher", "encoder_q", "backbone", "student", "encoder")  # of several copies of the trunk


class DownloadError(PareError):
    """Pretrained weights could not be fetched: what failed, and what to do offline."""

    def __init__(self, failure: str, offline: str) -> None:
        super().__init__(f"{failure} Offline: {offline}.")
        self.failure = failure


@contextmanager
def downloads(what: str, offline: str) -> Iterator[None]:
    """Turn whatever a library raises when it cannot fetch weights into one message with a way out."""
    try:
        yield
    except (PareError, ImportError):
        raise
    except Exception as error:
        what = f"{what}: its pretrained weights could not be loaded ({explain(error)})."
        raise DownloadError(what, offline) from error


def check_reachable(repository: str) -> None:
    """Raise `ConnectionError` if the weights of `owner/name` are not in the local cache and the hub does not answer.

    The hub's client tries every file six times and waits longer and longer in between, which takes most of a minute
    without a network; one short question comes first. Any answer will do: what it has to say about the weights is left
    to the library that loads them.
    """
    from huggingface_hub import constants, get_session

    folder = Path(constants.HF_HUB_CACHE) / f"models--{repository.partition('@')[0].replace('/', '--')}"
    if any(folder.glob("snapshots/*/*")):
        return
    try:
        get_session().head(constants.ENDPOINT, timeout=_PATIENCE)
    except Exception as error:  # the client's own types for no route, no name, no time and offline mode
        raise ConnectionError(f"{constants.ENDPOINT} does not answer: {explain(error)}") from error


def hub_folder() -> Path:
    """The folder of `torch.hub`, as torch finds it; importing torch for it would take seconds."""
    torch = sys.modules.get("torch")
    if torch is not None:
        return Path(torch.hub.get_dir())
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return Path(os.environ.get("TORCH_HOME", f"{cache}/torch")).expanduser() / "hub"


def read_checkpoint(path: Path) -> dict[str, torch.Tensor]:
    """The tensors in a checkpoint, never unpickling anything else."""
    import torch

    with reading(path, "checkpoint of weights alone"):
        if path.suffix == ".safetensors":
            from safetensors.torch import load_file

            return load_file(path)
        content = torch.load(path, map_location="cpu", weights_only=True)
    while isinstance(content, dict) and not any(isinstance(value, torch.Tensor) for value in content.values()):
        inner = next((content[key] for key in _WRAPPERS if isinstance(content.get(key), dict)), None)
        if inner is None:
            break
        content = inner
    tensors = {key: v for key, v in content.items() if isinstance(v, torch.Tensor)} if isinstance(content, dict) else {}
    if not tensors:
        raise PareError(f"{path}: holds no weights; a dictionary of tensors is needed, as `model.state_dict()` gives.")
    return tensors


def strip_prefix(state: dict[str, torch.Tensor], landmark: str, *, where: str) -> dict[str, torch.Tensor]:
    """The weights under the prefix (`module.`, `encoder_q.`, `backbone.`, ...) that precedes a known name.

    Where several copies of the trunk are kept, the one meant for use: the teacher, the query encoder.
    """
    prefixes = sorted(key.removesuffix(landmark) for key in state if key.endswith(landmark))
    if not prefixes:
        shown = ", ".join(list(state)[:3])
        raise PareError(f"{where}: not a ResNet-50; no weight is named ...{landmark}, but {shown}, ...")
    best = min(prefixes, key=lambda p: next((i for i, word in enumerate(_PREFERRED) if word in p), len(_PREFERRED)))
    return {key.removeprefix(best): value for key, value in state.items() if key.startswith(best)}


def load_state(model: torch.nn.Module, state: dict[str, torch.Tensor], where: str) -> None:
    """Load weights that must fit exactly; what is missing, unexpected or of another shape is named."""
    own = model.state_dict()
    classifier = [key for key in state if key not in own and key.startswith(HEADS)]
    state = {key: value for key, value in state.items() if key not in classifier}
    problems = {
        "missing": [key for key in own if key not in state and not key.endswith("num_batches_tracked")],
        "unexpected": [key for key in state if key not in own],
        "of another shape": [key for key in state if key in own and state[key].shape != own[key].shape],
    }
    found = [f"{len(keys)} {what} (e.g. {', '.join(keys[:3])})" for what, keys in problems.items() if keys]
    if found:
        raise PareError(f"{where}: its weights do not fit the model: {'; '.join(found)}.")
    model.load_state_dict(state, strict=False)
