"""What a page says of how scores and a selection were made: warnings, facts, and the commands that make them again."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paredown.embeddings.encoders.known_encoders import ENCODERS
from paredown.text import quoted

_UNRELIABLE = 0.6  # reliability below which half of the ranking is noise, or nearly
_OF_THE_MACHINE = ("memory", "threads")  # options that decide no score
_OWN_OPTIONS = ("k", "recipe", "members", "epochs", "pseudo_labels", "kernel")  # of the command line; others: --option
_K_MATTERS = 0.8  # rank correlation with the scores at another k below which k matters


def warnings_of(record: Mapping[str, Any]) -> list[str]:
    """Everything that whoever trusts the selection should know first."""
    report = record.get("report", {})
    found = [str(text) for text in [*record.get("warnings", ()), *record.get("notes", ())]]
    reliability = report.get("reliability")
    if isinstance(reliability, float) and reliability < _UNRELIABLE:
        found.append(
            f"the scores are noisy: their reliability is {reliability:.2f} of 1, so another seed would rank many "
            "examples differently. Train more networks, or use another metric."
        )
    correlations = report.get("k_sensitivity") or {}
    if correlations:
        k, lowest = min(correlations.items(), key=lambda item: item[1])
        if lowest < _K_MATTERS:
            found.append(
                f"the scores depend on the number of clusters: their rank correlation with those at k = {k} is "
                f"{lowest:.2f} (here k = {report.get('k')}). Try several k, or average an ensemble of encoders."
            )
    skipped = record.get("skipped") or []
    if skipped:
        are = "example could not be read and is" if len(skipped) == 1 else "examples could not be read and are"
        found.append(f"{len(skipped):,} {are} not among those scored.")
    return [text[:1].upper() + text[1:] for text in found]


def facts_of(record: Mapping[str, Any]) -> dict[str, str]:
    """The recipe of the scores, name by name."""
    source, report = record.get("source", {}), record.get("report", {})
    found = {
        "metric": record.get("metric"),
        "options": ", ".join(f"{name} = {value}" for name, value in record.get("options", {}).items()),
        "seed": record.get("seed"),
        "data": source.get("location"),
        "kind of data": source.get("kind"),
        "fingerprint of the data": source.get("fingerprint"),
        "encoder": source.get("encoder"),
        "images": source.get("images", {}).get("location"),
    }
    found |= {name.replace("_", " "): _short(value) for name, value in report.items() if not isinstance(value, dict)}
    return {name: str(value) for name, value in found.items() if value not in (None, "")}


def commands_of(record: Mapping[str, Any], out: str) -> list[str]:
    """The commands that make a manifest again; empty for scores from elsewhere, whose making is not known."""
    source, recipe = record.get("source", {}), record.get("selection")
    if not source.get("location") or not recipe:
        return []
    commands, encoder = [], _encoder_name(str(source.get("encoder") or ""))
    options = f" --encoder {encoder}" if encoder else ""
    images = source.get("images", {}).get("location")
    if images:
        commands.append(f"paredown embed {quoted(images)} -o {quoted(_short_path(source['location']))}{options}")
        options = ""
    options += "".join(_metric_option(name, value) for name, value in record.get("options", {}).items())
    floor = "" if recipe["quota"] != "none" else f" --balance {recipe['balance']}"
    commands.append(
        f"paredown prune {quoted(_short_path(source['location']))} --metric {record.get('metric')}{options}"
        f"{selection_options(recipe)} --keep-fraction {recipe['keep_fraction']}{floor} -o {quoted(out)}"
    )
    return commands


def selection_options(recipe: Mapping[str, Any]) -> str:
    """The options of a selection but for what the page can change, as the command line has them."""
    found = f" --strategy {recipe['strategy']}"
    if recipe["strategy"] in ("window", "stratified"):
        found += f" --drop-hardest {recipe['drop_hardest']}"
    if recipe["quota"] != "none":
        found += f" --quota {recipe['quota']}"
    if recipe["mix_random"]:
        found += f" --mix-random {recipe['mix_random']}"
    return found + f" --seed {recipe['seed']}"


def _metric_option(name: str, value: Any) -> str:
    if value in (None, False) or name in _OF_THE_MACHINE:
        return ""
    if name in _OWN_OPTIONS:
        return f" --{name.replace('_', '-')}" + ("" if value is True else f" {quoted(value)}")
    return f" --option {quoted(f'{name}={value}')}"


def _encoder_name(description: str) -> str | None:
    first = description.split(",")[0].strip()
    return "pixels" if description.startswith("whitened PCA") else first if first in ENCODERS else None


def _short_path(location: str) -> str:
    """A path below the current folder as one would type it."""
    try:
        return str(Path(location).relative_to(Path.cwd()))
    except ValueError:
        return location


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
