"""Selecting from 10^8 scores with a floor for each of 1000 classes: streamed, by a full numpy sort, and by DuckDB.

    python benchmarks/selection.py [--rows 100000000] [--folder DIR]

All read the same Parquet file (`id` int64, `el2n` float32, `label` int32; zstd) and say of every row whether it is
kept: 30 % of all, the highest scores, at least half of an equal share for every class, ties by the seeded hash of the
id. Each runs in a process of its own with one thread; CPU seconds include reading. The streamed side is what
`paredown prune` calls; the last line is all of `prune`, which also writes the manifest of every row.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

CLASSES = 1000
KEEP_FRACTION = 0.3
BALANCE = 0.5
AIM = 4.0  # times faster than each peer
MOST_MEMORY = 0.5  # GiB


def make_table(file: Path, rows: int) -> None:
    """Scores of uneven classes, some of which are harder than others, as real ones are."""
    rng = np.random.default_rng(0)
    share = np.cumsum(1 / np.sqrt(np.arange(1, CLASSES + 1)))
    hardness = rng.normal(0, 0.5, CLASSES).astype(np.float32)
    schema = pa.schema([("id", pa.int64()), ("el2n", pa.float32()), ("label", pa.int32())])
    with pq.ParquetWriter(file, schema, compression="zstd") as writer:
        for first in range(0, rows, 2**20):
            n = min(2**20, rows - first)
            labels = np.searchsorted(share, rng.random(n) * share[-1]).astype(np.int32)
            scores = rng.standard_normal(n, dtype=np.float32) + hardness[labels]
            writer.write_table(pa.table([np.arange(first, first + n), scores, labels], schema=schema))


# --- the contestants: each returns which rows are kept -------------------------------------------------------------


def streamed(file: Path) -> NDArray[np.bool_]:
    import paredown as pdn

    return pdn.select(file, keep_fraction=KEEP_FRACTION, balance=BALANCE, memory=1).keep


def prune(file: Path) -> None:
    import paredown as pdn

    with tempfile.TemporaryDirectory(dir=file.parent) as folder:
        pdn.prune(file, keep_fraction=KEEP_FRACTION, balance=BALANCE, out=Path(folder) / "out", memory=1)


def numpy_sort(file: Path) -> NDArray[np.bool_]:
    from paredown.ids import hash_ids

    table = pq.read_table(file, use_threads=False)
    scores, labels = table["el2n"].to_numpy(), table["label"].to_numpy()
    ties = hash_ids(table["id"].to_numpy(), seed=0)
    del table
    return _sorted_cut(np.lexsort((ties, -scores)), labels)


def numpy_sort_without_ties(file: Path) -> NDArray[np.bool_]:
    table = pq.read_table(file, columns=["el2n", "label"], use_threads=False)
    scores, labels = table["el2n"].to_numpy(), table["label"].to_numpy()
    del table
    return _sorted_cut(np.argsort(-scores), labels)


def _sorted_cut(order: NDArray[np.int64], labels: NDArray[np.int32]) -> NDArray[np.bool_]:
    """The best of each class up to its floor, then the best of the rest, given the order of all."""
    n_keep = round(KEEP_FRACTION * len(labels))
    counts = np.bincount(labels, minlength=CLASSES)
    floors = np.ceil(BALANCE * KEEP_FRACTION * counts - 1e-9).astype(np.int64)
    assert floors.sum() <= n_keep
    ordered = labels[order].astype(np.int16)  # numpy sorts 16-bit numbers by radix
    by_class = np.argsort(ordered, kind="stable")
    starts = np.concatenate([[0], np.cumsum(counts)[:-1]])
    floored = np.zeros(len(order), bool)
    for start, floor in zip(starts.tolist(), floors.tolist(), strict=True):
        floored[by_class[start : start + floor]] = True
    free = n_keep - int(floors.sum())
    floored[np.flatnonzero(~floored)[:free]] = True
    keep = np.empty(len(order), bool)
    keep[order] = floored
    return keep


def duckdb_window(file: Path) -> NDArray[np.bool_]:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1; SET preserve_insertion_order = false; SET enable_progress_bar = false")
    # The same hash of the id as `paredown.ids.hash_ids` with seed 0; DuckDB's own product does not wrap.
    connection.execute(
        """
        CREATE MACRO product(a, b) AS ((a::UHUGEINT * b::UHUGEINT) & 18446744073709551615::UHUGEINT)::UBIGINT;
        CREATE MACRO first(x) AS product(xor(x, x >> 30), 13787848793156543929::UBIGINT);
        CREATE MACRO second(x) AS product(xor(x, x >> 27), 10723151780598845931::UBIGINT);
        CREATE MACRO mixed(x) AS xor(second(first(x)), second(first(x)) >> 31);
        CREATE MACRO tie(id) AS mixed(xor(id::UBIGINT, mixed(11400714819323198485::UBIGINT)))
        """
    )
    rows = pq.read_metadata(file).num_rows
    kept = connection.execute(
        f"""
        WITH hashed AS (SELECT id, el2n, label, tie(id) AS tie FROM read_parquet('{file}')),
        placed AS (
            SELECT id, el2n, tie,
                   row_number() OVER (PARTITION BY label ORDER BY el2n DESC, tie)
                       <= ceil({BALANCE} * {KEEP_FRACTION} * count(*) OVER (PARTITION BY label) - 1e-9) AS floored
            FROM hashed
        )
        SELECT id FROM placed ORDER BY floored DESC, el2n DESC, tie LIMIT {round(KEEP_FRACTION * rows)}
        """
    ).fetchnumpy()["id"]
    keep = np.zeros(rows, bool)
    keep[kept] = True
    return keep


CONTESTANTS: dict[str, Callable[[Path], NDArray[np.bool_] | None]] = {
    "streamed": streamed,
    "numpy sort": numpy_sort,
    "numpy sort, ties left to chance": numpy_sort_without_ties,
    "duckdb window": duckdb_window,
    "streamed, with manifest": prune,
}
PEERS = ("numpy sort", "duckdb window")  # that do the same exactly


# --- one contestant in its own process -----------------------------------------------------------------------------


def run_one(name: str, file: Path, out: Path) -> None:
    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    import paredown.pruning  # noqa: F401  # importing is not selecting

    before = time.process_time(), time.perf_counter()
    keep = CONTESTANTS[name](file)
    seconds, wall = time.process_time() - before[0], time.perf_counter() - before[1]
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    if keep is not None:
        np.save(out, np.packbits(keep))
    sys.stdout.write(json.dumps({"seconds": seconds, "wall": wall, "memory": memory}))


def differing(one: Path, other: Path) -> int:
    """In how many rows two results differ."""
    return int(np.bitwise_count(np.load(one) ^ np.load(other)).sum())


def main() -> None:
    """Run all contestants, or one of them for a run of all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=float, default=1e8)
    parser.add_argument("--folder", type=Path, help="where the table is made, or kept from an earlier run")
    parser.add_argument("--one", nargs=3, metavar=("NAME", "FILE", "OUT"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        name, file, out = arguments.one
        run_one(name, Path(file), Path(out))
        return
    rows = int(arguments.rows)
    with tempfile.TemporaryDirectory(dir=arguments.folder) as temporary:
        file = Path(arguments.folder or temporary) / f"scores-{rows}.parquet"
        if not file.exists():
            make_table(file, rows)
        results: dict[str, dict[str, Any]] = {}
        different = False
        print(f"{rows:,} rows, {CLASSES} classes; {file.stat().st_size / 2**20:.0f} MiB of Parquet\n")
        print(f"{'':34}{'CPU s':>8}{'ratio':>8}{'peak GiB':>10}   kept set")
        for name in CONTESTANTS:
            out = Path(temporary) / f"{name}.npy"
            command = [sys.executable, __file__, "--one", name, str(file), str(out)]
            done = subprocess.run(command, capture_output=True, text=True, check=False)
            if done.returncode:
                print(f"{name:34} failed: {(done.stderr.splitlines() or [f'exit {done.returncode}'])[-1]}")
                continue
            results[name] = json.loads(done.stdout)
            same = ""
            if out.exists() and name != "streamed":
                differ = differing(Path(temporary) / "streamed.npy", out)
                same = "the same" if not differ else f"{differ} rows differ"
                different |= differ > 0 and name in PEERS
            ratio = results[name]["seconds"] / results["streamed"]["seconds"]
            print(f"{name:34}{results[name]['seconds']:8.1f}{ratio:8.1f}{results[name]['memory']:10.2f}   {same}")
        slowest = max(results["streamed"]["seconds"] * AIM / results[name]["seconds"] for name in PEERS)
        reached = slowest <= 1 and results["streamed"]["memory"] <= MOST_MEMORY and not different
        print(f"\nexact, {AIM:g} times faster and within {MOST_MEMORY:g} GiB: {'yes' if reached else 'NO'}")
        sys.exit(0 if reached or rows < 10**8 else 1)


if __name__ == "__main__":
    main()
