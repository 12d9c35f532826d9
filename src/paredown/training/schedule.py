"""How long training takes and how the learning rate goes meanwhile."""

from __future__ import annotations

import math

from paredown.errors import PareError
from paredown.training.recipes import Recipe


def steps_per_epoch(n: int, batch_size: int) -> int:
    """Batches in a pass over `n` examples."""
    return math.ceil(n / batch_size)


def planned_steps(
    recipe: Recipe, n: int, *, epochs: int | None = None, whole: int | None = None, matched_iterations: float = 0.0
) -> int:
    """How many steps a subset of `n` examples is trained for (appendix on pruning and training duration).

    Args:
        recipe: gives the batch size, and the epochs if none are given.
        n: examples in the subset.
        epochs: passes over the data.
        whole: examples before pruning.
        matched_iterations: 0 for as many epochs as the whole set gets, 1 for as many steps; between them, linear.
    """
    if not 0 <= matched_iterations <= 1:
        raise PareError(f"matched_iterations must be in [0, 1], got {matched_iterations}.")
    epochs = recipe.epochs if epochs is None else epochs
    same_epochs = epochs * steps_per_epoch(n, recipe.batch_size)
    same_steps = epochs * steps_per_epoch(n if whole is None else whole, recipe.batch_size)
    return round(same_epochs + matched_iterations * (same_steps - same_epochs))


def learning_rate(recipe: Recipe, step: int, steps: int) -> float:
    """The learning rate of a step (from 0) of `steps`: milestones and warm-up scale with the length of training.

    So a recipe trained for fewer epochs, or a subset trained for as many steps as the whole, goes through the same
    course of learning rates.
    """
    warm = round(recipe.warmup * steps)
    if step < warm:
        return recipe.learning_rate * (step + 1) / warm
    if recipe.schedule == "steps":
        passed = sum(step * recipe.epochs >= milestone * steps for milestone in recipe.milestones)
        return recipe.learning_rate / recipe.decay**passed
    if recipe.schedule == "cosine":
        return recipe.learning_rate * 0.5 * (1 + math.cos(math.pi * (step - warm) / (steps - warm)))
    return recipe.learning_rate
