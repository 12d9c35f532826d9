"""Putting two recordings of one member together: other examples, or epochs that follow."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from paredown.errors import PareError
from paredown.recorder.batch_checks import name_examples
from paredown.recorder.history import MAX_OBSERVATIONS, Layout, Table
from paredown.records import changes, digest


def check_same(here: dict[str, Any], there: dict[str, Any], what: str) -> None:
    """Raise if two recordings have different settings, naming the first that differs."""
    for name, mine, theirs in changes(_named(here), _named(there), names=here):
        shown = "differ" if name == "ids" else f"is {mine!r} here and {theirs!r} there"
        raise PareError(f"{what}: {name} {shown}; both must be made with the same settings.")


def _named(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings with arrays named by their content."""
    return {
        name: digest(value.tolist()) if isinstance(value, np.ndarray) else value for name, value in settings.items()
    }


def join_labels(a: NDArray[np.int32], b: NDArray[np.int32], ids: NDArray[Any] | None) -> NDArray[np.int32]:
    """The labels known to either; -1 is unknown."""
    other = np.flatnonzero((a != b) & (a >= 0) & (b >= 0))
    if len(other):
        first = other[0]
        raise PareError(
            f"cannot merge: {len(other)} examples have another label in each recorder, "
            f"{name_examples(other, ids=None if ids is None else ids[other])}: {a[first]} and {b[first]} for the first."
        )
    return np.maximum(a, b)


def join_tables(a: Table, b: Table, layout: Layout, *, member: int, ids: NDArray[Any] | None) -> Table:
    """The records of both. An example seen by both needs all of one's epochs before all of the other's."""
    shared = np.flatnonzero((a["seen"] > 0) & (b["seen"] > 0))
    x, y = a[shared], b[shared]
    follows = x["last_epoch"] < y["first_epoch"]
    clash = np.flatnonzero(~(follows | (y["last_epoch"] < x["first_epoch"])))
    if len(clash):
        one, two, where = x[clash[0]], y[clash[0]], shared[clash]
        raise PareError(
            f"cannot merge: both recorders saw {name_examples(where, ids=None if ids is None else ids[where])} as "
            f"member {member} in epochs that overlap ({one['first_epoch']} to {one['last_epoch']} and "
            f"{two['first_epoch']} to {two['last_epoch']} for the first). Give other models another member=; merge "
            "workers that share out the examples anew every epoch at the end of each epoch."
        )
    joined = np.where(a["seen"] > 0, a, b)
    joined[shared] = layout.join(np.where(follows, x, y), np.where(follows, y, x))
    if joined["seen"].max(initial=0) > MAX_OBSERVATIONS:
        raise PareError(f"cannot merge: an example would have more than {MAX_OBSERVATIONS} observations.")
    return joined
