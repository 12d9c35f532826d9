"""Records of tables that anyone may have written: what paredown would not have written counts as missing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paredown as pdn
from paredown.comparison import compare
from paredown.describing import info
from paredown.provenance import sound_record
from paredown.report import write_report

RECIPE = {
    "keep_fraction": 0.5,
    "strategy": "hard",
    "balance": 0.0,
    "quota": "none",
    "drop_hardest": 0.05,
    "mix_random": 0.0,
    "seed": 0,
    "grouped_by": None,
}
RECORD: dict[str, Any] = {
    "metric": "el2n",
    "seed": 3,
    "options": {"members": 2},
    "source": {"location": "/nowhere", "kind": "image folder", "opened_with": {"columns": {}, "split": None}},
    "report": {"reliability": 0.5, "models": 2, "k_sensitivity": {"9": 0.5}},
    "warnings": ["careful"],
    "notes": [],
    "skipped": [["a", "unreadable"]],
    "selection": RECIPE,
}


def write_manifest(path: Path, record: object) -> Path:
    values = np.arange(10.0)
    table = pa.table({"id": [f"i{row}" for row in range(10)], "keep": values > 4, "score": values})
    pq.write_table(table.replace_schema_metadata({b"paredown": json.dumps(record).encode()}), path)
    return path


def test_a_record_of_paredown_is_kept_as_it_is() -> None:
    assert sound_record(RECORD) == RECORD
    assert sound_record({"metrics": {"el2n": RECORD, "aum": {}}, "request": "x"}) == {
        "metrics": {"el2n": RECORD, "aum": {}},
        "request": "x",
    }


@pytest.mark.parametrize(
    ("given", "left"),
    [
        ({"report": 5, "source": "x", "warnings": {}, "metric": None}, {}),
        ({"seed": -1, "selection": {"seed": 2**64, "balance": "0.5", "strategy": []}}, {"selection": {}}),
        ({"seed": True, "notes": [1], "skipped": "a", "options": [1]}, {}),
        (
            {"source": {"images": 5, "location": 5, "opened_with": {"columns": {"id": 1}}}},
            {"source": {"opened_with": {}}},
        ),
        ({"report": {"reliability": "high", "models": 10**400, "k": 5}}, {"report": {"k": 5}}),
        ({"metrics": {"a": 1, "b": {"report": 5}}}, {"metrics": {"b": {}}}),
        ({"metrics": 5, "anything": [1]}, {"metrics": {}, "anything": [1]}),
    ],
)
def test_entries_of_another_kind_count_as_missing(given: dict[str, Any], left: dict[str, Any]) -> None:
    assert sound_record(given) == left


@pytest.mark.parametrize("name", [*RECORD, "metrics"])
@pytest.mark.parametrize("value", [5, -1, "x", None, [1], {"a": 1}, {"location": 5}])
def test_nothing_trips_over_an_entry_of_another_kind(tmp_path: Path, name: str, value: object) -> None:
    file = write_manifest(tmp_path / "m.parquet", RECORD | {name: value})
    write_report(file, tmp_path / "report.html")
    assert info(file).facts["kept"]["kept"] == 5
    assert info(file).introduce()["examples"] == "10"
    assert compare(file, {"other": np.arange(10)}, ids=[f"i{row}" for row in range(10)]).examples == 10
    assert pdn.export(file, to="csv", out=tmp_path / "kept.csv") == 10


@pytest.mark.parametrize("name", list(RECIPE))
@pytest.mark.parametrize("value", [-5, 2**64 - 1, "x", None, [1], "missing"])
def test_a_recipe_that_cannot_be_is_not_repeated(tmp_path: Path, name: str, value: object) -> None:
    recipe = {**RECIPE, "mix_random": 0.5, name: value}
    if value == "missing":
        del recipe[name]
    file = write_manifest(tmp_path / "m.parquet", RECORD | {"selection": recipe})
    write_report(file, tmp_path / "report.html")
    assert info(file).introduce()["kept"].startswith("5 (50 %)")
