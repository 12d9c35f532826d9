"""Tables of scores that are read block by block: what is reported, and what is wrong is named by its place."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paredown as pdn
from paredown import score_table
from paredown.errors import PareError
from paredown.selection import Limits, open_table, select_streamed

BLOCKS = Limits(rows=7)


def write(file: Path, row_group_size: int | None = None, **columns) -> Path:
    columns = {"id": np.arange(20), "el2n": np.linspace(0, 1, 20)} | columns
    pq.write_table(pa.table(columns), file, row_group_size=row_group_size)
    return file


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"el2n": [*np.linspace(0, 1, 16), np.nan, 0.5, np.inf, 0.5]}, r"rows 16, 18: scores must be finite; fix or"),
        ({"label": ["a"] * 17 + [None] * 3}, r"rows 17, 18, 19: the label is missing; label such rows or drop them\."),
        ({"cluster": [1] * 15 + [None] + [1] * 4}, r"row 15: the cluster is missing; label such rows or drop them\."),
        ({"cluster": [1] * 17 + [2**31] * 3}, r"column 'cluster' must hold whole numbers of 32 bits \(cluster 2147"),
        ({"label": [1.0] * 17 + [0.5] * 3}, r", from row 14 on: labels must be classes"),
    ],
)
def test_rows_are_counted_in_their_file_and_not_in_their_block(tmp_path, columns, message) -> None:
    write(tmp_path / "0.parquet", **{name: values[:1] * 20 for name, values in columns.items()})
    write(tmp_path / "1.parquet", **columns)
    with pytest.raises(PareError, match=rf"1\.parquet:? ?{message}"):
        select_streamed(open_table(tmp_path), keep_fraction=0.5, balance=0, limits=BLOCKS)


@pytest.mark.parametrize("ids", [[*range(18), None, 19], [*"abcdefghijklmnopqr", "", "t"]])
def test_missing_ids_are_counted_in_their_file(tmp_path, ids) -> None:
    table = open_table(write(tmp_path / "s.parquet", id=ids))
    kept = select_streamed(table, keep_fraction=0.5, balance=0, limits=BLOCKS)
    with pytest.raises(PareError, match=r"s\.parquet: row 18: the id is missing; every example needs an id\."):
        kept.write(tmp_path / "m.parquet")


@pytest.mark.parametrize("names", [["a", "b"], [1, 2]])
def test_a_class_that_was_not_there_before_is_noticed(tmp_path, names) -> None:
    file = write(tmp_path / "s.parquet", label=names * 10)
    kept = select_streamed(open_table(file), keep_fraction=0.5, limits=BLOCKS)
    write(file, label=[*names * 9, names[0], {"a": "new", 1: 3}[names[0]]])
    with pytest.raises(PareError, match=r"s\.parquet: it changed while it was read; run again when it is complete\."):
        list(kept.batches())


def test_a_record_that_is_not_one_is_named(tmp_path) -> None:
    file = tmp_path / "s.parquet"
    columns = {"id": [0, 1], "el2n": [0.1, 0.2]}
    pq.write_table(pa.table(columns).replace_schema_metadata({"paredown": "{no"}), file)
    with pytest.raises(PareError, match=r"s\.parquet: not a readable table of scores \(.*\)\. Replace it\."):
        open_table(file)


def test_row_groups_are_read_a_few_at_a_time(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(score_table, "_RUN_ROWS", 6)
    write(tmp_path / "s.parquet", row_group_size=3)
    blocks = list(open_table(tmp_path / "s.parquet").blocks(["id"], 5))
    assert [block.first for block in blocks] == [0, 5, 6, 11, 12, 17, 18]
    assert [value for block in blocks for value in block.columns["id"].to_pylist()] == list(range(20))


def test_passes_are_reported(tmp_path) -> None:
    reported = []

    def track(items, label, total=None):
        items = list(items)
        reported.append((label, len(items), total))
        return iter(items)

    file = write(tmp_path / "s.parquet", label=[0, 1] * 10)
    options = {"keep_fraction": 0.5, "balance": 0.0, "strategy": "stratified", "mix_random": 0.2}
    kept = select_streamed(open_table(file), limits=BLOCKS, track=track, **options)
    kept.class_table()
    assert kept.keep.sum() == 10
    assert [label for label, _, _ in reported] == [
        "counting scores",
        "narrowing the cuts",  # to what is dropped, along with the lowest, median and highest score of each class
        "counting bins",
        "narrowing the cuts",
        "counting classes",  # for what is left to mix in
        "narrowing the cuts",
        "counting classes",
        "applying the cut",
    ]
    assert {blocks for _, *numbers in reported for blocks in numbers} == {3}


def test_a_flipped_bit_is_noticed_while_a_table_is_streamed(tmp_path: Path) -> None:
    """Not compressed, so that nothing but the checksum of the page can notice."""
    file = tmp_path / "scores.parquet"
    table = pa.table({"id": np.arange(4_000), "el2n": np.linspace(0.25, 0.75, 4_000)})
    pq.write_table(table, file, compression="none", use_dictionary=False, write_page_checksum=True)
    content = bytearray(file.read_bytes())
    place = content.index(np.float64(table["el2n"][2_000].as_py()).tobytes())
    content[place + 6] ^= 1
    file.write_bytes(content)
    with pytest.raises(PareError, match=r"scores\.parquet"):
        pdn.select(file, keep_fraction=0.5, memory=1)


def test_selecting_again_from_a_stream_reports_its_progress_too(tmp_path: Path) -> None:
    labels: list[str] = []

    def track(items: Any, label: str, total: int | None = None) -> Any:
        labels.append(label)
        return items

    pdn.write_scores(pdn.Scores(np.arange(50.0), np.arange(50)), tmp_path / "scores.parquet")
    kept = pdn.select(tmp_path / "scores.parquet", keep_fraction=0.5, memory=1, track=track)
    labels.clear()
    assert len(kept.at(0.2)) == 10
    assert labels


@pytest.mark.parametrize("strategy", ["hard", "easy"])
def test_a_narrow_band_has_the_same_median_in_a_stream(tmp_path: Path, strategy: str) -> None:
    """Two hundred scores, of which the upper of the two in the middle is 60 above the lower."""
    steps = np.arange(75) / 100
    far = np.arange(25.0)
    values = np.concatenate([far, 1e6 + steps, 1e6 + 60 + steps, 2e6 + far])
    pdn.write_scores(pdn.Scores(values, np.arange(200)), tmp_path / "scores.parquet")
    whole = pdn.select(tmp_path / "scores.parquet", keep_fraction=0.5, strategy=strategy)
    assert "of 1.00006e+06" in whole.notes[0]
    streamed = pdn.select(tmp_path / "scores.parquet", keep_fraction=0.5, strategy=strategy, memory=1)
    assert streamed.notes == whole.notes
