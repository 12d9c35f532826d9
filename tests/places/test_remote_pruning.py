"""Pruning in an object store: what is kept is the same as on a disk, and an output is complete or not there."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import paredown as pdn
from paredown.errors import PareError
from paredown.places import as_place
from paredown.score_table import open_table
from paredown.scoring.ranged_scoring import score_ranges


@pytest.fixture
def scores(tmp_path: Path, s3, rng, monkeypatch) -> str:
    """A folder of tables of scores in the store, and the same on disk."""
    monkeypatch.setattr("paredown.sources.row_ranges.rows_per_range", lambda dim, *, rows=0: 256)
    np.save(tmp_path / "rows.npy", rng.normal(size=(1000, 8)).astype(np.float32))
    score_ranges(tmp_path / "rows.npy", out=tmp_path / "scores", k=4)
    for file in (tmp_path / "scores").iterdir():
        s3.put(file, f"scores/{file.name}")
    return s3.url("scores")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "paredown", *arguments], capture_output=True, text=True, timeout=300)


def files(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


@pytest.mark.parametrize("memory", ["1KiB", "1GiB"], ids=["streamed", "in memory"])
def test_a_manifest_has_the_bytes_of_one_on_disk(tmp_path, s3, scores, memory) -> None:
    on_disk = pdn.prune(scores, keep_fraction=0.3, out=tmp_path / "pruned", memory=memory)
    kept = pdn.prune(scores, keep_fraction=0.3, out=s3.url("pruned"), memory=memory)
    assert s3.objects("pruned") == files(tmp_path / "pruned")
    assert np.array_equal(kept.ids, on_disk.ids)
    again = pdn.prune(scores, keep_fraction=0.3, out=s3.url("pruned"), memory=memory)
    assert again.already
    assert np.array_equal(pdn.select(s3.url("pruned"), keep_fraction=0.3).ids, on_disk.ids)


def test_embeddings_are_pruned_where_they_are(tmp_path, s3, scores) -> None:
    s3.put(tmp_path / "rows.npy", "embeddings/00000.npy")
    expected = pdn.prune(tmp_path / "rows.npy", keep_fraction=0.3, scoring={"k": 4})
    kept = pdn.prune(s3.url("embeddings/00000.npy"), keep_fraction=0.3, out=s3.url("pruned"), scoring={"k": 4})
    assert np.array_equal(kept.ids, expected.ids)
    assert sorted(s3.objects()) == sorted(
        ["embeddings/00000.npy", *(f"scores/{name}" for name in s3.objects("scores"))]
        + [f"pruned/{name}" for name in (".paredown", "classes.csv", "manifest.json", "manifest.parquet")]
    )


def test_an_output_of_other_settings_is_replaced_only_on_request_and_only_ours(tmp_path, s3, scores) -> None:
    out = s3.url("pruned")
    pdn.prune(scores, keep_fraction=0.3, out=out)
    with pytest.raises(PareError, match="already exists, made from other data or with other settings"):
        pdn.prune(scores, keep_fraction=0.5, out=out)
    pdn.prune(scores, keep_fraction=0.5, out=out, overwrite=True)
    pdn.prune(scores, keep_fraction=0.5, out=tmp_path / "pruned")
    assert s3.objects("pruned") == files(tmp_path / "pruned")
    s3.put(tmp_path / "rows.npy", "pruned/mine.npy")
    with pytest.raises(PareError, match=r"contains files that were added or changed .*\(mine.npy\)"):
        pdn.prune(scores, keep_fraction=0.3, out=out, overwrite=True)
    s3.put(tmp_path / "rows.npy", "other/mine.npy")
    with pytest.raises(PareError, match="paredown did not write it"):
        pdn.prune(scores, keep_fraction=0.3, out=s3.url("other"))
    with pytest.raises(PareError, match="was not written by paredown, so it is never replaced"):
        pdn.prune(scores, keep_fraction=0.3, out=s3.url("other"), overwrite=True)
    with pytest.raises(PareError, match="holds a folder of scores, which nothing else replaces; move it away, or"):
        pdn.prune(scores, keep_fraction=0.3, out=scores, overwrite=True)
    with pytest.raises(PareError, match="is inside an input"):
        pdn.prune(scores, keep_fraction=0.3, out=f"{scores}/pruned")


@pytest.mark.parametrize(("number", "overwrite"), [(1, False), (2, False), (3, True), (5, False), (5, True)])
def test_an_upload_that_fails_leaves_nothing_that_looks_complete(tmp_path, s3, scores, number, overwrite) -> None:
    out, wanted = s3.url("pruned"), pdn.prune(scores, keep_fraction=0.3, out=tmp_path / "pruned")
    if overwrite:
        pdn.prune(scores, keep_fraction=0.5, out=out)
    s3.faults(put=number, do="fail")
    with pytest.raises(PareError, match=r"the object store failed .*Run the same command again to go on"):
        pdn.prune(scores, keep_fraction=0.3, out=out, overwrite=overwrite)
    s3.faults()
    if number > 1:
        with pytest.raises(PareError, match="incomplete; run the command again"):
            open_table(out)
        assert "unfinished" in json.loads((as_place(out) / ".paredown").read_text())
        assert pdn.verify(out).problems
    kept = pdn.prune(scores, keep_fraction=0.3, out=out, overwrite=overwrite)
    assert not kept.already
    assert np.array_equal(kept.ids, wanted.ids)
    assert s3.objects("pruned") == files(tmp_path / "pruned")


def test_a_remote_output_is_described_verified_and_exported(tmp_path, s3, scores, paredown) -> None:
    out = s3.url("pruned")
    assert "Manifest" in paredown("prune", scores, "--keep-fraction", 0.3, "-o", out).stdout
    described = json.loads(paredown("info", out, "--json").stdout)
    assert (described["kind"], described["examples"]) == ("manifest", 1000)
    assert paredown("verify", out).returncode == 0
    assert paredown("verify", scores).returncode == 0
    assert paredown("export", out, "--to", "indices", "-o", "kept.npy").returncode == 0
    assert len(np.load(tmp_path / "kept.npy")) == 300
    assert paredown("export", out, "--to", "ids", "-o", s3.url("lists/kept.txt")).returncode == 0
    assert s3.objects("lists")["kept.txt"].count(b"\n") == 300
    assert "already complete" in paredown("export", out, "--to", "ids", "-o", s3.url("lists/kept.txt")).stdout
    (tmp_path / "table.parquet").write_bytes(s3.objects("pruned")["manifest.parquet"][:-4] + b"XXXX")
    s3.put(tmp_path / "table.parquet", "pruned/manifest.parquet")
    changed = paredown("verify", out)
    assert changed.returncode == 1
    assert "changed since it was written" in changed.stdout
    assert not list(tmp_path.glob("s3*"))


def test_a_table_in_one_object(tmp_path, s3, scores, paredown) -> None:
    out = s3.url("one/scores.parquet")
    for _ in range(2):
        assert paredown("score", "rows.npy", "--k", 4, "-o", out).returncode == 0
    assert paredown("score", "rows.npy", "--k", 4, "-o", "one.parquet").returncode == 0
    assert s3.objects("one")["scores.parquet"] == (tmp_path / "one.parquet").read_bytes()
    assert set(s3.objects("one")) == {"scores.parquet", "scores.json"}
    shutil.copy(tmp_path / "one.parquet", tmp_path / "two.parquet")
    assert "already exists" in paredown("score", "rows.npy", "--k", 5, "-o", out).stderr
    assert paredown("score", "rows.npy", "--k", 5, "-o", out, "--overwrite").returncode == 0
    assert s3.objects("one")["scores.parquet"] != (tmp_path / "one.parquet").read_bytes()


@pytest.mark.xdist_group("ray")
def test_a_ray_cluster_prunes_in_the_store(tmp_path, s3, scores) -> None:
    """From embeddings to shards of a manifest; a program of its own, whose cluster has its credentials."""
    pytest.importorskip("ray")
    s3.put(tmp_path / "rows.npy", "rows.npy")
    expected = pdn.prune(tmp_path / "rows.npy", keep_fraction=0.3, scoring={"k": 4})
    command = ["prune", s3.url("rows.npy"), "--keep-fraction", "0.3", "--k", "4", "-o", s3.url("pruned"), "--json"]
    done = run(*command, "--engine", "ray", "--workers", "1")
    assert done.returncode == 0, done.stderr
    assert pdn.select(s3.url("pruned"), keep_fraction=0.3).ids.tolist() == expected.ids.tolist()
    assert pdn.verify(s3.url("pruned")).problems == ()
    shards = {name for name in s3.objects("pruned") if name.startswith("manifest.parquet/")}
    assert shards == {"manifest.parquet/000000.parquet"}
    assert not s3.objects(".pruned.parts")
