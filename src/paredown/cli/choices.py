"""What an option can be, listed from the registries: only showing a verb's help imports them."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import get_args

from paredown.text import either


def fill_choices(text: str) -> str:
    """A help text in which `{metrics}`, `{strategies}`, ... are replaced by what there is."""
    return re.sub(r"\{(\w+)\}", lambda slot: _CHOICES[slot[1]](), text)


def _names(module: str, registry: str, *, without: str | None = None) -> str:
    """The names in a registry, or the values of a `Literal`, but for one that the command line does not take."""
    found = getattr(import_module(f"paredown.{module}"), registry)
    return either([name for name in get_args(found) or found if name != without])


def _summaries(module: str, registry: str) -> str:
    """The names in a registry, each with the summary of its entry."""
    found = getattr(import_module(f"paredown.{module}"), registry)
    return "\n".join(f"- {name}: {getattr(entry, 'summary', entry)}" for name, entry in found.items())


def _metrics() -> str:
    from paredown.metrics import METRICS

    trained = [name for name, metric in METRICS.items() if "training" in metric.needs]
    compared = [name for name, metric in METRICS.items() if "embeddings" in metric.needs and name not in trained]
    others = [name for name in METRICS if name not in trained and name not in compared]
    return (
        f"From embeddings: {', '.join(compared)}. By training networks: {', '.join(trained)}. Or {', '.join(others)}."
    )


def _recipes() -> str:
    from paredown.training.recipes import RECIPES

    of = {inputs: [r.name for r in RECIPES.values() if r.inputs == inputs] for inputs in ("features", "images")}
    return f"on embeddings {either(of['features'])}; on images {either(of['images'])}"


_CHOICES: dict[str, Callable[[], str]] = {
    "dtypes": partial(_names, "embeddings.embedding", "STORED_DTYPES"),
    "encoders": partial(_summaries, "embeddings.encoders", "ENCODERS"),
    "engines": partial(_names, "engines", "ENGINES"),
    "exports": partial(_summaries, "exporting", "EXPORTS"),
    "hardness": partial(_summaries, "perceptron.sampling", "HARDNESS"),
    "item_bytes": partial(_names, "scoring.run_plan", "ITEM_BYTES"),
    "kernels": partial(_names, "clustering.kernels", "KERNELS"),
    "layouts": partial(_names, "projection", "LAYOUTS"),
    "links": partial(_names, "exporting", "Link"),
    "metrics": _metrics,
    "on_error": partial(_names, "sources", "OnError"),
    "probes": partial(_summaries, "perceptron.sampling", "PROBE_KINDS"),
    "quotas": partial(_names, "selection", "Quota"),
    "recipes": _recipes,
    "runtimes": partial(_names, "embeddings.encoders.inference", "Runtime"),
    "simulated_strategies": partial(_names, "perceptron.sampling", "SIMULATED_STRATEGIES"),
    "sizes": partial(_summaries, "reproduce", "SIZES"),
    "strategies": partial(_names, "selection", "STRATEGIES"),
    "theory_strategies": partial(_names, "theory", "THEORY_STRATEGIES", without="density"),
}
