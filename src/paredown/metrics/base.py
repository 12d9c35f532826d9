"""What a metric is: what it needs, trains and costs, its options, and a `fit` that returns something that scores."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from paredown.display import Introduced
from paredown.errors import PareError, argument
from paredown.metrics import OWN_FLAGS
from paredown.option_types import check_value, parse_value
from paredown.scores import Batch, Scored
from paredown.training.recipes import Recipe, find_recipe

_Fit = TypeVar("_Fit", bound=Callable[..., Any])

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


class Training(NamedTuple):
    """Networks of one recipe that are trained for some metrics, each on so many examples per epoch."""

    metrics: tuple[str, ...]
    recipe: Recipe
    models: int
    epochs: int
    examples: int


class Work(NamedTuple):
    """What a metric does with embeddings.

    Attributes:
        passes: over the embeddings, the one that scores among them.
        products: pairs (rows, others): so many rows are compared with so many others each, which takes
            rows x others x dimensions multiplications.
        memory: bytes beside a few blocks of rows.
        k: clusters, where there are any.
        piece: does a small piece of the work besides, with some rows, and returns what part of it that was.
    """

    passes: int
    products: tuple[tuple[float, int], ...] = ()
    memory: int = 0
    k: int | None = None
    piece: Callable[[NDArray[np.float32]], float] | None = None


@dataclass(frozen=True, repr=False)
class Metric(Introduced):
    """One entry of `METRICS`: all that the rest of the software knows about a metric.

    `fit(source, *, seed, track, **options) -> Model` learns what the scores need from the whole source. A metric whose
    fit is worth keeping also has `load(arrays, report) -> Model`, which makes the same model again from the `arrays()`
    and the `report()` of a fitted one. Metrics that are read off the same training have the same `together(source, *,
    metrics, seed, track, **options) -> {name: Model}`, which trains once for all that are asked for.

    A metric that is `ranged` is also fitted to embeddings that no process reads as a whole, see `RangedEmbeddings`; it
    tells what that takes by its `plan`, see `ranged_plans`.

    `check(metrics, source, **options)` raises at arguments that make no sense, by themselves or for this source, before
    anything is read or trained.

    A metric of embeddings tells its `work(source, **options) -> Work`, and one that trains tells what it
    `trains(metrics, n, **options) -> [Training]` for all metrics that share it.
    """

    fit: Callable[..., Model]
    summary: str
    needs: tuple[str, ...]  # of "embeddings", "labels", "training"
    cost: str
    reference: str
    load: Callable[[dict[str, NDArray[Any]], dict[str, Any]], Model] | None = None
    together: Callable[..., dict[str, Any]] | None = None
    work: Callable[..., Work] | None = None
    trains: Callable[..., list[Training]] | None = None
    check: Callable[..., object] | None = None
    with_labels: str | None = None  # the metric that does the same with labels, and may rank better
    clusters: bool = False  # whether scores say which cluster every example is in
    plan: Callable[..., Any] | None = None

    @property
    def ranged(self) -> bool:
        """Whether no process has to read all of the embeddings."""
        return self.plan is not None

    def introduce(self) -> dict[str, str]:
        return {"summary": self.summary, "needs": ", ".join(self.needs) or "nothing"}

    @property
    def options(self) -> dict[str, Any]:
        """The metric's own options with their defaults."""
        parameters = inspect.signature(self.fit).parameters
        return {name: p.default for name, p in parameters.items() if name not in _NOT_OPTIONS}

    @property
    def options_help(self) -> dict[str, str]:
        """What each of the metric's own options is for: a sentence of the `Args` of `fit`."""
        described = _described_arguments(inspect.getdoc(self.fit) or "")
        return {name: described.get(name, "") for name in self.options}

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
                shown = argument(option) if option in OWN_FLAGS else repr(option)
                raise PareError(f"metric {name!r} has no option {shown}; its options: {known}.")

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
    fit.__doc__ = together.__doc__
    fit.__signature__ = signature.replace(parameters=kept)  # type: ignore[attr-defined]
    return fit


def with_options_of(shared: Callable[..., Any], *only: str) -> Callable[[_Fit], _Fit]:
    """A decorator: `fit` hands its `**options` on to `shared`, and has them, or `only` some, as `shared` has them."""

    def extend(fit: _Fit) -> _Fit:
        signature, handed_on = (inspect.signature(function, eval_str=True) for function in (fit, shared))
        own = {name: p for name, p in signature.parameters.items() if p.kind is not p.VAR_KEYWORD}
        more = {name: p.replace(kind=p.KEYWORD_ONLY) for name, p in handed_on.parameters.items() if name not in own}
        more = {name: more[name] for name in only or more}
        arguments = re.finditer(r"^ {4}(\w+): .*(?:\n {8}.*)*", inspect.getdoc(shared) or "", re.M)
        fit.__doc__ = "\n".join([inspect.getdoc(fit) or "", *(found[0] for found in arguments if found[1] in more)])
        fit.__signature__ = signature.replace(parameters=[*own.values(), *more.values()])  # type: ignore[attr-defined]
        return fit

    return extend


def _described_arguments(docstring: str) -> dict[str, str]:
    """Argument -> its first sentence, from the section `Args` of a docstring."""
    section = re.search(r"^Args:\n((?:[ ]{4}.*\n?|\n)+)", docstring, re.M)
    entries = re.findall(r"^ {4}(\w[\w, ]*): (.*(?:\n {8}.*)*)", section[1] if section else "", re.M)
    described = {}
    for names, text in entries:
        sentence = re.split(r"(?<=[a-z)`\d])[.](?:\s|$)", " ".join(text.split()), maxsplit=1)[0]
        described |= dict.fromkeys(re.split(r",\s*", names), sentence)
    return described
