"""What a sweep is: data, student, probe and a grid, from a TOML file or Python, checked before anything runs."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from paredown.errors import PareError, check_known, unknown_name
from paredown.metrics import METRICS
from paredown.option_types import check_fields
from paredown.reading import damaged, read_text
from paredown.records import tuples
from paredown.selection import STRATEGIES, default_balance
from paredown.sources import named_dataset
from paredown.training import RECIPES, Recipe, find_recipe

_MOST_SEEDS = 10_000  # of a grid: every one is a training for every point


@dataclass(frozen=True)
class DataSettings:
    """Where the examples are: anything `open_source` takes, with a test set of its own."""

    source: str
    test: str | None = None  # where the test examples are; the same place, split `test`, if not given
    labels: str | None = None
    test_labels: str | None = None
    encoder: str = "auto"  # how images become features, where the student is trained on features
    label_noise: float = 0.0  # share of the training labels replaced by other ones at random

    def paths(self) -> list[str]:
        """The files and folders that are read."""
        named = [place for place in (self.source, self.test, self.labels, self.test_labels) if place is not None]
        known = [named_dataset(place) for place in named]
        return [place if found is None else str(found[1]) for place, found in zip(named, known, strict=True)]

    def check(self) -> None:
        if not 0 <= self.label_noise < 1:
            raise PareError(f"[data] label_noise must be in [0, 1), got {self.label_noise}.")


@dataclass(frozen=True)
class GridSettings:
    """Every combination of these is a run; so are a random subset of every size and the unpruned initial sets."""

    initial_size: tuple[int, ...]
    keep_fraction: tuple[float, ...]
    strategy: tuple[str, ...] = ("hard",)
    metric: tuple[str, ...] = ("el2n",)
    balance: tuple[float, ...] = (default_balance(None, groups=True),)  # students are trained on labels
    seed: tuple[int, ...] = (0, 1, 2, 3)
    matched_iterations: tuple[float, ...] = (1.0,)
    unpruned: bool = True  # whether to train on the whole initial sets too, even where 1 is not in keep_fraction

    def check(self) -> None:
        for entry in fields(self):
            values = getattr(self, entry.name)
            if isinstance(values, bool):
                continue
            if not values:
                raise PareError(f"[grid] {entry.name} is empty, so there is nothing to run; give at least one value.")
            if len(set(values)) < len(values):
                raise PareError(f"[grid] {entry.name} names a value twice: {list(values)}.")
        _all("initial_size", self.initial_size, lambda size: isinstance(size, int) and size >= 1, "whole and positive")
        _all("keep_fraction", self.keep_fraction, lambda share: 0 < share <= 1, "in (0, 1]")
        _all("balance", self.balance, lambda share: 0 <= share <= 1, "in [0, 1]")
        _all("seed", self.seed, lambda seed: isinstance(seed, int) and seed >= 0, "whole and not negative")
        _all("matched_iterations", self.matched_iterations, lambda factor: 0 <= factor <= 1, "in [0, 1]")
        for name in self.strategy:
            check_known("strategy", name, STRATEGIES)


@dataclass(frozen=True)
class StudentSettings:
    """The network that is trained on every subset."""

    recipe: str = "mlp"
    steps: int | None = None  # the same for every run, in place of the recipe's epochs and matched_iterations
    keep_weights: bool = False  # beside each result, for evaluating or fine-tuning the students later
    test_every_epoch: bool = False  # adds the learning curve of each run to the table
    changes: Mapping[str, Any] = field(default_factory=dict)  # to the recipe

    def resolve(self) -> Recipe:
        """The recipe with its changes."""
        return find_recipe(self.recipe, **self.changes)

    def check(self) -> None:
        self.resolve()
        if self.steps is not None and self.steps < 1:
            raise PareError(f"[student] steps must be at least 1, got {self.steps}.")


@dataclass(frozen=True)
class Scorer:
    """What stands behind a name in `[grid] metric`: a metric with its options, or a file of scores made before."""

    metric: str | None
    options: Mapping[str, Any] = field(default_factory=dict)
    scores: str | None = None  # a file; `metric` is its column, if it has several

    @property
    def inputs(self) -> str | None:
        """In which form it looks at the examples: features, or the images its recipe takes; None for a file."""
        if self.scores is not None or self.metric is None:
            return None
        if "training" not in METRICS[self.metric].needs:
            return "features"
        return find_recipe(self.options["recipe"]).inputs


@dataclass(frozen=True)
class ProbeSettings:
    """How examples are scored: options of the metrics, among them the recipe of the probes.

    A name of its own stands for a metric with options of its own, so that a sweep can compare two probes of one
    metric, or for a file of scores: `[probe.weak]` with `metric = "el2n"` and `epochs = 4`, or `scores = "FILE"`.
    """

    options: Mapping[str, Any] = field(default_factory=dict)
    named: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)

    def find(self, name: str) -> Scorer:
        """The scorer of a name in the grid; of the common options, those that its metric has."""
        own = dict(self.named.get(name, {}))
        if "scores" in own:
            return Scorer(own.get("metric"), scores=own["scores"])
        metric = own.pop("metric", name)
        return Scorer(metric, METRICS[metric].own_options({**self.options, **own}))

    def check(self) -> None:
        known = sorted({option for metric in METRICS.values() for option in metric.options})
        for name in self.options:
            check_known("setting in [probe]", name, known)
        for options in (self.options, *self.named.values()):
            recipe = options.get("recipe")
            if isinstance(recipe, str):
                check_known("recipe", recipe, RECIPES)
        for name, own in self.named.items():
            self._check_named(name, own)

    def _check_named(self, name: str, own: Mapping[str, Any]) -> None:
        where = f"[probe.{name}]"
        if name == "random":
            raise PareError(f"{where}: the name 'random' is that of the baseline; choose another.")
        if "scores" in own:
            other = sorted(own.keys() - {"scores", "metric"})
            if other or not isinstance(own["scores"], str):
                raise PareError(
                    f"{where} takes scores from a file (scores = FILE, and metric = COLUMN if it has several), so that "
                    f"nothing is scored; leave out {', '.join(other) or 'what is not a file name'}."
                )
            return
        metric = own.get("metric", name)
        if metric not in METRICS:
            hint = "" if "metric" in own else f" {where} gives `metric = NAME` or `scores = FILE`."
            raise PareError(f"{where}: {unknown_name('metric', metric, METRICS)}{hint}")
        for option in own:
            if option != "metric" and option not in METRICS[metric].options:
                raise PareError(f"{where}: {unknown_name(f'option of {metric}', option, METRICS[metric].options)}")


@dataclass(frozen=True)
class Settings:
    """All of a sweep. Everything but the grid decides what a run with given values means."""

    data: DataSettings
    grid: GridSettings
    student: StudentSettings = field(default_factory=StudentSettings)
    probe: ProbeSettings = field(default_factory=ProbeSettings)

    def check(self) -> Settings:
        """Raise on settings that cannot be meant; return the settings."""
        for part in (self.data, self.grid, self.student, self.probe):
            check_fields(part, f"[{_section(type(part))}]")
            part.check()
        if self.student.steps is not None and self.grid.matched_iterations != (1.0,):
            raise PareError(
                "[student] steps gives every run the same number, so that [grid] matched_iterations would say nothing; "
                "leave out one of them."
            )
        for name in self.grid.metric:
            check_known("metric", name, [*METRICS, *self.probe.named])
            scorer = self.probe.find(name)
            if scorer.scores is None and scorer.metric is not None:
                METRICS[scorer.metric].check_options(scorer.metric, dict(scorer.options))
        return self

    def identity(self) -> dict[str, Any]:
        """What every run of the sweep depends on apart from its own values, as plain values."""
        return {
            "data": asdict(self.data),
            "student": {**_own(self.student), **self.student.resolve().settings()},
            "probe": dict(self.probe.options),
        }


def read_settings(config: str | Path | Mapping[str, Any]) -> Settings:
    """Settings from a TOML file or a dictionary of the same shape; unknown keys raise, naming the nearest known one.

    `seeds = 4` may stand for `seed = [0, 1, 2, 3]`, and a single value for a list of one.
    """
    if isinstance(config, Mapping):
        return _settings(config, "the sweep")
    text = read_text(config, "TOML file", remedy="Correct it.")
    with damaged(config, "TOML file", remedy="Correct it."):
        values = tomllib.loads(text)
    return _settings(values, str(config))


def _settings(values: Mapping[str, Any], where: str) -> Settings:
    parts = {entry.name for entry in fields(Settings)}
    for name in values:
        if name not in parts:
            raise PareError(f"{where}: {unknown_name('part', name, parts)}")
        if not isinstance(values[name], Mapping):
            raise PareError(f"{where}: {name} is a part, with its settings below [{name}]; got {values[name]!r}.")
    for name in ("data", "grid"):
        if name not in values:
            raise PareError(f"{where}: there is no [{name}]; a sweep needs [data] and [grid].")
    try:
        student = dict(values.get("student", {}))
        probe = dict(values.get("probe", {}))
        own = {entry.name for entry in fields(StudentSettings)} - {"changes"}
        changes = {name: student.pop(name) for name in list(student) if name not in own}
        named = {name: tuples(probe.pop(name)) for name in list(probe) if isinstance(probe[name], Mapping)}
        probe.setdefault("recipe", student.get("recipe", "mlp"))
        return Settings(
            data=_part(DataSettings, values["data"]),
            grid=_part(GridSettings, _lists(values["grid"])),
            student=StudentSettings(**student, changes=tuples(changes)),
            probe=ProbeSettings(tuples(probe), named),
        ).check()
    except PareError as error:
        raise PareError(f"{where}: {error}") from error


def _section(kind: type) -> str:
    """The name of a part in the TOML file."""
    return kind.__name__.removesuffix("Settings").lower()


def _part(kind: Any, values: Mapping[str, Any]) -> Any:
    name = _section(kind)
    known = [entry.name for entry in fields(kind)]
    for key in values:
        check_known(f"setting in [{name}]", key, known)
    for entry in fields(kind):
        if entry.name not in values and entry.default is MISSING:
            raise PareError(f"[{name}] has no {entry.name}.")
    return kind(**values)


def _own(student: StudentSettings) -> dict[str, Any]:
    """The settings of a student that are not its recipe's."""
    return {name: value for name, value in vars(student).items() if name not in ("recipe", "changes")}


def _lists(values: Mapping[str, Any]) -> dict[str, Any]:
    given = dict(values)
    if "seeds" in given:
        if "seed" in given:
            raise PareError("[grid] has both seed and seeds; give one of them.")
        number = given.pop("seeds")
        if not isinstance(number, int) or not 1 <= number <= _MOST_SEEDS:
            raise PareError(f"[grid] seeds is how many, from 1 to {_MOST_SEEDS:,}; got {number!r}.")
        given["seed"] = list(range(number))
    many = {name: value if isinstance(value, list | tuple) else (value,) for name, value in given.items()}
    return {name: given[name] if name == "unpruned" else tuple(value) for name, value in many.items()}


def _all(name: str, values: Sequence[Any], holds: Any, what: str) -> None:
    for value in values:
        if isinstance(value, bool | str) or not math.isfinite(value) or not holds(value):
            raise PareError(f"[grid] {name} must be {what}, got {value!r}.")
