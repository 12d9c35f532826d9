"""Metrics: how hard each example is. Formulas of arrays, and the registry `METRICS` of all that `score` computes.

Whoever has logits, predictions or embeddings of their own calls a formula and hands the scores to `select`:

    scores = pdn.metrics.el2n(probabilities, labels)
    kept = pdn.select(scores, keep_fraction=0.8)

Names are imported when first used: the recorder, which the registry is built on, takes its formulas from here.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from paredown.metrics.base import Metric as Metric
    from paredown.metrics.base import Model as Model
    from paredown.metrics.error_norms import el2n as el2n
    from paredown.metrics.error_norms import grand as grand
    from paredown.metrics.forgetting_events import forgetting as forgetting
    from paredown.metrics.margins import aum as aum
    from paredown.metrics.margins import margin as margin
    from paredown.metrics.prototypes import prototype_distance as prototype_distance
    from paredown.metrics.registry import METRICS as METRICS
    from paredown.metrics.subset_estimates import influence as influence
    from paredown.metrics.subset_estimates import memorization as memorization
    from paredown.metrics.uncertainty import entropy as entropy
    from paredown.metrics.uncertainty import variation_ratio as variation_ratio

# Public name -> its file here. No file has the name of a function: importing it would put the module in its place.
_HOMES = {
    "METRICS": "registry",
    "Metric": "base",
    "Model": "base",
    "aum": "margins",
    "el2n": "error_norms",
    "entropy": "uncertainty",
    "forgetting": "forgetting_events",
    "grand": "error_norms",
    "influence": "subset_estimates",
    "margin": "margins",
    "memorization": "subset_estimates",
    "prototype_distance": "prototypes",
    "variation_ratio": "uncertainty",
}

__all__ = ["DEFAULT_METRIC", *_HOMES]

DEFAULT_METRIC = "prototypes"  # needs no labels and trains nothing
# Options of metrics that are options of the command line; the others are given with --option.
OWN_FLAGS = ("k", "kernel", "memory", "recipe", "members", "epochs", "pseudo_labels")


def __getattr__(name: str) -> Any:
    """Import a public name the first time it is asked for (PEP 562)."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
