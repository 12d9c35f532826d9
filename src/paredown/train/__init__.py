"""Training: one readable loop, recipes as frozen values, examples in memory or streamed. Needs the `train` extra."""

from __future__ import annotations

from paredown.train.examples import Examples, StreamedExamples, TrainingSet, load_examples
from paredown.train.loop import Epoch, Recording, Trained, train
from paredown.train.networks import NETWORKS
from paredown.train.recipes import RECIPES, Recipe, find_recipe
from paredown.train.schedule import learning_rate, planned_steps

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
