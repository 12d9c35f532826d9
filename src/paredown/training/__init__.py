"""Training: one readable loop, recipes as frozen values, examples in memory or streamed. Needs the `train` extra."""

from __future__ import annotations

from paredown.training.examples import Examples, StreamedExamples, TrainingSet, load_examples
from paredown.training.loop import Epoch, Recording, Trained, train
from paredown.training.networks import NETWORKS
from paredown.training.recipes import RECIPES, Recipe, find_recipe
from paredown.training.schedule import learning_rate, planned_steps

__all__ = [
    "NETWORKS",
    "RECIPES",
    "Epoch",
    "Examples",
    "Recipe",
    "Recording",
    "StreamedExamples",
    "Trained",
    "TrainingSet",
    "find_recipe",
    "learning_rate",
    "load_examples",
    "planned_steps",
    "train",
]
