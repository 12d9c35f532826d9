"""What a `Selection` holds, says and writes, on a few scores made by hand."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import paredown as pdn
from paredown.errors import PareError
from paredown.scores import Labels, Scores
from paredown.selection import open_table
from paredown.selection import selection as selection_module

VALUES = [0.1, 0.2, 0.5, 0.3, 0.9, 0.8, 0.4]
NAMES = ["u", "v", "w", "x", "y", "z", "é"]
LABELS = Labels(np.array([1, 1, 1, 1, 2, 2, 1]), ("empty at first", "cat", "dog", "empty at last"))
RECIPE = {
    "keep_fraction": 0.4,
    "kept": 3,
    "strategy": "hard",
    "balance": 0.5,
    "quota": "none",
    "drop_hardest": 0.05,
    "mix_random": 0.0,
    "seed": 0,
    "grouped_by": "label",
}


def scores_of(**more: Any) -> Scores:
    given = {"metric": "el2n", "labels": LABELS, "provenance": {"probe": "mlp"}}
    return Scores(np.array(VALUES, np.float32), np.array(NAMES), **(given | more))


@pytest.fixture
def kept() -> pdn.Selection:
    return pdn.select(scores_of(clusters=np.array([5, 5, 5, 6, 6, 6, 6])), keep_fraction=0.4)


# --- what is kept ------------------------------------------------------------------------------------------------


def test_what_is_kept_in_all_its_forms(kept: pdn.Selection) -> None:
    assert (len(kept), kept.n_examples, kept.metric, kept.already) == (3, 7, "el2n", False)
    assert kept.keep.tolist() == [False, False, True, False, True, True, False]
    assert kept.indices.tolist() == [2, 4, 5]
    assert kept.ids.tolist() == ["w", "y", "z"]
    assert kept.scores.values.tolist() == np.array(VALUES, np.float32).tolist()
    assert kept.recipe == RECIPE  # the defaults of `select`
    assert kept.provenance() == {"probe": "mlp", "selection": RECIPE, "notes": []}


def test_the_manifest_has_every_example(kept: pdn.Selection) -> None:
    table = kept.manifest()
    assert table.to_pydict() == {
        "id": NAMES,
        "keep": [False, False, True, False, True, True, False],
        "score": np.array(VALUES, np.float32).tolist(),
        "label": ["cat", "cat", "cat", "cat", "dog", "dog", "cat"],
        "cluster": [5, 5, 5, 6, 6, 6, 6],
    }
    label = pa.dictionary(pa.int32(), pa.string())
    assert table.schema.types == [pa.string(), pa.bool_(), pa.float32(), label, pa.int32()]
    record = kept.provenance() | {"metric": "el2n"}
    assert {key: json.loads(value) for key, value in table.schema.metadata.items()} == {b"paredown": record}


@pytest.mark.parametrize(
    ("more", "columns"),
    [
        ({}, ["id", "keep", "score", "label"]),
        ({"labels": None, "clusters": np.zeros(7, int)}, ["id", "keep", "score", "cluster"]),
        ({"labels": None}, ["id", "keep", "score"]),
    ],
)
def test_the_manifest_has_labels_and_clusters_where_there_are_any(more: dict[str, Any], columns: list[str]) -> None:
    kept = pdn.select(scores_of(**more), keep_fraction=0.4)
    assert kept.manifest().column_names == kept.rows.schema.names == columns


def test_batches_have_the_columns_asked_for(kept: pdn.Selection) -> None:
    def read(*columns: str, **options: bool) -> list[dict[str, Any]]:
        return [row for batch in kept.batches(columns or None, **options) for row in batch.to_pylist()]

    assert read() == kept.manifest().to_pylist()
    assert read("cluster", "id")[2:5] == [
        {"cluster": 5, "id": "w"},
        {"cluster": 6, "id": "x"},
        {"cluster": 6, "id": "y"},
    ]
    assert list(read("cluster", "id")[0]) == ["cluster", "id"]
    assert read("id", kept_only=True) == [{"id": "w"}, {"id": "y"}, {"id": "z"}]
    assert read("keep", "id", kept_only=True)[1] == {"keep": True, "id": "y"}
    assert [row["id"] for row in read(kept_only=True)] == ["w", "y", "z"]
    with pytest.raises(PareError) as error:
        kept.batches(["id", "weight"])
    assert str(error.value) == "there is no column 'weight' in the manifest; it has id, keep, score, label, cluster."


def test_batches_have_at_most_131072_rows() -> None:
    kept = pdn.select(np.arange(131_073), keep_fraction=0.5)
    assert [batch.num_rows for batch in kept.batches(["id"])] == [131_072, 1]


def test_the_same_recipe_at_another_fraction() -> None:
    scores = Scores(np.arange(40.0), np.arange(40), labels=Labels.of(list("ab" * 20)))
    options = {"strategy": "window", "drop_hardest": 0.2, "mix_random": 0.25, "seed": 3}
    for more in ({"balance": 0.75}, {"quota": "equal"}):
        again = pdn.select(scores, keep_fraction=0.5, **options, **more).at(0.25)
        direct = pdn.select(scores, keep_fraction=0.25, **options, **more)
        assert again.indices.tolist() == direct.indices.tolist()
        assert again.recipe == direct.recipe


def test_a_selection_as_a_data_frame(kept: pdn.Selection) -> None:
    frame = kept.to_pandas()
    assert frame.to_dict("list") == kept.manifest().to_pydict()
    assert type(frame["label"][0]) is str
    assert frame["cluster"].dtype == np.int32


# --- where scores come from --------------------------------------------------------------------------------------


@pytest.mark.parametrize("memory", ["1GiB", "1KiB", 1_000])
def test_scores_are_read_from_one_column_of_a_table(tmp_path: Path, memory: str | int) -> None:
    columns = {"id": np.arange(400), "el2n": np.arange(400.0), "aum": np.arange(400.0)[::-1]}
    pq.write_table(pa.table(columns), tmp_path / "scores.parquet")
    labels = np.repeat(["low", "high"], 200)
    for path in (tmp_path / "scores.parquet", str(tmp_path / "scores.parquet")):
        kept = pdn.select(path, metric="aum", labels=labels, balance=0.2, keep_fraction=0.5, memory=memory)
        assert kept.metric == "aum"
        assert kept.indices.tolist() == [*range(180), *range(200, 220)]  # the hardest of each half, by aum
        assert kept.recipe == RECIPE | {"keep_fraction": 0.5, "kept": 200, "balance": 0.2}
    with pytest.raises(PareError, match=r"^these scores carry their own ids; give ids only with plain numbers\.$"):
        pdn.select(tmp_path / "scores.parquet", metric="aum", keep_fraction=0.5, ids=np.arange(400))


def test_only_a_table_that_is_too_large_is_streamed(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": np.arange(400), "el2n": np.arange(400.0)}), tmp_path / "scores.parquet")
    needed = open_table(tmp_path / "scores.parquet").in_memory_bytes
    seen: list[str] = []

    def track(items: Iterable[Any], label: str, total: int | None = None) -> Iterator[Any]:
        seen.append(label)
        yield from items

    for memory, streamed in ((needed, False), (needed - 1, True)):
        kept = pdn.select(tmp_path / "scores.parquet", keep_fraction=0.25, memory=memory, track=track)
        assert kept.indices.tolist() == list(range(300, 400))
        assert isinstance(kept.rows, selection_module.RowsInMemory) == (not streamed)
        assert bool(seen) == streamed  # only streams take long enough to report on


@pytest.mark.parametrize("scores", [[[0.1, 0.2]], ["a", "b"], [], 0.5])
def test_what_is_not_a_list_of_numbers_is_refused(scores: Any) -> None:
    with pytest.raises(PareError) as error:
        pdn.select(scores, keep_fraction=0.5)
    shape = np.shape(scores)
    expected = f"scores must be a non-empty one-dimensional array of numbers, got shape {shape}."
    assert str(error.value) == expected


@pytest.mark.parametrize("dtype", [bool, np.uint8, np.int64, np.float16, np.float32, np.float64])
def test_plain_numbers_keep_their_precision(dtype: Any) -> None:
    kept = pdn.select(np.array([0, 1], dtype), keep_fraction=0.5, ids=["a", "b"])
    assert kept.scores.values.dtype == (dtype if np.dtype(dtype).kind == "f" else np.float64)
    assert kept.ids.tolist() == ["b"]
    assert pdn.select(np.array([0, 1], dtype), keep_fraction=0.5).ids.tolist() == [1]


# --- a file ------------------------------------------------------------------------------------------------------


def test_the_written_file_is_the_manifest(kept: pdn.Selection, tmp_path: Path) -> None:
    kept.write(str(tmp_path / "m.parquet"))
    written = pq.read_table(tmp_path / "m.parquet")
    assert written.equals(kept.manifest(), check_metadata=True)
    record = json.loads((tmp_path / "m.json").read_text(encoding="utf-8"))
    assert record["metric"] == "el2n"
    assert record["selection"] == RECIPE


def test_a_file_is_replaced_only_if_told_so(kept: pdn.Selection, tmp_path: Path) -> None:
    kept.write(tmp_path / "m.parquet")
    with pytest.raises(PareError, match=r"m\.parquet already exists; choose another output, or replace it with"):
        kept.at(0.9).write(tmp_path / "m.parquet")
    assert pq.read_table(tmp_path / "m.parquet")["keep"].to_numpy().sum() == 3
    kept.at(0.9).write(tmp_path / "m.parquet", overwrite=True)
    assert pq.read_table(tmp_path / "m.parquet")["keep"].to_numpy().sum() == 6


@pytest.mark.parametrize("numbers", [True, False])
def test_how_columns_are_stored(tmp_path: Path, numbers: bool) -> None:
    ids = np.arange(7) if numbers else np.array(NAMES)
    pdn.select(Scores(np.array(VALUES), ids, labels=LABELS), keep_fraction=0.4).write(tmp_path / "m.parquet")
    group = pq.read_metadata(tmp_path / "m.parquet").row_group(0)
    columns = {column.path_in_schema: column for column in (group.column(i) for i in range(group.num_columns))}
    assert {column.compression for column in columns.values()} == {"ZSTD"}
    assert [name for name, column in columns.items() if column.has_dictionary_page] == ["label"]
    assert [name for name, column in columns.items() if column.is_stats_set] == ["id", "keep", "score"]
    assert ("DELTA_BINARY_PACKED" in columns["id"].encodings) == numbers


def test_row_groups_are_put_together_from_batches(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(selection_module, "BATCH_ROWS", 2)
    monkeypatch.setattr(selection_module, "_ROW_GROUP", 4)
    for n, sizes in ((3, [3]), (4, [4]), (7, [4, 3]), (8, [4, 4]), (9, [4, 4, 1])):
        path = tmp_path / f"{n}.parquet"
        pdn.select(np.arange(float(n)), keep_fraction=0.5).write(path)
        metadata = pq.read_metadata(path)
        assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == sizes
        assert pq.read_table(path)["id"].to_pylist() == list(range(n))


# --- classes -----------------------------------------------------------------------------------------------------


def test_the_class_table_by_hand() -> None:
    scores = Scores(np.array(VALUES), np.array(NAMES), labels=LABELS)
    kept = pdn.select(scores, keep_fraction=0.4)
    table = kept.class_table()
    assert table is not None
    assert table.to_pydict() == {
        "class": ["empty at first", "cat", "dog", "empty at last"],
        "examples": [0, 5, 2, 0],
        "kept": [0, 1, 2, 0],
        "kept_fraction": [0.0, 0.2, 1.0, 0.0],
        "score_min": [None, 0.1, 0.8, None],
        "score_median": [None, 0.3, 0.9, None],  # of two, the higher
        "score_max": [None, 0.5, 0.9, None],
    }
    assert table.schema.types == [pa.string(), pa.int64(), pa.int64(), *[pa.float64()] * 4]
    # Six pairs of classes: before, 2 to 5 is the only one that is not wholly unbalanced.
    assert kept.balance_scores() == {"before": pytest.approx(0.4 / 6), "after": pytest.approx(0.5 / 6)}


def test_a_class_of_one_example() -> None:
    table = pdn.select([0.1, 0.2, 0.3], labels=list("aab"), keep_fraction=0.7).class_table()
    assert table is not None
    assert list(table.to_pylist()[1].values()) == ["b", 1, 1, 1.0, 0.3, 0.3, 0.3]


def test_the_class_table_of_a_stream(tmp_path: Path) -> None:
    columns = {"id": np.arange(400), "el2n": np.arange(400, dtype=np.float32), "label": list("ab" * 200)}
    pq.write_table(pa.table(columns), tmp_path / "scores.parquet")
    table = pdn.select(tmp_path / "scores.parquet", keep_fraction=0.5, memory="1KiB").class_table()
    assert table is not None
    assert table["score_median"].to_pylist() == [200.0, 201.0]
    assert table["score_median"].type == table["score_min"].type == pa.float32()
    assert table["score_max"].to_pylist() == [398.0, 399.0]


def test_clusters_are_classes_where_there_are_no_labels() -> None:
    scores = Scores(np.array(VALUES), np.array(NAMES), clusters=np.array([5, 5, 5, 6, 6, 6, 6]))
    kept = pdn.select(scores, keep_fraction=0.4)
    table = kept.class_table()
    assert table is not None
    assert table.to_pydict() == {
        "cluster": ["5", "6"],
        "examples": [3, 4],
        "kept": [1, 2],
        "kept_fraction": [1 / 3, 0.5],
        "score_min": [0.1, 0.3],
        "score_median": [0.2, 0.8],
        "score_max": [0.5, 0.9],
    }
    assert kept.balance_scores() == {"before": 0.75, "after": 0.5}
    labelled = pdn.select(scores.with_labels(LABELS), keep_fraction=0.4).class_table()
    assert labelled is not None
    assert labelled.column_names[0] == "class"


def test_without_classes_there_is_no_table_of_them() -> None:
    kept = pdn.select(VALUES, keep_fraction=0.4)
    assert kept.class_table() is None
    assert kept.balance_scores() == {}


# --- how it introduces itself ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "facts"),
    [
        ({}, {"floor": "0.5 per label"}),
        ({"balance": 1}, {"floor": "1 per label"}),
        ({"balance": 0}, {}),
        ({"quota": "equal"}, {"quota": "equal per label"}),
        ({"strategy": "easy", "quota": "proportional", "balance": 0}, {"quota": "proportional per label"}),
    ],
)
def test_a_selection_introduces_itself(options: dict[str, Any], facts: dict[str, str]) -> None:
    kept = pdn.select(scores_of(), keep_fraction=0.4, **options)
    always = {"kept": "3 of 7", "strategy": options.get("strategy", "hard"), "metric": "el2n"}
    assert kept.introduce() == always | facts
    assert repr(kept) == f"<Selection: {', '.join(f'{name} {value}' for name, value in (always | facts).items())}>"


def test_a_selection_in_a_notebook() -> None:
    large = pdn.select(np.arange(3_000), keep_fraction=0.5)
    assert large.introduce()["kept"] == "1,500 of 3,000"
    cell = '<tr><th style="text-align:left">{}</th><td style="text-align:left">{}</td></tr>'.format
    facts = cell("kept", "1,500 of 3,000") + cell("strategy", "hard") + cell("metric", "score")
    assert large._repr_html_() == f"<table><caption>Selection</caption>{facts}</table>"
    same = pdn.select(np.zeros(3), keep_fraction=0.5)
    assert same._repr_html_().endswith(f"</table><ul><li>{same.notes[0]}</li></ul>")
