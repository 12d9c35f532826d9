"""The page of a comparison: how alike metrics rank, what they would keep, and the examples they disagree on."""

from __future__ import annotations

import base64
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from paredown.comparison import MetricComparison
from paredown.comparison.comparison_verdicts import two_digits
from paredown.errors import PareError
from paredown.ids import id_array
from paredown.markup import Markup, tag
from paredown.report.charts import SOFT, Chart, curve_style
from paredown.report.exhibits import read_thumbnail
from paredown.report.page import page
from paredown.report.page_parts import card, clipped, heat_table, numbers, scroll, shade, warning_card
from paredown.score_files import provenance_in, score_files
from paredown.scored_data import open_scored_data
from paredown.sources import ImageSource

_PAIRS = 12  # whose overlaps are drawn: the most and the least alike, where there are more


def comparison_page(comparison: MetricComparison, pictures: Mapping[int | str, bytes] | None = None) -> str:
    """The page as one file; `pictures` are thumbnails of disputed examples by their id."""
    sections = {
        "correlations": ("Rank correlations", _correlations(comparison)),
        "overlaps": ("What they keep", _overlaps(comparison)),
        "disputed": ("Disagreements", _disputed(comparison, pictures or {})),
        "costs": ("Costs", _costs(comparison)),
    }
    title = f"{len(comparison.metrics)} metrics compared"
    lead = [tag("p", sentence, class_="lead") for sentence in comparison.conclusions]
    counts = numbers({"metrics": len(comparison.metrics), "examples": f"{comparison.examples:,}"})
    return page(
        title,
        sections,
        lead=[*lead, counts],
        above=[warning_card(comparison.notes)],
        scripts=("elements.js", "drawn_page.js"),
    )


def disputed_pictures(comparison: MetricComparison, tables: Sequence[Path]) -> dict[int | str, bytes]:
    """Thumbnails of the disputed examples, from the images that the first table with a record was made of.

    None where the examples are no images, or the images are gone: the page then shows ids alone.
    """
    ids = [each.id for each in comparison.disputed]
    for table in tables:
        record = provenance_in(score_files(table)[0])
        record = next(iter(record["metrics"].values())) if record.get("metrics") else record
        try:
            source, rows = open_scored_data(record, id_array(np.array(ids)))
        except PareError:
            continue
        if isinstance(source, ImageSource):
            name_of = dict(zip(rows.tolist(), ids, strict=True))
            found = ((name_of[row], read_thumbnail(file, name)) for row, file, name in source.pick(sorted(name_of)))
            return {name: picture for name, picture in found if picture is not None}
    return {}


def _correlations(found: MetricComparison) -> Markup:
    names = [clipped(found.metrics[place], 28) for place in found.order]
    cells = [[_cell(float(found.spearman[a, b])) for b in found.order] for a in found.order]
    table = heat_table("Rank correlations", names, zip(names, cells, strict=True))
    hint = (
        "Spearman's rank correlation of every pair; 1 means the same ranking, 0 nothing in common. Metrics that rank "
        "alike stand together."
    )
    return card("How alike they rank", table, hint=hint, anchor="correlations")


def _cell(rho: float) -> Markup:
    if not math.isfinite(rho):
        return tag("td", "-")
    return tag("td", two_digits(rho), style=shade("kept" if rho > 0 else "dropped", 45 * abs(rho)))


def _overlaps(found: MetricComparison) -> Markup:
    pairs = sorted(found.pairs, key=lambda pair: -float(found.overlaps[:, pair[0], pair[1]].mean()))
    shown = pairs if len(pairs) <= _PAIRS else [*pairs[: _PAIRS // 2], *pairs[-_PAIRS // 2 :]]
    chart = Chart(
        f"Overlap of what two metrics keep ({found.selection['strategy']})",
        "keep fraction",
        "share kept by both, %",
        width=760,
        y_range=(0, 100),
    )
    chance = [(fraction, 100 * fraction, math.nan) for fraction in found.keep_fractions]
    chart.curve("by chance", chance, SOFT, marks=False, dashed=True)
    for number, (a, b) in enumerate(shown):
        points = [
            (fraction, 100 * float(overlap[a, b]), math.nan)
            for fraction, overlap in zip(found.keep_fractions, found.overlaps, strict=True)
        ]
        chart.curve(f"{found.metrics[a]} and {found.metrics[b]}", points, **curve_style(number))
    hint = "Of what one metric keeps, the share that the other keeps too."
    if len(shown) < len(pairs):
        hint += f" The {_PAIRS // 2} most and {_PAIRS // 2} least alike of {len(pairs)} pairs."
    return card("What they would keep", chart.svg(), hint=hint, anchor="overlaps")


def _disputed(found: MetricComparison, pictures: Mapping[int | str, bytes]) -> Markup:
    tiles = [_tile(found, each, pictures.get(each.id)) for each in found.disputed]
    hint = (
        "Where each metric ranks them: 0 is the easiest of all examples, 100 the hardest. Where metrics disagree, look "
        "at the example: a wrong label and a rare but valid one are both hard for some and easy for others."
    )
    return card("Examples they disagree on most", tag("div", *tiles, class_="tiles wide"), hint=hint, anchor="disputed")


def _tile(found: MetricComparison, example: Any, picture: bytes | None) -> Markup:
    name = str(example.id)
    image = Markup("")
    if picture is not None:
        content = f"data:image/webp;base64,{base64.b64encode(picture).decode()}"
        image = tag("img", src=content, alt=clipped(name), width=96, height=96)
    bars = [
        tag("li", clipped(found.metrics[place], 20), tag("b", f"{100 * example.percentiles[place]:.0f}"))
        for place in found.order
    ]
    label = tag("span", clipped(example.label, 30)) if example.label is not None else Markup("")
    return tag(
        "figure",
        image,
        tag("figcaption", tag("code", clipped(name, 40), title=clipped(name, 300)), label, tag("ul", *bars)),
        class_="tile",
    )


def _costs(found: MetricComparison) -> Markup:
    headings = ("metric", "needs", "cost", "networks", "reliability")
    rows = []
    for place in found.order:
        fact = found.facts[place]
        networks = fact.networks if fact.networks is not None else fact.usual_networks
        cells = (
            clipped(fact.name, 40),
            "unknown" if fact.needs is None else ", ".join(fact.needs) or "nothing",
            fact.cost or "unknown: computed elsewhere",
            "" if networks is None else f"{networks:,}",
            "" if fact.reliability is None else f"{fact.reliability:.2f}",
        )
        rows.append(tag("tr", *(tag("td", cell) for cell in cells)))
    head = tag("tr", *(tag("th", heading, scope="col") for heading in headings))
    table = tag("table", tag("thead", head), tag("tbody", *rows), class_="wide")
    hint = (
        "Reliability is how well the scores of one half of the networks predict those of the other, stepped up to all: "
        "a correlation with another metric can hardly exceed it."
    )
    return card("What they cost", scroll(table, "Costs"), hint=hint, anchor="costs")
