from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paredown import ids as data
from paredown.errors import PareError
from paredown.ids import check_ids, hash_ids, id_array, name_rows, natural_order
from paredown.scores import Labels, Scores, as_float32, check_clusters, class_order, unit_rows, usable_rows

TEXT = st.text(st.characters(exclude_characters="\x00", exclude_categories=["Cs"]), min_size=1, max_size=12)


@given(st.lists(TEXT, min_size=1, max_size=20, unique=True), st.integers(0, 100), st.data())
def test_hash_depends_on_the_id_alone(names: list[str], seed: int, data) -> None:
    order = data.draw(st.permutations(range(len(names))))
    ids = id_array(names)
    whole = hash_ids(ids, seed=seed)
    np.testing.assert_array_equal(hash_ids(ids[order], seed=seed), whole[order])
    # A longer neighbour widens the padded table; the hash must not notice.
    np.testing.assert_array_equal(hash_ids(id_array([*names, "x" * 40]), seed=seed)[:-1], whole)


def test_hash_is_uniform_and_seeded() -> None:
    for ids in (np.arange(100_000), id_array([f"img/{i}.png" for i in range(100_000)])):
        u = hash_ids(ids, seed=3) / 2.0**64
        assert abs(u.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(u))
        assert abs(np.corrcoef(u, hash_ids(ids, seed=4) / 2.0**64)[0, 1]) < 4 / np.sqrt(len(u))
        assert len(np.unique(u)) == len(u)


def plain_hash(name: int | str, seed: int) -> int:
    """The definition in plain integers: the finaliser of splitmix64, over words of two code points."""
    mask = 2**64 - 1

    def mix(x: int) -> int:
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9 & mask
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB & mask
        return x ^ (x >> 31)

    value = mix((seed + 0x9E3779B97F4A7C15) & mask)
    if isinstance(name, int):
        return mix(value ^ (name & mask))
    points = [ord(letter) for letter in name] + [0] * (len(name) % 2)
    for low, high in zip(points[::2], points[1::2], strict=True):
        value = mix(value ^ (low | high << 32))
    return value


@given(st.lists(TEXT, min_size=1, max_size=8), st.integers(0, 2**40))
def test_hash_is_the_same_on_every_machine(names: list[str], seed: int) -> None:
    # Another hash would reorder ties in stored selections.
    assert hash_ids(id_array(names), seed=seed).tolist() == [plain_hash(name, seed) for name in names]
    numbers = [-1, 0, 1, 2**40]
    assert hash_ids(np.array(numbers), seed=seed).tolist() == [plain_hash(number, seed) for number in numbers]


def test_one_long_id_does_not_widen_all_the_others() -> None:
    names = [f"{row:05d}" for row in range(60_000)]
    names[30_000] = "x" * 20_000
    ids = id_array(names)
    tracemalloc.start()
    hashes = hash_ids(ids, seed=3)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2**27  # padded to the longest, the ids take 4.8 GB
    for row in (0, 30_000, 59_999):
        assert hashes[row] == plain_hash(names[row], 3)


@given(st.lists(TEXT, min_size=1, max_size=30), st.integers(1, 40))
def test_hashes_do_not_depend_on_how_many_fit_into_memory(names: list[str], words: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("paredown.ids._HASH_WORDS", words)
        assert hash_ids(id_array(names), seed=1).tolist() == [plain_hash(name, 1) for name in names]


@pytest.mark.parametrize("rows", [1, 3, 8, 100])
def test_hashes_do_not_depend_on_how_many_are_hashed_at_once(rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["a", "bcd", "", "x" * 30, "ef", "ghi/jk", "a", "l"]
    monkeypatch.setattr(data, "_HASH_ROWS", rows)
    ids = np.array(names, np.dtypes.StringDType())
    assert hash_ids(ids, seed=2**64 - 1).tolist() == [plain_hash(name, 2**64 - 1) for name in names]
    assert hash_ids(ids[:0], seed=1).dtype == np.uint64


@pytest.mark.parametrize(
    ("words", "groups"),
    [(20, None), (19, [[0, 1, 3], [2]]), (6, [[0, 1, 3], [2]]), (5, [[0, 1], [3], [2]]), (1, [[0], [1], [3], [2]])],
)
def test_long_ids_are_hashed_apart_from_short_ones(
    words: int, groups: list[list[int]] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(data, "_HASH_WORDS", words)
    found = list(data._alike_in_width(np.array([1, 1, 5, 2])))  # padded to the longest they are 20 words
    if groups is None:
        assert found == [slice(None)]
    else:
        assert [group.tolist() for group in found] == groups


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_is_64_bits(seed: int) -> None:
    with pytest.raises(PareError, match=rf"seed must be a whole number from 0 to 2\^64 - 1, got {seed}"):
        hash_ids(np.arange(3), seed=seed)
    assert len(hash_ids(np.arange(3), seed=2**64 - 1)) == 3


def test_natural_order_knows_digits_from_their_lookalikes() -> None:
    names = ["a²", "a10", "a2", "a٣"]
    assert [path.name for path in sorted(map(Path, names), key=natural_order)] == ["a2", "a٣", "a10", "a²"]
    assert natural_order(Path("7/shard-010.b")) == [(1, "shard-"), (0, 10), (1, ".b")]
    assert natural_order(Path("2a")) < natural_order(Path("10a")) < natural_order(Path("a"))


def test_ids_must_be_unique_and_present() -> None:
    with pytest.raises(PareError, match=r"1 id occurs more than once, e.g. 'a' at rows 0, 2; ids must be unique"):
        check_ids(id_array(["a", "b", "a"]))
    with pytest.raises(PareError, match=r"ids are missing at row 1"):
        id_array(np.array(["a", None, "c"], object))
    with pytest.raises(PareError, match=r"ids must be whole numbers or text"):
        id_array([0.5, 1.5])
    check_ids(np.arange(10))


def test_labels() -> None:
    labels = Labels.of(["cat", "ant", "cat"])
    assert labels.classes == ("ant", "cat")
    assert labels.codes.tolist() == [1, 0, 1]
    assert labels.counts.tolist() == [1, 2]
    assert labels.names.tolist() == ["cat", "ant", "cat"]
    assert labels[[0, 2]].counts.tolist() == [0, 2]  # the class stays, without examples
    assert Labels.of([10, 9, 10]).classes == ("9", "10")  # in order of value, not of text
    with pytest.raises(PareError, match=r"there are 3 labels for 4 examples"):
        Labels.of([1, 2, 3], length=4)
    with pytest.raises(PareError, match=r"labels are missing at row 1"):
        Labels.of(np.array(["a", None], object))
    with pytest.raises(PareError, match=r"labels are missing at row 0"):
        Labels.of([np.nan, 1.0])
    with pytest.raises(PareError, match=r"got fractional numbers"):
        Labels.of([0.5, 1.0])


def test_labels_have_codes_of_64_bits() -> None:
    for values in (["b", "a"], [2, 1], [2.0, 1.0], [True, False], np.array([2, 1], np.uint8)):
        assert Labels.of(values).codes.dtype == np.int64
        assert Labels.of(values).codes.tolist() == [1, 0]
    labels = Labels.of(["b", "a"], length=2)
    assert Labels.of(labels, length=2) is labels
    with pytest.raises(PareError, match=r"^there are 2 labels for 3 examples; give one label per example\.$"):
        Labels.of(labels, length=3)


@pytest.mark.parametrize(
    ("names", "ordered"),
    [
        (["10", "9", "-1", "0"], ["-1", "0", "9", "10"]),
        (["10", "9", "a"], ["10", "9", "a"]),
        (["10", "9", "01"], ["01", "10", "9"]),
        (["10", "9", "-0"], ["-0", "10", "9"]),
        (["10", "9", "+1"], ["+1", "10", "9"]),
        (["10", "9", "1٣"], ["10", "1٣", "9"]),  # a digit, but not of a plain number
        (["10", "9", ""], ["", "10", "9"]),
        ([], []),
    ],
)
def test_classes_are_in_the_order_of_numbers_or_of_text(names: list[str], ordered: list[str]) -> None:
    order = class_order(names)
    assert [names[place] for place in order] == ordered
    assert order.dtype == np.int64
    labels = Labels.numbered(np.arange(len(names)), names)
    assert (labels.classes, labels.names.tolist()) == (tuple(ordered), names)


def test_classes_in_a_known_order() -> None:
    labels = Labels.of(["cat", "ant", "cat"])
    turned = labels.in_order_of(["dog", "cat", "ant"])
    assert (turned.classes, turned.codes.tolist()) == (("cat", "ant"), [0, 1, 0])
    assert turned.names.tolist() == ["cat", "ant", "cat"]
    assert labels.in_order_of(["cat", "ant"]).classes == ("cat", "ant")
    assert labels.in_order_of(["cat", "dog"]) is labels  # an order that does not know all of them


def test_scores_must_match_what_comes_with_them() -> None:
    with pytest.raises(PareError, match=r"^there are 2 scores for 3 ids; give one score per id\.$"):
        Scores(np.zeros(2), np.arange(3))
    with pytest.raises(PareError, match=r"^there are 3 labels for 2 scores; give one per score\.$"):
        Scores(np.zeros(2), np.arange(2), labels=Labels.of([1, 2, 3]))
    with pytest.raises(PareError, match=r"^there are 1 clusters for 2 scores; give one per score\.$"):
        Scores(np.zeros(2), np.arange(2), clusters=np.zeros(1, np.int64))
    with pytest.raises(PareError, match=r"^clusters must be one whole number per example, got float64 of \(2,\)\.$"):
        Scores(np.zeros(2), np.arange(2), clusters=np.zeros(2))  # type: ignore[arg-type]
    with pytest.raises(PareError, match=r"^scores must be finite; 4 are not, at rows 0, 1, 2 and 1 more\.$"):
        Scores(np.array([np.nan, np.inf, -np.inf, np.nan, 1.0]), np.arange(5))
    with pytest.raises(PareError, match=r"^ids must be whole numbers or text, got float64"):
        Scores(np.zeros(2), np.array([0.5, 1.5]))
    assert Scores(np.zeros(2), np.array([1, 2], np.uint8)).ids.dtype == np.int64
    assert Scores(np.zeros(2), np.array(["a", "b"])).ids.dtype == np.dtypes.StringDType()


def test_other_labels_leave_the_scores_as_they_are() -> None:
    scores = Scores(np.array([1.0, 2.0]), np.arange(2), "el2n", clusters=np.array([3, 4]), provenance={"seed": 1})
    labelled = scores.with_labels(Labels.of(["b", "a"]))
    assert labelled.labels is not None
    assert labelled.labels.names.tolist() == ["b", "a"]
    assert scores.labels is None
    assert (labelled.metric, labelled.provenance, len(labelled)) == ("el2n", {"seed": 1}, 2)
    assert labelled.values is scores.values
    assert labelled.clusters is scores.clusters


def test_scores_are_an_array() -> None:
    scores = Scores(np.array([1.0, 2.0]), np.arange(2))
    assert np.asarray(scores, dtype=np.float32).dtype == np.float32
    assert np.asarray(scores).dtype == np.float64
    assert np.shares_memory(np.asarray(scores), scores.values)
    assert not np.shares_memory(np.array(scores, copy=True), scores.values)
    with pytest.raises(ValueError, match="copy"):
        np.array(scores, dtype=np.float32, copy=False)


def test_clusters_are_numbers_of_32_bits() -> None:
    check_clusters(None)
    check_clusters(np.array([-(2**31), 0, 2**31 - 1]))
    check_clusters(np.array([0, 5], np.uint8))
    with pytest.raises(PareError, match=r"^cluster -2147483649 at row 1 does not fit in 32 bits; number the clusters"):
        check_clusters(np.array([0, -(2**31) - 1]))
    with pytest.raises(PareError, match=r"^cluster 2147483648 at rows 0, 2 does not fit in 32 bits"):
        check_clusters(np.array([2**31, 0, 2**32]))
    for clusters, shown in ((np.zeros((2, 1), int), r"int64 of \(2, 1\)"), (np.array(["a"]), r"<U1 of \(1,\)")):
        with pytest.raises(PareError, match=rf"^clusters must be one whole number per example, got {shown}\.$"):
            check_clusters(clusters)


@pytest.mark.parametrize(
    ("rows", "ids", "text"),
    [
        ([4], None, "row 4"),
        ([4, 7], None, "rows 4, 7"),
        ([4, 7, 9], None, "rows 4, 7, 9"),
        ([4, 7, 9, 11], None, "rows 4, 7, 9 and 1 more"),
        (np.arange(15), None, "rows 0, 1, 2 and 12 more"),
        ([4], ["a"], "row 4 (id a)"),
        ([4, 7], [4, 7], "rows 4, 7"),  # ids that are the row numbers say nothing new
        ([4, 7], [4, 8], "rows 4 (id 4), 7 (id 8)"),
        ([1, 2, 3, 4], [1, 2, 3, 9], "rows 1, 2, 3 and 1 more"),
        ([1, 2, 3, 4], ["a", "b", "c", "d"], "rows 1 (id a), 2 (id b), 3 (id c) and 1 more"),
    ],
)
def test_rows_in_words(rows: list[int], ids: list[int | str] | None, text: str) -> None:
    assert name_rows(rows, ids=None if ids is None else id_array(ids)) == text


def test_scores_must_be_finite() -> None:
    with pytest.raises(PareError, match=r"scores must be finite; 1 are not, at row 2"):
        Scores(np.array([1.0, 2.0, np.nan]), np.arange(3))
    np.testing.assert_array_equal(np.asarray(Scores(np.array([1.0, 2.0]), np.arange(2))), [1.0, 2.0])


@pytest.mark.parametrize(("value", "what"), [(0.0, "only zeros"), (np.nan, "NaN"), (np.inf, "NaN or infinite")])
def test_unusable_rows_are_named(value: float, what: str) -> None:
    block = np.ones((4, 3))
    block[2] = value
    with pytest.raises(PareError, match=rf"x\.npy: embedding row 12 \(id c\) holds {what}"):
        unit_rows(block, ids=id_array(["a", "b", "c", "d"]), first=10, where="x.npy")


def test_several_unusable_rows() -> None:
    block = np.array([[0.0, 0.0], [1.0, 2.0], [np.nan, 1.0], [np.inf, -np.inf], [1e-30, 0.0], [3e30, 4e30]], np.float32)
    assert usable_rows(block).tolist() == [False, True, False, False, True, True]
    assert usable_rows(block.astype(np.float64)).tolist() == [False, True, False, False, True, True]
    assert usable_rows(np.array([[1e-60, 0.0]])).tolist() == [False]  # nothing is left of it in 32 bits
    with pytest.raises(PareError, match=r"^x: embedding rows 5 \(id 0\), 7 \(id 2\), 8 \(id 3\) hold only zeros; "):
        unit_rows(block, ids=np.arange(6), first=5, where="x")
    with pytest.raises(PareError, match=r"^x: embedding rows 1, 2 hold NaN or infinite values; .*on_error='skip'\.$"):
        unit_rows(block[1:4], ids=np.arange(3), first=0, where="x")


def test_half_precision_becomes_single_precision_as_numpy_has_it(monkeypatch) -> None:
    every = np.arange(2**16, dtype=np.uint16).view(np.float16).reshape(1024, 64)  # infinite and NaN ones, too
    finite = every[np.isfinite(every).all(axis=1)]
    odd = (finite[:, ::3], finite[::-1], finite[:70].T, finite[:0], finite[:, :0], finite.astype(">f2"))
    for half in (every, finite, *odd):
        expected = half.astype(np.float32).view(np.uint32)
        np.testing.assert_array_equal(as_float32(half).view(np.uint32), expected)
        with monkeypatch.context() as patched:  # where the processor takes the smallest numbers for zero
            patched.setattr("paredown.scores._SMALLEST", np.float32(0))
            np.testing.assert_array_equal(as_float32(half).view(np.uint32), expected)


def test_unit_rows_are_of_32_bits() -> None:
    unit = unit_rows(np.array([[3, 4], [0, 2]]), ids=np.arange(2), first=0, where="x")
    assert unit.dtype == np.float32
    np.testing.assert_array_equal(unit, np.array([[0.6, 0.8], [0, 1]], np.float32))


def test_unit_rows_survive_extreme_lengths() -> None:
    rows = np.array([[3e30, 4e30], [3e-30, 4e-30], [3.0, 4.0]], np.float32)
    unit = unit_rows(rows, ids=np.arange(3), first=0, where="x")
    np.testing.assert_allclose(unit, [[0.6, 0.8]] * 3, rtol=1e-6)


@pytest.mark.parametrize("kind", [np.int64, np.uint64])
@pytest.mark.parametrize("spread", [1, 1_000_003], ids=["dense", "sparse"])
@pytest.mark.parametrize("start", [0, 7, 2**62])
def test_whole_numbers_in_any_order_are_checked(rng, kind, spread, start) -> None:
    ids = rng.permutation(500).astype(kind) * kind(spread) + kind(start)
    check_ids(ids)
    check_ids(ids - kind(start + 3 * spread) if kind is np.int64 else ids)  # some below zero
    ids[[3, 400]] = ids[20]
    with pytest.raises(PareError, match=rf"1 id occurs more than once, e.g. {ids[20]} at rows 3, 20, 400; ids must"):
        check_ids(ids)
    check_ids(np.array([-(2**63), 2**63 - 1, 0]))
    check_ids(ids[:0])


def test_an_id_of_a_nul_is_not_missing() -> None:
    assert id_array(["\0", "a"]).tolist() == ["\0", "a"]
    with pytest.raises(PareError, match=r"ids are missing at row 1"):
        id_array(["\0", ""])


@pytest.mark.parametrize("ids", [["b", "a", "c"], [5, -(10**15), 3]])
def test_scores_know_the_hashes_of_their_ids(ids) -> None:
    scores = Scores(np.arange(3.0), id_array(ids)).with_labels(Labels.of([0, 1, 1]))
    for seed in (0, 1):
        np.testing.assert_array_equal(scores.hashes(seed), hash_ids(id_array(ids), seed=seed))
