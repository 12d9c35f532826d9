"""Many networks of one recipe: multilayer perceptrons and linear ones as one batched matrix product, others in turn.

A small network leaves a CPU waiting: most of a step is starting its operations, not doing them. The parameters of all
members are therefore stacked, (members, in, out), and each layer is one batched product over the members' own batches.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.progress import Track, silent
from paredown.train.examples import Examples, TrainingSet
from paredown.train.loop import Trained, train
from paredown.train.recipes import Recipe

if TYPE_CHECKING:
    import torch

__all__ = ["MEMBERS_AT_ONCE", "Ensemble", "Watcher", "train_ensemble", "trains_stacked"]

MEMBERS_AT_ONCE = 10  # stacked: from there on caches are the limit, not the number of operations
_STACKED = ("mlp", "linear")
_BLOCK_BYTES = 64 * 2**20  # of logits and activations while predicting
_WATCHED_ROWS = 8_192  # shown to the watchers at once


class Watcher(Protocol):
    """Whoever wants to see every member's predictions while it trains, such as `paredown.Recorder`."""

    def update(self, indices: Any, logits: Any, labels: Any, epoch: int) -> None:
        """Rows of the examples, what the network said of them before the step, and their labels."""
        ...


class Ensemble(ABC):
    """Trained networks that answer together."""

    members: int
    classes: tuple[str, ...]

    @abstractmethod
    def blocks(self, examples: TrainingSet) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        """Rows and the members' logits for them, (members, rows, classes), a block at a time."""

    def logits(self, examples: TrainingSet) -> NDArray[np.float32]:
        """All logits, (members, n, classes)."""
        return np.concatenate([logits for _, logits in self.blocks(examples)], axis=1)

    def correct(self, examples: TrainingSet) -> NDArray[np.bool_]:
        """Which member classifies which example correctly, (members, n)."""
        right = np.empty((self.members, len(examples)), bool)
        for rows, logits in self.blocks(examples):
            right[:, rows] = logits.argmax(axis=2) == examples.labels[rows]
        return right


@dataclass(frozen=True)
class _Stacked(Ensemble):
    """Members of equal shape; inputs are standardised by `mean` and `scale`."""

    members: int
    classes: tuple[str, ...]
    layers: tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]  # (members, in, out), (members, 1, out)
    mean: NDArray[np.float32]
    scale: NDArray[np.float32]

    def blocks(self, examples: TrainingSet) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        assert isinstance(examples, Examples)
        widest = max(weight.shape[2] for weight, _ in self.layers)
        step = max(1, _BLOCK_BYTES // (4 * self.members * widest))
        for first in range(0, len(examples), step):
            rows = slice(first, min(first + step, len(examples)))
            hidden = ((examples.inputs[rows] - self.mean) * self.scale).astype(np.float32)
            for number, (weight, bias) in enumerate(self.layers):
                hidden = np.matmul(np.maximum(hidden, 0) if number else hidden, weight) + bias
            yield rows, hidden


@dataclass(frozen=True)
class _InTurn(Ensemble):
    """Members trained one after another."""

    trained: tuple[Trained, ...]
    classes: tuple[str, ...]

    @property
    def members(self) -> int:  # type: ignore[override]  # derived here
        return len(self.trained)

    def blocks(self, examples: TrainingSet) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        step = max(1, _BLOCK_BYTES // (4 * self.members * len(self.classes)))
        for first in range(0, len(examples), step):
            rows = np.arange(first, min(first + step, len(examples)))
            some = examples.take(rows)
            yield slice(first, first + len(rows)), np.stack([member.logits(some) for member in self.trained])


def trains_stacked(recipe: Recipe) -> bool:
    """Whether the members of this recipe are trained as one batched product."""
    return recipe.network in _STACKED and recipe.inputs == "features" and recipe.precision == "float32"


def train_ensemble(
    recipe: Recipe,
    examples: TrainingSet,
    *,
    seeds: Sequence[int],
    masks: NDArray[np.bool_] | None = None,
    epochs: int | None = None,
    draws: int | None = None,
    recorders: Sequence[Watcher] | None = None,
    track: Track = silent,
) -> Ensemble:
    """Train one network per seed; a member does not depend on which others it is trained with.

    Args:
        recipe: how each member is trained.
        examples: inputs and labels. Features are standardised by the mean and deviation of all rows that any member
            trains on, so that all members see the same inputs.
        seeds: one per member; decides its first weights and its row order.
        masks: (members, n), the rows that each member trains on; all rows unless given.
        epochs: in place of the recipe's.
        draws: rows that every member draws per epoch, by default as many as the largest subset has. A member with
            fewer rows goes on into a new order of them, so that all take the same number of steps. Members in turn
            (networks that are not stacked) have epochs of their own length.
        recorders: one per member, shown every row of an epoch once, before the step that learns from it.
        track: reports progress over epochs.
    """
    n, count = len(examples), len(seeds)
    masks = np.ones((count, n), bool) if masks is None else np.asarray(masks, bool)
    _check(count, n, masks, recorders)
    if not trains_stacked(recipe):
        trained = [
            train(
                recipe,
                examples,
                rows=np.flatnonzero(masks[m]),
                seed=seeds[m],
                epochs=epochs,
                recorder=None if recorders is None else recorders[m],
            )
            for m in track(range(count), f"training {recipe.name}", total=count)
        ]
        return _InTurn(tuple(trained), examples.classes)
    assert isinstance(examples, Examples)
    used = masks.any(axis=0)
    mean, scale = _standard(examples.inputs if used.all() else examples.inputs[used])
    draws = int(masks.sum(axis=1).max()) if draws is None else draws
    epochs = recipe.epochs if epochs is None else epochs
    portions = [slice(m, min(m + MEMBERS_AT_ONCE, count)) for m in range(0, count, MEMBERS_AT_ONCE)]
    steps = track((None for _ in range(len(portions) * epochs)), f"training {recipe.name}", len(portions) * epochs)
    layers = [
        _train_portion(
            recipe,
            examples,
            (mean, scale),
            seeds=seeds[portion],
            rows=[np.flatnonzero(mask) for mask in masks[portion]],
            epochs=epochs,
            draws=draws,
            recorders=None if recorders is None else recorders[portion],
            steps=iter(steps),
        )
        for portion in portions
    ]
    next(iter(steps), None)  # lets the bar end
    joined = tuple(
        (np.concatenate([w for w, _ in layer]), np.concatenate([b for _, b in layer]))
        for layer in zip(*layers, strict=True)
    )
    return _Stacked(count, examples.classes, joined, mean, scale)


def _check(members: int, n: int, masks: NDArray[np.bool_], recorders: Sequence[Watcher] | None) -> None:
    if members == 0:
        raise PareError("an ensemble needs at least one seed.")
    if masks.shape != (members, n):
        raise PareError(f"masks must be (members, examples) = ({members}, {n}), got {masks.shape}.")
    if not masks.any(axis=1).all():
        raise PareError(f"member {int(np.argmin(masks.any(axis=1)))} of the ensemble has no rows to train on.")
    if recorders is not None and len(recorders) != members:
        raise PareError(f"there are {len(recorders)} recorders for {members} members; give one for each.")


def _standard(inputs: NDArray[Any]) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """Mean and inverse deviation of every feature; a constant feature is left at zero."""
    mean, deviation = inputs.mean(axis=0, dtype=np.float64), inputs.std(axis=0, dtype=np.float64)
    varies = deviation > 1e-6 * (1 + np.abs(mean))
    return mean.astype(np.float32), (varies / np.where(varies, deviation, 1)).astype(np.float32)


# --- stacked members -----------------------------------------------------------------------------------------------


def _train_portion(
    recipe: Recipe,
    examples: Examples,
    standard: tuple[NDArray[np.float32], NDArray[np.float32]],
    *,
    seeds: Sequence[int],
    rows: list[NDArray[np.int64]],
    epochs: int,
    draws: int,
    recorders: Sequence[Watcher] | None,
    steps: Iterator[None],
) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Train some members together; returns their weights and biases, layer by layer."""
    import torch

    inputs = torch.from_numpy(((examples.inputs - standard[0]) * standard[1]).astype(np.float32))
    labels = torch.from_numpy(examples.labels)
    members, batch = len(seeds), recipe.batch_size
    widths = [inputs.shape[1], *recipe.network_options.get("hidden", ()), len(examples.classes)]
    parameters = _first_parameters(widths, seeds)
    optimizer = _optimizer(recipe, parameters)
    per_epoch = math.ceil(draws / batch)
    generators = [np.random.default_rng([seed, 1]) for seed in seeds]
    step = 0
    for epoch in range(epochs):
        next(steps, None)
        orders = np.stack([_draw(own, draws, rng) for own, rng in zip(rows, generators, strict=True)])
        drawn = torch.from_numpy(orders)
        seen: list[torch.Tensor] = []
        for first in range(0, draws, batch):
            chosen = drawn[:, first : first + batch]
            size = chosen.shape[1]
            flat = chosen.reshape(-1)
            logits = _forward(inputs.index_select(0, flat).view(members, size, -1), parameters)
            # A sum over members of means over batches: no member's gradient depends on the others.
            losses = torch.nn.functional.cross_entropy(logits.view(members * size, -1), labels[flat], reduction="sum")
            optimizer.param_groups[0]["lr"] = recipe.learning_rate * _rate(recipe, step, epochs * per_epoch, per_epoch)
            optimizer.zero_grad(set_to_none=True)
            (losses / size).backward()
            optimizer.step()
            step += 1
            if recorders is not None:
                seen.append(logits.detach())
        if recorders is not None:
            _show(recorders, torch.cat(seen, 1).numpy(), orders, rows, examples.labels, epoch)
    arrays = [parameter.detach().numpy() for parameter in parameters]
    return list(zip(arrays[::2], arrays[1::2], strict=True))


def _first_parameters(widths: list[int], seeds: Sequence[int]) -> list[torch.Tensor]:
    """Weights (members, in, out) and biases (members, 1, out), each member's drawn as `torch.nn.Linear` draws them."""
    import torch

    generators = [torch.Generator().manual_seed(seed) for seed in seeds]
    parameters: list[torch.Tensor] = []
    for fan_in, fan_out in zip(widths, widths[1:], strict=False):
        for shape in ((fan_out, fan_in), (fan_out, 1)):
            drawn = [torch.empty(shape).uniform_(-1, 1, generator=one) / math.sqrt(fan_in) for one in generators]
            parameters.append(torch.stack(drawn).transpose(1, 2).contiguous().requires_grad_())
    return parameters


def _forward(hidden: torch.Tensor, parameters: list[torch.Tensor]) -> torch.Tensor:
    import torch

    for number in range(0, len(parameters), 2):
        weight, bias = parameters[number : number + 2]
        hidden = torch.baddbmm(bias, torch.relu(hidden) if number else hidden, weight)
    return hidden


def _optimizer(recipe: Recipe, parameters: list[torch.Tensor]) -> torch.optim.Optimizer:
    """The recipe's optimiser over stacked parameters: all of them work on every number by itself."""
    import torch

    common = {"lr": recipe.learning_rate, "weight_decay": recipe.weight_decay}
    if recipe.optimizer == "adam":
        return torch.optim.Adam(parameters, fused=True, **common)
    if recipe.optimizer == "sgd":
        nesterov = recipe.nesterov and recipe.momentum > 0
        return torch.optim.SGD(parameters, momentum=recipe.momentum, nesterov=nesterov, fused=True, **common)
    return torch.optim.RMSprop(parameters, momentum=recipe.momentum, **common)


def _rate(recipe: Recipe, step: int, steps: int, per_epoch: int) -> float:
    """By what the learning rate is multiplied at a step."""
    warm = math.ceil(recipe.warmup * steps)
    if step < warm:
        return (step + 1) / warm
    if recipe.schedule == "cosine":
        return 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))
    if recipe.schedule == "steps":
        return recipe.decay ** -sum(step >= milestone * per_epoch for milestone in recipe.milestones)
    return 1.0


def _draw(rows: NDArray[np.int64], draws: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The rows of one epoch: a new order of them, and then as many more orders as it takes."""
    orders = [rng.permutation(rows) for _ in range(math.ceil(draws / len(rows)))]
    return np.concatenate(orders)[:draws]


def _show(
    recorders: Sequence[Watcher],
    logits: NDArray[np.float32],
    orders: NDArray[np.int64],
    rows: list[NDArray[np.int64]],
    labels: NDArray[np.int64],
    epoch: int,
) -> None:
    """Show every member's recorder the rows of an epoch once: the first order of them, not what fills it up."""
    for member, recorder in enumerate(recorders):
        once = min(len(rows[member]), orders.shape[1])
        for first in range(0, once, _WATCHED_ROWS):
            part = slice(first, min(first + _WATCHED_ROWS, once))
            chosen = orders[member, part]
            recorder.update(chosen, logits[member, part], labels[chosen], epoch)
