"""Perceptrons that learn from images side by side: members differ in rows, labels and seed, and take the same steps.

As `training.ensembles`, but for what an endless set of images needs: pixels stay bytes, as millions of floats would
fill the memory; they are standardised alike for every member, as deviations within a small set would blow up its rarely
used border; and products are in bfloat16 where the processor is fast at it, which takes 0.4 of the time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from paredown.training import Recipe, learning_rate
from paredown.training.loop import epoch_seed, has_bfloat16, make_optimizer

if TYPE_CHECKING:
    import torch

_BLOCK = 4096  # images answered at once


@dataclass(frozen=True)
class PixelScale:
    """Pixels to numbers of order 1: minus a whole number and over a power of two, which bfloat16 holds exactly."""

    shift: int
    scale: float

    @classmethod
    def of(cls, images: NDArray[np.uint8]) -> PixelScale:
        """That of some images, by their mean and deviation over all pixels."""
        return cls(round(float(images.mean())), float(2.0 ** np.round(np.log2(max(float(images.std()), 1.0)))))


class StackedNetworks:
    """Members of one shape in training, and afterwards."""

    def __init__(self, recipe: Recipe, pixels: int, classes: int, scale: PixelScale, seeds: Sequence[int]) -> None:
        import torch

        widths = [pixels, *recipe.network_options["hidden"], classes]
        self.recipe, self.scale, self.seeds = recipe, scale, list(seeds)
        fast = recipe.precision == "bfloat16" and has_bfloat16(torch.device("cpu"))
        self.kind = torch.bfloat16 if fast else torch.float32
        self.layers: list[torch.Tensor] = []
        for number, (entering, leaving) in enumerate(pairwise(widths)):
            drawn = [_generator(seed, number).normal(0, (2 / entering) ** 0.5, (entering, leaving)) for seed in seeds]
            self.layers.append(torch.tensor(np.stack(drawn), dtype=torch.float32, requires_grad=True))
            self.layers.append(torch.zeros(len(seeds), 1, leaving, requires_grad=True))

    def train(self, images: NDArray[np.uint8], rows: NDArray[Any], labels: NDArray[Any], steps: int) -> None:
        """Train each member on its rows of the images (n, pixels), (members, kept), with its labels for them."""
        import torch

        table, (members, kept) = torch.from_numpy(images), rows.shape
        rows, labels = rows.astype(np.int64), labels.astype(np.int64)
        optimizer, batches = make_optimizer(self.recipe, self.layers), self._batches(kept)
        for step in range(steps):
            chosen = next(batches)
            batch = np.take_along_axis(rows, chosen, axis=1)
            wanted = torch.from_numpy(np.take_along_axis(labels, chosen, axis=1).reshape(-1))
            seen = table.index_select(0, torch.from_numpy(batch.reshape(-1))).view(members, batch.shape[1], -1)
            logits = self._forward(self._numbers(seen))
            losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), wanted, reduction="sum")
            optimizer.param_groups[0]["lr"] = learning_rate(self.recipe, step, steps)
            optimizer.zero_grad(set_to_none=True)
            (losses / batch.shape[1]).backward()  # means over batches, summed over members: none depends on the others
            optimizer.step()

    def logits(self, images: NDArray[np.uint8]) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """Blocks of rows with the members' answers, (members, rows, classes); all members see the same images."""
        import torch

        with torch.inference_mode():
            for first in range(0, len(images), _BLOCK):
                rows = slice(first, min(first + _BLOCK, len(images)))
                seen = self._numbers(torch.from_numpy(images[rows])).expand(len(self.seeds), -1, -1)
                yield rows, self._forward(seen).numpy()

    def votes(self, images: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """The class each member predicts, (members, images)."""
        return np.concatenate([logits.argmax(axis=2).astype(np.uint8) for _, logits in self.logits(images)], axis=1)

    def _numbers(self, pixels: torch.Tensor) -> torch.Tensor:
        return pixels.to(self.kind).sub_(self.scale.shift).div_(self.scale.scale)

    def _forward(self, entering: torch.Tensor) -> torch.Tensor:
        """Logits of inputs (members, batch, pixels); the last layer in float32, so that scores have all digits."""
        import torch

        *before, (weight, bias) = zip(self.layers[::2], self.layers[1::2], strict=True)
        for hidden_weight, hidden_bias in before:
            product = torch.baddbmm(hidden_bias.to(self.kind), entering, hidden_weight.to(self.kind))
            entering = torch.relu(product)
        return torch.baddbmm(bias, entering.float(), weight)

    def _batches(self, kept: int) -> Iterator[NDArray[np.int64]]:
        """Places in each member's rows, (members, batch): one order after another, each member's own."""
        size = min(self.recipe.batch_size, kept)
        epoch = 0
        while True:
            orders = np.stack([_generator(seed, 1000 + epoch).permutation(kept) for seed in self.seeds])
            for first in range(0, kept - size + 1, size):
                yield orders[:, first : first + size]
            epoch += 1


def _generator(seed: int, number: int) -> np.random.Generator:
    return np.random.default_rng(epoch_seed(seed, number))
