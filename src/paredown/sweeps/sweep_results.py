"""The results of a sweep read back from its folder, also while it runs."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from paredown.errors import PareError
from paredown.places import as_place
from paredown.records import read_record
from paredown.sweeps.grid import Run
from paredown.sweeps.sweeping import MEASURED, PLAN

_KINDS = {"int": pa.int64(), "float": pa.float64(), "str": pa.string()}


class SweepOnDisk(NamedTuple):
    """What has ended of a sweep so far."""

    table: pa.Table  # one row per run that ended, as `results.parquet` has them
    planned: int | None  # runs of the whole grid; None in folders of earlier versions


def read_sweep(folder: str | Path) -> SweepOnDisk:
    """The runs of a sweep that have ended; unreadable ones are left out, as the sweep would train them again."""
    folder = as_place(folder)
    if not (folder / "runs").is_dir():
        raise PareError(
            f"{folder}: not a sweep, or none of its students has ended yet; there is no folder 'runs' in it."
        )
    planned = (read_record(folder / PLAN) or {}).get("runs")
    names = sorted(file.stem for file in (folder / "runs").glob("*.json")) if planned is None else list(planned)
    found = {name: read_record(folder / "runs" / f"{name}.json") for name in names}
    ended = {name: result for name, result in found.items() if result is not None and _has_ended(result)}
    columns: dict[str, Any] = {"run": pa.array(list(ended), pa.string())}
    for entry in fields(Run):
        values = [result["run"][entry.name] for result in ended.values()]
        columns[entry.name] = pa.array(values, _KINDS[str(entry.type)])
    for name, kind in MEASURED.items():
        columns[name] = pa.array([result.get(name) for result in ended.values()], kind)
    return SweepOnDisk(pa.table(columns), None if planned is None else len(planned))


def _has_ended(result: dict[str, Any]) -> bool:
    run = result.get("run")
    known = isinstance(run, dict) and set(run) == {entry.name for entry in fields(Run)}
    return known and result.get("status") in ("done", "failed")
