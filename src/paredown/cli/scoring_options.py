"""The options of scoring that `score` and `prune` share: metrics, their own options, and models."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from paredown.cli.app import advanced_option, input_option, metric_option, training_option
from paredown.cli.source_options import SourceOptions, show_skipped, show_warnings
from paredown.cli.terminal import aside, say
from paredown.errors import PareError, argument
from paredown.metrics import DEFAULT_METRIC, OWN_FLAGS

if TYPE_CHECKING:
    from paredown.scoring.saved_models import FittedModel
    from paredown.sources import Source

# Options that say how scores are computed, and have no effect on scores that are.
_COMPUTING = tuple(name for name in OWN_FLAGS if name != "memory")  # which selecting takes, too
_COMPUTING += ("option", "exact", "model", "save_model", "warm_start", "encoder", "embeddings", "split")


@dataclass(frozen=True, kw_only=True)
class ScoringOptions(SourceOptions):
    """How examples are scored: the options that `score` and `prune` share."""

    metric: Annotated[
        str | None, metric_option("NAME", "How hardness is measured. {metrics}", show_default=DEFAULT_METRIC)
    ] = None
    k: Annotated[
        int | None, metric_option("N", "Number of prototypes or clusters.", show_default="chosen from the data")
    ] = None
    option: Annotated[
        list[str] | None,
        metric_option(
            "NAME=VALUE",
            "Another option of the metric, such as method=full or restarts=3. Can be repeated; in Python "
            "`pdn.METRICS[metric].options` lists them.",
        ),
    ] = None
    model: Annotated[Path | None, metric_option("FILE", "Score with a saved model; nothing is fitted.")] = None
    save_model: Annotated[Path | None, metric_option("FILE", "Save the fitted model, for example to model.npz.")] = None
    recipe: Annotated[
        str | None,
        training_option("NAME", "How networks are trained, for metrics that train: {recipes}.", show_default="mlp"),
    ] = None
    members: Annotated[
        int | None, training_option("N", "How many networks to train.", show_default="set by the recipe")
    ] = None
    epochs: Annotated[
        int | None, training_option("N", "How long each network trains.", show_default="set by the recipe")
    ] = None
    pseudo_labels: Annotated[
        bool,
        training_option(None, "Without labels, train on the k clusters of the embeddings instead.", "--pseudo-labels"),
    ] = False
    encoder: Annotated[
        str, input_option("NAME", "Turns images into embeddings; `paredown embed --help` lists encoders.")
    ] = "auto"
    embeddings: Annotated[
        Path | None,
        input_option(
            "DIR",
            "Store the embeddings of images here, and reuse those already there.",
            show_default="next to the output until it is complete",
        ),
    ] = None
    kernel: Annotated[
        str | None,
        advanced_option(
            "NAME",
            "How centroids are compared: {kernels}. All give the same scores, but `auto` is approximate for more than "
            "10,000.",
            show_default="auto",
        ),
    ] = None
    exact: Annotated[bool, advanced_option(None, "Short for --kernel float32.", "--exact")] = False
    warm_start: Annotated[
        Path | None, advanced_option("FILE", "Start the clustering from the centroids of a saved model.")
    ] = None

    def metrics_and_model(self) -> tuple[list[str], FittedModel | None]:
        """The names of the metrics, and the model if a file of one is given."""
        from paredown.scoring.saved_models import read_model

        model = None if self.model is None else read_model(self.model)
        default = DEFAULT_METRIC if model is None else model.metric
        names = default if self.metric is None else self.metric
        return [name.strip() for name in names.split(",")], model

    def metric_options(self, metrics: list[str]) -> dict[str, Any]:
        """The metrics' own options that were given, and the memory to work in where a metric takes it.

        Mistakes in them, and in the names, are found here, before anything is opened.
        """
        from paredown.embeddings.encoders import check_encoder
        from paredown.metrics.registry import METRICS, check_options, find_metric
        from paredown.units import parse_size

        if self.exact and self.kernel not in (None, "float32"):
            raise PareError(f"--exact means --kernel float32, but --kernel {self.kernel} was given; leave one out.")
        given = {name: getattr(self, name) for name in OWN_FLAGS if name != "memory"}
        given |= {"kernel": "float32" if self.exact else self.kernel}
        options = {name: value for name, value in given.items() if value is not None and value is not False}
        for metric in metrics:
            find_metric(metric)
        options |= parse_options(metrics, self.option or [])
        check_options(metrics, options)
        for metric in metrics:
            METRICS[metric].needs_with(options)  # which looks the recipe up
        check_encoder(self.encoder)
        if self.model is None and any("memory" in METRICS[metric].options for metric in metrics):
            options["memory"] = parse_size(self.memory)
        return options

    def check_computed(self, *others: str) -> None:
        """Raise at an option that would have no effect on scores that are already computed, or at one of others."""
        for name in (*_COMPUTING, *others):
            if getattr(self, name) != getattr(ScoringOptions, name):
                raise PareError(f"these are already scores; leave out {argument(name)}, or give the data to score.")

    def scoring_arguments(self) -> dict[str, Any]:
        """Arguments of `paredown.score` that are taken as they were given."""
        return {name: getattr(self, name) for name in ("on_error", "embeddings", "trust_source")}


def parse_options(metrics: list[str], texts: list[str]) -> dict[str, Any]:
    """The options of metrics that are written NAME=VALUE."""
    from paredown.metrics import METRICS

    parsed: dict[str, Any] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals:
            raise PareError(f"--option is NAME=VALUE, such as restarts=3; got {text!r}.")
        if name in OWN_FLAGS:
            flag = isinstance(getattr(ScoringOptions, name), bool)
            raise PareError(f"{name} has an option of its own: {argument(name, flag or value)}.")
        if name in parsed:
            raise PareError(f"--option {name} was given twice.")
        having = next((metric for metric in metrics if name in METRICS[metric].options), metrics[0])
        parsed[name] = METRICS[having].parse_option(having, name, value)
    return parsed


def ready_encoder(
    sources: list[Source], metrics: list[str], options: dict[str, Any], encoder: str, **checked: Any
) -> Any:
    """A network is loaded before the estimate, which measures it; an encoder to be fitted to images stays a name.

    Before that all is checked that can be, with the arguments of `check_scoring`. Embeddings that are complete need no
    network.
    """
    from paredown.embeddings import stored_encoder
    from paredown.embeddings.encoders import ENCODERS, load_encoder
    from paredown.embeddings.encoders.known_encoders import find_entry
    from paredown.metrics.registry import uses_embeddings
    from paredown.scoring import check_scoring
    from paredown.sources import ImageSource

    check_scoring(sources, metrics, options, **checked)
    images = any(isinstance(source, ImageSource) for source in sources)
    if find_entry(encoder).fitted or not images or not uses_embeddings(metrics, options):
        return encoder
    stored = None if checked["embeddings"] is None else stored_encoder(checked["embeddings"], encoder)
    try:
        return stored or load_encoder(encoder)
    except PareError:
        if encoder == "auto":  # no network is here
            return next(name for name, entry in ENCODERS.items() if entry.fitted)
        raise


def announce(
    sources: list[Source], metrics: list[str], options: dict[str, Any], encoder: Any, embeddings: Path | None
) -> None:
    """Say what is there and what scoring it will take, before it starts."""
    from paredown.embeddings import stored_encoder
    from paredown.embeddings.encoders import Encoder
    from paredown.metrics import METRICS
    from paredown.scoring.costs import estimate_scoring, estimate_training
    from paredown.sources import ImageSource, open_source

    network = encoder if isinstance(encoder, Encoder) else None
    training = [metric for metric in metrics if METRICS[metric].trains]
    trained = {name: value for name, value in options.items() if any(name in METRICS[m].options for m in training)}
    for source in sources:
        labels = "" if source.labels is None else f", {len(source.labels.classes)} classes"
        place = f"{source.location} ({source.kind}{labels})"
        stored = None if network is None or embeddings is None else stored_encoder(embeddings, network.name)
        if isinstance(source, ImageSource) and embeddings is not None and stored is not None:
            place, source = f"{place}, embedded in {embeddings}", open_source(embeddings)
        for metric in (metric for metric in metrics if metric not in training):
            own = METRICS[metric].own_options(options)
            aside("{}: {}", place, estimate_scoring(source, metric=metric, encoder=network, **own))
        if training:
            aside("{}, {:,} examples: {}", place, len(source), estimate_training(training, source, **trained))


def show_scoring(provenance: dict[str, Any]) -> None:
    """Print what a user should know about how scores were made."""
    from paredown.metrics.k_sensitivity import KSensitivity
    from paredown.metrics.reliability import Reliability, Trust

    report = provenance.get("report", {})
    if "encoder" in provenance.get("source", {}):
        say("Encoder: {}.", provenance["source"]["encoder"])
    show_warnings(provenance.get("warnings", []))
    if "model" in provenance:
        say("Scored with the model {}; nothing was fitted.", provenance["model"]["fingerprint"])
    elif "k" in report:
        sensitivity = KSensitivity.of(report)
        say("Prototypes: k = {}{}.", report["k"], "" if sensitivity is None else f"; {sensitivity}")
    if "agreement" in report:
        _show_agreement(report["agreement"])
    reliability = Reliability.of(report)
    if reliability is not None and reliability.trust is Trust.RELIABLE:  # a warning says the rest
        say("The scores from {} models are reliable ({}).", reliability.models, str(reliability))
    show_skipped(provenance.get("skipped", []))


def _show_agreement(agreement: dict[str, Any]) -> None:
    """Print how far an approximate assignment can be relied on."""
    say(
        "Approximate search in {:,} of {:,} groups of prototypes. It found the nearest prototype of {:.1%} of {:,} "
        "rows that were compared with all, and {:.1%} of the hardest fifth of them.",
        agreement["probes"],
        agreement["groups"],
        agreement["assignments"],
        agreement["rows"],
        agreement["hardest"],
    )
