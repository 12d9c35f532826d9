"""A recipe for those with no pretrained encoder: a small network trained on the images themselves, without labels.

Chen, Kornblith, Norouzi and Hinton, *A simple framework for contrastive learning of visual representations* (2020): two
random views of an image should be nearer to each other than to the views of other images. The sizes here suit a CPU and
small images. The published results took hundreds of epochs of large batches and a far larger network: expect embeddings
that are better than pixels only where the views tell what matters, and look at them before you prune by them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from paredown.embeddings.encoders.base import Preprocess
from paredown.embeddings.encoders.inference import export_onnx, read_training
from paredown.embeddings.encoders.pipeline import default_workers, readable_images
from paredown.errors import PareError, argument
from paredown.files import check_output, new_output
from paredown.places import as_place
from paredown.progress import Track, silent
from paredown.records import changes, check_same
from paredown.sources import ImageSource, OnError, Source, open_source

if TYPE_CHECKING:
    import torch

_PROJECTION = 64  # dimensions in which views are compared; thrown away after training
_LEAST_SCALE = 0.3  # smallest share of an image's area that a view shows


@dataclass(frozen=True)
class SimCLR:
    """A trained encoder: `encoder` is its name, to be given to `embed`."""

    path: Path
    losses: tuple[float, ...]  # mean of each epoch
    training: dict[str, Any] = field(default_factory=dict)  # the settings, which the file remembers too
    already: bool = False  # trained by an earlier run

    @property
    def encoder(self) -> str:
        """The name by which `embed`, `score` and `prune` take it."""
        return f"onnx:{self.path}"


def train_simclr(
    source: str | Path | Source,
    *,
    out: str | Path,
    epochs: int = 30,
    image_size: int = 32,
    width: int = 32,
    batch_size: int = 256,
    temperature: float = 0.2,
    learning_rate: float = 2e-3,
    flip: bool = True,
    seed: int = 0,
    on_error: OnError = "raise",
    overwrite: bool = False,
    reuse: bool = False,
    track: Track = silent,
) -> SimCLR:
    """Train an encoder on the images of a source and write it to `out`, an ONNX file that knows its preprocessing.

    All images are held in memory at `image_size`: 3 KB each at 32 x 32.

    Args:
        source: images, as `open_source` takes them; labels are not looked at.
        out: the `.onnx` file to write.
        epochs: passes over the images.
        image_size: pixels; details that vanish at this size cannot be learnt.
        width: channels of the first stage; embeddings have four times as many numbers.
        batch_size: images per step, each of which is told apart from all others in it.
        temperature: of the loss; lower looks at the nearest others only.
        learning_rate: the highest, after the first tenth of the steps.
        flip: whether an image and its mirror image are the same thing; not for text or digits.
        seed: decides weights, order and views. The same seed and number of threads give the same encoder.
        on_error: `raise` at the first unreadable image, or `skip` it.
        overwrite: replace an existing `out`.
        reuse: take an `out` that was trained with the same settings on the same images as it is.
        track: reports progress, a step at a time.
    """
    import torch

    if epochs < 1 or batch_size < 2:
        raise PareError(f"epochs must be at least 1 and batch_size at least 2, got {epochs} and {batch_size}.")
    opened = _images(source, on_error)
    training: dict[str, Any] = {
        "method": "SimCLR",
        "images": opened.fingerprint(),
        "examples": len(opened),
        "epochs": epochs,
        "image_size": image_size,
        "width": width,
        "batch_size": batch_size,
        "temperature": temperature,
        "learning_rate": learning_rate,
        "flip": flip,
        "seed": seed,
    }
    trained = _already_trained(as_place(out), training, overwrite) if reuse else None
    if trained is not None:
        return trained
    check_output(as_place(out), overwrite=overwrite, sources=opened.places())
    preprocess = Preprocess(image_size, image_size, mean=(0.5,) * 3, std=(0.5,) * 3)
    how = {"on_error": on_error, "workers": default_workers(), "track": track, "label": "reading images"}
    readable = readable_images(opened, preprocess, rows=range(len(opened)), **how)
    images = torch.from_numpy(np.stack(list(readable.values())))
    if len(images) < 2:
        raise PareError("contrastive training needs at least two images.")
    batch_size = min(batch_size, len(images))
    steps = epochs * (len(images) // batch_size)
    generator = torch.Generator().manual_seed(seed)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        trunk, head = _trunk(width), _head(4 * width)
    parameters = [*trunk.parameters(), *head.parameters()]
    optimizer = torch.optim.AdamW(parameters, lr=learning_rate, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, partial(_warm_cosine, steps=steps))
    losses: list[float] = []
    for batch in track(_batches(len(images), batch_size, epochs, generator), "training SimCLR", total=steps):
        some = images[batch]
        first, second = (head(trunk(_view(some, generator, flip=flip))) for _ in range(2))
        loss = contrastive_loss(first, second, temperature=temperature)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
        losses.append(float(loss.detach()))
    means = np.reshape(losses, (epochs, -1)).mean(axis=1).tolist()
    trunk = trunk.eval().requires_grad_(False)
    data = export_onnx(trunk, image_size, preprocess=preprocess, training=training | {"losses": means})
    with new_output(as_place(out), overwrite=overwrite, sources=opened.places()) as part:
        part.write_bytes(data)
    return SimCLR(as_place(out), tuple(means), training)


def _already_trained(path: Path, now: dict[str, Any], overwrite: bool) -> SimCLR | None:
    """What an earlier run trained with the same settings; with others it is refused by the name of the setting."""
    before = read_training(path) if path.is_file() else None
    if before is None:
        return None
    losses = before.pop("losses")
    if not changes(before, now, names=now):
        return SimCLR(path, tuple(losses), before, already=True)
    if not overwrite:
        advice = f"Use the same settings, choose another file, or train it again with {argument('overwrite', True)}."
        check_same(f"{path} is an encoder", before, now, advice=advice, names=now)
    return None


def expected_quality(training: dict[str, Any]) -> str:
    """One honest sentence about what to expect of an encoder that was trained like this."""
    return (
        f"the encoder is a small network trained without labels on {training['examples']:,} images for "
        f"{training['epochs']} epochs at {training['image_size']} x {training['image_size']} pixels: expect embeddings "
        "about as weak as pixels, far from a pretrained model's. Compare with random subsets before you prune by them."
    )


def contrastive_loss(first: torch.Tensor, second: torch.Tensor, *, temperature: float) -> torch.Tensor:
    """The paper's NT-Xent: -log of the softmax weight of a view's partner among all other 2n - 1 views, averaged."""
    import torch
    from torch.nn import functional as F

    views = F.normalize(torch.cat([first, second]), dim=1)
    similarity = views @ views.T / temperature
    similarity = similarity.masked_fill(torch.eye(len(views), dtype=torch.bool), -torch.inf)  # not with itself
    partner = torch.arange(len(views)).roll(len(first))
    return F.cross_entropy(similarity, partner)


def _images(source: Any, on_error: OnError) -> ImageSource:
    opened = open_source(source, on_error=on_error)
    if not isinstance(opened, ImageSource):
        raise PareError(f"{opened.location}: training needs images, and these are embeddings ({opened.kind}).")
    return opened


def _batches(n: int, size: int, epochs: int, generator: torch.Generator) -> Iterator[torch.Tensor]:
    """Every epoch in a new order; the few left over at its end are left out, as the loss depends on the size."""
    import torch

    for _ in range(epochs):
        order = torch.randperm(n, generator=generator)
        yield from order[: n // size * size].split(size)


def _view(images: torch.Tensor, generator: torch.Generator, *, flip: bool) -> torch.Tensor:
    """A random crop of each image, perhaps mirrored, with brightness, contrast and colour changed at random."""
    import torch
    from torch.nn import functional as F

    n = len(images)
    uniform = lambda low, high: torch.rand(n, generator=generator) * (high - low) + low
    side = uniform(_LEAST_SCALE, 1).sqrt()
    stretch = uniform(-0.28, 0.28).exp()  # width over height between 3/4 and 4/3, about
    wide, high = (side * stretch.sqrt()).clamp(max=1), (side / stretch.sqrt()).clamp(max=1)
    mirror = torch.where(uniform(0, 1) < 0.5, -1.0, 1.0) if flip else torch.ones(n)
    place = torch.zeros(n, 2, 3)
    place[:, 0, 0], place[:, 0, 2] = wide * mirror, uniform(-1, 1) * (1 - wide)
    place[:, 1, 1], place[:, 1, 2] = high, uniform(-1, 1) * (1 - high)
    grid = F.affine_grid(place, list(images.shape), align_corners=False)
    view = F.grid_sample(images, grid, padding_mode="border", align_corners=False)
    at = lambda values: values[:, None, None, None]
    view = view * at(uniform(0.6, 1.4)) + at(uniform(-0.4, 0.4))
    grey = view.mean(dim=1, keepdim=True)
    colour = torch.where(uniform(0, 1) < 0.2, torch.zeros(n), uniform(0.6, 1.4))  # every fifth is grey
    return grey + (view - grey) * at(colour)


def _warm_cosine(step: int, *, steps: int) -> float:
    warm = max(1, steps // 10)
    return (step + 1) / warm if step < warm else 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, steps - warm)))


def _trunk(width: int) -> torch.nn.Module:
    """A small residual network: a stem and three stages, each of half the resolution and twice the channels."""
    from torch import nn

    def block(inputs: int, outputs: int, stride: int) -> nn.Sequential:
        return nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
        )

    class Residual(nn.Module):
        def __init__(self, channels: int) -> None:
            super().__init__()
            self.path = nn.Sequential(block(channels, channels, 1), block(channels, channels, 1))

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return x + self.path(x)

    return nn.Sequential(
        block(3, width, 1),
        block(width, width, 2),
        Residual(width),
        block(width, 2 * width, 2),
        Residual(2 * width),
        block(2 * width, 4 * width, 2),
        Residual(4 * width),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


def _head(dim: int) -> torch.nn.Module:
    from torch import nn

    return nn.Sequential(nn.Linear(dim, dim), nn.ReLU(), nn.Linear(dim, _PROJECTION))
