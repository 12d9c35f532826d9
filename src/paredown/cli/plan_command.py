"""`paredown plan`: what scoring by ranges of rows would take, before anything is spent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from paredown.cli.app import JsonOption, advanced_option, app, metric_option, positional, scale_option
from paredown.cli.scoring_options import parse_options
from paredown.cli.terminal import Side, TextTable, compose, emit, say
from paredown.errors import PareError, check_known
from paredown.metrics import DEFAULT_METRIC
from paredown.units import format_duration, format_size

if TYPE_CHECKING:
    from paredown.metrics.ranged_plans import RunPlan


@app.command(epilog="Example: `paredown plan --rows 400e6 --dim 768 --k 10000 --workers 256`")
def plan(
    source: Annotated[str | None, positional("SOURCE", "Embeddings; only their headers are read.")] = None,
    rows: Annotated[float | None, typer.Option(metavar="N", help="How many embeddings, such as 400e6.")] = None,
    dim: Annotated[int | None, typer.Option(help="How many dimensions they have.")] = None,
    workers: Annotated[int, typer.Option(help="Cores that work at the same time.")] = 1,
    metric: Annotated[str, metric_option("NAME", "A metric that reads embeddings by ranges of rows.")] = DEFAULT_METRIC,
    k: Annotated[
        int | None,
        metric_option(
            "N", "Number of prototypes or clusters.", show_default="the classes, or half the root of the rows"
        ),
    ] = None,
    classes: Annotated[
        int | None, metric_option("N", "Classes of the labels.", show_default="those of labels.npy in SOURCE")
    ] = None,
    kernel: Annotated[
        str | None, advanced_option("NAME", "How centroids are compared: {kernels}.", show_default="auto")
    ] = None,
    option: Annotated[
        list[str] | None, metric_option("NAME=VALUE", "An option of k-means, such as method=full. Can be repeated.")
    ] = None,
    memory: Annotated[str, scale_option("SIZE", "Memory to work in, as for `score`.")] = "1GiB",
    dtype: Annotated[
        str | None, scale_option("NAME", "How numbers are stored: {item_bytes}.", show_default="float32")
    ] = None,
    read_speed: Annotated[str, advanced_option("SIZE", "Bytes that a worker reads in a second.")] = "100MB",
    core_speed: Annotated[
        float | None,
        advanced_option(
            "GFLOPS", "Multiplications and additions of a core in a second, in 10^9.", show_default="measured here"
        ),
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Say what scoring on one or many machines would take: core-hours, memory, bytes and messages.

    Give a SOURCE, or the number of embeddings with --rows and --dim.
    """
    from paredown.metrics.registry import check_options, find_metric
    from paredown.scoring.run_plan import count_classes, plan_run

    find_metric(metric)
    given = parse_options([metric], option or []) | ({} if kernel is None else {"kernel": kernel})
    check_options([metric], given)
    n, width, item_bytes = _sizes(source, rows, dim, dtype)
    if classes is None and k is None and source is not None:
        classes = count_classes(source)
    made = plan_run(
        n,
        width,
        metric=metric,
        k=k,
        classes=classes,
        workers=workers,
        item_bytes=item_bytes,
        memory=memory,
        core_speed=None if core_speed is None else core_speed * 5e8,
        read_speed=read_speed,
        **given,
    )
    emit(made.to_dict(), as_json=as_json, show=lambda: _show(made))


def _sizes(source: str | None, rows: float | None, dim: int | None, dtype: str | None) -> tuple[int, int, int]:
    """How many embeddings, of how many dimensions and bytes per number: as given, or as the headers of files say."""
    from paredown.scoring.run_plan import ITEM_BYTES

    if dtype is not None:
        check_known("dtype", dtype, ITEM_BYTES)
    if source is not None:
        from paredown.sources.row_ranges import RangedSource

        if rows is not None or dim is not None:
            raise PareError(f"{source} says how many embeddings there are; leave out --rows and --dim.")
        opened = RangedSource(source)
        return len(opened), opened.dim, ITEM_BYTES[dtype] if dtype else opened.item_bytes
    if rows is None or dim is None:
        raise PareError("give SOURCE, or both --rows and --dim.")
    if not (1 <= rows < 2**63 and rows == int(rows)):
        raise PareError(f"--rows must be a positive whole number, such as 400e6; got {rows:g}.")
    return int(rows), dim, ITEM_BYTES[dtype or "float32"]


def _show(made: RunPlan) -> None:
    k = f", k = {made.k:,}" if made.k else ""
    title = compose("{:,} x {:,}{}, {:,} worker{}", made.rows, made.dim, k, made.workers, "s" * (made.workers > 1))
    columns: dict[str, Side] = {"step": "left", "where": "left"}
    columns |= dict.fromkeys(("tasks", "core-hours", "read"), "right")
    table = TextTable(title, columns, narrow=True)
    for step in made.steps:
        read = format_size(step.read) if step.read else ""
        table.add(step.name, step.where, f"{step.tasks:,}", _hours(step.core_seconds), read)
    table.show()
    say(
        "About {} core-hours, which take {}; for {} of it the driver works alone.",
        _hours(made.core_seconds),
        format_duration(made.seconds),
        format_duration(made.driver_seconds),
    )
    say("Memory: {} per worker, {} for the driver.", format_size(made.worker_memory), format_size(made.driver_memory))
    say("{} read, {} written, {:,} messages.", format_size(made.read), format_size(made.written), made.messages)
    say(
        "Assumed: {:.3g} GFLOPS per core, and {} a second read by each worker (--core-speed, --read-speed).",
        made.core_speed / 5e8,
        format_size(made.read_speed),
    )
    for warning in made.warnings:
        say("[yellow]Note:[/] {}", warning)


def _hours(seconds: float) -> str:
    hours = seconds / 3600
    return f"{hours:,.0f}" if hours >= 100 else f"{hours:.3g}" if hours >= 0.01 else f"{hours:.4f}"
