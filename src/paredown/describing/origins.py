"""Where an output came from and when it was written, and whether its data have moved or changed since."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from paredown.places import as_place
from paredown.sources import named_dataset


def origin(recorded: Mapping[str, Any] | None, written: float | None) -> dict[str, Any] | None:
    """What a record says of a source, and what is at that place now.

    `state` is `present`, `missing`, `modified` (after the output was written, by the time of the file or folder itself)
    or `in memory`. With `images` if the source was embeddings of images.

    Args:
        recorded: `Source.provenance`, or any part of it.
        written: when the output was written, in seconds; None not to compare.
    """
    if not recorded or recorded.get("location") is None:
        return None
    location = str(recorded["location"])
    facts = {name: recorded[name] for name in ("location", "kind", "examples", "encoder") if name in recorded}
    named = named_dataset(location)
    where = as_place(location) if named is None else named[1]
    if recorded.get("kind") == "array":
        facts["state"] = "in memory"
    elif not where.exists():
        facts["state"] = "missing"
    elif written is not None and (now := modified(where)) > written:
        facts |= {"state": "modified", "modified": as_time(now)}
    else:
        facts["state"] = "present"
    images = origin(recorded.get("images"), written)
    return facts if images is None else facts | {"images": images}


def modified(path: Path) -> float:
    """When a file or folder was modified, in seconds."""
    return path.stat().st_mtime


def as_time(seconds: float) -> str:
    """A time as text that sorts: `2026-11-18T07:13:02Z`."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
