"""The options of scoring that `score` and `prune` share: the metric's own, and models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from paredown.models import FittedModel

__all__ = [
    "Exact",
    "K",
    "Kernel",
    "Metric",
    "MetricOptions",
    "ModelFile",
    "SaveModel",
    "WarmStart",
    "asked",
    "scoring_options",
]

Metric = Annotated[
    str | None,
    typer.Option(
        help="How hardness is measured: prototypes, supervised_prototypes, typicality, duplicates, k_center, density "
        "or random.",
        show_default="prototypes",
    ),
]
K = Annotated[int | None, typer.Option(help="Number of prototypes or clusters; chosen from the data if not given.")]
Kernel = Annotated[str | None, typer.Option(help="How centroids are compared; float32 forces the exact way.")]
Exact = Annotated[bool, typer.Option("--exact", help="Compare every row with every centroid: --kernel float32.")]
MetricOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="NAME=VALUE",
        help="Another option of the metric, such as method=full or restarts=3 (see pdn.METRICS[metric].options).",
    ),
]
ModelFile = Annotated[Path | None, typer.Option("--model", help="Score with a model saved before; nothing is fitted.")]
WarmStart = Annotated[Path | None, typer.Option(help="Begin the clustering with the centroids of a saved model.")]
SaveModel = Annotated[Path | None, typer.Option(help="File to write the fitted model to, such as model.npz.")]


def asked(metric: str | None, model: Path | None) -> tuple[str, FittedModel | None]:
    """The metric's name, and the model if a file of one is given."""
    from paredown.models import read_model

    given = None if model is None else read_model(model)
    return metric or ("prototypes" if given is None else given.metric), given


def scoring_options(
    metric: str,
    *,
    out: Path,
    k: int | None,
    encoder: Any,
    on_error: str,
    kernel: str | None,
    exact: bool,
    memory: str,
    options: list[str] | None,
    model: FittedModel | None,
    warm_start: Path | None,
    save_model: Path | None,
    overwrite: bool,
) -> dict[str, Any]:
    """What `score` is told beyond the source; the metric's own options where they were given or it knows them."""
    from paredown.errors import PareError
    from paredown.metrics import METRICS
    from paredown.sizes import parse_size

    if exact and kernel not in (None, "float32"):
        raise PareError(f"--exact is kernel 'float32', and --kernel {kernel} was given; leave one of them out.")
    given: dict[str, Any] = {"k": k, "kernel": "float32" if exact else kernel}
    given = {name: value for name, value in given.items() if value is not None}
    if metric in METRICS:  # a misspelt one is reported when it is used
        given |= _parsed(metric, options or [])
        if "memory" in METRICS[metric].options and model is None:
            given["memory"] = parse_size(memory)
    return {
        "encoder": encoder,
        "on_error": on_error,
        "checkpoint": out.with_name(f".{out.name}.parts"),
        "model": model,
        "start": warm_start,
        "save_model": save_model,
        "overwrite": overwrite,
        **given,
    }


def _parsed(metric: str, texts: list[str]) -> dict[str, Any]:
    from paredown.errors import PareError
    from paredown.metrics import METRICS

    parsed: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise PareError(f"--option is NAME=VALUE, such as restarts=3; got {text!r}.")
        if name in ("k", "kernel", "memory"):
            raise PareError(f"{name} has an option of its own: --{name} {value}.")
        if name in parsed:
            raise PareError(f"--option {name} was given twice.")
        parsed[name] = METRICS[metric].parse_option(metric, name, value)
    return parsed
