"""Recipes: everything that decides how a network is trained, as frozen values.

The first five are the paper's own (appendix on experimental details); the others are of a size for a CPU. A pruned
subset is trained by the same recipe as the whole, so that a comparison compares data and nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from typing import Any, Literal

from paredown.errors import PareError, check_known
from paredown.option_types import check_fields


@dataclass(frozen=True)
class Recipe:
    """How one network is trained; `probe_*` says how those are trained that only score examples."""

    name: str
    network: str  # a name in `paredown.training.networks.NETWORKS`
    inputs: Literal["features", "images"]
    epochs: int
    batch_size: int
    optimizer: Literal["sgd", "adam", "rmsprop"]
    learning_rate: float
    network_options: Mapping[str, Any] = field(default_factory=dict)
    micro_batch: int | None = None  # examples that the network is given at once; gradients add up to those of the batch
    momentum: float = 0.0
    nesterov: bool = False
    weight_decay: float = 0.0
    schedule: Literal["constant", "steps", "cosine"] = "constant"
    milestones: tuple[int, ...] = ()  # epochs after which the learning rate is divided by `decay`
    decay: float = 1.0
    warmup: float = 0.0  # share of the steps in which the learning rate rises to its value
    augment: Literal["none", "crop_flip", "crop", "imagenet"] = "none"
    image_size: int | None = None
    precision: Literal["float32", "bfloat16"] = "float32"  # bfloat16 only where the processor is fast at it
    channels_last: bool = False
    pretrained: str | None = None  # where the first weights come from, for fine-tuning
    probe_epochs: int = 10
    probe_steps: int = 0  # that a probe takes at least, however few examples there are
    probe_members: int = 10

    def but(self, **changes: Any) -> Recipe:
        """This recipe with some settings changed; unknown ones raise."""
        known = [entry.name for entry in fields(self)]
        for name in changes:
            check_known("setting of a recipe", name, known)
        return replace(self, **changes)

    def settings(self) -> dict[str, Any]:
        """All settings as plain values, for provenance and for comparing two runs."""
        return asdict(self)


_RESNET18 = Recipe(
    "resnet18",
    network="resnet18",
    inputs="images",
    image_size=32,
    epochs=200,
    batch_size=128,
    optimizer="sgd",
    learning_rate=0.1,
    momentum=0.9,
    nesterov=True,
    weight_decay=5e-4,
    schedule="steps",
    milestones=(60, 120, 160),
    decay=5.0,
    augment="crop_flip",
    channels_last=True,
    probe_epochs=20,
)
_FINETUNE = Recipe(
    "resnet50_finetune",  # give the weights: find_recipe("resnet50_finetune", pretrained=FILE)
    network="resnet50",
    inputs="images",
    image_size=224,  # the paper does not say; that of the pretraining
    epochs=10,
    batch_size=128,
    optimizer="rmsprop",
    learning_rate=1e-4,
    channels_last=True,
    probe_epochs=2,
)
_MLP = Recipe(
    "mlp",
    network="mlp",
    network_options={"hidden": (128, 128)},
    inputs="features",
    epochs=20,
    batch_size=128,
    optimizer="adam",
    learning_rate=1e-3,
    schedule="cosine",
    probe_epochs=5,
    probe_steps=400,
)
_TINY_CNN = Recipe(
    "tiny_cnn",
    network="tiny_cnn",
    network_options={"width": 16},
    inputs="images",
    image_size=28,
    epochs=10,
    batch_size=128,
    optimizer="adam",
    learning_rate=2e-3,
    schedule="cosine",
    precision="bfloat16",
    channels_last=True,
    probe_epochs=3,
    probe_steps=300,
    probe_members=5,
)

RECIPES: dict[str, Recipe] = {
    recipe.name: recipe
    for recipe in (
        _RESNET18,
        _RESNET18.but(name="resnet18_svhn", augment="crop", probe_epochs=40),
        Recipe(
            "resnet50",
            network="resnet50",
            inputs="images",
            image_size=224,
            epochs=105,
            batch_size=2048,
            optimizer="sgd",
            micro_batch=256,  # as much as each of the paper's eight GPUs
            learning_rate=0.8,  # the base rate 0.1 for 256 images, scaled to 8 x 256
            momentum=0.9,
            nesterov=True,
            weight_decay=1e-3,
            schedule="steps",
            milestones=(30, 60, 90, 100),
            decay=10.0,
            augment="imagenet",
            channels_last=True,
            probe_epochs=20,
            probe_members=20,
        ),
        _FINETUNE,
        _FINETUNE.but(
            name="vit",
            network="timm:vit_base_patch16_224.augreg_in21k",
            optimizer="adam",
            learning_rate=1e-5,
            channels_last=False,
            pretrained="timm",
        ),
        _MLP,
        _MLP.but(name="linear", network="linear", network_options={}, learning_rate=5e-3),
        _TINY_CNN,
        _TINY_CNN.but(name="micro_cnn", image_size=16, epochs=6),
        _TINY_CNN.but(
            name="slim_resnet",
            network="slim_resnet",
            network_options={"widths": (16, 32, 64)},
            image_size=32,
            epochs=20,
            optimizer="sgd",
            learning_rate=0.2,
            momentum=0.9,
            nesterov=True,
            weight_decay=5e-4,
            warmup=0.1,
            augment="crop_flip",
        ),
    )
}


def find_recipe(recipe: str | Recipe, **changes: Any) -> Recipe:
    """A recipe by its name in `RECIPES`, or the one given, with some settings changed."""
    if isinstance(recipe, str):
        check_known("recipe", recipe, RECIPES)
        recipe = RECIPES[recipe]
    recipe = recipe.but(**changes)
    check_fields(recipe, f"recipe {recipe.name!r}:")
    for name in ("epochs", "batch_size", "micro_batch", "probe_epochs", "probe_members"):
        value = getattr(recipe, name)
        if value is not None and value < 1:
            raise PareError(f"{name} of a recipe must be at least 1, got {value}.")
    return recipe
