"""Settings on record: the same settings have the same name, others are told by what differs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paredown.cli.app import as_option
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
    assert [str(PareError(str(change))) for change in changes(before, now)] == [
        "k was 5 and is now 6",
        "new was not given then and is now [1, 2]",
        "gone was True and is not given now",
    ]
    assert [change.name for change in changes(before, now, names=["gone", "seed"])] == ["gone"]
    (long,) = changes({"a": "x" * 200}, {"a": 1})
    assert str(long) == "a was '" + "x" * 76 + "... and is now 1"


def test_changes_are_told_in_the_words_of_the_user() -> None:
    before = {
        "paredown": "0.1",
        "options": {"k": 500, "restarts": 2, "pseudo_labels": True},
        "source": {"location": "/a", "kind": "npy", "examples": 3, "fingerprint": "v2-00"},
        "model": {"fingerprint": "ab"},
    }
    now = {
        "paredown": "0.2",
        "options": {"restarts": 3, "kernel": "float32"},
        "source": {"location": "/b", "kind": "parquet", "examples": 4, "fingerprint": "v2-ff"},
        "model": {"fingerprint": "cd"},
    }
    told = [PareError(str(change)).with_arguments(as_option) for change in changes(before, now)]
    assert told == [
        "the version of paredown was '0.1' and is now '0.2'",
        "--kernel was not given then and is now 'float32'",
        "--option restarts was 2 and is now 3",
        "--k was 500 and is not given now",
        "--pseudo-labels was True and is not given now",
        "the number of examples was 3 and is now 4",
        "the data have changed",
        "the format of the data was 'npy' and is now 'parquet'",
        "the place of the data was '/a' and is now '/b'",
        "the model is a different one",
    ]
    (images,) = changes({"source": "v2-00"}, {"source": "v2-ff"})
    assert str(images) == "the images have changed"


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
