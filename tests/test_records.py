"""Settings on record: the same settings have the same name, others are told by what differs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paredown.errors import PareError
from paredown.records import canonical, changes, check_same, digest, json_values, read_record, tuples, write_record

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)


def test_canonical_settings() -> None:
    assert canonical({"b": (1, 2), "a": Path("x/y")}) == '{"a": "x/y", "b": [1, 2]}'
    assert canonical({"n": np.int64(3), "f": np.float32(0.5), "v": np.arange(2)}) == '{"f": 0.5, "n": 3, "v": [0, 1]}'
    with pytest.raises(TypeError, match="a setting cannot be recorded"):
        canonical({"function": len})


def test_digests_stay_as_they_are() -> None:
    """Names of runs on disk: SHA-256 of sorted JSON, as `json.dumps(..., sort_keys=True)` writes it."""
    assert digest({"b": 1, "a": [1, 2]}) == digest({"a": (1, 2), "b": 1})
    assert digest({"a": 1}, 20) == "f9d86028c6e0d64e2251"
    assert digest({"a": 1}) == "f9d86028c6e0d64e"
    assert digest({"a": 2}) != digest({"a": 1})


@given(st.dictionaries(st.text(), plain))
def test_what_is_read_back_is_the_same_settings(settings) -> None:
    assert json_values(json_values(settings)) == json_values(settings)
    assert digest(json_values(settings)) == digest(settings)
    assert changes(settings, json_values(settings)) == []


@given(st.dictionaries(st.text(), plain), st.text(), st.integers(), st.integers())
def test_any_change_is_seen(settings, name, before, now) -> None:
    found = changes(settings | {name: before}, settings | {name: now})
    assert [change.name for change in found] == ([] if before == now else [name])


def test_changes_are_told_one_by_one() -> None:
    before = {"seed": 0, "options": {"k": 5, "same": 1}, "gone": True}
    now = {"options": {"k": 6, "same": 1, "new": (1, 2)}, "seed": 0}
    assert list(map(str, changes(before, now))) == [
        "options.k was 5 and is now 6",
        "options.new was None and is now [1, 2]",
        "gone was True and is now None",
    ]
    assert [change.name for change in changes(before, now, names=["gone", "seed"])] == ["gone"]
    (long,) = changes({"a": "x" * 200}, {"a": 1})
    assert str(long) == "a was '" + "x" * 76 + "... and is now 1"


def test_other_settings_are_refused_by_name() -> None:
    check_same("swept holds a sweep", {"a": [1]}, {"a": (1,)}, advice="unused")
    with pytest.raises(PareError) as caught:
        check_same("swept holds a sweep", {"seed": 0, "b": 1}, {"seed": 1, "b": 2}, advice="Remove it.")
    assert str(caught.value) == "swept holds a sweep made with other settings: seed was 0 and is now 1. Remove it."
    check_same("swept holds a sweep", {"seed": 0, "b": 1}, {"seed": 0, "b": 2}, advice="unused", names=["seed"])


def test_tuples_out_of_json() -> None:
    assert tuples({"a": [1, 2], "b": "text", "c": {"d": [1]}}) == {"a": (1, 2), "b": "text", "c": {"d": [1]}}


def test_a_damaged_record_counts_as_missing(tmp_path) -> None:
    file = tmp_path / "record.json"
    assert read_record(file) is None
    write_record(file, {"a": np.int64(1)})
    assert read_record(file) == {"a": 1}
    whole = file.read_bytes()
    for damage in (whole[:-4], b"", b"[1]", b"\xff\xfe", b"[" * 100_000, b"null"):
        file.write_bytes(damage)
        assert read_record(file) is None
    assert [path.name for path in tmp_path.iterdir()] == ["record.json"]
