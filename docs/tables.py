"""Write the tables in README and docs that come from the registries, between `<!-- NAME:begin -->` and `:end -->`.

`make tables` runs it; a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from paredown.embeddings.encoders import ENCODERS
from paredown.exporting import EXPORTS
from paredown.metrics import METRICS
from paredown.metrics.watched_training import watch_training
from paredown.recorder import RECORDED
from paredown.reproduce import FIGURES
from paredown.sources import DATASETS, FORMATS
from paredown.units import format_size

ROOT = Path(__file__).parent.parent


def table(head: str, rows: Iterable[Iterable[str]]) -> str:
    """Markdown of a table; the head is `a | b | c`."""
    lines = [f"| {head} |", "|---" * (head.count("|") + 1) + "|"]
    lines += ["| " + " | ".join(cell.replace("|", r"\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def metrics() -> str:
    """Metrics of one cost in one row."""
    rows: dict[tuple[str, str], list[str]] = {}
    for name, metric in METRICS.items():
        rows.setdefault(("yes" if "labels" in metric.needs else "no", metric.cost), []).append(f"`{name}`")
    return table("metric | needs labels | cost", ((", ".join(names), *row) for row, names in rows.items()))


def metric_entries() -> str:
    """What each metric is."""
    rows = ((f"`{name}`", m.summary, ", ".join(m.needs) or "nothing", m.reference) for name, m in METRICS.items())
    return table("metric | score | needs | from", rows)


def metric_options() -> str:
    """Options with the metrics that have them."""
    rows: dict[tuple[str, str, str], list[str]] = {}
    for name, metric in METRICS.items():
        for option, help in metric.options_help.items():
            rows.setdefault((f"`{option}`", _default(metric.options[option]), help), []).append(name)
    return table("option | default | what it is | of", ((*row, _owners(names)) for row, names in rows.items()))


def _default(value: object) -> str:
    large = isinstance(value, int) and value >= 2**20
    return "" if value is None else format_size(value) if large else f"`{value}`"


def _owners(names: list[str]) -> str:
    if names == [name for name, metric in METRICS.items() if metric.trains]:
        return "all that train networks"
    if names == [name for name, metric in METRICS.items() if metric.together is watch_training]:
        return "all that are read off one training"
    return ", ".join(f"`{name}`" for name in names)


def recorded() -> str:
    """What a recording gives."""
    rows = ((f"`{name}`", entry.summary, entry.needs, entry.reference) for name, entry in RECORDED.items())
    return table("name | score | needs | from", rows)


def encoders() -> str:
    """Encoders and what they need."""
    rows = (
        (f"`{name}`", entry.summary, ", ".join(filter(None, ["the extra" if entry.extra else "", entry.needs])))
        for name, entry in ENCODERS.items()
    )
    return table("encoder | what it is | needs", rows)


def sources() -> str:
    """Formats and where ids and labels come from."""
    rows = [(entry.summary, entry.ids, entry.labels) for entry in FORMATS.values()]
    names = ", ".join(f"`{name}:FOLDER`" for name in DATASETS)
    return table("source | ids | labels", [*rows, (f"{names} in their usual files", "`train/000123`", "their own")])


def exports() -> str:
    """What `paredown export --to` writes."""
    rows = (
        (f"`{name}`", e.summary, "kept" if e.kept_only else "all", e.reads or "the manifest alone")
        for name, e in EXPORTS.items()
    )
    return table("name | what is written | examples | needs", rows)


def figures() -> str:
    """Figures and where they are in the paper."""
    return table("name | in the paper | shows", ((f"`{name}`", *figure) for name, figure in FIGURES.items()))


TABLES: dict[str, dict[str, Callable[[], str]]] = {
    "README.md": {"metrics": metrics, "sources": sources},
    "docs/command-line.md": {"exports": exports},
    "docs/encoders.md": {"encoders": encoders},
    "docs/figures.md": {"figures": figures},
    "docs/metrics.md": {"metrics": metric_entries, "metric-options": metric_options},
    "docs/recording.md": {"recorded": recorded},
}


def with_tables(page: str) -> str:
    """The text of a page with its tables made anew."""
    return filled(page, {name: make() for name, make in TABLES[page].items()})


def filled(page: str, parts: Mapping[str, str]) -> str:
    """The text of a page with other text between the markers of some parts."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for name, part in parts.items():
        begin, end = f"<!-- {name}:begin -->\n", f"\n<!-- {name}:end -->"
        pattern = re.escape(begin) + r".*?" + re.escape(end)
        if len(re.findall(pattern, text, re.S)) != 1:
            raise ValueError(f"{page} must have one place for {name!r}: {begin!r} ... {end!r}")
        made = f"{begin}{part}{end}"
        text = re.sub(pattern, lambda _, made=made: made, text, flags=re.S)
    return text


if __name__ == "__main__":
    for page in TABLES:
        (ROOT / page).write_text(with_tables(page), encoding="utf-8")
