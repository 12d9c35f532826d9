"""What every figure is made of: its size, the table of its data, and the claims it puts to the test."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.laws.calibration import Strength, Weakness
from paredown.laws.claim_rules import ClaimVerdict
from paredown.standard_errors import standard_error


@dataclass(frozen=True)
class Size:
    """How much work goes into a figure."""

    n_features: int  # N of the simulated perceptrons
    draws: int  # independent draws behind every simulated dot
    dots: int  # simulated dots along a curve
    points: int  # of a theory curve, and of each side of a heat map
    summary: str


SIZES = {
    "tiny": Size(n_features=50, draws=3, dots=2, points=12, summary="does it run?"),
    "cpu": Size(n_features=200, draws=20, dots=6, points=60, summary="for two cores"),
    # As `cpu` where a figure has no larger size.
    "overnight": Size(n_features=200, draws=20, dots=6, points=60, summary="more of the same"),
    "paper": Size(n_features=200, draws=200, dots=10, points=120, summary="as in the paper, its N and draws"),
}


class Figure(NamedTuple):
    """An entry of `FIGURES`."""

    paper: str  # where it is in the paper: "Fig. 1A", "appendix" or "not in it"
    shows: str


EXACT = "exact solution, without noise"


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, the verdict, and one sentence with the numbers that decided it."""

    claim: str
    verdict: ClaimVerdict
    evidence: str
    values: Mapping[str, Any] = field(default_factory=dict, compare=False)  # numbers of the sentence; not in records
    rule: str = ""  # that judged it, with its margin
    numbers: tuple[Mapping[str, str], ...] = ()  # a row of text for every point that was judged
    unit: str = ""  # of the numbers and of the strength
    over: str = "seeds"  # what was repeated: seeds, parts of the examples, classes, clusterings
    strength: Strength | None = None  # what the rule could see in these data
    qualifier: str = ""  # what a verdict needs beside it: "in the limit", "refined"
    counted_in: str = ""  # the figure that has the same claim on the same runs, if there is one: it counts once
    weakness: Weakness | None = None  # of the rule, if it turned what the numbers say into "cannot tell"

    @classmethod
    def exact(cls, claim: str, held: bool, evidence: str, **values: Any) -> Claim:
        """A claim on exact solutions: without noise there are no error rates."""
        return replace(cls.judged(claim, held, evidence, **values), rule=EXACT)

    @classmethod
    def judged(cls, claim: str, held: Any, evidence: str, **values: Any) -> Claim:
        """A claim whose verdict is a truth value; None: cannot tell. Figures use `exact` or a rule."""
        if held is None:
            return cls(claim, ClaimVerdict.CANNOT_TELL, evidence, values)
        return cls(claim, ClaimVerdict.HELD if held else ClaimVerdict.CONTRADICTED, evidence, values)

    @classmethod
    def not_testable(cls, claim: str, evidence: str, **values: Any) -> Claim:
        """A claim that these data, whatever their noise, say nothing about."""
        return cls(claim, ClaimVerdict.NOT_TESTABLE, evidence, values)

    @classmethod
    def from_record(cls, record: Mapping[str, Any]) -> Claim:
        """A claim as `record` wrote it; records of earlier versions only say whether it held."""
        if "verdict" not in record:
            return cls.judged(record["claim"], record["held"], record["evidence"])
        more = {name: record[name] for name in ("rule", "unit", "over", "qualifier", "counted_in") if name in record}
        if "numbers" in record:
            more["numbers"] = tuple(record["numbers"])
        if "strength" in record:
            more["strength"] = Strength.from_record(record["strength"])
        if "weakness" in record:
            more["weakness"] = Weakness(record["weakness"])
        return cls(record["claim"], ClaimVerdict(record["verdict"]), record["evidence"], **more)

    @property
    def told(self) -> str:
        """The verdict with what it needs beside it."""
        return self.verdict.value + (f", {self.qualifier}" if self.qualifier else "")

    @property
    def held(self) -> bool:
        """Whether the claim held."""
        return self.verdict is ClaimVerdict.HELD

    def record(self) -> dict[str, Any]:
        """Plain values for JSON."""
        record = {"claim": self.claim, "held": self.held, "verdict": self.verdict.value, "evidence": self.evidence}
        more = {"rule": self.rule, "unit": self.unit, "numbers": [dict(row) for row in self.numbers]}
        more |= {"over": "" if self.over == "seeds" else self.over}
        more |= {"qualifier": self.qualifier, "counted_in": self.counted_in}
        more |= {"weakness": "" if self.weakness is None else self.weakness.value}
        record |= {name: value for name, value in more.items() if value}
        return record if self.strength is None else {**record, "strength": self.strength.record()}


class FigureTable:
    """A figure's data in tidy columns: one row per point, `kind` says what it is a point of.

    Cells that a kind does not use are empty in the file and NaN (or "") in memory.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]] = ()) -> None:
        self.rows: list[dict[str, Any]] = [dict(row) for row in rows]

    def add_seeds(
        self, kind: str, *, seeds: ArrayLike | None = None, columns: Mapping[str, ArrayLike], **where: Any
    ) -> None:
        """Append one row per seed for columns that have a number for each; the rows that verdicts are made from."""
        number = len(np.asarray(next(iter(columns.values()))))
        self.add(kind, **where, seed=np.arange(number) if seeds is None else seeds, **columns)

    def add(self, kind: str, **columns: Any) -> None:
        """Append one row per element of the columns, which broadcast against each other."""
        names, arrays = list(columns), np.broadcast_arrays(*(np.asarray(c) for c in columns.values()))
        for values in zip(*(array.ravel().tolist() for array in arrays), strict=True):
            self.rows.append({"kind": kind, **dict(zip(names, values, strict=True))})

    def where(self, **wanted: Any) -> FigureTable:
        """The rows whose cells equal the wanted values."""
        return FigureTable(row for row in self.rows if all(row.get(name) == value for name, value in wanted.items()))

    def __getitem__(self, name: str) -> NDArray[Any]:
        text = any(isinstance(row.get(name), str) for row in self.rows)
        return np.array([row.get(name, "" if text else np.nan) for row in self.rows])

    def __len__(self) -> int:
        return len(self.rows)

    def columns(self, *names: str) -> list[NDArray[Any]]:
        """Several columns, such as what `plot` takes."""
        return [self[name] for name in names]

    def values(self, name: str) -> list[Any]:
        """The different values of a column, in order of appearance."""
        return list(dict.fromkeys(row[name] for row in self.rows if name in row))

    def grid(self, name: str, *by: str) -> NDArray[np.float64]:
        """A column as an array whose axes are the different values of the columns `by`, in order of appearance."""
        return self[name].reshape([len(self.values(axis)) for axis in by])

    def write(self, path: Path) -> None:
        """Write as CSV; floats keep every digit."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        with path.open("w", newline="", encoding="utf-8") as stream:
            writer = csv.DictWriter(stream, names, restval="")
            writer.writeheader()
            writer.writerows(self.rows)


def pick(record: Any, *names: str) -> dict[str, Any]:
    """Some attributes of a result as columns of the same names."""
    return {name: getattr(record, name) for name in names}


def error_column(name: str) -> str:
    """Where a table has the standard error of a column."""
    return "stderr" if name in ("accuracy", "test_error") else f"{name}_stderr"


def means(**samples: ArrayLike) -> dict[str, Any]:
    """Columns with the mean of each sample, one number per seed, and with its standard error."""
    columns = {}
    for name, values in samples.items():
        columns |= {name: np.asarray(values).mean(), error_column(name): standard_error(values)}
    return columns


def in_points(row: Mapping[str, Any], name: str) -> str:
    """A difference of shares in percentage points, with its standard error."""
    return f"{100 * row[name]:+.2f} ± {100 * row[error_column(name)]:.2f}"
