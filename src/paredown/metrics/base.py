"""What a metric is: a name, what it needs and costs, and a `fit` that returns something that scores batches."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.option_types import check_value, parse_value
from paredown.scores import Batch, Scored
from paredown.training.recipes import find_recipe

__all__ = ["Metric", "Model", "one_of"]


# What `fit` is given beside the options.
_NOT_OPTIONS = ("source", "metrics", "seed", "track", "start", "checkpoint")


class Model(Protocol):
    """A fitted metric: frozen, and row-wise, so that any split of the data gives the same scores."""

    def score(self, batch: Batch) -> Scored:
        """One score per row of the batch; higher is harder."""
        ...

    def report(self) -> dict[str, Any]:
        """What a user should know of the fit, as plain values."""
        ...


@dataclass(frozen=True)
class Metric:
    """One entry of `METRICS`.

    `fit(source, *, seed, track, **options) -> Model` learns what the scores need from the whole source. A metric whose
    fit is worth keeping also has `load(arrays, report) -> Model`, which makes the same model again from the `arrays()`
    and the `report()` of a fitted one. Metrics that are read off the same training have the same `together(source, *,
    metrics, seed, track, **options) -> {name: Model}`, which trains once for all that are asked for.
    """

    fit: Callable[..., Model]
    summary: str
    needs: tuple[str, ...]  # of "embeddings", "labels", "training"
    cost: str
    reference: str
    load: Callable[[dict[str, NDArray[Any]], dict[str, Any]], Model] | None = None
    together: Callable[..., dict[str, Any]] | None = None

    @property
    def options(self) -> dict[str, Any]:
        """The metric's own options with their defaults."""
        parameters = inspect.signature(self.fit).parameters
        return {name: p.default for name, p in parameters.items() if name not in _NOT_OPTIONS}

    @property
    def can_start(self) -> bool:
        """Whether a fit can begin with the centroids of an earlier model."""
        return "start" in inspect.signature(self.fit).parameters

    def parse_option(self, metric: str, option: str, text: str) -> Any:
        """The value of an option written as text, by the type it has."""
        self._check_names(metric, {option: text})
        return parse_value(f"option {option!r} of metric {metric!r}", text, self._types[option])

    def check_options(self, name: str, given: dict[str, Any]) -> None:
        """Raise on an option the metric does not have, and on a value of another kind than the option's."""
        self._check_names(name, given)
        for option, value in given.items():
            check_value(f"option {option!r} of metric {name!r}", value, self._types[option])

    @property
    def _types(self) -> dict[str, Any]:
        parameters = inspect.signature(self.fit, eval_str=True).parameters
        return {name: parameter.annotation for name, parameter in parameters.items()}

    def _check_names(self, name: str, given: dict[str, Any]) -> None:
        for option in given:
            if option not in self.options:
                known = ", ".join(self.options) or "none"
                raise PareError(f"metric {name!r} has no option {option!r}; its options: {known}.")

    def own_options(self, shared: Mapping[str, Any]) -> dict[str, Any]:
        """Of options given for several metrics, those of this one: `k` is the prototypes' unless it makes labels."""
        foreign = {"k"} if "training" in self.needs and not shared.get("pseudo_labels") else set()
        return {name: value for name, value in shared.items() if name in self.options.keys() - foreign}

    def needs_with(self, options: dict[str, Any]) -> tuple[str, ...]:
        """What the metric needs under some of its options: clusters may replace labels, and images embeddings."""
        needs = self.needs
        if options.get("pseudo_labels"):
            needs = tuple(need for need in needs if need != "labels")
        if "recipe" in self.options and find_recipe(options.get("recipe", self.options["recipe"])).inputs == "images":
            needs = tuple("images" if need == "embeddings" else need for need in needs)
        return needs


def one_of(together: Callable[..., dict[str, Any]], metric: str) -> Callable[..., Any]:
    """The `fit` of one of the metrics that are fitted together, with the same options."""

    def fit(source: Any, **options: Any) -> Any:
        return together(source, metrics=[metric], **options)[metric]

    signature = inspect.signature(together, eval_str=True)
    kept = [parameter for name, parameter in signature.parameters.items() if name != "metrics"]
    fit.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return fit
