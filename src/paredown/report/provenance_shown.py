"""What a page says of how scores and a selection were made: warnings, facts, and the commands that make them again."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from paredown.embeddings.encoders.known_encoders import is_encoder_name
from paredown.metrics import OWN_FLAGS
from paredown.metrics.k_sensitivity import KDependence, KSensitivity
from paredown.selection.strategies import DROPPING
from paredown.text import quoted

_OF_THE_MACHINE = ("memory", "threads")  # options that decide no score
_PIXELS_BEFORE = re.compile("whitened PCA")  # how versions without `encoder_name` described the encoder `pixels`


def warnings_of(record: Mapping[str, Any]) -> list[str]:
    """Everything that whoever trusts the selection should know first."""
    found = [str(text) for text in [*record.get("warnings", ()), *record.get("notes", ())]]
    sensitivity = KSensitivity.of(record.get("report", {}))
    if sensitivity is not None and sensitivity.dependence is not KDependence.HARDLY:
        found.append(f"{sensitivity}.")
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
    commands, encoder = [], _encoder_name(source)
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
    if recipe["strategy"] in DROPPING:
        found += f" --drop-hardest {recipe['drop_hardest']}"
    if recipe["quota"] != "none":
        found += f" --quota {recipe['quota']}"
    if recipe["mix_random"]:
        found += f" --mix-random {recipe['mix_random']}"
    return found + f" --seed {recipe['seed']}"


def _metric_option(name: str, value: Any) -> str:
    if value in (None, False) or name in _OF_THE_MACHINE:
        return ""
    if name in OWN_FLAGS:
        return f" --{name.replace('_', '-')}" + ("" if value is True else f" {quoted(value)}")
    return f" --option {quoted(f'{name}={value}')}"


def _encoder_name(source: Mapping[str, Any]) -> str | None:
    """The encoder as `--encoder` takes it; None for a function. Records of 0.1.0 have a description of it only."""
    described = str(source.get("encoder") or "")
    name = source.get("encoder_name") or (_PIXELS_BEFORE.match(described) and "pixels") or described.split(",")[0]
    return name if is_encoder_name(name) else None


def _short_path(location: str) -> str:
    """A path below the current folder as one would type it."""
    try:
        return str(Path(location).relative_to(Path.cwd()))
    except ValueError:
        return location


def _short(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
