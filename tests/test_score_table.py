"""Samples of tables that are never in memory as a whole."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from paredown.errors import PareError
from paredown.score_files import provenance_metadata
from paredown.score_table import open_table, read_sample


def write(path: Path, first: int = 0, **columns: object) -> Path:
    rows = np.arange(first, first + 1_000)
    table = {"id": [f"i{row}" for row in rows], "score": rows.astype(float), "label": [f"c{row % 7}" for row in rows]}
    pq.write_table(pa.table(table | columns), path)
    return path


def test_a_sample_has_about_as_many_rows_as_asked_for(tmp_path) -> None:
    for part in range(3):
        write(tmp_path / f"{part}.parquet", 1_000 * part)
    scores, keep = read_sample(tmp_path, most=300)
    assert keep is None
    assert 250 < len(scores) < 350
    assert [f"i{value:.0f}" for value in scores.values] == scores.ids.tolist()
    assert scores.labels is not None
    assert scores.labels.names.tolist() == [f"c{value % 7:.0f}" for value in scores.values]


def test_a_sample_of_more_rows_than_there_are_is_the_table(tmp_path) -> None:
    scores, keep = read_sample(write(tmp_path / "m.parquet", keep=np.arange(1_000) % 3 == 0), most=5_000)
    np.testing.assert_array_equal(scores.values, np.arange(1_000))
    assert keep is not None
    np.testing.assert_array_equal(keep, np.arange(1_000) % 3 == 0)


def test_columns_that_nobody_asks_for_are_not_read(tmp_path) -> None:
    path = write(tmp_path / "m.parquet", other=np.zeros(1_000), caption=["x" * 1_000] * 1_000)
    assert len(read_sample(path, most=1_000, metric="other")[0]) == 1_000


@pytest.mark.parametrize("keep", [np.arange(1_000) % 2, [True, None] * 500, ["yes"] * 1_000])
def test_a_sample_of_what_is_no_manifest_is_refused(tmp_path, keep) -> None:
    path = write(tmp_path / "m.parquet", keep=keep)
    with pytest.raises(PareError, match="its 'keep' column must be true or false in every row"):
        read_sample(path, most=100)


@pytest.mark.parametrize(
    ("column", "record", "metric"),
    [("score", {"metric": "el2n"}, "el2n"), ("score", {}, "score"), ("own", {"metric": "el2n"}, "own")],
)
def test_a_column_called_score_is_of_the_metric_on_record(tmp_path, column, record, metric) -> None:
    table = pa.table({"id": [1, 2], column: [0.5, 1.0]}).replace_schema_metadata(provenance_metadata(record))
    pq.write_table(table, tmp_path / "m.parquet")
    assert open_table(tmp_path / "m.parquet").metric == metric
