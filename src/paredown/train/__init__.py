"""Training: one readable loop, recipes as frozen values, data sets in their standard forms. Needs the `train` extra."""

from __future__ import annotations

from paredown.train.recipes import RECIPES, Recipe, find_recipe

__all__ = ["RECIPES", "Recipe", "find_recipe"]
