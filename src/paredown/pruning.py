"""The main job in one call: from any source to a folder with the manifest, its provenance and a table of classes."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv
from numpy.typing import ArrayLike

from paredown.data import Labels, Scores
from paredown.encoders.pixels import thumbnail
from paredown.io import check_output, is_scores, new_output, read_scores, score_columns, write_json, write_table
from paredown.kernels import nearest
from paredown.metrics import METRICS
from paredown.metrics.prototypes import choose_k
from paredown.progress import Track, silent
from paredown.scoring import score
from paredown.selection import PAPER_BALANCE, Selection, balance_score, select
from paredown.sources import ImageSource, Skipped, Source, VectorSource

__all__ = ["Estimate", "class_table", "estimate", "prune", "write_selection"]

_ITERATIONS = 30  # of k-means with its seeding and the sensitivity to k, roughly


def prune(
    source: str | Path | ArrayLike | Source | Scores | Sequence[Source],
    *,
    keep_fraction: float,
    out: str | Path | None = None,
    overwrite: bool = False,
    metric: str = "prototypes",
    strategy: str = "hard",
    balance: float | None = None,
    labels: ArrayLike | Labels | None = None,
    seed: int = 0,
    track: Track = silent,
    scoring: dict[str, Any] | None = None,
    **selecting: Any,
) -> Selection:
    """Score a source, keep the wanted fraction, and write the result to the folder `out` if it is given.

    Scores, a score file or the output of an earlier `prune` are taken as they are and only selected from again.

    Args:
        source: anything `open_source` takes, opened sources, or scores.
        keep_fraction, strategy, labels, **selecting: see `select`.
        out: a folder that will hold `manifest.parquet`, `manifest.json` and `classes.csv`.
        overwrite: replace an existing `out`.
        metric: a name in `METRICS`.
        balance: the floor; defaults to the paper's 0.5 wherever there are labels or clusters to balance.
        seed: decides samples, ties and everything random.
        track: reports progress.
        scoring: further options of `score`, such as `{"k": 100}`.
    """
    # Settings are checked on a tiny selection first: a mistake must not wait for the scoring to end.
    selecting |= {"keep_fraction": keep_fraction, "strategy": strategy, "seed": seed}
    select(np.zeros(1), labels=[0], balance=balance, **selecting)

    if out is not None:
        check_output(Path(out), overwrite=overwrite, folder=True)
    scores = _scores(source, metric=metric, labels=labels, seed=seed, track=track, options=scoring or {})
    groupable = scores.labels is not None or scores.clusters is not None or labels is not None
    floor = (PAPER_BALANCE if groupable else 0.0) if balance is None else balance
    kept = select(scores, labels=labels, balance=floor, **selecting)
    if out is not None:
        with new_output(Path(out), overwrite=overwrite, folder=True) as folder:
            write_selection(kept, folder)
    return kept


def write_selection(kept: Selection, folder: Path) -> None:
    """Write `manifest.parquet`, `manifest.json` and `classes.csv` into a folder."""
    write_table(kept.manifest(), folder / "manifest.parquet")
    table, b = class_table(kept)
    if table is not None:
        pyarrow.csv.write_csv(table, folder / "classes.csv")
    write_json(kept.provenance() | {"balance_score": b}, folder / "manifest.json")


def _scores(source: Any, *, metric: str, labels: Any, seed: int, track: Track, options: dict[str, Any]) -> Scores:
    if isinstance(source, Scores):
        return source
    if isinstance(source, str | Path) and is_scores(source):
        file = Path(source) / "manifest.parquet" if Path(source).is_dir() else Path(source)
        return read_scores(file, metric=metric if metric in score_columns(file) else None)
    return score(source, metric=metric, labels=labels, seed=seed, track=track, **options)


def class_table(kept: Selection) -> tuple[pa.Table | None, dict[str, float]]:
    """Per class (or cluster, without labels): examples, kept, score range; and the balance score b before and after."""
    scores = kept.scores
    groups, name = scores.labels, "class"
    if groups is None and scores.clusters is not None:
        groups, name = Labels.of(scores.clusters), "cluster"
    if groups is None:
        return None, {}
    counts, left = groups.counts, groups[kept.keep].counts
    order = np.lexsort((scores.values, groups.codes))
    ends = np.cumsum(counts)
    ordered = scores.values[order]
    columns = {
        name: pa.array(groups.classes),
        "examples": counts,
        "kept": left,
        "kept_fraction": left / np.maximum(counts, 1),
        "score_min": ordered[np.minimum(ends - counts, len(ordered) - 1)],
        "score_median": ordered[np.minimum(ends - counts + counts // 2, len(ordered) - 1)],
        "score_max": ordered[ends - 1],
    }
    return pa.table(columns), {"before": balance_score(groups), "after": balance_score(groups[kept.keep])}


@dataclass(frozen=True)
class Estimate:
    """What scoring will take, measured on a small piece before the long work starts."""

    examples: int
    dim: int | None
    k: int | None
    memory: int  # bytes
    seconds: float | None

    def __str__(self) -> str:
        size = f"{self.examples:,} examples" + (f" x {self.dim} dimensions" if self.dim else "")
        time_ = "" if self.seconds is None else f", about {_duration(self.seconds)}"
        return f"{size}; about {_bytes(self.memory)} of memory{time_}"


def estimate(source: Source, *, metric: str = "prototypes", k: int | None = None) -> Estimate:
    """Rows, memory and time of scoring a source, from measuring how long a small piece takes."""
    n = len(source)
    if "embeddings" not in METRICS[metric].needs:
        return Estimate(n, None, None, 64 * n, 0.0)
    if isinstance(source, ImageSource):
        looked_at = min(n, 16)
        seconds = _seconds(
            lambda: [thumbnail(i) for i in islice(source.images(), looked_at) if not isinstance(i, Skipped)]
        )
        return Estimate(n, None, None, n * 3_072 + 64 * n, seconds * n / looked_at)
    assert isinstance(source, VectorSource)
    block = next(source.batches())
    reading = 2 * _seconds(lambda: next(source.batches())) * n / len(block.ids)  # one pass to fit, one to score
    memory = 4 * source.dim * 3 * len(block.ids) + 64 * n
    if metric != "prototypes":
        return Estimate(n, source.dim, None, memory, reading)
    k = min(choose_k(source) if k is None else max(k, 1), n)
    sample = min(n, 256 * k)
    rows = block.vectors[:512]
    products = _seconds(lambda: nearest(rows, np.resize(rows, (k, source.dim)))) / len(rows)
    memory += min(4 * source.dim * (sample + k), 2**29)
    return Estimate(n, source.dim, k, memory, reading + products * (n + _ITERATIONS * sample))


def _seconds(work: Callable[[], Any]) -> float:
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{max(1, round(seconds))} s"
    return f"{round(seconds / 60)} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _bytes(size: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit in ("B", "KiB") else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} TiB"
