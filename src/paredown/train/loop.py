"""The training loop: one function that reads from top to bottom.

Nothing depends on torch's global random state: weights come from the seed, and the order and augmentation of every
epoch from the seed and the number of the epoch, so that a run that was killed goes on with the same numbers.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.data import name_rows
from paredown.errors import PareError
from paredown.io import new_output
from paredown.progress import Track, silent
from paredown.train.augment import crop_and_flip, flip
from paredown.train.examples import TrainingSet
from paredown.train.networks import build_network
from paredown.train.recipes import Recipe, find_recipe
from paredown.train.resume import TrainingCheckpoint
from paredown.train.schedule import learning_rate, steps_per_epoch

if TYPE_CHECKING:
    import torch

__all__ = ["Epoch", "Recording", "Trained", "train"]

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

    recipe: Recipe
    seed: int
    history: tuple[Epoch, ...]
    classes: tuple[str, ...]
    network: torch.nn.Module
    warnings: tuple[str, ...] = ()

    def logits(self, examples: TrainingSet) -> NDArray[np.float32]:
        """(n, classes), without augmentation and with the network at rest."""
        return _logits(self.network, self.recipe, examples)

    def accuracy(self, examples: TrainingSet, *, top: int = 1) -> float:
        """The share of examples whose class is among the `top` highest logits (the paper's ImageNet figures: 5)."""
        return _accuracy(self.network, self.recipe, examples, top=top)

    def save_weights(self, path: str | Path, *, overwrite: bool = False) -> None:
        """Write the weights alone; a recipe takes them up with `pretrained=path`."""
        import torch

        with new_output(Path(path), overwrite=overwrite) as part, part.open("wb") as stream:
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
        device: `cuda` where there is one, otherwise `cpu`.
        track: reports progress, a step at a time.
    """
    import torch
    from torch.nn import functional as F

    recipe = find_recipe(recipe)
    rows = _checked_rows(examples, rows)
    _check_labels(examples, rows, test)
    per_epoch = steps_per_epoch(len(rows), recipe.batch_size)
    steps = _checked_steps(recipe, per_epoch, epochs, steps)
    on = torch.device(device or ("cuda" if torch.cuda.is_available() else "cpu"))
    size = recipe.image_size if recipe.inputs == "images" else None
    network = build_network(recipe, examples, rows, seed=seed).to(on)
    if recipe.channels_last:
        network = network.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    optimizer = _optimizer(recipe, network)
    saved: TrainingCheckpoint | None = None
    history: list[Epoch] = []
    if checkpoint is not None:
        saved = TrainingCheckpoint(checkpoint, _settings(recipe, examples, rows, seed, steps), recorder)
        history = [Epoch(*values) for values in saved.load(network, optimizer)]

    done = sum(epoch.steps for epoch in history)
    ticks = iter(track(range(done, steps), f"training {recipe.name}", total=steps - done))
    for epoch in range(len(history), math.ceil(steps / per_epoch)):
        with _own_randomness(seed, epoch) as generator:
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
                codes = examples.labels[batch]
                labels = torch.from_numpy(codes).to(on)
                views = _augmented(torch.from_numpy(inputs).to(on), recipe, generator)
                logits = _forward(network, recipe, views)
                loss = F.cross_entropy(logits, labels)
                if not math.isfinite(value := float(loss.detach())):
                    raise PareError(
                        f"recipe {recipe.name!r}: the loss became {value} in epoch {epoch + 1}, step {step + 1} of "
                        f"{steps}; lower the learning rate (it was {rate:.3g}), or look for extreme inputs."
                    )
                known = logits.detach()
                loss_sum += value * len(batch)
                right += float((known.argmax(dim=1) == labels).sum())
                if recorder is not None:
                    recorder.update(batch, known.cpu().numpy(), codes, epoch)
                optimizer.zero_grad(set_to_none=True)
                loss.backward()
                optimizer.step()
        seen = sum(map(len, batches))
        tested = None if test is None else _accuracy(network, recipe, test)
        history.append(Epoch(epoch, len(batches), rate, loss_sum / seen, right / seen, tested))
        if saved is not None:
            saved.save(network, optimizer, [tuple(past) for past in history])
    next(ticks, None)  # lets the progress bar end
    return Trained(recipe, seed, tuple(history), examples.classes, network.eval(), _warnings(examples, rows))


# --- the network on a batch ----------------------------------------------------------------------------------------


def _forward(network: torch.nn.Module, recipe: Recipe, inputs: torch.Tensor) -> torch.Tensor:
    """Logits in float32; images come as (n, height, width, channels), which is channels-last already."""
    import torch

    if inputs.ndim == 4:
        inputs = inputs.permute(0, 3, 1, 2)
        inputs = inputs if recipe.channels_last else inputs.contiguous()
    with torch.autocast(inputs.device.type, torch.bfloat16, enabled=recipe.precision == "bfloat16"):
        return network(inputs).float()


def _augmented(inputs: torch.Tensor, recipe: Recipe, generator: torch.Generator) -> torch.Tensor:
    if recipe.augment in ("crop", "crop_flip"):
        return crop_and_flip(inputs, generator, mirrored=recipe.augment == "crop_flip")
    return flip(inputs, generator) if recipe.augment == "imagenet" else inputs


def _logits(network: torch.nn.Module, recipe: Recipe, examples: TrainingSet) -> NDArray[np.float32]:
    import torch

    network.eval()
    on = next(network.parameters()).device
    batches = np.array_split(np.arange(len(examples)), max(1, steps_per_epoch(len(examples), _EVALUATED)))
    size = recipe.image_size if recipe.inputs == "images" else None
    with torch.inference_mode():
        parts = [
            _forward(network, recipe, torch.from_numpy(inputs).to(on)).cpu().numpy()
            for inputs in examples.batches(batches, size=size)
        ]
    return np.concatenate(parts)


def _accuracy(network: torch.nn.Module, recipe: Recipe, examples: TrainingSet, *, top: int = 1) -> float:
    logits = _logits(network, recipe, examples)
    highest = np.argpartition(-logits, min(top, logits.shape[1]) - 1, axis=1)[:, :top]
    return float((highest == examples.labels[:, None]).any(axis=1).mean())


def _optimizer(recipe: Recipe, network: torch.nn.Module) -> torch.optim.Optimizer:
    import torch

    rate, decay, momentum = recipe.learning_rate, recipe.weight_decay, recipe.momentum
    if recipe.optimizer == "sgd":
        return torch.optim.SGD(
            network.parameters(), rate, momentum=momentum, nesterov=recipe.nesterov, weight_decay=decay
        )
    if recipe.optimizer == "adam":
        return torch.optim.Adam(network.parameters(), rate, weight_decay=decay)
    return torch.optim.RMSprop(network.parameters(), rate, momentum=momentum, weight_decay=decay)


@contextmanager
def _own_randomness(seed: int, epoch: int) -> Iterator[torch.Generator]:
    """A generator for one epoch; what draws from torch's global one (dropout) finds it seeded, and then as it was."""
    import torch

    number = int(np.random.SeedSequence([seed, epoch]).generate_state(1, np.uint64)[0] >> np.uint64(1))
    with torch.random.fork_rng(), torch.backends.cudnn.flags(deterministic=True, benchmark=False):
        torch.manual_seed(number)
        yield torch.Generator().manual_seed(number)


# --- what is asked for ---------------------------------------------------------------------------------------------


def _checked_rows(examples: TrainingSet, rows: ArrayLike | None) -> NDArray[np.int64]:
    chosen = np.arange(len(examples)) if rows is None else np.asarray(rows)
    if chosen.dtype == bool:
        chosen = np.flatnonzero(chosen)
    if chosen.ndim != 1 or (len(chosen) and chosen.dtype.kind not in "iu"):
        raise PareError(f"rows must be a list of row numbers, got shape {chosen.shape} of {chosen.dtype}.")
    if not len(chosen):
        raise PareError("there is nothing to train on: the subset has no examples.")
    outside = chosen[(chosen < 0) | (chosen >= len(examples))]
    if len(outside):
        raise PareError(f"rows must be in 0 ... {len(examples) - 1}, got {outside[0]}.")
    return chosen.astype(np.int64)


def _check_labels(examples: TrainingSet, rows: NDArray[np.int64], test: TrainingSet | None) -> None:
    labels = examples.labels[rows]
    bad = rows[(labels < 0) | (labels >= len(examples.classes))]
    if len(bad):
        raise PareError(
            f"labels must be in 0 ... {len(examples.classes) - 1} for {len(examples.classes)} classes, got "
            f"{examples.labels[bad[0]]} at {name_rows(bad)}."
        )
    if test is not None and test.classes != examples.classes:
        raise PareError(
            f"the test set has other classes than the training set: {', '.join(test.classes[:5])}, ... against "
            f"{', '.join(examples.classes[:5])}, ...; load it with like=, to number classes alike."
        )


def _checked_steps(recipe: Recipe, per_epoch: int, epochs: int | None, steps: int | None) -> int:
    if epochs is not None and steps is not None:
        raise PareError(f"give epochs or steps, not both; got {epochs} and {steps}.")
    for name, number in (("epochs", epochs), ("steps", steps)):
        if number is not None and number < 1:
            raise PareError(f"{name} must be at least 1, got {number}.")
    return steps if steps is not None else per_epoch * (recipe.epochs if epochs is None else epochs)


def _settings(recipe: Recipe, examples: TrainingSet, rows: NDArray[np.int64], seed: int, steps: int) -> dict[str, Any]:
    """All that decides the result, for refusing to go on under other settings."""
    return {
        **{f"recipe {name}": value for name, value in recipe.settings().items()},
        "seed": seed,
        "steps": steps,
        "data": examples.fingerprint(),
        "rows": f"{len(rows)} rows {sha256(rows.tobytes()).hexdigest()[:16]}",
    }


def _warnings(examples: TrainingSet, rows: NDArray[np.int64]) -> tuple[str, ...]:
    counts = np.bincount(examples.labels[rows], minlength=len(examples.classes))
    missing = [examples.classes[code] for code in np.flatnonzero(counts == 0)]
    if not missing:
        return ()
    shown = ", ".join(missing[:5]) + (", ..." if len(missing) > 5 else "")
    return (f"{len(missing)} of {len(counts)} classes have no example in the subset and cannot be learnt: {shown}.",)
