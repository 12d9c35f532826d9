"""All figures of a folder on one page: `results.md`, with the pictures, the claims, the verdicts and their numbers."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from paredown.files import write_whole
from paredown.laws.claim_rules import ClaimVerdict
from paredown.records import read_record
from paredown.reproduce.base import Claim
from paredown.reproduce.judging import strength_sentence

SUMMARY = "results.md"
_SHORT = 12  # rows of numbers that are shown at once; longer tables fold


def write_summary(out: Path, names: Sequence[str]) -> Path:
    """Write `results.md` from the records in a folder, in the order of the names; the figures made so far are in it."""
    path = out / SUMMARY
    with write_whole(path) as part:
        part.write_text(summary(out, names), encoding="utf-8")
    return path


def summary(out: Path, names: Sequence[str]) -> str:
    """What `results.md` says."""
    records = [record for name in names if (record := read_record(out / f"{name}.json")) is not None]
    judged = {record["figure"]: [Claim.from_record(claim) for claim in record["claims"]] for record in records}
    lines = [
        "# Results",
        "",
        f"{len(records)} figures and tables. {count_verdicts(judged)}",
        "",
        "| figure | data | claim | verdict |",
        "|---|---|---|---|",
    ]
    for record in records:
        for number, claim in enumerate(judged[record["figure"]]):
            first = number == 0
            name = f"[{record['figure']}](#{record['figure']})" if first else ""
            lines.append(
                f"| {name} | {_data(record) if first else ''} | {_cell(claim.claim)} | {_verdict(claim, judged)} |"
            )
    for record in records:
        lines += ["", f"## {record['figure']}", "", f"{record['shows'].capitalize()}.", ""]
        lines += [f"![{record['shows']}]({record['figure']}.png)"]
        for claim in judged[record["figure"]]:
            lines += ["", *describe_claim(claim)]
        lines += ["", f"Size `{record['settings']['size']}`, {_data(record)}; {record['cpu_seconds']:.0f} CPU seconds."]
    return "\n".join(lines) + "\n"


def count_verdicts(judged: Mapping[str, Sequence[Claim]]) -> str:
    """How many claims got which verdict; a claim that another figure here judges on the same runs counts there."""
    counted = [claim for claims in judged.values() for claim in claims if claim.counted_in not in judged]
    count = Counter(claim.verdict for claim in counted)
    told = ", ".join(f"{count[verdict]} {verdict.value}" for verdict in ClaimVerdict)
    twice = sum(len(claims) for claims in judged.values()) - len(counted)
    are = "is" if twice == 1 else "are"
    beside = f"; {twice} more {are} on runs of another figure and counted there" if twice else ""
    return f"{len(counted)} claims: {told}{beside}."


def describe_claim(claim: Claim) -> list[str]:
    """A claim in one sentence with its verdict, and a table of the numbers that decided it."""
    lines = [f"**{claim.told.capitalize()}**: {claim.claim} {claim.evidence}"]
    if claim.numbers:
        table = ["", *_table(claim.numbers), ""]
        folds = len(claim.numbers) > _SHORT
        opened, closed = ["", f"<details><summary>{len(claim.numbers)} points</summary>"], ["</details>"]
        lines += [*opened, *table, *closed] if folds else table[:-1]
    if claim.rule:
        strength = "" if claim.strength is None else f" {strength_sentence(claim.strength, claim.unit, claim.over)}."
        lines += ["", f"Rule: {claim.rule}.{strength}"]
    return lines


def _table(rows: Iterable[Mapping[str, str]]) -> list[str]:
    rows = list(rows)
    names = list(rows[0])
    lines = [f"| {' | '.join(names)} |", f"|{'---|' * len(names)}"]
    return lines + [f"| {' | '.join(_cell(row[name]) for name in names)} |" for row in rows]


def _verdict(claim: Claim, judged: Mapping[str, Sequence[Claim]]) -> str:
    told = claim.told if claim.held else f"**{claim.told}**"
    return f"{told} (as in [{claim.counted_in}](#{claim.counted_in}))" if claim.counted_in in judged else told


def _data(record: dict[str, Any]) -> str:
    used = [str(value) for key, value in record["settings"].items() if key.startswith("data (") and value != "none"]
    return ", ".join(dict.fromkeys(used)) or "theory and simulation"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
