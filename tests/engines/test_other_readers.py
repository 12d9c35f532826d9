"""Folders of scores and sharded manifests as others read them: all tables, and nothing but tables."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.dataset as ds
import pytest

import paredown as pdn
from paredown.engines import InProcess
from paredown.scoring.ranged_scoring import merge, score_ranges
from paredown.selection import Limits

PARTS = Limits(rows=64, candidates=150, cells=8192, part=700)


class InParts(InProcess):
    """This process, as an engine that gives the work out in many groups."""

    workers = 3


@pytest.fixture
def folder(tmp_path, rng, monkeypatch) -> Path:
    """A folder of scores of five tables."""
    for module in ("sources.row_ranges", "sources.base"):
        monkeypatch.setattr(f"paredown.{module}.BLOCK_BYTES", 2**12)
    (tmp_path / "x").mkdir()
    np.save(tmp_path / "x" / "e.npy", rng.standard_normal((5_000, 8)).astype(np.float32))
    np.save(tmp_path / "x" / "labels.npy", np.arange(5_000) % 3)
    score_ranges(tmp_path / "x", out=tmp_path / "s", k=5, engine=InProcess())
    assert len(list((tmp_path / "s").glob("*.parquet"))) > 3
    return tmp_path / "s"


@pytest.fixture
def shards(folder, tmp_path, monkeypatch) -> Path:
    """A manifest of several shards."""
    monkeypatch.setattr(Limits, "__init__", lambda self, **_: self.__dict__.update(PARTS.__dict__))
    pdn.prune(folder, keep_fraction=0.3, out=tmp_path / "pruned", engine=InParts())
    assert len(list((tmp_path / "pruned" / "manifest.parquet").iterdir())) > 3
    return tmp_path / "pruned" / "manifest.parquet"


def with_pandas(path: Path) -> pd.DataFrame:
    return pd.read_parquet(path)


def with_pyarrow(path: Path) -> pd.DataFrame:
    return ds.dataset(path).to_table().to_pandas()


def with_duckdb(path: Path) -> pd.DataFrame:
    import duckdb

    found = duckdb.sql(f"SELECT * FROM read_parquet('{path}/*.parquet')").fetchnumpy()
    return pd.DataFrame({name: np.asarray(values) for name, values in found.items()})


def with_polars(path: Path) -> pd.DataFrame:
    import polars

    return pd.DataFrame(polars.read_parquet(path / "*.parquet").to_dict(as_series=False))


READERS = [with_pandas, with_pyarrow, with_duckdb, with_polars]


def by_id(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.sort_values("id").reset_index(drop=True)


@pytest.mark.parametrize("read", READERS)
def test_a_folder_of_scores(folder, read) -> None:
    scores, frame = pdn.read_scores(folder), by_id(read(folder))
    order = np.argsort(scores.ids)
    assert frame["id"].tolist() == scores.ids[order].tolist()
    np.testing.assert_array_equal(frame["prototypes"], scores.values[order])
    assert frame["label"].astype(str).tolist() == scores.labels.names[order].tolist()


@pytest.mark.parametrize("read", READERS)
def test_a_manifest_of_several_shards(shards, read) -> None:
    (scores, keep), frame = pdn.read_manifest(shards), by_id(read(shards))
    order = np.argsort(scores.ids)
    assert frame["id"].tolist() == scores.ids[order].tolist()
    assert frame["keep"].tolist() == keep[order].tolist()
    np.testing.assert_array_equal(frame["score"], scores.values[order])
    np.testing.assert_array_equal(frame["cluster"], scores.clusters[order])
    assert frame["keep"].sum() == 1_500


def test_what_is_beside_the_tables_is_no_table(folder) -> None:
    beside = sorted(item.name for item in folder.iterdir() if item.suffix != ".parquet")
    assert beside == [".paredown", "_complete.json", "_model.npz", "_settings.json"]


@pytest.mark.parametrize("tables", ["5", None, 5.0, [5]])
def test_a_record_that_says_no_number_of_tables_is_damaged(folder, tables) -> None:
    (folder / "_complete.json").write_text(json.dumps({"paredown": "0.1.0", "tables": tables}))
    checked = pdn.verify(folder)
    if tables is None:
        assert checked.kind == "unfinished folder of scores"
    else:
        (problem,) = checked.problems
        assert (problem.path.name, problem.what[:21]) == ("_complete.json", "the record is damaged")


def test_folders_with_the_first_names_still_open(folder, tmp_path, paredown) -> None:
    """As they were before there was a `_` in front: finished ones, and those that are finished now."""
    earlier = shutil.copytree(folder, tmp_path / "earlier")
    for name in ("_complete.json", "_model.npz", "_settings.json"):
        (earlier / name).rename(earlier / name[1:])
    values = pdn.read_scores(folder).values
    np.testing.assert_array_equal(pdn.read_scores(earlier).values, values)
    assert pdn.verify(earlier).problems == ()
    assert pdn.info(earlier).kind == "scores"
    before = {file.name: file.read_bytes() for file in earlier.iterdir()}
    assert len(score_ranges(tmp_path / "x", out=earlier, k=5)) == len(merge(earlier)) == 5_000
    assert {file.name: file.read_bytes() for file in earlier.iterdir()} == before
    (earlier / "complete.json").unlink()
    (earlier / "000001.parquet").unlink()
    with pytest.raises(pdn.PareError, match="these scores are incomplete"):
        pdn.read_scores(earlier)
    assert paredown("info", earlier).returncode == 0
    score_ranges(tmp_path / "x", out=earlier, k=5)
    np.testing.assert_array_equal(pdn.read_scores(earlier).values, values)
    assert sorted(item.name for item in earlier.iterdir() if item.suffix != ".parquet") == [
        ".paredown",
        "_complete.json",
        "model.npz",
        "settings.json",
    ]
    score_ranges(tmp_path / "x", out=earlier, k=5, seed=1, overwrite=True)
    assert not (earlier / "settings.json").exists()
