"""Selections whose passes an engine makes in parts, and the shards of their manifests: the same rows and records."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paredown as pdn
from paredown.engines import InProcess
from paredown.errors import PareError
from paredown.selection import STRATEGIES, Limits, manifest_shards, open_table, select_streamed
from paredown.selection.manifest_shards import read_from, take_shards, write_shards

PARTS = Limits(rows=64, candidates=150, cells=8192, part=90)  # many parts, and hardly any room


class InParts(InProcess):
    """This process, as an engine that gives the work out in many groups."""

    workers = 3


def shards_of(folder: Path, columns: dict, sizes=(210, 110, 95)) -> Path:
    folder.mkdir()
    table, first, number = pa.table(columns), 0, 0
    while first < table.num_rows:
        rows = sizes[number % len(sizes)]
        pq.write_table(table.slice(first, rows), folder / f"s-{number}.parquet", row_group_size=1 + rows // 3)
        first, number = first + rows, number + 1
    return folder


LABELS = {
    "none": lambda rng, n: {},
    "text": lambda rng, n: {"label": np.sort(np.array(["emu", "cat", "dog", "ant"])[rng.integers(0, 4, n)])[::-1]},
    "numbers": lambda rng, n: {"label": 10**12 * rng.integers(-2, 2, n)},
    "unused": lambda rng, n: {
        "label": pa.DictionaryArray.from_arrays(pa.array(rng.integers(0, 2, n)), pa.array(["b", "a", "never"]))
    },
    "clusters": lambda rng, n: {"cluster": pa.array(rng.integers(0, 30, n), pa.int32())},
    "many": lambda rng, n: {"label": [f"c{row // 40}" for row in range(n)]},
}
SCORES = {
    "smooth": lambda rng, n: rng.standard_normal(n).astype(np.float32),
    "few values": lambda rng, n: rng.integers(0, 3, n).astype(float),
    "crowded": lambda rng, n: 7 + rng.standard_normal(n) ** 15,
}


@pytest.mark.parametrize(
    ("labels", "scores"),
    [*zip(LABELS, 2 * [*SCORES], strict=True), ("none", "few values"), ("text", "crowded"), ("many", "smooth")],
)
def test_every_strategy_is_exact_in_parts(tmp_path, rng, labels, scores) -> None:
    n = 600
    ids = rng.permutation(n) if labels != "text" else [f"x{row}é" for row in range(n)]
    table = shards_of(tmp_path / "t", {"id": ids, "el2n": SCORES[scores](rng, n), **LABELS[labels](rng, n)})
    for number, strategy in enumerate(STRATEGIES):
        options = {"strategy": strategy, "keep_fraction": 0.3, "seed": number, "mix_random": 0.2 * (number % 2)}
        options["balance"] = 0.0 if strategy == "stratified" or labels == "none" else 0.5
        expected = pdn.select(table, **options)
        kept = select_streamed(open_table(table), limits=PARTS, engine=InParts(), **options)
        (tmp_path / strategy).mkdir()
        digests = write_shards(kept, tmp_path / strategy, InParts())
        assert len(digests) > 3
        assert kept.notes == expected.notes
        assert kept.class_table() == expected.class_table()
        whole, written = expected.manifest(), pq.read_table(tmp_path / strategy)
        assert written.schema.metadata == whole.schema.metadata
        again = read_from(kept, tmp_path / strategy)
        assert pa.Table.from_batches(again.batches()).to_pylist() == written.to_pylist() == whole.to_pylist()
        np.testing.assert_array_equal(again.keep, expected.keep)
        assert again.class_table() == expected.class_table()
        assert again.at(0.1).ids.tolist() == expected.at(0.1).ids.tolist()


@pytest.fixture
def table(tmp_path, rng) -> Path:
    n = 600
    return shards_of(tmp_path / "t", {"id": np.arange(n), "el2n": rng.random(n), "label": rng.integers(0, 5, n)})


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


# --- as `prune` writes it ------------------------------------------------------------------------------------------


@pytest.fixture
def small_parts(monkeypatch) -> None:
    monkeypatch.setattr(Limits, "__init__", lambda self, **_: self.__dict__.update(PARTS.__dict__))


def test_prune_writes_shards_with_the_rows_of_the_local_manifest(table, small_parts, tmp_path) -> None:
    pdn.prune(table, keep_fraction=0.3, out=tmp_path / "local")
    kept = pdn.prune(table, keep_fraction=0.3, out=tmp_path / "parts", engine=InParts())
    kept_ids, record = kept.ids.tolist(), lambda file: pq.read_schema(file).metadata
    shards = sorted((tmp_path / "parts" / "manifest.parquet").iterdir())
    assert [file.name for file in shards] == [f"{number:06d}.parquet" for number in range(len(shards))]
    assert len(shards) > 3
    whole = pq.read_table(tmp_path / "local" / "manifest.parquet")
    assert pq.read_table(tmp_path / "parts" / "manifest.parquet").to_pylist() == whole.to_pylist()
    assert all(record(file) == whole.schema.metadata for file in shards)
    local, parts = contents(tmp_path / "local"), contents(tmp_path / "parts")
    assert parts["classes.csv"] == local["classes.csv"]
    one, two = (json.loads(files["manifest.json"]) for files in (local, parts))
    assert one | {"sha256": ""} == two | {"sha256": ""}
    assert sorted(two["sha256"]) == [file.name for file in shards]
    assert kept_ids == pdn.select(table, keep_fraction=0.3).ids.tolist()
    assert sorted(file.name for file in tmp_path.iterdir()) == ["local", "parts", "t"]
    again = pdn.prune(table, keep_fraction=0.3, out=tmp_path / "parts", engine=InParts())
    assert again.already
    assert again.ids.tolist() == kept_ids


def test_all_that_reads_a_manifest_reads_shards(table, small_parts, tmp_path, paredown) -> None:
    out = tmp_path / "parts"
    pdn.prune(table, keep_fraction=0.3, out=out, engine=InParts())
    pdn.prune(table, keep_fraction=0.3, out=tmp_path / "local")
    for place in (out, out / "manifest.parquet"):
        scores, keep = pdn.read_manifest(place)
        assert scores.ids[keep].tolist() == pdn.select(table, keep_fraction=0.3).ids.tolist()
        assert len(pdn.read_scores(place)) == len(open_table(place)) == 600
        assert pdn.info(place).kind == "manifest"
        written = {"written": pdn.info(place).facts["written"]}
        assert pdn.info(place).facts == pdn.info(tmp_path / "local").facts | written
        checked = pdn.verify(place)
        assert (checked.kind, checked.problems) == ("manifest", ())
    smaller = pdn.prune(out, keep_fraction=0.1, out=tmp_path / "smaller")
    assert smaller.ids.tolist() == pdn.select(table, keep_fraction=0.1).ids.tolist()
    for name in ("parts", "local"):
        assert paredown("export", name, "--to", "ids", "-o", f"{name}.txt").returncode == 0
        assert paredown("report", name, "-o", f"{name}.html").returncode == 0
    assert (tmp_path / "parts.txt").read_text() == (tmp_path / "local.txt").read_text()
    assert paredown("clean", "parts").returncode == 0
    assert pdn.verify(out).problems == ()
    assert pdn.prune(table, keep_fraction=0.2, out=out, overwrite=True).n_examples == 600
    assert (out / "manifest.parquet").is_file()


def test_a_changed_shard_is_found(table, small_parts, tmp_path) -> None:
    out = tmp_path / "parts"
    pdn.prune(table, keep_fraction=0.3, out=out, engine=InParts())
    first, second, third, *_ = sorted((out / "manifest.parquet").iterdir())
    content = bytearray(first.read_bytes())
    content[len(content) // 3] ^= 4
    first.write_bytes(content)
    second.unlink()
    third.with_name("notes.txt").write_text("mine")
    for place in (out, out / "manifest.parquet"):
        assert first in {problem.path for problem in pdn.verify(place).problems}
    first.write_bytes(third.read_bytes())
    assert {first, second} <= {problem.path for problem in pdn.verify(out / "manifest.parquet").problems}
    with pytest.raises(PareError, match=r"added or changed since paredown wrote it \(manifest.parquet/notes.txt"):
        pdn.prune(table, keep_fraction=0.2, out=out, overwrite=True)


def test_finished_shards_are_not_written_again(table, small_parts, tmp_path, monkeypatch) -> None:
    pdn.prune(table, keep_fraction=0.3, out=tmp_path / "whole", engine=InParts())
    written, original = [], manifest_shards.write_manifest

    def stopped(file, *rest):
        if len(written) == 3:
            raise KeyboardInterrupt
        written.append(file.name)
        original(file, *rest)

    monkeypatch.setattr(manifest_shards, "write_manifest", stopped)
    with pytest.raises(KeyboardInterrupt):
        pdn.prune(table, keep_fraction=0.3, out=tmp_path / "parts", engine=InParts())
    (growing,) = (tmp_path / ".parts.parts").glob("manifest-*")
    (growing / "000001.parquet").write_bytes(b"torn")  # counts as missing
    monkeypatch.setattr(
        manifest_shards, "write_manifest", lambda file, *rest: (written.append(file.name), original(file, *rest))
    )
    pdn.prune(table, keep_fraction=0.3, out=tmp_path / "parts", engine=InParts())
    assert written[:5] == [f"00000{number}.parquet" for number in (0, 1, 2, 1, 3)]
    assert contents(tmp_path / "parts") == contents(tmp_path / "whole")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "'stratified' with a floor or quota .* needs all 3,000 scores in memory"),  # clusters have a floor
        ({"metric": "random", "balance": 0.5}, "a floor or quota needs a column 'label' or 'cluster'"),
        ({"metric": "random", "quota": "equal"}, "a floor or quota needs a column 'label' or 'cluster'"),
    ],
)
def test_what_cannot_be_selected_is_not_scored(tmp_path, rng, monkeypatch, options, message) -> None:
    np.save(tmp_path / "emb.npy", rng.standard_normal((3_000, 4)).astype(np.float32))
    asked = {"keep_fraction": 0.5, "strategy": "stratified", "memory": 1000, "engine": InProcess()}

    def scored(*_, **__) -> None:
        raise AssertionError("scoring was begun")

    with monkeypatch.context() as patch:
        patch.setattr("paredown.pruning.score_ranges", scored)
        with pytest.raises(PareError, match=message):
            pdn.prune(tmp_path / "emb.npy", out=tmp_path / "out", **(asked | options))
    assert sorted(file.name for file in tmp_path.iterdir()) == ["emb.npy"]
    if not options:
        kept = pdn.prune(tmp_path / "emb.npy", out=tmp_path / "out", balance=0, **asked)
        assert len(kept) == 1_500


def test_stratified_with_a_floor_is_selected_in_memory(table, tmp_path) -> None:
    options = {"keep_fraction": 0.3, "strategy": "stratified"}
    kept = pdn.prune(table, out=tmp_path / "parts", engine=InParts(), **options)
    assert kept.ids.tolist() == pdn.select(table, **options).ids.tolist()
    assert (tmp_path / "parts" / "manifest.parquet").is_file()
    with pytest.raises(PareError, match="'stratified' with a floor or quota"):
        pdn.prune(table, out=tmp_path / "more", engine=InParts(), memory="1KiB", **options)


def test_a_table_that_changes_while_shards_are_written_is_noticed(table, small_parts, tmp_path) -> None:
    kept = select_streamed(open_table(table), keep_fraction=0.5, engine=InParts(), limits=PARTS)
    file = table / "s-1.parquet"
    changed = pq.read_table(file)
    pq.write_table(changed.set_column(1, "el2n", pa.array(np.full(len(changed), 2.0))), file, row_group_size=24)
    with pytest.raises(PareError, match=r"it changed while it was read"):
        write_shards(kept, tmp_path, InParts())


def test_a_shard_of_which_any_page_is_damaged_is_written_again_and_foreign_files_are_left(table, tmp_path) -> None:
    expected = pdn.prune(table, keep_fraction=0.3, out=tmp_path / "whole", engine=InParts())
    kept = select_streamed(open_table(table), keep_fraction=0.3, limits=PARTS, engine=InParts())
    growing = tmp_path / "growing"
    growing.mkdir()
    digests = write_shards(kept, growing, InParts())
    name = sorted(digests)[1]
    damaged, ids = bytearray((growing / name).read_bytes()), pq.read_metadata(growing / name).row_group(0).column(0)
    begin = ids.data_page_offset if ids.dictionary_page_offset is None else ids.dictionary_page_offset
    damaged[begin + ids.total_compressed_size - 3] ^= 1  # in the last page of ids
    (growing / name).write_bytes(damaged)
    (growing / "notes.txt").write_text("mine")
    assert write_shards(kept, growing, InParts()) == digests
    take_shards(growing, tmp_path / "manifest.parquet", digests)
    assert sorted(file.name for file in (tmp_path / "manifest.parquet").iterdir()) == sorted(digests)
    assert (growing / "notes.txt").read_text() == "mine"
    assert pq.read_table(tmp_path / "manifest.parquet").filter(pa.compute.field("keep"))["id"].to_pylist() == (
        expected.ids.tolist()
    )
