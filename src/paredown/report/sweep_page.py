"""The page of a sweep: errors against kept size, the frontier and its laws, differences from random, and the advice."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from paredown import laws
from paredown.errors import PareError
from paredown.markup import Markup, join, tag
from paredown.report.charts import INK, SOFT, Chart, Point, curve_style
from paredown.report.page import page
from paredown.report.page_parts import card, clipped, facts, heat_table, listed, numbers, shade
from paredown.sweeps import advice, compare_with_random, read_sweep
from paredown.sweeps.pruning_verdicts import Effect, group_by_way
from paredown.sweeps.summary import ComparisonWithRandom, curves_by_way

_FRONTIER = "#d7263d"


class SweepPage(NamedTuple):
    """A sweep as it is on disk, finished or not."""

    name: str
    table: pa.Table
    planned: int | None  # runs of the whole grid; None where the grid is not on record

    @classmethod
    def of(cls, folder: Path) -> SweepPage:
        """What a folder holds by now."""
        found = read_sweep(folder)
        return cls(folder.resolve().name, found.table, found.planned)

    def html(self) -> str:
        """The page as one file."""
        sections = {
            "advice": ("Advice", self._advice()),
            "errors": ("Errors", self._errors()),
            "differences": ("Against random", self._differences()),
            "frontier": ("Frontier and laws", self._frontier()),
            "runs": ("Runs", self._runs()),
        }
        title = f"What the sweep {clipped(self.name, 50)} found"
        lead = [self._lead(), self._numbers()]
        return page(title, sections, lead=lead, scripts=("elements.js", "drawn_page.js"))

    def _rows(self) -> list[dict[str, Any]]:
        return [row for row in self.table.to_pylist() if row["status"] == "done"]

    def _lead(self) -> Markup:
        rows = self._rows()
        sizes = sorted({row["initial_size"] for row in rows})
        if not sizes:
            return tag("p", "No student has finished yet.", class_="lead")
        seeds = len({row["seed"] for row in rows})
        text = (
            f"{len(rows):,} students were trained on subsets of {sizes[0]:,} to {sizes[-1]:,} examples with {seeds} "
            f"seed{'s' * (seeds > 1)}, each beside a random subset of the same size."
        )
        missing = 0 if self.planned is None else self.planned - self.table.num_rows
        if missing > 0:
            text += f" The sweep is not complete: {missing:,} of {self.planned:,} runs are missing from this page."
        return tag("p", text, class_="lead")

    def _numbers(self) -> Markup:
        rows = self._rows()
        failed = self.table.num_rows - len(rows)
        shown: dict[str, object] = {"students": f"{len(rows):,}"}
        whole = curves_by_way(self.table).get("random", {}).get(1.0, [])
        if whole:
            kept, error, _ = max(whole)
            shown[f"test error of all {kept:,}"] = f"{100 * error:.2f} %"
        if failed:
            shown["failed"] = f"{failed:,}"
        return numbers(shown)

    def _advice(self) -> Markup:
        found = advice(self.table)
        if not found:
            return Markup("")
        return card("What to do", *(tag("p", str(each), class_="lead") for each in found), anchor="advice")

    def _errors(self) -> Markup:
        ways = curves_by_way(self.table)
        random = ways.pop("random", {})
        chance = [_percent(point) for f, points in random.items() if f < 1 for point in points]
        whole = sorted(_percent(point) for point in random.get(1.0, []))
        charts = []
        for way, curves in ways.items():
            chart = Chart(way, "examples kept", "test error, %", log_x=True, log_y=True)
            chart.curve("random subsets", chance, SOFT, line=False)
            chart.curve("unpruned", whole, INK, line=False)
            if whole:
                chart.level(whole[-1][1], f"error of all {whole[-1][0]:,.0f}")
            for number, (fraction, points) in enumerate(sorted(curves.items())):
                chart.curve(f"keep {100 * fraction:g} %", [_percent(point) for point in points], **curve_style(number))
            charts.append(chart.svg())
        if not charts:
            return Markup("")
        hint = (
            "One curve for every fraction kept, over initial sets of growing size. Bars are one standard error over "
            "seeds. A coloured point below the grey ones of the same size did better than random."
        )
        return card("Error against the number kept", tag("div", *charts, class_="panels"), hint=hint, anchor="errors")

    def _differences(self) -> Markup:
        by_way = group_by_way(compare_with_random(self.table))
        if not by_way:
            return Markup("")
        hint = (
            "Test error of the pruned set minus that of a random set of the same size, in points, with its standard "
            "error. Blue did better than random, orange worse; bold is significant (p at most 0.05 by Student's t, "
            "corrected for the number of comparisons)."
        )
        tables = [join(tag("h3", clipped(way, 100)), _difference_table(rows)) for way, rows in by_way.items()]
        return card("Pruned minus random", *tables, hint=hint, anchor="differences")

    def _frontier(self) -> Markup:
        by_way = group_by_way(self._rows())
        random = by_way.pop("random", [])
        charts, sentences = [], []
        for way, pruned in by_way.items():
            whole = [row for row in random if row["keep_fraction"] == 1]
            drawn = _frontier_chart(way, [*pruned, *whole], random)
            if drawn is not None:
                charts.append(drawn[0])
                sentences.append(tag("p", tag("strong", clipped(way, 100)), ": ", drawn[1]))
        if not charts:
            return Markup("")
        hint = (
            "The lowest error for each number of kept examples, over all fractions and initial sizes, and the law that "
            "fits it best with its 95 % band, beside random subsets."
        )
        return card("Frontier and laws", tag("div", *charts, class_="panels"), *sentences, hint=hint, anchor="frontier")

    def _runs(self) -> Markup:
        values = {}
        for name in ("initial_size", "keep_fraction", "metric", "strategy", "balance", "matched_iterations", "seed"):
            found = sorted({row[name] for row in self.table.to_pylist() if row[name] is not None})
            values[name.replace("_", " ")] = clipped(
                ", ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in found), 400
            )
        failed = [row for row in self.table.to_pylist() if row["status"] == "failed"]
        reasons = sorted({str(row["reason"]) for row in failed})
        told = listed(clipped(reason, 300) for reason in reasons[:10])
        return card("The runs", facts(values), told, anchor="runs")


def _frontier_chart(way: str, pruned: list[dict[str, Any]], random: list[dict[str, Any]]) -> tuple[Markup, str] | None:
    """The frontier of a way of pruning with the law that fits it best; None with too few sizes."""
    seeds = len({row["seed"] for row in pruned})
    usable = [row for row in pruned if row["test_error"] > 0]
    try:
        found = laws.pareto_frontier(
            [row["kept"] for row in usable],
            [row["keep_fraction"] for row in usable],
            [row["test_error"] for row in usable],
            seed=[row["seed"] for row in usable] if seeds > 1 else None,
        )
    except PareError:
        return None
    chart = Chart(f"Frontier of {way}", "examples kept", "test error, %", log_x=True, log_y=True)
    chance = curves_by_way(pa.Table.from_pylist(random)).get("random", {}) if random else {}
    pooled = [_percent(point) for points in chance.values() for point in points]
    chart.curve("random subsets", pooled, SOFT, line=False)
    error = found.curve.stderr if found.curve.stderr is not None else np.full(len(found), math.nan)
    points = [
        (float(a), 100 * float(b), 100 * float(c)) for a, b, c in zip(found.kept_size, found.error, error, strict=True)
    ]
    chart.curve("frontier", points, _FRONTIER, line=False)
    try:
        compared = laws.compare(found.curve)
    except PareError as why:
        return chart.svg(), f"no law was fitted: {why}"
    best = compared.contenders[compared.best].fit
    sizes = np.geomspace(float(found.kept_size.min()), float(found.kept_size.max()), 40)
    low, high = best.predict_interval(sizes)
    fitted = best.predict(sizes)
    chart.band(sizes.tolist(), (100 * low).tolist(), (100 * high).tolist(), _FRONTIER)
    line: list[Point] = [(float(a), 100 * float(b), math.nan) for a, b in zip(sizes, fitted, strict=True)]
    chart.curve(best.law, line, _FRONTIER, marks=False, dashed=True)
    return chart.svg(), f"{compared}"


def _difference_table(rows: list[ComparisonWithRandom]) -> Markup:
    sizes = sorted({row.initial_size for row in rows})
    at: Mapping[tuple[float, int], ComparisonWithRandom] = {(row.keep_fraction, row.initial_size): row for row in rows}
    largest = max((abs(row.difference) for row in rows), default=0.0) or 1.0
    body = [
        (f"{100 * fraction:g} %", [_difference_cell(at.get((fraction, size)), largest) for size in sizes])
        for fraction in sorted({row.keep_fraction for row in rows})
    ]
    columns, corner = [f"{size:,}" for size in sizes], "keep / initial size"
    return heat_table("Pruned minus random", columns, body, corner=corner, class_="heat differences")


def _difference_cell(row: ComparisonWithRandom | None, largest: float) -> Markup:
    if row is None:
        return tag("td", "")
    style = shade("kept" if row.difference < 0 else "dropped", 40 * math.sqrt(abs(row.difference) / largest))
    noise = "" if math.isnan(row.difference_stderr) else f" ± {100 * row.difference_stderr:.2f}"
    text = f"{100 * row.difference:+.2f}{noise}"
    return tag("td", text if row.effect is Effect.UNDECIDED else tag("strong", text), style=style)


def _percent(point: tuple[float, float, float]) -> Point:
    return point[0], 100 * point[1], 100 * point[2]
