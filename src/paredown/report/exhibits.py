"""Which examples a page shows, and what it shows of them: thumbnails, the beginning of texts, or ids alone."""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike, NDArray
from PIL import Image, ImageOps

from paredown.errors import PareError, argument
from paredown.progress import Track
from paredown.report.packing import pack_files
from paredown.report.page_parts import told
from paredown.report.recut_data import RankedRows
from paredown.scored_data import open_scored_data
from paredown.selection.floors import stable_order
from paredown.sources import ImageSource, Skipped
from paredown.sources.image_decoding import decode_image
from paredown.sources.text_columns import read_texts
from paredown.text import with_article

MOST_EXHIBITS = 1_500
_IN_LIST, _IN_CLASS_LIST = 24, 12  # examples of each list that a page opens with, overall and of a class
_SIDE = 96  # pixels of a thumbnail's longer side
_QUALITY = 55
_SNIPPET = 280  # characters of a text


@dataclass(frozen=True)
class Exhibits:
    """Examples with their content. `note` says why there is none."""

    kind: Literal["pictures", "texts", "none"]
    ranks: NDArray[np.int64]
    files: list[bytes] = field(default_factory=list)
    texts: list[str] = field(default_factory=list)
    note: str = ""

    def packed(self, rows: RankedRows) -> dict[str, Any]:
        """As the page reads them."""
        pictures, starts = pack_files(self.files)
        return {
            "kind": self.kind,
            "ranks": self.ranks.tolist(),
            "scores": [float(value) for value in rows.scores.values[rows.row[self.ranks]]],
            "pictures": pictures or None,
            "starts": starts,
            "texts": self.texts,
        }


def gather_exhibits(
    rows: RankedRows,
    *,
    also: NDArray[np.int64],
    source: str | Path | None = None,
    texts: ArrayLike | str | None = None,
    trust_source: bool = False,
    most: int = MOST_EXHIBITS,
    track: Track,
) -> Exhibits:
    """Choose examples to show and read them from the data that were scored; without the data, show ids.

    Args:
        rows: the selection.
        also: ranks to show besides, such as those of near-duplicates.
        source: where the data are now, if they moved.
        texts: one for every row of the scores, or the name of the column of the source that holds them.
        trust_source: take the data although they changed since they were scored.
        most: examples with content in the page, about; 0 for none, and then no data are read.
        track: reports progress.
    """
    ranks = choose_ranks(rows, also, most)
    if most == 0:
        return Exhibits("none", ranks)
    if texts is not None and not isinstance(texts, str):
        given = np.asarray(texts)
        if len(given) != len(rows.keep):
            raise PareError(f"there are {len(given)} texts for {len(rows.keep)} examples; give one per example.")
        return Exhibits("texts", ranks, texts=[_snippet(given[row]) for row in rows.row[ranks].tolist()])
    wanted = rows.scores.ids[rows.row[ranks]]
    try:
        opened, places = open_scored_data(
            rows.scores.provenance,
            wanted,
            source=source,
            trust_source=trust_source,
            what="examples to be shown",
            partial=trust_source,  # of data that changed, whatever is left
        )
    except PareError as error:
        if source is not None or texts is not None:
            raise
        return Exhibits("none", ranks, note=told(error))
    ranks, places = ranks[places >= 0], places[places >= 0]
    if isinstance(opened, ImageSource):
        if texts is not None:
            raise PareError(
                f"{opened.location}: there is no column of texts named {texts!r} in {with_article(opened.kind)}; leave "
                f"{argument('texts')} out to see the pictures, or give a text for each example."
            )
        return _pictures(opened, places, ranks, track)
    found = read_texts(opened, places, column=texts)
    if found is None:
        return Exhibits("none", ranks)
    return Exhibits("texts", ranks, texts=[_snippet(text) for text in found])


def choose_ranks(rows: RankedRows, also: NDArray[np.int64], most: int) -> NDArray[np.int64]:
    """Ranks to show, ascending: the ends of what is kept and dropped, of all and of every class.

    The others are spread evenly over the ranks of every class, for cuts at other places.
    """
    n = len(rows.keep)
    if n <= most:
        return np.arange(n)
    keep = rows.keep[rows.row]
    codes = np.zeros(n, np.int64) if rows.groups is None else rows.groups.codes[rows.row]
    number = 1 if rows.groups is None else max(1, len(rows.groups.classes))
    chosen = np.zeros(n, bool)
    chosen[also] = True
    for kept in (True, False):
        _choose_ends(chosen, np.flatnonzero(keep == kept), _IN_LIST)
    each = min(_IN_CLASS_LIST, max(1, most // (8 * number)))
    by_class = np.split(stable_order(codes, number), np.cumsum(np.bincount(codes, minlength=number))[:-1])
    for ranks in by_class:
        for kept in (True, False):
            _choose_ends(chosen, ranks[keep[ranks] == kept], each)
    left = max(0, most - int(np.count_nonzero(chosen)))
    for ranks in by_class:
        share = round(left * len(ranks) / n)
        if share:
            chosen[ranks[np.linspace(0, len(ranks) - 1, share).astype(np.int64)]] = True
    return np.flatnonzero(chosen)


def _choose_ends(chosen: NDArray[np.bool_], ranks: NDArray[np.int64], number: int) -> None:
    chosen[ranks[:number]] = True
    chosen[ranks[max(0, len(ranks) - number) :]] = True


def _pictures(source: ImageSource, places: NDArray[np.int64], ranks: NDArray[np.int64], track: Track) -> Exhibits:
    files: dict[int, bytes] = {}
    number_of = {row: number for number, row in enumerate(places.tolist())}
    for row, file, name in track(source.pick(sorted(number_of)), "thumbnails", total=len(places)):
        picture = read_thumbnail(file, name)
        if picture is not None:
            files[number_of[row]] = picture
    shown = sorted(files)
    if not shown:
        return Exhibits("none", ranks, note="None of the images to be shown can be read.")
    left = len(ranks) - len(shown)
    note = f"{left:,} of the images to be shown cannot be read." if left else ""
    return Exhibits("pictures", ranks[shown], files=[files[number] for number in shown], note=note)


def read_thumbnail(file: Path | bytes, name: str) -> bytes | None:
    """A thumbnail of an image file; None if it cannot be read or shown."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # such as of a damaged note on how to turn the image
        image = decode_image(file, name)
        try:
            return None if isinstance(image, Skipped) else thumbnail(image)
        except ValueError:  # Pillow reads some colour spaces that it cannot convert
            return None


def thumbnail(image: Image.Image) -> bytes:
    """A small WebP file of an image, turned as its camera noted."""
    small = ImageOps.exif_transpose(image).convert("RGB")
    small.thumbnail((_SIDE, _SIDE), Image.Resampling.LANCZOS)
    stream = io.BytesIO()
    small.save(stream, "WEBP", quality=_QUALITY, method=4)
    return stream.getvalue()


def _snippet(text: object) -> str:
    whole = str(text)
    return whole if len(whole) <= _SNIPPET else f"{whole[:_SNIPPET]}…"
