"""The arrow from a source to scores: open it, embed its images if a metric needs that, and score it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import copy
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from paredown.checkpoint import unfinished
from paredown.clustering.kmeans import check_k
from paredown.embeddings import SHARD_SIZE, embed_to_score
from paredown.embeddings.encoders import Encoder, encode
from paredown.errors import PareError, argument
from paredown.files import check_all_apart, check_apart, check_output, is_own, locked
from paredown.ids import hash_ids
from paredown.metrics import DEFAULT_METRIC
from paredown.metrics.registry import METRICS, check_arguments, check_options, sharing_a_fit, uses_embeddings
from paredown.places import as_place, is_path
from paredown.progress import Track, silent
from paredown.records import changes, digest
from paredown.scores import Labels, Scores
from paredown.scoring.saved_models import FittedModel, can_be_saved, read_model, write_model
from paredown.scoring.scoring_job import Job, recorded_options
from paredown.sources import ImageSource, OnError, Source, VectorSource, open_source
from paredown.units import with_bytes
from paredown.version import __version__


def score(
    source: str | Path | ArrayLike | Source | Sequence[str | Path | Source],
    *,
    metric: str | None = None,
    labels: ArrayLike | Labels | None = None,
    ids: ArrayLike | None = None,
    seed: int = 0,
    encoder: str | Encoder | Callable[..., Any] = "auto",
    on_error: OnError = "raise",
    track: Track = silent,
    checkpoint: str | Path | None = None,
    keep_checkpoint: bool = False,
    embeddings: str | Path | None = None,
    model: str | Path | FittedModel | None = None,
    start: str | Path | FittedModel | None = None,
    save_model: str | Path | None = None,
    overwrite: bool = False,
    trust_source: bool = False,
    **options: Any,
) -> Scores:
    """One score per example; higher is harder.

    Args:
        source: an array of embeddings, a path, or an opened source. Several paths or sources of the same examples are
            an ensemble, whose score is the mean over its members (appendix on ensembles of prototypes).
        metric: a name in `METRICS`; `prototypes`, or that of the model, unless given.
        labels, ids: one per example, in place of the source's own.
        seed: decides samples and ties.
        encoder: how images become embeddings: a name in `embeddings.encoders.ENCODERS`, or a function from a list of
            images to an array.
        on_error: `raise` at the first unreadable example, or `skip` it.
        track: reports progress.
        checkpoint: a folder for the finished parts of long work, such as the embeddings of many images: a run that was
            killed is finished from there by the same call. It is gone when the scores are complete.
        keep_checkpoint: leave that folder to the caller, who removes it when the scores are safe.
        embeddings: a folder for the embeddings of images, to stay: a store as `embed` makes it. One that is there
            already is used, and finished if need be; without it images are embedded in memory or in `checkpoint`.
        model: a model fitted before, or its file: nothing is fitted, and each row is scored as it says.
        start: a model, or its file, whose centroids the clustering begins with.
        save_model: a file to write the fitted model to.
        overwrite: replace an existing `save_model`.
        trust_source: go on with a `checkpoint` or `embeddings` although the files of the source were modified since:
            for those that were only copied or touched.
        **options: the metric's own, such as `k`; see `METRICS[metric].options`.
    """
    options = with_bytes(options)
    model_files = [file for file in (model, start) if is_path(file)]
    check_all_apart([as_place(place) for place in (save_model, embeddings) if place is not None], model_files)
    given, begin = (read_model(m) if is_path(m) else m for m in (model, start))
    name = _check_models(metric, given, begin, save_model, options, overwrite=overwrite)
    _check_seed(seed)
    members = open_members(source, labels=labels, ids=ids, on_error=on_error)
    if len(members) > 1 and not given is begin is save_model is None:
        raise PareError("a model belongs to one source; score the members of an ensemble one at a time with models.")
    if len(members) > 1 and embeddings is not None:
        raise PareError(
            f"one folder holds the embeddings of one source, and {len(members)} sources are given; embed each by "
            "itself."
        )
    _check_sources(members, [name], options, embeddings, fitted=given is not None)
    for opened in members:
        if save_model is not None:
            check_apart(as_place(save_model), opened.places(), folder=False)
            _check_saved_model(as_place(save_model), name, options, seed, opened, overwrite=overwrite)
    scored: list[Scores] = []
    embedding = {"encoder": encoder, "seed": seed, "on_error": on_error, "track": track, "trust_source": trust_source}
    with unfinished(checkpoint, keep=keep_checkpoint):
        for opened in members:
            parts = None if checkpoint is None else as_place(checkpoint) / str(len(scored))
            if "embeddings" in METRICS[name].needs_with(options) and isinstance(opened, ImageSource):
                opened = _embedded(opened, embeddings, parts, **embedding)
            job = Job((name,), options, seed, track, parts, given, begin, trusted=trust_source)
            ((scores, fitted),) = job.run(opened)
            if save_model is not None:
                _save_model(fitted, as_place(save_model), overwrite=overwrite)
                scores.provenance["saved_model"] = fitted.fingerprint
            scored.append(scores)
    return scored[0] if len(scored) == 1 else _ensemble(scored)


def score_all(
    source: str | Path | ArrayLike | Source,
    *,
    metrics: Sequence[str],
    labels: ArrayLike | Labels | None = None,
    ids: ArrayLike | None = None,
    seed: int = 0,
    encoder: str | Encoder | Callable[..., Any] = "auto",
    on_error: OnError = "raise",
    track: Track = silent,
    checkpoint: str | Path | None = None,
    keep_checkpoint: bool = False,
    embeddings: str | Path | None = None,
    trust_source: bool = False,
    **options: Any,
) -> dict[str, Scores]:
    """Several metrics of the same examples by name; those that are read off the same training share it.

    The arguments are those of `score`; every metric takes those of the options that it has.
    """
    options = with_bytes(options)
    check_options(metrics, options)
    _check_seed(seed)
    own = {metric: METRICS[metric].own_options(options) for metric in metrics}
    plain = opened = _open(source, labels, ids, on_error)
    _check_sources([opened], metrics, options, embeddings)
    embedding = [metric for metric in metrics if "embeddings" in METRICS[metric].needs_with(own[metric])]
    found: dict[str, Scores] = {}
    with unfinished(checkpoint, keep=keep_checkpoint):
        if isinstance(opened, ImageSource) and embedding:  # once for all that need it
            parts = None if checkpoint is None else as_place(checkpoint) / "embedded"
            how = {"encoder": encoder, "seed": seed, "on_error": on_error, "track": track, "trust_source": trust_source}
            opened = _embedded(opened, embeddings, parts, **how)
        for names in sharing_a_fit(metrics):
            parts = None if checkpoint is None else as_place(checkpoint) / "-".join(names)
            needed = opened if names[0] in embedding else plain
            for scores, _ in Job(tuple(names), own[names[0]], seed, track, parts, trusted=trust_source).run(needed):
                found[scores.metric] = scores
    return {metric: found[metric] for metric in metrics}


def check_scoring(
    sources: Sequence[Source],
    metrics: Sequence[str],
    options: dict[str, Any],
    *,
    seed: int = 0,
    embeddings: str | Path | None = None,
    model: FittedModel | None = None,
    start: str | Path | FittedModel | None = None,
    save_model: str | Path | None = None,
    overwrite: bool = False,
) -> None:
    """Raise if opened sources cannot be scored like this, before an encoder is loaded or a row is read.

    The arguments are those of `score` and `score_all`, which find the same mistakes, some of them later.
    """
    begin = read_model(start) if is_path(start) else start
    if len(metrics) == 1:
        _check_models(metrics[0], model, begin, save_model, options, overwrite=overwrite)
    _check_seed(seed)
    _check_sources(sources, metrics, options, embeddings, fitted=model is not None)


# Options of `score` that say how the work is done, and others that say where results go besides: none decides a score.
WORK_OPTIONS = ("checkpoint", "keep_checkpoint", "on_error", "overwrite", "track", "trust_source")
_INCIDENTAL = (*WORK_OPTIONS, "embeddings", "save_model")


def request_digest(data: dict[str, Any], *, options: dict[str, Any], **settings: Any) -> str | None:
    """A hash of all that a result depends on; None where a part of it, such as a function, has no name.

    An output carries it, and the same request finds the output finished: a run that was killed after its last step is
    not an error.
    """
    deciding: dict[str, Any] = {}
    for name, value in options.items():
        if isinstance(value, FittedModel):
            deciding[name] = value.fingerprint
        elif isinstance(value, Encoder):
            deciding[name] = [value.name, dict(value.settings)]
        elif isinstance(value, Path) and name in ("model", "start"):
            deciding[name] = read_model(value).fingerprint
        elif name not in _INCIDENTAL and value is not None:
            deciding[name] = value
    try:
        return digest({"paredown": __version__, **data, "options": recorded_options(deciding), **settings})
    except TypeError:
        return None


def _check_seed(seed: int) -> None:
    if seed < 0:
        raise PareError(f"{argument('seed')} must not be negative, got {seed}.")


def _check_models(
    metric: str | None,
    model: FittedModel | None,
    start: FittedModel | None,
    save_model: str | Path | None,
    options: dict[str, Any],
    *,
    overwrite: bool,
) -> str:
    """The metric's name, once it, its options and the models are known to go together."""
    name = metric or (model.metric if model is not None else DEFAULT_METRIC)
    check_options([name], options)
    if model is not None:
        if model.metric != name:
            raise PareError(
                f"the model is of metric {model.metric!r}, but {name!r} was given; leave out {argument('metric')}."
            )
        if start is not None or save_model is not None:
            given = argument("start" if start is not None else "save_model")
            raise PareError(f"a given model is not fitted again; leave out {given}, or the model.")
        model.check_options(options)
    if start is not None:
        if not METRICS[name].can_start:
            able = ", ".join(other for other, entry in METRICS.items() if entry.can_start)
            raise PareError(f"metric {name!r} has no centroids to start from a model; those that have: {able}.")
        _ = start.centroids
    if save_model is not None:
        can_be_saved(name)
        check_output(as_place(save_model), overwrite=overwrite or is_own(as_place(save_model)))
    return name


def _check_saved_model(
    path: Path, metric: str, options: dict[str, Any], seed: int, source: Source, *, overwrite: bool
) -> None:
    """Raise if another model is in the way; the same one is there if a run was stopped after it was written."""
    if overwrite or not path.exists():
        return
    before = read_model(path).provenance
    now = {"paredown": __version__, "metric": metric, "options": recorded_options(options), "seed": seed}
    same = not changes(before, now, names=now)
    if not same or before.get("source", {}).get("fingerprint") != source.fingerprint():
        check_output(path)


def _save_model(model: FittedModel, path: Path, *, overwrite: bool) -> None:
    with locked(path):  # also clears away what a run left that was killed after it wrote the same model
        if overwrite or not path.exists() or read_model(path).fingerprint != model.fingerprint:
            write_model(model, path, overwrite=overwrite)


def open_members(
    source: Any,
    *,
    labels: ArrayLike | Labels | None = None,
    ids: ArrayLike | None = None,
    on_error: OnError = "raise",
) -> list[Source]:
    """What is to be scored: one opened source, or the members of an ensemble."""
    several = isinstance(source, Sequence) and not isinstance(source, str)
    if several and len(source) and all(isinstance(member, str | Path | Source) for member in source):
        return [_open(member, labels, ids, on_error) for member in source]
    return [_open(source, labels, ids, on_error)]


def _open(source: Any, labels: ArrayLike | Labels | None, ids: ArrayLike | None, on_error: OnError) -> Source:
    opened = open_source(source, labels=labels, ids=ids, on_error=on_error)
    if isinstance(source, Source) and labels is not None:
        opened = copy(opened)  # the caller's source keeps its own labels
        opened.labels = Labels.of(labels, length=len(opened))
    return opened


def _check_sources(
    sources: Sequence[Source],
    metrics: Sequence[str],
    options: dict[str, Any],
    embeddings: str | Path | None,
    *,
    fitted: bool = False,
) -> None:
    """Raise at opened sources that do not go with the metrics and their options."""
    for source in sources:
        for metric in metrics:
            _check_labels(source, metric, METRICS[metric].own_options(options))
        _check_kept(source, metrics, options, embeddings)
        k = options.get("k")
        if k is not None:
            check_k(k, len(source))
        if not fitted:
            check_arguments(metrics, source, options)


def _check_labels(source: Source, metric: str, options: dict[str, Any]) -> None:
    needs = METRICS[metric].needs_with(options)
    if "labels" in needs and source.labels is None:
        instead = f", train on clusters instead with {argument('pseudo_labels', True)}" if "training" in needs else ""
        raise PareError(
            f"metric {metric!r} needs labels, but {source.location} has none; give them with {argument('labels', ...)}"
            f"{instead}, or use {argument('metric', DEFAULT_METRIC)}."
        )


def _check_kept(source: Source, metrics: Sequence[str], options: dict[str, Any], kept: str | Path | None) -> None:
    """Raise where a folder for the embeddings of images makes no sense."""
    if kept is None:
        return
    if not uses_embeddings(metrics, options):
        raise PareError(
            f"metric {', '.join(map(repr, metrics))} does not use embeddings; leave out {argument('embeddings', ...)}."
        )
    if not isinstance(source, ImageSource):
        raise PareError(
            f"{source.location}: these are already embeddings ({source.kind}); {argument('embeddings', ...)} is for "
            "images."
        )


def _embedded(
    images: ImageSource,
    kept: str | Path | None,
    parts: Path | None,
    *,
    encoder: Any,
    trust_source: bool,
    **options: Any,
) -> VectorSource:
    """The embeddings of images: in a store to stay, in one among the finished parts if they are many, or in memory."""
    place = as_place(kept) if kept is not None else parts / "embeddings" if parts is not None else None
    if place is not None and (kept is not None or len(images) > SHARD_SIZE):
        return embed_to_score(images, out=place, encoder=encoder, trust_source=trust_source, **options)
    return encode(images, encoder=encoder, **options)


def _ensemble(members: list[Scores]) -> Scores:
    """The mean of the members' scores, matched by id; clusters and labels are those of the first member."""
    first = members[0]
    order = np.argsort(hash_ids(first.ids, seed=0))
    total = first.values.astype(np.float64)
    for member in members[1:]:
        other = np.argsort(hash_ids(member.ids, seed=0))
        if len(other) != len(order) or np.any(member.ids[other] != first.ids[order]):
            raise PareError(
                f"an ensemble needs the same examples in every source; {first.provenance['source']['location']} has "
                f"{len(first)} and {member.provenance['source']['location']} has {len(member)}, or other ids."
            )
        total[order] += member.values[other]
    provenance = first.provenance | {"ensemble": [member.provenance["source"] for member in members]}
    return Scores(total / len(members), first.ids, first.metric, first.labels, first.clusters, provenance)
