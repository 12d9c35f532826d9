"""What an option can be, listed from the registries: only showing a verb's help imports them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from importlib import import_module
from typing import get_args


def fill_choices(text: str) -> str:
    """A help text in which `{metrics}`, `{strategies}`, ... are replaced by what there is."""
    return re.sub(r"\{(\w+)\}", lambda slot: _CHOICES[slot[1]](), text)


def _names(module: str, registry: str) -> Callable[[], str]:
    """The names in a registry, or the values of a `Literal`."""

    def listed() -> str:
        found = getattr(import_module(f"paredown.{module}"), registry)
        return _either(get_args(found) or found)

    return listed


def _either(names: Iterable[str]) -> str:
    *most, last = names
    return f"{', '.join(most)} or {last}"


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
    return f"on embeddings {_either(of['features'])}; on images {_either(of['images'])}"


def _encoders() -> str:
    from paredown.embeddings.encoders import ENCODERS

    return "\n".join(f"- {name}: {entry.summary}" for name, entry in ENCODERS.items())


def _exports() -> str:
    from paredown.exporting import EXPORTS

    return "\n".join(f"- {name}: {export.summary}" for name, export in EXPORTS.items())


_CHOICES: dict[str, Callable[[], str]] = {
    "encoders": _encoders,
    "exports": _exports,
    "kernels": _names("clustering.kernels", "KERNELS"),
    "links": _names("exporting", "Link"),
    "metrics": _metrics,
    "quotas": _names("selection", "Quota"),
    "recipes": _recipes,
    "runtimes": _names("embeddings.encoders.inference", "Runtime"),
    "sizes": _names("reproduce", "SIZES"),
    "strategies": _names("selection", "STRATEGIES"),
}
