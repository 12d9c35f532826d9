"""What a metric cost beside what pruning saves, in passes over examples: the one unit that both share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from paredown.errors import PareError
from paredown.metrics.registry import METRICS
from paredown.scoring.costs import plan_trainings


def describe_cost(record: Mapping[str, Any], metric: str, n: int, kept: int) -> list[str]:
    """A sentence on what the scores took and one on what keeping fewer examples saves."""
    saved = n - kept
    saving = (
        f"Training on what is kept passes over {saved:,} examples fewer in every epoch: {100 * saved / n:.3g} % of the "
        "work of each training, if the number of epochs stays the same."
    )
    entry = METRICS.get(metric)
    if entry is None:
        return ["These scores were computed elsewhere; what they cost is not known.", saving]
    if entry.trains is None:
        encoder = record.get("source", {}).get("encoder")
        embedding = " and one pass of every example through the encoder" if encoder else ""
        return [f"The scores took {entry.cost}{embedding}.", saving]
    try:
        options = {**record.get("options", {})}
        trainings = plan_trainings([metric], n, **{key: options[key] for key in entry.own_options(options)})
    except (PareError, TypeError):  # options of another version
        return [f"The scores took {entry.cost}.", saving]
    models = sum(training.models for training in trainings)
    passes = sum(training.models * training.epochs * training.examples for training in trainings)
    lengths = sorted({training.epochs for training in trainings})
    epochs = f"{lengths[0]}" if len(lengths) == 1 else f"{lengths[0]} to {lengths[-1]}"
    sentences = [
        f"The scores took {models:,} network{'s' * (models > 1)} trained for {epochs} epochs: {passes:,} passes of an "
        "example through a probe.",
        saving,
    ]
    if saved:
        sentences.append(
            f"With a network as large as the probe, the saving exceeds the cost after {math.ceil(passes / saved):,} "
            "epochs of training, over all the runs that use the pruned set; with a larger network, sooner."
        )
    return sentences
