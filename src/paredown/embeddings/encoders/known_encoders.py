"""The registry of encoders: what each is, what it needs, and whether its weights are downloaded."""

from __future__ import annotations

from dataclasses import dataclass

from paredown.errors import unknown_name


@dataclass(frozen=True)
class EncoderEntry:
    """One entry of `ENCODERS`."""

    summary: str
    needs: str  # beside `paredown[encoders]`, where that is needed
    extra: bool = True  # whether it needs `paredown[encoders]`
    downloads: bool = False  # whether its library fetches weights that are not in the cache
    takes_weights: bool = False  # whether a local file of weights can take their place
    of_file: bool = False  # whether what follows the colon is a file


# Form of the name -> entry. What is in capitals is for the user to fill in.
ENCODERS: dict[str, EncoderEntry] = {
    "auto": EncoderEntry("the best of those below that is available", "", extra=False, downloads=True),
    "swav": EncoderEntry(
        "the paper's: SwAV ResNet-50 from `torch.hub`, activations of `avgpool`, 2048 numbers",
        "network or cache",
        downloads=True,
    ),
    "dino": EncoderEntry("DINO ViT-S/16 from `torch.hub`, 384 numbers", "network or cache", downloads=True),
    "dino:NAME": EncoderEntry("another DINO model, such as `dino:dino_resnet50`", "network or cache", downloads=True),
    "timm:NAME": EncoderEntry(
        "any timm model, with timm's own preprocessing",
        "network, cache or `--weights`",
        downloads=True,
        takes_weights=True,
    ),
    "torchvision:NAME": EncoderEntry(
        "any torchvision model that ends in a linear layer",
        "network, cache or `--weights`",
        downloads=True,
        takes_weights=True,
    ),
    "open_clip:ARCH/PRETRAINED": EncoderEntry(
        "the image tower of an open_clip model; PRETRAINED is a tag or a file",
        "network, cache or a file",
        downloads=True,
    ),
    "resnet50:CHECKPOINT": EncoderEntry(
        "a local ResNet-50 checkpoint, activations of `avgpool`", "the file", of_file=True
    ),
    "onnx:FILE": EncoderEntry(
        "any ONNX file from (batch, 3, height, width) to (batch, dimensions)",
        "the file and `onnxruntime`",
        extra=False,
        of_file=True,
    ),
    "efficientnet_lite0": EncoderEntry("EfficientNet-Lite0 trained on ImageNet with labels, 1280 numbers", ""),
    "pixels": EncoderEntry(
        "whitened PCA of 32 x 32 pixels, 50 numbers: weak, enough for simple images", "nothing", extra=False
    ),
}


def find_entry(name: str) -> EncoderEntry:
    """The entry that a name such as `timm:resnet50` is of, or an error that names the nearest."""
    family, _, rest = name.partition(":")
    for form, entry in ENCODERS.items():
        if form == name or (rest and form.startswith(f"{family}:")):
            return entry
    raise unknown_name("encoder", name, ENCODERS)
