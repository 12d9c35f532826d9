"""Passes over a table: every row once, in blocks, for whoever has to look at it.

A pass is made here, or by an engine in parts of some row groups each. Looks at the parts are merged, so that nothing of
the size of the table is ever sent or held.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from paredown.class_codes import ClassCodes
from paredown.engines import Engine, fold
from paredown.errors import PareError
from paredown.places import absolute
from paredown.progress import Track, silent
from paredown.score_table import Block, RowGroup, ScoreTable


@dataclass(frozen=True)
class Limits:
    """What bounds the memory of a streamed selection."""

    rows: int = 131_072  # of a block
    candidates: int = 2_000_000  # collected at once: some 100 MiB with what is needed to cut them
    cells: int = 2**21  # of a table of counts, over all classes
    part: int = 2**21  # rows that an engine gives to one worker, at least; and of one shard of a manifest


class Rows:
    """A block of rows with their scores and classes; ids and words are made when asked for."""

    def __init__(self, table: ScoreTable, block: Block, codes: NDArray[np.intp]) -> None:
        self.table, self.block, self.codes = table, block, codes
        self.scores = table.scores(block)
        self.words: dict[Any, NDArray[Any]] = {}  # made already, by the order that they are of

    @property
    def numbers(self) -> NDArray[np.int64]:
        """Where in the table the rows are."""
        return np.arange(self.block.first, self.block.first + len(self.block))

    def ids(self, chosen: Chosen) -> NDArray[Any]:
        """The ids of some rows; looked up in the table if the pass did not read ids."""
        if "id" in self.block.columns.schema.names:
            return self.table.ids(self.block, None if isinstance(chosen, slice) else chosen)
        numbers = self.numbers[chosen]
        return self.table.ids_at(numbers) if len(numbers) else numbers

    def check_finite(self) -> None:
        if not (np.isfinite(self.scores.min()) and np.isfinite(self.scores.max())):
            bad = np.flatnonzero(~np.isfinite(self.scores))
            raise PareError(f"{self.block.where(bad)}: scores must be finite; fix or drop such rows.")


# Some rows of a block, and who finds them, with the number of the group that each is in.
Chosen = slice | NDArray[np.intp]
Among = Callable[[Rows], tuple[Chosen, NDArray[np.intp]]]
ALL = slice(None)


def by_class(rows: Rows) -> tuple[Chosen, NDArray[np.intp]]:
    """All rows, in their classes."""
    return ALL, rows.codes


class TableLook(Protocol):
    """What a pass finds out: small, whatever the number of rows."""

    def add(self, rows: Rows) -> None:
        """See some more rows."""
        ...

    def merge(self, other: Any) -> None:
        """Take over what a look of the same kind found in the rows that follow."""
        ...


@dataclass(frozen=True)
class Scan:
    """A table with its classes, and how passes over it are made."""

    table: ScoreTable
    codes: ClassCodes
    limits: Limits
    track: Track = silent
    engine: Engine | None = None  # that makes the passes, if not this process

    def rows(self, label: str, *, ids: bool = False, also: tuple[str, ...] = ()) -> Iterator[Rows]:
        """One pass, with scores and classes, ids if asked for, and further columns."""
        wanted = [self.table.column, *([self.codes.column] if self.codes.column else []), *(["id"] if ids else [])]
        wanted += [name for name in also if name not in wanted]
        total = sum(-(-group.rows // self.limits.rows) for group in self.table.groups)
        for block in self.track(self.table.blocks(wanted, self.limits.rows), label, total=total):
            if len(block):
                yield Rows(self.table, block, self.codes(block))

    def look(self, label: str, looks: Sequence[TableLook], *, ids: bool = False) -> None:
        """One pass, of which all that is found out is in the looks."""
        if self.engine is None:
            for rows in self.rows(label, ids=ids):
                for look in looks:
                    look.add(rows)
            return
        common = {"scan": self.apart(), "looks": looks, "ids": ids}
        for _ in self.track([label], label, total=1):
            found = fold(self.engine, f"{__name__}:look_at", f"{__name__}:merged", self.parts(), common=common)
            merged(looks, found)

    def parts(self) -> list[dict[str, Any]]:
        """The table in parts that are looked at one by one."""
        groups: list[list[RowGroup]] = [[]]
        rows = 0
        for group in self.table.groups:
            if rows >= self.limits.part:
                groups.append([])
                rows = 0
            groups[-1].append(group._replace(file=absolute(group.file)))  # workers may run elsewhere
            rows += group.rows
        return [
            {"name": f"rows from {some[0].first:,} on", "number": number, "groups": tuple(some)}
            for number, some in enumerate(groups)
        ]

    def apart(self) -> Scan:
        """What a worker needs of this."""
        return replace(self, table=replace(self.table, groups=()), track=silent, engine=None)

    def of(self, part: dict[str, Any]) -> Scan:
        """Passes over a part only."""
        return replace(self, table=replace(self.table, groups=part["groups"]))


def look_at(common: dict[str, Any], part: dict[str, Any]) -> Sequence[TableLook]:
    """What a worker does: look at a part of the table."""
    scan, looks = deepcopy((common["scan"], common["looks"]))
    scan.of(part).look("", looks, ids=common["ids"])
    return looks


def merged(looks: Sequence[TableLook], others: Sequence[TableLook]) -> Sequence[TableLook]:
    """Looks at some rows and those at the rows that follow."""
    for look, other in zip(looks, others, strict=True):
        look.merge(other)
    return looks


class Tally:
    """A look that counts the rows of each group."""

    def __init__(self, among: Among, groups: int) -> None:
        self.among, self.counts = among, np.zeros(groups, np.int64)

    def add(self, rows: Rows) -> None:
        self.counts += np.bincount(self.among(rows)[1], minlength=len(self.counts))

    def merge(self, other: Tally) -> None:
        self.counts += other.counts
