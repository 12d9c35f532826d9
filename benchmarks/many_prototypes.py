"""How much quicker is the approximate search among groups of centroids than the exact one and faiss's inverted lists?

CPU microseconds a row on one thread, all in turn on the same centroids and rows, which are like those that were
clustered, but not among them. faiss has as many lists as paredown has groups, and the fewest probes (doubling) with
which it finds as many nearest centroids. `--embeddings` takes a file of real ones, `.npy` or `.npz`, which are too few
for the largest k: the rest of what is clustered are copies with noise.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from pathlib import Path
from time import process_time
from typing import Any

os.environ |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")

import faiss
import numpy as np
from prototypes import structured

from paredown.clustering.kernels import choose_search
from paredown.clustering.kernels.exact import ExactSearch
from paredown.clustering.kernels.grouped import HARDEST, GroupedSearch, measure_agreement
from paredown.clustering.lloyd import group_in_two_levels, grouped_search
from paredown.metrics.prototypes import AGREEMENT_ROWS

SIZES = (4_096, 20_000, 50_000, 100_000)
ROWS = 8_192  # that are timed
ROWS_PER_CENTROID = 4  # of the fit: enough for directions like those of centroids
NOISE = 0.3  # of a copy, in standard deviations of every dimension


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--embeddings", type=Path, help="real embeddings; made ones of --dim dimensions without")
    parser.add_argument("--dim", type=int, default=256)
    parser.add_argument("--sizes", type=int, nargs="+", default=SIZES)
    options = parser.parse_args()
    faiss.omp_set_num_threads(1)
    print("| k | float32 | exact | grouped | probes | nearest | hardest | faiss IVF | nprobe | nearest | hardest |")
    print("|---|---|---|---|---|---|---|---|---|---|---|")
    for k in options.sizes:
        fitted, apart, rows = data(options.embeddings, options.dim, k)
        compare(k, fitted, apart, rows)


def data(file: Path | None, dim: int, k: int) -> tuple[Any, Any, Any]:
    """Rows to fit k centroids to, and two sets that are held out: one to choose probes with, one to time."""
    rng, n = np.random.default_rng(0), ROWS_PER_CENTROID * k
    if file is None:
        with tempfile.TemporaryDirectory() as folder:
            structured(Path(folder) / "rows.npy", n + AGREEMENT_ROWS + ROWS, dim)
            rows = np.load(Path(folder) / "rows.npy")
        return rows[:n], rows[n : n + AGREEMENT_ROWS], rows[n + AGREEMENT_ROWS :]
    read = np.load(file)
    rows = read if isinstance(read, np.ndarray) else next(read[name] for name in read.files if read[name].ndim == 2)
    rows = rng.permutation(rows.astype(np.float32))
    apart, timed, rest = np.split(rows, [AGREEMENT_ROWS, AGREEMENT_ROWS + ROWS])
    spread = NOISE * rows.std(axis=0)
    copies = [rest]
    while sum(map(len, copies)) < n:
        copies.append(rest + spread * rng.standard_normal(rest.shape).astype(np.float32))
    return tuple(unit(part) for part in (rng.permutation(np.concatenate(copies)[:n]), apart, timed))


def unit(rows: Any) -> Any:
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def compare(k: int, fitted: Any, apart: Any, rows: Any) -> None:
    """One line of the table."""
    centroids = group_in_two_levels(fitted, k, np.random.default_rng(0), 5).centroids
    seconds, (_, truth) = timed(lambda: ExactSearch(centroids)(rows))
    chosen = choose_search(centroids, rows, n=10**9)
    by_chosen, _ = timed(lambda: chosen(rows))
    search = grouped_search(centroids, 1)
    probes = measure_agreement(search, apart).probes
    search = GroupedSearch(search.centroids, search.starts, search.middles, probes)
    ours, (_, cosine) = timed(lambda: search(rows))
    theirs, nprobe, found = inverted_lists(centroids, len(search.middles), rows, truth, nearest(truth, cosine))
    print(
        f"| {k:,} | {seconds:.0f} | {by_chosen:.0f} ({chosen.name}) | {ours:.1f} | {probes} of {len(search.middles)} "
        f"| {nearest(truth, cosine):.2%} | {hardest(truth, cosine):.2%} "
        f"| {theirs:.1f} | {nprobe} | {nearest(truth, found):.2%} | {hardest(truth, found):.2%} |",
        flush=True,
    )


def inverted_lists(centroids: Any, lists: int, rows: Any, truth: Any, wanted: float) -> tuple[float, int, Any]:
    """Faiss with the fewest probes, doubling, that find as many nearest centroids as are wanted."""
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(rows.shape[1]), rows.shape[1], lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.spherical = True
    index.train(centroids)
    index.add(centroids)
    index.nprobe = 1
    while True:
        seconds, (found, _) = timed(lambda: index.search(rows, 1))
        if nearest(truth, found[:, 0]) >= wanted or index.nprobe >= lists:
            return seconds, index.nprobe, found[:, 0]
        index.nprobe *= 2


def nearest(truth: Any, cosine: Any) -> float:
    """How many found their nearest centroid, up to the rounding of another product."""
    return float((cosine >= truth - 1e-6).mean())


def hardest(truth: Any, cosine: Any) -> float:
    """How much of the hardest rows by the exact cosine is among the hardest by another one."""
    count = round(HARDEST * len(truth))
    return len(np.intersect1d(np.argsort(truth)[:count], np.argsort(cosine)[:count])) / count


def timed(search: Any) -> tuple[float, Any]:
    """Microseconds a row, the least of two times, and what was found."""
    times, found = [], None
    for _ in range(2):
        start = process_time()
        found = search()
        times.append(process_time() - start)
    return 1e6 * min(times) / ROWS, found


if __name__ == "__main__":
    main()
