"""The data that were scored, found again from what the scores record of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from paredown.errors import PareError, argument
from paredown.ids import find_ids
from paredown.places import as_place, is_path
from paredown.sources import Source, VectorSource, named_dataset, open_source
from paredown.sources.base import FINGERPRINT
from paredown.text import with_article


def open_scored_data(
    provenance: Mapping[str, Any],
    wanted: NDArray[Any],
    *,
    source: str | Path | Source | None = None,
    ids: ArrayLike | None = None,
    trust_source: bool = False,
    what: str = "ids",
    option: str = "source",
    partial: bool = False,
    embeddings: bool = False,
) -> tuple[Source, NDArray[np.int64]]:
    """The source that was scored and the row of every wanted id in it; for embedded images, the images themselves.

    Args:
        provenance: the record of the scores or of the manifest.
        wanted: ids to find in the source.
        source: where the data are now, if they moved since they were scored.
        ids: the ids of the source, if they were given by hand when the data were scored.
        trust_source: take the data although they are not those that were scored, by their fingerprint.
        what: how an error calls the wanted ids.
        option: the argument that errors ask for, where the caller has one of its own for embeddings.
        partial: whether some of them may be missing; their row is -1. All of them never.
        embeddings: open what was scored even where it was made of images.
    """
    recorded = provenance.get("source", {})
    if not embeddings:
        recorded = recorded.get("images", recorded)
    location = recorded.get("location") if source is None else source
    named = is_path(location) and named_dataset(location) is not None  # whose folder is looked for
    if location is None or (is_path(location) and not named and not as_place(location).exists()):
        place = "of these scores were never named" if location is None else f"are no longer at {location}"
        if source is None and recorded.get("kind") == "array":
            place = "were an array in memory"
        raise PareError(f"the data {place}; say where they are with {argument(option, ...)}.")
    opened_with = recorded.get("opened_with", {})
    options = {name: opened_with[name] for name in ("columns", "split", "memory") if name in opened_with}
    opened = open_source(location, ids=ids, on_error="skip", **options)
    before, now = str(recorded.get("fingerprint")), opened.fingerprint()
    comparable = recorded.get("kind") == opened.kind and before.startswith(FINGERPRINT) and now.startswith(FINGERPRINT)
    if comparable and before != now and not trust_source:
        raise PareError(
            f"{opened.location}: these are not the data that were scored; their content has changed since. "
            f"Score them again, give the place of the old ones with {argument(option, ...)}, or continue anyway with "
            f"{argument('trust_source', True)}."
        )
    rows, missing = find_ids(opened.ids, wanted)
    if partial and len(missing) < len(wanted):
        rows[missing] = -1
    elif len(missing):
        raise PareError(
            f"{opened.location}: {len(missing)} of the {len(wanted)} {what} are not in it; "
            f"are these the data that were scored? Give them with {argument(option, ...)}, and their ids with "
            f"{argument('ids', ...)} if you gave ids when you scored."
        )
    return opened, rows


def open_scored_vectors(
    provenance: Mapping[str, Any], wanted: NDArray[Any], *, option: str = "source", **how: Any
) -> tuple[VectorSource, NDArray[np.int64]]:
    """The embeddings that were scored and the row of every wanted id in them; the arguments as `open_scored_data` has.

    Raises:
        PareError: also if images were scored and their embeddings not kept, with what to do.
    """
    opened, rows = open_scored_data(provenance, wanted, option=option, embeddings=True, **how)
    if not isinstance(opened, VectorSource):
        raise PareError(
            f"{opened.location}: embeddings are needed, and this is {with_article(opened.kind)}; embed it with "
            f"`paredown embed` and give the folder with {argument(option, ...)}."
        )
    return opened, rows
