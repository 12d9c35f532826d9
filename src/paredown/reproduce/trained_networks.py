"""Networks that a sweep has trained, opened again to be tested or looked into."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from paredown.embeddings.encoders.weights import read_checkpoint
from paredown.files import write_whole
from paredown.records import tuples
from paredown.reproduce.base import FigureTable
from paredown.reproduce.data_folders import Dataset
from paredown.reproduce.setup import Setup, SharedScoring
from paredown.sweeps import SweepResult
from paredown.sweeps.jobs import weights_file
from paredown.training import Examples, Recipe, Trained, TrainingSet
from paredown.training.networks import build_network


def network_sweep(
    setup: Setup, data: dict[str, str], scoring: SharedScoring, *, steps: int, **grid: Sequence[Any]
) -> dict[str, Any]:
    """A sweep that prunes by scores made before and keeps the weights of its students.

    In the paper these are ResNet-50s, and every subset is trained for as many epochs as the whole; otherwise they are
    small networks, trained for so many steps.
    """
    dataset, (metric, *_) = setup.dataset(), grid["metric"]
    student = {"recipe": "tiny_cnn", "steps": steps, **small_network(dataset)}
    if setup.scale == "paper":
        student, grid = {"recipe": "resnet50"}, {**grid, "matched_iterations": [0.0]}
    return {
        "data": data,
        "grid": {"initial_size": [dataset.examples], "balance": [0.0], **grid},
        "student": {**student, "keep_weights": True},
        "probe": {metric: {"metric": metric, "scores": str(setup.scores_file(scoring))}},
    }


def small_network(data: Dataset) -> dict[str, Any]:
    """What makes `tiny_cnn` fit small images."""
    return {"image_size": data.shape[0], "network_options": {"width": 8}, "learning_rate": 4e-3}


class TrainedStudent(NamedTuple):
    """A student whose weights were kept."""

    strategy: str  # `full` for the whole set
    keep_fraction: float
    seed: int
    test_error: float
    weights: str  # a file

    @property
    def way(self) -> dict[str, Any]:
        """Its row in a table."""
        return {"strategy": self.strategy, "keep_fraction": self.keep_fraction, "seed": self.seed}


def trained_students(swept: SweepResult) -> Iterator[TrainedStudent]:
    """The students of a sweep with `keep_weights`."""
    for row in swept.table.to_pylist():
        strategy = "full" if row["keep_fraction"] == 1 else row["strategy"]
        file = weights_file(swept.folder / "runs" / f"{row['run']}.json")
        yield TrainedStudent(strategy, row["keep_fraction"], row["seed"], row["test_error"], str(file))


def errors_above_full(table: FigureTable, strategy: str, keep_fraction: float, name: str = "test_error") -> Any:
    """An error of networks on a subset less that of those on everything, seed by seed."""
    full = {row["seed"]: row[name] for row in table.where(strategy="full").rows}
    rows = table.where(strategy=strategy, keep_fraction=keep_fraction).rows
    return np.array([row[name] - full[row["seed"]] for row in rows])


def as_recipe(settings: dict[str, Any]) -> Recipe:
    """A recipe that was sent to a worker."""
    return Recipe(**tuples(settings))


def open_network(recipe: Recipe, weights: str | Path, *, classes: tuple[str, ...], channels: int) -> Trained:
    """The network of a recipe with the weights of a file, ready to be asked."""
    import torch

    assert recipe.image_size is not None
    shape = (1, recipe.image_size, recipe.image_size, channels)
    blank = Examples(np.zeros(shape, np.uint8), np.zeros(1, np.int64), classes, np.arange(1))
    recipe = recipe.but(pretrained=str(weights), precision="float32")
    network = build_network(recipe, blank, np.arange(1), seed=0)
    return Trained(recipe, 0, (), classes, network.to("cuda" if torch.cuda.is_available() else "cpu").eval())


def without_head(weights: str | Path) -> Path:
    """The weights of a network without its last layer, in a file next to it: what is transferred to other classes."""
    import torch

    file = Path(weights).with_suffix(".body.pt")
    if not file.exists():
        state = read_checkpoint(Path(weights))
        *_, last = (key.rpartition(".")[0] for key in state if key.endswith(".weight"))
        with write_whole(file) as part, part.open("wb") as stream:
            torch.save({key: value for key, value in state.items() if not key.startswith(f"{last}.")}, stream)
    return file


def penultimate_features(trained: Trained, examples: TrainingSet) -> NDArray[np.float32]:
    """What enters the last linear layer."""
    from torch import nn

    *_, last = (module for module in trained.network.modules() if isinstance(module, nn.Linear))
    seen: list[NDArray[np.float32]] = []
    hook = last.register_forward_pre_hook(lambda _, given: seen.append(given[0].float().cpu().numpy()))
    try:
        trained.logits(examples)
    finally:
        hook.remove()
    return np.concatenate(seen)
