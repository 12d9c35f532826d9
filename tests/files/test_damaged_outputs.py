"""Damaged outputs are noticed, and replaced with `overwrite`; those that someone changed are not."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paredown as pdn
from paredown.engines import InProcess
from paredown.errors import PareError
from paredown.files import damages
from paredown.score_files import scores_table, write_scores
from paredown.scoring.ranged_scoring import score_ranges
from paredown.selection import Limits

PARTS = Limits(rows=64, candidates=150, cells=8192, part=500)
SHARD = "manifest.parquet/000001.parquet"


class InParts(InProcess):
    """This process, as an engine that gives the work out in many groups."""

    workers = 3


@pytest.fixture
def made(tmp_path, rng, monkeypatch) -> dict[str, Callable[[bool], object]]:
    """How to make outputs of every kind in `out`, with or without `overwrite`."""
    monkeypatch.setattr(Limits, "__init__", lambda self, **_: self.__dict__.update(PARTS.__dict__))
    monkeypatch.chdir(tmp_path)
    rows = rng.standard_normal((1_500, 4)).astype(np.float32)
    np.save("x.npy", rows)
    scores = pdn.score(rows, k=3, labels=np.arange(1_500) % 5)
    Path("src").mkdir()
    for number in range(3):
        pq.write_table(scores_table(scores).slice(500 * number, 500), f"src/{number}.parquet")
    Path("out").mkdir()
    options = {"keep_fraction": 0.5, "balance": 0.5}
    return {
        "scores": lambda again: write_scores(scores, "out/s.parquet", overwrite=again),
        "manifest": lambda again: pdn.prune(scores, out="out/m", overwrite=again, **options),
        "sharded": lambda again: pdn.prune("src", out="out/p", overwrite=again, engine=InParts(), **options),
        "folder": lambda again: score_ranges("x.npy", out="out/f", k=3, overwrite=again),
    }


FILES = {
    "scores": "s.parquet",
    "manifest": "m/manifest.parquet",
    "sharded": f"p/{SHARD}",
    "folder": "f/000000.parquet",
}


def contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def flip(content: bytes, place: int) -> bytes:
    return content[:place] + bytes([content[place] ^ 4]) + content[place + 1 :]


DAMAGES = {
    "cut": lambda content: content[: len(content) // 2],
    "emptied": lambda content: b"",
    "zeros": lambda content: content[:700] + bytes(512) + content[1212:],
    "flip": lambda content: flip(content, len(content) // 3),
    "flip in the middle": lambda content: flip(content, len(content) // 2),
    "gone": None,
}


@pytest.mark.parametrize("how", DAMAGES)
@pytest.mark.parametrize("kind", FILES)
def test_a_damaged_output_is_replaced(made, kind, how) -> None:
    made[kind](False)
    whole, file = contents(Path("out")), Path("out", FILES[kind])
    damage = DAMAGES[how]
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(file.read_bytes()))
    made[kind](True)
    assert contents(Path("out")) == whole


@pytest.mark.parametrize("kind", FILES)
def test_what_someone_changed_is_not_replaced(made, kind) -> None:
    """Another score in a table that can be read in full."""
    made[kind](False)
    file = Path("out", FILES[kind])
    table = pq.read_table(file)
    number = [field.name for field in table.schema].index("score" if "score" in table.column_names else "prototypes")
    values = table.column(number).to_numpy().copy()
    values[3] = 7
    changed = table.set_column(number, table.schema.field(number), pa.array(values))
    pq.write_table(changed.replace_schema_metadata(None) if kind == "folder" else changed, file)
    mine = contents(Path("out"))
    with pytest.raises(PareError, match=r"was changed|added or changed|which paredown did not write"):
        made[kind](True)
    assert contents(Path("out")) == mine


def test_a_table_of_anyone_else_in_a_folder_of_scores_is_not_replaced(made) -> None:
    made["folder"](False)
    pq.write_table(pa.table({"id": [1], "mine": [2.0]}), "out/f/000007.parquet")
    with pytest.raises(PareError, match=r"also holds 000007.parquet, which paredown did not write"):
        made["folder"](True)
    assert pq.read_table("out/f/000007.parquet").to_pydict() == {"id": [1], "mine": [2.0]}


@pytest.mark.parametrize("kind", ["sharded", "folder"])
@pytest.mark.parametrize("damage", [b"", b'{"pare', bytes(50)])
def test_a_folder_whose_mark_is_damaged_is_replaced(made, kind, damage) -> None:
    made[kind](False)
    whole = contents(Path("out"))
    Path("out", FILES[kind].partition("/")[0], ".paredown").write_bytes(damage)
    made[kind](True)
    assert contents(Path("out")) == whole


def test_the_copy_of_the_record_is_replaced_if_it_is_cut_off_and_anyones_json_is_not(made) -> None:
    made["scores"](False)
    copy = Path("out/s.json")
    whole = copy.read_bytes()
    copy.write_bytes(whole[:60])
    made["scores"](True)
    assert copy.read_bytes() == whole
    copy.write_bytes(b'{"mine": ')
    with pytest.raises(PareError, match=r"s.json was not written by paredown"):
        made["scores"](True)
    assert copy.read_bytes() == b'{"mine": '


# --- told without --overwrite --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("how", "said"),
    [
        ("gone", rf"{SHARD} is missing"),
        ("cut", rf"{SHARD} has [\d,]+ bytes of [\d,]+"),
        ("flip", rf"{SHARD} has changed"),
    ],
)
def test_prune_again_says_what_is_damaged(made, paredown, how, said) -> None:
    made["sharded"](False)
    assert damages(Path("out/p")) == []
    assert made["sharded"](False).already
    shutil.copytree("out/p", "out/q")
    file = Path("out/p", SHARD)
    damage = DAMAGES[how]
    if damage is None:
        file.unlink()
    else:
        file.write_bytes(damage(file.read_bytes()))
    with pytest.raises(PareError, match=rf"not as it was written: {said}\. Make it again with overwrite=True"):
        made["sharded"](False)
    result = paredown("prune", "src", "--keep-fraction", "0.5", "-o", "out/p")
    assert result.returncode == 2
    if how != "flip":  # of which other settings would be told first
        assert SHARD in result.stderr
        assert "Make it again with --overwrite" in " ".join(result.stderr.split())
    assert not made["sharded"](True).already
    assert contents(Path("out/p")) == contents(Path("out/q"))


def test_an_output_that_is_damaged_in_the_first_file_is_told_before_it_is_read(made, paredown) -> None:
    made["sharded"](False)
    Path("out/p/manifest.parquet/000000.parquet").write_bytes(b"PAR1")
    result = paredown("prune", "src", "--keep-fraction", "0.5", "-o", "out/p")
    assert "manifest.parquet/000000.parquet has 4 bytes of" in " ".join(result.stderr.split())


def test_what_is_left_of_a_sharded_manifest_does_not_pass_for_all_of_it(made, paredown) -> None:
    made["sharded"](False)
    Path("out/p", SHARD).unlink()
    for read in (pdn.read_manifest, pdn.read_scores, lambda path: pdn.select(path, keep_fraction=0.2)):
        with pytest.raises(PareError, match=r"000001.parquet is missing; put the files back, or run `paredown prune`"):
            read("out/p")
    assert "000001.parquet is missing" in paredown("export", "out/p", "--to", "ids", "-o", "kept.txt").stderr
    assert not Path("kept.txt").exists()
    problems = {str(problem.path): problem.what for problem in pdn.verify("out/p").problems}
    assert problems == {f"out/p/{SHARD}": "missing"}
