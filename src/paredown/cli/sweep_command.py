"""`paredown sweep`: train students over a grid of sizes, fractions, strategies and seeds, and compare."""

from __future__ import annotations

import math
from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from paredown.cli.announced_outputs import current
from paredown.cli.app import JsonOption, app, positional
from paredown.cli.engine_options import EngineOptions
from paredown.cli.terminal import TextTable, aside, compose, emit, progress_bar, say
from paredown.units import format_duration

if TYPE_CHECKING:
    from paredown.sweeps import SweepPlan, SweepResult
    from paredown.sweeps.summary import Advice, ComparisonWithRandom

_SHOWN = 40  # rows on screen; the table has all
_REASONS = 10  # of failures on screen


@app.command(epilog="Example: `paredown sweep sweep.toml -o swept`")
def sweep(
    config: Annotated[Path, positional("CONFIG", "A TOML file with [data], [grid], [student] and [probe].")],
    out: Annotated[Path, typer.Option("-o", "--out", help="Folder for runs and results.", show_default=False)],
    where: EngineOptions,
    retry_failed: Annotated[bool, typer.Option("--retry-failed", help="Run failed students again.")] = False,
    as_json: JsonOption = False,
) -> None:
    """Train a student at every point of a grid and compare each with a random subset of the same size.

    To finish a sweep that was stopped, run the same command again.
    """
    from paredown.plots import sweep_picture
    from paredown.sweeps import plan_sweep, read_settings, sweep_plan
    from paredown.sweeps.summary import advice, compare_with_random

    current.grows(out, "finished runs")
    where.check(local_workers=True)
    plan = plan_sweep(read_settings(config), out=out, retry_failed=retry_failed, track=progress_bar)
    _announce(plan)
    swept = sweep_plan(plan, track=progress_bar, announce=_announce_duration, **where.arguments())
    compared, advised = compare_with_random(swept.table), advice(swept.table)
    picture = sweep_picture(swept.table, out / "curves.png")
    result = {
        "results": str(out / "results.parquet"),
        "picture": None if picture is None else str(picture),
        "runs": swept.table.num_rows,
        "failed": [{"run": vars(run), "reason": reason} for run, reason in swept.failed],
        "unfinished": [{"run": vars(run), "reason": reason} for run, reason in swept.unfinished],
        "missing_classes": _missing_classes(swept),
        "against_random": [
            {
                **{name: value for name, value in vars(row).items() if name not in ("comparisons", "family", "floor")},
                "z": row.z,
                "p_value": row.p_value,
                "corrected_p_value": row.corrected_p_value,
                "effect": row.effect.value,
            }
            for row in compared
        ],
        "advice": [str(each) for each in advised],
        "verdicts": [_verdict(each) for each in advised],
    }
    emit(result, as_json=as_json, show=lambda: _show(swept, compared, result["advice"], picture))
    if swept.unfinished or len(swept.failed) == swept.table.num_rows:
        raise typer.Exit(1)


def _verdict(advised: Advice) -> dict[str, Any]:
    way = ("metric", "strategy", "balance", "matched_iterations")
    return {name: getattr(advised, name) for name in way} | {"verdict": advised.verdict.value}


def _missing_classes(swept: SweepResult) -> list[dict[str, Any]]:
    """Students whose subset has no example of some class: pruning may have removed it."""
    from paredown.sweeps import Run

    values = [entry.name for entry in fields(Run)]
    return [
        {"run": {name: row[name] for name in values}, "classes": row["missing_classes"]}
        for row in swept.table.to_pylist()
        if row["missing_classes"]
    ]


def _announce(plan: SweepPlan) -> None:
    left, all_ = len(plan.todo), len(plan.files)
    done = f", {all_ - left} of them done already" if left < all_ else ""
    settings = plan.settings
    aside("{}: {} students{}; recipe {}.", settings.data.source, all_, done, settings.student.recipe)


def _announce_duration(seconds: float) -> None:
    aside("This will take about {}, judging by a few training steps.", format_duration(seconds))


def _show_way(way: str, rows: list[ComparisonWithRandom]) -> None:
    """A table of at most 80 characters; standard errors of the single columns are in --json."""
    from paredown.sweeps.pruning_verdicts import Effect

    headings = ("initial", "keep", "pruned", "random", "unpruned", "pruned - random", "z")
    shown = TextTable(compose("{}: test error in %", way), dict.fromkeys(headings, "right"))
    for row in rows:
        color = "" if row.effect is Effect.UNDECIDED else "green" if row.effect is Effect.HELPS else "red"
        shown.add(
            f"{row.initial_size:,}",
            f"{row.keep_fraction:g}",
            f"{100 * row.test_error:.2f}",
            f"{100 * row.random_error:.2f}",
            "" if math.isnan(row.unpruned_error) else f"{100 * row.unpruned_error:.2f}",
            f"{100 * row.difference:+.2f}"
            + ("" if math.isnan(row.difference_stderr) else f" ± {100 * row.difference_stderr:.2f}"),
            "" if math.isnan(row.z) else f"{row.z:+.1f}",
            style=color,
        )
    shown.show()


def _show(swept: SweepResult, compared: list[ComparisonWithRandom], advice: list[str], picture: Path | None) -> None:
    from paredown.sweeps.pruning_verdicts import group_by_way

    for way, rows in group_by_way(compared[:_SHOWN]).items():
        _show_way(way, rows)
    if not compared:
        say("Nothing to compare: no pruned student and its random counterpart both succeeded.")
    if len(compared) > _SHOWN:
        say("... and {} more in results.parquet", len(compared) - _SHOWN)
    for sentence in advice:
        say("{}", sentence)
    for kind, runs in (("failed", swept.failed), ("unfinished", swept.unfinished)):
        for run, reason in runs[:_REASONS]:
            say("[yellow]{}:[/] {}: {}", kind, _name(vars(run)), reason)
        if len(runs) > _REASONS:
            say("... and {} more", len(runs) - _REASONS)
    if swept.failed:
        failed, all_ = len(swept.failed), swept.table.num_rows
        say("{} of {} students failed; --retry-failed trains them again.", failed, all_)
    if swept.unfinished:
        say("{} students did not finish; run the same command again to retry them.", len(swept.unfinished))
    if missing := _missing_classes(swept):
        worst = max(missing, key=lambda student: len(student["classes"]))
        some = ", ".join(worst["classes"][:5]) + (", ..." if len(worst["classes"]) > 5 else "")
        say(
            "[yellow]note:[/] {} of {} students saw no example of some class, so they cannot recognise it; for "
            "example, {} in {}. See missing_classes in the results, and set balance in \\[grid] to keep every class.",
            len(missing),
            swept.table.num_rows,
            some,
            _name(worst["run"]),
        )
    drawn = f"; picture: {picture}" if picture else ""
    say("Results: [bold]{}[/]{}", swept.folder / "results.parquet", drawn)


def _name(run: dict[str, Any]) -> str:
    way = "random" if run["metric"] == "random" else f"{run['metric']}, {run['strategy']}"
    return f"{run['keep_fraction']:g} of {run['initial_size']:,} ({way}, seed {run['seed']})"
