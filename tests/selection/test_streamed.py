"""Selection in streams keeps the same examples as selection in memory, in memory that does not grow."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import paredown as pdn
from paredown.errors import PareError
from paredown.score_files import read_scores
from paredown.selection import STRATEGIES, Limits, open_table, select_streamed
from paredown.selection.strategies import STRATIFIED_BINS
from paredown.selection.streamed import cuts
from paredown.units import format_size, parse_size

TINY = Limits(rows=7, candidates=3, cells=256)  # many blocks, hardly any room: everything has to be refined

# Values that break careless binning: both zeros, denormals, neighbours, huge ones and their opposites.
AWKWARD = [0.0, -0.0, 5e-324, -5e-324, 1e-45, 1.0, np.nextafter(1.0, 2), -1.0, 0.5, 2.0, 3e38, -3e38, 1e300, -1e300]


def id_column(draw, n: int) -> pa.Array:
    start = draw(st.integers(-5, 2**62))
    return pa.array([f"x{i}é" for i in range(n)] if draw(st.booleans()) else np.arange(start, start + n))


def label_column(draw, n: int) -> pa.Array:
    codes = np.array(draw(st.lists(st.integers(0, 4), min_size=n, max_size=n)))
    kind = draw(st.sampled_from(["int", "wide", "text", "dictionary", "unused", "float"]))
    if kind == "int":
        return pa.array(codes - 2, pa.int16())
    if kind == "wide":
        return pa.array(codes * 10**12)
    if kind == "float":
        return pa.array(codes.astype(float))
    names = np.array(["b", "10", "9", "ä", "a"])
    if kind == "text":
        return pa.array(names[codes].tolist())
    used = pa.array([*names.tolist(), "never"] if kind == "unused" else names.tolist())
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), used)


@st.composite
def tables(draw) -> pa.Table:
    n = draw(st.integers(1, 60))
    kind = draw(st.sampled_from([np.float64, np.float32, np.float16, np.int64, np.uint8]))
    if kind in (np.int64, np.uint8):
        values = np.array(draw(st.lists(st.integers(0, 9), min_size=n, max_size=n)), kind)
    else:
        some = st.sampled_from(AWKWARD) | st.integers(-3, 3).map(float) | st.floats(-1, 1, width=16)
        with np.errstate(over="ignore"):
            values = np.array(draw(st.lists(some, min_size=n, max_size=n)), np.float64).astype(kind)
        values = np.nan_to_num(values)
    if draw(st.booleans()):
        values = np.full(n, values[0])
    columns = {"id": id_column(draw, n), "el2n": pa.array(values)}
    if draw(st.booleans()):
        columns["label"] = label_column(draw, n)
    if draw(st.booleans()):
        columns["cluster"] = pa.array(draw(st.lists(st.integers(0, 3), min_size=n, max_size=n)), pa.int32())
    return pa.table(columns)


def write_shards(table: pa.Table, folder: Path, sizes: list[int]) -> Path:
    folder.mkdir()
    first, number = 0, 0
    while first < table.num_rows:
        rows = sizes[number % len(sizes)]
        pq.write_table(table.slice(first, rows), folder / f"s-{number}.parquet", row_group_size=1 + rows // 3)
        first, number = first + rows, number + 1
    return folder


SETTINGS = st.fixed_dictionaries(
    {
        "keep_fraction": st.floats(0.01, 1.0),
        "strategy": st.sampled_from(sorted(STRATEGIES)),
        "quota": st.sampled_from(["none", "none", "proportional", "equal"]),
        "balance": st.floats(0, 1),
        "drop_hardest": st.floats(0, 0.9),
        "mix_random": st.sampled_from([0.0, 0.0, 0.3, 1.0]),
        "seed": st.integers(0, 3),
    }
)
SIZES = st.lists(st.integers(1, 40), min_size=1, max_size=3)


def fitting(options: dict, table: pa.Table) -> dict:
    grouped = "label" in table.column_names or "cluster" in table.column_names
    grouped &= options["strategy"] != "stratified"  # which streams without a floor or quota only
    if not grouped:
        return options | {"balance": 0.0, "quota": "none"}
    return options if options["quota"] == "none" else options | {"balance": 0.0}


@settings(max_examples=120)
@given(tables(), SETTINGS, SIZES, st.sampled_from([TINY, Limits(rows=16), Limits(rows=5, candidates=10, cells=64)]))
def test_streamed_is_the_in_memory_selection_bit_for_bit(table, options, sizes, limits) -> None:
    options = fitting(options, table)
    with tempfile.TemporaryDirectory() as folder:
        path = write_shards(table, Path(folder) / "shards", sizes)
        expected = pdn.select(read_scores(path), **options)
        kept = select_streamed(open_table(path), limits=limits, **options)
        np.testing.assert_array_equal(kept.keep, expected.keep)
        assert len(kept) == len(expected)
        assert kept.notes == expected.notes
        assert kept.recipe == expected.recipe
        assert kept.rows.classes() is None or kept.class_table().equals(expected.class_table())
        kept.write(Path(folder) / "manifest.parquet")
        written = pq.read_table(Path(folder) / "manifest.parquet")
        in_memory = expected.manifest()
        assert written.schema.equals(in_memory.schema, check_metadata=True)
        for name in written.column_names:
            left, right = (t[name].combine_chunks() for t in (written, in_memory))
            if name == "label":
                left, right = left.dictionary_decode(), right.dictionary_decode()
            assert left.equals(right), name


@settings(max_examples=30)
@given(tables(), SETTINGS, SIZES, st.randoms(use_true_random=False))
def test_order_of_rows_and_shards_does_not_matter(table, options, sizes, random) -> None:
    options = fitting(options, table)
    order = list(range(table.num_rows))
    random.shuffle(order)
    ids = []
    with tempfile.TemporaryDirectory() as folder:
        for name, rows in (("one", table), ("two", table.take(order))):
            path = write_shards(rows, Path(folder) / name, sizes)
            kept = select_streamed(open_table(path), limits=TINY, **options)
            ids.append(set(kept.ids.tolist()))
    assert ids[0] == ids[1]


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@pytest.mark.parametrize("crowded", ["smooth", "outliers", "equal", "few values"])
def test_memory_is_bounded_by_the_limits(tmp_path, rng, monkeypatch, kind, strategy, crowded) -> None:
    n, limits = 30_000, Limits(rows=1_000, candidates=200, cells=1_024)
    values = rng.standard_normal(n)
    if crowded == "outliers":
        values[:5] = 1e30 if kind == np.float32 else 1e300
    elif crowded == "equal":
        values[:] = 0.25
    elif crowded == "few values":
        values = rng.integers(0, 3, n).astype(float)
    labels = np.minimum(rng.geometric(0.1, n), 40)
    columns = {"id": np.arange(n), "score": values.astype(kind), "label": labels}
    pq.write_table(pa.table(columns), tmp_path / "s.parquet", row_group_size=7_001)
    collected, cells = [], []
    find = cuts._Look.finish

    def counting(look, scan):
        cells.append(look.counts.size)
        collected.append(sum(len(numbers) for numbers, *_ in look.parts))
        find(look, scan)

    monkeypatch.setattr(cuts._Look, "finish", counting)
    options = {"keep_fraction": 0.3, "strategy": strategy, "balance": 0.0 if strategy == "stratified" else 0.5}
    kept = select_streamed(open_table(tmp_path / "s.parquet"), limits=limits, **options)
    expected = pdn.select(read_scores(tmp_path / "s.parquet"), **options)
    np.testing.assert_array_equal(kept.keep, expected.keep)
    assert max(collected) <= limits.candidates
    assert max(cells) <= 1.5 * limits.cells
    if crowded != "smooth":
        assert len(cells) > 1 or strategy == "random"  # the first bins could not do it alone


def test_more_classes_than_the_first_block_shows(tmp_path, rng) -> None:
    n = 5_000
    columns = {"id": np.arange(n), "score": rng.random(n), "label": [f"c{i // 3}" for i in range(n)]}
    pq.write_table(pa.table(columns), tmp_path / "s.parquet", row_group_size=500)
    options = {"keep_fraction": 0.4, "balance": 0.9}
    kept = select_streamed(open_table(tmp_path / "s.parquet"), limits=Limits(rows=100, cells=4_096), **options)
    expected = pdn.select(read_scores(tmp_path / "s.parquet"), **options)
    np.testing.assert_array_equal(kept.keep, expected.keep)
    assert kept.class_table()["class"].to_pylist() == list(expected.scores.labels.classes)


@pytest.mark.parametrize("n_classes", [1, STRATIFIED_BINS])
def test_kept_of_classes_is_not_taken_for_kept_of_bins(tmp_path, rng, n_classes) -> None:
    n = 2_000
    columns = {"id": np.arange(n), "score": rng.random(n), "label": rng.permutation(np.arange(n) % n_classes)}
    pq.write_table(pa.table(columns), tmp_path / "s.parquet")
    options = {"keep_fraction": 0.3, "strategy": "stratified", "balance": 0.0, "mix_random": 0.2}
    kept = select_streamed(open_table(tmp_path / "s.parquet"), limits=TINY, **options)
    expected = pdn.select(read_scores(tmp_path / "s.parquet"), **options)
    assert kept.class_table().equals(expected.class_table())


# --- as a user meets it --------------------------------------------------------------------------------------------


@pytest.fixture
def shards(tmp_path, rng) -> Path:
    n = 3_000
    labels = np.array(["cat", "dog", "emu"])[rng.integers(0, 3, n)]
    columns = {"id": np.arange(n), "el2n": rng.random(n).astype(np.float32).round(2), "label": labels}
    return write_shards(pa.table(columns), tmp_path / "scores", [700, 301])


def test_prune_streams_when_memory_is_short(paredown, shards, tmp_path) -> None:
    reports = {}
    for name, memory in (("streamed", "100KiB"), ("whole", "1GiB")):
        arguments = ["prune", "scores", "--keep-fraction", "0.4", "--memory", memory, "-o", name]
        shown = paredown(*arguments)
        assert shown.returncode == 0, shown.stderr
        assert "Kept 1,200 of 3,000 examples (hard, metric el2n, floor 0.5 per label)" in shown.stdout
        assert "class balance b:" in shown.stdout
        streamed = "scores: 3,000 rows would need about 498 KiB of memory, more than --memory, so they are streamed."
        assert (streamed in shown.stderr) == (name == "streamed")
        reports[name] = json.loads(paredown(*arguments, "--overwrite", "--json").stdout)
        files = sorted(p.name for p in (tmp_path / name).iterdir())
        assert files == [".paredown", "classes.csv", "manifest.json", "manifest.parquet"]
    streamed, whole = reports["streamed"], reports["whole"]
    assert streamed | {"out": ""} == whole | {"out": ""}
    (one, one_keep), (two, two_keep) = (pdn.read_manifest(tmp_path / name) for name in ("streamed", "whole"))
    np.testing.assert_array_equal(one_keep, two_keep)
    np.testing.assert_array_equal(one.values, two.values)
    again = paredown("prune", "streamed", "--keep-fraction", "0.2", "--memory", "1KiB", "-o", "again")
    assert again.returncode == 0, again.stderr
    assert paredown("export", "again", "--to", "indices", "-o", "kept.npy").returncode == 0
    assert len(np.load(tmp_path / "kept.npy")) == 600


def use(source, out: Path, **options) -> dict:
    """All that a user may do with a selection, as plain values."""
    kept = pdn.select(source, keep_fraction=0.4, **options)
    smaller = kept.at(0.2)
    kept.write(out)
    classes = kept.class_table()
    return {
        "type": type(kept),
        "len": (len(kept), len(smaller), kept.n_examples),
        "ids": (kept.ids.dtype, kept.ids.tolist(), smaller.ids.tolist()),
        "indices": (kept.indices.dtype, kept.indices.tolist()),
        "keep": (kept.keep.dtype, kept.keep.tolist()),
        "recipe": (kept.recipe, smaller.recipe),
        "notes": kept.notes,
        "provenance": kept.provenance(),
        "repr": (repr(kept), kept._repr_html_()),
        "metric": kept.metric,
        "scores": (kept.scores.values.tolist(), kept.scores.labels.names.tolist(), kept.scores.ids.tolist()),
        "schema": (kept.manifest().schema, kept.manifest().schema.metadata),
        "manifest": kept.manifest().to_pylist(),
        "batches": [row for batch in kept.batches() for row in batch.to_pylist()],
        "kept batches": [row for batch in kept.batches(["score", "id"], kept_only=True) for row in batch.to_pylist()],
        "classes": None if classes is None else classes.to_pylist(),
        "balance": kept.balance_scores(),
        "written": out.read_bytes(),
    }


@pytest.mark.parametrize("strategy", sorted(STRATEGIES))
@pytest.mark.parametrize("quota", ["none", "equal"])
def test_the_same_code_works_whatever_the_size(shards, tmp_path, strategy, quota) -> None:
    options = {"strategy": strategy, "quota": quota, "mix_random": 0.1}
    if strategy == "stratified":
        options |= {"quota": "none", "balance": 0.0}
    small = use(shards, tmp_path / "small.parquet", **options)
    large = use(shards, tmp_path / "large.parquet", memory="1KiB", **options)
    assert small["type"] is pdn.Selection
    assert small["len"] == (1_200, 600, 3_000)
    for name, value in small.items():
        assert large[name] == value, name


def test_nothing_is_held_unless_asked_for(shards) -> None:
    kept = pdn.select(shards, keep_fraction=0.4, memory="1KiB")
    assert len(list(kept.batches(["keep"]))) > 1
    assert set(vars(kept)) == {"rows", "recipe", "notes", "already", "again"}
    held = [value for value in vars(kept.rows).values() if isinstance(value, np.ndarray)]
    assert max(len(value) for value in held) == 3  # one number per class
    assert kept.keep.sum() == 1_200
    assert "keep" in vars(kept)


def test_labels_given_apart(shards, tmp_path, rng) -> None:
    labels = rng.choice(["x", "y"], 3_000, p=[0.9, 0.1])
    small, large = (use(shards, tmp_path / f"{m}.parquet", labels=labels, memory=m) for m in ("1GiB", "1KiB"))
    assert small == large
    assert [row["class"] for row in large["classes"]] == ["x", "y"]
    with pytest.raises(PareError, match=r"there are 2 labels for 3000 examples"):
        pdn.select(shards, keep_fraction=0.4, labels=[0, 1], memory="1KiB")


def test_columns_of_batches_are_checked(shards) -> None:
    with pytest.raises(PareError, match=r"there is no column 'cluster' in the manifest; it has id, keep, score, label"):
        pdn.select(shards, keep_fraction=0.4).batches(["id", "cluster"])


def test_html_is_escaped() -> None:
    kept = pdn.select(np.arange(3.0), keep_fraction=0.5, labels=["<script>", "a&b", "c"], balance=1)
    text = kept._repr_html_()
    assert "<script>" not in text
    assert "&lt;script&gt;, a&amp;b" in text
    assert repr(kept) == "<Selection: kept 2 of 3, strategy hard, metric score, floor 1 per label>"


def test_a_selection_as_a_data_frame(monkeypatch) -> None:
    kept = pdn.select(np.arange(3.0), keep_fraction=0.5, labels=list("aba"), ids=list("xyz"))
    columns = {"id": list("xyz"), "keep": [False, True, True], "score": [0.0, 1.0, 2.0], "label": list("aba")}
    assert kept.to_pandas().to_dict("list") == columns
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(PareError, match=r"to_pandas\(\) needs pandas: pip install pandas"):
        kept.to_pandas()


def test_shards_with_and_without_clusters(tmp_path) -> None:
    for number, more in enumerate(({"cluster": [0, 1]}, {})):
        pq.write_table(
            pa.table({"id": [2 * number, 2 * number + 1], "el2n": [0.1, 0.2]} | more), tmp_path / f"{number}.parquet"
        )
    with pytest.raises(PareError, match=r"1.parquet: it lacks a column 'cluster' and the first file does not agree"):
        open_table(tmp_path)


def test_ids_that_are_not_text_are_named_by_their_row_in_the_file(tmp_path) -> None:
    ids = [b"%d" % number for number in range(20)]
    ids[17] = b"\xff"
    pq.write_table(pa.table({"id": ids, "el2n": np.linspace(0, 1, 20)}), tmp_path / "s.parquet")
    kept = select_streamed(open_table(tmp_path / "s.parquet"), keep_fraction=0.5, limits=TINY)
    with pytest.raises(PareError, match=r"s.parquet: row 17 holds b'\\xff', which is not text in UTF-8"):
        kept.write(tmp_path / "m.parquet")


def test_a_streamed_manifest_is_replaced_when_asked(shards, tmp_path) -> None:
    out = tmp_path / "m.parquet"
    select_streamed(open_table(shards), keep_fraction=0.5).write(out)
    smaller = select_streamed(open_table(shards), keep_fraction=0.25)
    with pytest.raises(PareError, match=r"m.parquet already exists"):
        smaller.write(out)
    smaller.write(out, overwrite=True)
    assert pq.read_table(out)["keep"].to_numpy().sum() == 750
    assert json.loads(out.with_suffix(".json").read_text())["selection"]["keep_fraction"] == 0.25


def test_what_does_not_stream_says_so(shards) -> None:
    for options in ({}, {"balance": 0.0, "quota": "equal"}):
        with pytest.raises(
            PareError, match=r"'stratified' with a floor or quota .* all 3,000 scores in memory; raise memory"
        ):
            pdn.prune(shards, keep_fraction=0.4, memory="1KiB", strategy="stratified", **options)


BAD_TABLES = {
    "nan": (
        {"el2n": [0.1, 0.2, float("nan"), 0.3, None], "label": list("aabbb")},
        r"s-1.parquet: rows 0, 2: scores must be finite",
    ),
    "inf": (
        {"el2n": [0.1, 0.2, 0.3, float("inf"), 0.4, 0.5], "label": list("aabbbb")},
        r"s-1.parquet: row 1: scores must be finite",
    ),
    "-inf": (
        {"el2n": [0.1, 0.2, 0.3, -float("inf"), 0.4, 0.5], "label": list("aabbbb")},
        r"s-1.parquet: row 1: scores must be finite",
    ),
    "no label": ({"el2n": [0.1, 0.2]}, r"needs a column 'label' or 'cluster', and there is neither; use balance=0"),
    "missing label": (
        {"el2n": [0.1, 0.2, 0.3], "label": ["a", "b", None]},
        r"s-1.parquet: row 0: the label is missing",
    ),
    "missing number": ({"el2n": [0.1, 0.2, 0.3], "label": [1, None, 1]}, r"s-0.parquet: row 1: the label is missing"),
    "missing id": ({"id": ["a", None, "b"], "el2n": [1.0, 2, 3], "label": [1, 1, 1]}, r"row 1: the id is missing"),
    "empty id": ({"id": ["a", "b", ""], "el2n": [1.0, 2, 3], "label": [1, 1, 1]}, r"s-1.parquet: row 0: the id is"),
    "fractions": ({"el2n": [0.1, 0.2], "label": [0.5, 1.5]}, r"must be classes .*, got fractional numbers"),
    "no scores": ({"label": ["a", "b"]}, r"not a table of scores"),
    "two scores": ({"el2n": [0.1], "loss": [0.1], "label": [1]}, r"which column holds the scores\?"),
    "same ids": ({"id": [7] * 9, "el2n": [0.5] * 9, "label": [1] * 9}, r"rows have the same id and score"),
}


@pytest.mark.parametrize("name", BAD_TABLES)
def test_bad_tables_are_named(tmp_path, name) -> None:
    columns, message = BAD_TABLES[name]
    length = len(next(iter(columns.values())))
    table = pa.table({"id": list(range(length))} | columns)
    path = write_shards(table, tmp_path / "shards", [2, 9])
    with pytest.raises(PareError, match=message):
        select_streamed(open_table(path), keep_fraction=0.5, balance=0.5, limits=TINY).write(tmp_path / "m.parquet")
    assert not list(tmp_path.glob("*m.parquet*"))


def test_bad_shards_are_named(shards, tmp_path) -> None:
    columns = {"id": [1], "el2n": [0.5]}
    pq.write_table(pa.table(columns), shards / "s-9.parquet")
    with pytest.raises(PareError, match=r"s-9.parquet: it lacks a column 'label'"):
        open_table(shards)
    pq.write_table(pa.table(columns | {"label": [3]}), shards / "s-9.parquet")
    with pytest.raises(PareError, match=r"s-9.parquet: column 'label' holds int64, in the first file string"):
        open_table(shards)
    (shards / "s-9.parquet").write_bytes(b"PAR1 but not really")
    for read in (open_table, read_scores):
        with pytest.raises(PareError, match=r"s-9.parquet: not a readable Parquet file"):
            read(shards)
    twice = pa.Table.from_arrays([pa.array([1]), pa.array([0.5]), pa.array([0.5])], names=["id", "el2n", "el2n"])
    pq.write_table(twice, tmp_path / "t.parquet")
    for read in (open_table, read_scores):
        with pytest.raises(PareError, match=r"t.parquet: column 'el2n' occurs more than once"):
            read(tmp_path / "t.parquet")
    pq.write_table(
        pa.table({"id": pa.array([], pa.int64()), "el2n": pa.array([], pa.float32())}), tmp_path / "e.parquet"
    )
    with pytest.raises(PareError, match=r"e.parquet: the table is empty"):
        open_table(tmp_path / "e.parquet")


def test_a_damaged_page_is_named_and_nothing_is_written(shards, tmp_path) -> None:
    file = shards / "s-1.parquet"
    data = bytearray(file.read_bytes())
    data[4:600] = bytes(596)
    file.write_bytes(data)
    with pytest.raises(PareError, match=r"s-1.parquet: not a readable Parquet file"):
        pdn.prune(shards, keep_fraction=0.5, memory="1KiB", out=tmp_path / "out")
    assert sorted(p.name for p in tmp_path.iterdir()) == ["scores"]


def test_interrupted_leaves_nothing(shards, tmp_path) -> None:
    def interrupt(items, label, total=None):
        for number, item in enumerate(items):
            if label == "applying the cut" and number == 2:
                raise KeyboardInterrupt
            yield item

    with pytest.raises(KeyboardInterrupt):
        pdn.prune(shards, keep_fraction=0.5, memory="1KiB", out=tmp_path / "out", track=interrupt)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["scores"]


def test_killed_while_writing_leaves_no_output(shards, tmp_path) -> None:
    code = """
import sys, time, paredown as pdn
def slow(items, label, total=None):
    for number, item in enumerate(items):
        if label == "applying the cut" and number == 2:
            print("writing", flush=True)
            time.sleep(60)
        yield item
pdn.prune(sys.argv[1], keep_fraction=0.5, memory="1KiB", out=sys.argv[2], overwrite=True, track=slow)
"""
    out = tmp_path / "out"
    pdn.prune(shards, keep_fraction=0.1, out=out)
    process = subprocess.Popen([sys.executable, "-c", code, shards, out], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "writing\n"
    process.send_signal(signal.SIGKILL)
    process.wait()
    process.stdout.close()
    assert len(pdn.read_manifest(out)[0].ids) == 3_000  # the old output is whole
    assert pdn.read_manifest(out)[1].sum() == 300
    pdn.prune(shards, keep_fraction=0.5, memory="1KiB", out=out, overwrite=True)
    assert pdn.read_manifest(out)[1].sum() == 1_500


def test_a_table_that_changes_is_noticed(shards) -> None:
    kept = pdn.prune(shards, keep_fraction=0.5, memory="1KiB")
    file = shards / "s-1.parquet"
    table = pq.read_table(file)
    pq.write_table(table.slice(1), file)
    with pytest.raises(PareError, match=r"s-1.parquet: it changed while it was read"):
        list(kept.batches())
    pq.write_table(table.set_column(1, "el2n", pa.array(np.ones(table.num_rows, np.float32))), file)
    with pytest.raises(PareError, match=r"it changed while it was read"):
        list(kept.batches())


@pytest.mark.parametrize(
    ("text", "size"),
    [
        ("512MiB", 512 * 2**20),
        ("1.5 GiB", 3 * 2**29),
        ("2g", 2**31),
        ("2GB", 2 * 10**9),
        ("100B", 100),
        (7, 7),
        (1.5e3, 1500),
    ],
)
def test_sizes(text, size) -> None:
    assert parse_size(text) == size


@pytest.mark.parametrize("text", ["", "GiB", "1XB", "-1GiB", "0", "1,5GiB", 0, float("nan"), float("inf"), True, [1]])
def test_sizes_that_are_none(text) -> None:
    with pytest.raises(PareError, match=r"a size is a number with a unit, such as 512MiB or 1GiB; got"):
        parse_size(text)


def test_bad_memory_is_one_clear_message(paredown, shards) -> None:
    result = paredown("prune", "scores", "--memory", "much", "-o", "out")
    assert result.returncode == 2
    assert "a size is a number with a unit, such as 512MiB or 1GiB; got 'much'" in result.stderr


def test_sizes_for_people() -> None:
    assert [format_size(size) for size in (17, 2048, 3.5 * 2**20, 2**41)] == ["17 B", "2 KiB", "3.5 MiB", "2.0 TiB"]


def test_the_median_of_an_odd_number_of_huge_scores_does_not_overflow(tmp_path) -> None:
    huge = [1.7e308, -1.7e308, 1.7e308, 0, -1.7e308, -1e308, 0, -1.7e308, 0, 1.7e308, -1e308, -1.7e308, 1e308]
    values = np.array([*huge, -1.7e308, -1e308, -1e308, -1e308])
    pq.write_table(pa.table({"id": np.arange(17), "score": values}), tmp_path / "s.parquet")
    streamed = select_streamed(open_table(tmp_path / "s.parquet"), keep_fraction=0.6, strategy="moderate")
    held = pdn.select(tmp_path / "s.parquet", keep_fraction=0.6, strategy="moderate")
    assert streamed.ids.tolist() == held.ids.tolist()
