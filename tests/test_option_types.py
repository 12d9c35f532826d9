"""Settings are checked against their annotations, and read from text by them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

from paredown.errors import PareError
from paredown.option_types import check_fields, check_value, parse_value


@dataclass(frozen=True)
class Example:
    name: str = "x"
    steps: int | None = None
    rate: float = 1.0
    kind: Literal["sgd", "adam"] = "sgd"
    seeds: tuple[int, ...] = (0,)
    shares: tuple[float, ...] = ()
    words: tuple[str, ...] = ()
    keep: bool = False
    changes: Mapping[str, Any] = field(default_factory=dict)
    place: str | Path | None = None
    anything: Any = None


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"steps": np.int64(3), "rate": np.float32(0.5), "keep": True},
        {"rate": 3, "kind": "adam", "seeds": [1, 2], "shares": (1, 0.5), "words": ("a",)},
        {"changes": {"width": 3}, "place": Path("x"), "anything": object()},
    ],
)
def test_values_of_the_right_type_pass(given: dict[str, Any]) -> None:
    check_fields(Example(**given), "[x]")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"name": 3}, "[x] name is text, got 3."),
        ({"steps": "5"}, "[x] steps is a whole number, got '5'."),
        ({"steps": 5.0}, "[x] steps is a whole number, got 5.0."),
        ({"steps": True}, "[x] steps is a whole number, got True."),
        ({"rate": "fast"}, "[x] rate is a number, got 'fast'."),
        ({"rate": False}, "[x] rate is a number, got False."),
        ({"rate": None}, "[x] rate is a number, got None."),
        ({"kind": "sdg"}, "[x] kind is one of 'sgd', 'adam', got 'sdg'."),
        ({"seeds": 0}, "[x] seeds is a list of whole numbers, got 0."),
        ({"seeds": (0, "1")}, "[x] seeds is a list of whole numbers, got [0, '1']."),
        ({"shares": ("1",)}, "[x] shares is a list of numbers, got ['1']."),
        ({"words": (1,)}, "[x] words is a list of texts, got [1]."),
        ({"keep": 1}, "[x] keep is true or false, got 1."),
        ({"changes": 4}, "[x] changes is a table of settings, got 4."),
        ({"place": 4}, "[x] place is text or a Path, got 4."),
    ],
)
def test_the_message_names_the_setting_the_type_and_the_value(given: dict[str, Any], message: str) -> None:
    with pytest.raises(PareError) as caught:
        check_fields(Example(**given), "[x]")
    assert str(caught.value) == message


@pytest.mark.parametrize(
    ("text", "wanted", "value"),
    [
        ("3", int, 3),
        ("3", float, 3.0),
        ("3", str, "3"),
        ("3", int | None, 3),
        ("None", int | None, None),
        ("none", str, "none"),
        ("1", bool, True),
        ("No", bool, False),
        ("0.5", int | float, 0.5),
        ("place", Path | str, "place"),
    ],
)
def test_text_becomes_a_value_of_the_type(text: str, wanted: Any, value: Any) -> None:
    parsed = parse_value("x", text, wanted)
    assert parsed == value
    assert type(parsed) is type(value)
    check_value("x", parsed, wanted)


@pytest.mark.parametrize(
    ("text", "wanted", "message"),
    [
        ("many", int, "x is a whole number, got 'many'."),
        ("0.5", int | None, "x is a whole number, got '0.5'."),
        ("none", float, "x is a number, got 'none'."),
        ("maybe", bool, "x is true or false, got 'maybe'."),
        ("1,2", tuple[int, ...], "x is a list of whole numbers, got '1,2'."),
    ],
)
def test_text_that_is_no_value_of_the_type(text: str, wanted: Any, message: str) -> None:
    with pytest.raises(PareError) as caught:
        parse_value("x", text, wanted)
    assert str(caught.value) == message
