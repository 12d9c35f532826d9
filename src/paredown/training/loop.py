"""The training loop: one function that reads from top to bottom.

Nothing depends on torch's global random state: weights come from the seed, and the order and augmentation of every
epoch from the seed and the number of the epoch, so that a run that was killed goes on with the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError
from paredown.files import locked, new_output
from paredown.places import as_place
from paredown.progress import Track, silent
from paredown.training.augmentation import crop_and_flip, flip
from paredown.training.checks import check_labels, checked_rows, checked_steps, missing_classes
from paredown.training.devices import default_device, require_torch
from paredown.training.examples import TrainingSet
from paredown.training.networks import build_network
from paredown.training.recipes import Recipe, find_recipe
from paredown.training.resume import TrainingCheckpoint
from paredown.training.schedule import learning_rate, steps_per_epoch

if TYPE_CHECKING:
    import torch

_EVALUATED = 512  # inputs at once when a network is only asked


class Recording(Protocol):
    """What looks over the loop's shoulder, such as `paredown.Recorder`."""

    def update(
        self, indices: NDArray[np.int64], logits: NDArray[np.float32], labels: NDArray[np.int64], epoch: int
    ) -> None:
        """Take note of the logits of a batch, as they were before the step that it led to."""


class Epoch(NamedTuple):
    """What one pass over the data came to; loss and accuracy are means over it, while the network changed."""

    epoch: int
    steps: int
    learning_rate: float  # of its last step
    loss: float
    accuracy: float
    test_accuracy: float | None = None


@dataclass(frozen=True)
class Trained:
    """A trained network, and how it came about."""

    recipe: Recipe  # as it was used: `precision` is what the processor allowed
    seed: int
    history: tuple[Epoch, ...]
    classes: tuple[str, ...]
    network: torch.nn.Module
    warnings: tuple[str, ...] = ()

    def logits(self, examples: TrainingSet) -> NDArray[np.float32]:
        """(n, classes), without augmentation and with the network at rest."""
        import torch

        self.network.eval()
        on = next(self.network.parameters()).device
        batches = np.array_split(np.arange(len(examples)), max(1, steps_per_epoch(len(examples), _EVALUATED)))
        size = self.recipe.image_size if self.recipe.inputs == "images" else None
        with torch.inference_mode():
            parts = [
                _forward(self.network, self.recipe, torch.from_numpy(inputs).to(on)).cpu().numpy()
                for inputs in examples.batches(batches, size=size)
            ]
        return np.concatenate(parts)

    def accuracy(self, examples: TrainingSet, *, top: int = 1) -> float:
        """The share of examples whose class is among the `top` highest logits (the paper's ImageNet figures: 5)."""
        logits = self.logits(examples)
        highest = np.argpartition(-logits, min(top, logits.shape[1]) - 1, axis=1)[:, :top]
        return float((highest == examples.labels[:, None]).any(axis=1).mean())

    def save_weights(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the weights alone; a recipe takes them up with `pretrained=path`."""
        import torch

        with new_output(as_place(path), overwrite=overwrite) as part, part.open("wb") as stream:
            torch.save(self.network.state_dict(), stream)


def train(
    recipe: str | Recipe,
    examples: TrainingSet,
    *,
    rows: ArrayLike | None = None,
    seed: int = 0,
    epochs: int | None = None,
    steps: int | None = None,
    recorder: Recording | None = None,
    test: TrainingSet | None = None,
    checkpoint: str | Path | None = None,
    device: str | None = None,
    track: Track = silent,
) -> Trained:
    """Train the network of a recipe on examples, or on some rows of them.

    Args:
        recipe: a recipe, or its name in `RECIPES`.
        examples: what to train on, from `load_examples`.
        rows: the rows of a subset; all if not given.
        seed: decides weights, order and augmentation. On a CPU, the same seed and number of threads give the same bits.
        epochs: passes over the rows, in place of the recipe's; the learning rate's course is stretched along.
        steps: the number of steps, in place of epochs; `planned_steps` gives it for matched iterations.
        recorder: its `update` is called for every batch, with row numbers of `examples`.
        test: examples of the same classes, on which accuracy is measured after every epoch.
        checkpoint: a folder for the state after every epoch. The same call goes on from there, or, where training is
            finished, only loads the result; the folder is the caller's to remove.
        device: `cuda` where there is one, otherwise `cpu`; in a worker process, the GPU of its number.
        track: reports progress, a step at a time.
    """
    require_torch("training")
    import torch

    recipe = find_recipe(recipe)
    rows = checked_rows(examples, rows)
    check_labels(examples, rows, test)
    per_epoch = steps_per_epoch(len(rows), recipe.batch_size)
    steps = checked_steps(recipe, per_epoch, epochs, steps)
    on = torch.device(device or default_device())
    recipe = recipe if has_bfloat16(on) else recipe.but(precision="float32")
    size = recipe.image_size if recipe.inputs == "images" else None
    network = build_network(recipe, examples, rows, seed=seed).to(on)
    if recipe.channels_last:
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = make_optimizer(recipe, network.parameters())
    saved: TrainingCheckpoint | None = None
    history: list[Epoch] = []
    with nullcontext() if checkpoint is None else locked(as_place(checkpoint)):
        if checkpoint is not None:
            saved = TrainingCheckpoint(checkpoint, _settings(recipe, examples, rows, seed, steps), recorder)
            history = [Epoch(*values) for values in saved.load(network, optimizer)]

        done = sum(epoch.steps for epoch in history)
        ticks = iter(track(range(done, steps), f"training {recipe.name}", total=steps - done))
        for epoch in range(len(history), math.ceil(steps / per_epoch)):
            with _own_randomness(seed, epoch, on) as generator:
                network.train()
                order = rows[torch.randperm(len(rows), generator=generator).numpy()]
                # Of equal size but for one example, so that no batch is too small for its statistics.
                batches = np.array_split(order, per_epoch)[: steps - epoch * per_epoch]
                crops = None
                if recipe.augment == "imagenet":
                    crops = [torch.rand(len(batch), 4, generator=generator).numpy() for batch in batches]
                loss_sum = right = 0.0
                rate = recipe.learning_rate
                for batch, inputs in zip(batches, examples.batches(batches, size=size, crops=crops), strict=True):
                    step = next(ticks)
                    rate = learning_rate(recipe, step, steps)
                    for group in optimizer.param_groups:
                        group["lr"] = rate
                    codes = examples.labels[batch].astype(np.int64, copy=False)
                    labels = torch.from_numpy(codes).to(on)
                    views = _augmented(torch.from_numpy(inputs).to(on), recipe, generator)
                    optimizer.zero_grad(set_to_none=True)
                    known, value = _gradients(network, recipe, views, labels)
                    if not math.isfinite(value):
                        raise PareError(
                            f"recipe {recipe.name!r}: the loss became {value} in epoch {epoch + 1}, step {step + 1} of "
                            f"{steps}; lower the learning rate (it was {rate:.3g}), or look for extreme inputs."
                        )
                    loss_sum += value * len(batch)
                    right += float((known.argmax(dim=1) == labels).sum())
                    if recorder is not None:
                        recorder.update(batch, known.cpu().numpy(), codes, epoch)
                    optimizer.step()
            seen = sum(map(len, batches))
            so_far = Trained(recipe, seed, tuple(history), examples.classes, network)
            tested = None if test is None else so_far.accuracy(test)
            history.append(Epoch(epoch, len(batches), rate, loss_sum / seen, right / seen, tested))
            if saved is not None:
                saved.save(network, optimizer, [tuple(past) for past in history])
        next(ticks, None)  # lets the progress bar end
    return Trained(recipe, seed, tuple(history), examples.classes, network.eval(), missing_classes(examples, rows))


# --- the network on a batch ----------------------------------------------------------------------------------------


def _forward(network: torch.nn.Module, recipe: Recipe, inputs: torch.Tensor) -> torch.Tensor:
    """Logits in float32; images come as (n, height, width, channels), which is channels-last already."""
    import torch

    if inputs.ndim == 4:
        inputs = inputs.permute(0, 3, 1, 2)
        inputs = inputs if recipe.channels_last else inputs.contiguous()
    with torch.autocast(inputs.device.type, torch.bfloat16, enabled=recipe.precision == "bfloat16"):
        return network(inputs).float()


def _gradients(
    network: torch.nn.Module, recipe: Recipe, inputs: torch.Tensor, labels: torch.Tensor
) -> tuple[torch.Tensor, float]:
    """Add the gradient of the mean loss over a batch to the network's; logits and loss.

    A batch goes through in even pieces of at most `micro_batch` examples, each with its share in the mean. That is the
    gradient of the whole; only batch norm tells, which sees a piece at a time, as on the paper's eight GPUs.
    """
    import torch
    from torch.nn import functional as F

    pieces = 1 if recipe.micro_batch is None else math.ceil(len(inputs) / recipe.micro_batch)
    known, value = [], 0.0
    for some, classes in zip(inputs.tensor_split(pieces), labels.tensor_split(pieces), strict=True):
        logits = _forward(network, recipe, some)
        loss = F.cross_entropy(logits, classes) * (len(classes) / len(labels))
        loss.backward()
        value += float(loss.detach())
        known.append(logits.detach())
    return torch.cat(known), value


def has_bfloat16(device: torch.device) -> bool:
    """Whether bfloat16 is computed by fast kernels; without them, on AVX2, it took seven times as long as float32."""
    import torch

    if device.type == "cuda":
        return torch.cuda.is_bf16_supported()
    return torch.backends.cpu.get_cpu_capability().startswith("AVX512")


def _augmented(inputs: torch.Tensor, recipe: Recipe, generator: torch.Generator) -> torch.Tensor:
    if recipe.augment in ("crop", "crop_flip"):
        return crop_and_flip(inputs, generator, mirrored=recipe.augment == "crop_flip")
    return flip(inputs, generator) if recipe.augment == "imagenet" else inputs


def make_optimizer(recipe: Recipe, weights: Iterable[torch.Tensor]) -> torch.optim.Optimizer:
    """The recipe's optimizer; one kernel for all of a step, where torch has it, is 1.6 times as fast for an MLP."""
    import torch

    rate, decay, momentum = recipe.learning_rate, recipe.weight_decay, recipe.momentum
    if recipe.optimizer == "sgd":
        nesterov = recipe.nesterov
        return torch.optim.SGD(weights, rate, momentum=momentum, nesterov=nesterov, weight_decay=decay, fused=True)
    if recipe.optimizer == "adam":
        return torch.optim.Adam(weights, rate, weight_decay=decay, fused=True)
    return torch.optim.RMSprop(weights, rate, momentum=momentum, weight_decay=decay)


def epoch_seed(seed: int, epoch: int) -> int:
    """What seeds the row order (the first thing drawn) and the augmentation of an epoch."""
    return int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> np.uint64(1))


@contextmanager
def _own_randomness(seed: int, epoch: int, device: torch.device) -> Iterator[torch.Generator]:
    """A generator for one epoch; what draws from torch's global one (dropout) finds it seeded, and then as it was."""
    import torch

    number = epoch_seed(seed, epoch)
    devices = [device] if device.type == "cuda" else []
    with torch.random.fork_rng(devices), torch.backends.cudnn.flags(deterministic=True, benchmark=False):
        torch.manual_seed(number)
        yield torch.Generator().manual_seed(number)


def _settings(recipe: Recipe, examples: TrainingSet, rows: NDArray[np.int64], seed: int, steps: int) -> dict[str, Any]:
    """All that decides the result, for refusing to go on under other settings."""
    return {
        **{f"recipe {name}": value for name, value in recipe.settings().items()},
        "seed": seed,
        "steps": steps,
        "data": examples.fingerprint(),
        "rows": f"{len(rows)} rows {sha256(rows.tobytes()).hexdigest()[:16]}",
    }
