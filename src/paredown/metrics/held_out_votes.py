"""Disagreement of networks that did not train on an example (Freeman 1965; Beluch et al. 2018)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from paredown.checkpoint import Arrays
from paredown.metrics.base import with_options_of
from paredown.metrics.frozen_scores import FrozenScores
from paredown.metrics.probe_training import check_probes, load_probes
from paredown.metrics.reliability import reliability_facts
from paredown.metrics.subset_estimates import balanced_masks, check_subset_size
from paredown.metrics.uncertainty import variation_ratio
from paredown.sources import Source
from paredown.training.devices import torch_threads

DEFAULT_VOTERS = 40  # of which 12 did not train on an example


@with_options_of(load_probes)
def fit_variation_ratio(
    source: Source, *, members: int = DEFAULT_VOTERS, subset: float = 0.7, **options: Any
) -> FrozenScores:
    """Train networks on random subsets, and let those vote on each example that did not train on it.

    score(i) = 1 - max_c (votes for class c) / (votes), over the members whose subset does not have i: the variation
    ratio (Freeman 1965, "Elementary applied statistics"). Beluch et al. 2018, "The power of ensembles for active
    learning in image classification", take it over all members, which have not seen an example without a label; here
    every example has one, and a member that was trained on it would only say what it was told. Labels are needed for
    the training, not for the score: an example whose label is wrong is easy if the members agree on another class.

    Args:
        members: number of networks.
        subset: the share of the examples that a network trains on.
    """
    probes = load_probes(source, **options)
    masks = balanced_masks(members, len(probes.examples), share=subset, seed=probes.seed)

    def vote(portion: range) -> Arrays:
        ensemble = probes.train(portion, masks=masks[portion.start : portion.stop])
        return {"votes": ensemble.votes(probes.examples)}

    with torch_threads(probes.threads):
        votes = np.concatenate([done["votes"] for done in probes.portions("votes", members, vote)])
    values = variation_ratio(votes, trained_on=masks)
    halves = None
    parts = slice(0, members // 2), slice(members // 2, members)
    if all((~masks[part]).any(axis=0).all() for part in parts):
        halves = [variation_ratio(votes[part], trained_on=masks[part]) for part in parts]
    reliable = reliability_facts("variation_ratio", halves, members)
    return probes.scores("variation_ratio", values, epochs=probes.epochs, subset=subset, **reliable)


def check_voters(metrics: Sequence[str], source: Source, *, members: int, subset: float, **options: Any) -> None:
    """Raise at arguments of `fit_variation_ratio` that make no sense, before anything is read."""
    check_probes(source, **options)
    check_subset_size(members, len(source), share=subset)
