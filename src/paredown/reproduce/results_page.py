"""All figures of a folder on one page: `results.md`, with the pictures, the claims, the verdicts and their numbers.

`docs/results.py` makes the page of results in the docs from the same parts.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paredown.files import write_whole
from paredown.laws.claim_rules import ClaimVerdict
from paredown.records import read_record
from paredown.reproduce.base import Claim, Figure
from paredown.reproduce.data_folders import title_of
from paredown.reproduce.judging import strength_sentence

SUMMARY = "results.md"
_SHORT = 8  # rows of numbers that are shown at once; longer tables fold
_WORDS = 50  # of evidence beside the verdict; the sentences after that fold


@dataclass(frozen=True)
class MadeFigure:
    """A figure in a folder, as its record describes it."""

    name: str
    about: Figure
    claims: tuple[Claim, ...]
    settings: Mapping[str, Any]
    cpu_seconds: float

    @property
    def data(self) -> str:
        """The data sets it was made from."""
        used = [value for key, value in self.settings.items() if key.startswith("data (") and value != "none"]
        return "; ".join(map(title_of, dict.fromkeys(used))) or "theory and simulation"

    @property
    def title(self) -> str:
        """Where it is in the paper and what it shows, as a sentence."""
        place = {"not in it": "Beyond the paper", "appendix": "Appendix"}.get(self.about.paper, self.about.paper)
        return f"{place}: {self.about.shows}."


def read_figures(out: Path, figures: Mapping[str, Figure]) -> dict[str, MadeFigure]:
    """The figures that have been made in a folder, in the order of the mapping."""
    records = {name: record for name in figures if (record := read_record(out / f"{name}.json")) is not None}
    return {
        name: MadeFigure(
            name,
            figures[name],
            tuple(Claim.from_record(claim) for claim in record["claims"]),
            record["settings"],
            float(record["cpu_seconds"]),
        )
        for name, record in records.items()
    }


def write_summary(out: Path, figures: Mapping[str, Figure]) -> Path:
    """Write `results.md` from the records in a folder; the figures made so far are in it."""
    path = out / SUMMARY
    with write_whole(path) as part:
        part.write_text(summary(out, figures), encoding="utf-8")
    return path


def summary(out: Path, figures: Mapping[str, Figure]) -> str:
    """What `results.md` says."""
    made = read_figures(out, figures)
    sections = [section(figure, f"{name}.png") for name, figure in made.items()]
    return "\n\n".join(["# Results", count_verdicts(made), table_of_claims(made), *sections]) + "\n"


def count_verdicts(made: Mapping[str, MadeFigure]) -> str:
    """How many claims got which verdict; a claim that another figure here judges on the same runs counts there."""
    claims = [claim for figure in made.values() for claim in figure.claims]
    counted = [claim for claim in claims if claim.counted_in not in made]
    count = Counter(claim.verdict for claim in counted)
    told = ", ".join(f"{count[verdict]} {verdict.value}" for verdict in ClaimVerdict)
    twice = len(claims) - len(counted)
    are = "is" if twice == 1 else "are"
    beside = f"; {twice} more {are} on runs of another figure and counted there" if twice else ""
    return f"{len(made)} figures and tables. {len(counted)} claims: {told}{beside}."


def table_of_claims(made: Mapping[str, MadeFigure]) -> str:
    """Every claim with its verdict."""
    lines = ["| figure | data | claim | verdict |", "|---|---|---|---|"]
    for name, figure in made.items():
        first = [f"[{name}](#{name})", figure.data]
        for claim in figure.claims:
            lines.append(f"| {' | '.join([*first, _cell(claim.claim), _verdict(claim, made)])} |")
            first = ["", ""]
    return "\n".join(lines)


def section(figure: MadeFigure, picture: str) -> str:
    """A figure with its picture, and every claim with its verdict, numbers and rule."""
    parts = [f"## {figure.name}", figure.title, f"![{figure.about.shows}]({picture})"]
    parts += [part for claim in figure.claims for part in _claim_parts(claim)]
    parts.append(f"Size `{figure.settings['size']}`, {figure.data}; {figure.cpu_seconds:,.0f} CPU seconds.")
    return "\n\n".join(parts)


def _claim_parts(claim: Claim) -> list[str]:
    """The verdict with what decided it, the table of the points, and the rule."""
    shown, rest = _split(capitalised(claim.evidence), least=0 if claim.numbers else 1)
    parts = [f"**{capitalised(claim.told)}**: {claim.claim} {shown}".rstrip()]
    if rest:
        parts.append(_folded("more", rest))
    if claim.numbers:
        table = _table(claim.numbers, claim.unit)
        long = len(claim.numbers) > _SHORT
        parts.append(_folded(f"{len(claim.numbers)} points", table) if long else table)
    if claim.rule:
        strength = "" if claim.strength is None else f" {strength_sentence(claim.strength, claim.unit, claim.over)}."
        parts.append(f"Rule: {claim.rule}.{strength}")
    return parts


def _split(evidence: str, least: int) -> tuple[str, str]:
    """As many of the first sentences as are short together, `least` of them at any length, and the rest."""
    sentences = re.split(r"(?<=[.!?]) (?=[A-Z])", evidence)
    short = sum(len(" ".join(sentences[:n]).split()) <= _WORDS for n in range(1, len(sentences) + 1))
    shown = max(least, short)
    return " ".join(sentences[:shown]), " ".join(sentences[shown:])


def _folded(label: str, content: str) -> str:
    return f"<details><summary>{label}</summary>\n\n{content}\n\n</details>"


def _table(rows: Iterable[Mapping[str, str]], unit: str) -> str:
    rows = list(rows)
    names = list(rows[0])
    head = [f"{name}, {unit}" if name == "value" and unit else name for name in names]
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(names)}"]
    return "\n".join(lines + [f"| {' | '.join(_cell(row[name]) for name in names)} |" for row in rows])


def _verdict(claim: Claim, made: Mapping[str, MadeFigure]) -> str:
    told = claim.told if claim.held else f"**{claim.told}**"
    return f"{told} (as in [{claim.counted_in}](#{claim.counted_in}))" if claim.counted_in in made else told


def capitalised(text: str) -> str:
    """With a capital letter first, and the others as they are."""
    return text[:1].upper() + text[1:]


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
