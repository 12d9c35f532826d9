"""What scoring by ranges of rows would take, before anything is spent: core-hours, bytes, memory and messages.

Counted from the sizes alone (`metrics/ranged_plans.py`); only the speed of a core is measured. It is an upper estimate.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from paredown.clustering.kernels import KERNELS
from paredown.clustering.kmeans import check_k
from paredown.errors import PareError, argument, check_known, check_least
from paredown.metrics import DEFAULT_METRIC
from paredown.metrics.ranged_plans import Pieces, RunPlan
from paredown.metrics.registry import check_ranged
from paredown.places import as_place
from paredown.reading import read_array
from paredown.scores import Labels
from paredown.scoring.costs import seconds_of_comparing
from paredown.sources.row_ranges import RangedSource
from paredown.threads import one_blas_thread
from paredown.units import parse_size

ITEM_BYTES = {"float32": 4, "float16": 2, "int8": 1, "float64": 8}  # of a stored number
READ_SPEED = 100 * 10**6  # bytes a second that a worker reads, unless it is said


def plan_run(
    rows: int,
    dim: int,
    *,
    metric: str = DEFAULT_METRIC,
    k: int | None = None,
    classes: int | None = None,
    workers: int = 1,
    item_bytes: int = 4,
    memory: int | str = 2**30,
    core_speed: float | None = None,
    read_speed: float | str = READ_SPEED,
    **kmeans: Any,
) -> RunPlan:
    """Plan the scoring of embeddings by ranges of rows, see `score_ranges`.

    >>> plan = plan_run(10**8, 384, k=1_000, workers=16, core_speed=5e10)
    >>> plan.worker_memory < 2**30, round(plan.read / 10**9)
    (True, 614)

    Args:
        rows: how many embeddings.
        dim: their dimensions.
        metric: a name in `METRICS` that is `ranged`.
        k: prototypes; as many as classes unless given, or half the root of `rows` without any.
        classes: of the labels, if there are any.
        workers: cores that work at the same time.
        item_bytes: of a stored number: 4 for float32, 2 for float16, 1 for int8.
        memory: as for the metric.
        core_speed: multiplications with additions that a core does in a second; measured here unless given.
        read_speed: bytes that a worker reads in a second.
        **kmeans: `method`, `iterations`, `passes`, `sample_per_centroid`, `restarts`, `kernel` and `probes` of
            prototypes.
    """
    entry = check_ranged(metric)
    check_least(1, rows=rows, dim=dim, workers=workers, classes=classes)
    if k is not None:
        check_k(k, rows)
    check_known("kernel", kmeans.get("kernel", "auto"), KERNELS)
    memory, read_speed = parse_size(memory), float(parse_size(read_speed))
    if core_speed is not None and not 0 < core_speed < math.inf:
        raise PareError(f"{argument('core_speed')} must be a number above 0, got {core_speed / 5e8:g}.")

    def cut(others: int) -> Pieces:
        speed = measured_speed(dim, others) if core_speed is None else core_speed
        return Pieces(rows, dim, item_bytes, workers, speed, read_speed)

    assert entry.plan is not None
    return entry.plan(cut, rows=rows, k=k, classes=classes, memory=memory, **kmeans)


def measured_speed(dim: int, others: int) -> float:
    """Multiplications with additions that one core does here in a second when rows are compared with centroids."""
    rows = np.random.default_rng(0).standard_normal((2_048, dim), np.float32)
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    with one_blas_thread():
        return others * dim / seconds_of_comparing(rows, others)


def count_classes(path: str | Path) -> int | None:
    """How many classes the labels of embeddings have, by the record of their store or by `labels.npy`; None without."""
    source = RangedSource(path)
    if source.known_classes:
        return len(source.known_classes)
    file = source.columns.get("labels")
    return None if file is None else len(Labels.of(read_array(as_place(str(file)), "column of labels")).classes)
