"""Many networks of one recipe: multilayer perceptrons and linear ones as one batched matrix product, others in turn.

A small network leaves a CPU waiting: most of a step is starting its operations, not doing them. The parameters of all
members are therefore stacked, (members, in, out), and each layer is one batched product over the members' own batches.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.progress import Track, silent
from paredown.training.examples import Examples, TrainingSet
from paredown.training.loop import Recording, Trained, epoch_seed, make_optimizer, train
from paredown.training.networks import build_network, input_statistics
from paredown.training.recipes import Recipe
from paredown.training.schedule import learning_rate, steps_per_epoch

if TYPE_CHECKING:
    import torch

MEMBERS_AT_ONCE = 10  # stacked: from there on caches are the limit, not the number of operations
_STACKED = ("mlp", "linear")
_BLOCK_BYTES = 64 * 2**20  # of logits and activations while predicting


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

    def votes(self, examples: TrainingSet) -> NDArray[np.int64]:
        """The class that each member predicts for each example, (members, n)."""
        return np.concatenate([logits.argmax(axis=2) for _, logits in self.blocks(examples)], axis=1)

    def correct(self, examples: TrainingSet) -> NDArray[np.bool_]:
        """Which member classifies which example correctly, (members, n)."""
        return self.votes(examples) == examples.labels


@dataclass(frozen=True)
class _Stacked(Ensemble):
    """Members of equal shape; each standardises its inputs by the `mean` and `deviation` of its own rows."""

    members: int
    classes: tuple[str, ...]
    layers: tuple[tuple[NDArray[np.float32], NDArray[np.float32]], ...]  # (members, in, out), (members, 1, out)
    mean: NDArray[np.float32]  # (members, 1, in)
    deviation: NDArray[np.float32]

    def blocks(self, examples: TrainingSet) -> Iterator[tuple[slice, NDArray[np.float32]]]:
        assert isinstance(examples, Examples)
        widest = max(max(weight.shape[1:]) for weight, _ in self.layers)
        step = max(1, _BLOCK_BYTES // (4 * self.members * widest))
        for first in range(0, len(examples), step):
            rows = slice(first, min(first + step, len(examples)))
            hidden = (examples.inputs[rows].astype(np.float32) - self.mean) / self.deviation
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
    recorders: Sequence[Recording] | None = None,
    with_features: bool = False,
    track: Track = silent,
) -> Ensemble:
    """Train one network per seed. Each is the network that `train` makes of the same seed and rows, up to rounding.

    Args:
        recipe: how each member is trained. Stacked members have no batch norm, so that its `micro_batch` would change
            nothing, and take every batch at once.
        examples: inputs and labels. Each member standardises features by the mean and deviation of its own rows.
        seeds: one per member; decides its first weights and its row order.
        masks: (members, n), the rows that each member trains on; all rows unless given.
        epochs: in place of the recipe's.
        draws: rows that every member draws per epoch, by default as many as the largest subset has. A member with
            fewer rows goes on into a new order of them, so that all take the same number of steps. (Networks that are
            not stacked have epochs of their own length.)
        recorders: one per member, shown what the member said of its rows before the step that learned from them. Rows
            drawn twice in an epoch are shown twice.
        with_features: also give `update` what enters the last layer, as `features=`. Stacked members only.
        track: reports progress, an epoch at a time, or a member where they are trained in turn.
    """
    n, count = len(examples), len(seeds)
    masks = np.ones((count, n), bool) if masks is None else np.asarray(masks, bool)
    _check(count, n, masks, recorders)
    rows = [np.flatnonzero(mask) for mask in masks]
    if not trains_stacked(recipe):
        members = track(range(count), f"training {recipe.name}", count)
        watchers = [None] * count if recorders is None else recorders
        trained = [
            train(recipe, examples, rows=rows[m], seed=seeds[m], epochs=epochs, recorder=watchers[m]) for m in members
        ]
        return _InTurn(tuple(trained), examples.classes)
    assert isinstance(examples, Examples)
    epochs = recipe.epochs if epochs is None else epochs
    draws = max(map(len, rows)) if draws is None else draws
    portions = [slice(m, min(m + MEMBERS_AT_ONCE, count)) for m in range(0, count, MEMBERS_AT_ONCE)]
    ticks = iter(track(range(len(portions) * epochs), f"training {recipe.name}", len(portions) * epochs))
    trained = []
    for portion in portions:
        stack = _Stack(recipe, examples, seeds[portion], rows[portion])
        window = None if recorders is None else _Window(recorders[portion], examples.labels, with_features)
        for epoch in range(epochs):
            next(ticks)
            stack.train_epoch(epoch, epochs, draws, window)
        trained.append(stack.trained())
    next(ticks, None)  # lets the progress bar end
    mean, deviation, *parameters = (np.concatenate(parts) for parts in zip(*trained, strict=True))
    layers = tuple(zip(parameters[::2], parameters[1::2], strict=True))
    return _Stacked(count, examples.classes, layers, mean, deviation)


def _check(members: int, n: int, masks: NDArray[np.bool_], recorders: Sequence[Recording] | None) -> None:
    if members == 0:
        raise PareError("an ensemble needs at least one seed.")
    if masks.shape != (members, n):
        raise PareError(f"masks must be (members, examples) = ({members}, {n}), got {masks.shape}.")
    if not masks.any(axis=1).all():
        raise PareError(f"member {int(np.argmin(masks.any(axis=1)))} of the ensemble has no rows to train on.")
    if recorders is not None and len(recorders) != members:
        raise PareError(f"there are {len(recorders)} recorders for {members} members; give one for each.")


# --- stacked members -----------------------------------------------------------------------------------------------


class _Stack:
    """Members in training: parameters (members, in, out) and (members, 1, out) under one optimiser."""

    def __init__(self, recipe: Recipe, examples: Examples, seeds: Sequence[int], rows: list[NDArray[np.int64]]) -> None:
        import torch

        self.recipe, self.examples, self.seeds, self.rows = recipe, examples, list(seeds), rows
        self.parameters = _first_parameters(recipe, examples, self.seeds)
        self.optimizer = make_optimizer(recipe, self.parameters)  # it treats every number by itself
        self.labels = torch.tensor(examples.labels)
        self.inputs = torch.from_numpy(np.require(examples.inputs, np.float32, "W"))  # torch warns of read-only arrays
        self.alike = all(np.array_equal(own, rows[0]) for own in rows)
        statistics = [input_statistics(examples, own) for own in (rows[:1] if self.alike else rows)]
        self.mean = torch.from_numpy(np.stack([one.mean[None] for one in statistics]))
        self.deviation = torch.from_numpy(np.stack([one.deviation[None] for one in statistics]))
        if self.alike:  # standardised once, where it is the same for all
            self.inputs = (self.inputs - self.mean[0]) / self.deviation[0]

    def train_epoch(self, epoch: int, epochs: int, draws: int, window: _Window | None) -> None:
        """One pass: every member draws so many of its rows, in an order of its own."""
        import torch

        members, per_epoch = len(self.seeds), steps_per_epoch(draws, self.recipe.batch_size)
        orders = np.stack([_draw(own, draws, seed, epoch) for own, seed in zip(self.rows, self.seeds, strict=True)])
        losses = torch.zeros(())
        for number, batch in enumerate(np.array_split(orders, per_epoch, axis=1)):
            chosen = torch.from_numpy(batch.reshape(-1))
            features, logits = self._forward(chosen, members)
            # A sum over members of means over batches: no member's gradient depends on the others.
            losses = torch.nn.functional.cross_entropy(logits.flatten(0, 1), self.labels[chosen], reduction="sum")
            rate = learning_rate(self.recipe, epoch * per_epoch + number, epochs * per_epoch)
            self.optimizer.param_groups[0]["lr"] = rate
            self.optimizer.zero_grad(set_to_none=True)
            (losses / batch.shape[1]).backward()
            self.optimizer.step()
            if window is not None:
                window.add(batch, logits.detach().numpy(), features.detach().numpy())
        if window is not None:
            window.show(epoch)
        if not math.isfinite(float(losses.detach())):
            raise PareError(
                f"recipe {self.recipe.name!r}: the loss of a member became infinite in epoch {epoch + 1}; lower the "
                "learning rate, or look for extreme inputs."
            )

    def _forward(self, chosen: torch.Tensor, members: int) -> tuple[torch.Tensor, torch.Tensor]:
        """What enters the last layer and what leaves it, for each member's own rows."""
        import torch

        entering = self.inputs.index_select(0, chosen).view(members, len(chosen) // members, -1)
        if not self.alike:
            entering = entering.sub_(self.mean).div_(self.deviation)
        *before, (weight, bias) = zip(self.parameters[::2], self.parameters[1::2], strict=True)
        for hidden_weight, hidden_bias in before:
            entering = torch.relu(torch.baddbmm(hidden_bias, entering, hidden_weight))
        return entering, torch.baddbmm(bias, entering, weight)

    def trained(self) -> list[NDArray[np.float32]]:
        """The members as they are now: mean and deviation of their inputs, then weights and biases layer by layer."""
        across = (len(self.seeds), 1, self.inputs.shape[1])
        statistics = [part.expand(across).numpy() for part in (self.mean, self.deviation)]
        return statistics + [parameter.detach().numpy() for parameter in self.parameters]


class _Window:
    """Shows watchers what members say, many rows at once: a watcher has the same work with few rows as with many."""

    def __init__(self, watchers: Sequence[Recording], labels: NDArray[np.int64], with_features: bool) -> None:
        self.watchers, self.labels, self.with_features = watchers, labels, with_features
        self.waiting: list[tuple[NDArray[Any], ...]] = []

    def add(self, *batch: NDArray[Any]) -> None:
        """Rows (members, batch), logits and features (members, batch, width)."""
        self.waiting.append(batch if self.with_features else batch[:2])

    def show(self, epoch: int) -> None:
        """Show what was added."""
        rows, logits, *features = (np.concatenate(parts, axis=1) for parts in zip(*self.waiting, strict=True))
        for member, watcher in enumerate(self.watchers):
            extra = {"features": features[0][member]} if features else {}
            watcher.update(rows[member], logits[member], self.labels[rows[member]], epoch, **extra)
        self.waiting = []


def _first_parameters(recipe: Recipe, examples: Examples, seeds: list[int]) -> list[torch.Tensor]:
    """The members' first weights (members, in, out) and biases (members, 1, out), layer by layer."""
    import torch

    one = np.zeros(1, np.int64)  # statistics of the inputs are taken elsewhere
    networks = [build_network(recipe, examples, one, seed=seed) for seed in seeds]
    stacked: list[torch.Tensor] = []
    for parts in zip(*(network.parameters() for network in networks), strict=True):
        together = torch.stack([part.detach() for part in parts])
        together = together.transpose(1, 2).contiguous() if together.ndim == 3 else together[:, None]
        stacked.append(together.requires_grad_())
    return stacked


def _draw(rows: NDArray[np.int64], draws: int, seed: int, epoch: int) -> NDArray[np.int64]:
    """The rows of one epoch: the order that `train` has for it, and then as many more orders as it takes."""
    import torch

    generator = torch.Generator().manual_seed(epoch_seed(seed, epoch))
    orders = [torch.randperm(len(rows), generator=generator).numpy() for _ in range(math.ceil(draws / len(rows)))]
    return rows[np.concatenate(orders)[:draws]]
