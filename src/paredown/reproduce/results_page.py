"""All figures of a folder on one page: `results.md`, with the pictures, the claims and whether they held."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from paredown.files import write_whole
from paredown.records import read_record
from paredown.reproduce.base import Claim

SUMMARY = "results.md"


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
    claims = [claim for some in judged.values() for claim in some]
    held = sum(claim.held for claim in claims)
    lines = [
        "# Results",
        "",
        f"{len(records)} figures and tables; {held} of {len(claims)} claims held.",
        "",
        "| figure | data | claim | verdict |",
        "|---|---|---|---|",
    ]
    for record in records:
        for number, claim in enumerate(judged[record["figure"]]):
            first = number == 0
            name = f"[{record['figure']}](#{record['figure']})" if first else ""
            lines.append(
                f"| {name} | {_data(record) if first else ''} | {_cell(claim.claim)} | "
                f"{claim.verdict.value if claim.held else f'**{claim.verdict.value}**'} |"
            )
    for record in records:
        lines += ["", f"## {record['figure']}", "", f"{record['shows'].capitalize()}.", ""]
        lines += [f"![{record['shows']}]({record['figure']}.png)", ""]
        for claim in judged[record["figure"]]:
            lines.append(f"- **{claim.verdict.value.capitalize()}**: {claim.claim} {claim.evidence}")
        lines += ["", f"Size `{record['settings']['size']}`, {_data(record)}; {record['cpu_seconds']:.0f} CPU seconds."]
    return "\n".join(lines) + "\n"


def _data(record: dict[str, Any]) -> str:
    used = [str(value) for key, value in record["settings"].items() if key.startswith("data (") and value != "none"]
    return ", ".join(dict.fromkeys(used)) or "theory and simulation"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")
