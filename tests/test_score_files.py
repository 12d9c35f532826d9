from __future__ import annotations

import json
import os
import stat
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paredown as pdn
from paredown.errors import PareError
from paredown.files import atomic, check_output, new_output
from paredown.ids import id_array
from paredown.score_files import is_scores, read_manifest, read_scores, write_scores
from paredown.scores import Labels, Scores


@pytest.fixture
def scores(rng) -> Scores:
    return Scores(
        rng.random(20),
        id_array([f"x{i}" for i in range(20)]),
        "prototypes",
        Labels.of(["cat", "dog"] * 10),
        rng.integers(0, 4, 20),
        {"seed": 7},
    )


def test_scores_survive_a_round_trip(tmp_path, scores) -> None:
    write_scores(scores, tmp_path / "s.parquet")
    back = read_scores(tmp_path / "s.parquet")
    np.testing.assert_array_equal(back.values, scores.values)
    assert back.ids.tolist() == scores.ids.tolist()
    assert back.metric == "prototypes"
    assert back.labels is not None
    assert back.labels.names.tolist() == scores.labels.names.tolist()
    np.testing.assert_array_equal(back.clusters, scores.clusters)
    assert back.provenance["seed"] == 7
    assert json.loads((tmp_path / "s.json").read_text())["seed"] == 7
    assert sorted(p.name for p in tmp_path.iterdir()) == ["s.json", "s.parquet"]


def test_manifest_has_the_promised_columns(tmp_path, scores) -> None:
    kept = pdn.select(scores, keep_fraction=0.5, balance=0.5)
    table = kept.manifest()
    assert table.column_names[:3] == ["id", "keep", "score"]
    assert table["keep"].to_numpy().sum() == 10
    recipe = json.loads(table.schema.metadata[b"paredown"])
    assert recipe["selection"]["keep_fraction"] == 0.5
    pq.write_table(table, tmp_path / "manifest.parquet")
    back, keep = read_manifest(tmp_path)  # the folder will do
    np.testing.assert_array_equal(keep, kept.keep)
    assert back.metric == "prototypes"


def test_anyones_scores_can_be_read(tmp_path) -> None:
    pq.write_table(
        pa.table({"id": [1, 2, 3], "el2n": [0.1, 0.2, 0.3], "forgetting": [3, 1, 2]}), tmp_path / "s.parquet"
    )
    assert read_scores(tmp_path / "s.parquet", metric="forgetting").values.tolist() == [3, 1, 2]
    with pytest.raises(PareError, match=r"which column holds the scores\? It has el2n, forgetting; .*metric="):
        read_scores(tmp_path / "s.parquet")
    with pytest.raises(PareError, match=r"s.parquet: not a manifest; it has no 'keep' column"):
        read_manifest(tmp_path / "s.parquet")
    pq.write_table(pa.table({"name": [1]}), tmp_path / "t.parquet")
    with pytest.raises(PareError, match=r"not a table of scores; it needs an 'id' and a score column, it has name"):
        read_scores(tmp_path / "t.parquet")
    (tmp_path / "u.parquet").write_bytes(b"PAR1 but not really")
    with pytest.raises(PareError, match=r"u.parquet: not a readable Parquet file"):
        read_scores(tmp_path / "u.parquet")
    with pytest.raises(PareError, match=r"v.parquet: there is no such file"):
        read_scores(tmp_path / "v.parquet")


# --- outputs appear whole or not at all ----------------------------------------------------------------------------


@pytest.mark.parametrize("folder", [False, True])
def test_failure_leaves_nothing(tmp_path, folder) -> None:
    out = tmp_path / "deep" / "out"
    with pytest.raises(RuntimeError, match="half way"), new_output(out, folder=folder) as part:
        (part / "x" if folder else part).write_text("half")
        raise RuntimeError("half way")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("folder", [False, True])
def test_existing_output_is_refused_or_replaced_whole(tmp_path, folder) -> None:
    out = tmp_path / "out"

    def write(text: str, fail: bool = False, **options) -> None:
        with new_output(out, folder=folder, **options) as part:
            (part / "x" if folder else part).write_text(text)
            if fail:
                raise RuntimeError("half way")

    def content() -> str:
        return (out / "x" if folder else out).read_text()

    write("old")
    with pytest.raises(
        PareError, match=r"out already exists; choose another output, or replace it with overwrite=True"
    ):
        write("new")
    with pytest.raises(RuntimeError, match="half way"):
        write("new", overwrite=True, fail=True)
    assert content() == "old"
    write("new", overwrite=True)
    assert content() == "new"
    assert sorted(p.name for p in tmp_path.iterdir()) == (["out"] if folder else [".out.paredown", "out"])


def test_failed_rename_puts_the_old_folder_back(tmp_path, monkeypatch) -> None:
    out = tmp_path / "out"
    with new_output(out, folder=True) as part:
        (part / "x").write_text("old")
    monkeypatch.setattr(atomic, "_rename", lambda *_: False)  # a system without an exchange in one step
    rename, calls = os.rename, []

    def fail_second(a, b) -> None:
        calls.append(a)
        if len(calls) == 2:
            raise OSError(28, "No space left on device")
        rename(a, b)

    monkeypatch.setattr(os, "rename", fail_second)
    with pytest.raises(PareError, match=r"the disk is full"), new_output(out, folder=True, overwrite=True) as part:
        (part / "x").write_text("new")
    assert (out / "x").read_text() == "old"


def test_disk_full_while_writing(tmp_path) -> None:
    with pytest.raises(PareError, match=r"cannot write .*out: the disk is full; nothing was changed"):
        with new_output(tmp_path / "out") as part:
            part.write_text("x")
            raise OSError(28, "No space left on device")
    assert list(tmp_path.iterdir()) == []


def test_kinds_of_output_are_not_mixed_up(tmp_path) -> None:
    (tmp_path / "file").write_text("x")
    (tmp_path / "folder").mkdir()
    with pytest.raises(PareError, match=r"file is a file, but a folder would be written there"):
        check_output(tmp_path / "file", overwrite=True, folder=True)
    with pytest.raises(PareError, match=r"folder is a folder, but a file would be written there"):
        check_output(tmp_path / "folder", overwrite=True)
    with pytest.raises(PareError, match=r"cannot write .*/file/out: .*/file is not a folder"):
        check_output(tmp_path / "file" / "out")


def test_read_only_folder_is_known_before_any_work(tmp_path: Path, monkeypatch) -> None:
    folder = tmp_path / "locked"
    folder.mkdir()
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    if os.access(folder, os.W_OK):  # root may write anywhere: ask as an ordinary user would be answered
        monkeypatch.setattr(os, "access", lambda path, mode: Path(path) != folder)
    for out in (folder / "out", folder / "deeper" / "out"):
        with pytest.raises(PareError, match=r"cannot write .*out: .*locked is read-only; choose another output"):
            check_output(out)


def test_scores_are_told_from_other_tables(tmp_path) -> None:
    tables = {
        "scores": ({"id": [1, 2], "el2n": [0.1, 0.2]}, True),
        "labelled": ({"id": ["a", "b"], "el2n": [0.1, 0.2], "label": ["x", "y"]}, True),
        "embeddings": ({"id": [1, 2], "embedding": [[0.1], [0.2]]}, False),
        "images": ({"id": [1, 2], "path": ["a.png", "b.png"], "width": [3, 4]}, False),
        "nameless": ({"el2n": [0.1, 0.2]}, False),
    }
    for name, (columns, expected) in tables.items():
        pq.write_table(pa.table(columns), tmp_path / f"{name}.parquet")
        assert is_scores(tmp_path / f"{name}.parquet") == expected
    assert not is_scores(tmp_path)


def test_anyones_scores_can_be_pruned(tmp_path) -> None:
    columns = {"id": list("abcd"), "el2n": [0.1, 0.9, 0.5, 0.7], "forgetting": [9.0, 1, 8, 2]}
    pq.write_table(pa.table(columns), tmp_path / "s.parquet")
    assert pdn.prune(tmp_path / "s.parquet", keep_fraction=0.5, metric="el2n").ids.tolist() == ["b", "d"]
    assert pdn.prune(tmp_path / "s.parquet", keep_fraction=0.5, metric="forgetting").ids.tolist() == ["a", "c"]
    with pytest.raises(PareError, match=r"which column holds the scores\?"):
        pdn.prune(tmp_path / "s.parquet", keep_fraction=0.5)


def test_several_metrics_in_one_table(tmp_path, scores) -> None:
    other = replace(scores, values=scores.values[::-1], metric="aum", provenance={"seed": 7})
    write_scores([scores, other], tmp_path / "both.parquet")
    for expected in (scores, other):
        found = read_scores(tmp_path / "both.parquet", metric=expected.metric)
        np.testing.assert_array_equal(found.values, expected.values)
        assert found.provenance == expected.provenance | {"metric": expected.metric}
    kept = pdn.prune(tmp_path / "both.parquet", metric="aum", keep_fraction=0.5, balance=0.0)
    streamed = pdn.prune(tmp_path / "both.parquet", metric="aum", keep_fraction=0.5, balance=0.0, memory=1)
    assert kept.scores.provenance == streamed.scores.provenance == {"seed": 7, "metric": "aum"}
    assert kept.scores.values[kept.keep].min() >= np.median(other.values)
    with pytest.raises(PareError, match="choose one with metric="):
        read_scores(tmp_path / "both.parquet")
    with pytest.raises(PareError, match=r"would be called 'aum'; give each metric once"):
        write_scores([other, other], tmp_path / "twice.parquet")
    with pytest.raises(PareError, match="for different examples, or in another order"):
        write_scores([scores, replace(other, ids=scores.ids[::-1])], tmp_path / "mixed.parquet")
