"""Scores made elsewhere: every kind of file, both directions, and matching with the examples they belong to."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

import paredown as pdn
from paredown.errors import PareError
from paredown.scoring.imported_scores import import_scores

VALUES = [0.5, 0.0, 2.0]


def write(folder: Path, name: str, content: Any) -> Path:
    file = folder / name
    if isinstance(content, str):
        file.write_text(content)
    elif name.endswith(".npy"):
        np.save(file, content)
    elif name.endswith(".npz"):
        np.savez(file, **content)
    elif name.endswith(".parquet"):
        pq.write_table(pa.table(content), file)
    else:
        import torch

        torch.save(content, file)
    return file


def torch_tensor(values: Any, dtype: str) -> Any:
    import torch

    return torch.tensor(values, dtype=getattr(torch, dtype))


CASES = {
    "published.csv": "image name, score\nn01/b.JPEG, 0.5\nn01/a.JPEG, 0\nn02/c.JPEG, 2\n",
    "headless.csv": "n01/b.JPEG,0.5\nn01/a.JPEG,0\nn02/c.JPEG,2\n",
    "two.csv": "what,el2n\nn01/b.JPEG,0.5\nn01/a.JPEG,0\nn02/c.JPEG,2\n",
    "many.csv": "path,score,label\nn01/b.JPEG,0.5,x\nn01/a.JPEG,0,y\nn02/c.JPEG,2,x\n",
    "many.parquet": {"filename": ["n01/b.JPEG", "n01/a.JPEG", "n02/c.JPEG"], "score": VALUES},
    "named.npz": {"ids": np.array(["n01/b.JPEG", "n01/a.JPEG", "n02/c.JPEG"]), "scores": np.array(VALUES)},
}


@pytest.mark.parametrize("name", CASES)
def test_tables_with_ids(name: str, tmp_path: Path) -> None:
    scores = import_scores(write(tmp_path, name, CASES[name]), higher_is="harder")
    assert scores.ids.tolist() == ["n01/b.JPEG", "n01/a.JPEG", "n02/c.JPEG"]
    np.testing.assert_array_equal(scores.values, VALUES)
    assert scores.provenance["imported"]["higher_is"] == "harder"
    if name == "many.csv":
        assert scores.labels is not None
        assert scores.labels.names.tolist() == ["x", "y", "x"]


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("plain.npy", lambda: np.array(VALUES, np.float32)),
        ("plain.pt", lambda: torch_tensor(VALUES, "bfloat16")),
        ("listed.pt", lambda: VALUES),
        ("keyed.pt", lambda: {"el2n": torch_tensor(VALUES, "float64"), "logits": torch_tensor([VALUES], "float32")}),
    ],
)
def test_arrays_are_numbered(name: str, make: Any, tmp_path: Path) -> None:
    scores = import_scores(write(tmp_path, name, make()), higher_is="easier", metric="mine")
    assert scores.ids.tolist() == [0, 1, 2]
    assert scores.values.tolist() == [-0.5, 0.0, -2.0]
    assert not np.signbit(scores.values[1])  # a zero has no direction
    assert scores.metric == "mine"


def test_a_torch_dictionary_from_ids_to_numbers(tmp_path: Path) -> None:
    scores = import_scores(write(tmp_path, "by_id.pt", {17: 0.5, 3: 1.5}), higher_is="harder")
    assert (scores.ids.tolist(), scores.values.tolist()) == ([17, 3], [0.5, 1.5])


def test_large_tensor_ids_keep_every_digit(tmp_path: Path) -> None:
    ids = torch_tensor([2**53 + 1, 2**53 + 2], "int64")
    held = {"ids": ids, "score": torch_tensor([1.0, 2.0], "float32")}
    scores = import_scores(write(tmp_path, "wide.pt", held), higher_is="harder")
    assert scores.ids.tolist() == [2**53 + 1, 2**53 + 2]


def test_ids_are_read_as_written(tmp_path: Path) -> None:
    padded = import_scores(write(tmp_path, "a.csv", "id,score\n007,1\n7,2\n"), higher_is="harder")
    assert padded.ids.tolist() == ["007", "7"]
    whole = import_scores(write(tmp_path, "b.csv", "id,score\n12,1\n7,2\n"), higher_is="harder")
    assert whole.ids.tolist() == [12, 7]


def test_scores_beside_labels_are_not_taken_for_ids(tmp_path: Path) -> None:
    scores = import_scores(write(tmp_path, "s.parquet", {"score": [0.5, 1.5], "label": ["a", "b"]}), higher_is="harder")
    assert (scores.ids.tolist(), scores.values.tolist()) == ([0, 1], [0.5, 1.5])
    assert scores.labels is not None
    assert scores.labels.names.tolist() == ["a", "b"]


def test_which_column(tmp_path: Path) -> None:
    file = write(tmp_path, "two.parquet", {"id": [1, 2], "el2n": [1.0, 2.0], "aum": [4.0, 3.0]})
    with pytest.raises(PareError, match=r"which column holds the scores\? It has el2n, aum"):
        import_scores(file, higher_is="harder")
    assert import_scores(file, higher_is="harder", metric="aum").values.tolist() == [4, 3]
    renamed = import_scores(file, higher_is="harder", metric="margin", column="aum")
    assert (renamed.metric, renamed.provenance["imported"]["column"]) == ("margin", "aum")
    with pytest.raises(PareError, match="no scores 'eln2'; it has el2n, aum"):
        import_scores(file, higher_is="harder", column="eln2")


@pytest.fixture
def images(tmp_path: Path) -> Any:
    for name in ("cat/b.png", "cat/a.png", "dog/c.png"):
        file = tmp_path / "images" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("RGB", (4, 4)).save(file)
    return pdn.open_source(tmp_path / "images")


@pytest.mark.parametrize("names", [["dog/c.png", "cat/a.png", "cat/b.png"], ["c.png", "a.png", "b.png"]])
def test_matched_with_a_source(names: list[str], images: Any, tmp_path: Path) -> None:
    file = write(tmp_path, "s.csv", "image,score\n" + "".join(f"{n},{i}\n" for i, n in enumerate(names)) + "extra,9\n")
    scores = import_scores(file, higher_is="harder", source=images)
    assert scores.ids.tolist() == ["cat/a.png", "cat/b.png", "dog/c.png"]
    assert scores.values.tolist() == [1, 2, 0]
    assert scores.labels is not None
    assert scores.labels.names.tolist() == ["cat", "cat", "dog"]
    kept = pdn.select(scores, keep_fraction=1 / 3, balance=0)
    assert kept.ids.tolist() == ["cat/b.png"]


def test_what_cannot_be_matched(images: Any, tmp_path: Path) -> None:
    with pytest.raises(PareError, match=r"no score for 1 of the 3 examples .* \(id dog/c.png\)"):
        import_scores(
            write(tmp_path, "s.csv", "id,score\ncat/a.png,1\ncat/b.png,2\n"), higher_is="harder", source=images
        )
    with pytest.raises(PareError, match=r"2 scores without ids, and .* has 3 examples"):
        import_scores(write(tmp_path, "s.npy", np.zeros(2)), higher_is="harder", source=images)
    both = write(tmp_path, "twice.csv", "id,score\nx/a.png,1\ny/a.png,2\n")
    with pytest.raises(PareError, match=r"file names alone do not identify the examples of .*twice.csv"):
        import_scores(both, higher_is="harder", source=images)


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("inf.csv", "id,score\na,1\nb,inf\n", r"must be finite numbers; 'score' is not at row 1"),
        ("gap.csv", "id,score\na,1\nb,\n", r"missing in column 'score' at row 1"),
        ("twice.csv", "id,score\na,1\na,2\n", r"1 id occurs more than once, e.g. 'a' at rows 0, 1"),
        ("text.csv", "id,score\na,high\n", "no column of numbers"),
        ("flat.npy", np.zeros((2, 2)), r"float64 of shape \(2, 2\)"),
        ("broken.npy", "nonsense", "not a readable array"),
        ("broken.pt", "nonsense", "Nothing but tensors and plain values is read"),
        ("notes.txt", "1\n2\n", r"imported from \.csv"),
    ],
)
def test_bad_files(name: str, content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(PareError, match=message):
        import_scores(write(tmp_path, name, content), higher_is="harder")


def test_a_pickle_is_not_run(tmp_path: Path) -> None:
    import torch

    class Trap:
        def __reduce__(self) -> Any:
            return (Path.touch, (tmp_path / "trapped",))

    torch.save({"score": Trap()}, tmp_path / "trap.pt")
    with pytest.raises(PareError, match="could run code"):
        import_scores(tmp_path / "trap.pt", higher_is="harder")
    assert not (tmp_path / "trapped").exists()


def test_the_direction_must_be_said(tmp_path: Path) -> None:
    with pytest.raises(PareError, match="higher_is must be 'harder' or 'easier', got 'better'"):
        import_scores(write(tmp_path, "s.npy", np.zeros(2)), higher_is="better")  # type: ignore[arg-type]
