"""The options of scoring that `score` and `prune` share: metrics, their own options, and models."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paredown.cli.source_options import show_skipped, show_warnings
from paredown.cli.terminal import aside, say

if TYPE_CHECKING:
    from paredown.scoring.saved_models import FittedModel
    from paredown.sources import Source

__all__ = [
    "Embeddings",
    "Encoder",
    "Epochs",
    "Exact",
    "K",
    "Kernel",
    "Members",
    "Metric",
    "MetricOptions",
    "ModelFile",
    "PseudoLabels",
    "Recipe",
    "SaveModel",
    "WarmStart",
    "announce",
    "asked",
    "metric_options",
    "ready_encoder",
    "show_scoring",
]

# Options of metrics that are options of the verbs, and those that decide how much is trained.
_OWN = ("k", "kernel", "memory", "recipe", "members", "epochs", "pseudo_labels")
_COSTLY = ("recipe", "members", "epochs", "subset", "folds", "threads")

Metric = Annotated[
    str | None,
    typer.Option(
        help="How hardness is measured. From embeddings: prototypes, supervised_prototypes, typicality, duplicates, "
        "k_center, density. From training networks: el2n, forgetting, memorization, influence_max, influence_sum_abs, "
        "active_learning, ddd, aum, margin, entropy, grand, dyn_unc, tdds, confidence, variability, "
        "correctness. Or random.",
        show_default="prototypes",
    ),
]
Encoder = Annotated[str, typer.Option(help="How images become embeddings; see paredown embed --help.")]
Embeddings = Annotated[
    Path | None,
    typer.Option(
        "--embeddings",
        metavar="DIR",
        help="Keep the embeddings of images in this folder, and use those that are there.",
        show_default="beside the output until it is complete",
    ),
]
K = Annotated[int | None, typer.Option(help="Number of prototypes or clusters; chosen from the data if not given.")]
Kernel = Annotated[str | None, typer.Option(help="How centroids are compared. Every kernel gives the same scores.")]
Exact = Annotated[bool, typer.Option("--exact", help="The same as --kernel float32; changes no score.")]
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
Recipe = Annotated[
    str | None,
    typer.Option(
        help="How networks are trained, for metrics that train: mlp or linear (on embeddings), tiny_cnn, slim_resnet, "
        "resnet18, resnet18_svhn, resnet50 or vit (on images).",
        show_default="mlp",
    ),
]
Members = Annotated[int | None, typer.Option(help="How many networks; as many as the recipe says if not given.")]
Epochs = Annotated[int | None, typer.Option(help="For how long; as long as the recipe says if not given.")]
PseudoLabels = Annotated[bool, typer.Option("--pseudo-labels", help="Train on k clusters in place of labels.")]
SaveModel = Annotated[Path | None, typer.Option(help="File to write the fitted model to, such as model.npz.")]


def asked(metric: str | None, model: Path | None) -> tuple[list[str], FittedModel | None]:
    """The names of the metrics, and the model if a file of one is given."""
    from paredown.scoring.saved_models import read_model

    given = None if model is None else read_model(model)
    names = metric or ("prototypes" if given is None else given.metric)
    return [name.strip() for name in names.split(",")], given


def metric_options(
    metrics: list[str],
    texts: list[str] | None,
    *,
    encoder: str,
    kernel: str | None,
    exact: bool,
    memory: str | None,
    **given: Any,
) -> dict[str, Any]:
    """The metrics' own options that were given, and the memory to work in where a metric looks at it.

    Whatever can be wrong with them, and with the names, is found here, before anything is opened.
    """
    from paredown.embeddings.encoders import check_encoder
    from paredown.errors import PareError, unknown_name
    from paredown.metrics import METRICS
    from paredown.units import parse_size

    if exact and kernel not in (None, "float32"):
        raise PareError(f"--exact is kernel 'float32', and --kernel {kernel} was given; leave one of them out.")
    given |= {"kernel": "float32" if exact else kernel}
    options = {name: value for name, value in given.items() if value is not None and value is not False}
    for metric in metrics:
        if metric not in METRICS:
            raise unknown_name("metric", metric, METRICS)
    options |= _parsed(metrics, texts or [])
    _check_options(metrics, options)
    check_encoder(encoder)
    if memory is not None and any("memory" in METRICS[metric].options for metric in metrics):
        options["memory"] = parse_size(memory)
    return options


def _check_options(metrics: list[str], options: dict[str, Any]) -> None:
    from paredown.errors import PareError
    from paredown.metrics import METRICS

    if len(metrics) == 1:
        METRICS[metrics[0]].check_options(metrics[0], options)
    for option in options:
        if not any(option in METRICS[metric].options for metric in metrics):
            raise PareError(f"none of the metrics {', '.join(metrics)} has an option {option!r}.")
    for metric in metrics:
        METRICS[metric].needs_with(options)  # which looks the recipe up


def _parsed(metrics: list[str], texts: list[str]) -> dict[str, Any]:
    from paredown.errors import PareError
    from paredown.metrics import METRICS

    parsed: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise PareError(f"--option is NAME=VALUE, such as restarts=3; got {text!r}.")
        if name in _OWN:
            raise PareError(f"{name} has an option of its own: --{name.replace('_', '-')} {value}.")
        if name in parsed:
            raise PareError(f"--option {name} was given twice.")
        having = next((metric for metric in metrics if name in METRICS[metric].options), metrics[0])
        parsed[name] = METRICS[having].parse_option(having, name, value)
    return parsed


def ready_encoder(
    sources: list[Source], metrics: list[str], options: dict[str, Any], encoder: str, **checked: Any
) -> Any:
    """A network is loaded before the estimate, which measures it; `pixels` stays a name, to be fitted to the images.

    Before that all is checked that can be, with the arguments of `check_scoring`.
    """
    from paredown.embeddings.encoders import load_encoder
    from paredown.errors import PareError
    from paredown.scoring import check_scoring
    from paredown.sources import ImageSource

    check_scoring(sources, metrics, options, **checked)
    images = any(isinstance(source, ImageSource) for source in sources)
    if encoder == "pixels" or not images or not _look_at_embeddings(metrics, options):
        return encoder
    try:
        return load_encoder(encoder)
    except PareError:
        if encoder == "auto":  # no network is here
            return "pixels"
        raise


def _look_at_embeddings(metrics: list[str], options: dict[str, Any]) -> bool:
    from paredown.metrics import METRICS

    return any("embeddings" in METRICS[name].needs_with(options) for name in metrics)


def announce(sources: list[Source], metrics: list[str], options: dict[str, Any], encoder: Any) -> None:
    """Say what is there and what scoring it will take, before it starts."""
    from paredown.embeddings.encoders import Encoder
    from paredown.metrics import METRICS
    from paredown.scoring.costs import estimate_scoring, estimate_training

    network = encoder if isinstance(encoder, Encoder) else None
    training = [metric for metric in metrics if "training" in METRICS[metric].needs]
    for source in sources:
        labels = "" if source.labels is None else f", {len(source.labels.classes)} classes"
        place = f"{source.location} ({source.kind}{labels})"
        for metric in (metric for metric in metrics if metric not in training):
            aside("{}: {}", place, estimate_scoring(source, metric=metric, k=options.get("k"), encoder=network))
        if training:
            relevant = {name: options[name] for name in _COSTLY if name in options}
            aside("{}, {:,} examples: {}", place, len(source), estimate_training(training, source, **relevant))


def show_scoring(provenance: dict[str, Any]) -> None:
    """What a user should know of how scores were made."""
    report = provenance.get("report", {})
    if "encoder" in provenance.get("source", {}):
        say("Encoder: {}.", provenance["source"]["encoder"])
    show_warnings(provenance.get("warnings", []))
    if "model" in provenance:
        say("Scored with the model {}; nothing was fitted.", provenance["model"]["fingerprint"])
    elif "k" in report:
        others = report.get("k_sensitivity", {})
        text = ", ".join(f"{value:.2f} at k = {k}" for k, value in others.items())
        lowest = min(others.values(), default=1.0)
        matters = "hardly" if lowest > 0.8 else "somewhat" if lowest > 0.5 else "much"
        measured = f"rank correlation with the scores {text}: the choice of k matters {matters}" if text else ""
        say("Prototypes: k = {}; {}.", report["k"], measured or "sensitivity to k not measured")
    show_skipped(provenance.get("skipped", []))
