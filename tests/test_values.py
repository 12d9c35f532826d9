"""Ids, labels and clusters: what is read is what was written, or it is refused with its row."""

from __future__ import annotations

import datetime
import decimal
import tempfile
import uuid
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paredown as pdn
from paredown import exporting
from paredown.columns import (
    as_written,
    check_class_type,
    check_id_type,
    cluster_column,
    id_column,
    is_text,
    is_whole,
    label_column,
    plain_text,
    value_type,
)
from paredown.errors import PareError
from paredown.ids import check_ids, find_ids, hash_ids, id_array, join_ids
from paredown.pruning import write_selection
from paredown.score_files import read_manifest, read_scores, write_scores, write_table
from paredown.scores import Labels, Scores, join_labels, unit_rows
from paredown.scoring.imported_scores import import_scores
from paredown.selection.streamed import open_table, select_streamed
from paredown.sources import load_column, open_source

BIG = 2**63 + 5  # does not fit in int64
GOLDEN_NUMBERS = [5197578548964807871, 236966933211079599, 17492683508065611904]
GOLDEN_TEXT = [12256742593559629880, 3206498050890945227, 2947631195923289901]

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
IDS = (
    st.lists(TEXT, min_size=1, max_size=12, unique=True)
    | st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=12, unique=True)
    | st.lists(st.integers(0, 2**64 - 1), min_size=1, max_size=12, unique=True)
)


def table(**columns: Any) -> pa.Table:
    """A table of scores with these columns."""
    length = len(next(iter(columns.values())))
    return pa.table({"id": list(range(length)), "el2n": np.linspace(0, 1, length)} | columns)


def write(path: Path, **columns: Any) -> Path:
    pq.write_table(table(**columns), path)
    return path


# --- everything comes back ---------------------------------------------------------------------------------------


@settings(max_examples=60)
@given(IDS, st.data())
def test_ids_labels_and_clusters_survive_every_file(ids: list[Any], data: Any) -> None:
    n = len(ids)
    labels = data.draw(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=3), min_size=n, max_size=n))
    clusters = data.draw(st.lists(st.integers(-(2**31), 2**31 - 1), min_size=n, max_size=n))
    values = np.array(data.draw(st.lists(st.floats(-1, 1), min_size=n, max_size=n)))
    scores = Scores(values, id_array(ids), "el2n", Labels.of(labels), np.array(clusters))
    assert scores.ids.tolist() == ids
    with tempfile.TemporaryDirectory() as folder:
        write_scores(scores, Path(folder) / "s.parquet")
        again = read_scores(Path(folder) / "s.parquet")
        kept = pdn.select(again, keep_fraction=0.5, balance=0)
        write_selection(kept, Path(folder))
        manifest, keep = read_manifest(folder)
        streamed = select_streamed(open_table(Path(folder) / "s.parquet"), keep_fraction=0.5, balance=0)
        streamed.write(Path(folder) / "t.parquet")
        in_stream, keep_in_stream = read_manifest(Path(folder) / "t.parquet")
        for read in (again, manifest, in_stream):
            assert read.ids.tolist() == ids
            assert read.labels is not None
            assert read.labels.names.tolist() == labels
            assert read.clusters is not None
            assert read.clusters.tolist() == clusters
            assert read.values.tolist() == values.tolist()
        np.testing.assert_array_equal(keep, kept.keep)
        np.testing.assert_array_equal(keep_in_stream, kept.keep)


@settings(max_examples=60)
@given(IDS)
def test_ids_survive_a_text_file(ids: list[Any]) -> None:
    lines = [str(name) for name in ids if "\n" not in str(name) and "\r" not in str(name)]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "ids.txt"
        file.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
        assert [str(name) for name in load_column(file).tolist()] == lines


@pytest.mark.parametrize("classes", [["a\nb", 'a"b', "a,b"], ["01", "1", "001"]])
def test_class_names_survive_the_class_table(tmp_path: Path, classes: list[str]) -> None:
    kept = pdn.select(np.arange(3), keep_fraction=0.9, labels=classes)
    write_selection(kept, tmp_path)
    shown = kept.class_table()
    assert shown is not None
    as_text = pyarrow.csv.ConvertOptions(column_types={"class": pa.string()})
    parsing = pyarrow.csv.ParseOptions(newlines_in_values=True)
    read = pyarrow.csv.read_csv(tmp_path / "classes.csv", parse_options=parsing, convert_options=as_text)
    assert sorted(read["class"].to_pylist()) == sorted(classes)
    assert shown["class"].to_pylist() == read["class"].to_pylist()


# --- ids ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [list, lambda ids: np.array(ids, np.uint64), lambda ids: np.array(ids, object)])
def test_unsigned_ids_stay_unsigned(tmp_path: Path, make: Any) -> None:
    ids = [BIG, 3, 2**64 - 1]
    kept = pdn.select([0.1, 0.2, 0.3], keep_fraction=0.7, ids=make(ids))
    assert kept.ids.tolist() == [3, 2**64 - 1]
    write_table(kept.manifest(), tmp_path / "m.parquet")
    assert read_manifest(tmp_path / "m.parquet")[0].ids.tolist() == ids
    exporting.export(tmp_path / "m.parquet", to="ids", out=tmp_path / "kept.txt")
    assert (tmp_path / "kept.txt").read_text() == f"3\n{2**64 - 1}\n"
    assert load_column(tmp_path / "kept.txt").tolist() == [3, 2**64 - 1]


def test_unsigned_ids_are_exported_as_they_are(tmp_path: Path, rng: np.random.Generator) -> None:
    import datasets

    np.savez(tmp_path / "x.npz", embeddings=rng.normal(size=(4, 3)), ids=np.array([BIG, 1, 2, 2**64 - 1], np.uint64))
    pdn.prune(tmp_path / "x.npz", keep_fraction=0.5, metric="random", out=tmp_path / "pruned")
    exporting.export(tmp_path / "pruned", to="huggingface", out=tmp_path / "hf")
    kept, keep = read_manifest(tmp_path / "pruned")
    assert datasets.load_from_disk(str(tmp_path / "hf"))["id"][:] == kept.ids[keep].tolist()


def test_hashes_of_earlier_ids_have_not_changed() -> None:
    # Ties and samples of stored results depend on them; written down before unsigned ids were kept.
    assert hash_ids(np.array([0, 7, -1]), seed=0).tolist() == GOLDEN_NUMBERS
    assert hash_ids(id_array(["007", "a/b.png", "é"]), seed=3).tolist() == GOLDEN_TEXT
    small = np.array([5, 9], np.uint64)
    np.testing.assert_array_equal(hash_ids(small, seed=2), hash_ids(small.astype(np.int64), seed=2))


def test_a_long_id_is_hashed_as_in_short_company() -> None:
    long = "x" * 5_000
    ids = id_array(["a", long, "b"])
    alone = [hash_ids(id_array([name]), seed=1)[0] for name in ("a", long, "b")]
    assert hash_ids(ids, seed=1).tolist() == [int(value) for value in alone]


@pytest.mark.parametrize(
    ("ids", "message"),
    [
        ([1.0, 2.0], r"ids must be whole numbers or text, got float64; convert them to text"),
        ([1, "1"], r"one kind, but row 0 is a whole number \(1\) and row 1 is text \('1'\)"),
        ([2**64, 1], r"must fit in 64 bits, and row 0 is 18446744073709551616; write all of them as text"),
        ([-1, 2**63], r"must fit in 64 bits, and row 1 is 9223372036854775808"),
        ([0, 2**64], r"must fit in 64 bits, and row 1 is 18446744073709551616"),
        ([5, -(2**63), -(2**63) - 1], r"must fit in 64 bits, and row 2 is -9223372036854775809"),
        ([-(2**63), 2**63 - 1, 2**63], r"must fit in 64 bits, and row 2 is 9223372036854775808"),
        ([1, 2, "a", 3], r"one kind, but row 0 is a whole number \(1\) and row 2 is text \('a'\)"),
        ([np.bool_(True), 1.5], r"row 0 is true or false \(np.True_\) and row 1 is a number \(1.5\); convert all of"),
        ([b"a", "b", 1], r"row 0 is bytes \(b'a'\) and row 1 is text \('b'\)"),
        ([np.float32(1.0)], r"ids must be whole numbers or text, got float64"),
        ([np.timedelta64("NaT")], r"ids are missing at row 0; fill them in or drop those rows\.$"),
        (np.ma.masked_array([1, 2], [True, True]), r"ids are missing at rows 0, 1; every example needs one\.$"),
        (np.array(5), r"one-dimensional, got shape \(\)"),
        (np.array([1, None], object).reshape(1, 2), r"one-dimensional, got shape \(1, 2\)"),
        (["a", "b\udc80"], r"must be valid Unicode, and 'b\\udc80' at row 1 is not"),
        (["a", ""], r"ids are missing at row 1"),
        ([b"a", b"\xff"], r"must be text in UTF-8, and row 1 is b'\\xff'"),
        ([decimal.Decimal(1)], r"row 0 is of type Decimal \(Decimal\('1'\)\); convert them to text"),
        ([datetime.date(2026, 1, 2)], r"row 0 is of type date"),
        (np.array(["2026-01-02"], "datetime64[D]"), r"got datetime64\[D\]; convert them to text"),
        ([True, False], r"ids must be whole numbers or text, got bool"),
        (np.ma.masked_array([1, 2, 3], [False, True, False]), r"ids are missing at row 1"),
        (np.array([1, None], object), r"ids are missing at row 1"),
        (np.zeros((2, 2), int), r"one-dimensional, got shape \(2, 2\)"),
    ],
)
def test_ids_that_have_no_exact_form_are_refused(ids: Any, message: str) -> None:
    with pytest.raises(PareError, match=message) as caught:
        id_array(ids)
    assert str(caught.value).startswith("ids ")


@pytest.mark.parametrize(
    ("ids", "expected"),
    [
        (["007", "7"], ["007", "7"]),
        ([b"a", "é".encode()], ["a", "é"]),
        (np.array([b"a", b"bc"]), ["a", "bc"]),
        (["a\0", "a"], ["a\0", "a"]),
        ([uuid.UUID(int=1)], ["00000000-0000-0000-0000-000000000001"]),
        ([PurePosixPath("a/b.png")], ["a/b.png"]),
        (np.array([3, 4], object), [3, 4]),
        (np.array([1, 2], np.uint8), [1, 2]),
        ([np.int32(3), 4], [3, 4]),
        ([-(2**63), 2**63 - 1], [-(2**63), 2**63 - 1]),
        ([7, 7], [7, 7]),
        ([0, 2**64 - 1], [0, 2**64 - 1]),
        ((5, 6), [5, 6]),
        (np.array(["a", "b"], np.dtypes.StringDType(na_object=None)), ["a", "b"]),
        (np.ma.masked_array([1, 2], [False, False]), [1, 2]),
        ([], []),
    ],
)
def test_ids_that_have_one_keep_it(ids: Any, expected: list[Any]) -> None:
    assert id_array(ids).tolist() == expected


@pytest.mark.parametrize(
    ("ids", "kind"),
    [
        (np.array([1, 2], np.uint8), np.int64),
        (np.array([1, 2], np.uint32), np.int64),
        (np.array([1, 2], np.int16), np.int64),
        (np.array([1, 2], np.uint64), np.uint64),
        (np.array([1, 2], ">u8"), np.uint64),
        ([1, 2], np.int64),
        ([2**63, 2], np.uint64),
        ([0, 2**63], np.uint64),
        (["1"], np.dtypes.StringDType()),
        ([b"1"], np.dtypes.StringDType()),
        (np.array(["a"], np.dtypes.StringDType(na_object=None)), np.dtypes.StringDType()),
        ([], np.dtypes.StringDType()),
    ],
)
def test_ids_have_one_of_three_types(ids: Any, kind: Any) -> None:
    assert id_array(ids).dtype == kind


def test_ids_that_are_right_already_are_not_copied() -> None:
    for kind in (np.int64, np.uint64):
        ids = np.arange(3, dtype=kind)
        assert np.shares_memory(id_array(ids), ids)


def test_joined_ids_are_the_ids() -> None:
    low, high = id_array([1, 2]), id_array([2**63])
    assert join_ids([low, high]).tolist() == [1, 2, 2**63]
    assert join_ids([low, id_array(np.array([7], np.uint64))]).dtype == np.int64
    assert join_ids([id_array([]), id_array(["a"])]).tolist() == ["a"]
    assert join_ids([id_array([0]), high]).tolist() == [0, 2**63]  # zero is not negative
    assert join_ids([id_array([-1]), id_array(np.array([7], np.uint64))]).tolist() == [-1, 7]
    assert join_ids([id_array([-1]), id_array(np.array([2**63 - 1], np.uint64))]).tolist() == [-1, 2**63 - 1]
    assert join_ids([low, id_array(np.array([1000], np.uint64))]).dtype == np.int64
    assert join_ids([id_array(["a"]), id_array(["b", "c"])]).tolist() == ["a", "b", "c"]
    assert join_ids([low, id_array([-5])]).tolist() == [1, 2, -5]
    for empty in (id_array([]), np.empty(0, np.int64)):
        joined = join_ids([empty, np.empty(0, np.uint64)])
        assert (len(joined), joined.dtype) == (0, empty.dtype)
    with pytest.raises(PareError, match=r"^ids from -1 to 9223372036854775808 do not fit in 64 bits"):
        join_ids([id_array([-1]), high])
    with pytest.raises(PareError, match=r"^some ids are whole numbers and others are text; .*\.$"):
        join_ids([low, id_array(["a"])])


def test_found_ids() -> None:
    ids = id_array([5, 2**63, 7])
    rows, missing = find_ids(ids, id_array([7, 5]))  # unsigned among signed
    assert rows.tolist() == [2, 0]
    assert missing.tolist() == []
    assert find_ids(ids, id_array([-(2**63), 5]))[1].tolist() == [0]  # the same 64 bits, another number
    assert find_ids(ids, id_array(["5"]))[1].tolist() == [0]
    rows, missing = find_ids(id_array([]), id_array([1, 2]))
    assert (rows.tolist(), rows.dtype, missing.tolist()) == ([0, 0], np.int64, [0, 1])
    assert find_ids(id_array([]), id_array(["a"]))[1].tolist() == [0]
    rows, missing = find_ids(id_array([9]), id_array([9, 8]))  # a single id, found and not
    assert (rows.tolist(), missing.tolist()) == ([0, 0], [1])
    many = np.arange(100, 200)
    rows, missing = find_ids(many, np.arange(90, 210))  # those hashed above all others are not there either
    assert rows[10:110].tolist() == list(range(100))
    assert missing.tolist() == [*range(10), *range(110, 120)]
    rows, missing = find_ids(id_array(["b", "a", "c"]), id_array(["c", "d", "a", "b"]))
    assert (rows[[0, 2, 3]].tolist(), missing.tolist()) == ([2, 1, 0], [1])


def test_repeated_ids_are_refused_wherever_scores_are_made(tmp_path: Path) -> None:
    twice = r"1 id occurs more than once, e.g. 'b' at rows 1, 2; ids must be unique"
    with pytest.raises(PareError, match=twice):
        Scores(np.arange(3.0), id_array(["a", "b", "b"]))
    with pytest.raises(PareError, match=twice):
        pdn.select([1, 2, 3], ids=["a", "b", "b"], keep_fraction=0.5)
    with pytest.raises(PareError, match=rf"s.parquet: {twice}"):
        read_scores(write(tmp_path / "s.parquet", id=["a", "b", "b"]))
    with pytest.raises(PareError, match=r"2 ids occur more than once, e.g. 4 at rows 0, 1, 4"):
        check_ids(np.array([4, 4, 9, 9, 4]))
    with pytest.raises(PareError, match=r"^1 id occurs more than once, e.g. 1 at rows 0, 1; ids must be unique\.$"):
        check_ids(np.array([1, 1, 2]))
    with pytest.raises(PareError, match=r"^1 id occurs more than once, e.g. 7 at rows 0, 1;"):
        check_ids(np.array([7, 7]))
    with pytest.raises(PareError, match=r"^1 id occurs more than once, e.g. 3 at rows 1, 2;"):
        check_ids(np.array([1, 3, 3]))
    with pytest.raises(PareError, match=r"^1 id occurs more than once, e.g. 3 at rows 0, 3;"):
        check_ids(np.array([3, 4, 5, 3]))
    with pytest.raises(PareError, match=r"^2 ids occur more than once, e.g. 'b' at rows 0, 3;"):
        check_ids(id_array(["b", "a", "a", "b", "c"]))
    check_ids(np.array([3, 1, 2]))
    check_ids(id_array([2**63, 1]))
    check_ids(id_array(["b", "a"]))
    check_ids(id_array([]))


def test_ids_whose_hashes_collide_are_different_ids(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_ids.__module__ + ".hash_ids", lambda ids, seed: np.zeros(len(ids), np.uint64))
    check_ids(id_array(["a", "b", "c"]))
    with pytest.raises(PareError, match=r"^1 id occurs more than once, e.g. 'b' at rows 1, 2;"):
        check_ids(id_array(["a", "b", "b"]))


@pytest.mark.parametrize("what", ["ids", "paths"])
def test_a_line_break_in_an_id_does_not_break_a_list(tmp_path: Path, image_folder: Path, what: str) -> None:
    odd = next(image_folder.rglob("*.png"))
    odd.rename(odd.with_name("two\nlines.png"))
    pdn.prune(image_folder, keep_fraction=1.0, metric="random", out=tmp_path / "pruned")
    with pytest.raises(PareError, match=rf"{what[:-1]} '.*two\\nlines.png' holds a line break.*export 'indices' inst"):
        exporting.export(tmp_path / "pruned", to=what, out=tmp_path / "kept.txt")
    assert not (tmp_path / "kept.txt").exists()
    exporting.export(tmp_path / "pruned", to="indices", out=tmp_path / "kept.npy")


def test_ids_with_unusual_separators_survive_lists(tmp_path: Path) -> None:
    ids = ["a\u2028b", "c\x0bd", "e\x85f"]  # where `splitlines` would break a line
    write_table(pdn.select([1, 2, 3], ids=ids, keep_fraction=1).manifest(), tmp_path / "m.parquet")
    exporting.export(tmp_path / "m.parquet", to="ids", out=tmp_path / "kept.txt")
    assert load_column(tmp_path / "kept.txt").tolist() == ids


# --- labels ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "names"),
    [
        (["01", "1"], ["01", "1"]),
        ([True, False], ["True", "False"]),
        ([b"a", b"b"], ["a", "b"]),
        (np.array([b"a", b"b"]), ["a", "b"]),
        ([3.0, 2.0], ["3", "2"]),
        ([-0.0, 0.0], ["0", "0"]),
        ([2**63, 2**63 + 1], ["9223372036854775808", "9223372036854775809"]),
        (np.array([2.0**53, 1]), ["9007199254740992", "1"]),
        (["", "a"], ["", "a"]),
        (["a\0", "a"], ["a\0", "a"]),
        (np.array([1, 2], object), ["1", "2"]),
        ([np.True_, np.False_], ["True", "False"]),
        ([np.float32(3), 2.0], ["3", "2"]),
        (np.array([-(2.0**53), 1]), ["-9007199254740992", "1"]),
        (np.array([3, 2], np.uint8), ["3", "2"]),
        (np.array([True, False]), ["True", "False"]),
        ([uuid.UUID(int=1), PurePosixPath("a/b")], ["00000000-0000-0000-0000-000000000001", "a/b"]),
        ([], []),
    ],
)
def test_labels_keep_their_names(labels: Any, names: list[str]) -> None:
    assert Labels.of(labels).names.tolist() == names


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        ([1e300, 2e300], r"label 1e\+300 at rows 0, 1 is too large for a floating-point number to be exact"),
        ([1.0, 2.0**53 + 2], r"label 9007199254740994.0 at row 1 is too large"),
        (np.array(["2026-01-02", "NaT"], "datetime64[D]"), r"got datetime64\[D\]; convert them to text"),
        ([np.datetime64("2026-01-02"), np.datetime64("NaT")], r"labels are missing at row 1"),
        ([1, "1"], r"labels must all be of one kind, but row 0 is a whole number \(1\) and row 1 is text"),
        ([True, 1], r"row 0 is true or false \(True\) and row 1 is a whole number"),
        ([b"\xff"], r"labels must be text in UTF-8, and row 0 is b'\\xff'"),
        (["a\udc80"], r"labels must be valid Unicode, and 'a\\udc80' at row 0"),
        ([decimal.Decimal("1.5")], r"row 0 is of type Decimal"),
        ([1.0, 0.5], r"got fractional numbers, e.g. 0.5 at row 1"),
        ([1.0, 0.5, 2.0, 1.5], r"got fractional numbers, e.g. 0.5 at row 1\.$"),
        ([1.0, -1e300], r"label -1e\+300 at row 1 is too large .* exact; give labels as whole numbers or text\.$"),
        (np.array([1.0, np.nan, np.inf]), r"labels are missing at rows 1, 2; label them or drop those rows\.$"),
        (["a", 1, 2], r"row 0 is text \('a'\) and row 1 is a whole number \(1\)"),
        ([2**64, 1], r"labels must fit in 64 bits, and row 0 is 18446744073709551616"),
        (np.zeros((2, 2)), r"labels must be one-dimensional, got shape \(2, 2\)"),
        ([1.0, float("nan")], r"labels are missing at row 1"),
        (np.array([1.0, np.inf]), r"labels are missing at row 1"),
        (np.ma.masked_array([1, 2], [True, False]), r"labels are missing at row 0"),
        (np.array([1j]), r"got complex128"),
    ],
)
def test_labels_that_are_no_classes_are_refused(labels: Any, message: str) -> None:
    with pytest.raises(PareError, match=message) as caught:
        Labels.of(labels)
    assert str(caught.value).startswith(("label ", "labels "))


def test_missing_values_of_pandas_are_missing() -> None:
    class NAType:  # stands for pandas.NA, whose comparisons are neither true nor false
        def __bool__(self) -> bool:
            raise TypeError("boolean value of NA is ambiguous")

    class NaTType:  # stands for pandas.NaT, which is equal to nothing
        pass

    for make, what in ((id_array, "ids"), (Labels.of, "labels")):
        for gap in (NAType(), NaTType(), None, float("nan"), np.float32("nan")):
            with pytest.raises(PareError, match=rf"^{what} are missing at row 1; fill them in or drop those rows\.$"):
                make(np.array([1, gap], object))


def test_joined_labels_are_the_labels() -> None:
    joined = join_labels([Labels.of(["b", "10"]), Labels.of(["9", "b"])])
    assert joined.names.tolist() == ["b", "10", "9", "b"]
    assert joined.classes == ("10", "9", "b")  # as text, since one of them is no number
    assert join_labels([Labels.of([10]), Labels.of([9])]).classes == ("9", "10")
    part = Labels.of(["c", "a", "b"])
    joined = join_labels([part[:0], part[:2]])  # a part without examples, and classes that none of them has
    assert (joined.classes, joined.names.tolist(), joined.codes.dtype) == (("a", "b", "c"), ["c", "a"], np.int64)
    empty = join_labels([Labels.of([]), Labels.of(["x"])])
    assert (empty.classes, empty.names.tolist()) == (("x",), ["x"])


def test_a_hugging_face_dataset_with_unlabelled_rows(tmp_path: Path) -> None:
    import datasets

    vectors = {"embedding": [[1.0, 0.0]] * 3}
    features = datasets.Features(
        {"embedding": datasets.List(datasets.Value("float32")), "label": datasets.ClassLabel(names=["a", "b"])}
    )
    made = datasets.Dataset.from_dict(vectors | {"label": [0, -1, 1]}, features=features)
    made.save_to_disk(str(tmp_path / "hf"))
    with pytest.raises(
        PareError, match=r"'label' is -1 at row 1, and Hugging Face marks unlabelled examples by -1.*lab"
    ):
        open_source(tmp_path / "hf")
    datasets.Dataset.from_dict(vectors | {"label": [0, None, 1]}, features=features).save_to_disk(str(tmp_path / "gap"))
    with pytest.raises(PareError, match=r"gap: labels are missing at row 1 of column 'label'"):
        open_source(tmp_path / "gap")
    datasets.Dataset.from_dict(vectors | {"label": [1, 0, 1]}, features=features).save_to_disk(str(tmp_path / "good"))
    good = open_source(tmp_path / "good")
    assert good.labels is not None
    assert good.labels.names.tolist() == ["b", "a", "b"]
    given_labels = open_source(tmp_path / "hf", labels=["x", "y", "z"])
    assert given_labels.labels is not None


# --- clusters ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("clusters", "message"),
    [
        (pa.array([0, None, 1]), r"the cluster is missing at row 1; give every row one, or drop the column"),
        (pa.array([0, 1, 2**31]), r"cluster 2147483648 at row 2 does not fit in 32 bits"),
        (pa.array([0, 0.5, 1]), r"must hold whole numbers of 32 bits"),
        (pa.array(["0", "1", "007"]), r"holds string, and clusters must be whole numbers"),
    ],
)
def test_clusters_are_refused_alike_in_memory_and_in_streams(tmp_path: Path, clusters: Any, message: str) -> None:
    path = write(tmp_path / "s.parquet", cluster=clusters, label=["a", "a", "b"])
    with pytest.raises(PareError, match=rf"s.parquet: .*{message}"):
        read_scores(path)
    with pytest.raises(PareError, match=rf"s.parquet: .*{message}"):
        select_streamed(open_table(path), keep_fraction=0.5).write(tmp_path / "m.parquet")


def test_clusters_of_a_column() -> None:
    for column in (pa.chunked_array([[0.0, 2.0]]), pa.array([0, 2], pa.uint8()), dictionary([1, 0], pa.array([2, 0]))):
        clusters = cluster_column(column, "x")
        assert (clusters.tolist(), clusters.dtype) == ([0, 2], np.int64)
    assert cluster_column(dictionary([1, 0], pa.array([2.0, 0.0])), "x").tolist() == [0, 2]
    assert cluster_column(pa.chunked_array([[1], [2, 3]]), "x").tolist() == [1, 2, 3]
    for first, rows in ((None, "rows 1, 2"), (10, "rows 11, 12")):
        with pytest.raises(PareError, match=rf"^x: the cluster is missing at {rows}; give every row one"):
            cluster_column(pa.array([0, None, None]), "x", **({} if first is None else {"first": first}))
    with pytest.raises(PareError, match=r"^x: column 'cluster' holds bool, and clusters must be whole numbers\.$"):
        cluster_column(pa.array([True]), "x")
    with pytest.raises(PareError, match=r"^x: column 'cluster' must hold whole numbers of 32 bits \(.*0.5.*\)\.$"):
        cluster_column(pa.array([0.5]), "x")
    with pytest.raises(
        PareError, match=r"^x: column 'cluster' must hold whole numbers of 32 bits \(cluster -2147483649"
    ):
        cluster_column(pa.array([-(2**31) - 1]), "x")


# --- columns of tables -------------------------------------------------------------------------------------------


def dictionary(codes: Sequence[int | None], values: Any) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), values)


@pytest.mark.parametrize(
    ("column", "expected"),
    [
        (pa.array([BIG, 1], pa.uint64()), [BIG, 1]),
        (pa.array(["a", "b"], pa.large_string()), ["a", "b"]),
        (pa.array(["a", "b"], pa.string_view()), ["a", "b"]),
        (pa.array([b"a", b"b"]), ["a", "b"]),
        (pa.array([b"ab", b"cd"], pa.binary(2)), ["ab", "cd"]),
        (dictionary([1, 0], pa.array(["a", "b"])), ["b", "a"]),
        (dictionary([1, 0], pa.array([5, 2**62 + 1])), [2**62 + 1, 5]),
        (pa.array(["007", "7"]), ["007", "7"]),
    ],
)
def test_id_columns(tmp_path: Path, column: Any, expected: list[Any]) -> None:
    assert id_column(pa.chunked_array([column]), "x").tolist() == expected
    if column.type == pa.string_view():  # which Parquet does not hold
        return
    path = write(tmp_path / "s.parquet", id=column)
    assert read_scores(path).ids.tolist() == expected
    select_streamed(open_table(path), keep_fraction=0.5).write(tmp_path / "m.parquet")
    assert read_manifest(tmp_path / "m.parquet")[0].ids.tolist() == expected


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array([1.0, 2.0]), r"column 'id' holds double, and ids must be whole numbers or text"),
        (pa.array([datetime.date(2026, 1, 2)] * 2), r"column 'id' holds date32"),
        (pa.array([decimal.Decimal(1)] * 2), r"column 'id' holds decimal128"),
        (pa.array([True, False]), r"column 'id' holds bool"),
        (pa.array([1, None]), r"missing"),
        (pa.array(["a", ""]), r"missing"),
        (pa.array([b"a", b"\xff"]), r"row 1 holds b'\\xff', which is not text in UTF-8"),
    ],
)
def test_id_columns_that_are_refused(tmp_path: Path, column: Any, message: str) -> None:
    path = write(tmp_path / "s.parquet", id=column)
    with pytest.raises(PareError, match=rf"s.parquet: .*{message}"):
        read_scores(path)
    with pytest.raises(PareError, match=rf"s.parquet: .*{message}"):
        select_streamed(open_table(path), keep_fraction=0.5).write(tmp_path / "m.parquet")


@pytest.mark.parametrize(
    ("column", "names"),
    [
        (pa.array(["01", "1"]), ["01", "1"]),
        (pa.array([b"a", b"b"]), ["a", "b"]),
        (pa.array([True, False]), ["True", "False"]),
        (pa.array([2.0, 3.0]), ["2", "3"]),
        (pa.array([BIG, 1], pa.uint64()), [str(BIG), "1"]),
        (dictionary([1, 0], pa.array([b"a", b"b"])), ["b", "a"]),
        (dictionary([1, 0], pa.array([7, 9])), ["9", "7"]),
        (dictionary([1, 0], pa.array([7.0, 9.0])), ["9", "7"]),
        (dictionary([0, 1], pa.array(["a", "a"])), ["a", "a"]),
        (pa.array(["", "a"]), ["", "a"]),
    ],
)
def test_label_columns(tmp_path: Path, column: Any, names: list[str]) -> None:
    assert label_column(pa.chunked_array([column]), "x").names.tolist() == names
    path = write(tmp_path / "s.parquet", label=column)
    for manifest in ("memory", "stream"):
        if manifest == "memory":
            write_table(pdn.select(read_scores(path), keep_fraction=0.5).manifest(), tmp_path / "memory.parquet")
        else:
            select_streamed(open_table(path), keep_fraction=0.5).write(tmp_path / "stream.parquet")
        labels = read_manifest(tmp_path / f"{manifest}.parquet")[0].labels
        assert labels is not None
        assert labels.names.tolist() == names


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pa.array(["2026-01-02", None]).cast(pa.date32()), r"column 'label' holds date32.*convert them to text"),
        (pa.array([1, 2], pa.timestamp("us")), r"column 'label' holds timestamp"),
        (pa.array([decimal.Decimal("1.5")] * 2), r"column 'label' holds decimal128"),
        (pa.array([1e300, 2e300]), r"label 1e\+300 at rows 0, 1 is too large"),
        (pa.array([1.0, 0.5]), r"fractional numbers"),
        (pa.array([1, None]), r"missing"),
        (dictionary([0, None], pa.array(["a"])), r"missing"),
        (pa.array([b"a", b"\xff"]), r"which is not text in UTF-8"),
    ],
)
def test_label_columns_that_are_refused(tmp_path: Path, column: Any, message: str) -> None:
    path = write(tmp_path / "s.parquet", label=column)
    with pytest.raises(PareError, match=rf"s.parquet.*: .*{message}"):
        read_scores(path)
    with pytest.raises(PareError, match=rf"s.parquet.*: .*{message}"):
        select_streamed(open_table(path), keep_fraction=0.5).write(tmp_path / "m.parquet")


def test_nulls_that_a_dictionary_names(tmp_path: Path) -> None:
    used, unused = (pa.chunked_array([dictionary(codes, pa.array(["a", None]))]) for codes in ([0, 1], [0, 0]))
    for read in (id_column, label_column):
        with pytest.raises(PareError, match=r"x: .*missing at row 1"):
            read(used, "x")
    assert label_column(unused, "x", with_unused=True).classes == ("a",)


@pytest.mark.parametrize(
    ("kind", "text", "whole"),
    [
        (pa.string(), True, False),
        (pa.large_string(), True, False),
        (pa.string_view(), True, False),
        (pa.binary(), True, False),
        (pa.large_binary(), True, False),
        (pa.binary_view(), True, False),
        (pa.binary(4), True, False),
        (pa.dictionary(pa.int8(), pa.string()), True, False),
        (pa.dictionary(pa.int8(), pa.int64()), False, True),
        (pa.int8(), False, True),
        (pa.uint64(), False, True),
        (pa.bool_(), False, False),
        (pa.float32(), False, False),
        (pa.dictionary(pa.int8(), pa.float64()), False, False),
        (pa.date32(), False, False),
        (pa.list_(pa.string()), False, False),
        (pa.null(), False, False),
    ],
)
def test_which_types_are_text_or_whole_numbers(kind: pa.DataType, text: bool, whole: bool) -> None:
    assert (is_text(kind), is_whole(kind)) == (text, whole)
    advice = "must be whole numbers or text; convert them to text"
    if text or whole:
        check_id_type(kind, "x")
    else:
        with pytest.raises(PareError) as caught:
            check_id_type(kind, "x")
        assert str(caught.value) == f"x: column 'id' holds {kind}, and ids {advice}."
    plain = value_type(kind)
    if text or whole or plain in (pa.bool_(), pa.float32(), pa.float64()):
        check_class_type(kind, "x")
    else:
        with pytest.raises(PareError) as caught:
            check_class_type(kind, "x")
        assert str(caught.value) == f"x: column 'label' holds {kind}, and classes {advice}."


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["ab", None, "cd"]),
        pa.array(["ab", None, "cd"], pa.large_string()),
        pa.array([b"ab", None, b"cd"], pa.binary(2)),
        pa.array([b"ab", None, b"cd"], pa.large_binary()),
        dictionary([1, None, 0], pa.array([b"cd", b"ab"])),
        pa.chunked_array([dictionary([0], pa.array(["ab"])), dictionary([None, 0], pa.array(["cd"]))]),
    ],
)
def test_text_of_any_type_is_plain_text(column: Any) -> None:
    plain = plain_text(column, "x")
    assert (plain.type, plain.to_pylist()) == (pa.string(), ["ab", None, "cd"])


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary(2)])
def test_bytes_that_are_not_text_are_named_with_their_row(kind: pa.DataType) -> None:
    column = pa.array([b"ab", None, b"\xff\xff", b"\xfe\xfe"], kind)
    message = r"holds b'\\xff\\xff', which is not text in UTF-8; write it as text\.$"
    with pytest.raises(PareError, match=rf"^x: row 2 {message}"):
        plain_text(column, "x")
    with pytest.raises(PareError, match=rf"^x: row 12 {message}"):
        plain_text(column, "x", first=10)
    with pytest.raises(PareError, match=rf"^x: row 3 {message}"):
        plain_text(dictionary([0, 0, None, 1], column.take(pa.array([0, 2]))), "x")


def test_columns_are_called_by_their_names() -> None:
    def chunked(*values: Any) -> Any:
        return pa.chunked_array([pa.array(values)])

    for read, usual, what, other, advice in (
        (id_column, "id", "ids", "ids", "every example needs an id"),
        (label_column, "label", "labels", "classes", "label such rows or drop them"),
    ):
        options: dict[str, Any]
        for options, name in (({}, usual), ({"name": "mine"}, "mine")):
            with pytest.raises(PareError) as caught:
                read(chunked(1, None, None), "x", **options)
            assert str(caught.value) == f"x: {what} are missing at rows 1, 2 of column '{name}'; {advice}."
            with pytest.raises(PareError, match=rf"^x: column '{name}' holds date32\[day\], and {other} must be"):
                read(chunked(datetime.date(2026, 1, 2)), "x", **options)
        with pytest.raises(PareError, match=r"^x: row 1 holds b'\\xff', which is not text in UTF-8"):
            read(chunked(b"a", b"\xff"), "x")
    with pytest.raises(PareError, match=r"^x: ids are missing at row 1; every example needs an id"):
        id_column(chunked("a", ""), "x")
    with pytest.raises(PareError, match=r"^x: labels must be classes .* e.g. 0.5 at row 1\.$"):
        label_column(chunked(1.0, 0.5), "x")


def test_labels_of_chunks_with_dictionaries_of_their_own() -> None:
    column = pa.chunked_array([dictionary([0, 1], pa.array(["b", "a"])), dictionary([0, 1], pa.array(["a", "c"]))])
    for with_unused in (False, True):
        labels = label_column(column, "x", with_unused=with_unused)
        assert (labels.classes, labels.names.tolist()) == (("a", "b", "c"), ["b", "a", "a", "c"])
        plain = label_column(pa.chunked_array([["b", "a"], ["a"]]), "x", with_unused=with_unused)
        assert (plain.classes, plain.codes.tolist()) == (("a", "b"), [1, 0, 0])
        twice = label_column(pa.chunked_array([dictionary([1, 0], pa.array(["a", "a"]))]), "x", with_unused=with_unused)
        assert (twice.classes, twice.codes.tolist()) == (("a",), [0, 0])
        none = label_column(pa.chunked_array([], pa.string()), "x", with_unused=with_unused)
        assert (none.classes, len(none)) == ((), 0)
    unused = pa.chunked_array([dictionary([0], pa.array([b"a", b"\xff"]))])
    assert label_column(unused, "x").classes == ("a",)
    with pytest.raises(PareError, match=r"^x: row 1 holds b'\\xff', which is not text"):
        label_column(unused, "x", with_unused=True)


def test_classes_without_examples_are_kept_where_asked() -> None:
    column = pa.chunked_array([dictionary([2, 0], pa.array(["b", "never", "a"]))])
    assert label_column(column, "x").classes == ("a", "b")
    assert label_column(column, "x", with_unused=True).classes == ("a", "b", "never")
    assert label_column(column, "x", with_unused=True).names.tolist() == ["a", "b"]


def test_shards_whose_ids_differ_in_type(tmp_path: Path) -> None:
    for number, ids in enumerate((pa.array([1, 2]), pa.array([BIG, 4], pa.uint64()))):
        write(tmp_path / f"s-{number}.parquet", id=ids)
    with pytest.raises(PareError, match=r"different columns"):
        read_scores(tmp_path)
    with pytest.raises(PareError, match=r"s-1.parquet: column 'id' holds uint64, in the first file int64"):
        open_table(tmp_path)


def test_the_index_that_pandas_writes_is_no_score(tmp_path: Path) -> None:
    path = write(tmp_path / "s.parquet", __index_level_0__=[4, 9])
    assert read_scores(path).metric == open_table(path).metric == "el2n"


@pytest.mark.parametrize("metric", ["id", "label", "cluster", "keep"])
def test_scores_are_not_named_like_another_column(tmp_path: Path, metric: str) -> None:
    with pytest.raises(PareError, match=rf"scores cannot be called '{metric}'"):
        write_scores(Scores(np.zeros(1), np.arange(1), metric), tmp_path / "s.parquet")


# --- text files --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cells", "expected"),
    [
        (["7", "-7", "0"], [7, -7, 0]),
        (["007", "7"], ["007", "7"]),
        (["+7", "7"], ["+7", "7"]),
        (["7.0", "7"], ["7.0", "7"]),
        (["-0", "0"], ["-0", "0"]),
        (["²", "2"], ["²", "2"]),
        ([" 7", "7"], [" 7", "7"]),
        ([str(BIG), "1"], [BIG, 1]),
        ([str(2**64), "1"], [str(2**64), "1"]),
        ([str(BIG), "-1"], [str(BIG), "-1"]),
        (["NA", "DE"], ["NA", "DE"]),
        (["NA", "1", "DE"], ["NA", "1", "DE"]),  # one of many texts, not a gap among numbers
        (["NA", "-"], ["NA", "-"]),
        (["NA"], ["NA"]),
        (["7"], [7]),
        (["0"], [0]),
        ([], []),
    ],
)
def test_cells_are_read_as_written(cells: list[str], expected: list[Any]) -> None:
    numbers = expected and isinstance(expected[0], int)
    for column in (cells, pa.chunked_array([pa.array(cells, pa.string())]), tuple(cells)):
        found = as_written(column, "f", "id")
        assert found.tolist() == expected
        assert found.dtype.kind == ("T" if not numbers else "u" if BIG in expected else "i")


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["1", "NA", "3"], r"f: column 'label' is empty or 'NA' at row 1; fill such rows in or drop them"),
        (["1", ""], r"f: column 'label' is empty or '' at row 1"),
        (["NA", "3", "?"], r"^f: column 'label' is empty or 'NA' at rows 0, 2; fill such rows in or drop them\.$"),
        (["1", "2", "nan", "-"], r"^f: column 'label' is empty or 'nan' at rows 2, 3; "),
        (["", ""], r"^f: column 'label' is empty or '' at rows 0, 1; "),
        (["a", ""], r"f: column 'label' is empty or '' at row 1"),
    ],
)
def test_gaps_in_text_files_are_named(cells: list[str], message: str) -> None:
    with pytest.raises(PareError, match=message):
        as_written(cells, "f", "label")


def test_path_lists_keep_leading_zeros(tmp_path: Path, image_folder: Path) -> None:
    files = sorted(image_folder.rglob("*.png"))[:2]
    rows = f"{files[0]},007,01\n{files[1]},7,1\n"
    (tmp_path / "list.csv").write_text("path,id,label\n" + rows)
    source = open_source(tmp_path / "list.csv")
    assert source.ids.tolist() == ["007", "7"]
    assert source.labels is not None
    assert source.labels.names.tolist() == ["01", "1"]
    (tmp_path / "list.csv").write_text("path,id,label\n" + rows.replace("007", "8").replace("01", "2"))
    assert open_source(tmp_path / "list.csv").ids.tolist() == [8, 7]  # plain numbers are numbers, as ever


def test_imported_scores_keep_leading_zeros(tmp_path: Path) -> None:
    (tmp_path / "s.csv").write_text("id,label,score\n007,01,1\n7,1,2\n")
    scores = import_scores(tmp_path / "s.csv", higher_is="harder")
    assert scores.ids.tolist() == ["007", "7"]
    assert scores.labels is not None
    assert scores.labels.names.tolist() == ["01", "1"]
    write(tmp_path / "s.parquet", id=["007", "008"])
    assert import_scores(tmp_path / "s.parquet", higher_is="harder").ids.tolist() == ["007", "008"]


def test_text_files_of_labels_keep_leading_zeros(tmp_path: Path) -> None:
    (tmp_path / "labels.txt").write_text("01\n1\n01\n")
    assert load_column(tmp_path / "labels.txt").tolist() == ["01", "1", "01"]
    (tmp_path / "empty.txt").write_text("")
    assert load_column(tmp_path / "empty.txt").tolist() == []


def test_classes_of_tars_keep_leading_zeros(tmp_path: Path) -> None:
    import io
    import tarfile

    from PIL import Image

    pixels = io.BytesIO()
    Image.new("RGB", (2, 2)).save(pixels, "png")
    with tarfile.open(tmp_path / "0.tar", "w") as tar:
        for key, name in (("a", "01"), ("b", "1"), ("c", "²")):
            for suffix, content in ((".png", pixels.getvalue()), (".cls", name.encode())):
                info = tarfile.TarInfo(key + suffix)
                info.size = len(content)
                tar.addfile(info, io.BytesIO(content))
    labels = open_source(tmp_path / "0.tar").labels
    assert labels is not None
    assert labels.names.tolist() == ["01", "1", "²"]


@pytest.mark.parametrize("size", [3e38, 1e38, 1.0, 1e-20, 1e-40])
def test_rows_of_any_length_have_a_direction(size) -> None:
    rows = np.array([[size, size, 0.0, 0.0], [0.0, 0.0, -size, 0.0]], np.float32)
    units = unit_rows(rows, ids=np.arange(2), first=0, where="x")
    np.testing.assert_allclose(units, [[0.5**0.5, 0.5**0.5, 0, 0], [0, 0, -1, 0]], rtol=1e-6)
    assert units.dtype == np.float32


def test_scores_take_plain_lists_and_arrays_of_classes() -> None:
    scores = Scores([3.0, 1.0, 2.0, 4.0], ["a", "b", "c", "d"], labels=np.array(["x", "x", "y", "y"]))
    assert isinstance(scores.labels, Labels)
    assert pdn.select(scores, keep_fraction=0.5, balance=1.0).ids.tolist() == ["a", "d"]
