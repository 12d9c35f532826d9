"""Networks by name. Each takes the shape of an input, (d,) or (height, width, channels), and the number of classes.

Inputs are standardised inside the network, by the mean and deviation of the rows it is trained on and of no others:
what is held out stays unseen, and a trained network takes inputs as they are stored.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.embeddings.encoders.base import IMAGENET_MEAN, IMAGENET_STD
from paredown.embeddings.encoders.pretrained import libraries
from paredown.embeddings.encoders.torchvision_on_cpu import import_torchvision
from paredown.embeddings.encoders.weights import downloads, load_state, read_checkpoint
from paredown.errors import PareError, check_known
from paredown.places import as_place
from paredown.training.examples import TrainingSet
from paredown.training.recipes import Recipe

if TYPE_CHECKING:
    import torch

_SAMPLE = 5_000  # images that their mean and deviation are taken from

Shape = tuple[int, ...]


class Statistics(NamedTuple):
    """Mean and deviation of every dimension of features, or of every channel of images (in [0, 255])."""

    mean: NDArray[np.float32]
    deviation: NDArray[np.float32]


def input_statistics(examples: TrainingSet, rows: NDArray[np.int64], *, size: int | None = None) -> Statistics:
    """Of the given rows alone; for images, of at most 5,000 of them, evenly spaced."""
    if size is not None:
        rows = rows[:: -(-len(rows) // _SAMPLE)]
    count, total, squares = 0, np.zeros(examples.shape[-1]), np.zeros(examples.shape[-1])
    for batch in examples.batches(np.array_split(rows, -(-len(rows) // 128)), size=size):
        values = batch.reshape(-1, batch.shape[-1]).astype(np.float64)
        count += len(values)
        total, squares = total + values.sum(axis=0), squares + np.square(values).sum(axis=0)
    mean = total / count
    deviation = np.sqrt(np.maximum(squares / count - mean**2, 0))
    flat = deviation <= 1e-6 * np.maximum(np.abs(mean), 1e-30)  # a constant dimension, but for rounding
    return Statistics(mean.astype(np.float32), np.where(flat, 1, deviation).astype(np.float32))


def build_network(recipe: Recipe, examples: TrainingSet, rows: NDArray[np.int64], *, seed: int) -> torch.nn.Module:
    """The recipe's network with its first weights, for the rows that it will be trained on.

    The seed decides the weights; torch's own random state is left as it was.
    """
    import torch
    from torch import nn

    size = recipe.image_size if recipe.inputs == "images" else None
    given = {1: "features"}.get(len(examples.shape), "images")
    if given != recipe.inputs:
        raise PareError(f"recipe {recipe.name!r} trains on {recipe.inputs}, and the examples are {given}.")
    if size is not None and min(examples.shape[:2]) < size:
        raise PareError(
            f"recipe {recipe.name!r} takes images of {size} x {size} pixels, and the examples are "
            f"{examples.shape[0]} x {examples.shape[1]}; load them with this recipe, or change its image_size."
        )
    shape = examples.shape if size is None else (size, size, examples.shape[2])
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        network, own = _make(recipe, shape, len(examples.classes))
    statistics = input_statistics(examples, rows, size=size) if own is None else own
    model = nn.Sequential(OrderedDict(standardise=_standardise(statistics, shape), network=network))
    if recipe.pretrained is not None and not recipe.network.startswith("timm:"):
        _load_pretrained(model, as_place(recipe.pretrained))
    return model


def _make(recipe: Recipe, shape: Shape, n_classes: int) -> tuple[torch.nn.Module, Statistics | None]:
    """The network, and the statistics that pretrained weights come with."""
    name, options = recipe.network, dict(recipe.network_options)
    if name.startswith("timm:"):
        return _timm(name.removeprefix("timm:"), shape, n_classes, pretrained=recipe.pretrained, **options)
    check_known("network", name, [*NETWORKS, "timm:NAME"])
    try:
        return NETWORKS[name](shape, n_classes, **options), None
    except TypeError as error:
        raise PareError(f"network {name!r} does not take the options {options}: {error}.") from error


def _standardise(statistics: Statistics, shape: Shape) -> torch.nn.Module:
    import torch
    from torch import nn

    class Standardise(nn.Module):
        """(x - mean) / deviation, of features or of each channel of images."""

        mean: torch.Tensor
        deviation: torch.Tensor

        def __init__(self) -> None:
            super().__init__()
            across = (-1,) if len(shape) == 1 else (-1, 1, 1)
            self.register_buffer("mean", torch.tensor(statistics.mean).reshape(across))
            self.register_buffer("deviation", torch.tensor(statistics.deviation).reshape(across))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return (x.float() - self.mean) / self.deviation

    return Standardise()


# --- features ------------------------------------------------------------------------------------------------------


def _linear(shape: Shape, n_classes: int) -> torch.nn.Module:
    from torch import nn

    return nn.Linear(shape[0], n_classes)


def _mlp(shape: Shape, n_classes: int, *, hidden: Sequence[int] = (128, 128)) -> torch.nn.Module:
    from torch import nn

    sizes = [shape[0], *hidden]
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(sizes):
        layers += [nn.Linear(inputs, outputs), nn.ReLU()]
    return nn.Sequential(*layers, nn.Linear(sizes[-1], n_classes))


# --- images --------------------------------------------------------------------------------------------------------


def _tiny_cnn(shape: Shape, n_classes: int, *, width: int = 16) -> torch.nn.Module:
    """Three convolutions, each followed by halving the resolution and doubling the channels."""
    from torch import nn

    _at_least(shape, 8, "tiny_cnn")
    channels = [shape[2], width, 2 * width, 4 * width]
    layers: list[nn.Module] = []
    for inputs, outputs in pairwise(channels):
        layers += [
            nn.Conv2d(inputs, outputs, 3, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
    flat = channels[-1] * (shape[0] // 8) * (shape[1] // 8)
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(flat, n_classes))


def _slim_resnet(
    shape: Shape, n_classes: int, *, widths: Sequence[int] = (16, 32, 64), blocks: int = 1
) -> torch.nn.Module:
    """He et al.'s residual network with basic blocks and a 3 x 3 stem, as is usual for 32 x 32 pixels.

    ResNet-8 with one block a stage, ResNet-20 with three.
    """
    import torch
    from torch import nn

    def convolution(inputs: int, outputs: int, kernel: int, stride: int) -> list[nn.Module]:
        layer = nn.Conv2d(inputs, outputs, kernel, stride, padding=kernel // 2, bias=False)
        nn.init.kaiming_normal_(layer.weight, mode="fan_out", nonlinearity="relu")
        return [layer, nn.BatchNorm2d(outputs)]

    class Block(nn.Module):
        def __init__(self, inputs: int, outputs: int, stride: int) -> None:
            super().__init__()
            first = convolution(inputs, outputs, 3, stride)
            self.path = nn.Sequential(*first, nn.ReLU(), *convolution(outputs, outputs, 3, 1))
            straight = stride == 1 and inputs == outputs
            self.skip = nn.Identity() if straight else nn.Sequential(*convolution(inputs, outputs, 1, stride))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu(self.path(x) + self.skip(x))

    layers: list[nn.Module] = [*convolution(shape[2], widths[0], 3, 1), nn.ReLU()]
    inputs = widths[0]
    for stage, outputs in enumerate(widths):
        for block in range(blocks):
            layers.append(Block(inputs, outputs, 2 if stage > 0 and block == 0 else 1))
            inputs = outputs
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, n_classes))


def _resnet18(shape: Shape, n_classes: int) -> torch.nn.Module:
    """ResNet-18 for small images. The paper says "a standard ResNet-18" and not which stem; 3 x 3 is the habit here."""
    return _slim_resnet(shape, n_classes, widths=(64, 128, 256, 512), blocks=2)


def _resnet50(shape: Shape, n_classes: int) -> torch.nn.Module:
    """Torchvision's ResNet-50; grey images are taken by a stem of one channel."""
    from torch import nn

    _at_least(shape, 32, "resnet50")
    with libraries("network 'resnet50'"):
        model = import_torchvision().models.resnet50(num_classes=n_classes)
    if shape[2] != 3:
        model.conv1 = nn.Conv2d(shape[2], 64, 7, 2, padding=3, bias=False)
    return model


def _timm(
    name: str, shape: Shape, n_classes: int, *, pretrained: str | None, **options: Any
) -> tuple[torch.nn.Module, Statistics | None]:
    """Any timm model; pretrained ones come with the mean and deviation that they were trained with."""
    with libraries(f"network 'timm:{name}'"):
        import_torchvision()
        import timm
    if not timm.is_model(name.partition(".")[0]):
        raise PareError(f"unknown timm model {name!r}; `timm.list_models()` names those there are.")
    if pretrained not in (None, "timm"):
        raise PareError(f"network 'timm:{name}': pretrained weights come from 'timm', got {pretrained!r}.")
    hub = getattr(timm.get_pretrained_cfg(name), "hf_hub_id", None) or name
    offline = f"fetch {hub} on a machine with network access and copy its folder of the Hugging Face cache here"
    options |= {"num_classes": n_classes, "in_chans": shape[2]}
    if pretrained is None:
        return timm.create_model(name, pretrained=False, **options), None
    with downloads(f"network 'timm:{name}'", f"{offline}; or train from scratch with pretrained=None"):
        model = timm.create_model(name, pretrained=True, **options)
    config: Any = model.pretrained_cfg
    scale = lambda key: 255 * np.array(config[key], np.float32)
    own = Statistics(scale("mean"), scale("std"))
    return model, own if shape[2] == 3 else Statistics(*(values.mean(keepdims=True) for values in own))


NETWORKS: dict[str, Callable[..., torch.nn.Module]] = {
    "linear": _linear,
    "mlp": _mlp,
    "tiny_cnn": _tiny_cnn,
    "slim_resnet": _slim_resnet,
    "resnet18": _resnet18,
    "resnet50": _resnet50,
}


def _at_least(shape: Shape, pixels: int, name: str) -> None:
    if min(shape[:2]) < pixels:
        raise PareError(f"network {name!r} takes images of at least {pixels} x {pixels} pixels, got {shape[:2]}.")


def _load_pretrained(model: torch.nn.Module, file: Path) -> None:
    """First weights from a file: one that `Trained.save_weights` wrote, or a state dict of the network alone.

    The last layer is left as it is where the file has none, or one for another number of classes. A plain state dict
    brings ImageNet's mean and deviation.
    """
    import torch

    if not file.is_file():
        raise PareError(f"pretrained weights {file}: there is no such file.")
    state, own = read_checkpoint(file), model.state_dict()
    if "standardise.mean" not in state:
        state = {f"network.{key}": value for key, value in state.items()}
        state["standardise.mean"] = 255 * torch.tensor(IMAGENET_MEAN)[:, None, None]
        state["standardise.deviation"] = 255 * torch.tensor(IMAGENET_STD)[:, None, None]
    *_, last = (key.rpartition(".")[0] for key in own if key.endswith(".weight"))
    if f"{last}.weight" not in state or state[f"{last}.weight"].shape != own[f"{last}.weight"].shape:
        state |= {key: value for key, value in own.items() if key.startswith(f"{last}.")}
    load_state(model, state, f"pretrained weights {file}")
