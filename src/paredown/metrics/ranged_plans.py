"""What scoring by ranges of rows takes, metric by metric: steps, in the order in which the work itself is done.

Counted from the sizes alone, every row being compared with every centroid in float32, which a kernel that screens does
not need. Of an approximate search, which finds out on the data how many groups it needs, a usual number is taken.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

from paredown.clustering.kernels.grouped import PROBES, search_work
from paredown.clustering.kmeans import PASS_PROBES, KMeans
from paredown.clustering.lloyd import (
    cell_count,
    grouped_search_products,
    grouping_stages,
    is_shared,
    parts_sent,
    seeding_products,
    two_level_products,
)
from paredown.clustering.passes import sums_memory
from paredown.clustering.ranged_rows import gathered_bytes
from paredown.engines.base import fold_messages, group_count, group_size, most_values
from paredown.metrics.prototypes import AGREEMENT_ROWS, default_k
from paredown.sources.row_ranges import rows_per_range
from paredown.units import format_size

_PROCESS = 2**28  # bytes of a worker with its libraries
_ROW_OUT = 24  # bytes of a scored row on disk: id, score, cluster; more where ids are long texts
_ID = 8  # bytes of an id
_SENT = 5e-9  # seconds that the driver takes to send a number of the sample to a worker, and to add it up
_LARGE_DRIVER = 0.25  # share of the time in which the driver works alone from which on it is said


@dataclass(frozen=True)
class Step:
    """One step of a run."""

    name: str
    where: str  # "workers" or "driver"
    tasks: int
    messages: int  # between the driver and the workers
    read: int  # bytes
    core_seconds: float


@dataclass(frozen=True)
class RunPlan:
    """What a run would take. Times are about right for cores like the one that was measured."""

    rows: int
    dim: int
    k: int | None
    workers: int
    steps: tuple[Step, ...]
    worker_memory: int
    driver_memory: int
    written: int
    core_speed: float  # multiplications with additions, per second
    read_speed: float
    warnings: tuple[str, ...] = ()

    @property
    def core_seconds(self) -> float:
        return sum(step.core_seconds for step in self.steps)

    @property
    def seconds(self) -> float:
        """Of the whole run, the workers being busy all the time."""
        return self.driver_seconds + sum(
            step.core_seconds / min(self.workers, step.tasks) for step in self.steps if step.where == "workers"
        )

    @property
    def driver_seconds(self) -> float:
        """In which the driver works alone."""
        return sum(step.core_seconds for step in self.steps if step.where == "driver")

    @property
    def read(self) -> int:
        return sum(step.read for step in self.steps)

    @property
    def messages(self) -> int:
        return sum(step.messages for step in self.steps)

    def to_dict(self) -> dict[str, Any]:
        """All of it as plain values."""
        totals = {
            "core_hours": self.core_seconds / 3600,
            "hours": self.seconds / 3600,
            "driver_hours": self.driver_seconds / 3600,
            "bytes_read": self.read,
            "bytes_written": self.written,
            "messages": self.messages,
        }
        return {**totals, **asdict(self), "warnings": list(self.warnings)}


@dataclass(frozen=True)
class Pieces:
    """Steps over all ranges of some rows."""

    rows: int
    dim: int
    item_bytes: int
    workers: int
    core_speed: float
    read_speed: float

    @property
    def ranges(self) -> int:
        return -(-self.rows // rows_per_range(self.dim))

    @property
    def tables(self) -> int:
        return -(-self.rows // rows_per_range(self.dim, rows=self.rows))

    @property
    def stored(self) -> int:
        return self.rows * self.dim * self.item_bytes

    def in_a_fold(self, value: int) -> int:
        """Bytes of values that are combined: those a task holds, and those a worker has left in the object store."""
        left = math.ceil(self.ranges / group_size(self.ranges, self.workers) / self.workers)
        return value * (most_values(self.ranges, self.workers) + left)

    def in_a_gathering(self, total: int) -> int:
        """Bytes of parts that the driver gathers, likewise."""
        return gathered_bytes(total, self.ranges, self.workers) + total // self.workers

    def labels(self, name: str) -> Step:
        """A step that reads a number of each row."""
        read = _ID * self.rows
        asked = fold_messages(self.ranges, self.workers)
        return Step(name, "workers", self.ranges, asked, read, read / self.read_speed)

    def ids(self, name: str, *, looks: int = 1) -> Step:
        """A step that finds the smallest hashes of ids, some times: it counts them, and then gathers some."""
        once = self.labels(name)
        asked = looks * (once.messages + self._gathered())
        return Step(
            name, "workers", 2 * looks * self.ranges, asked, 2 * looks * once.read, 2 * looks * once.core_seconds
        )

    def _gathered(self) -> int:
        """Messages of a step whose parts the driver gathers."""
        return 2 * group_count(self.ranges, self.workers)

    def gathering(self, name: str, others: float) -> Step:
        """A step that reads all rows, of which the driver gathers some."""
        return replace(self.pass_over(name, others), messages=self._gathered())

    def pass_over(self, name: str, others: float) -> Step:
        """A step that reads all rows, and compares each with so many others."""
        seconds = self.stored / self.read_speed + self.rows * self.dim * others / self.core_speed
        return Step(name, "workers", self.ranges, fold_messages(self.ranges, self.workers), self.stored, seconds)

    def scoring(self, others: float) -> Step:
        """The last step, of a table for each range."""
        seconds = self.stored / self.read_speed + self.rows * self.dim * others / self.core_speed
        return Step("scoring", "workers", self.tables, 2 * self.tables, self.stored, seconds)

    def jobs(self, name: str, tasks: int, products: float) -> Step:
        """A step of jobs that the driver gives the data to."""
        return Step(name, "workers", tasks, 2 * tasks, 0, products / self.core_speed)

    def iterations(self, name: str, stages: list[tuple[int, int]], k: int, dim: int) -> list[Step]:
        """Iterations over rows that the driver holds, some rows some times; it sends them if that is worth while."""
        numbers = sum(rows * times for rows, times in stages) * dim
        if not is_shared(max(stages)[0], dim, k, self.workers):
            return [self.alone(name, numbers * k)]
        tasks = sum(times * parts_sent(rows, self.workers) for rows, times in stages)
        sent = replace(self.alone(f"{name}: sending, sums", 0), core_seconds=_SENT * numbers)
        return [self.jobs(name, tasks, numbers * k), sent]

    def alone(self, name: str, products: float) -> Step:
        """A step of the driver."""
        return Step(name, "driver", 1, 0, 0, products / self.core_speed)

    def plan(self, k: int | None, steps: tuple[Step, ...], worker: int, driver: int) -> RunPlan:
        """The plan of some steps, which take so much memory beside the processes and a range of rows."""
        rows = min(self.rows, rows_per_range(self.dim))
        block = 3 * 4 * self.dim * rows // 8 + 64 * rows
        return RunPlan(
            *(self.rows, self.dim, k, self.workers, steps, _PROCESS + worker + block, _PROCESS + driver),
            *(_ROW_OUT * self.rows, self.core_speed, self.read_speed),
        )


# What makes the pieces of the work, given how many others every row is compared with, by which speed is measured.
Cut = Callable[[int], Pieces]


def plan_random(cut: Cut, **_: Any) -> RunPlan:
    """Only ids are read."""
    pieces = cut(1)
    scoring = replace(pieces.labels("scoring"), tasks=pieces.tables, messages=2 * pieces.tables)
    return pieces.plan(None, (scoring,), 0, 0)


def plan_class_means(cut: Cut, *, k: int | None, classes: int | None, **_: Any) -> RunPlan:
    """The classes, a pass for their means, and one for the scores."""
    pieces, classes = cut(1), k or classes or 1
    sums = 8 * classes * pieces.dim
    steps = (pieces.labels("classes"), pieces.pass_over("means of classes", 1), pieces.scoring(1))
    return pieces.plan(classes, steps, pieces.in_a_fold(sums), sums)


def plan_prototypes(cut: Cut, *, rows: int, k: int | None, classes: int | None, memory: int, **kmeans: Any) -> RunPlan:
    """A sample, the first centroids, passes of k-means, and the scores."""
    k = k or (min(classes, rows) if classes is not None and classes > 1 else default_k(rows))
    pieces, plan = cut(k), KMeans(k, seed=0, memory=memory, **kmeans)
    n, dim = rows, pieces.dim
    warnings: list[str] = []
    needed = plan.centroid_memory(dim)
    if needed > plan.memory:
        warnings.append(
            f"{k:,} centroids of {dim} dimensions need {format_size(needed)}, and memory is "
            f"{format_size(plan.memory)}: the run would be refused; raise memory."
        )
    layout = plan.layout(n, dim)
    first, leading = layout.first_rows, layout.dims is not None and layout.streamed
    # The sample is known by its largest hash, which two looks at the ids find; each group of rows has its own.
    looks = 1 + (layout.streamed and layout.size < n) + (leading and first < n) + leading
    steps = [pieces.ids("sampling: ids", looks=looks), pieces.gathering("sampling: rows", 0)]
    width, staged = dim if layout.dims is None else layout.dims, plan.is_staged(layout, dim)
    if leading:
        steps.append(pieces.gathering("leading dimensions", width * first / n))
    if plan.method == "hierarchical":
        upper, lower = two_level_products(first, k, plan.iterations, staged=staged)
        steps.append(pieces.alone("cells of the clusters", plan.restarts * upper * width))
        steps.append(pieces.jobs("first centroids", plan.restarts * cell_count(k), plan.restarts * lower * width))
    else:
        steps.append(pieces.alone("seeds of the clusters", plan.restarts * seeding_products(first, k) * width))
        stages = grouping_stages(first, k, plan.iterations, staged=staged)
        steps += pieces.iterations("first centroids", [(m, plan.restarts * i) for m, i in stages], k, width)
    if layout.dims is not None:
        steps.append(pieces.pass_over("centroids", 0) if leading else pieces.alone("centroids", first * dim))
    passes, share = plan.passes_at_most(layout), layout.size / n
    others = search_work(k, plan.probes or PASS_PROBES) if plan.is_grouped else k
    for number in range(passes):
        name = f"pass {number + 1}"
        streamed = pieces.pass_over(name, share * others)
        steps.append(streamed if layout.streamed else pieces.alone(name, layout.size * others * dim))
    if plan.is_grouped:
        others = search_work(k, plan.probes or PROBES)
        steps += [pieces.ids("agreement: ids"), pieces.gathering("agreement: rows", 0)]
        alone = (passes + 1) * grouped_search_products(k) + min(n, AGREEMENT_ROWS) * k
        steps.append(pieces.alone("groups of centroids, agreement", alone * dim))
    steps.append(pieces.scoring(others))
    head, low = 4 * dim * layout.head_rows, (4 * width + 8) * first if layout.dims is not None else 0
    worker = 4 * k * dim + max(pieces.in_a_fold(sums_memory(k, dim)), pieces.in_a_gathering(max(head, low)))
    # What workers send of a sample is put in order here, and for that time there twice.
    made = pieces.plan(k, tuple(steps), worker, needed + max(2 * head, head + 2 * low))
    if made.driver_seconds > _LARGE_DRIVER * made.seconds and made.driver_seconds > 600:
        warnings.append(
            f"the driver works alone {made.driver_seconds / made.seconds:.0%} of the time, on a sample that it holds; "
            f"less memory, method hierarchical, or fewer than {plan.sample_per_centroid} rows in sample_per_centroid "
            "would shorten it."
        )
    return replace(made, warnings=tuple(warnings))
