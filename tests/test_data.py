from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paredown.data import Labels, Scores, check_ids, hash_ids, id_array, natural_order, unit_rows
from paredown.errors import PareError

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
        patch.setattr("paredown.data._HASH_WORDS", words)
        assert hash_ids(id_array(names), seed=1).tolist() == [plain_hash(name, 1) for name in names]


@pytest.mark.parametrize("seed", [-1, 2**64])
def test_a_seed_is_64_bits(seed: int) -> None:
    with pytest.raises(PareError, match=rf"seed must be a whole number from 0 to 2\^64 - 1, got {seed}"):
        hash_ids(np.arange(3), seed=seed)
    assert len(hash_ids(np.arange(3), seed=2**64 - 1)) == 3


def test_natural_order_knows_digits_from_their_lookalikes() -> None:
    names = ["a²", "a10", "a2", "a٣"]
    assert [path.name for path in sorted(map(Path, names), key=natural_order)] == ["a2", "a٣", "a10", "a²"]


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


def test_unit_rows_survive_extreme_lengths() -> None:
    rows = np.array([[3e30, 4e30], [3e-30, 4e-30], [3.0, 4.0]], np.float32)
    unit = unit_rows(rows, ids=np.arange(3), first=0, where="x")
    np.testing.assert_allclose(unit, [[0.6, 0.8]] * 3, rtol=1e-6)
