"""Training: one readable loop, recipes as frozen values, examples in memory or streamed. Needs the `train` extra."""

from __future__ import annotations

from paredown.training.examples import Examples as Examples
from paredown.training.examples import StreamedExamples as StreamedExamples
from paredown.training.examples import TrainingSet as TrainingSet
from paredown.training.examples import load_examples as load_examples
from paredown.training.loop import Epoch as Epoch
from paredown.training.loop import Recording as Recording
from paredown.training.loop import Trained as Trained
from paredown.training.loop import train as train
from paredown.training.networks import NETWORKS as NETWORKS
from paredown.training.recipes import RECIPES as RECIPES
from paredown.training.recipes import Recipe as Recipe
from paredown.training.recipes import find_recipe as find_recipe
from paredown.training.schedule import learning_rate as learning_rate
from paredown.training.schedule import planned_steps as planned_steps
